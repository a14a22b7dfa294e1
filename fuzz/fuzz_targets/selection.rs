//! Any text as a stage-1 reply: what it selects is on offer, and each id once.

#![no_main]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use topalign_fuzz::PLACE;
use topalign_fuzz::prompt::{SelectionFault, read_selection, selection_with};
use topalign_fuzz::trace::{Format, Trace, each_in};

static SCENARIOS: &str = include_str!("../../data/scenarios.jsonl");

static OFFERED: LazyLock<Trace> = LazyLock::new(|| {
    let mut first = None;
    let row = SCENARIOS.lines().next().unwrap_or_default();
    each_in(row.as_bytes(), PLACE, Format::Auto, &mut |trace| {
        first = Some(trace);
        Ok(())
    })
    .expect("the project's own scenario");
    first.expect("one scenario")
});

fuzz_target!(|text: &str| {
    match read_selection(text, &OFFERED) {
        Ok(selection) => {
            let ids: Vec<&str> = selection.selected_tool_ids.iter().map(String::as_str).collect();
            assert!(ids.iter().all(|id| OFFERED.tool(id).is_some()));
            assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len());
            assert!(selection.unknown_tool_ids.iter().all(|id| OFFERED.tool(id).is_none()));
            let written = selection_with(&ids, selection.rationale.as_deref().unwrap_or_default());
            let again = read_selection(&written, &OFFERED).expect("a written selection can be read");
            assert_eq!((again.selected_tool_ids, again.rationale), (selection.selected_tool_ids, selection.rationale));
        }
        Err(SelectionFault::OnlyUnknown(ids)) => assert!(!ids.is_empty()),
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
});
