//! `tojson` for chat templates: the text that Python's `json.dumps` gives.
//!
//! Unlike the forms of `serde_json`: `", "` and `": "` as separators, Python's `repr` of floats. Unlike Jinja's own filter:
//! no HTML escaping and no sorting, which is what `transformers` installs.

use std::fmt::Write as _;
use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// How much white space the text holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// One line.
    Line,
    /// One item a line, indented by so many spaces a level.
    Indented(usize),
}

/// In which order an object's keys come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// As the value has them.
    AsGiven,
    /// By name.
    Sorted,
}

/// Which characters stand for themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Characters {
    /// All that JSON allows.
    All,
    /// Those of ASCII; others as `\uXXXX`.
    Ascii,
}

/// The arguments of `json.dumps`.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) layout: Layout,
    pub(super) keys: Keys,
    pub(super) characters: Characters,
    pub(super) item_separator: String,
    pub(super) key_separator: String,
}

impl Options {
    /// Python's defaults for a layout, with `ensure_ascii` off.
    pub(super) fn new(layout: Layout) -> Self {
        let item_separator = if layout == Layout::Line { ", " } else { "," };
        Self {
            layout,
            keys: Keys::AsGiven,
            characters: Characters::All,
            item_separator: item_separator.to_owned(),
            key_separator: ": ".to_owned(),
        }
    }
}

/// The text of `json.dumps`.
pub(super) fn dumps<T: Serialize + ?Sized>(value: &T, options: &Options) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, PythonFormatter { options, depth: 0, empty: true });
    if options.keys == Keys::Sorted {
        let mut value = serde_json::to_value(value)?;
        value.sort_all_objects();
        value.serialize(&mut serializer)?;
    } else {
        value.serialize(&mut serializer)?;
    }
    // The serializer writes only whole UTF-8 strings.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct PythonFormatter<'a> {
    options: &'a Options,
    depth: usize,
    /// Whether the innermost open container has no item yet.
    empty: bool,
}

impl PythonFormatter<'_> {
    fn open<W: io::Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.empty = true;
        writer.write_all(bracket)
    }

    fn close<W: io::Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !self.empty {
            self.break_line(writer)?;
        }
        self.empty = false;
        writer.write_all(bracket)
    }

    fn item<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.empty = false;
        if !first {
            writer.write_all(self.options.item_separator.as_bytes())?;
        }
        self.break_line(writer)
    }

    fn break_line<W: io::Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        match self.options.layout {
            Layout::Line => Ok(()),
            Layout::Indented(width) => write!(writer, "\n{:1$}", "", width * self.depth),
        }
    }
}

impl Formatter for PythonFormatter<'_> {
    fn write_f32<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        writer.write_all(float_repr(f64::from(value)).as_bytes())
    }
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float_repr(value).as_bytes())
    }
    fn begin_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }
    fn end_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }
    fn begin_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.item(writer, first)
    }
    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }
    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }
    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.item(writer, first)
    }
    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.options.key_separator.as_bytes())
    }
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if self.options.characters == Characters::All || fragment.is_ascii() {
            return writer.write_all(fragment.as_bytes());
        }
        for character in fragment.chars() {
            let mut units = [0; 2];
            if character.is_ascii() {
                write!(writer, "{character}")?;
                continue;
            }
            for unit in character.encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

/// Python's `repr` of a float: shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
fn float_repr(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let mut text = digits.to_owned();
    let sign = if exponent < 0 { '-' } else { '+' };
    // Writing to a String cannot fail.
    let _ = write!(text, "e{sign}{:02}", exponent.unsigned_abs());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        // repr(x) of CPython 3.12
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5e-7, "-2.5e-07"),
            (123_456_789.125, "123456789.125"),
        ] {
            assert_eq!(float_repr(value), expected);
        }
    }

    #[derive(serde::Deserialize)]
    struct Goldens {
        json: Vec<Golden>,
    }

    #[derive(serde::Deserialize)]
    struct Golden {
        value: String,
        indent: Option<usize>,
        text: String,
    }

    #[test]
    fn tojson_equals_json_dumps() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/token/goldens.json");
        let goldens: Goldens = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert!(goldens.json.len() > 20);
        for golden in goldens.json {
            let value: serde_json::Value = serde_json::from_str(&golden.value).unwrap();
            let layout = golden.indent.map_or(Layout::Line, Layout::Indented);
            assert_eq!(dumps(&value, &Options::new(layout)).unwrap(), golden.text);
        }
    }
}
