//! Any text as a table of exits, joined to the sessions that stand after a line `---`: nothing that was observed goes, and what is
//! added are exits right behind their calls.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use topalign_fuzz::observation::{ActionStatus, Exits, Observation};
use topalign_fuzz::run::jsonl;
use topalign_fuzz::{PLACE, check_error, check_round_trip};

fuzz_target!(|text: &str| {
    let (table, rows) = text.split_once("\n---\n").unwrap_or((text, ""));
    let exits = match Exits::parse(table, PLACE) {
        Ok(exits) => exits,
        Err(error) => return check_error(&error),
    };
    let Ok(observations) = jsonl::parse::<Observation>(rows.as_bytes(), PLACE) else { return };
    let count = observations.len();
    let calls = observations.iter().filter(|observation| observation.channel == "tool_call").count();
    let (joined, actions) = exits.join(observations);
    let delivered = actions.iter().filter(|action| action.status == ActionStatus::Delivered).count();
    assert_eq!(joined.len(), count + delivered);
    assert!(actions.len() <= calls);
    if !actions.is_empty() {
        let mut positions: BTreeMap<&str, u64> = BTreeMap::new();
        for observation in &joined {
            let position = positions.entry(observation.session_id.as_str()).or_default();
            assert_eq!(observation.index, Some(*position));
            *position += 1;
        }
    }
    joined.iter().for_each(check_round_trip);
    actions.iter().for_each(check_round_trip);
});
