//! Rows as Parquet files, which load as the JSON lines do.
//!
//! In: rows, some at a time. Out: a file whose columns are the keys of the JSON rows; turns are lists of `role` and `content`.
//! Source: Apache Parquet format, nested encoding.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::{Message, PreferencePair, SftRow};
use crate::error::{Error, Result};
use crate::run::atomic::Pending;
use crate::trace::Part;

/// A row that has a form in columns.
pub trait Tabular {
    /// Name and kind of each column.
    const SCHEMA: &'static [(&'static str, Kind)];

    /// The values of column number `index`.
    #[doc(hidden)]
    fn cell(&self, index: usize) -> Cell<'_>;
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A list of chat turns.
    Turns,
    /// Text, or nothing.
    Text,
    /// A whole number, or nothing.
    Number,
}

/// One value.
#[derive(Debug, Clone, Copy)]
pub enum Cell<'r> {
    /// Chat turns.
    Turns(&'r [Message]),
    /// Text, or nothing.
    Text(Option<&'r str>),
    /// A whole number, or nothing.
    Number(Option<i64>),
}

impl Tabular for SftRow {
    const SCHEMA: &'static [(&'static str, Kind)] = &[
        ("messages", Kind::Turns),
        ("trace_id", Kind::Text),
        ("split", Kind::Text),
        ("writer", Kind::Text),
        ("stage", Kind::Number),
        ("audit", Kind::Text),
    ];

    fn cell(&self, index: usize) -> Cell<'_> {
        match index {
            0 => Cell::Turns(&self.messages),
            1 => Cell::Text(self.trace_id.as_deref()),
            2 => Cell::Text(self.split.map(Part::name)),
            3 => Cell::Text(self.writer.as_deref()),
            4 => Cell::Number(self.stage.map(|stage| i64::from(stage.number()))),
            _ => Cell::Text(self.audit.as_deref()),
        }
    }
}

impl Tabular for PreferencePair {
    const SCHEMA: &'static [(&'static str, Kind)] = &[
        ("prompt", Kind::Turns),
        ("chosen", Kind::Turns),
        ("rejected", Kind::Turns),
        ("kind", Kind::Text),
        ("trace_id", Kind::Text),
        ("split", Kind::Text),
        ("writer_chosen", Kind::Text),
        ("writer_rejected", Kind::Text),
        ("audit", Kind::Text),
    ];

    fn cell(&self, index: usize) -> Cell<'_> {
        match index {
            0 => Cell::Turns(&self.prompt),
            1 => Cell::Turns(&self.chosen),
            2 => Cell::Turns(&self.rejected),
            3 => Cell::Text(self.kind.map(super::PairKind::name)),
            4 => Cell::Text(self.trace_id.as_deref()),
            5 => Cell::Text(self.split.map(Part::name)),
            6 => Cell::Text(self.writer_chosen.as_deref()),
            7 => Cell::Text(self.writer_rejected.as_deref()),
            _ => Cell::Text(self.audit.as_deref()),
        }
    }
}

/// A Parquet file that is being written.
pub struct Table {
    path: std::path::PathBuf,
    writer: SerializedFileWriter<Pending>,
}

impl Table {
    /// Opens a file for rows of one kind.
    ///
    /// # Errors
    /// [`Error::Write`] with the path.
    pub fn create<R: Tabular>(path: &Path) -> Result<Self> {
        let fail = |error| unwritable(path, error);
        let schema = parse_message_type(&schema(R::SCHEMA)).map_err(fail)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("topalign ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = SerializedFileWriter::new(Pending::create(path)?, Arc::new(schema), Arc::new(properties));
        Ok(Self { path: path.to_path_buf(), writer: writer.map_err(fail)? })
    }

    /// Appends rows as one row group; no rows append nothing.
    ///
    /// # Errors
    /// [`Error::Write`] with the path.
    pub fn add<R: Tabular>(&mut self, rows: &[&R]) -> Result<()> {
        if rows.is_empty() { Ok(()) } else { self.group(rows).map_err(|error| unwritable(&self.path, error)) }
    }

    fn group<R: Tabular>(&mut self, rows: &[&R]) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for (index, (_, kind)) in R::SCHEMA.iter().enumerate() {
            let cells: Vec<Cell<'_>> = rows.iter().map(|row| row.cell(index)).collect();
            // A column of turns is two columns of leaves.
            let leaves: &[Leaf] = match kind {
                Kind::Turns => &[roles, contents],
                Kind::Text => &[texts],
                Kind::Number => &[numbers],
            };
            for leaf in leaves {
                if let Some(mut writer) = group.next_column()? {
                    leaf(&mut writer, &cells)?;
                    writer.close()?;
                }
            }
        }
        group.close().map(|_| ())
    }

    /// Writes the footer; the path now holds the file.
    ///
    /// # Errors
    /// [`Error::Write`] with the path.
    pub fn finish(self) -> Result<()> {
        self.writer.into_inner().map_err(|error| unwritable(&self.path, error))?.commit()
    }
}

/// Writes one column of leaves out of a column's cells.
type Leaf = fn(&mut SerializedColumnWriter<'_>, &[Cell<'_>]) -> Result<(), ParquetError>;

fn roles(writer: &mut SerializedColumnWriter<'_>, cells: &[Cell<'_>]) -> Result<(), ParquetError> {
    turns(writer, cells, |turn| ByteArray::from(turn.role.name()))
}

fn contents(writer: &mut SerializedColumnWriter<'_>, cells: &[Cell<'_>]) -> Result<(), ParquetError> {
    turns(writer, cells, |turn| ByteArray::from(turn.content.as_str()))
}

/// One field of all turns: a list's first item repeats nothing, an empty list defines nothing.
fn turns(
    writer: &mut SerializedColumnWriter<'_>,
    cells: &[Cell<'_>],
    field: fn(&Message) -> ByteArray,
) -> Result<(), ParquetError> {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for cell in cells {
        let Cell::Turns(turns) = cell else { continue };
        if turns.is_empty() {
            defined.push(0);
            repeated.push(0);
        }
        for (index, turn) in turns.iter().enumerate() {
            values.push(field(turn));
            defined.push(1);
            repeated.push(i16::from(index > 0));
        }
    }
    writer.typed::<ByteArrayType>().write_batch(&values, Some(&defined), Some(&repeated)).map(|_| ())
}

fn texts(writer: &mut SerializedColumnWriter<'_>, cells: &[Cell<'_>]) -> Result<(), ParquetError> {
    let text = |cell: &Cell<'_>| if let Cell::Text(text) = cell { text.map(ByteArray::from) } else { None };
    let values: Vec<Option<ByteArray>> = cells.iter().map(text).collect();
    let defined: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let there: Vec<ByteArray> = values.into_iter().flatten().collect();
    writer.typed::<ByteArrayType>().write_batch(&there, Some(&defined), None).map(|_| ())
}

fn numbers(writer: &mut SerializedColumnWriter<'_>, cells: &[Cell<'_>]) -> Result<(), ParquetError> {
    let number = |cell: &Cell<'_>| if let Cell::Number(number) = cell { *number } else { None };
    let values: Vec<Option<i64>> = cells.iter().map(number).collect();
    let defined: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let there: Vec<i64> = values.into_iter().flatten().collect();
    writer.typed::<Int64Type>().write_batch(&there, Some(&defined), None).map(|_| ())
}

/// The schema in Parquet's own notation.
fn schema(columns: &[(&str, Kind)]) -> String {
    let column = |(name, kind): &(&str, Kind)| match kind {
        Kind::Turns => format!(
            "required group {name} (LIST) {{ repeated group list {{ required group element {{ required binary role (STRING); \
             required binary content (STRING); }} }} }}"
        ),
        Kind::Text => format!("optional binary {name} (STRING);"),
        Kind::Number => format!("optional int64 {name};"),
    };
    format!("message rows {{ {} }}", columns.iter().map(column).collect::<Vec<_>>().join(" "))
}

fn unwritable(path: &Path, error: ParquetError) -> Error {
    Error::write(path, std::io::Error::other(error))
}
