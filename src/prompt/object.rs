//! The first JSON object within prose, in one pass: replies of models may be long and full of braces.
//!
//! In: text. Out: [`FirstObject`]. Whether the braces of a text open objects is settled from the last to the first, so that what
//! stands within an object is settled when the object is read, and is passed over in one step. No byte is read on its own more than
//! twice: of two objects that both read it, one takes it for part of a string.

/// What the first brace that opens an object gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstObject<'a> {
    /// A whole object.
    Whole(&'a str),
    /// An object that the text does not close.
    Open,
    /// None.
    Absent,
}

/// How reading a JSON value ended without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Something stands where it must not.
    Syntax,
    /// The text ends within it.
    End,
}

type Outcome = Result<usize, Fault>;

/// The first object of a text; braces in prose that do not open one are passed over.
pub(super) fn first_object(text: &str) -> FirstObject<'_> {
    let mut objects = Objects::new(text);
    objects.settle();
    // Braces were settled from the last to the first.
    for (start, outcome) in objects.settled.iter().rev() {
        match outcome {
            Ok(end) => return FirstObject::Whole(&text[*start..*end]),
            // An unclosed object must not be searched for a closed one inside it.
            Err(Fault::End) => return FirstObject::Open,
            Err(Fault::Syntax) => {}
        }
    }
    FirstObject::Absent
}

struct Objects<'a> {
    bytes: &'a [u8],
    /// Place and outcome of each brace, the last one first.
    settled: Vec<(usize, Outcome)>,
    /// Bytes read on their own.
    #[cfg(test)]
    read: std::cell::Cell<usize>,
}

impl<'a> Objects<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            settled: Vec::new(),
            #[cfg(test)]
            read: std::cell::Cell::new(0),
        }
    }

    fn settle(&mut self) {
        for at in memchr::memrchr_iter(b'{', self.bytes) {
            let outcome = self.object(at);
            self.settled.push((at, outcome));
        }
    }

    fn peek(&self, at: usize) -> Option<u8> {
        #[cfg(test)]
        self.read.set(self.read.get() + 1);
        self.bytes.get(at).copied()
    }

    fn next(&self, at: usize) -> Result<u8, Fault> {
        self.peek(at).ok_or(Fault::End)
    }

    fn skip_blank(&self, mut at: usize) -> usize {
        while self.peek(at).is_some_and(|byte| matches!(byte, b' ' | b'\n' | b'\t' | b'\r')) {
            at += 1;
        }
        at
    }

    /// Where the object that starts at `at` ends.
    fn object(&self, at: usize) -> Outcome {
        let mut at = self.skip_blank(at + 1);
        if self.next(at)? == b'}' {
            return Ok(at + 1);
        }
        loop {
            at = self.value(self.key(at)?)?;
            at = self.skip_blank(at);
            match self.next(at)? {
                b',' => at = self.skip_blank(at + 1),
                b'}' => return Ok(at + 1),
                _ => return Err(Fault::Syntax),
            }
        }
    }

    /// A key and its colon.
    fn key(&self, at: usize) -> Outcome {
        if self.next(at)? != b'"' {
            return Err(Fault::Syntax);
        }
        let at = self.skip_blank(self.string(at + 1)?);
        if self.next(at)? == b':' { Ok(at + 1) } else { Err(Fault::Syntax) }
    }

    /// A value, with the lists around it.
    fn value(&self, mut at: usize) -> Outcome {
        let mut lists = 0_usize;
        loop {
            at = self.skip_blank(at);
            at = match self.next(at)? {
                b'[' => {
                    lists += 1;
                    let first = self.skip_blank(at + 1);
                    if self.next(first)? != b']' {
                        at += 1;
                        continue;
                    }
                    lists -= 1;
                    first + 1
                }
                _ => self.scalar(at)?,
            };
            while lists > 0 {
                at = self.skip_blank(at);
                match self.next(at)? {
                    b']' => lists -= 1,
                    b',' => break,
                    _ => return Err(Fault::Syntax),
                }
                at += 1;
            }
            if lists == 0 {
                return Ok(at);
            }
            at += 1;
        }
    }

    /// A value that is no list.
    fn scalar(&self, at: usize) -> Outcome {
        match self.next(at)? {
            b'{' => self.settled_at(at),
            b'"' => self.string(at + 1),
            b't' => self.word(at + 1, b"rue"),
            b'f' => self.word(at + 1, b"alse"),
            b'n' => self.word(at + 1, b"ull"),
            b'-' => self.number(at + 1),
            b'0'..=b'9' => self.number(at),
            _ => Err(Fault::Syntax),
        }
    }

    /// What was found of the object at `at`, which stands behind the one that is being read.
    fn settled_at(&self, at: usize) -> Outcome {
        let found = self.settled.binary_search_by(|(start, _)| at.cmp(start));
        found.map_or(Err(Fault::Syntax), |index| self.settled[index].1)
    }

    fn string(&self, mut at: usize) -> Outcome {
        loop {
            at = match self.next(at)? {
                b'"' => return Ok(at + 1),
                b'\\' => self.escape(at + 1)?,
                0..=0x1F => return Err(Fault::Syntax),
                _ => at + 1,
            };
        }
    }

    fn escape(&self, at: usize) -> Outcome {
        match self.next(at)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 1),
            b'u' => {
                let digits = self.bytes.get(at + 1..at + 5).ok_or(Fault::End)?;
                if digits.iter().all(u8::is_ascii_hexdigit) { Ok(at + 5) } else { Err(Fault::Syntax) }
            }
            _ => Err(Fault::Syntax),
        }
    }

    fn word(&self, at: usize, rest: &[u8]) -> Outcome {
        for (offset, expected) in rest.iter().enumerate() {
            if self.next(at + offset)? != *expected {
                return Err(Fault::Syntax);
            }
        }
        Ok(at + rest.len())
    }

    /// A number without its sign; one that the text cuts is none.
    fn number(&self, at: usize) -> Outcome {
        let whole = self.digits(at);
        let leads = self.peek(at) == Some(b'0');
        if whole == at || leads && whole > at + 1 {
            return Err(Fault::Syntax);
        }
        let fraction = match self.peek(whole) {
            Some(b'.') => self.digits(whole + 1),
            _ => whole,
        };
        if fraction == whole + 1 {
            return Err(Fault::Syntax);
        }
        if !matches!(self.peek(fraction), Some(b'e' | b'E')) {
            return Ok(fraction);
        }
        let signed = matches!(self.peek(fraction + 1), Some(b'+' | b'-'));
        let exponent = fraction + 1 + usize::from(signed);
        let end = self.digits(exponent);
        if end == exponent { Err(Fault::Syntax) } else { Ok(end) }
    }

    fn digits(&self, mut at: usize) -> usize {
        while self.peek(at).is_some_and(|byte| byte.is_ascii_digit()) {
            at += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    /// The same by `serde_json`, which reads on from every brace.
    fn by_serde(text: &str) -> FirstObject<'_> {
        for (start, _) in text.match_indices('{') {
            let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<&RawValue>();
            match values.next() {
                Some(Ok(value)) => return FirstObject::Whole(value.get()),
                Some(Err(error)) if error.is_eof() => return FirstObject::Open,
                _ => {}
            }
        }
        FirstObject::Absent
    }

    /// Parts of JSON, whole and broken.
    const PARTS: [&str; 36] = [
        "{",
        "{",
        "{",
        "}",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\"a\"",
        "\"a\":",
        "\"b\": ",
        "\\",
        "\\\"",
        "\\u00e9",
        "\\u1",
        "\\q",
        "true",
        "tru",
        "nul",
        "false",
        "0",
        "01",
        "-",
        "-1",
        "1.",
        "1.5",
        "2e",
        "2e+9",
        " ",
        "\n",
        "é",
        "x",
        "{\"a\": 1}",
        "{}",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, ..Default::default() })]
        #[test]
        fn the_first_object_is_the_one_that_reading_from_every_brace_finds(
            parts in proptest::collection::vec(0..PARTS.len(), 0..24),
        ) {
            let text: String = parts.into_iter().map(|part| PARTS[part]).collect();
            prop_assert_eq!(first_object(&text), by_serde(&text), "{}", text);
        }
    }

    /// Texts on which reading on from every brace takes time with the square of their length.
    #[test]
    fn work_grows_with_the_length_of_the_text() {
        let texts = |count: usize| {
            [
                "{\"a\":".repeat(count) + "x",
                "{\"a\":[".repeat(count) + "]",
                "{\"".repeat(count) + "\\",
                "{\"a\": \"".repeat(count) + "\n",
                "{\"a\":{},".repeat(count) + "!",
                "{\"a\":1,\"b\":{\"c\":\"{\"},".repeat(count) + "!",
                "{".repeat(count),
                "[{\"".repeat(count) + "\": [[[[",
                "{\"a\":".repeat(count) + &"}".repeat(count - 1),
            ]
        };
        for text in texts(20_000) {
            let mut objects = Objects::new(&text);
            objects.settle();
            // Twice for two readers, and as much again for looks at a byte that are not steps.
            assert!(objects.read.get() <= 6 * text.len(), "{} looks at {} bytes", objects.read.get(), text.len());
        }
        for text in texts(40) {
            assert_eq!(first_object(&text), by_serde(&text), "{text}");
        }
    }
}
