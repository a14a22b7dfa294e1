//! Where a JSON value ends, told by its brackets and quotes alone; whether it is valid is `serde_json`'s to say.
//!
//! In: chunks of bytes, from the value's first on. Out: the place after its last.

/// Finds where a value ends, over chunks.
#[derive(Default)]
pub(super) struct Scan {
    depth: usize,
    state: State,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Before the first byte.
    #[default]
    Start,
    /// In a number or a word: a comma, a bracket or a blank ends it.
    Scalar,
    /// Within brackets, outside strings.
    Outside,
    String,
    /// After a backslash in a string.
    Escape,
}

impl Scan {
    /// Whether the end of the file ends it.
    pub fn is_scalar(&self) -> bool {
        matches!(self.state, State::Start | State::Scalar)
    }

    /// The byte after the value's last one, if it is in this chunk.
    pub fn end(&mut self, chunk: &[u8]) -> Option<usize> {
        for (at, &byte) in chunk.iter().enumerate() {
            self.state = match (self.state, byte) {
                (State::String, b'\\') => State::Escape,
                (State::String, b'"') if self.depth == 0 => return Some(at + 1),
                (State::String, b'"') => State::Outside,
                (State::Escape | State::String, _) | (_, b'"') => State::String,
                (_, b'{' | b'[') => {
                    self.depth += 1;
                    State::Outside
                }
                (State::Outside, b'}' | b']') if self.depth == 1 => return Some(at + 1),
                (State::Outside, b'}' | b']') => {
                    self.depth -= 1;
                    State::Outside
                }
                (State::Outside, _) => State::Outside,
                // Of no use as a first byte, but taken: a reader must get on.
                (State::Start, b'}' | b']' | b',') => return Some(at + 1),
                (State::Scalar, b'}' | b']' | b',') => return Some(at),
                (_, byte) if byte.is_ascii_whitespace() => return Some(at),
                _ => State::Scalar,
            };
        }
        None
    }
}
