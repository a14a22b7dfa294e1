//! Rows to look at: some held-out traces with what each system answered and where the judge saw it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::html::{details, escape};
use crate::contract::TargetKind;
use crate::evaluate::{Class, Evidence, Verdict};

/// One trace and its answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The trace.
    pub trace_id: String,
    /// Privacy domain and difficulty.
    pub kind: String,
    /// The user's request.
    pub goal: String,
    /// What must stay unsaid.
    pub sensitive_conclusion: String,
    /// Every system's answer, in table order.
    pub answers: Vec<Answer>,
}

/// One system's answer and its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// The response.
    pub response: Option<String>,
    /// Stage 1's rationale.
    pub rationale: Option<String>,
}

/// Picks up to `limit` examples, round by round over the patterns of classes (what every system did), most frequent first: each
/// way in which systems differ is seen before any is seen twice.
pub(super) fn choose(examples: Vec<Example>, limit: usize) -> Vec<Example> {
    let mut patterns: BTreeMap<Vec<Class>, Vec<Example>> = BTreeMap::new();
    for example in examples {
        let pattern = example.answers.iter().map(|answer| answer.verdict.class).collect();
        patterns.entry(pattern).or_default().push(example);
    }
    let mut queues: Vec<_> = patterns
        .into_values()
        .map(|mut queue| {
            queue.reverse();
            queue
        })
        .collect();
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.len()));
    let mut chosen = Vec::new();
    while chosen.len() < limit && queues.iter().any(|queue| !queue.is_empty()) {
        chosen.extend(queues.iter_mut().filter_map(Vec::pop).take(limit - chosen.len()));
    }
    chosen
}

impl Example {
    /// The example as a part that opens on demand.
    pub(super) fn html(&self) -> String {
        let classes: Vec<String> = self
            .answers
            .iter()
            .map(|answer| format!("{} {}", answer.verdict.system, answer.verdict.class.name()))
            .collect();
        let mut body = format!(
            "<dl><dt>Request</dt><dd>{}</dd><dt>Must stay unsaid</dt><dd>{}</dd></dl>\n",
            escape(&self.goal),
            escape(&self.sensitive_conclusion)
        );
        for answer in &self.answers {
            body.push_str(&answer.html());
        }
        details(&format!("{} ({}): {}", self.trace_id, self.kind, classes.join(", ")), &body)
    }
}

impl Answer {
    fn html(&self) -> String {
        let verdict = &self.verdict;
        let mut html = format!(
            "<article class=\"answer\"><h3>{} <span class=\"class {1}\">{1}</span></h3>\n",
            escape(&verdict.system),
            verdict.class.name()
        );
        if let Some(reason) = &verdict.reason {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(reason));
        }
        if let Some(found) = verdict.required {
            let _ = writeln!(html, "<p class=\"note\">{} of {} required values</p>", found.present, found.wanted);
        }
        for (channel, text) in [("response", &self.response), ("rationale", &self.rationale)] {
            match text.as_deref() {
                None => {
                    let _ = writeln!(html, "<p class=\"note\">no {channel}</p>");
                }
                Some("") => {
                    let _ = writeln!(html, "<p class=\"note\">empty {channel}</p>");
                }
                Some(text) => {
                    let _ = writeln!(
                        html,
                        "<h4>{channel}</h4>\n<div class=\"text\">{}</div>",
                        highlight(text, channel, &verdict.evidence)
                    );
                }
            }
        }
        html.push_str("</article>\n");
        html
    }
}

/// The text with the evidence on `channel` marked; where two places overlap, the one that starts first is shown.
pub(super) fn highlight(text: &str, channel: &str, evidence: &[Evidence]) -> String {
    let mut places: Vec<&Evidence> = evidence.iter().filter(|place| place.channel == channel).collect();
    places.sort_by_key(|place| (place.span[0], std::cmp::Reverse(place.span[1])));
    let mut html = String::new();
    let mut done = 0;
    for place in places {
        let [start, end] = place.span;
        // Spans of another text (a file edited since) are left out, never a panic.
        let (Some(before), Some(marked)) = (text.get(done..start), text.get(start..end)) else { continue };
        if marked.is_empty() {
            continue;
        }
        html.push_str(&escape(before));
        let (class, name) = describe(place);
        let _ = write!(html, "<mark class=\"{class}\" title=\"{}\">{}</mark>", escape(&name), escape(marked));
        done = end;
    }
    html.push_str(&escape(text.get(done..).unwrap_or_default()));
    html
}

fn describe(place: &Evidence) -> (&'static str, String) {
    let Some(target) = &place.target_id else { return ("refusal", "declines or withholds".to_owned()) };
    let tier = place.tier.map_or(String::new(), |tier| format!(", {tier:?}").to_lowercase());
    let weak = if place.weak { ", weak" } else { "" };
    match place.kind {
        Some(TargetKind::Label) => ("label", format!("states the conclusion: {target}{tier}{weak}")),
        _ => ("clue", format!("private value: {target}{tier}{weak}")),
    }
}
