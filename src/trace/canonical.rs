//! `traces.jsonl` as this program writes it.

use super::Trace;
use super::read::Context;
use super::rows::Row;
use crate::error::Fault;

/// Reads one row.
pub(super) fn parse(row: &Row<'_>, _context: &Context<'_>) -> Result<Trace, Fault> {
    row.parse()
}
