//! The single values of a tool's return, each with its JSON pointer and its text as written (`170.50` stays `170.50`).
//!
//! In: a return's raw JSON text. Out: [`Leaf`]s in document order; text that is not JSON is one leaf at the root.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

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

/// All leaves of a return.
pub fn leaves(return_text: &str) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    match serde_json::from_str::<&RawValue>(return_text) {
        Ok(value) => collect(value.get(), "", "", 0, &mut leaves),
        Err(_) => leaves.push(Leaf {
            pointer: String::new(),
            key: String::new(),
            text: return_text.to_owned(),
            kind: LeafKind::Text,
        }),
    }
    leaves
}

fn collect(raw: &str, pointer: &str, key: &str, depth: usize, leaves: &mut Vec<Leaf>) {
    let leaf = |text: String, kind| Leaf { pointer: pointer.to_owned(), key: key.to_owned(), text, kind };
    match raw.as_bytes().first() {
        _ if depth > DEEPEST => {}
        Some(b'{') => {
            let members = serde_json::from_str::<Members<'_>>(raw).map(|members| members.0).unwrap_or_default();
            for (name, value) in members {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                collect(value.get(), &format!("{pointer}/{escaped}"), &name, depth + 1, leaves);
            }
        }
        Some(b'[') => {
            let items = serde_json::from_str::<Vec<&RawValue>>(raw).unwrap_or_default();
            for (index, item) in items.into_iter().enumerate() {
                collect(item.get(), &format!("{pointer}/{index}"), key, depth + 1, leaves);
            }
        }
        Some(b'"') => leaves.push(leaf(serde_json::from_str(raw).unwrap_or_default(), LeafKind::Text)),
        Some(b't' | b'f' | b'n') => leaves.push(leaf(raw.to_owned(), LeafKind::Constant)),
        _ => leaves.push(leaf(raw.to_owned(), LeafKind::Number)),
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
