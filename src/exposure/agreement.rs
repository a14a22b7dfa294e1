//! Human agreement: two annotators, and a judge against the labels they settled on.
//!
//! In: rows of `labels.jsonl`. Out: [`Agreement`], overall and by slice, with the rows on which anyone disagrees.
//! Source: ASLEval, section 3.3: raw agreement, Cohen's kappa, strict F1.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Fault, Result};
use crate::statistic::{Confusion, Estimate, Resampling};

/// The slice of rows without one.
const NO_SLICE: &str = "none";

/// One observation-entity pair with its labels; any strings, also numbers and booleans as their text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelRow {
    /// The pair.
    pub pair_id: Value,
    /// The stratum.
    #[serde(default)]
    pub slice: Option<String>,
    /// First annotator's label.
    #[serde(default)]
    pub annotator_a: Value,
    /// Second annotator's label.
    #[serde(default)]
    pub annotator_b: Value,
    /// The settled label.
    #[serde(default)]
    pub gold: Value,
    /// The judge's label.
    #[serde(default)]
    pub prediction: Value,
    /// Everything else, such as the text; kept with disagreements.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Agreement overall and by slice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// All rows.
    pub overall: AgreementFigures,
    /// By slice.
    pub by_slice: BTreeMap<String, AgreementFigures>,
    /// The label that is a positive of strict F1.
    pub positive: String,
    /// Rows on which the annotators, or gold and prediction, differ.
    pub disagreements: usize,
    /// Seed of resampling.
    pub seed: u64,
    /// Resamples behind each interval.
    pub resamples: usize,
}

/// Agreement over a set of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgreementFigures {
    /// Rows.
    pub n: usize,
    /// Rows that both annotators labelled.
    pub annotated: u64,
    /// Labels that the annotators used.
    pub classes: Vec<String>,
    /// Share of equal labels.
    pub raw_agreement: Option<f64>,
    /// Its 95% interval over rows.
    pub raw_agreement_interval: Option<[f64; 2]>,
    /// Why it is absent, or its interval is absent or degenerate.
    #[serde(default)]
    pub raw_agreement_reason: Option<String>,
    /// Cohen's kappa for any number of classes; undefined when there is one.
    pub kappa: Option<f64>,
    /// Its 95% interval.
    pub kappa_interval: Option<[f64; 2]>,
    /// Why kappa is absent, or its interval is absent or degenerate.
    pub kappa_reason: Option<String>,
    /// Rows with gold and prediction.
    pub judged: u64,
    /// F1 of the positive label, every other label counting as negative.
    pub strict_f1: Option<f64>,
    /// Its 95% interval.
    pub strict_f1_interval: Option<[f64; 2]>,
    /// Why it is absent, or its interval is absent or degenerate.
    pub strict_f1_reason: Option<String>,
    /// Positives among the rows predicted so.
    pub strict_precision: Option<f64>,
    /// Rows predicted positive among the positives.
    pub strict_recall: Option<f64>,
    /// Rows by first annotator, then second.
    pub annotators: BTreeMap<String, BTreeMap<String, u64>>,
    /// Rows by gold, then prediction.
    pub confusion: BTreeMap<String, BTreeMap<String, u64>>,
}

/// A row on which somebody disagrees.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disagreement<'a> {
    /// Who: `annotators`, `judge` or both.
    pub between: Vec<&'static str>,
    /// The row, with its text where it has one.
    #[serde(flatten)]
    pub row: &'a LabelRow,
}

/// A label as text; absent when null or blank.
fn label(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.trim().is_empty()).then(|| text.trim().to_owned()),
        other => Some(other.to_string()),
    }
}

impl LabelRow {
    fn annotators(&self) -> Option<(String, String)> {
        label(&self.annotator_a).zip(label(&self.annotator_b))
    }

    fn judged(&self) -> Option<(String, String)> {
        label(&self.gold).zip(label(&self.prediction))
    }
}

/// Agreement of all rows.
///
/// # Errors
/// A `pair_id` that occurs twice, or no row at all.
pub fn agreement(rows: &[LabelRow], positive: &str, resampling: Resampling) -> Result<Agreement> {
    check(rows)?;
    let mut slices: BTreeMap<&str, Vec<&LabelRow>> = BTreeMap::new();
    for row in rows {
        slices.entry(row.slice.as_deref().unwrap_or(NO_SLICE)).or_default().push(row);
    }
    let all: Vec<&LabelRow> = rows.iter().collect();
    Ok(Agreement {
        overall: figures(&all, positive, resampling),
        by_slice: slices
            .into_iter()
            .map(|(name, rows)| (name.to_owned(), figures(&rows, positive, resampling)))
            .collect(),
        positive: positive.to_owned(),
        disagreements: disagreements(rows).len(),
        seed: resampling.seed.0,
        resamples: resampling.resamples,
    })
}

/// The rows on which the annotators, or gold and prediction, differ, in their order.
pub fn disagreements(rows: &[LabelRow]) -> Vec<Disagreement<'_>> {
    let differ = |pair: Option<(String, String)>| pair.is_some_and(|(a, b)| a != b);
    rows.iter()
        .map(|row| {
            let sides = [("annotators", row.annotators()), ("judge", row.judged())];
            let between = sides.into_iter().filter(|(_, pair)| differ(pair.clone())).map(|(name, _)| name).collect();
            Disagreement { between, row }
        })
        .filter(|found| !found.between.is_empty())
        .collect()
}

fn check(rows: &[LabelRow]) -> Result<()> {
    if rows.is_empty() {
        return Err(Fault::new("no labels: agreement of nothing is undefined").into());
    }
    let mut seen = BTreeSet::new();
    let twice = rows.iter().map(|row| row.pair_id.to_string()).filter(|id| !seen.insert(id.clone()));
    let faults: Vec<Fault> = twice.take(10).map(|id| Fault::new("`pair_id` appears twice").got(id)).collect();
    if faults.is_empty() { Ok(()) } else { Err(Error::Invalid(faults)) }
}

fn figures(rows: &[&LabelRow], positive: &str, resampling: Resampling) -> AgreementFigures {
    let annotated: Vec<(String, String)> = rows.iter().filter_map(|row| row.annotators()).collect();
    let judged: Vec<(String, String)> = rows.iter().filter_map(|row| row.judged()).collect();
    let (annotators, judge) = (table(&annotated), table(&judged));
    let strict = judge.strict(positive);
    let raw = Resampled::new(&annotated).estimate(resampling, Confusion::raw);
    let kappa = Resampled::new(&annotated).estimate(resampling, Confusion::kappa);
    let f1 = Resampled::new(&judged).estimate(resampling, |table| table.strict(positive).f1);
    AgreementFigures {
        n: rows.len(),
        annotated: annotators.total(),
        classes: annotators.labels().into_iter().map(str::to_owned).collect(),
        raw_agreement: annotators.raw(),
        raw_agreement_interval: ends(&raw),
        raw_agreement_reason: match annotators.total() {
            0 => Some("no row has both annotators".to_owned()),
            _ => raw.reason,
        },
        kappa: annotators.kappa(),
        kappa_interval: ends(&kappa),
        kappa_reason: match (annotators.kappa(), annotators.total()) {
            (Some(_), _) => kappa.reason,
            (None, 0) => Some("no row has both annotators".to_owned()),
            (None, _) => Some("only one class is present".to_owned()),
        },
        judged: judge.total(),
        strict_f1: strict.f1,
        strict_f1_interval: ends(&f1),
        strict_f1_reason: match (strict.f1, judge.total()) {
            (Some(_), _) => f1.reason,
            (None, 0) => Some("no row has gold and prediction".to_owned()),
            (None, _) => Some(format!("`{positive}` neither occurs nor is predicted")),
        },
        strict_precision: strict.precision,
        strict_recall: strict.recall,
        annotators: nested(&annotators),
        confusion: nested(&judge),
    }
}

fn ends(estimate: &Estimate) -> Option<[f64; 2]> {
    Some([estimate.low?, estimate.high?])
}

fn table(pairs: &[(String, String)]) -> Confusion {
    let mut table = Confusion::default();
    for (a, b) in pairs {
        table.add(a, b, 1);
    }
    table
}

fn nested(table: &Confusion) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut rows: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (a, b, count) in table.iter() {
        rows.entry(a.to_owned()).or_default().insert(b.to_owned(), count);
    }
    rows
}

/// Pairs by kind, so that a resample is a few counts.
struct Resampled<'a> {
    kinds: Vec<&'a (String, String)>,
    of_pair: Vec<usize>,
}

impl<'a> Resampled<'a> {
    fn new(pairs: &'a [(String, String)]) -> Self {
        let kinds: Vec<&(String, String)> = pairs.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let of_pair = pairs.iter().filter_map(|pair| kinds.binary_search(&pair).ok()).collect();
        Self { kinds, of_pair }
    }

    fn estimate(&self, resampling: Resampling, figure: impl Fn(&Confusion) -> Option<f64> + Sync) -> Estimate {
        resampling.estimate("labels", self.of_pair.len(), |weights| {
            let mut counts = vec![0_u64; self.kinds.len()];
            for (kind, weight) in self.of_pair.iter().zip(weights) {
                counts[*kind] += u64::from(*weight);
            }
            let mut table = Confusion::default();
            for ((a, b), count) in self.kinds.iter().map(|kind| (&kind.0, &kind.1)).zip(counts) {
                table.add(a, b, count);
            }
            figure(&table)
        })
    }
}

/// The figures for a terminal.
pub fn text_agreement(agreement: &Agreement) -> String {
    use std::fmt::Write as _;
    let number = |value: Option<f64>, interval: Option<[f64; 2]>| match (value, interval) {
        (Some(value), Some([low, high])) => format!("{value:.3} [{low:.3}, {high:.3}]"),
        (Some(value), None) => format!("{value:.3}"),
        _ => "n/a".to_owned(),
    };
    let mut out = String::new();
    let rows = std::iter::once(("overall", &agreement.overall))
        .chain(agreement.by_slice.iter().map(|(name, figures)| (name.as_str(), figures)));
    for (name, figures) in rows {
        let _ = writeln!(
            out,
            "{name}: n {}, {} classes, raw agreement {}, kappa {}, strict F1 of `{}` {}",
            figures.n,
            figures.classes.len(),
            number(figures.raw_agreement, figures.raw_agreement_interval),
            number(figures.kappa, figures.kappa_interval),
            agreement.positive,
            number(figures.strict_f1, figures.strict_f1_interval),
        );
        for (figure, reason) in [
            ("raw agreement", &figures.raw_agreement_reason),
            ("kappa", &figures.kappa_reason),
            ("strict F1", &figures.strict_f1_reason),
        ] {
            if let Some(reason) = reason {
                let _ = writeln!(out, "  {figure}: {reason}");
            }
        }
    }
    let _ = writeln!(out, "\ngold \\ prediction");
    for (gold, predictions) in &agreement.overall.confusion {
        let cells: Vec<String> = predictions.iter().map(|(label, count)| format!("{label} {count}")).collect();
        let _ = writeln!(out, "  {gold}: {}", cells.join(", "));
    }
    let _ = writeln!(out, "{} rows with a disagreement", agreement.disagreements);
    out
}
