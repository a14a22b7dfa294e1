//! SHA-256 digests of bytes, files and JSON values, in lower-case hexadecimal.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// SHA-256 of `bytes`.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The first 16 bytes of the SHA-256 of `bytes`: what is held of each of many texts to know it again.
pub fn short(bytes: &[u8]) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&Sha256::digest(bytes)[..16]);
    short
}

/// SHA-256 of a file's content, read in pieces.
///
/// # Errors
/// [`Error::Read`] with the path.
pub fn of_file(path: &Path) -> Result<String> {
    let mut file = std::fs::File::open(path).map_err(|source| Error::read(path, source))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 20];
    loop {
        let read = std::io::Read::read(&mut file, &mut buffer).map_err(|source| Error::read(path, source))?;
        if read == 0 {
            return Ok(hex::encode(hasher.finalize()));
        }
        hasher.update(&buffer[..read]);
    }
}

/// SHA-256 of the canonical form of a value: compact JSON with the keys of every object sorted.
///
/// # Errors
/// [`Error::Failed`] if the value has no JSON form (a map with keys that are not strings).
pub fn of_value<T: Serialize>(value: &T) -> Result<String> {
    let value = serde_json::to_value(value).map_err(|error| Error::Failed(error.to_string()))?;
    Ok(of_json(&value))
}

/// [`of_value`] of what is JSON already.
pub fn of_json(value: &Value) -> String {
    let mut text = String::new();
    write_sorted(value, &mut text);
    of_bytes(text.as_bytes())
}

/// Compact JSON with the keys of every object sorted.
fn write_sorted(value: &Value, out: &mut String) {
    // Writing to a string cannot fail.
    match value {
        Value::Object(map) => {
            let mut members: Vec<(&String, &Value)> = map.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                let _ = write!(out, "{}:", Value::from(key.as_str()));
                write_sorted(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write_sorted(item, out);
            }
            out.push(']');
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_is_no_content_and_the_order_of_items_is() {
        let digest = |text: &str| of_json(&serde_json::from_str(text).unwrap());
        let text = r#"{"b": [1, {"d": "\"x\u00e9\n", "c": null}], "a": 1.5}"#;
        assert_eq!(digest(text), of_bytes("{\"a\":1.5,\"b\":[1,{\"c\":null,\"d\":\"\\\"x\u{e9}\\n\"}]}".as_bytes()));
        assert_eq!(digest(text), digest(r#"{"a": 1.5, "b": [1, {"c": null, "d": "\"x\u00e9\n"}]}"#));
        assert_ne!(digest("[1, 2]"), digest("[2, 1]"));
    }
}
