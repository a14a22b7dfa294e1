//! Claims that hold for every log.

use proptest::prelude::*;
use serde_json::{Value, json};
use topalign::exposure::{Settings, Summary};
use topalign::run::seed::Seed;
use topalign::statistic::Resampling;

use super::{Rows, log, row, with};

const NAMES: [&str; 4] = ["Ada Quill", "Boris Thane", "Celia Marsh", "Dmitri Oake"];

fn fast() -> Settings {
    Settings { resampling: Resampling { resamples: 20, seed: Seed(1) }, ..Settings::default() }
}

/// One event: session, request, channel, which names, index.
fn event() -> impl Strategy<Value = Value> {
    let channel = prop_oneof![Just("email"), Just("console"), Just("tool_return")];
    let status = prop_oneof![4 => Just("ok"), 1 => Just("missing")];
    (0..3_u8, 1..4_u32, channel, 0..16_usize, proptest::option::of(0..9_u64), status).prop_map(
        |(session, request, channel, names, index, status)| {
            let said: Vec<&str> = (0..4).filter(|bit| names >> bit & 1 == 1).map(|bit| NAMES[bit]).collect();
            let more = json!({"index": index, "status": status});
            with(row(&format!("s{session}"), request, channel, said.join(", ")), more)
        },
    )
}

fn events() -> impl Strategy<Value = Vec<Value>> {
    proptest::collection::vec(event(), 1..12)
}

fn authorizations() -> impl Strategy<Value = Vec<Value>> {
    let pair = (prop_oneof![Just("outsider"), Just("requester")], prop_oneof![Just("a"), Just("b"), Just("c")])
        .prop_map(|(recipient, target)| json!({"recipient": recipient, "target_id": target}));
    proptest::collection::vec(pair, 0..5)
}

fn summary(rows: &Rows) -> Summary {
    rows.analyse_with(&fast()).unwrap().0
}

/// Everything but the count of rows.
fn figures(rows: &Rows) -> Value {
    let mut value = serde_json::to_value(summary(rows)).unwrap();
    value.as_object_mut().unwrap().remove("counts");
    for session in value["sessions"].as_array_mut().unwrap() {
        for counted in ["observations", "unscored", "weaker_matches"] {
            session.as_object_mut().unwrap().remove(counted);
        }
    }
    value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_union_is_at_least_every_channel_and_every_view(observations in events()) {
        for session in summary(&log(observations)).sessions {
            for coverage in session.coverage.values() {
                prop_assert!(session.ecr >= *coverage);
            }
            prop_assert!(session.bounds.ecr[0] <= session.ecr && session.ecr <= session.bounds.ecr[1]);
            let olf = session.olf.unwrap();
            prop_assert!((0.0..=1.0).contains(&olf));
            let [least, greatest] = session.bounds.olf.unwrap();
            prop_assert!(least <= olf && olf <= greatest);
            prop_assert_eq!(session.exposed as f64 / session.targets as f64, session.ecr);
        }
    }

    #[test]
    fn the_order_of_rows_is_irrelevant(observations in events(), turn in 0..12_usize) {
        let mut turned = observations.clone();
        let turn = turn % turned.len();
        turned.rotate_left(turn);
        turned.reverse();
        prop_assert_eq!(figures(&log(observations)), figures(&log(turned)));
    }

    #[test]
    fn repeated_rows_change_no_figure(observations in events()) {
        let twice: Vec<Value> = observations.iter().chain(&observations).cloned().collect();
        prop_assert_eq!(figures(&log(observations)), figures(&log(twice)));
    }

    #[test]
    fn authorising_more_never_raises_exposure(observations in events(), few in authorizations(), more in authorizations()) {
        let with_authorized = |authorized: Vec<Value>| {
            let mut rows = log(observations.clone());
            rows.contracts[0]["authorized"] = Value::Array(authorized);
            summary(&rows)
        };
        let before = with_authorized(few.clone());
        let after = with_authorized(few.into_iter().chain(more).collect());
        for (before, after) in before.sessions.iter().zip(&after.sessions) {
            prop_assert!(after.ecr <= before.ecr);
            for (channel, coverage) in &after.coverage {
                prop_assert!(coverage <= &before.coverage[channel]);
            }
        }
    }
}
