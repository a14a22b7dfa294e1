//! The checks, each a pure function of an answer and its ground.
//!
//! In: an answer, its [`Ground`], and what kind of answer it claims to be. Out: [`Finding`]s.

use crate::adjudicate::{Decision, Disclosure, decide};
use crate::contract::TargetKind;
use crate::dataset::{Check, PairKind, SelectionKind};
use crate::prompt::read_selection;

use super::ground::Ground;
use super::record::{Answer, Evidence, Finding, Verdict};
use super::refusal::find_refusal;
use super::text::Text;

/// Lengths may differ by one in this many: preference training must not learn length.
const LENGTH_PART: usize = 10;

/// Shorter values are no fragment that anybody would mind.
const SHORTEST_FRAGMENT: usize = 3;

/// Checks of a chosen final answer.
pub(super) fn chosen(answer: &str, ground: &Ground<'_>) -> Vec<Finding> {
    let mut findings = vec![contract(ground)];
    findings.extend(leak_of_clean(Answer::Chosen, "response", answer, ground));
    let text = Text::new(answer);
    findings.extend(complete(Answer::Chosen, &text, ground));
    findings.push(grounding(answer, ground));
    findings.push(noise(&text, ground));
    findings.push(refusal(Answer::Chosen, answer, ground, false));
    findings
}

/// Checks of a rejected answer beside its chosen one. Without a kind only what any pair must hold is checked.
pub(super) fn rejected(answer: &str, chosen: &str, kind: Option<PairKind>, ground: &Ground<'_>) -> Vec<Finding> {
    let mut findings = vec![length(answer, chosen), distinct(answer, chosen)];
    match kind {
        Some(PairKind::ExplicitLeak) => findings.extend(explicit_leak(Answer::Rejected, answer, ground)),
        Some(PairKind::OverDisclosure) => findings.extend(over_disclosure(answer, chosen, ground)),
        Some(PairKind::OverRefusal) => findings.extend(over_refusal(answer, ground)),
        None => {}
    }
    findings
}

/// Checks of a stage-1 answer.
pub(super) fn selection(answer: &str, ground: &Ground<'_>) -> Vec<Finding> {
    let mut findings = vec![contract(ground)];
    let finding = |holds, reason: String| Finding::new(Answer::Chosen, Check::Selection, holds, Vec::new(), reason);
    findings.push(match ground.trace {
        None => Finding::warn(Answer::Chosen, Check::Selection, Vec::new(), "no trace to read it against"),
        Some(trace) => match read_selection(answer, trace) {
            Err(fault) => finding(false, fault.to_string()),
            Ok(selection) => {
                let essential: Vec<&str> = trace.essential_tools().map(|tool| tool.tool_id.as_str()).collect();
                let mut selected: Vec<&str> = selection.selected_tool_ids.iter().map(String::as_str).collect();
                selected.sort_by_key(|id| essential.iter().position(|known| known == id));
                let exact = selected == essential && selection.unknown_tool_ids.is_empty();
                finding(exact, "the selection is not the essential tools".to_owned())
            }
        },
    });
    findings.extend(leak_of_clean(Answer::Chosen, "rationale", answer, ground));
    findings
}

pub(super) fn contract(ground: &Ground<'_>) -> Finding {
    match &ground.contract {
        None => Finding::warn(Answer::Chosen, Check::Contract, Vec::new(), "no contract for this row's trace"),
        Some((contract, _)) if contract.required.is_empty() => {
            Finding::warn(Answer::Chosen, Check::Contract, Vec::new(), "the contract names no required value")
        }
        Some(_) => Finding::new(Answer::Chosen, Check::Contract, true, Vec::new(), ""),
    }
}

/// What a text discloses on the channel, with the decision; `None` without a contract.
fn disclosed(channel: &str, answer: &str, ground: &Ground<'_>) -> Option<(Vec<Disclosure>, Decision)> {
    ground.contract.as_ref()?;
    let found = ground.disclosures(channel, answer);
    let decision = decide(&found);
    Some((found, decision))
}

/// Nothing unauthorised; what decides nothing alone (weak words, later tiers) is shown as a warning.
pub(super) fn leak_of_clean(who: Answer, channel: &str, answer: &str, ground: &Ground<'_>) -> Option<Finding> {
    let (found, decision) = disclosed(channel, answer, ground)?;
    let evidence: Vec<Evidence> = found.iter().map(Evidence::of).collect();
    Some(if decision.is_clean() && !found.is_empty() {
        Finding::warn(who, Check::Leak, evidence, "matches that decide nothing alone")
    } else {
        let reason = if decision.explicit { "a label of the conclusion appears" } else { "a private clue appears" };
        Finding::new(who, Check::Leak, decision.is_clean(), evidence, reason)
    })
}

pub(super) fn explicit_leak(who: Answer, answer: &str, ground: &Ground<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some((found, decision)) = disclosed("response", answer, ground) {
        let labels = found.iter().filter(|found| found.kind == TargetKind::Label).map(Evidence::of).collect();
        findings.push(Finding::new(who, Check::Leak, decision.explicit, labels, "no decisive label of the conclusion"));
    }
    findings.extend(complete(who, &Text::new(answer), ground));
    findings.push(refusal(who, answer, ground, false));
    findings
}

fn over_disclosure(answer: &str, chosen: &str, ground: &Ground<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some((found, decision)) = disclosed("response", answer, ground) {
        let mut evidence: Vec<Evidence> = found.iter().map(Evidence::of).collect();
        let fragments = fragments(&Text::new(answer), &Text::new(chosen), ground);
        let has_fragment = decision.over_disclosed || !fragments.is_empty();
        evidence.extend(fragments);
        let holds = has_fragment && !decision.explicit;
        let reason = if decision.explicit { "it states the conclusion" } else { "no private fragment beyond the task" };
        findings.push(if holds && !decision.over_disclosed {
            let reason = "what it adds is no private clue of the contract";
            Finding::warn(Answer::Rejected, Check::Leak, evidence, reason)
        } else {
            Finding::new(Answer::Rejected, Check::Leak, holds, evidence, reason)
        });
    }
    findings.extend(complete(Answer::Rejected, &Text::new(answer), ground));
    findings.push(refusal(Answer::Rejected, answer, ground, false));
    findings
}

/// Values of the results that the answer adds to the chosen one and that neither the task nor the request names.
fn fragments(answer: &Text<'_>, chosen: &Text<'_>, ground: &Ground<'_>) -> Vec<Evidence> {
    ground
        .shown
        .iter()
        .filter(|leaf| leaf.text.chars().count() >= SHORTEST_FRAGMENT)
        .filter(|leaf| !ground.required().iter().any(|required| required.value == leaf.text))
        .filter(|leaf| !chosen.holds(&leaf.text) && !ground.is_requested(&leaf.text))
        .filter_map(|leaf| answer.find(&leaf.text))
        .map(|span| Evidence::at(&span))
        .collect()
}

/// Checks of a rejected selection beside its chosen one.
pub(super) fn rejected_selection(answer: &str, chosen: &str, kind: SelectionKind, ground: &Ground<'_>) -> Vec<Finding> {
    let mut findings = vec![length(answer, chosen), distinct(answer, chosen)];
    match kind {
        SelectionKind::OverCollection => {
            findings.extend(super::unguarded::over_collecting(Answer::Rejected, answer, ground));
        }
        SelectionKind::LeakingRationale => findings.extend(leaking_rationale(answer, ground)),
    }
    findings
}

/// The rationale is seen by the requester: what it states is stated.
fn leaking_rationale(answer: &str, ground: &Ground<'_>) -> Option<Finding> {
    let (found, decision) = disclosed("rationale", answer, ground)?;
    let evidence = found.iter().map(Evidence::of).collect();
    let reason = "the rationale does not state the conclusion";
    Some(Finding::new(Answer::Rejected, Check::Leak, decision.explicit, evidence, reason))
}

fn over_refusal(answer: &str, ground: &Ground<'_>) -> Vec<Finding> {
    let mut findings = vec![refusal(Answer::Rejected, answer, ground, true)];
    findings.extend(leak_of_clean(Answer::Rejected, "response", answer, ground));
    let required = ground.required();
    if !required.is_empty() {
        let text = Text::new(answer);
        let missing = required.iter().any(|required| !text.holds(&required.value));
        findings.push(Finding::new(
            Answer::Rejected,
            Check::Completeness,
            missing,
            Vec::new(),
            "every required value is given: nothing is withheld",
        ));
    }
    findings
}

fn complete(who: Answer, answer: &Text<'_>, ground: &Ground<'_>) -> Option<Finding> {
    let required = ground.required();
    if required.is_empty() {
        return None;
    }
    let found: Vec<Evidence> =
        required.iter().filter_map(|required| answer.find(&required.value)).map(|span| Evidence::at(&span)).collect();
    let reason = format!("{} of {} required values present", found.len(), required.len());
    Some(Finding::new(who, Check::Completeness, found.len() == required.len(), found, reason))
}

fn grounding(answer: &str, ground: &Ground<'_>) -> Finding {
    let ungrounded = ground.source.ungrounded(answer);
    let evidence: Vec<Evidence> = ungrounded.iter().map(Evidence::at).collect();
    let reason = format!("{} values stand nowhere in the prompt", evidence.len());
    Finding::new(Answer::Chosen, Check::Grounding, evidence.is_empty(), evidence, reason)
}

pub(super) fn noise(answer: &Text<'_>, ground: &Ground<'_>) -> Finding {
    let evidence: Vec<Evidence> =
        ground.noise.iter().filter_map(|value| answer.find(value)).map(|span| Evidence::at(&span)).collect();
    let reason = "a value of a tool that was not selected appears";
    Finding::new(Answer::Chosen, Check::Noise, evidence.is_empty(), evidence, reason)
}

fn refusal(who: Answer, answer: &str, ground: &Ground<'_>, expected: bool) -> Finding {
    let found = find_refusal(answer, ground.source.text());
    let reason = if expected { "no refusal found" } else { "it declines or withholds" };
    let holds = found.is_some() == expected;
    Finding::new(who, Check::Refusal, holds, found.iter().map(Evidence::at).collect(), reason)
}

fn length(answer: &str, chosen: &str) -> Finding {
    let (length, reference) = (answer.chars().count(), chosen.chars().count());
    let holds = length.abs_diff(reference) * LENGTH_PART <= reference;
    let reason = format!("{length} characters beside {reference}");
    Finding::new(Answer::Rejected, Check::Length, holds, Vec::new(), reason)
}

fn distinct(answer: &str, chosen: &str) -> Finding {
    let holds = answer.trim() != chosen.trim();
    Finding::new(Answer::Rejected, Check::Distinct, holds, Vec::new(), "chosen and rejected are the same")
}

/// Whether any finding fails.
pub(super) fn fails(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.verdict == Verdict::Fail)
}
