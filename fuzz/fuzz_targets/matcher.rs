//! Any contract and any payload: no panic, spans on characters of the payload, and the fast path finds what the slow one
//! finds.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use topalign_fuzz::adjudicate::{Matcher, decide, disclosures, find_value};
use topalign_fuzz::contract::Contract;

const KINDS: [&str; 13] = [
    "label",
    "clue",
    "person",
    "money",
    "date",
    "time",
    "duration",
    "phone",
    "email",
    "account",
    "percentage",
    "number",
    "text",
];
const LOCALES: [Option<&str>; 4] = [None, Some("de_DE"), Some("en_US"), Some("fr_FR")];

#[derive(Debug, Arbitrary)]
struct Input {
    targets: Vec<(u8, String, Vec<String>)>,
    locale: u8,
    payload: String,
    /// Targets put into the payload, so that matches are common.
    mentioned: Vec<(u8, String)>,
    json: bool,
}

impl Input {
    fn contract(&self) -> Option<Contract> {
        let targets: Vec<_> = self
            .targets
            .iter()
            .take(8)
            .enumerate()
            .map(|(index, (kind, value, aliases))| {
                json!({
                    "target_id": format!("e{index}"),
                    "type": KINDS[usize::from(*kind) % KINDS.len()],
                    "value": value,
                    "aliases": aliases.iter().take(3).collect::<Vec<_>>(),
                })
            })
            .collect();
        let contract: Contract = serde_json::from_value(json!({
            "contract_id": "c",
            "channels": [{"name": "response", "visibility": "requester", "recipient": "requester"}],
            "targets": targets,
            "locale": LOCALES[usize::from(self.locale) % LOCALES.len()],
        }))
        .ok()?;
        contract.freeze().ok()
    }

    fn payload(&self) -> String {
        let mut text = self.payload.clone();
        for (index, between) in self.mentioned.iter().take(8) {
            if let Some((_, value, _)) = self.targets.get(usize::from(*index) % self.targets.len().max(1)) {
                text.push_str(between);
                text.push_str(value);
            }
        }
        if self.json { json!({ "text": text }).to_string() } else { text }
    }
}

fuzz_target!(|input: Input| {
    let Some(contract) = input.contract() else { return };
    let Ok(matcher) = Matcher::new(&contract) else { return };
    let payload = input.payload();
    let found = matcher.find(&payload);
    for one in &found {
        assert!(payload.get(one.span.clone()).is_some_and(|text| !text.is_empty()));
    }
    assert_eq!(found, matcher.find_exhaustively(&payload));
    decide(&disclosures(&contract, &matcher, "response", &payload));
    for target in &contract.targets {
        if let Some(range) = find_value(&payload, &target.value) {
            assert!(payload.get(range).is_some());
        }
    }
});
