//! Rows of a JSON array, of JSON lines, or of objects one after the other, each as raw text so that numbers stay as
//! written. One row is held at a time: memory does not grow with the file.
//!
//! In: a reader of bytes. Out: [`Row`]s with their line and byte. A byte-order mark, CRLF and U+2028 inside rows are accepted.
//! A last row that is cut is left out and told by [`Rows::cut`]; anything wrong before it is an error. Items are cut out by
//! counting brackets, not by a byte-wise `serde_json` reader, which is several times slower and knows no positions; each is
//! then checked by `serde_json`.

use std::io::{BufRead, BufReader, Cursor, Read as _};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::scan::Scan;
use crate::error::{Error, Fault, Result};
use crate::run::json::describe;

/// Bad lines told at once.
const MOST_FAULTS: usize = 10;

/// One row as it stands in the file.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Counted from 0.
    pub index: usize,
    /// Line on which it starts, counted from 1.
    pub line: usize,
    /// The row's JSON text.
    pub text: &'a str,
}

impl Row<'_> {
    /// Reads the row as a value of type `T`; the fault says what is missing or wrong, never the value itself.
    ///
    /// # Errors
    /// A [`Fault`] without a place: the caller knows the file.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        serde_json::from_str(self.text)
            .map_err(|error| Fault::new(format!("the row does not have the expected form: {}", describe(&error))))
    }
}

/// Where a file was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Line on which the incomplete row starts.
    pub line: usize,
    /// Byte at which it starts.
    pub byte: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// One value a line.
    Lines,
    /// `[item, item]`.
    Array,
    /// Values one after the other, each over several lines.
    Values,
    /// All read.
    Done,
}

/// The rows of one file.
pub struct Rows<'a> {
    reader: Box<dyn BufRead + 'a>,
    place: String,
    layout: Layout,
    /// Position of the next byte.
    line: usize,
    byte: u64,
    index: usize,
    buffer: Vec<u8>,
    cut: Option<Cut>,
    faults: Vec<Fault>,
}

impl<'a> Rows<'a> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::Read`] with the path.
    pub fn open(path: &Path) -> Result<Self> {
        let file = std::fs::File::open(path).map_err(|source| Error::read(path, source))?;
        Self::new(BufReader::with_capacity(1 << 18, file), &path.display().to_string())
    }

    /// Rows out of any reader; `place` names it in errors.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn new(mut reader: impl BufRead + 'a, place: &str) -> Result<Self> {
        let failed = |source| Error::read(Path::new(place), source);
        let Start { line, byte, mut first } = Start::find(&mut reader).map_err(failed)?;
        let mut layout = match first.first() {
            None => Layout::Done,
            Some(b'[') => Layout::Array,
            Some(_) => Layout::Lines,
        };
        if first.starts_with(b"{") {
            reader.read_until(b'\n', &mut first).map_err(failed)?;
            // An object that its first line does not end is one over several lines.
            if check(&first).is_err_and(|error| error.is_eof()) {
                layout = Layout::Values;
            }
        }
        let mut rows = Self {
            reader: Box::new(Cursor::new(first).chain(reader)),
            place: place.to_owned(),
            layout,
            line,
            byte,
            index: 0,
            buffer: Vec::new(),
            cut: None,
            faults: Vec::new(),
        };
        if layout == Layout::Array {
            rows.skip(1)?;
        }
        Ok(rows)
    }

    /// The next row.
    ///
    /// # Errors
    /// [`Error::Read`], or faults with file, line and byte of what is not valid JSON.
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>> {
        let start = match self.layout {
            Layout::Lines => self.next_line()?,
            Layout::Array => self.next_item()?,
            Layout::Values => self.next_value()?,
            Layout::Done => None,
        };
        let Some(line) = start else {
            self.layout = Layout::Done;
            let faults = std::mem::take(&mut self.faults);
            return if faults.is_empty() { Ok(None) } else { Err(Error::Invalid(faults)) };
        };
        let index = self.index;
        self.index += 1;
        // `check` has read it as UTF-8.
        let text = std::str::from_utf8(&self.buffer).unwrap_or_default().trim();
        Ok(Some(Row { index, line, text }))
    }

    /// The row that was left out since the file ends within it; known after the last row.
    pub fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// Rows returned until now.
    pub fn count(&self) -> usize {
        self.index
    }

    /// The name used in errors.
    pub fn place(&self) -> &str {
        &self.place
    }

    fn next_line(&mut self) -> Result<Option<usize>> {
        let mut pending: Option<(Fault, Option<Cut>)> = None;
        loop {
            self.buffer.clear();
            let (line, byte) = (self.line, self.byte);
            let read = self.reader.read_until(b'\n', &mut self.buffer);
            let read = read.map_err(|source| Error::read(Path::new(&self.place), source))?;
            if read == 0 {
                if let Some((fault, cut)) = pending {
                    self.end(fault, cut);
                }
                return Ok(None);
            }
            self.byte += read as u64;
            self.line += 1;
            if self.buffer.trim_ascii().is_empty() {
                continue;
            }
            // Something follows, so what was wrong before is no cut end.
            if let Some((fault, _)) = pending.take()
                && self.faults.len() < MOST_FAULTS
            {
                self.faults.push(fault);
            }
            match check(&self.buffer) {
                Ok(()) => return Ok(Some(line)),
                Err(error) => {
                    let cut = error.is_eof().then_some(Cut { line, byte });
                    pending = Some((self.fault(&error, line, byte), cut));
                }
            }
        }
    }

    fn next_item(&mut self) -> Result<Option<usize>> {
        if self.skip_blank()? == Some(b',') && self.index > 0 {
            self.skip(1)?;
            if self.skip_blank()? == Some(b']') {
                return Err(self.unexpected("a comma before the end of the array").into());
            }
        } else if self.index > 0 && !matches!(self.skip_blank()?, None | Some(b']')) {
            return Err(self.unexpected("no comma between two items").into());
        }
        match self.skip_blank()? {
            Some(b']') => {
                self.skip(1)?;
                match self.skip_blank()? {
                    None => Ok(None),
                    Some(_) => Err(self.unexpected("something follows the array").into()),
                }
            }
            None => {
                let cut = Cut { line: self.line, byte: self.byte };
                let fault = self.unexpected("the array does not end");
                self.end(fault, Some(cut));
                Ok(None)
            }
            Some(_) => self.value(),
        }
    }

    fn next_value(&mut self) -> Result<Option<usize>> {
        if self.skip_blank()?.is_none() { Ok(None) } else { self.value() }
    }

    /// Fills the buffer with the value that starts at the next byte; `None` if the file ends within it.
    fn value(&mut self) -> Result<Option<usize>> {
        let (line, byte) = (self.line, self.byte);
        self.buffer.clear();
        let mut scan = Scan::default();
        let is_whole = loop {
            let chunk = self.reader.fill_buf().map_err(|source| Error::read(Path::new(&self.place), source))?;
            if chunk.is_empty() {
                break scan.is_scalar();
            }
            let end = scan.end(chunk);
            let used = end.unwrap_or(chunk.len());
            self.buffer.extend_from_slice(&chunk[..used]);
            self.reader.consume(used);
            if end.is_some() {
                break true;
            }
        };
        self.byte += self.buffer.len() as u64;
        self.line += line_breaks(&self.buffer);
        match check(&self.buffer) {
            Ok(()) => Ok(Some(line)),
            Err(error) => {
                let fault = self.fault(&error, line, byte);
                if is_whole || !error.is_eof() {
                    return Err(fault.into());
                }
                self.end(fault, Some(Cut { line, byte }));
                Ok(None)
            }
        }
    }

    /// The file ended within a row: a warning if whole rows came before it.
    fn end(&mut self, fault: Fault, cut: Option<Cut>) {
        if let Some(cut) = cut
            && self.index > 0
            && self.faults.is_empty()
        {
            tracing::warn!(
                "{}:{} (byte {}): the last row is cut; the {} rows before it are kept",
                self.place,
                cut.line,
                cut.byte,
                self.index
            );
            self.cut = Some(cut);
        } else if self.faults.len() < MOST_FAULTS {
            self.faults.push(fault);
        }
    }

    /// The next byte that is not blank, not consumed.
    fn skip_blank(&mut self) -> Result<Option<u8>> {
        loop {
            let chunk = self.reader.fill_buf().map_err(|source| Error::read(Path::new(&self.place), source))?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let rest = chunk.trim_ascii_start();
            let blank = chunk.len() - rest.len();
            let next = rest.first().copied();
            self.line += line_breaks(&chunk[..blank]);
            self.byte += blank as u64;
            self.reader.consume(blank);
            if next.is_some() {
                return Ok(next);
            }
        }
    }

    fn skip(&mut self, bytes: usize) -> Result<()> {
        self.reader.fill_buf().map_err(|source| Error::read(Path::new(&self.place), source))?;
        self.reader.consume(bytes);
        self.byte += bytes as u64;
        Ok(())
    }

    fn unexpected(&self, what: &str) -> Fault {
        Fault::new(format!("not valid JSON: {what}")).at(format!("{}:{} (byte {})", self.place, self.line, self.byte))
    }

    /// The fault of the value in the buffer, which starts at `line` and `byte`.
    fn fault(&self, error: &NotJson, line: usize, byte: u64) -> Fault {
        // What never ends is told by where it starts.
        let before = if error.is_eof() { &[] } else { &self.buffer[..error.offset(&self.buffer)] };
        let place = format!("{}:{} (byte {})", self.place, line + line_breaks(before), byte + before.len() as u64);
        match error {
            NotJson::Text(_) => Fault::new("not UTF-8 text").at(place),
            NotJson::Syntax(error) => Fault::new(format!("not valid JSON: {}", describe(error)))
                .at(place)
                .expected("one JSON object a line, or one JSON array")
                .hint("a cut end means that the file was not written to its end"),
        }
    }
}

/// Where the content starts: after a byte-order mark and blanks.
struct Start {
    line: usize,
    byte: u64,
    /// One to three bytes from there on; empty at the end of the file.
    first: Vec<u8>,
}

impl Start {
    fn find(reader: &mut impl BufRead) -> std::io::Result<Self> {
        let mut start = Self { line: 1, byte: 0, first: Vec::new() };
        // Three bytes at once, however small the reader's pieces are.
        reader.by_ref().take(3).read_to_end(&mut start.first)?;
        if start.first == b"\xef\xbb\xbf" {
            start.byte = 3;
            start.first.clear();
            reader.by_ref().take(1).read_to_end(&mut start.first)?;
        }
        loop {
            let blank = start.first.len() - start.first.trim_ascii_start().len();
            start.line += line_breaks(&start.first[..blank]);
            start.byte += blank as u64;
            start.first.drain(..blank);
            if !start.first.is_empty() || reader.by_ref().take(1).read_to_end(&mut start.first)? == 0 {
                return Ok(start);
            }
        }
    }
}

/// Why bytes are no JSON value.
enum NotJson {
    Text(std::str::Utf8Error),
    Syntax(serde_json::Error),
}

impl NotJson {
    /// Whether more bytes could have made it valid.
    fn is_eof(&self) -> bool {
        match self {
            Self::Text(error) => error.error_len().is_none(),
            Self::Syntax(error) => error.is_eof(),
        }
    }

    /// Where in the value.
    fn offset(&self, bytes: &[u8]) -> usize {
        match self {
            Self::Text(error) => error.valid_up_to(),
            Self::Syntax(error) => {
                let lines = bytes.split_inclusive(|&byte| byte == b'\n').take(error.line().saturating_sub(1));
                (lines.map(<[u8]>::len).sum::<usize>() + error.column().saturating_sub(1)).min(bytes.len())
            }
        }
    }
}

fn check(bytes: &[u8]) -> Result<(), NotJson> {
    let text = std::str::from_utf8(bytes).map_err(NotJson::Text)?;
    serde_json::from_str::<&RawValue>(text).map(drop).map_err(NotJson::Syntax)
}

fn line_breaks(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}
