//! What models said beside the deterministic judge: a semantic verifier, another judge, and how far they agree.
//!
//! In: a [`Summary`]. Out: sections of the page, none where no model was asked.

use std::fmt::Write as _;

use super::html::Column::{Figures, Words};
use super::html::{escape, percent, table};
use super::page::section;
use super::results::rate_cell;
use crate::evaluate::{Agreement, JudgeSummary, Rates, Summary, VerifierSummary};
use crate::verify::SemanticUse;

/// The verifier's section, then one for each judge.
pub(super) fn models(summary: &Summary, out: &mut String) {
    if let Some(verifier) = &summary.verifier {
        verified(verifier, out);
    }
    for (index, (judge, figures)) in summary.judges.iter().enumerate() {
        judged(index, judge, figures, out);
    }
}

fn verified(verifier: &VerifierSummary, out: &mut String) {
    section("verifier", "With a semantic verifier", out);
    let mut rows = Vec::new();
    for (system, deterministic) in &verifier.deterministic {
        rows.push(row(system, "deterministic", deterministic));
        rows.extend(verifier.with_semantic.get(system).map(|rates| row(system, "with semantic matches", rates)));
    }
    let head = [Words("System"), Words("Reading"), Figures("n"), Figures("Scored"), Figures("Leakage"), Figures("H")];
    out.push_str(&table("Leakage with and without what the verifier found", &head, &rows));
    let decides = match verifier.in_headline {
        SemanticUse::Beside => "Its matches are not in the figures above.",
        SemanticUse::Headline => "Its matches decide the figures above.",
    };
    let tally = escape(&verifier.tally.to_string()).replace('\n', "; ");
    let _ = writeln!(out, "<p class=\"note\">{}: {tally}. {decides}</p></section>", escape(&verifier.model));
}

fn judged(index: usize, judge: &str, figures: &JudgeSummary, out: &mut String) {
    section(&format!("judge-{index}"), &format!("Judged by {judge}"), out);
    let mut rows = Vec::new();
    for (system, rates) in &figures.systems {
        let mut row = row(system, "", rates);
        row[1] = rate_cell(&rates.completion_rate);
        rows.push(row);
    }
    let head =
        [Words("System"), Figures("Completion"), Figures("n"), Figures("Scored"), Figures("Leakage"), Figures("H")];
    out.push_str(&table("Systems", &head, &rows));
    let agreements = [("Completed", &figures.completed), ("Leaked by the response", &figures.leaked)];
    let head = [
        Words("Question"),
        Figures("Rows"),
        Figures("Agreement"),
        Figures("Kappa"),
        Figures("Both yes"),
        Figures("Both no"),
        Figures("Only deterministic"),
        Figures("Only this judge"),
    ];
    let rows: Vec<Vec<String>> = agreements.iter().map(|(question, found)| agreement(question, found)).collect();
    out.push_str(&table("Agreement with the deterministic judge", &head, &rows));
    for (reason, count) in &figures.unscored_reasons {
        let _ = writeln!(out, "<p class=\"note\">Unscored by this judge: {count} x {}</p>", escape(reason));
    }
    out.push_str("</section>\n");
}

fn row(system: &str, reading: &str, rates: &Rates) -> Vec<String> {
    vec![
        escape(system),
        reading.to_owned(),
        rates.n.to_string(),
        rates.scored.to_string(),
        rate_cell(&rates.leakage_rate),
        percent(rates.h_score.value),
    ]
}

fn agreement(question: &str, found: &Agreement) -> Vec<String> {
    let kappa = found.kappa.map_or_else(|| "n/a".to_owned(), |kappa| format!("{kappa:.3}"));
    let counts = [found.both, found.neither, found.only_own, found.only_other].map(|count| count.to_string());
    let mut row = vec![question.to_owned(), found.n.to_string(), percent(found.raw), kappa];
    row.extend(counts);
    row
}
