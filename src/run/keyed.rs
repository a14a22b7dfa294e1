//! Rows of a JSONL file of any size, found by a key: places are held in memory, rows are read when they are asked for.
//!
//! In: a file and what its rows are called. Out: rows by key. Of a key only 16 bytes of its digest are held, so that a million
//! rows cost tens of megabytes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::de::DeserializeOwned;

use super::digest::short;
use super::jsonl;
use crate::error::{Error, Fault, Result};

/// Lines whose keys are read at once.
const BATCH: usize = 4_096;

/// Where rows stand.
#[derive(Debug)]
pub struct Keyed {
    path: PathBuf,
    reader: BufReader<File>,
    places: HashMap<[u8; 16], Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    start: u64,
    length: u32,
    line: u32,
}

impl Keyed {
    /// Reads the keys of all rows; rows without one cannot be found, and of two with the same key the last one is.
    ///
    /// # Errors
    /// [`Error::Read`], or faults naming the lines that are not valid.
    pub fn open<K: DeserializeOwned + Send>(path: &Path, key: impl Fn(K) -> Option<String> + Sync) -> Result<Self> {
        let fail = |source| Error::read(path, source);
        let place = path.display().to_string();
        let mut reader = BufReader::with_capacity(1 << 20, File::open(path).map_err(fail)?);
        let mut places = HashMap::new();
        let (mut start, mut number) = (0_u64, 0_u32);
        loop {
            let mut lines: Vec<(Place, Vec<u8>)> = Vec::new();
            while lines.len() < BATCH {
                let mut line = Vec::new();
                let length = reader.read_until(b'\n', &mut line).map_err(fail)?;
                if length == 0 {
                    break;
                }
                number += 1;
                let length = u32::try_from(length).map_err(|_| Error::Failed(format!("{place}:{number}: too long")))?;
                lines.push((Place { start, length, line: number }, line));
                start += u64::from(length);
            }
            if lines.is_empty() {
                break;
            }
            let keys: Vec<Option<([u8; 16], Place)>> = lines
                .into_par_iter()
                .map(|(at, line)| {
                    let row: Option<K> = jsonl::parse_line(&line, at.line as usize, &place)?;
                    Ok(row.and_then(&key).map(|key| (digest(&key), at)))
                })
                .collect::<Result<_>>()?;
            places.extend(keys.into_iter().flatten());
        }
        Ok(Self { path: path.to_path_buf(), reader, places })
    }

    /// The rows of these keys, in their order; a key that no row has gives none.
    ///
    /// # Errors
    /// [`Error::Read`], or a fault naming a line of another form.
    pub fn rows<'k, T: DeserializeOwned + Send>(&mut self, keys: impl IntoIterator<Item = &'k str>) -> Result<Vec<T>> {
        let mut lines: Vec<(Place, Vec<u8>)> = Vec::new();
        for key in keys {
            let Some(at) = self.places.get(&digest(key)).copied() else { continue };
            let mut line = vec![0; at.length as usize];
            let seek = self.reader.stream_position().and_then(|now| {
                // Rows mostly come in the order of the file: what is buffered stays.
                if now == at.start { Ok(()) } else { self.reader.seek(SeekFrom::Start(at.start)).map(|_| ()) }
            });
            seek.and_then(|()| self.reader.read_exact(&mut line)).map_err(|source| Error::read(&self.path, source))?;
            lines.push((at, line));
        }
        let place = self.path.display().to_string();
        let parsed: Vec<Option<T>> = lines
            .into_par_iter()
            .map(|(at, line)| jsonl::parse_line(&line, at.line as usize, &place))
            .collect::<Result<_, Fault>>()?;
        Ok(parsed.into_iter().flatten().collect())
    }
}

fn digest(key: &str) -> [u8; 16] {
    short(key.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::Keyed;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Row {
        id: Option<String>,
        #[serde(default)]
        value: u32,
    }

    #[test]
    fn rows_are_found_in_any_order_and_the_last_of_two_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.jsonl");
        let text = "\u{feff}{\"id\": \"a\", \"value\": 1}\n\n{\"id\": null}\r\n{\"id\": \"b\", \"value\": 2}\n{\"id\": \"a\", \"value\": 3}";
        std::fs::write(&file, text).unwrap();
        let mut keyed = Keyed::open(&file, |row: Row| row.id).unwrap();
        let rows: Vec<Row> = keyed.rows(["b", "none", "a", "b"]).unwrap();
        assert_eq!(rows.iter().map(|row| row.value).collect::<Vec<_>>(), [2, 3, 2]);
        std::fs::write(&file, "{\"id\": \"a\"}\n{\"id\": 7}\n").unwrap();
        let error = Keyed::open(&file, |row: Row| row.id).unwrap_err().to_string();
        assert!(error.contains("rows.jsonl:2"), "{error}");
    }
}
