//! Which traces to show: those on which the systems differ, spread over the domains.
//!
//! In: verdicts, completions, traces, contracts. Out: [`Example`]s. Pure, and the same for the same input.

use std::collections::{BTreeMap, BTreeSet};

use super::{Example, ExampleAnswer};
use crate::completion::Completion;
use crate::contract::Contract;
use crate::evaluate::{Class, Verdict};
use crate::trace::{Domain, Trace};

/// At most `limit` traces: the more classes among their answers, the earlier; domains take turns.
pub fn select_examples(
    traces: &[Trace],
    contracts: &[Contract],
    completions: &[Completion],
    verdicts: &[Verdict],
    limit: usize,
) -> Vec<Example> {
    let answers = answers(completions, verdicts);
    let required: BTreeMap<&str, &Contract> =
        contracts.iter().filter_map(|contract| Some((contract.trace_id.as_deref()?, contract))).collect();
    let mut by_domain: BTreeMap<Domain, Vec<(&Trace, usize)>> = BTreeMap::new();
    for trace in traces {
        if let Some(answers) = answers.get(trace.trace_id.as_str()) {
            let classes: BTreeSet<Class> = answers.iter().map(|answer| answer.verdict.class).collect();
            by_domain.entry(trace.domain).or_default().push((trace, classes.len()));
        }
    }
    for traces in by_domain.values_mut() {
        traces.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.trace_id.cmp(&b.0.trace_id)));
    }
    let turns = by_domain.values().map(Vec::len).max().unwrap_or(0);
    let in_turn = (0..turns).flat_map(|turn| by_domain.values().filter_map(move |traces| traces.get(turn)));
    in_turn
        .take(limit)
        .map(|(trace, _)| Example {
            trace_id: trace.trace_id.clone(),
            domain: trace.domain,
            difficulty: trace.difficulty,
            goal: trace.goal.clone(),
            conclusion: trace.sensitive_conclusion.clone(),
            required: required
                .get(trace.trace_id.as_str())
                .map(|contract| contract.required.iter().map(|required| required.value.clone()).collect())
                .unwrap_or_default(),
            answers: answers.get(trace.trace_id.as_str()).cloned().unwrap_or_default(),
        })
        .collect()
}

/// Answers by trace, in the order of completions, one a system: the first seed stands for all.
fn answers<'a>(completions: &'a [Completion], verdicts: &[Verdict]) -> BTreeMap<&'a str, Vec<ExampleAnswer>> {
    let mut judged: BTreeMap<(&str, &str, u64), &Verdict> = BTreeMap::new();
    for verdict in verdicts {
        judged.insert((&verdict.trace_id, &verdict.system, verdict.seed), verdict);
    }
    let mut answers: BTreeMap<&str, Vec<ExampleAnswer>> = BTreeMap::new();
    for completion in completions {
        let key = (completion.trace_id.as_str(), completion.system.as_str(), completion.seed);
        let Some(verdict) = judged.get(&key) else { continue };
        let of_trace = answers.entry(&completion.trace_id).or_default();
        if of_trace.iter().all(|answer| answer.verdict.system != completion.system) {
            of_trace.push(ExampleAnswer {
                response: completion.response.clone(),
                rationale: completion.rationale.clone(),
                verdict: (*verdict).clone(),
            });
        }
    }
    answers
}
