//! `[data]`: which traces there are, and which of them may only be trained on or only be evaluated.

use std::path::{Path, PathBuf};

use serde::Serialize;
use toml::Table;

use super::path;
use super::section::Section;
use super::settings::Share;
use crate::error::Fault;
use crate::run::seed::Seed;
use crate::synthesis::{Request, Twins, Wording};
use crate::trace::Part;

/// Where the traces come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DataSettings {
    /// Trace files of any supported format, dealt to both parts by near-duplicate group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<PathBuf>,
    /// Files whose traces are only trained on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub train_traces: Vec<PathBuf>,
    /// Files whose traces are only evaluated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_out_traces: Vec<PathBuf>,
    /// Share of `traces` held out, by group.
    pub held_out: Share,
    /// Share of the training traces that rows are built of, by group; a smaller share is part of a greater one. Absent takes all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_share: Option<Share>,
    /// Scenarios composed for this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<SyntheticSettings>,
}

/// Scenarios composed from the libraries. Names, values and task wordings of the two parts never meet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SyntheticSettings {
    /// Scenarios that are only trained on.
    pub train: usize,
    /// Scenarios that are only evaluated.
    pub held_out: usize,
    /// Seed of their composition; the run's seed where absent.
    pub seed: Seed,
    /// Each held-out scenario is followed by its social-context twin and its negative control.
    pub twins: bool,
    /// Share whose request asks for the private entry itself, where disclosing it is right.
    pub disclosing: Share,
    /// Whether requests ask in a sentence or as a numbered form.
    pub requests: Wording,
}

impl SyntheticSettings {
    /// What to compose for one part; absent where nothing is wanted.
    pub fn request(&self, part: Part) -> Option<Request> {
        let (count, twins) = match part {
            Part::Train => (self.train, Twins::None),
            Part::HeldOut => (self.held_out, if self.twins { Twins::Both } else { Twins::None }),
        };
        let disclosing = self.disclosing.percent();
        let request = Request { count, seed: self.seed, part: Some(part), twins, disclosing, wording: self.requests };
        (count > 0).then_some(request)
    }
}

impl DataSettings {
    /// The files by the part that their traces are pinned to.
    pub fn files(&self) -> [(Option<Part>, &[PathBuf]); 3] {
        [(None, &self.traces), (Some(Part::Train), &self.train_traces), (Some(Part::HeldOut), &self.held_out_traces)]
    }
}

pub(super) fn read(table: Table, folder: &Path, seed: Seed, faults: &mut Vec<Fault>) -> DataSettings {
    let mut section = Section::new("data", table, faults);
    let traces: Option<Vec<String>> = section.take("traces");
    let train_traces: Vec<String> = section.take_or("train_traces", Vec::new());
    let held_out_traces: Vec<String> = section.take_or("held_out_traces", Vec::new());
    let held_out = section.take_or("held_out", Share::HELD_OUT);
    let train_share: Option<Share> = section.take("train_share");
    if train_share == Some(Share::ZERO) {
        section.fault(Fault::new("`data.train_share` must be above 0").hint("leave it out to train on every trace"));
    }
    let synthetic = section.table("synthetic");
    if traces.as_ref().is_some_and(Vec::is_empty) {
        section.fault(Fault::new("`data.traces` must name at least one file"));
    }
    let others = synthetic.is_some() || !train_traces.is_empty() || !held_out_traces.is_empty();
    if traces.is_none() && !others {
        section.fault(Fault::new("`data.traces` is missing").expected("a list of trace files"));
    }
    let mut resolve = |texts: Vec<String>| path::resolve_all(&texts, folder, &mut section);
    let traces = resolve(traces.unwrap_or_default());
    let (train_traces, held_out_traces) = (resolve(train_traces), resolve(held_out_traces));
    section.finish();
    let synthetic = synthetic.map(|table| read_synthetic(table, seed, faults));
    DataSettings { traces, train_traces, held_out_traces, held_out, train_share, synthetic }
}

fn read_synthetic(table: Table, seed: Seed, faults: &mut Vec<Fault>) -> SyntheticSettings {
    let mut section = Section::new("data.synthetic", table, faults);
    let settings = SyntheticSettings {
        train: section.take_or("train", 0),
        held_out: section.take_or("held_out", 0),
        seed: Seed(section.take_or("seed", seed.0)),
        twins: section.take_or("twins", false),
        disclosing: section.take_or("disclosing", Share::ZERO),
        requests: section.take_or("requests", Wording::Prose),
    };
    if settings.train + settings.held_out == 0 {
        let fault = Fault::new("`data.synthetic` composes nothing");
        section.fault(fault.hint("set `train` or `held_out` to a number of scenarios"));
    }
    section.finish();
    settings
}
