//! Checks that need a whole data set: repeated rows, rows that others must not hold, frames that a model would learn by heart,
//! secrets of other traces; with them the checks of single answers that any file should pass.
//!
//! In: rows in order, held-out and excluded texts, contracts. Out: [`Finding`]s by row, and a [`SetSummary`].

use std::collections::BTreeMap;

use aho_corasick::AhoCorasick;
use serde::Serialize;

use crate::contract::{Contract, TargetKind};
use crate::dataset::Check;
use crate::error::{Error, Result};

use super::personal::{is_english, unknown_personal};
use super::record::{Answer, Evidence, Finding};
use super::shingle::{Seen, key};
use super::text::Text;

/// Jaccard similarity of word 5-grams from which two rows are near-duplicates.
pub(super) const NEAR: f64 = 0.8;
/// Share of the answers from which one frame is too frequent, and the number of answers below which nothing is said of it.
pub(super) const FRAME_SHARE: f64 = 0.2;
pub(super) const FEWEST_FRAMES: usize = 50;
/// Answers so many times the median length are looked at.
pub(super) const LONG: usize = 4;
/// Shorter secrets occur by chance.
const SHORTEST_SECRET: usize = 6;

/// One row as the set sees it.
#[derive(Debug, Clone)]
pub struct SetRow<'a> {
    /// The trace, where known.
    pub trace_id: Option<&'a str>,
    /// All turns before the answers.
    pub prompt: String,
    /// The answers.
    pub answers: Vec<(Answer, &'a str)>,
}

/// What the rows must keep away from.
#[derive(Debug, Clone, Default)]
pub struct KeptOut {
    /// Prompts of held-out traces and texts of excluded files.
    pub texts: Vec<String>,
}

/// Figures of a whole set.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SetSummary {
    /// Better answers read.
    pub answers: usize,
    /// Distinct frames among them: what stays when values are taken out.
    pub frames: usize,
    /// Share of the most frequent frame; absent without answers.
    pub top_frame: Option<f64>,
}

/// Runs the checks; findings carry the index of their row.
///
/// # Errors
/// Secrets that cannot be compiled into one search.
pub(super) fn examine(
    rows: &[SetRow<'_>],
    kept_out: &KeptOut,
    contracts: &[&Contract],
) -> Result<(Vec<(usize, Finding)>, SetSummary)> {
    let mut findings = Vec::new();
    findings.extend(duplicates(rows));
    findings.extend(contamination(rows, kept_out));
    findings.extend(foreign(rows, contracts)?);
    findings.extend(
        rows.iter().enumerate().flat_map(|(index, row)| single(row).into_iter().map(move |found| (index, found))),
    );
    findings.extend(lengths(rows));
    let (frames, summary) = frames(rows);
    findings.extend(frames);
    Ok((findings, summary))
}

/// Repeats of a whole row, and rows of other traces that are nearly the same.
fn duplicates(rows: &[SetRow<'_>]) -> Vec<(usize, Finding)> {
    let mut exact: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen = Seen::default();
    let mut findings = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let text = whole(row);
        let first = *exact.entry(key(&text)).or_insert(index);
        let reason = format!("the same row as row {first}");
        findings.push((index, Finding::new(Answer::Chosen, Check::Duplicate, first == index, Vec::new(), reason)));
        // Rows of one trace share their prompt on purpose.
        let is_other = |other: usize| rows[other].trace_id != row.trace_id || row.trace_id.is_none();
        if let Some(other) = seen.like(&text, NEAR, is_other).filter(|_| first == index) {
            let reason = format!("nearly the same as row {other}");
            findings.push((index, Finding::warn(Answer::Chosen, Check::NearDuplicate, Vec::new(), reason)));
        }
        seen.add(&text);
    }
    findings
}

fn whole(row: &SetRow<'_>) -> String {
    let answers: Vec<&str> = row.answers.iter().map(|(_, answer)| *answer).collect();
    format!("{}\n{}", row.prompt, answers.join("\n"))
}

/// Prompts that a held-out trace or an excluded file has as well.
fn contamination(rows: &[SetRow<'_>], kept_out: &KeptOut) -> Vec<(usize, Finding)> {
    if kept_out.texts.is_empty() {
        return Vec::new();
    }
    let mut seen = Seen::default();
    kept_out.texts.iter().for_each(|text| seen.add(text));
    rows.iter()
        .enumerate()
        .map(|(index, row)| {
            let found = seen.like(&row.prompt, NEAR, |_| true);
            let reason = "the prompt is, or nearly is, one that was kept out";
            (index, Finding::new(Answer::Chosen, Check::Contamination, found.is_none(), Vec::new(), reason))
        })
        .collect()
}

/// Private values of other traces.
fn foreign(rows: &[SetRow<'_>], contracts: &[&Contract]) -> Result<Vec<(usize, Finding)>> {
    let mut secrets: Vec<(&str, &str)> = Vec::new();
    for contract in contracts {
        let Some(trace_id) = contract.trace_id.as_deref() else { continue };
        let clues = contract.targets.iter().filter(|target| target.kind != TargetKind::Label && !target.weak);
        secrets.extend(clues.map(|target| (target.value.as_str(), trace_id)).filter(|(value, _)| is_telling(value)));
    }
    let search = AhoCorasick::new(secrets.iter().map(|(value, _)| value))
        .map_err(|error| Error::Failed(format!("the secrets cannot be compiled: {error}")))?;
    let mut findings = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for (who, answer) in &row.answers {
            let evidence: Vec<Evidence> = search
                .find_iter(*answer)
                .filter(|hit| secrets[hit.pattern().as_usize()].1 != row.trace_id.unwrap_or_default())
                .filter(|hit| !row.prompt.contains(&answer[hit.range()]))
                .map(|hit| Evidence::at(&hit.range()))
                .collect();
            let reason = "a private value of another trace appears";
            findings.push((index, Finding::new(*who, Check::ForeignSecret, evidence.is_empty(), evidence, reason)));
        }
    }
    Ok(findings)
}

/// Several words or a code: nobody writes it by chance.
pub(super) fn is_telling(value: &str) -> bool {
    let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
    value.chars().count() >= SHORTEST_SECRET && (has_digit || value.trim().contains(' '))
}

/// What a single answer shows: personal data from nowhere, another language.
fn single(row: &SetRow<'_>) -> Vec<Finding> {
    let prompt = Text::new(row.prompt.as_str());
    let mut findings = Vec::new();
    for (who, answer) in &row.answers {
        let evidence: Vec<Evidence> =
            unknown_personal(answer, |value| prompt.holds(value)).iter().map(Evidence::at).collect();
        let reason = "personal data that stands nowhere in the prompt";
        findings.push(Finding::new(*who, Check::Personal, evidence.is_empty(), evidence, reason));
        if !is_english(answer) && is_english(&row.prompt) {
            findings.push(Finding::warn(*who, Check::Language, Vec::new(), "not in the language of the prompt"));
        }
    }
    findings
}

/// Empty answers, and answers far longer than the others.
fn lengths(rows: &[SetRow<'_>]) -> Vec<(usize, Finding)> {
    let answers = || {
        rows.iter()
            .enumerate()
            .flat_map(|(index, row)| row.answers.iter().map(move |(who, answer)| (index, *who, answer.chars().count())))
    };
    let mut sorted: Vec<usize> = answers().map(|(_, _, length)| length).collect();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let mut findings = Vec::new();
    for (index, who, length) in answers() {
        if length == 0 {
            findings.push((index, Finding::new(who, Check::Length, false, Vec::new(), "the answer is empty")));
        } else if length > LONG * median.max(1) {
            let reason = format!("{length} characters where the median is {median}");
            findings.push((index, Finding::warn(who, Check::Length, Vec::new(), reason)));
        }
    }
    findings
}

/// Answers whose wording is that of many others once values are taken out.
fn frames(rows: &[SetRow<'_>]) -> (Vec<(usize, Finding)>, SetSummary) {
    let frames: Vec<(usize, String)> = rows
        .iter()
        .enumerate()
        .filter_map(|(index, row)| {
            let (_, answer) = row.answers.iter().find(|(who, _)| *who == Answer::Chosen)?;
            (!answer.trim_start().starts_with('{')).then(|| (index, frame(answer)))
        })
        .collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, frame) in &frames {
        *counts.entry(frame).or_default() += 1;
    }
    let top = counts.values().copied().max();
    let summary = SetSummary {
        answers: frames.len(),
        frames: counts.len(),
        top_frame: top.map(|top| top as f64 / frames.len() as f64),
    };
    let is_frequent =
        |frame: &str| frames.len() >= FEWEST_FRAMES && counts[frame] as f64 > FRAME_SHARE * frames.len() as f64;
    let findings = frames
        .iter()
        .filter(|(_, frame)| is_frequent(frame))
        .map(|(index, frame)| {
            let reason = format!("{} of {} answers have this frame", counts[frame.as_str()], frames.len());
            (*index, Finding::warn(Answer::Chosen, Check::Frame, Vec::new(), reason))
        })
        .collect();
    (findings, summary)
}

/// An answer without its values: words with digits and what stands in quotes are marks.
pub(super) fn frame(answer: &str) -> String {
    let mut frame: Vec<&str> = Vec::new();
    let mut is_quoted = false;
    for word in answer.split_whitespace() {
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        let quotes = word.matches('"').count();
        let mark = if is_quoted || quotes > 0 {
            "\""
        } else if has_digit {
            "#"
        } else {
            word
        };
        if frame.last() != Some(&mark) || mark == word {
            frame.push(mark);
        }
        is_quoted ^= quotes % 2 == 1;
    }
    frame.join(" ")
}
