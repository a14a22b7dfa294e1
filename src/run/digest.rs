//! SHA-256 digests of bytes, files and JSON values, in lower-case hexadecimal.

use std::path::Path;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// SHA-256 of `bytes`.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
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
    Ok(of_bytes(sort_keys(value).to_string().as_bytes()))
}

fn sort_keys(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(map) => {
            let sorted: std::collections::BTreeMap<_, _> =
                map.into_iter().map(|(key, value)| (key, sort_keys(value))).collect();
            serde_json::Value::Object(sorted.into_iter().collect())
        }
        serde_json::Value::Array(items) => items.into_iter().map(sort_keys).collect(),
        other => other,
    }
}
