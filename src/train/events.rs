//! The log as a TensorBoard event file, row by row, so that a run can be watched.
//!
//! The format is a sequence of records (length, its checksum, an `Event` message, its checksum). A row's wall time is the
//! start of the run and the seconds of the steps up to it: pauses between a run and its resumption are left out.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::log::{StepRow, scalars};
use crate::error::{Error, Result};
use crate::run::atomic;

/// File name in the run folder.
pub const EVENTS: &str = "events.out.tfevents.0.topalign";

/// The open event file.
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    file: File,
    /// Seconds since 1970 after the last row.
    clock: f64,
}

impl Events {
    /// Opens the file with the rows of an earlier process, as the log has them; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn open(run_folder: &Path, earlier: &[StepRow], now: f64) -> Result<Self> {
        let path = run_folder.join(EVENTS);
        let seconds: f64 = earlier.iter().filter_map(|row| row.step_seconds).sum();
        let mut clock = now - seconds;
        // Field 3 of Event: the version that every reader checks first.
        let mut bytes = record(&[clock_field(clock), length_delimited(3, b"brain.Event:2")].concat());
        for row in earlier {
            clock += row.step_seconds.unwrap_or(0.0);
            bytes.extend(record(&event(row, clock)));
        }
        atomic::write(&path, &bytes)?;
        let file = File::options().append(true).open(&path).map_err(|source| Error::write(&path, source))?;
        Ok(Self { path, file, clock })
    }

    /// Appends a row as one write.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn append(&mut self, row: &StepRow) -> Result<()> {
        self.clock += row.step_seconds.unwrap_or(0.0);
        let bytes = record(&event(row, self.clock));
        self.file.write_all(&bytes).map_err(|source| Error::write(&self.path, source))
    }
}

/// An `Event` with one scalar for each number of the row, under `train/` or `eval/`.
fn event(row: &StepRow, clock: f64) -> Vec<u8> {
    let mut summary = Vec::new();
    for (name, value) in scalars(row) {
        let tag = name.strip_prefix("eval_").map_or_else(|| format!("train/{name}"), |name| format!("eval/{name}"));
        let mut entry = length_delimited(1, tag.as_bytes()); // Value.tag
        entry.push((2 << 3) | 5); // Value.simple_value, a 32-bit float
        entry.extend((value as f32).to_le_bytes());
        summary.extend(length_delimited(1, &entry)); // Summary.value
    }
    let mut event = clock_field(clock);
    event.push(2 << 3); // Event.step
    event.extend(varint(row.step as u64));
    event.extend(length_delimited(5, &summary)); // Event.summary
    event
}

/// Field 1 of Event: the wall time, a 64-bit float.
fn clock_field(seconds: f64) -> Vec<u8> {
    [&[(1 << 3) | 1], seconds.to_le_bytes().as_slice()].concat()
}

fn record(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u64).to_le_bytes();
    let mut bytes = length.to_vec();
    bytes.extend(masked_checksum(&length).to_le_bytes());
    bytes.extend(message);
    bytes.extend(masked_checksum(message).to_le_bytes());
    bytes
}

/// A protocol-buffer field that holds bytes: tag, length, content.
fn length_delimited(field: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![(field << 3) | 2];
    bytes.extend(varint(content.len() as u64));
    bytes.extend(content);
    bytes
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// CRC-32C, rotated and offset as TensorFlow's record format asks.
fn masked_checksum(bytes: &[u8]) -> u32 {
    let mut remainder = u32::MAX;
    for &byte in bytes {
        remainder ^= u32::from(byte);
        for _ in 0..8 {
            let polynomial = if remainder & 1 == 1 { 0x82f6_3b78 } else { 0 };
            remainder = (remainder >> 1) ^ polynomial;
        }
    }
    (!remainder).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_crc_32c() {
        // RFC 3720, B.4: 32 bytes of zeros have the CRC 0x8a9136aa.
        let unmasked = masked_checksum(&[0; 32]).wrapping_sub(0xa282_ead8).rotate_left(15);
        assert_eq!(unmasked, 0x8a91_36aa);
    }
}
