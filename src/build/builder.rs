//! Rows piece by piece: of the traces that went by only digests, sketches and counts stay, so that their number does not matter.
//!
//! In: pieces of traces with their contracts, in order. Out: for each piece a [`Built`]; its rows are numbered through. What one trace
//! gives is drafted by itself, on all threads or in another process; what the others decide is settled afterwards, in order. So the
//! rows depend neither on where one piece ends, nor on the number of threads or shards.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::audit::{Secrets, Surroundings};
use crate::contract::Contract;
use crate::endpoint::in_parallel;
use crate::error::{Error, Result};
use crate::run::seed::Seed;
use crate::trace::{Part, Source, Trace};

use super::gate::{Gate, Passage, Reason};
use super::rows::{self, Means, Rows};
use super::settle::Settler;
use super::writer::Writer;
use super::{About, Built, Options};

/// Builds rows of pieces of traces.
pub struct Builder<'a> {
    drafter: Drafter<'a>,
    settler: Settler<'a>,
}

impl<'a> Builder<'a> {
    /// Begins. An empty `parts` makes every trace a training trace.
    pub fn new(
        parts: &'a BTreeMap<String, Part>,
        writer: &'a Writer<'a>,
        seed: Seed,
        options: &'a Options<'a>,
    ) -> Self {
        Self {
            drafter: Drafter::new(parts, writer, seed, options),
            settler: Settler::new(options.into(), options.keeps_out(parts)),
        }
    }

    /// Notes the prompts of a trace if it is held out: no later trace may have them. Held-out traces come before all pieces.
    pub fn hold_out(&mut self, trace: &Trace) {
        self.drafter.hold_out(trace);
    }

    /// Notes the private values of all traces, which no answer to another may hold.
    pub fn know(&mut self, secrets: Secrets) {
        self.drafter.know(secrets);
    }

    /// Builds the rows of the next traces; `contracts` are theirs by trace id.
    ///
    /// # Errors
    /// A contract that does not validate, a writer that has stopped answering, an interruption.
    pub fn take(&mut self, traces: &[Trace], contracts: &BTreeMap<&str, &Contract>) -> Result<Built> {
        let drafts = self.drafter.draft(traces, contracts)?;
        self.settler.settle(drafts)
    }
}

/// What one trace gives before it is known what the others give.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Draft {
    pub trace_id: String,
    pub source: Source,
    pub about: About,
    /// It is held out: it gives nothing.
    pub held_out: bool,
    /// Digest of its prompt, if it can be trained on.
    pub prompt: Option<[u8; 16]>,
    pub rows: Rows,
}

/// Drafts the rows of single traces.
pub(super) struct Drafter<'a> {
    gate: Gate<'a>,
    around: Surroundings,
    writer: &'a Writer<'a>,
    seed: Seed,
    options: &'a Options<'a>,
}

impl<'a> Drafter<'a> {
    pub fn new(
        parts: &'a BTreeMap<String, Part>,
        writer: &'a Writer<'a>,
        seed: Seed,
        options: &'a Options<'a>,
    ) -> Self {
        let mut around = Surroundings::default();
        around.keep_out(options.excluded.iter().map(String::as_str));
        Self { gate: Gate::new(parts), around, writer, seed, options }
    }

    pub fn hold_out(&mut self, trace: &Trace) {
        if self.gate.is_held_out(trace) {
            self.gate.hold_out(trace);
            self.around.hold_out(trace);
        }
    }

    pub fn know(&mut self, secrets: Secrets) {
        self.around.know(secrets);
    }

    /// Drafts the rows of the next traces; those whose prompt an earlier one had give none.
    ///
    /// # Errors
    /// A contract that does not validate, a writer that has stopped answering, an interruption.
    pub fn draft(&mut self, traces: &[Trace], contracts: &BTreeMap<&str, &Contract>) -> Result<Vec<Draft>> {
        let gate = &self.gate;
        let examined: Vec<Option<Result<Passage<'_>, Reason>>> = traces
            .par_iter()
            .map(|trace| {
                let contract = contracts.get(trace.trace_id.as_str()).copied();
                (!gate.is_held_out(trace)).then(|| gate.examine(trace, contract))
            })
            .collect();
        let jobs: Vec<(&Trace, Option<Result<Passage<'_>, Reason>>)> = traces
            .iter()
            .zip(examined)
            .map(|(trace, passage)| (trace, passage.map(|passage| self.gate.first(passage?))))
            .collect();
        let means =
            Means { author: self.writer.author(), seed: self.seed, options: self.options, around: &self.around };
        let make = |(trace, passage): &(&Trace, Option<Result<Passage<'_>, Reason>>)| draft(trace, *passage, &means);
        let Some(workers) = means.author.workers() else { return jobs.par_iter().map(make).collect() };
        let mut made: Vec<Option<Draft>> = jobs.iter().map(|_| None).collect();
        in_parallel(workers, &jobs, make, |index, draft| {
            made[index] = Some(draft?);
            Ok(())
        })?;
        made.into_iter().collect::<Option<_>>().ok_or(Error::Interrupted)
    }
}

fn draft(trace: &Trace, passage: Option<Result<Passage<'_>, Reason>>, means: &Means<'_>) -> Result<Draft> {
    let rows = match passage {
        None => Rows::default(),
        Some(Err(reason)) => Rows::none(reason),
        Some(Ok(passage)) => rows::rows(trace, passage.contract, means)?,
    };
    Ok(Draft {
        trace_id: trace.trace_id.clone(),
        source: trace.source.clone(),
        about: About::of(trace),
        held_out: passage.is_none(),
        prompt: passage.and_then(Result::ok).map(|passage| passage.prompt),
        rows,
    })
}
