//! The table of an ablation, for terminals.
//!
//! In: [`Spread`]s. Out: text in percent: the mean over seeds, with the least and the greatest where there are several.

use super::text::align;
use crate::evaluate::{OverSeeds, Spread};

/// A row a variation and system.
pub fn ablation_table(rows: &[Spread]) -> String {
    let header = [
        "variation",
        "system",
        "seeds",
        "trained on",
        "n",
        "CR",
        "LR",
        "H",
        "deviation",
        "H interval",
        "ECR",
        "over-disclosing",
    ];
    let mut table = vec![header.map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(|row| {
        vec![
            row.variation.clone(),
            row.system.clone(),
            row.seeds.len().to_string(),
            row.training_traces.map_or_else(|| "-".to_owned(), |traces| traces.to_string()),
            row.n.to_string(),
            figure(row.completion_rate, 100.0),
            figure(row.leakage_rate, 100.0),
            figure(row.h_score, 100.0),
            points(row.h_score.deviation),
            points(row.h_interval_width),
            figure(row.ecr, 100.0),
            figure(row.over_disclosing, 1.0),
        ]
    }));
    let mut text = align(&table);
    text.push_str(
        "percent, mean over seeds [least, greatest]; trained on: traces; deviation: of H between seeds; H interval: mean width of its 95% \
         interval within a seed; over-disclosing: answers\n",
    );
    text
}

fn points(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{:.1}", 100.0 * value))
}

fn figure(figure: OverSeeds, scale: f64) -> String {
    let Some(((mean, least), greatest)) = figure.mean.zip(figure.least).zip(figure.greatest) else {
        return "-".to_owned();
    };
    let [mean, least, greatest] = [mean, least, greatest].map(|value| format!("{:.1}", scale * value));
    if least == greatest { mean } else { format!("{mean} [{least}, {greatest}]") }
}
