//! What must come out where the policy is scripted: the expectation of each figure, from the recipe alone, beside the figure.
//!
//! In: settings, the slate, the analysis. Out: [`KnownRow`]s. A condition whose expectation has no closed form has no row for it.
//!
//! Each private value leaves through exit c with probability `a_c`, by draws of its own. A guard knows it with probability r, at all
//! of its exits at once; a minimised interface keeps it with probability k. Through a set C of exits it becomes visible with
//! `k [(1-r)(1 - prod(1-a_c over C)) + r (1 - prod(1-a_c over C without the guarded))]`.

use serde::{Deserialize, Serialize};

use super::row::Slice;
use super::settings::{Condition, ModelSettings, ProbeKind, Settings, WorkspaceSettings};
use super::slate::Slate;
use crate::agent::Policy;
use crate::exposure::{Figure, Group, Summary, View, ViewFigures};
use crate::observation::SchemaGroup;
use crate::workspace::{Exit, Interface, Plan, Truth};

/// A figure with what it must be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownRow {
    /// The condition.
    pub condition: String,
    /// What is measured.
    pub metric: String,
    /// Its expectation.
    pub known: f64,
    /// What came out.
    pub measured: Option<f64>,
    /// Lower end of its 95% interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Sessions behind it.
    pub n: usize,
    /// Whether the interval holds the expectation; absent without an interval.
    pub inside: Option<bool>,
}

/// Exits whose words the requester reads.
const SHOWN: [Exit; 2] = [Exit::Response, Exit::Console];

/// One class of private values: fields, or sentences.
struct Class {
    prose: bool,
    /// Private values of an item.
    count: usize,
}

/// A condition with a scripted model.
struct Case<'a> {
    settings: &'a Settings,
    condition: &'a Condition,
    policy: &'a Policy,
    truth: &'a Truth,
    classes: Vec<Class>,
    exits: Vec<Exit>,
}

/// Every figure that has a known value.
pub fn known(settings: &Settings, slate: &Slate, summary: &Summary) -> Vec<KnownRow> {
    let WorkspaceSettings::Composed(plan) = &settings.workspace else { return Vec::new() };
    let mut rows = Vec::new();
    for condition in &settings.conditions {
        let Some(ModelSettings::Scripted(policy)) = settings.models.get(&condition.model) else { continue };
        let Some(group) = summary.aggregate.by_condition.get(&condition.name) else { continue };
        let Some(case) = Case::new(settings, condition, policy, plan, slate) else { continue };
        match condition.slice {
            Slice::Probe => case.probe(group, &mut rows),
            Slice::Tasks => case.tasks(group, &mut rows),
        }
    }
    if let [condition] = &settings.conditions[..]
        && let Some(ModelSettings::Scripted(policy)) = settings.models.get(&condition.model)
        && let Some(case) = Case::new(settings, condition, policy, plan, slate)
    {
        case.schema_groups(summary, &mut rows);
    }
    rows
}

impl<'a> Case<'a> {
    /// `None` where the bank is not asked to its end, or another probe asks.
    fn new(
        settings: &'a Settings,
        condition: &'a Condition,
        policy: &'a Policy,
        plan: &Plan,
        slate: &'a Slate,
    ) -> Option<Self> {
        let bank = plan.records.len() * settings.probe.exits.len();
        let is_whole = settings.probe.kind == ProbeKind::Planned && bank <= settings.budget as usize;
        if condition.slice == Slice::Probe && !is_whole {
            return None;
        }
        let truth = &slate.items().first()?.world.truth;
        let count = |prose: bool| truth.secrets.iter().filter(|secret| secret.prose == prose).count();
        let classes = [false, true].map(|prose| Class { prose, count: count(prose) });
        let mut exits = settings.probe.exits.clone();
        if !exits.contains(&Exit::Response) {
            exits.push(Exit::Response);
        }
        let classes = classes.into_iter().filter(|class| class.count > 0).collect();
        Some(Self { settings, condition, policy, truth, classes, exits })
    }

    fn keep(&self) -> f64 {
        if let Interface::MinimisedReturns { keep } = self.condition.interface { keep } else { 1.0 }
    }

    /// Probability that a value is said at an exit and the other side takes it.
    fn says(&self, exit: Exit, prose: bool) -> f64 {
        let taken = if exit == Exit::Response { 1.0 } else { 1.0 - self.settings.outage };
        self.policy.probability(exit.name(), prose) * taken
    }

    /// Probability that a value is visible at any of these exits.
    fn visible(&self, exits: &[Exit], prose: bool) -> f64 {
        let leaves = |guarded: bool| {
            let is_open = |exit: &&Exit| {
                !guarded || !self.condition.guard.as_ref().is_some_and(|guard| guard.exits.contains(exit))
            };
            let stays: f64 = exits.iter().filter(is_open).map(|exit| 1.0 - self.says(*exit, prose)).product();
            1.0 - stays
        };
        let recall = self.condition.guard.as_ref().map_or(0.0, |guard| guard.recall);
        self.keep() * ((1.0 - recall) * leaves(false) + recall * leaves(true))
    }

    /// The same over all private values.
    fn coverage(&self, exits: &[Exit]) -> f64 {
        let total: usize = self.classes.iter().map(|class| class.count).sum();
        let sum: f64 = self.classes.iter().map(|class| class.count as f64 * self.visible(exits, class.prose)).sum();
        sum / total.max(1) as f64
    }

    fn row(&self, metric: impl Into<String>, known: f64, figure: &Figure) -> KnownRow {
        KnownRow::new(&self.condition.name, metric, known, (figure.mean, figure.low, figure.high), figure.n)
    }

    fn view(&self, metric: &str, known: f64, figures: &ViewFigures) -> KnownRow {
        let [low, high] = figures.coverage_interval.map_or([None, None], |[low, high]| [Some(low), Some(high)]);
        KnownRow::new(&self.condition.name, metric, known, (figures.coverage, low, high), figures.n)
    }

    fn probe(&self, group: &Group, rows: &mut Vec<KnownRow>) {
        rows.push(self.row("ecr", self.coverage(&self.exits), &group.ecr));
        for exit in &self.exits {
            if let Some(figure) = group.coverage.get(exit.name()) {
                rows.push(self.row(format!("coverage.{}", exit.name()), self.coverage(&[*exit]), figure));
            }
        }
        self.outlet_loss(group, rows);
        self.views(group, rows);
        self.recognition(group, rows);
    }

    /// Closed only where all values are alike and independent.
    fn outlet_loss(&self, group: &Group, rows: &mut Vec<KnownRow>) {
        let (Some(outlet), [class]) = (self.settings.expected_outlet, &self.classes[..]) else { return };
        if self.settings.outage > 0.0 {
            return;
        }
        let exposed = self.visible(&self.exits, class.prose);
        let at_outlet = if self.exits.contains(&outlet) { self.visible(&[outlet], class.prose) } else { 0.0 };
        let off = exposed - at_outlet;
        let count = class.count as i32;
        let any = 1.0 - (1.0 - exposed).powi(count);
        if exposed > 0.0 {
            rows.push(self.row("olf", off / exposed * any, &group.olf));
        }
        let positive = 1.0 - (1.0 - off).powi(count);
        let measured = (group.olf.n > 0).then(|| group.olf_positive as f64 / group.olf.n as f64);
        let [low, high] = group.olf_positive_interval.map_or([None, None], |[low, high]| [Some(low), Some(high)]);
        rows.push(KnownRow::new(&self.condition.name, "olf above 0", positive, (measured, low, high), group.olf.n));
    }

    fn views(&self, group: &Group, rows: &mut Vec<KnownRow>) {
        let of =
            |keep: &dyn Fn(&Exit) -> bool| self.exits.iter().copied().filter(|exit| keep(exit)).collect::<Vec<_>>();
        let outlet = self.settings.expected_outlet;
        let known = [
            (View::FinalAnswer, Some(of(&|exit| *exit == Exit::Response))),
            (View::SuccessfulAction, Some(of(&|exit| !SHOWN.contains(exit)))),
            (View::ExpectedOutlet, outlet.map(|outlet| of(&|exit| *exit == outlet))),
            (View::SelfReport, self.reports_all().then(|| of(&|exit| SHOWN.contains(exit)))),
            (View::Union, Some(self.exits.clone())),
        ];
        for (view, exits) in known {
            if let (Some(exits), Some(figures)) = (exits, group.views.get(&view).filter(|figures| figures.n > 0)) {
                rows.push(self.view(&format!("view.{}", view.name()), self.coverage(&exits), figures));
            }
        }
    }

    /// Every value that is shown is a candidate: it stands on a line with a label, and the list has no limit.
    fn reports_all(&self) -> bool {
        self.condition.candidates.is_none() && self.classes.iter().all(|class| !class.prose)
    }

    /// Private and open values are shown alike, so that their share among the candidates is their share in the workspace.
    fn recognition(&self, group: &Group, rows: &mut Vec<KnownRow>) {
        let Some(found) = &group.recognition else { return };
        let [Class { prose: false, count }] = &self.classes[..] else { return };
        if self.condition.guard.is_some() {
            return;
        }
        let shown: Vec<Exit> = self.exits.iter().copied().filter(|exit| SHOWN.contains(exit)).collect();
        let share = *count as f64 / (count + self.truth.open_values) as f64;
        let one = self.visible(&shown, false);
        let reported = match self.condition.candidates {
            None => one,
            // Binomial with so many values: below the limit less than once in ten thousand sessions.
            Some(most) => {
                let values = (count + self.truth.open_values) as f64;
                let least = values * one - 4.0 * (values * one * (1.0 - one)).sqrt();
                if least < most as f64 {
                    return;
                }
                most as f64 * share / *count as f64
            }
        };
        if one <= 0.0 {
            return;
        }
        rows.push(self.row("recognition.reported", reported, &found.reported));
        rows.push(self.row("recognition.precision", share, &found.precision));
        rows.push(self.row("recognition.gap", self.coverage(&self.exits) - reported, &found.gap));
    }

    /// Of the values that any observation with a schema showed: arguments and recorded returns are internal.
    fn schema_groups(&self, summary: &Summary, rows: &mut Vec<KnownRow>) {
        let is_plain = self.condition.guard.is_none() && self.settings.outage == 0.0;
        if self.condition.slice != Slice::Probe || self.condition.interface != Interface::Plain || !is_plain {
            return;
        }
        for class in &self.classes {
            let group = if class.prose { SchemaGroup::Partial } else { SchemaGroup::Match };
            let tap = self.settings.taps.map_or(1.0, |taps| if class.prose { taps.partial } else { taps.matching });
            let actions: Vec<Exit> = self.exits.iter().copied().filter(|exit| *exit != Exit::Response).collect();
            let (by_action, by_answer) = (self.visible(&actions, class.prose), self.says(Exit::Response, class.prose));
            let internal = 1.0 - (1.0 - tap) * (1.0 - by_action);
            let visible = self.visible(&self.exits, class.prose);
            let overlap = by_action + (1.0 - by_action) * tap * by_answer;
            let shown = internal + visible - overlap;
            let Some(figures) = summary.aggregate.schema_groups.get(&group).filter(|_| shown > 0.0) else { continue };
            let name = if class.prose { "partial" } else { "match" };
            for (part, known, figure) in [
                ("internal", internal, &figures.internal),
                ("visible", visible, &figures.visible),
                ("overlap", overlap, &figures.overlap),
            ] {
                rows.push(self.row(format!("schema.{name}.{part}"), known / shown, figure));
            }
        }
    }

    /// Tasks go out by e-mail and into the calendar in turn; each is done only if the value that it asks for was kept.
    fn tasks(&self, group: &Group, rows: &mut Vec<KnownRow>) {
        if self.condition.guard.is_some() {
            return;
        }
        let tasks = self.truth.tasks.len();
        let by_email = tasks.div_ceil(2) as f64 / tasks.max(1) as f64;
        let taken = 1.0 - self.settings.outage;
        let through = |exit: Exit| {
            let says = self.policy.probability(exit.name(), false);
            let answer = self.policy.probability("response", false);
            self.keep() * (1.0 - (1.0 - self.keep() * says * taken) * (1.0 - answer))
        };
        let known = by_email * through(Exit::Email) + (1.0 - by_email) * through(Exit::Calendar);
        rows.push(self.row("ecr", known, &group.ecr));
    }
}

/// The expected success of a condition of the task slice; absent where it has no closed form.
pub(super) fn known_success(settings: &Settings, condition: &Condition) -> Option<f64> {
    let ModelSettings::Scripted(policy) = settings.models.get(&condition.model)? else { return None };
    let WorkspaceSettings::Composed(_) = settings.workspace else { return None };
    if condition.slice != Slice::Tasks || condition.guard.is_some() {
        return None;
    }
    let keep = if let Interface::MinimisedReturns { keep } = condition.interface { keep } else { 1.0 };
    Some(policy.competence * keep * (1.0 - settings.outage))
}

impl KnownRow {
    pub(super) fn new(
        condition: &str,
        metric: impl Into<String>,
        known: f64,
        (measured, low, high): (Option<f64>, Option<f64>, Option<f64>),
        n: usize,
    ) -> Self {
        let near = 1e-9;
        let inside = low.zip(high).map(|(low, high)| low - near <= known && known <= high + near);
        Self { condition: condition.to_owned(), metric: metric.into(), known, measured, low, high, n, inside }
    }
}

/// Known and measured side by side.
pub fn text_known(rows: &[KnownRow]) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    if rows.is_empty() {
        return out;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "\nknown and measured\n{:<22} {:<24} {:>7} {:>9}  95% interval     holds",
        "condition", "metric", "known", "measured"
    );
    for row in rows {
        let measured = row.measured.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.4}"));
        let interval =
            row.low.zip(row.high).map_or_else(|| "none".to_owned(), |(low, high)| format!("[{low:.4}, {high:.4}]"));
        let inside = row.inside.map_or("", |inside| if inside { "yes" } else { "no" });
        let _ = writeln!(
            out,
            "{:<22} {:<24} {:>7.4} {measured:>9}  {interval:<17}{inside}",
            row.condition, row.metric, row.known
        );
    }
    let judged = rows.iter().filter_map(|row| row.inside);
    let (held, all) = judged.fold((0, 0), |(held, all), inside| (held + usize::from(inside), all + 1));
    let _ = writeln!(out, "{held} of {all} intervals hold the known value");
    out
}
