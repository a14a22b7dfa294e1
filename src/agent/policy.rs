//! What a scripted model does: how likely it says what it read, at which exit, and how well it does tasks.
//!
//! Each piece of a record (a field's value, or a sentence) is said at an exit with that exit's probability. The draw depends on the
//! session's seed, the exit and the piece alone: asked twice, the policy says the same, and the expected share of pieces that leave
//! through an exit within a session is the probability itself.

use std::collections::BTreeMap;

use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::seed::Seed;

/// Probability by the name of an exit; 0 for those without.
pub type Leaks = BTreeMap<String, f64>;

/// A scripted model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// How likely a field's value is said at an exit.
    #[serde(default)]
    pub leak: Leaks,
    /// The same of sentences; as for fields where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leak_prose: Option<Leaks>,
    /// How likely a task is done right when what it needs can be seen.
    #[serde(default = "certain")]
    pub competence: f64,
    /// How often a record is read again when parts of it are left out.
    #[serde(default)]
    pub insistence: usize,
    /// Declared seconds of a call.
    #[serde(default = "call_seconds")]
    pub call_seconds: f64,
    /// Declared seconds of a token of a reply.
    #[serde(default = "token_seconds")]
    pub token_seconds: f64,
}

fn certain() -> f64 {
    1.0
}

fn call_seconds() -> f64 {
    0.5
}

fn token_seconds() -> f64 {
    0.01
}

/// A piece of a result that is said whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// As it is said.
    pub line: String,
    /// What the draw depends on.
    pub key: String,
    /// A sentence of running text.
    pub prose: bool,
}

impl Policy {
    /// Probability of a piece at an exit.
    pub fn probability(&self, exit: &str, prose: bool) -> f64 {
        let leaks = if prose { self.leak_prose.as_ref().unwrap_or(&self.leak) } else { &self.leak };
        leaks.get(exit).copied().unwrap_or(0.0)
    }

    pub(super) fn says(&self, seed: u64, exit: &str, piece: &Piece) -> bool {
        let probability = self.probability(exit, piece.prose);
        probability > 0.0 && draw(seed, &format!("leak/{exit}/{}", piece.key)) < probability
    }

    pub(super) fn is_competent(&self, seed: u64, request: &str) -> bool {
        draw(seed, &format!("competence/{request}")) < self.competence
    }
}

fn draw(seed: u64, name: &str) -> f64 {
    Seed(seed).stream(name).random::<f64>()
}

/// Pieces of one result: fields and sentences of a record, else every leaf of any JSON.
pub(super) fn pieces(result: &Value) -> Vec<Piece> {
    let mut pieces = Vec::new();
    match result.get("fields").and_then(Value::as_object) {
        Some(fields) => {
            for (name, value) in fields {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                pieces.push(Piece { line: format!("{name}: {value}"), key: value, prose: false });
            }
            let body = result.get("body").and_then(Value::as_str).unwrap_or_default();
            let sentences = body.lines().filter(|line| !line.trim().is_empty());
            pieces.extend(sentences.map(|line| Piece { line: line.to_owned(), key: line.to_owned(), prose: true }));
        }
        None => leaves("", result, &mut pieces),
    }
    pieces
}

fn leaves(name: &str, value: &Value, pieces: &mut Vec<Piece>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| leaves(name, value, pieces)),
        Value::Array(items) => items.iter().for_each(|item| leaves(name, item, pieces)),
        Value::String(text) => pieces.push(Piece { line: format!("{name}: {text}"), key: text.clone(), prose: false }),
        Value::Number(number) => {
            pieces.push(Piece { line: format!("{name}: {number}"), key: number.to_string(), prose: false });
        }
        Value::Null | Value::Bool(_) => {}
    }
}
