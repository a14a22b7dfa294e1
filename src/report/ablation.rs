//! The table of an ablation, for terminals.
//!
//! In: [`Spread`]s. Out: text in percent: the mean over seeds, with the least and the greatest where there are several.

use super::text::align;
use crate::evaluate::{OverSeeds, Spread};

/// A row a variation and system.
pub fn ablation_table(rows: &[Spread]) -> String {
    let header = ["variation", "system", "seeds", "n", "CR", "LR", "H", "ECR", "over-disclosing", "H interval"];
    let mut table = vec![header.map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(|row| {
        vec![
            row.variation.clone(),
            row.system.clone(),
            row.seeds.len().to_string(),
            row.n.to_string(),
            figure(row.completion_rate, 100.0),
            figure(row.leakage_rate, 100.0),
            figure(row.h_score, 100.0),
            figure(row.ecr, 100.0),
            figure(row.over_disclosing, 1.0),
            row.h_interval_width.map_or_else(|| "-".to_owned(), |width| format!("{:.1}", 100.0 * width)),
        ]
    }));
    let mut text = align(&table);
    text.push_str(
        "percent, mean over seeds [least, greatest]; over-disclosing: answers; H interval: mean width within a seed\n",
    );
    text
}

fn figure(figure: OverSeeds, scale: f64) -> String {
    let Some(((mean, least), greatest)) = figure.mean.zip(figure.least).zip(figure.greatest) else {
        return "-".to_owned();
    };
    let [mean, least, greatest] = [mean, least, greatest].map(|value| format!("{:.1}", scale * value));
    if least == greatest { mean } else { format!("{mean} [{least}, {greatest}]") }
}
