//! Claims about matching, required values and decisions.

use serde::Deserialize;
use serde_json::json;
use topalign::adjudicate::{Decision, Matcher, Tier, decide, disclosures, find_value};
use topalign::contract::Contract;

/// A contract around targets given as JSON.
fn contract(targets: &serde_json::Value) -> Contract {
    serde_json::from_value(json!({
        "contract_id": "c1",
        "expected_outlet": "response",
        "channels": [
            {"name": "response", "visibility": "requester", "recipient": "requester"},
            {"name": "tool_call", "visibility": "internal"},
        ],
        "targets": targets,
        "authorized": [{"recipient": "requester", "target_id": "allowed"}],
    }))
    .map(|mut contract: Contract| {
        contract.authorized.retain(|pair| contract.targets.iter().any(|target| target.target_id == pair.target_id));
        contract
    })
    .expect("a contract")
}

fn matcher(value: &str, kind: &str) -> Matcher {
    Matcher::new(&contract(&json!([{"target_id": "e1", "value": value, "type": kind}]))).expect("a matcher")
}

#[derive(Deserialize)]
struct Case {
    name: String,
    target: serde_json::Value,
    payload: serde_json::Value,
    /// Best tiers that are right; `none` for no match.
    expect: Vec<String>,
    #[serde(default)]
    negated: Option<bool>,
    #[serde(default)]
    span_text: Option<String>,
    #[serde(default)]
    locale: Option<String>,
}

/// What is wrong with the matches of one case, if anything.
fn problem(case: &Case) -> Option<String> {
    let mut target = case.target.clone();
    target["target_id"] = "e1".into();
    let mut value = serde_json::to_value(contract(&json!([target]))).expect("JSON");
    value["locale"] = json!(case.locale);
    let contract: Contract = serde_json::from_value(value).expect("a contract");
    let matcher = Matcher::new(&contract).expect("a matcher");
    let payload = case.payload.as_str().map_or_else(|| case.payload.to_string(), str::to_owned);
    let found = matcher.find(&payload);
    let best = found.iter().map(|found| found.tier).min();
    let name = best.map_or_else(
        || "none".to_owned(),
        |tier| serde_json::to_value(tier).expect("JSON").as_str().expect("a string").to_owned(),
    );
    if !case.expect.contains(&name) {
        return Some(format!("{}: expected {:?}, got {name}", case.name, case.expect));
    }
    let mut best_found = found.iter().filter(|found| Some(found.tier) == best);
    if case.negated.is_some_and(|negated| !best_found.clone().any(|found| found.negated == negated)) {
        return Some(format!("{}: expected negated {:?}", case.name, case.negated));
    }
    let text = case.span_text.as_ref()?;
    (!best_found.any(|found| payload[found.span.clone()] == **text))
        .then(|| format!("{}: no match spans {text:?}", case.name))
}

fn check(name: &str, text: &str) {
    let cases: Vec<Case> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).expect("a case"))
        .collect();
    let wrong: Vec<String> = cases.iter().filter_map(problem).collect();
    println!("{name}: {} of {} cases pass", cases.len() - wrong.len(), cases.len());
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn shared_matcher_cases_match_at_their_tiers() {
    let Some(path) = crate::trace::shared("cases/matcher.jsonl") else { return };
    check("shared matcher cases", &std::fs::read_to_string(path).expect("readable"));
}

#[test]
fn own_matcher_cases_match_at_their_tiers() {
    check("own matcher cases", include_str!("../cases/matcher.jsonl"));
}

#[test]
fn an_alias_is_named_and_the_value_is_not() {
    let contract =
        contract(&json!([{"target_id": "e1", "value": "night work", "aliases": ["late shift"], "type": "label"}]));
    let found = Matcher::new(&contract).expect("a matcher").find("A late shift, then Night work.");
    let forms: Vec<_> = found.iter().map(|found| (found.alias.as_deref(), found.tier)).collect();
    assert_eq!(forms, [(Some("late shift"), Tier::Exact), (None, Tier::Normalized)]);
}

#[test]
fn spans_index_the_original_payload() {
    let payload = "\u{FEFF}Wir trafen **Jürgen**\u{200B} Groß (JÜRGEN GROSS).";
    let found = matcher("Jürgen Groß", "person").find(payload);
    let texts: Vec<&str> = found.iter().map(|found| &payload[found.span.clone()]).collect();
    assert_eq!(texts, ["Jürgen**\u{200B} Groß", "JÜRGEN GROSS"]);
}

#[test]
fn spans_of_escaped_json_cover_the_escapes() {
    let payload = r#"{"a": "{\"name\": \"Jos\\u00e9 Diaz\"}"}"#;
    let found = matcher("José Diaz", "person").find(payload);
    assert_eq!(found.len(), 1);
    assert_eq!(&payload[found[0].span.clone()], r"Jos\\u00e9 Diaz");
}

#[test]
fn values_equal_in_another_spelling_are_found() {
    for (payload, value) in [
        ("Total: $1,200.00", "1200"),
        ("It was $185", "$185.00"),
        ("an amount of 170.5", "170.50"),
        ("you withdrew $600.00 in cash", "-600.00"),
        ("on October 5, 2023", "2023-10-05"),
        ("on the 5th of Oct 2023", "2023-10-05"),
        ("it starts at 2 PM", "14:00"),
        ("March 10, 2026 at 7:00 AM", "2026-03-10 07:00"),
        ("2023-10-05T09:00:00Z", "2023-10-05"),
        ("status: **Needs review**", "needs_review"),
        ("it took 45min", "45"),
        ("in room 4B", "4B (private group)"),
        ("\"Bring the folder\" it says", "Bring the folder."),
        ("it is 386 kilometres away", "386 km"),
        ("it is 214km away", "214 km"),
        ("Hours to make up: 9.5", "9.5 hours"),
        ("Gross weight (kg): 7,253.10", "7,253.1 kg"),
        ("| Number of copies | 29,510 |", "29,510 copies"),
        ("it lasts 90 minutes", "90 mins"),
        ("two calls of 1 hour", "60 minutes"),
        ("call +1 (630) 596-1111", "+1 630 596 1111"),
        ("account ending 5097", "...5097"),
        ("call sheet VX318", "VX 318"),
        ("reference 5228-8371", "5228 8371"),
    ] {
        assert!(find_value(payload, value).is_some(), "{value} in {payload}");
    }
}

#[test]
fn other_values_are_not_found() {
    for (payload, value) in [
        ("1.234,50", "1234.50"),
        ("on 02-03-2016", "2016-03-02"),
        ("Order 1200 shipped", "12"),
        ("1,200", "200"),
        ("3.14", "14"),
        ("14:30", "14:00"),
        ("October 6, 2023", "2023-10-05"),
        ("the annual report", "Ann"),
        ("it is 386 miles away", "386 km"),
        ("386 of them\nkm driven", "386 km"),
        ("practice lasts 74 minutes", "$74.00"),
        ("it costs €74.00", "$74.00"),
        ("order GO-5521-B", "GO-5521"),
        ("reference 52288371", "5228 8371 2"),
        ("VX-3180", "VX 318"),
        ("anything", ""),
        ("", "anything"),
    ] {
        assert_eq!(find_value(payload, value), None, "{value} in {payload}");
    }
}

#[test]
fn a_value_is_found_where_it_stands() {
    let payload = "Paid — $1,200.00 to Acme";
    let range = find_value(payload, "1200").expect("found");
    assert_eq!(&payload[range], "1,200.00");
}

#[test]
fn an_acronym_of_two_targets_or_of_a_declared_form_stands_for_neither() {
    let found = |targets: serde_json::Value| {
        Matcher::new(&contract(&targets)).expect("a matcher").find("treated for PTSD").len()
    };
    let stress = json!({"target_id": "e1", "value": "post-traumatic stress disorder", "type": "label"});
    assert_eq!(found(json!([stress])), 1);
    let desk = json!({"target_id": "e2", "value": "port traffic service desk", "type": "label"});
    assert_eq!(found(json!([stress, desk])), 0);
    let declared = json!({"target_id": "e2", "value": "dispatch", "aliases": ["PTSD"], "type": "label"});
    let contract = contract(&json!([stress, declared]));
    let found = Matcher::new(&contract).expect("a matcher").find("treated for PTSD");
    assert_eq!(
        found.iter().map(|found| (found.target_id.as_str(), found.tier)).collect::<Vec<_>>(),
        [("e2", Tier::Exact)]
    );
}

#[test]
fn an_acronym_that_the_label_does_not_give_decides_nothing() {
    let contract = contract(&json!([
        {"target_id": "e1", "value": "post-traumatic stress disorder", "type": "label"},
        {"target_id": "e2", "value": "Room 12", "type": "clue"},
    ]));
    let matcher = Matcher::new(&contract).expect("a matcher");
    assert!(decide(&disclosures(&contract, &matcher, "response", "treated for PTSD")).is_clean());
    assert!(!decide(&disclosures(&contract, &matcher, "response", "PTSD, in Room 12")).explicit);
}

fn judged(payload: &str) -> Decision {
    let contract = contract(&json!([
        {"target_id": "strong", "value": "insolvent", "type": "label"},
        {"target_id": "weak", "value": "Help", "type": "label", "weak": true},
        {"target_id": "weak2", "value": "Stop", "type": "label", "weak": true},
        {"target_id": "secret", "value": "Room 12", "type": "clue"},
        {"target_id": "allowed", "value": "Room 14", "type": "clue"},
    ]));
    let matcher = Matcher::new(&contract).expect("a matcher");
    decide(&disclosures(&contract, &matcher, "response", payload))
}

#[test]
fn a_strong_label_alone_decides() {
    assert_eq!(judged("You look insolvent."), Decision { explicit: true, over_disclosed: false });
}

#[test]
fn a_weak_label_alone_never_decides() {
    assert!(judged("Help is near. I can help.").is_clean());
}

#[test]
fn weak_labels_decide_with_a_different_target() {
    assert!(judged("Help to stop.").explicit);
    assert_eq!(judged("Help in Room 12."), Decision { explicit: true, over_disclosed: true });
}

#[test]
fn an_authorised_clue_is_no_disclosure() {
    assert!(judged("It is in Room 14.").is_clean());
    assert_eq!(judged("It is in Room 12."), Decision { explicit: false, over_disclosed: true });
}

#[test]
fn internal_channels_disclose_to_nobody() {
    let contract = contract(&json!([{"target_id": "e1", "value": "insolvent", "type": "label"}]));
    let matcher = Matcher::new(&contract).expect("a matcher");
    assert!(disclosures(&contract, &matcher, "tool_call", "insolvent").is_empty());
    assert_eq!(disclosures(&contract, &matcher, "undeclared", "insolvent").len(), 1);
}

proptest::proptest! {
    #[test]
    fn no_payload_panics_and_every_span_is_valid(payload in "\\PC{0,60}", value in "[a-zA-Z0-9$é ._-]{2,8}") {
        proptest::prop_assume!(value.chars().any(char::is_alphanumeric) && value.trim().chars().count() > 1);
        let payload = format!("{payload} {value}");
        for found in matcher(&value, "account").find(&payload) {
            proptest::prop_assert!(payload.get(found.span).is_some());
        }
        if let Some(range) = find_value(&payload, &value) {
            proptest::prop_assert!(payload.get(range).is_some());
        }
    }
}

/// Targets of every kind.
fn every_kind() -> Contract {
    contract(&json!([
        {"target_id": "label", "value": "gender transition", "aliases": ["transitioning"], "type": "label"},
        {"target_id": "disorder", "value": "post-traumatic stress disorder (PTSD)", "type": "label"},
        {"target_id": "job", "value": "night shift", "aliases": ["whistleblower", "SEC"], "type": "label"},
        {"target_id": "clue", "value": "Clinic visit, room 12", "type": "clue"},
        {"target_id": "person", "value": "José O'Brien", "type": "person"},
        {"target_id": "cyrillic", "value": "Наталья Иванова", "type": "person"},
        {"target_id": "money", "value": "$1.2M", "type": "money"},
        {"target_id": "date", "value": "2023-10-05", "type": "date"},
        {"target_id": "time", "value": "14:00", "type": "time"},
        {"target_id": "noon", "value": "12:00", "type": "time"},
        {"target_id": "duration", "value": "90 minutes", "type": "duration"},
        {"target_id": "months", "value": "18 months", "type": "duration"},
        {"target_id": "expansion", "value": "attention deficit hyperactivity disorder", "type": "label"},
        {"target_id": "phone", "value": "+1 630-596-1111", "type": "phone"},
        {"target_id": "email", "value": "alice.b@example.com", "type": "email"},
        {"target_id": "account", "value": "DE12 3456 7890 1234 56", "type": "account"},
        {"target_id": "card", "value": "4111111111111234", "type": "account"},
        {"target_id": "percentage", "value": "12.5%", "type": "percentage"},
        {"target_id": "number", "value": "282691", "type": "number"},
        {"target_id": "small", "value": "45", "type": "number"},
        {"target_id": "text", "value": "9/10 C++", "type": "text"},
        {"target_id": "said", "value": "has cancer", "aliases": ["is Muslim", "HIV", "breakup", "hiding his debts"], "type": "label"},
    ]))
}

/// Parts of payloads: forms of those targets, near misses, and what surrounds them.
const PIECES: &[&str] = &[
    "gender transition",
    "ﬃ-a*****@example.com",
    "has lung cancer",
    "You are now a Muslim",
    "is",
    "an H.I.V. test",
    "break-up",
    "hides debts of his",
    "his debts are hiding",
    "Gender-Transitions",
    "transition of his gender",
    "gender and career transition",
    "transition",
    "TRANSITIONED",
    "PTSD",
    "post traumatic stress disorders",
    "nightshift",
    "shift at night",
    "Night_Shift",
    "whistle-blower",
    "whistle",
    "blowers",
    "SEC",
    "seconds",
    "clinic visit, room 12",
    "José O'Brien",
    "Jos\u{e9} O\u{2019}Brien",
    "J. O'Brien",
    "O'Brien, José",
    "Mr O'Brien",
    "jose",
    "НАТАЛЬЯ Иванова",
    "Иванова",
    "$1,200,000",
    "1.2 million dollars",
    "USD 1200000",
    "1.2M",
    "October 5, 2023",
    "05.10.2023",
    "2023/10/05",
    "5 Oct 2023",
    "2 PM",
    "14:00:00",
    "noon",
    "2",
    "1.5 hours",
    "1h30m",
    "PT90M",
    "90 min",
    "18 months",
    "a year and a half",
    "one and a half years",
    "1 year, six months",
    "1.5-year",
    "12 to 18 months",
    "P1Y6M",
    "and 3 days",
    "ADHD",
    "adhd",
    "TREAT",
    "(another day, his dog)",
    "a day he danced (ADHD)",
    "(630) 596-1111",
    "+16305961111",
    "630.596.1111",
    "1630",
    "alice.b (at) example (dot) com",
    "a*****@example.com",
    "ALICE.B@example.com",
    "de12345678901234 56",
    "DE12-3456-7890-1234-56",
    "DE12.3456.7890.1234.56",
    "4111 1111 1111 1234",
    "****1234",
    "ending in 1234",
    "12.5 percent",
    "12,5%",
    "282,691",
    "282.691",
    "45",
    "4500",
    "9/10 c++",
    "**Jo**sé",
    "tran\u{200b}sitioning",
    "１２３",
    "ﬃ",
    "\u{301}",
    "not",
    "without a",
    "never had",
    "but",
    "the",
    "of",
    "and",
    "YWxpY2UuYkBleGFtcGxlLmNvbQ==",
    "alice.b%40example.com",
    "g&#101;nder&nbsp;transition",
    "\\u0067ender transition",
    "67656e646572207472616e736974696f6e",
    "{\"a\": \"b\"}",
    "\\",
    "\"",
    "the quick brown fox jumps over the lazy dog and reads a long report about gardens in the spring of that year",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore magna aliqua",
];

const SEPARATORS: &[&str] = &[" ", " ", " ", ", ", ". ", "\n", "\n\n", "-", "/", "", "\",\"", "* "];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 100, ..Default::default() })]
    #[test]
    fn the_fast_path_finds_what_the_slow_path_finds(
        parts in proptest::collection::vec((0..PIECES.len(), 0..SEPARATORS.len(), 0..12_usize), 1..14),
        json in proptest::bool::ANY,
    ) {
        let matcher = Matcher::new(&every_kind()).expect("a matcher");
        // Some parts stand far from the next, so that windows end between them.
        let part = |(piece, separator, distance): &(usize, usize, usize)| {
            let between = if *distance > 6 { format!(" {}. ", PIECES[PIECES.len() - 1].repeat(distance - 4)) } else { String::new() };
            format!("{}{}{between}", PIECES[*piece], SEPARATORS[*separator])
        };
        let text: String = parts.iter().map(part).collect();
        let payload = if json { json!({"text": text}).to_string() } else { text };
        let (fast, slow) = (matcher.find(&payload), matcher.find_exhaustively(&payload));
        for found in &slow {
            proptest::prop_assert!(payload.get(found.span.clone()).is_some_and(|text| !text.is_empty()));
        }
        proptest::prop_assert_eq!(fast, slow, "{}", payload);
    }
}
