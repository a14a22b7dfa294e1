//! Data sets of any size: traces and contracts are read, and rows written, piece by piece.
//!
//! In: files. Out: [`Built`] pieces for a visitor. What grows with the number of traces are 16-byte digests of ids and prompts.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::contract::Contract;
use crate::error::Result;
use crate::run::keyed::Keyed;
use crate::run::seed::Seed;
use crate::trace::{self, Format, Ids, Part, Trace, Variant};

use super::builder::Builder;
use super::writer::Writer;
use super::{Built, Options};

/// Traces that are built together: enough to keep every thread busy.
const PIECE: usize = 1_024;

/// Where traces and contracts stand.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// A trace file of any supported format.
    pub traces: &'a Path,
    /// Its format.
    pub format: Format,
    /// The contracts.
    pub contracts: &'a Path,
    /// Traces of other variants are passed over as if they were not there; without it they are left out with a reason.
    pub only: Option<Variant>,
}

#[derive(Deserialize)]
struct Owner {
    #[serde(default)]
    trace_id: Option<String>,
}

/// Builds the rows of all training traces; `visit` gets each piece with its traces.
///
/// # Errors
/// Unreadable or invalid files, an id that appears twice, what [`Builder::take`] and `visit` return.
pub(super) fn build_each(
    sources: Sources<'_>,
    parts: &BTreeMap<String, Part>,
    (writer, seed, options): (&Writer<'_>, Seed, &Options<'_>),
    visit: &mut dyn FnMut(&Built, &[Trace]) -> Result<()>,
) -> Result<()> {
    let mut contracts = Keyed::open(sources.contracts, |owner: Owner| owner.trace_id)?;
    let mut builder = Builder::new(parts, writer, seed, options);
    let is_taken = |trace: &Trace| sources.only.is_none_or(|variant| trace.variant == variant);
    // Their prompts must be known before the first row is written.
    if parts.values().any(|part| *part == Part::HeldOut) {
        trace::each(sources.traces, sources.format, None, &mut |trace| {
            if is_taken(&trace) {
                builder.hold_out(&trace);
            }
            Ok(())
        })?;
    }
    let mut ids = Ids::default();
    let mut piece: Vec<Trace> = Vec::with_capacity(PIECE);
    let mut flush = |piece: &mut Vec<Trace>| {
        let found: Vec<Contract> = contracts.rows(piece.iter().map(|trace| trace.trace_id.as_str()))?;
        let by_id = by_trace(&found);
        visit(&builder.take(piece, &by_id)?, piece)?;
        piece.clear();
        Ok(())
    };
    trace::each(sources.traces, sources.format, None, &mut |trace| {
        ids.add(&trace.trace_id, &trace.source)?;
        if is_taken(&trace) {
            piece.push(trace);
        }
        if piece.len() < PIECE { Ok(()) } else { flush(&mut piece) }
    })?;
    flush(&mut piece)
}

/// Contracts by the trace that they are of.
pub(super) fn by_trace(contracts: &[Contract]) -> BTreeMap<&str, &Contract> {
    contracts.iter().filter_map(|contract| Some((contract.trace_id.as_deref()?, contract))).collect()
}
