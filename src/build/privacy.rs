//! How private a value is that no contract names: what an over-disclosing answer may add besides the clues.
//!
//! In: a fact. Out: its [`Privacy`].

use super::fact::Fact;

/// Letters of text that says something.
const SHORTEST_WORD: usize = 3;

/// What a value tells of a person: its label, or its wording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Privacy {
    /// States, times, numbers and names of settings: nobody would mind.
    Ordinary,
    /// A purchase, an amount, a subject: something that a person did.
    Deed,
    /// People, places and what somebody wrote.
    Person,
}

impl Privacy {
    /// Of a fact, by its label first.
    pub fn of(fact: &Fact) -> Self {
        let label = fact.label.rsplit(' ').next().unwrap_or_default();
        let has_letter = fact.text.chars().filter(|letter| letter.is_alphabetic()).count() > SHORTEST_WORD;
        let has_digit = fact.text.bytes().any(|byte| byte.is_ascii_digit());
        // One word is a state, and one with digits a code.
        let is_word = !fact.text.contains(' ') && (has_digit || !fact.text.contains(['-', '_', '.', '@', '/']));
        if ORDINARY.contains(&label) {
            Self::Ordinary
        } else if PERSON.contains(&label) && has_letter {
            Self::Person
        } else if MONEY.contains(&label) || (has_letter && !is_word) {
            Self::Deed
        } else {
            Self::Ordinary
        }
    }
}

/// Last words of labels whose values say nothing of a person.
const ORDINARY: [&str; 30] = [
    "timestamp",
    "time",
    "date",
    "status",
    "ID",
    "duration",
    "count",
    "type",
    "state",
    "result",
    "priority",
    "mode",
    "category",
    "sentiment",
    "updated",
    "currency",
    "format",
    "size",
    "version",
    "URL",
    "hash",
    "token",
    "IP",
    "frequency",
    "recurrence",
    "repeat",
    "eta",
    "visibility",
    "match",
    "setting",
];

/// Last words of labels whose values are people, places or what somebody wrote.
const PERSON: [&str; 39] = [
    "sender",
    "contact",
    "name",
    "address",
    "location",
    "destination",
    "place",
    "note",
    "notes",
    "snippet",
    "body",
    "attendees",
    "participants",
    "recipient",
    "reason",
    "query",
    "queries",
    "text",
    "purpose",
    "description",
    "message",
    "content",
    "comment",
    "memo",
    "doctor",
    "provider",
    "specialty",
    "department",
    "diagnosis",
    "medication",
    "prescription",
    "patient",
    "payee",
    "organization",
    "facility",
    "beneficiary",
    "author",
    "relationship",
    "city",
];

/// Last words of labels whose values are amounts.
const MONEY: [&str; 8] = ["amount", "price", "total", "balance", "fee", "cost", "salary", "copay"];
