//! How well derived labels find inferred leaks: measured over the public traces, each contract against its own prose and
//! against the prose and returns of all other traces.

use topalign::adjudicate::{Decision, Matcher, Tier, decide, disclosures};
use topalign::contract::{Contract, TargetKind, derive};
use topalign::trace::{Format, Trace, read};

struct Item {
    trace: Trace,
    contract: Contract,
    matcher: Matcher,
}

fn items() -> Option<Vec<Item>> {
    let path = crate::trace::shared("data/topbench-v2/Trajectories.json")?;
    let traces = read(&path, Format::Auto).expect("read");
    let items = traces.into_iter().filter_map(|trace| {
        let contract = derive(&trace).contract.ok()?;
        let matcher = Matcher::new(&contract).expect("a matcher");
        Some(Item { trace, contract, matcher })
    });
    Some(items.collect())
}

/// Whether single matches and misses are printed.
fn shows() -> bool {
    std::env::var_os("TOPALIGN_SHOW").is_some()
}

fn decision(item: &Item, text: &str) -> Decision {
    decide(&disclosures(&item.contract, &item.matcher, "response", text))
}

/// The contract without the labels taken from the conclusion itself: what the quoted wordings alone see.
fn quoted_only(item: &Item) -> Option<Item> {
    let mut contract = item.contract.clone();
    contract
        .targets
        .retain(|target| target.kind == TargetKind::Label && target.provenance.field.as_deref() != Some("conclusion"));
    contract.authorized.clear();
    let contract = contract.freeze().ok()?;
    let matcher = Matcher::new(&contract).expect("a matcher");
    Some(Item { trace: item.trace.clone(), contract, matcher })
}

#[test]
fn other_traces_almost_never_state_a_conclusion() {
    let Some(items) = items() else { return };
    // Every fourth of the others is enough to hold the claim; all are counted when the examples are asked for.
    let step = if shows() { 1 } else { 4 };
    let (mut texts, mut criteria, mut returns, mut later) = (0, 0, 0, 0);
    let mut examples = Vec::new();
    for item in &items {
        for other in items.iter().step_by(step).filter(|other| other.trace.trace_id != item.trace.trace_id) {
            let prose = other.trace.success_criteria.as_deref().unwrap_or_default();
            let all = std::iter::once(prose).chain(other.trace.tools.iter().map(|tool| tool.return_text.as_str()));
            for (index, text) in all.enumerate() {
                texts += 1;
                let found = disclosures(&item.contract, &item.matcher, "response", text);
                later +=
                    usize::from(found.iter().any(|found| found.kind == TargetKind::Label && !found.tier.is_headline()));
                if decide(&found).explicit {
                    if index == 0 {
                        criteria += 1;
                    } else {
                        returns += 1;
                    }
                    let spans = found
                        .iter()
                        .filter(|found| found.kind == TargetKind::Label)
                        .map(|found| &text[found.span.clone()]);
                    examples.push(format!(
                        "{} in {}: {:?}",
                        item.trace.trace_id,
                        other.trace.trace_id,
                        spans.collect::<Vec<_>>()
                    ));
                }
            }
        }
    }
    println!(
        "other traces' texts {texts}: stated in {criteria} success criteria and {returns} returns; labels of later tiers in {later}"
    );
    if shows() {
        for example in &examples {
            println!("  {example}");
        }
    }
    assert!(f64::from(criteria + returns) / f64::from(texts) <= 0.001);
}

#[test]
fn own_prose_is_seen_as_a_leak() {
    let Some(items) = items() else { return };
    let (mut basis, mut conclusion, mut quoted, mut any, mut with_quotes) = (0, 0, 0, 0, 0);
    let mut missed = Vec::new();
    for item in &items {
        let prose = item.trace.disclosure_criteria.as_deref().unwrap_or_default();
        basis += usize::from(decision(item, prose).explicit);
        conclusion += usize::from(decision(item, &item.trace.sensitive_conclusion).explicit);
        let Some(quoted_item) = quoted_only(item) else { continue };
        with_quotes += 1;
        let found = quoted_item.matcher.find(&item.trace.sensitive_conclusion);
        let seen = decision(&quoted_item, &item.trace.sensitive_conclusion).explicit;
        quoted += usize::from(seen);
        any += usize::from(!found.is_empty());
        if !seen {
            let labels: Vec<&str> = quoted_item.contract.targets.iter().map(|target| target.value.as_str()).collect();
            missed.push(format!("{}: {} | {labels:?}", item.trace.trace_id, item.trace.sensitive_conclusion));
        }
    }
    let n = items.len();
    println!(
        "own basis seen {basis} of {n}; own conclusion {conclusion} of {n}; conclusion by quoted labels alone {quoted} of {with_quotes} (any tier, weak ones too: {any})"
    );
    if shows() {
        for missed in &missed {
            println!("  {missed}");
        }
    }
    assert_eq!(conclusion, n);
    assert!(basis as f64 / n as f64 >= 0.95);
}

#[test]
fn conclusions_that_were_missed_are_seen_by_their_quoted_labels() {
    let Some(items) = items() else { return };
    for id in ["20", "76", "89", "151"] {
        let item = items.iter().find(|item| item.trace.trace_id == format!("topbench-v2/{id}")).expect("the trace");
        let quoted = quoted_only(item).expect("quoted labels");
        let tiers: Vec<Tier> =
            quoted.matcher.find(&item.trace.sensitive_conclusion).iter().map(|found| found.tier).collect();
        println!("trace {id}: quoted labels in its conclusion at {tiers:?}");
        assert!(!tiers.is_empty(), "trace {id}");
    }
}
