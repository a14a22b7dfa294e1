//! Lists and dictionaries as Python prints them (`['a', 'b']`, `{'base': 1}`): some logs hold them inside strings.
//!
//! In: text. Out: its single values as [`Leaf`]s, numbers as written; `None` for anything else. No evaluation, no recursion
//! beyond a fixed depth.

use crate::trace::{Leaf, LeafKind};

/// Containers within containers beyond this are not read.
const DEEPEST: usize = 16;

/// The leaves of a Python list, tuple, set or dictionary that fills `text`; pointers start with `pointer`.
pub(super) fn leaves(text: &str, pointer: &str, key: &str) -> Option<Vec<Leaf>> {
    let text = text.trim();
    if !text.starts_with(['[', '(', '{']) {
        return None;
    }
    let mut reader = Reader { rest: text, leaves: Vec::new() };
    reader.value(pointer, key, 0)?;
    reader.rest.is_empty().then_some(reader.leaves)
}

struct Reader<'a> {
    rest: &'a str,
    leaves: Vec<Leaf>,
}

impl Reader<'_> {
    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, character: char) -> bool {
        self.skip_spaces();
        let rest = self.rest.strip_prefix(character);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self, pointer: &str, key: &str, depth: usize) -> Option<()> {
        self.skip_spaces();
        if depth > DEEPEST {
            return None;
        }
        match self.rest.chars().next()? {
            '[' => self.items(('[', ']'), pointer, key, depth),
            '(' => self.items(('(', ')'), pointer, key, depth),
            '{' => self.members(pointer, key, depth),
            '\'' | '"' => {
                let text = self.string()?;
                self.leaf(pointer, key, text, LeafKind::Text);
                Some(())
            }
            _ => self.word(pointer, key),
        }
    }

    fn items(&mut self, brackets: (char, char), pointer: &str, key: &str, depth: usize) -> Option<()> {
        let (open, close) = brackets;
        self.take(open).then_some(())?;
        for index in 0.. {
            if self.take(close) {
                break;
            }
            self.value(&format!("{pointer}/{index}"), key, depth + 1)?;
            if !self.take(',') {
                self.take(close).then_some(())?;
                break;
            }
        }
        Some(())
    }

    /// A dictionary, or a set (whose items have no keys).
    fn members(&mut self, pointer: &str, key: &str, depth: usize) -> Option<()> {
        let before = self.rest;
        self.take('{').then_some(())?;
        self.skip_spaces();
        while !self.take('}') {
            let is_keyed = self.rest.starts_with(['\'', '"']);
            let name = if is_keyed { self.string()? } else { String::new() };
            if !is_keyed || !self.take(':') {
                self.rest = before;
                return self.items(('{', '}'), pointer, key, depth);
            }
            let escaped = name.replace('~', "~0").replace('/', "~1");
            self.value(&format!("{pointer}/{escaped}"), &name, depth + 1)?;
            if !self.take(',') {
                self.take('}').then_some(())?;
                break;
            }
            self.skip_spaces();
        }
        Some(())
    }

    fn string(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut text = String::new();
        let mut characters = self.rest[1..].char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                _ if character == quote => {
                    self.rest = &self.rest[1 + at + 1..];
                    return Some(text);
                }
                '\\' => {
                    let (_, escaped) = characters.next()?;
                    match escaped {
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        'r' => text.push('\r'),
                        'x' => text.push(code_point(&mut characters, 2)?),
                        'u' => text.push(code_point(&mut characters, 4)?),
                        'U' => text.push(code_point(&mut characters, 8)?),
                        '\\' | '\'' | '"' => text.push(escaped),
                        // Python keeps the backslash of an escape that it does not know.
                        other => text.extend(['\\', other]),
                    }
                }
                other => text.push(other),
            }
        }
        None
    }

    /// A number, `True`, `False` or `None`.
    fn word(&mut self, pointer: &str, key: &str) -> Option<()> {
        let end = self.rest.find([',', ']', ')', '}', ':']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let word = word.trim();
        let kind = match word {
            "True" | "False" | "None" => LeafKind::Constant,
            _ if word.starts_with(|first: char| first.is_ascii_digit() || first == '-' || first == '.') => {
                word.parse::<f64>().ok()?;
                LeafKind::Number
            }
            _ => return None,
        };
        self.leaf(pointer, key, word.to_owned(), kind);
        self.rest = rest;
        Some(())
    }

    fn leaf(&mut self, pointer: &str, key: &str, text: String, kind: LeafKind) {
        self.leaves.push(Leaf { pointer: pointer.to_owned(), key: key.to_owned(), text, kind });
    }
}

fn code_point(characters: &mut std::str::CharIndices<'_>, digits: usize) -> Option<char> {
    let mut code = 0;
    for _ in 0..digits {
        code = code * 16 + characters.next()?.1.to_digit(16)?;
    }
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::leaves;

    fn pairs(text: &str) -> Option<Vec<(String, String)>> {
        let found = leaves(text, "/v", "v")?;
        Some(found.into_iter().map(|leaf| (leaf.pointer, leaf.text)).collect())
    }

    fn owned(items: &[(&str, &str)]) -> Vec<(String, String)> {
        items.iter().map(|(pointer, text)| ((*pointer).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn lists_and_dictionaries_as_python_prints_them_give_their_values() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("['a b', \"it's\"]", &[("/v/0", "a b"), ("/v/1", "it's")]),
            ("[{'amount': 824.60, 'to': 'X, Y'}]", &[("/v/0/amount", "824.60"), ("/v/0/to", "X, Y")]),
            ("{'a/b': None, 'c': (1, -2.5,)}", &[("/v/a~1b", "None"), ("/v/c/0", "1"), ("/v/c/1", "-2.5")]),
            (
                r"['caf\xe9', 'tab\t', '\u00fc\'', 'a\d']",
                &[("/v/0", "café"), ("/v/1", "tab\t"), ("/v/2", "ü'"), ("/v/3", r"a\d")],
            ),
            ("{'x', 'y'}", &[("/v/0", "x"), ("/v/1", "y")]),
            ("[]", &[]),
            (" [ [ 1 ] , True ] ", &[("/v/0/0", "1"), ("/v/1", "True")]),
        ];
        for (text, expected) in cases {
            assert_eq!(pairs(text), Some(owned(expected)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_left_as_text() {
        for text in [
            "plain",
            "'quoted'",
            "[Your Name]",
            "['open",
            "['a'",
            "[1, oops]",
            "['a'] and more",
            "{'a': }",
            "",
            "[",
            "{,}",
            r"['\x4",
        ] {
            assert_eq!(pairs(text), None, "{text}");
        }
        let deep = "[".repeat(10_000);
        assert_eq!(pairs(&deep), None);
    }
}
