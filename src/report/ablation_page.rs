//! The page of an ablation: H of every variation, the learning curve where training sizes differ, and the table.
//!
//! In: [`Spread`]s. Out: one HTML document that loads nothing and runs nothing.

use super::chart::{Chart, Series};
use super::figure::{Interval, intervals};
use super::html::Column::{Figures, Words};
use super::html::{escape, table};
use super::page::{head, section};
use crate::evaluate::{OverSeeds, Spread, is_untrained};

/// Training sizes from which a curve is drawn.
const SIZES: usize = 2;

/// Renders the page.
pub fn render_ablation(title: &str, rows: &[Spread]) -> String {
    let lead = "Variations of one recipe. Percent, mean over seeds of training [least, greatest].";
    let mut out = head(title, lead);
    section("variations", "H by variation", &mut out);
    out.push_str("<div class=\"grid3\">");
    for system in systems(rows) {
        let of_system = rows.iter().filter(|row| row.system == system);
        let dots: Vec<Interval> = of_system
            .map(|row| Interval {
                name: row.variation.clone(),
                value: row.h_score.mean,
                range: row.h_score.least.zip(row.h_score.greatest),
            })
            .collect();
        out.push_str(&intervals(&format!("{system}: H, mean and range over seeds"), &dots));
    }
    out.push_str("</div></section>\n");
    learning_curve(rows, &mut out);
    section("table", "All figures", &mut out);
    out.push_str(&table(
        "Variations and systems",
        &[
            Words("Variation"),
            Words("System"),
            Figures("Seeds"),
            Figures("Training traces"),
            Figures("n"),
            Figures("Completion"),
            Figures("Leakage"),
            Figures("H"),
            Figures("Deviation of H"),
            Figures("H interval"),
            Figures("ECR"),
            Figures("Over-disclosing"),
        ],
        &rows.iter().map(row).collect::<Vec<_>>(),
    ));
    out.push_str(
        "<p class=\"note\">Deviation of H: standard deviation between seeds of training. H interval: mean width of its 95% interval within a \
         seed. Untrained systems stand once, since seeds of training do not reach them.</p></section>\n</main></body></html>\n",
    );
    out
}

/// In the order in which they first come.
fn systems(rows: &[Spread]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.system.as_str()) {
            names.push(&row.system);
        }
    }
    names
}

fn row(row: &Spread) -> Vec<String> {
    let points = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |value| format!("{:.1}", 100.0 * value));
    vec![
        escape(&row.variation),
        escape(&row.system),
        row.seeds.len().to_string(),
        row.training_traces.map_or_else(|| "none".to_owned(), |count| count.to_string()),
        row.n.to_string(),
        over_seeds(row.completion_rate, 100.0),
        over_seeds(row.leakage_rate, 100.0),
        over_seeds(row.h_score, 100.0),
        points(row.h_score.deviation),
        points(row.h_interval_width),
        over_seeds(row.ecr, 100.0),
        over_seeds(row.over_disclosing, 1.0),
    ]
}

fn over_seeds(figure: OverSeeds, scale: f64) -> String {
    let Some(((mean, least), greatest)) = figure.mean.zip(figure.least).zip(figure.greatest) else {
        return "n/a".to_owned();
    };
    let [mean, least, greatest] = [mean, least, greatest].map(|value| format!("{:.1}", scale * value));
    if least == greatest {
        format!("<b>{mean}</b>")
    } else {
        format!("<b>{mean}</b> <span class=\"muted\">[{least}, {greatest}]</span>")
    }
}

/// Figures over the number of training traces; untrained systems are its level.
fn learning_curve(rows: &[Spread], out: &mut String) {
    let trained: Vec<&Spread> = rows.iter().filter(|row| row.training_traces.is_some()).collect();
    let mut sizes: Vec<usize> = trained.iter().filter_map(|row| row.training_traces).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < SIZES {
        return;
    }
    let base = rows.iter().find(|row| is_untrained(&row.system));
    let chart = |title: &str, of: fn(&Spread) -> OverSeeds| {
        let series = systems(rows).into_iter().map(|system| {
            let mut points: Vec<(f64, OverSeeds)> = trained
                .iter()
                .filter(|row| row.system == system)
                .filter_map(|row| Some((row.training_traces? as f64, of(row))))
                .collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            let percent = |value: f64| 100.0 * value;
            Series {
                name: system.to_owned(),
                points: points.iter().filter_map(|(size, figure)| Some((*size, percent(figure.mean?)))).collect(),
                ranges: points
                    .iter()
                    .filter_map(|(size, figure)| Some((*size, percent(figure.least?), percent(figure.greatest?))))
                    .collect(),
            }
        });
        Chart {
            title: title.to_owned(),
            series: series.collect(),
            reference: base.and_then(|base| Some((100.0 * of(base).mean?, "base"))),
            across: "training traces",
        }
        .render()
    };
    section("curve", "Learning curve", out);
    out.push_str("<div class=\"grid3\">");
    out.push_str(&chart("H, percent", |row| row.h_score));
    out.push_str(&chart("Completion, percent", |row| row.completion_rate));
    out.push_str(&chart("Leakage, percent", |row| row.leakage_rate));
    out.push_str("</div><p class=\"note\">Bars: least and greatest over seeds of training.</p></section>\n");
}
