//! Rows of files made elsewhere, whatever their form: messages, prompt with completion, preference pairs with an explicit or an
//! implicit prompt (TRL), and `ShareGPT`'s `conversations`; turns as lists of messages or as plain text.
//!
//! In: a JSON row. Out: [`Row`].

use serde_json::Value;

use crate::dataset::{Message, PairKind, PreferencePair, Role, SftRow, Stage};

/// Either kind of row.
#[derive(Debug, Clone)]
pub(super) enum Row {
    Pair(PreferencePair),
    Sft(SftRow),
}

impl Row {
    /// Reads a row by its keys; `None` if they are those of no known form.
    pub fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let field = |key: &str| value.get(key).filter(|field| !field.is_null());
        let trace_id = text("trace_id");
        if let (Some(chosen), Some(rejected)) = (field("chosen"), field("rejected")) {
            let prompt = field("prompt").or_else(|| field("conversations")).or_else(|| field("messages"));
            let (prompt, chosen, rejected) = match prompt {
                Some(prompt) => {
                    (turns(prompt, Role::User)?, turns(chosen, Role::Assistant)?, turns(rejected, Role::Assistant)?)
                }
                None => implicit(chosen, rejected)?,
            };
            let kind = text("kind").and_then(|kind| PairKind::ALL.into_iter().find(|known| known.name() == kind));
            let (split, audit, writer_chosen, writer_rejected) =
                (None, None, text("writer_chosen"), text("writer_rejected"));
            return Some(Self::Pair(PreferencePair {
                prompt,
                chosen,
                rejected,
                kind,
                trace_id,
                split,
                writer_chosen,
                writer_rejected,
                audit,
            }));
        }
        let messages =
            match (field("messages").or_else(|| field("conversations")), field("prompt"), field("completion")) {
                (Some(messages), _, _) => turns(messages, Role::User)?,
                (None, Some(prompt), Some(completion)) => {
                    let mut messages = turns(prompt, Role::User)?;
                    messages.extend(turns(completion, Role::Assistant)?);
                    messages
                }
                _ => return None,
            };
        let stage = match value.get("stage").and_then(Value::as_u64) {
            Some(1) => Some(Stage::Selection),
            Some(2) => Some(Stage::Response),
            _ => None,
        };
        Some(Self::Sft(SftRow { messages, trace_id, split: None, writer: text("writer"), stage, audit: None }))
    }

    pub fn noun(&self) -> &'static str {
        match self {
            Self::Pair(_) => "dpo",
            Self::Sft(_) => "sft",
        }
    }

    pub fn trace_id(&self) -> Option<&str> {
        match self {
            Self::Pair(pair) => pair.trace_id.as_deref(),
            Self::Sft(row) => row.trace_id.as_deref(),
        }
    }

    pub fn prompt(&self) -> &[Message] {
        match self {
            Self::Pair(pair) => &pair.prompt,
            Self::Sft(row) => super::prompt_of(&row.messages),
        }
    }
}

/// A list of turns, one turn, or plain text spoken by `speaker`.
fn turns(value: &Value, speaker: Role) -> Option<Vec<Message>> {
    match value {
        Value::String(content) => Some(vec![Message { role: speaker, content: content.clone() }]),
        Value::Array(items) => items.iter().map(turn).collect(),
        Value::Object(_) => Some(vec![turn(value)?]),
        _ => None,
    }
}

/// `{"role", "content"}`, or `ShareGPT`'s `{"from", "value"}`.
fn turn(value: &Value) -> Option<Message> {
    let speaker = value.get("role").or_else(|| value.get("from"))?.as_str()?;
    let role = match speaker {
        "user" | "human" => Role::User,
        "assistant" | "gpt" | "model" | "bot" | "chatgpt" => Role::Assistant,
        "system" | "developer" => Role::System,
        "tool" | "observation" | "function" | "function_call" | "ipython" => Role::Tool,
        _ => return None,
    };
    let content = match value.get("content").or_else(|| value.get("value"))? {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        // Parts of a multimodal turn: only the text can be read.
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    };
    Some(Message { role, content })
}

type Triple = (Vec<Message>, Vec<Message>, Vec<Message>);

/// The prompt of a pair that does not name it: what both answers begin with.
fn implicit(chosen: &Value, rejected: &Value) -> Option<Triple> {
    if let (Some(one), Some(other)) = (chosen.as_str(), rejected.as_str()) {
        return Some(implicit_text(one, other));
    }
    let (mut chosen, mut rejected) = (turns(chosen, Role::Assistant)?, turns(rejected, Role::Assistant)?);
    let shared = chosen.iter().zip(&rejected).take_while(|(one, other)| one == other).count();
    // Equal answers share every turn; the last one is the answer all the same.
    let shared = shared.min(chosen.len().saturating_sub(1)).min(rejected.len().saturating_sub(1));
    let answers = (chosen.split_off(shared), rejected.split_off(shared));
    Some((chosen, answers.0, answers.1))
}

/// Of plain text, whole lines are shared: an answer never starts within one.
fn implicit_text(one: &str, other: &str) -> Triple {
    let shared = one.char_indices().zip(other.chars()).take_while(|((_, a), b)| a == b).last();
    let end = shared.map_or(0, |((at, letter), _)| at + letter.len_utf8());
    let end = one[..end].rfind('\n').map_or(0, |line| line + 1);
    let turn = |role, content: &str| vec![Message { role, content: content.to_owned() }];
    (turn(Role::User, &one[..end]), turn(Role::Assistant, &one[end..]), turn(Role::Assistant, &other[end..]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Row;
    use crate::dataset::Role;

    fn pair(value: &serde_json::Value) -> (String, String, String) {
        let Some(Row::Pair(pair)) = Row::read(value) else { panic!("no pair: {value}") };
        let last = |turns: &[crate::dataset::Message]| turns.last().map_or(String::new(), |turn| turn.content.clone());
        (last(&pair.prompt), last(&pair.chosen), last(&pair.rejected))
    }

    #[test]
    fn every_form_of_a_pair_reads_the_same() {
        let (user, good, bad) = (
            json!({"role": "user", "content": "Ask"}),
            json!({"role": "assistant", "content": "Good"}),
            json!({"role": "assistant", "content": "Bad"}),
        );
        let expected = ("Ask".to_owned(), "Good".to_owned(), "Bad".to_owned());
        for row in [
            json!({"prompt": [user], "chosen": [good], "rejected": [bad]}),
            json!({"chosen": [user, good], "rejected": [user, bad]}),
            json!({"prompt": "Ask", "chosen": "Good", "rejected": "Bad"}),
            json!({"conversations": [{"from": "human", "value": "Ask"}], "chosen": {"from": "gpt", "value": "Good"},
                   "rejected": {"from": "gpt", "value": "Bad"}}),
            json!({"messages": [user], "chosen": good, "rejected": bad}),
        ] {
            assert_eq!(pair(&row), expected, "{row}");
        }
        assert_eq!(pair(&json!({"chosen": "Ask\nGood", "rejected": "Ask\nGreat"})).1, "Good");
    }

    #[test]
    fn every_form_of_an_sft_row_ends_with_the_answer() {
        for row in [
            json!({"messages": [{"role": "user", "content": "Ask"}, {"role": "assistant", "content": "Good"}]}),
            json!({"prompt": "Ask", "completion": "Good"}),
            json!({"conversations": [{"from": "human", "value": "Ask"}, {"from": "gpt", "value": "Good"}]}),
            json!({"messages": [{"role": "user", "content": "Ask"},
                                {"role": "assistant", "content": [{"type": "text", "text": "Good"}]}]}),
        ] {
            let Some(Row::Sft(sft)) = Row::read(&row) else { panic!("no row: {row}") };
            let last = sft.messages.last().unwrap();
            assert_eq!((last.role, last.content.as_str()), (Role::Assistant, "Good"));
        }
        for row in [json!({"text": "plain"}), json!([1]), json!({"messages": [{"role": "alien", "content": "x"}]})] {
            assert!(Row::read(&row).is_none(), "{row}");
        }
    }
}
