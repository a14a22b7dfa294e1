//! Keys: named by an environment variable, never written anywhere.

use std::fmt;

use serde::{Deserialize, Serialize};
use ureq::http::HeaderValue;

use crate::error::Fault;

/// The name of the environment variable that holds a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyVariable(String);

impl TryFrom<String> for KeyVariable {
    type Error = Fault;

    /// Capitals, digits and underscores only: somebody who gives the key itself must not see it in an error or a manifest.
    fn try_from(name: String) -> Result<Self, Fault> {
        let is_plain =
            |character: char| character.is_ascii_uppercase() || character.is_ascii_digit() || character == '_';
        if name.starts_with(|character: char| character.is_ascii_uppercase() || character == '_')
            && name.chars().all(is_plain)
        {
            return Ok(Self(name));
        }
        Err(Fault::new("this is not the name of an environment variable for a key")
            .expected("capitals, digits and underscores, e.g. `OPENAI_API_KEY`")
            .hint("give the variable's name, never the key itself"))
    }
}

impl From<KeyVariable> for String {
    fn from(variable: KeyVariable) -> Self {
        variable.0
    }
}

impl std::str::FromStr for KeyVariable {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        Self::try_from(text.to_owned())
    }
}

impl KeyVariable {
    /// Reads the key.
    pub(super) fn read(&self) -> Result<Key, Fault> {
        let value = std::env::var(&self.0).unwrap_or_default();
        let value = value.trim();
        if value.is_empty() {
            return Err(Fault::new(format!("environment variable `{}` for the endpoint's key is not set", self.0))
                .hint("export it, or leave the key out for an endpoint that needs none"));
        }
        Key::new(value)
            .ok_or_else(|| Fault::new(format!("the key in `{}` has characters that no header holds", self.0)))
    }
}

/// A key. It has no printable form.
#[derive(Clone)]
pub(super) struct Key {
    header: HeaderValue,
    text: String,
}

impl Key {
    pub(super) fn new(text: &str) -> Option<Self> {
        let mut header = HeaderValue::from_str(&format!("Bearer {text}")).ok()?;
        header.set_sensitive(true);
        Some(Self { header, text: text.to_owned() })
    }

    /// The value of the `Authorization` header.
    pub(super) fn header(&self) -> &HeaderValue {
        &self.header
    }

    /// Whether a text of the server repeats the key, or the part of it that some servers do repeat.
    pub(super) fn is_in(&self, text: &str) -> bool {
        text.contains(&self.text) || (self.text.len() > text.len() && self.text.contains(text))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(..)")
    }
}
