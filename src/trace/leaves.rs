//! The single values of a tool's return, each with its JSON pointer and its text as written (`170.50` stays `170.50`).
//!
//! In: a return's raw JSON text. Out: leaves in document order; text that is not JSON is one leaf at the root. The text is checked
//! by `serde_json` first; then one walk over it gives every leaf as a slice of it, where no escape stands in a string.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::scan::Scan;

/// Objects within objects beyond this are not read: no return is that deep, and recursion must end.
const DEEPEST: usize = 64;

/// One string, number, boolean or null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// JSON pointer within the return.
    pub pointer: String,
    /// The nearest key above it; empty at the root.
    pub key: String,
    /// A string's content, or a number as written.
    pub text: String,
    /// What JSON says it is.
    pub kind: LeafKind,
}

/// JSON type of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafKind {
    /// A string.
    Text,
    /// A number.
    Number,
    /// `true`, `false` or `null`.
    Constant,
}

/// A leaf that borrows from its return; fields as in [`Leaf`].
pub(crate) struct LeafView<'p, 'a> {
    pub pointer: &'p str,
    pub key: &'p Cow<'a, str>,
    pub text: Cow<'a, str>,
    pub kind: LeafKind,
}

/// All leaves of a return.
pub fn leaves(return_text: &str) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    each_leaf(return_text, |leaf| {
        leaves.push(Leaf {
            pointer: leaf.pointer.to_owned(),
            key: leaf.key.clone().into_owned(),
            text: leaf.text.into_owned(),
            kind: leaf.kind,
        });
    });
    leaves
}

/// Calls `take` with each leaf of a return.
pub(crate) fn each_leaf<'a>(return_text: &'a str, take: impl FnMut(LeafView<'_, 'a>)) {
    let mut walk = Walk { text: return_text, at: 0, pointer: String::new(), keys: vec![Cow::Borrowed("")], take };
    match serde_json::from_str::<&RawValue>(return_text) {
        Ok(_) => walk.value(0),
        Err(_) => walk.leaf(Cow::Borrowed(return_text), LeafKind::Text),
    }
}

/// A walk over text that is valid JSON.
struct Walk<'a, F> {
    text: &'a str,
    at: usize,
    pointer: String,
    /// The keys above, the nearest last.
    keys: Vec<Cow<'a, str>>,
    take: F,
}

impl<'a, F: FnMut(LeafView<'_, 'a>)> Walk<'a, F> {
    fn leaf(&mut self, text: Cow<'a, str>, kind: LeafKind) {
        if let Some(key) = self.keys.last() {
            (self.take)(LeafView { pointer: &self.pointer, key, text, kind });
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// The next byte that is not blank.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.at += blank;
        rest.get(blank).copied()
    }

    fn value(&mut self, depth: usize) {
        match self.peek() {
            None => {}
            Some(_) if depth > DEEPEST => self.at += Scan::default().end(self.rest()).unwrap_or(self.rest().len()),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => {
                let text = self.string();
                self.leaf(text, LeafKind::Text);
            }
            Some(first) => {
                let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace();
                let length = self.rest().iter().position(is_end).unwrap_or(self.rest().len());
                let text = &self.text[self.at..self.at + length];
                self.at += length;
                let kind = if first.is_ascii_alphabetic() { LeafKind::Constant } else { LeafKind::Number };
                self.leaf(Cow::Borrowed(text), kind);
            }
        }
    }

    fn object(&mut self, depth: usize) {
        self.at += 1;
        let length = self.pointer.len();
        loop {
            match self.peek() {
                Some(b'"') => {
                    let name = self.string();
                    self.peek();
                    // The colon.
                    self.at += 1;
                    self.pointer.push('/');
                    push_escaped(&mut self.pointer, &name);
                    self.keys.push(name);
                    self.value(depth + 1);
                    self.keys.pop();
                    self.pointer.truncate(length);
                }
                Some(b',') => self.at += 1,
                _ => break self.at += 1,
            }
        }
    }

    /// Items have their list's key.
    fn list(&mut self, depth: usize) {
        use fmt::Write as _;
        self.at += 1;
        let length = self.pointer.len();
        let mut index = 0;
        loop {
            match self.peek() {
                Some(b',') => self.at += 1,
                None | Some(b']') => break self.at += 1,
                Some(_) => {
                    // Writing to a string cannot fail.
                    let _ = write!(self.pointer, "/{index}");
                    self.value(depth + 1);
                    self.pointer.truncate(length);
                    index += 1;
                }
            }
        }
    }

    /// The string that starts here; empty where its escapes make no text.
    fn string(&mut self) -> Cow<'a, str> {
        let start = self.at;
        let mut has_escapes = false;
        self.at += 1;
        loop {
            let rest = self.rest();
            let Some(offset) = memchr::memchr2(b'"', b'\\', rest) else {
                self.at = self.text.len();
                return Cow::Borrowed("");
            };
            if rest[offset] == b'"' {
                self.at += offset + 1;
                break;
            }
            has_escapes = true;
            self.at += offset + 2;
        }
        let quoted = &self.text[start..self.at];
        if has_escapes {
            Cow::Owned(serde_json::from_str(quoted).unwrap_or_default())
        } else {
            Cow::Borrowed(&quoted[1..quoted.len() - 1])
        }
    }
}

/// A name as JSON pointers write it.
fn push_escaped(pointer: &mut String, name: &str) {
    if name.contains(['~', '/']) {
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    } else {
        pointer.push_str(name);
    }
}

/// An object's members in order, values as written.
pub(super) struct Members<'a>(pub Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(MembersVisitor).map(Members)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by `serde_json`, level by level.
    fn by_serde(raw: &str, pointer: &str, key: &str, depth: usize, leaves: &mut Vec<Leaf>) {
        let leaf = |text: String, kind| Leaf { pointer: pointer.to_owned(), key: key.to_owned(), text, kind };
        match raw.as_bytes()[0] {
            _ if depth > DEEPEST => {}
            b'{' => {
                for (name, value) in serde_json::from_str::<Members<'_>>(raw).expect("an object").0 {
                    let escaped = name.replace('~', "~0").replace('/', "~1");
                    by_serde(value.get(), &format!("{pointer}/{escaped}"), &name, depth + 1, leaves);
                }
            }
            b'[' => {
                let items = serde_json::from_str::<Vec<&RawValue>>(raw).expect("a list");
                for (index, item) in items.into_iter().enumerate() {
                    by_serde(item.get(), &format!("{pointer}/{index}"), key, depth + 1, leaves);
                }
            }
            b'"' => leaves.push(leaf(serde_json::from_str(raw).unwrap_or_default(), LeafKind::Text)),
            b't' | b'f' | b'n' => leaves.push(leaf(raw.to_owned(), LeafKind::Constant)),
            _ => leaves.push(leaf(raw.to_owned(), LeafKind::Number)),
        }
    }

    /// Strings with and without escapes, also one whose escapes make no text.
    const WORDS: [&str; 7] = ["a", "a~b/c", "", r#"\"q\\"#, r"\u00e9", "é ", r"\ud800"];

    fn json() -> impl Strategy<Value = String> {
        let word = (0..WORDS.len() - 1).prop_map(|index| format!("\"{}\"", WORDS[index]));
        let scalar = prop_oneof![
            (0..WORDS.len()).prop_map(|index| format!("\"{}\"", WORDS[index])),
            Just("170.50".to_owned()),
            Just("-1e9".to_owned()),
            Just("true".to_owned()),
            Just("null".to_owned()),
        ];
        scalar.prop_recursive(6, 40, 5, move |inner| {
            let space = prop_oneof![Just(""), Just(" "), Just("\n\t")];
            let list = (space.clone(), proptest::collection::vec(inner.clone(), 0..5)).prop_map(|(space, items)| {
                format!("{space}[{space}{}{space}]{space}", items.join(&format!("{space},")))
            });
            let members = proptest::collection::vec((word.clone(), inner), 0..5);
            let object = (space, members).prop_map(|(space, members)| {
                let members: Vec<String> =
                    members.into_iter().map(|(name, value)| format!("{name}{space}:{space}{value}")).collect();
                format!("{{{space}{}{space}}}", members.join(&format!("{space},{space}")))
            });
            prop_oneof![list, object]
        })
    }

    proptest! {
        #[test]
        fn one_walk_finds_the_leaves_that_reading_level_by_level_finds(text in json()) {
            let mut expected = Vec::new();
            by_serde(text.trim(), "", "", 0, &mut expected);
            prop_assert_eq!(leaves(&text), expected, "{}", text);
        }
    }

    #[test]
    fn text_that_is_no_json_is_one_leaf_and_what_is_too_deep_is_none() {
        assert_eq!(leaves("no {json").len(), 1);
        let nested = |depth: usize| format!("{}1, 2{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(leaves(&nested(DEEPEST)).len(), 2);
        assert_eq!(leaves(&format!("[{}, 3]", nested(DEEPEST))).len(), 1);
        assert_eq!(leaves(&nested(100_000)).len(), 0);
    }
}
