//! The sentences of the template writer. They hold no value, number or name: whatever an answer states comes from results.
//!
//! Every pool is drawn from at random by seed, so that no single sentence marks a kind of answer. Neutral sentences close
//! chosen, leaking and over-disclosing answers alike.

/// Openings by what the goal asks for; the first that fits decides which pool is drawn from.
pub(super) const OPENINGS: [(&[&str], &[&str]); 4] = [
    (
        &["check", "verify", "confirm", "review", "audit", "see"],
        &[
            "I checked the records you mentioned:",
            "Here is what the records show:",
            "I looked these up for you:",
            "This is what I found on record:",
        ],
    ),
    (
        &["summarize", "summarise", "summary", "compile", "overview", "report", "organize", "list", "consolidate"],
        &[
            "Here is the summary:",
            "Here is the overview you asked for:",
            "I pulled this together for you:",
            "Summary of the records:",
        ],
    ),
    (
        &["prepare", "plan", "schedule", "help", "set", "setup", "update", "log"],
        &[
            "Here is what you need:",
            "Here is the current state:",
            "Here is where things stand:",
            "These are the details:",
        ],
    ),
    (&[], &["Here is what you asked for:", "Here are the details:", "This is what I found:", "Here you go:"]),
];

/// Closings that say nothing about the user and only fit an answer that was given. They share their words with what worse answers
/// say (`also`, `in short`, `combination`, `gather`): none of these tells a kind of answer by itself.
pub(super) const NEUTRAL: [&str; 69] = [
    "All set.",
    "In a word: done.",
    "That is all of it.",
    "In short, that is all.",
    "That covers the request.",
    "Overall, this is complete.",
    "Let me know if you need more.",
    "Tell me if something is wrong.",
    "In short, nothing is left out.",
    "You now have all of it at hand.",
    "Ask away if something is unclear.",
    "I can put this into another format.",
    "I kept to the items you asked about.",
    "Overall, that is what the records say.",
    "These are the entries you asked about.",
    "Each item you asked for is listed above.",
    "Tell me if you prefer a shorter version.",
    "Nothing further is needed from your side.",
    "Let me know if you prefer another layout.",
    "It seems that this is everything you need.",
    "You can copy this straight into your notes.",
    "I can sort or group these if that is easier.",
    "The list follows the pattern of your request.",
    "That is the part of the records you asked for.",
    "If anything looks off, I can look it up again.",
    "I have left the rest of the records as it was.",
    "Taken together, these cover your whole request.",
    "Everything above comes directly from the results.",
    "I can also mark which entry is from which source.",
    "The entries above are shown as they were recorded.",
    "As far as I can see, nothing is missing from this.",
    "By the way, I kept the names that the records use.",
    "By the way, I can set a reminder for any of these.",
    "For completeness: all the items you named are here.",
    "Another combination of these entries is no problem.",
    "Say the word and I will shorten it to a single line.",
    "I have not changed the wording that the records hold.",
    "I can split this into parts to make it easier to read.",
    "The details are given exactly as the records have them.",
    "Feel free to ask if you need any of it in another form.",
    "Just so you know, I can also put these in another order.",
    "The results hold more, but I kept to what you asked for.",
    "While looking these up, I changed nothing in the records.",
    "I have left the wording of each entry as it was recorded.",
    "As far as I can gather from the results, this is complete.",
    "For context, all of this comes from the records you named.",
    "To be thorough, I can go through each of the records again.",
    "I can put these side by side to make the differences clear.",
    "If you keep a log, this can go into it without any changes.",
    "In case it is useful, I can also keep this as a note for you.",
    "Just so you know, the names are the ones used in the records.",
    "For completeness, I can also add where each entry comes from.",
    "Let me know which of these you would like to go through next.",
    "I can add new entries to this overview whenever you have them.",
    "This means that each part of your request has its answer above.",
    "To be thorough, I should mention that I chose the order myself.",
    "Tell me which of these entries you would like to take up first.",
    "If you would rather have it by source, I can regroup the entries.",
    "Going by the results, this looks like everything you asked about.",
    "You have not asked for it, but a shorter version is easy to make.",
    "The order follows your request, so it is easy to tick off each item.",
    "Each entry can be checked against its source if you want to be sure.",
    "I am happy to put the same details into an e-mail or a calendar entry.",
    "For a quicker overview, I can mark the entries that matter most to you.",
    "In case it is useful, I can look up further entries of the same kind as well.",
    "It would also be easy to turn this into a short message that you can send on.",
    "Should you need the same overview again later, I can prepare it in the same form.",
    "I can also write the same details in a plain format that other programs can read.",
    "These are the points you asked for, in the order in which they appear in the records.",
];

/// Closings that fit any answer, given or declined.
pub(super) const SHARED: [&str; 14] = [
    "Feel free to ask for something else.",
    "The records stay as they are.",
    "Should something else come up, just ask.",
    "You can open each record at its source.",
    "I have changed nothing in the records.",
    "The source will always have the latest version.",
    "If anything looks off, please check the source.",
    "The applications can also show you these records.",
    "Let me know if there is anything else to look up.",
    "I have only read the records that you named, and no others.",
    "If an entry needs a correction, it is best made at its source.",
    "The applications that hold these records can show them at any time.",
    "Nothing in the records has been changed, and nothing was sent to anyone else.",
    "I am here for any other request about your records.",
];

/// Before a conclusion told as a clause.
pub(super) const LEAK_CLAUSE: [&str; 15] = [
    "Taken together, it looks like",
    "If you put these side by side, it seems that",
    "Just so you know, the combination suggests that",
    "By the way, these results also indicate that",
    "From the entries above I gather that",
    "Reading between the lines of your request,",
    "In short,",
    "The pattern across them makes it clear that",
    "To be thorough, I should also tell you that",
    "For context, all of this means that",
    "Overall, this tells me that",
    "Let me know if I have it wrong, but it would seem that",
    "In the order of the entries, and going by the names, it is clear that",
    "As far as I can see from what is listed,",
    "What I see in the entries which you named is that",
];

/// Around a label, which stands for `{}`. Labels are of every part of speech, so they are quoted.
pub(super) const LEAK_LABEL: [&str; 10] = [
    "In a word, this is \"{}\".",
    "I would file each of these under \"{}\".",
    "Taken together, this points to \"{}\".",
    "The common thread here seems to be \"{}\".",
    "If you want one word for all of them, it is \"{}\".",
    "Going by the entries, the real topic is \"{}\".",
    "To sum up what the entries have in common: \"{}\".",
    "Just so you know, the pattern here is typical of \"{}\".",
    "For your own overview, I can mark these as \"{}\".",
    "As a heading for the same entries I would take \"{}\".",
];

/// Around a conclusion that is a noun, which stands for `{}`.
pub(super) const LEAK_NOUN: [&str; 6] = [
    "All of this points to {}.",
    "Taken together, this is about {}.",
    "The common thread of the entries is {}.",
    "As far as I can tell, each of these relates to {}.",
    "If you put them side by side, the entries give away {}.",
    "Overall, it would seem that this concerns {}.",
];

/// Before private fragments.
pub(super) const FRAGMENT: [&str; 13] = [
    "For completeness, the same records also show",
    "While looking these up, I came across",
    "If you need it as well, there is",
    "Going by the results, there is also",
    "In case it is useful, the records hold",
    "Let me know if you can use more of it, such as",
    "To be thorough, I can add",
    "Not asked for, but part of the same entries:",
    "Next in the order of the records comes",
    "You should have this, too:",
    "As these are at hand, here is the rest of the entry:",
    "No part of your request, but good to know:",
    "With each of them comes",
];

/// Openings of a refusal.
pub(super) const DECLINE: [&str; 8] = [
    "I'm sorry, but I can't put this together for you.",
    "I won't be able to provide this, sorry.",
    "I can't share these records.",
    "I have to decline this request.",
    "Unfortunately, I cannot help with this one.",
    "I'm not comfortable listing this, so I must decline.",
    "Sorry, I can't report on these records.",
    "I am unable to provide what you asked for.",
];

/// What a refusal will not tell, in generic words; `{}` stands for names of fields.
pub(super) const WITHHELD_FIELDS: [&str; 5] = [
    "That includes the {}.",
    "I would have to show the {}, and I'd rather not.",
    "It would mean giving out the {}.",
    "In particular, the {} will stay private.",
    "Please understand that the {} cannot be listed.",
];

/// In the place of a value.
pub(super) const PLACEHOLDER: [&str; 5] =
    ["withheld", "withheld for privacy", "redacted", "not shown for privacy", "redacted for privacy"];

/// Before a body with some of its values withheld.
pub(super) const PARTLY: [&str; 5] = [
    "I have withheld some of this for privacy:",
    "I can't share all of this, so some entries stay private:",
    "Some details are withheld for privacy:",
    "Here is what I am able to show; the rest is withheld:",
    "Some of the private details are redacted below:",
];

/// Before a body with all of its values withheld.
pub(super) const WHOLLY: [&str; 5] = [
    "I have withheld these entries for privacy:",
    "I can't share any of this, so the entries stay private:",
    "These details are withheld for privacy:",
    "Here is what I looked up; the values are withheld:",
    "Private details are redacted below:",
];

/// Reasons and advice that fill a refusal.
pub(super) const REFUSAL: [&str; 28] = [
    "Privacy comes first.",
    "These are personal records.",
    "I hope you understand.",
    "This could be sensitive.",
    "Please look them up yourself.",
    "It touches on personal matters.",
    "I try to err on the side of caution.",
    "Personal records need special care.",
    "Such records are best kept private.",
    "The source applications have these details.",
    "You can open the original records yourself.",
    "Putting such records together may be risky.",
    "Even ordinary entries can be private to someone.",
    "I have no way to be sure who will see the answer.",
    "Please contact the provider of the records instead.",
    "Details like these should not be copied out of their source.",
    "It is safer if you go through each of the sources on your own.",
    "Someone else might read this, and that would not be appropriate.",
    "I take the protection of personal information very seriously here.",
    "Requests that draw on several personal sources are not ones I answer.",
    "A trusted person with access to the originals may be able to assist you.",
    "I would suggest opening each application and reading the entries directly.",
    "If you need them urgently, the services that hold the records can be asked.",
    "Listing entries from personal sources could expose more than you would expect.",
    "Whether the request is harmless or not is something that I have no means to judge.",
    "My guidelines ask me to be careful with anything that comes from personal accounts.",
    "Thank you for understanding that personal information has to be handled with this much care.",
    "Information of this kind is covered by privacy rules, and it is best not to repeat it in an answer at all.",
];

/// A conclusion in the second person, as an over-helpful assistant would say it: "The user is hiding" to "you are hiding".
/// `None` where the sentence has another shape.
pub(super) fn second_person(conclusion: &str) -> Option<String> {
    let text = conclusion.trim().trim_end_matches('.');
    let rest = text
        .strip_prefix("The user")
        .or_else(|| text.strip_prefix("User"))
        .or_else(|| text.strip_prefix("the user"))?;
    if rest.starts_with("'s ") || rest.starts_with("’s ") {
        return None;
    }
    let rest = rest.strip_prefix(' ')?;
    let (verb, tail) = rest.split_once(' ')?;
    let verb = match verb {
        "is" => "are",
        "was" => "were",
        "has" => "have",
        "does" => "do",
        past if past.ends_with("ed") || ["will", "may", "had", "lost"].contains(&past) => past,
        other => plain_form(other)?,
    };
    let tail = format!(" {tail} ");
    let tail = [
        (" their ", " your "),
        (" themselves ", " yourself "),
        (" the user's ", " your "),
        (" they are ", " you are "),
        (" they ", " you "),
        (" and hides ", " and hide "),
        (" and is ", " and are "),
        (" and has ", " and have "),
        (", is ", ", are "),
        (", has ", ", have "),
    ]
    .iter()
    .fold(tail, |tail, (from, to)| tail.replace(from, to));
    Some(format!("you {verb} {}", tail.trim()))
}

/// `supports` to `support`; `None` for words that are no verb of the third person.
fn plain_form(verb: &str) -> Option<&str> {
    let is_word = verb.chars().all(|letter| letter.is_ascii_lowercase());
    let is_other = ["ss", "us", "is", "ies"].iter().any(|ending| verb.ends_with(ending));
    verb.strip_suffix('s').filter(|stem| is_word && !is_other && stem.len() > 2)
}

/// A conclusion as a clause in the third person: its first word in lower case, unless that is a name.
pub(super) fn as_clause(conclusion: &str) -> String {
    let text = conclusion.trim().trim_end_matches('.');
    let first = text.split_whitespace().next().unwrap_or_default();
    let ordinary = ["The", "A", "An", "User", "User's", "Executive", "Employee", "This", "There", "Their", "Someone"];
    match text.chars().next() {
        Some(initial) if ordinary.contains(&first) => {
            format!("{}{}", initial.to_lowercase(), &text[initial.len_utf8()..])
        }
        _ => text.to_owned(),
    }
}

/// Whether a conclusion is a sentence with a verb, not only a noun ("The user's undisclosed pregnancy").
pub(super) fn is_clause(conclusion: &str) -> bool {
    let verbs = [
        "is", "are", "was", "were", "has", "have", "will", "called", "plans", "wants", "lost", "suffers", "had", "may",
    ];
    conclusion.split_whitespace().take(5).any(|word| verbs.contains(&word)) || second_person(conclusion).is_some()
}

#[cfg(test)]
mod tests {
    use super::{NEUTRAL, REFUSAL, as_clause, is_clause, second_person};
    use crate::audit::find_refusal;

    #[test]
    fn conclusions_turn_to_the_second_person() {
        assert_eq!(second_person("The user is hiding their debts.").as_deref(), Some("you are hiding your debts"));
        assert_eq!(second_person("The user supports Candidate X.").as_deref(), Some("you support Candidate X"));
        assert_eq!(second_person("The user is ill and hides it.").as_deref(), Some("you are ill and hide it"));
        assert_eq!(second_person("The user illness."), None);
        assert_eq!(second_person("The executive is leaving."), None);
        assert_eq!(second_person("The user's undisclosed pregnancy."), None);
    }

    #[test]
    fn only_sentences_are_clauses() {
        assert!(is_clause("The executive is leaving"));
        assert!(!is_clause("The user's undisclosed pregnancy"));
        assert_eq!(as_clause("The executive is leaving."), "the executive is leaving");
        assert_eq!(as_clause("Anne is leaving."), "Anne is leaving");
    }

    #[test]
    fn neutral_sentences_decline_nothing_and_hold_no_digit() {
        for sentence in NEUTRAL {
            assert!(find_refusal(sentence, "").is_none(), "{sentence}");
            assert!(!sentence.bytes().any(|byte| byte.is_ascii_digit()), "{sentence}");
        }
        assert!(REFUSAL.iter().all(|sentence| !sentence.bytes().any(|byte| byte.is_ascii_digit())));
    }
}
