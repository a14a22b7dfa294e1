//! What was sent on a channel, as it is written.
//!
//! In: a JSON value. Out: a [`Payload`] whose text is searched. Numbers keep their digits (a parsed one may lose some, and an account
//! would not be found), and a match's place is its place in the log.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::run::json::describe;

/// A text, or any JSON value.
#[derive(Debug, Clone, Default)]
pub enum Payload {
    /// Nothing: null.
    #[default]
    Absent,
    /// A string's content.
    Text(String),
    /// Another value as it is written.
    Json(Box<RawValue>),
}

impl Payload {
    /// What is searched: a string as it is, any other value as it is written, null as nothing.
    pub fn text(&self) -> &str {
        match self {
            Self::Absent => "",
            Self::Text(text) => text,
            Self::Json(raw) => raw.get(),
        }
    }

    /// The content, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Absent | Self::Json(_) => None,
        }
    }

    /// Whether it is null.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// One text for payloads that differ in blanks between tokens alone.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Json(raw) => without_blanks(raw.get()),
            Self::Absent | Self::Text(_) => self.to_string(),
        }
    }

    fn read(raw: Box<RawValue>) -> serde_json::Result<Self> {
        let text = raw.get();
        let first = text.as_bytes().first().copied();
        match first {
            Some(b'n') => Ok(Self::Absent),
            Some(b'"') => serde_json::from_str(text).map(Self::Text),
            // A row of JSONL has no line breaks. In JSON they stand between tokens only, so that a space each moves nothing.
            _ if text.contains(['\n', '\r']) => RawValue::from_string(text.replace(['\n', '\r'], " ")).map(Self::Json),
            _ => Ok(Self::Json(raw)),
        }
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Absent, Self::Absent) => true,
            (Self::Text(one), Self::Text(two)) => one == two,
            (Self::Json(one), Self::Json(two)) => one.get() == two.get(),
            _ => false,
        }
    }
}

impl Eq for Payload {}

/// As JSON.
impl fmt::Display for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => formatter.write_str("null"),
            Self::Text(text) => write!(formatter, "{}", Value::from(text.as_str())),
            Self::Json(raw) => formatter.write_str(raw.get()),
        }
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// For values of this program's own making: others are read as they are written.
impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Absent,
            Value::String(text) => Self::Text(text),
            // Every value can be written; if not, the same text would be searched.
            other => serde_json::value::to_raw_value(&other).map_or_else(|_| Self::Text(other.to_string()), Self::Json),
        }
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent => serializer.serialize_unit(),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Json(raw) => raw.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::read(raw).map_err(|error| serde::de::Error::custom(describe(&error)))
    }
}

/// Blanks between the tokens of valid JSON say nothing; numbers stay as written.
pub(super) fn without_blanks(raw: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let mut text = raw.to_owned();
    text.retain(|character| {
        let is_escaped = std::mem::take(&mut escaped);
        match character {
            '"' if !is_escaped => in_string = !in_string,
            '\\' if in_string && !is_escaped => escaped = true,
            _ if !in_string => return !character.is_ascii_whitespace(),
            _ => {}
        }
        true
    });
    text
}

#[cfg(test)]
mod tests {
    use super::Payload;

    fn read(text: &str) -> Payload {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_value_is_read_searched_and_written_as_it_stands() {
        for text in ["12345678901234567890123", "170.50", "{\"b\": \"x\",   \"t\": 1e999}", "[ ]", "true"] {
            let payload = read(text);
            assert_eq!(payload.text(), text);
            assert_eq!(serde_json::to_string(&payload).unwrap(), text);
        }
        assert_eq!(read("\"a\\u0041\""), Payload::Text("aA".to_owned()));
        assert_eq!((read("null"), read("null").text()), (Payload::Absent, ""));
        assert_eq!(read("{\"a\":\r\n 1}").text(), "{\"a\":   1}", "a row has one line");
    }

    #[test]
    fn payloads_that_differ_in_blanks_have_one_key() {
        assert_eq!(read("{\"a\": 1.0}").key(), read("{ \"a\":1.0 }").key());
        assert_ne!(read("{\"a\": 1.0}").key(), read("{\"a\": 1.00}").key());
        assert_ne!(read("\"1\"").key(), read("1").key());
    }

    #[test]
    fn half_a_surrogate_is_no_text() {
        assert!(serde_json::from_str::<Payload>("\"\\ud800\"").is_err());
    }
}
