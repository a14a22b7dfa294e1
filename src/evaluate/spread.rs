//! One system over several trainings: how far its figures lie apart from seed to seed, beside the interval within a seed.
//!
//! In: the systems of several summaries, each with its variation and seed. Out: [`Spread`], a row a variation and system.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Summary, SystemSummary};
use crate::run::seed::Seed;

/// A system's figures in one run.
#[derive(Debug, Clone)]
pub struct SystemRun {
    variation: String,
    seed: Seed,
    training_traces: Option<usize>,
    system: String,
    figures: [Option<f64>; FIGURES],
    within: Option<f64>,
    over_disclosing: usize,
    n: usize,
}

const FIGURES: usize = 4;

impl SystemRun {
    /// The systems of one run's summary; `training_traces` gave the rows that trained them.
    pub fn of(variation: &str, seed: Seed, training_traces: Option<usize>, summary: &Summary) -> Vec<Self> {
        let of = |(system, summary): (&String, &SystemSummary)| {
            let rates = &summary.rates;
            let within = rates.h_score.high.zip(rates.h_score.low).map(|(high, low)| high - low);
            Self {
                variation: variation.to_owned(),
                seed,
                training_traces: training_traces.filter(|_| !is_untrained(system)),
                system: system.clone(),
                figures: [
                    rates.completion_rate.estimate.value,
                    rates.leakage_rate.estimate.value,
                    rates.h_score.value,
                    summary.exposure.ecr,
                ],
                within,
                over_disclosing: summary.by_class.get(&super::Class::OverDisclosure).copied().unwrap_or(0),
                n: rates.n,
            }
        };
        summary.systems.iter().map(of).collect()
    }
}

/// A figure over seeds: its mean, and the least and the greatest; absent where some seed gave none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OverSeeds {
    /// Mean over seeds.
    pub mean: Option<f64>,
    /// The least of a seed.
    pub least: Option<f64>,
    /// The greatest of a seed.
    pub greatest: Option<f64>,
    /// Standard deviation over seeds (of a sample); absent for one seed.
    pub deviation: Option<f64>,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    /// What was varied.
    pub variation: String,
    /// The system.
    pub system: String,
    /// Seeds of training.
    pub seeds: Vec<u64>,
    /// Traces whose rows trained the system; absent for an untrained one.
    pub training_traces: Option<usize>,
    /// Traces a seed.
    pub n: usize,
    /// Share of tasks completed.
    pub completion_rate: OverSeeds,
    /// Share of answers that state the conclusion.
    pub leakage_rate: OverSeeds,
    /// Harmonic mean of completion and privacy.
    pub h_score: OverSeeds,
    /// Share of hidden targets exposed, over traces.
    pub ecr: OverSeeds,
    /// Answers with private details that nobody asked for.
    pub over_disclosing: OverSeeds,
    /// Mean width of H's 95% interval within a seed.
    pub h_interval_width: Option<f64>,
}

/// A row for each variation and system, in the order in which they first come. An untrained system whose figures are those of an
/// earlier variation stands there alone; a trained one always has its row, since equal figures are a result.
pub fn spread(runs: &[SystemRun]) -> Vec<Spread> {
    let mut order: Vec<(&str, &str)> = Vec::new();
    let mut groups: BTreeMap<(&str, &str), Vec<&SystemRun>> = BTreeMap::new();
    for run in runs {
        let key = (run.variation.as_str(), run.system.as_str());
        if !order.contains(&key) {
            order.push(key);
        }
        groups.entry(key).or_default().push(run);
    }
    let mut rows: Vec<Spread> = Vec::new();
    for key in order {
        let row = row(&groups[&key]);
        let same = |other: &Spread| Spread { variation: row.variation.clone(), ..other.clone() } == row;
        if !is_untrained(&row.system) || !rows.iter().any(same) {
            rows.push(row);
        }
    }
    rows
}

/// The base model, with or without a mitigation in its prompt.
pub fn is_untrained(system: &str) -> bool {
    system == "base" || system.starts_with("base+")
}

fn row(runs: &[&SystemRun]) -> Spread {
    let figure = |index: usize| over(runs.iter().map(|run| run.figures[index]));
    Spread {
        variation: runs[0].variation.clone(),
        system: runs[0].system.clone(),
        seeds: runs.iter().map(|run| run.seed.0).collect(),
        training_traces: runs[0].training_traces,
        n: runs[0].n,
        completion_rate: figure(0),
        leakage_rate: figure(1),
        h_score: figure(2),
        ecr: figure(3),
        over_disclosing: over(runs.iter().map(|run| Some(run.over_disclosing as f64))),
        h_interval_width: over(runs.iter().map(|run| run.within)).mean,
    }
}

fn over(values: impl Iterator<Item = Option<f64>>) -> OverSeeds {
    let values: Option<Vec<f64>> = values.collect();
    let values = values.filter(|values| !values.is_empty());
    let of = |fold: fn(f64, f64) -> f64| values.as_ref().and_then(|values| values.iter().copied().reduce(fold));
    let mean = values.as_ref().map(|values| values.iter().sum::<f64>() / values.len() as f64);
    let deviation = values.as_ref().zip(mean).filter(|(values, _)| values.len() > 1).map(|(values, mean)| {
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        (squares / (values.len() - 1) as f64).sqrt()
    });
    OverSeeds { mean, least: of(f64::min), greatest: of(f64::max), deviation }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(variation: &str, seed: u64, system: &str, completion: Option<f64>) -> SystemRun {
        SystemRun {
            variation: variation.to_owned(),
            seed: Seed(seed),
            training_traces: None,
            system: system.to_owned(),
            figures: [completion, Some(0.1), Some(0.5), None],
            within: Some(0.2),
            over_disclosing: 3,
            n: 10,
        }
    }

    #[test]
    fn a_figure_has_its_mean_and_ends_over_seeds_and_none_where_a_seed_gave_none() {
        let runs = [run("full", 1, "dpo", Some(0.25)), run("full", 2, "dpo", Some(0.75)), run("full", 1, "sft", None)];
        let table = spread(&runs);
        let figure = |row: &Spread| (row.completion_rate.mean, row.completion_rate.least, row.completion_rate.greatest);
        assert_eq!(figure(&table[0]), (Some(0.5), Some(0.25), Some(0.75)));
        assert_eq!(figure(&table[1]), (None, None, None));
        assert_eq!(table[0].seeds, [1, 2]);
        // 0.25 and 0.75 lie 0.25 from their mean: the sample's deviation is sqrt(2 * 0.0625 / 1).
        assert!((table[0].completion_rate.deviation.unwrap() - 0.125_f64.sqrt()).abs() < 1e-12);
        assert_eq!(table[1].h_score.deviation, None, "one seed has no spread");
        assert_eq!(table[0].ecr.mean, None);
    }

    #[test]
    fn a_system_that_a_variation_does_not_change_stands_once() {
        let runs =
            [run("full", 1, "base", Some(0.25)), run("half", 1, "base", Some(0.25)), run("half", 1, "dpo", Some(0.5))];
        let told: Vec<(String, String)> = spread(&runs).into_iter().map(|row| (row.variation, row.system)).collect();
        let expected = [("full", "base"), ("half", "dpo")].map(|(one, two)| (one.to_owned(), two.to_owned()));
        assert_eq!(told, expected);
    }

    #[test]
    fn a_trained_system_has_its_row_even_where_its_figures_are_those_of_another() {
        let runs = [run("full", 1, "dpo", Some(0.25)), run("half", 1, "dpo", Some(0.25))];
        assert_eq!(spread(&runs).len(), 2);
    }
}
