//! Claims about the semantic verifier over session logs.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::json;
use topalign::adjudicate::Tier;
use topalign::endpoint::{CallError, Chat, ChatReply, ChatRequest, Counts, ReplyEnd};
use topalign::exposure::{MatchRow, Semantic, Settings, analyse, events};
use topalign::run::jsonl;

use super::{log, row};

/// Says of every text that a quote of it tells target `d`.
struct Always {
    quote: &'static str,
    asked: Mutex<usize>,
}

impl Chat for Always {
    fn model(&self) -> &'static str {
        "always"
    }

    fn chat(&self, _: &ChatRequest) -> Result<ChatReply, CallError> {
        *self.asked.lock().unwrap() += 1;
        let content = json!({"matches": [{"target_id": "d", "quote": self.quote}]}).to_string();
        Ok(ChatReply {
            content: Some(content),
            tool_calls: Vec::new(),
            end: ReplyEnd::Stop,
            prompt_tokens: None,
            completion_tokens: None,
        })
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

#[test]
fn a_semantic_match_is_told_beside_the_headline_and_asked_for_once() {
    let rows = log(vec![
        row("s", 1, "console", "the man from the north, and Ada Quill"),
        row("s", 2, "console", "the man from the north, and Ada Quill"),
        row("s", 3, "tool_return", "the man from the north"),
        row("s", 4, "console", "nothing of the kind"),
    ]);
    let plain = rows.analyse().unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    let files = rows.write(folder.path());
    let chat = Always { quote: "the man from the north", asked: Mutex::new(0) };
    let mut verifier = Semantic::new(&chat, 2);
    let summary = analyse(&files, &Settings::default(), Some(&mut verifier)).unwrap();
    let matches: Vec<MatchRow> = jsonl::read(&files.out.join("matches.jsonl")).unwrap();
    let semantic: Vec<&MatchRow> = matches.iter().filter(|row| row.tier == Tier::Semantic).collect();
    assert_eq!(semantic.len(), 2, "one in each of the texts that hold the quote: {semantic:?}");
    assert!(semantic.iter().all(|row| row.target_id == "d"));
    assert_eq!(
        summary.aggregate.overall.ecr, plain.aggregate.overall.ecr,
        "the headline is that of the deterministic tiers"
    );
    let tally = &summary.semantic.as_ref().unwrap().tally;
    // The repeated text is asked about once, the internal channel never; a quote that the text lacks is refused.
    assert_eq!((tally.observations, tally.matches, tally.rejected.unsupported), (2, 1, 1));
    let asked = *chat.asked.lock().unwrap();
    let shown = events(&files, &BTreeSet::from(["s".to_owned()]), Some(&mut verifier)).unwrap();
    assert_eq!(shown["s"].len(), 4);
    assert_eq!(*chat.asked.lock().unwrap(), asked, "the second pass asks nothing");
    assert!(topalign::exposure::text_summary(&summary).contains("semantic verifier always"));
}
