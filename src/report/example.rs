//! Rows to look at: every system's answer to one trace, with the judge's evidence marked in it.
//!
//! In: an [`Example`]. Out: a `<details>` element that opens with the keyboard.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::html::escape;
use super::{Example, ExampleAnswer};
use crate::evaluate::{Class, Evidence};

/// One trace, closed until asked for.
pub(super) fn example(example: &Example) -> String {
    let mut out = String::from("<details class=\"example\"><summary><span class=\"id\">");
    let _ = write!(
        out,
        "{}</span> <span class=\"muted\">{}{}</span>",
        escape(&example.trace_id),
        example.domain.code(),
        example.difficulty.map(|difficulty| format!(" {}", difficulty.code())).unwrap_or_default()
    );
    out.push_str("<span class=\"chips\">");
    for answer in &example.answers {
        let _ = write!(out, "{}", chip(&answer.verdict.system, answer.verdict.class));
    }
    out.push_str("</span></summary><dl class=\"facts\">");
    let _ = write!(out, "<dt>Goal</dt><dd dir=\"auto\">{}</dd>", escape(&example.goal));
    let _ = write!(out, "<dt>Must stay unsaid</dt><dd dir=\"auto\">{}</dd>", escape(&example.conclusion));
    if !example.required.is_empty() {
        let values: Vec<String> =
            example.required.iter().map(|value| format!("<code dir=\"auto\">{}</code>", escape(value))).collect();
        let _ = write!(out, "<dt>Must be answered</dt><dd>{}</dd>", values.join(" "));
    }
    out.push_str("</dl>");
    for answer in &example.answers {
        out.push_str(&card(answer));
    }
    out.push_str("</details>\n");
    out
}

fn chip(system: &str, class: Class) -> String {
    format!(
        "<span class=\"chip\"><span class=\"mark c-{0}\" aria-hidden=\"true\"></span>{1}: {0}</span>",
        class.name(),
        escape(system)
    )
}

fn card(answer: &ExampleAnswer) -> String {
    let verdict = &answer.verdict;
    let mut out = format!(
        "<article class=\"answer\" data-system=\"{}\" data-class=\"{}\"><h3>{}</h3>",
        escape(&verdict.system),
        verdict.class.name(),
        chip(&verdict.system, verdict.class)
    );
    let mut said: Vec<String> = Vec::new();
    said.push(format!("completed {}", known(verdict.completed)));
    said.push(format!("leaked {}", known(verdict.leaked)));
    if let Some(found) = verdict.required {
        said.push(format!("{} of {} required values", found.present, found.wanted));
    }
    if let Some(reason) = &verdict.reason {
        said.push(escape(reason));
    }
    let _ = write!(out, "<p class=\"muted\">{}</p>", said.join(" \u{b7} "));
    for (channel, text) in [("response", &answer.response), ("rationale", &answer.rationale)] {
        let Some(text) = text else {
            let _ = write!(out, "<p class=\"muted\">no {channel}</p>");
            continue;
        };
        let evidence: Vec<&Evidence> = verdict.evidence.iter().filter(|found| found.channel == channel).collect();
        let _ = write!(
            out,
            "<p class=\"exit\">{channel}</p><div class=\"said\" dir=\"auto\">{}</div>",
            highlight(text, &evidence)
        );
    }
    out.push_str("</article>");
    out
}

fn known(value: Option<bool>) -> &'static str {
    match value {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not scored",
    }
}

/// The text with its evidence marked. Spans may overlap and nest; a span that does not fit the text marks nothing.
pub(super) fn highlight(text: &str, evidence: &[&Evidence]) -> String {
    let fitting: Vec<&Evidence> = evidence
        .iter()
        .copied()
        .filter(|found| text.get(found.span[0]..found.span[1]).is_some_and(|part| !part.is_empty()))
        .collect();
    let mut cuts: BTreeSet<usize> = fitting.iter().flat_map(|found| found.span).collect();
    cuts.extend([0, text.len()]);
    let cuts: Vec<usize> = cuts.into_iter().collect();
    let mut out = String::new();
    for window in cuts.windows(2) {
        let part = escape(&text[window[0]..window[1]]);
        let covering: Vec<&&Evidence> =
            fitting.iter().filter(|found| found.span[0] <= window[0] && window[1] <= found.span[1]).collect();
        if covering.is_empty() {
            out.push_str(&part);
            continue;
        }
        let notes: Vec<String> = covering.iter().map(|found| note(found)).collect();
        let label = covering.iter().map(|found| rank(found)).min().unwrap_or(3);
        let _ = write!(out, "<mark class=\"e{label}\" title=\"{}\">{part}</mark>", escape(&notes.join("; ")));
    }
    out
}

/// 0 the conclusion, 1 a private fragment, 2 what decides nothing, 3 a refusal.
fn rank(found: &Evidence) -> u8 {
    use crate::contract::TargetKind;
    match (found.kind, found.tier) {
        (None, _) | (_, None) => 3,
        (Some(_), Some(tier)) if !tier.is_headline() || found.weak => 2,
        (Some(TargetKind::Label), _) => 0,
        (Some(_), _) => 1,
    }
}

fn note(found: &Evidence) -> String {
    let Some(target) = &found.target_id else { return "declines".to_owned() };
    let name = |value: serde_json::Result<serde_json::Value>| match value {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    };
    let kind = found.kind.map(|kind| name(serde_json::to_value(kind))).unwrap_or_default();
    let tier = found.tier.map(|tier| name(serde_json::to_value(tier))).unwrap_or_default();
    format!("{target}: {kind}, {tier}{}", if found.weak { ", weak" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adjudicate::Tier;
    use crate::contract::TargetKind;

    fn found(start: usize, end: usize, kind: TargetKind) -> Evidence {
        Evidence {
            channel: "response".to_owned(),
            span: [start, end],
            target_id: Some("e1".to_owned()),
            kind: Some(kind),
            tier: Some(Tier::Exact),
            weak: false,
        }
    }

    fn marked(text: &str, evidence: &[Evidence]) -> String {
        highlight(text, &evidence.iter().collect::<Vec<_>>())
    }

    #[test]
    fn overlapping_spans_mark_every_byte_once() {
        let html = marked("abcdef", &[found(1, 4, TargetKind::Clue), found(3, 5, TargetKind::Label)]);
        let expected = "a<mark class=\"e1\" title=\"e1: clue, exact\">bc</mark>\
                        <mark class=\"e0\" title=\"e1: clue, exact; e1: label, exact\">d</mark>\
                        <mark class=\"e0\" title=\"e1: label, exact\">e</mark>f";
        assert_eq!(html, expected);
    }

    #[test]
    fn markup_inside_a_marked_span_is_text() {
        let html = marked("a <b>", &[found(2, 5, TargetKind::Label)]);
        assert_eq!(html, "a <mark class=\"e0\" title=\"e1: label, exact\">&lt;b&gt;</mark>");
    }

    #[test]
    fn spans_that_do_not_fit_the_text_mark_nothing() {
        let wrong = [(0, 99), (2, 1), (1, 1), (1, 2)];
        for (start, end) in wrong {
            assert_eq!(marked("é\u{2028}", &[found(start, end, TargetKind::Label)]), "é\u{2424}", "{start}..{end}");
        }
    }
}
