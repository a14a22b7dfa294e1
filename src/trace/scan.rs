//! Where a JSON value ends, told by its brackets and quotes alone; whether it is valid is `serde_json`'s to say.
//!
//! In: chunks of bytes, from the value's first on. Out: the place after its last.

/// Finds where a value ends, over chunks.
#[derive(Default)]
pub(super) struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// A string, or anything within brackets, was seen; otherwise a comma, a bracket or a blank ends the value.
    is_composed: bool,
    /// The value has a byte before the one at hand.
    is_begun: bool,
}

impl Scan {
    /// Whether the end of the file ends it.
    pub fn is_scalar(&self) -> bool {
        !self.is_composed
    }

    /// The byte after the value's last one, if it is in this chunk.
    pub fn end(&mut self, chunk: &[u8]) -> Option<usize> {
        for (at, &byte) in chunk.iter().enumerate() {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                } else if byte == b'\\' {
                    self.escaped = true;
                } else if byte == b'"' {
                    self.in_string = false;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                continue;
            }
            match byte {
                b'{' | b'[' => {
                    self.depth += 1;
                    self.is_composed = true;
                }
                b'"' => {
                    self.in_string = true;
                    self.is_composed = true;
                }
                b'}' | b']' if self.depth > 1 => self.depth -= 1,
                b'}' | b']' if self.depth == 1 => return Some(at + 1),
                // Of no use as a first byte, but taken: a reader must get on.
                b'}' | b']' | b',' if self.depth == 0 => return Some(if self.is_begun { at } else { at + 1 }),
                _ if self.depth == 0 && byte.is_ascii_whitespace() => return Some(at),
                _ => {}
            }
            self.is_begun = true;
        }
        None
    }
}
