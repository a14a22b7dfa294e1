//! The data set's card: what is in it, how it was made, what it is not.
//!
//! In: [`Counts`]. Out: Markdown with the header that dataset hubs read.

use std::fmt::Write as _;

use super::{Counts, Writer};

/// The card.
pub(super) fn card(counts: &Counts, writer: Writer, seed: u64) -> String {
    let mut card = String::from(HEADER);
    let _ = write!(
        card,
        "\nBuilt from {} traces ({} held out, which give no row; {} usable) by the {} writer with seed {seed}.\n",
        counts.traces,
        counts.held_out,
        counts.usable,
        writer.name(),
    );
    table(&mut card, "SFT rows", "stage", counts.sft.iter().map(|(name, count)| (*name, *count)));
    table(&mut card, "Preference pairs", "kind", counts.pairs.iter().map(|(name, count)| (*name, *count)));
    table(&mut card, "Usable traces by domain", "domain", counts.domain_table());
    let levels = counts.difficulties.iter().map(|(name, count)| (*name, *count));
    table(&mut card, "Usable traces by difficulty", "difficulty", levels);
    lengths(&mut card, counts);
    separability(&mut card, counts);
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

The licence of the rows is that of the traces they were built from.
";

const LIMITS: &str = "
## Known limits

- The writer fills templates: wording varies within fixed pools, and closing sentences are interchangeable.
- Leaks are found by the contract's wordings. A paraphrase that no wording covers is not seen, in these rows as in evaluation.
- Where a trace has no private clue of its own, over-disclosure adds ordinary values that the task does not need.
- Required values are derived from prose; a chosen answer is complete by these values, which may be fewer than a person would ask for.
- All answers of a trace are within 10% of one length in characters; token counts may differ a little more.
";
