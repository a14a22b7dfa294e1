//! Data sets of any size: traces and contracts are read, and rows written, piece by piece.
//!
//! In: files. Out: drafts, piece by piece, for a visitor. What grows with the number of traces are digests of ids and prompts, and hashes
//! of private values.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use crate::audit::{Check, Secrets, Severity};
use crate::contract::Contract;
use crate::error::Result;
use crate::run::keyed::Keyed;
use crate::run::seed::Seed;
use crate::run::shard::Dealer;
use crate::trace::{self, Format, Part, Trace, Variant};

use super::Options;
use super::builder::{Draft, Drafter};
use super::writer::Writer;

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

/// Drafts the rows of the traces that `dealer` deals; `visit` gets each piece.
///
/// # Errors
/// Unreadable or invalid files, what [`Drafter::draft`] and `visit` return.
pub(super) fn draft_each(
    sources: Sources<'_>,
    parts: &BTreeMap<String, Part>,
    (writer, seed, options): (&Writer<'_>, Seed, &Options<'_>),
    dealer: &mut Dealer,
    visit: &mut dyn FnMut(Vec<Draft>) -> Result<()>,
) -> Result<()> {
    let (mut contracts, secrets) = open_contracts(sources.contracts, options)?;
    let mut drafter = Drafter::new(parts, writer, seed, options);
    drafter.know(secrets);
    let is_taken = |trace: &Trace| sources.only.is_none_or(|variant| trace.variant == variant);
    // Their prompts must be known before the first row is written.
    if parts.values().any(|part| *part == Part::HeldOut) {
        trace::each(sources.traces, sources.format, None, &mut |trace| {
            if is_taken(&trace) {
                drafter.hold_out(&trace);
            }
            Ok(())
        })?;
    }
    let mut piece: Vec<Trace> = Vec::with_capacity(PIECE);
    let mut flush = |piece: &mut Vec<Trace>| {
        let found: Vec<Contract> = contracts.rows(piece.iter().map(|trace| trace.trace_id.as_str()))?;
        let drafts = drafter.draft(piece, &by_trace(&found))?;
        piece.clear();
        visit(drafts)
    };
    trace::each_dealt(sources.traces, sources.format, None, dealer, &mut |trace| {
        if is_taken(&trace) {
            piece.push(trace);
        }
        if piece.len() < PIECE { Ok(()) } else { flush(&mut piece) }
    })?;
    flush(&mut piece)
}

/// Where the contracts stand, and the private values of all of them.
fn open_contracts(path: &Path, options: &Options<'_>) -> Result<(Keyed, Secrets)> {
    if options.severities.get(Check::ForeignSecret) == Some(Severity::Off) {
        return Ok((Keyed::open(path, |owner: Owner| owner.trace_id)?, Secrets::default()));
    }
    // Sorted later, so that the order in which threads find them is no matter.
    let found = Mutex::new(Vec::new());
    let keyed = Keyed::open(path, |contract: Contract| {
        let secrets = Secrets::of(&contract);
        found.lock().unwrap_or_else(PoisonError::into_inner).extend(secrets);
        contract.trace_id
    })?;
    Ok((keyed, Secrets::new(found.into_inner().unwrap_or_else(PoisonError::into_inner))))
}

/// Contracts by the trace that they are of.
pub(super) fn by_trace(contracts: &[Contract]) -> BTreeMap<&str, &Contract> {
    contracts.iter().filter_map(|contract| Some((contract.trace_id.as_deref()?, contract))).collect()
}
