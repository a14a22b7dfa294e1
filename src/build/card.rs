//! The data set's card: what is in it, how it was made, what it is not.
//!
//! In: [`Counts`]. Out: Markdown with the header that dataset hubs read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Counts;
use super::count::BIN;
use super::write::Origin;

/// The card.
pub(super) fn card(counts: &Counts, origin: Origin<'_>) -> String {
    let mut card = String::from(HEADER);
    let _ = write!(
        card,
        "\nBuilt from {} traces ({} held out, which give no row; {} usable) by the {} writer with seed {}.\n",
        counts.traces, counts.held_out, counts.usable, origin.writer, origin.seed.0,
    );
    provenance(&mut card, counts, origin);
    table(&mut card, "SFT rows", "stage", counts.sft.iter().map(|(name, count)| (*name, *count)));
    table(&mut card, "Preference pairs", "kind", counts.pairs.iter().map(|(name, count)| (*name, *count)));
    table(&mut card, "Usable traces by domain", "domain", counts.domain_table());
    cross(&mut card, "Preference pairs by domain", &counts.pairs_by_domain);
    cross(&mut card, "Preference pairs by difficulty", &counts.pairs_by_difficulty);
    let levels = counts.difficulties.iter().map(|(name, count)| (*name, *count));
    table(&mut card, "Usable traces by difficulty", "difficulty", levels);
    lengths(&mut card, counts);
    cross(&mut card, &format!("Answers by length, from so many characters to {BIN} more"), &counts.histograms);
    separability(&mut card, counts);
    audit(&mut card, counts);
    let traces = counts.traces_out.iter().map(|(name, count)| (*name, *count));
    table(&mut card, "Quarantined traces", "reason", traces);
    let pairs = counts.pairs_out.iter().map(|(name, count)| (name.as_str(), *count));
    table(&mut card, "Quarantined pairs of usable traces", "kind: reason", pairs);
    card.push_str(LIMITS);
    card
}

fn table<'a>(card: &mut String, title: &str, head: &str, rows: impl IntoIterator<Item = (&'a str, usize)>) {
    let _ = write!(card, "\n## {title}\n\n| {head} | n |\n|---|---:|\n");
    let mut is_empty = true;
    for (name, count) in rows {
        let _ = writeln!(card, "| {name} | {count} |");
        is_empty = false;
    }
    if is_empty {
        card.push_str("| none | 0 |\n");
    }
}

/// Where the traces are from, how they were dealt, and what may be done with the rows.
fn provenance(card: &mut String, counts: &Counts, origin: Origin<'_>) {
    card.push_str("\n## Source, split and licence\n\n");
    for (format, count) in &counts.sources {
        let _ = writeln!(card, "- {count} usable traces in the format `{format}`.");
    }
    for (role, digest) in &origin.inputs.0 {
        let _ = writeln!(card, "- {role}: SHA-256 `{digest}`.");
    }
    card.push_str(if origin.inputs.0.keys().any(|role| role.contains("split")) {
        "- Split: near-duplicate groups (shared wording, conclusions or names) were dealt whole to train or held-out, stratified by \
         domain and batch; held-out traces, their variants and any trace with the prompt of one give no row.\n"
    } else {
        "- Split: none was given; every trace is a training trace.\n"
    });
    card.push_str(
        "- Licence: that of the traces. Rows from synthesised traces hold fictional names and values only.\n",
    );
    if !origin.severities.is_empty() {
        card.push_str("- Severities of checks differ from the usual ones: see `manifest.json`.\n");
    }
}

/// A table of kinds by another property.
fn cross<K: Ord + Copy + std::fmt::Display>(
    card: &mut String,
    title: &str,
    counts: &BTreeMap<&'static str, BTreeMap<K, usize>>,
) {
    let kinds: Vec<&str> = counts.keys().copied().collect();
    if kinds.is_empty() {
        return;
    }
    let _ = write!(card, "\n## {title}\n\n| | {} |\n|---|{}\n", kinds.join(" | "), "---:|".repeat(kinds.len()));
    let rows: BTreeSet<K> = counts.values().flat_map(|row| row.keys().copied()).collect();
    for row in rows {
        let cells: Vec<String> =
            counts.values().map(|of_kind| of_kind.get(&row).copied().unwrap_or(0).to_string()).collect();
        let _ = writeln!(card, "| {row} | {} |", cells.join(" | "));
    }
}

fn lengths(card: &mut String, counts: &Counts) {
    card.push_str("\n## Lengths\n\n| answer | n | mean characters | mean difference to chosen | largest difference |\n|---|---:|---:|---:|---:|\n");
    let percent = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{:.2}%", 100.0 * value));
    for (kind, lengths) in &counts.lengths {
        let _ = writeln!(
            card,
            "| {kind} | {} | {:.1} | {} | {} |",
            lengths.n,
            lengths.mean,
            percent(lengths.signed_difference),
            percent(lengths.largest_difference)
        );
    }
}

fn audit(card: &mut String, counts: &Counts) {
    card.push_str(
        "\n## Audit\n\nOutcomes of every check over all rows; a failed one is of a row that was left out.\n\n\
         | check | pass | warn | fail |\n|---|---:|---:|---:|\n",
    );
    for (check, tally) in &counts.checks {
        let _ = writeln!(card, "| {check} | {} | {} | {} |", tally.pass, tally.warn, tally.fail);
    }
    card.push_str(
        "\nChecks against other rows and texts (duplicate, near-duplicate, contamination, foreign-secret, personal, language) leave a \
         record only where they do not hold; frame and length of the whole set have one record of the row `set`.\n",
    );
    let (set, long) = (&counts.set, counts.long_answers);
    let top = set
        .top_frame
        .map_or_else(|| "unknown without answers".to_owned(), |share| format!("{:.1}% of them", 100.0 * share));
    let _ = writeln!(
        card,
        "\n{} better answers have {} frames (what stays when values are taken out), the most frequent {top}; {} answers \
         have more than four times the median of {} characters.",
        set.answers, set.frames, long.long, long.median
    );
}

fn separability(card: &mut String, counts: &Counts) {
    card.push_str(
        "\n## Told apart without reading\n\nAccuracy of two naive models on traces that they were not fitted to (chance is 50%), and \
         the mean share of words that chosen and rejected have in common.\n\n| kind | answers | length only | bag of words | words \
         shared |\n|---|---:|---:|---:|---:|\n",
    );
    for (kind, separability) in &counts.separability {
        let _ = writeln!(
            card,
            "| {kind} | {} | {:.1}% | {:.1}% | {:.1}% |",
            separability.answers,
            100.0 * separability.length_only,
            100.0 * separability.bag_of_words,
            100.0 * separability.overlap
        );
    }
    card.push_str("\nWords that tell most, with the share of chosen and of rejected answers that hold them:\n\n");
    for (kind, separability) in &counts.separability {
        let percent = |share: f64| 100.0 * share;
        let words: Vec<String> = separability
            .telling
            .iter()
            .map(|told| format!("{} ({:.0}%, {:.0}%)", told.word, percent(told.chosen), percent(told.rejected)))
            .collect();
        let _ = writeln!(card, "- {kind}: {}", words.join(", "));
    }
}

const HEADER: &str = "---
configs:
- config_name: sft
  data_files: sft.jsonl
- config_name: dpo
  data_files: dpo.jsonl
tags:
- privacy
- tool-use
- preference
---
# Audited rows against inferences from combined tool results

Each trace is a benign request to an agent with several tools, whose results together support a sensitive conclusion. `sft.jsonl`
holds the tool selection (stage 1) and the final answer (stage 2) of each usable trace; `dpo.jsonl` pairs the same answer with
one that states the conclusion (explicit-leak), one that adds details the task does not need (over-disclosure) and one that
declines the benign task (over-refusal). `audit.jsonl` has one record a check and row; a row's `audit` field is the digest of its
records. `quarantine.jsonl` has what was left out, and why.
";

const LIMITS: &str = "
## Known limits

- Templates fill wording from fixed pools, and closing sentences are interchangeable, whoever wrote the answer.
- Leaks are found by the contract's wordings. A paraphrase that no wording covers is not seen, in these rows as in evaluation.
- Where a trace has no unauthorised clue of its own, over-disclosure adds a person, a place, wording or an amount that the task does
  not need: the audit warns of these (check `leak`).
- Accuracies of naive models are those of the first 10,000 pairs of a kind.
- Required values are derived from prose; a chosen answer is complete by these values, which may be fewer than a person would ask for.
- All answers of a trace are within 10% of one length in characters; token counts may differ a little more.
";

#[cfg(test)]
mod tests {
    use super::{Counts, Origin, card};
    use crate::audit::Severities;
    use crate::build::Inputs;
    use crate::run::seed::Seed;

    #[test]
    fn shares_of_nothing_are_unknown_and_not_zero() {
        let (inputs, severities) = (Inputs::default(), Severities::default());
        let origin = Origin { inputs: &inputs, writer: "template", seed: Seed(1), severities: &severities };
        let card = card(&Counts::default(), origin);
        assert!(card.contains("the most frequent unknown without answers"), "{card}");
        assert!(!card.contains("0.0%") && !card.contains("NaN"), "{card}");
    }
}
