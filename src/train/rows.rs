//! Rows become trees of tokens; what cannot be trained on is dropped, counted and named.
//!
//! In: rows and a tokenizer. Out: [`Encoded`]. A supervised row is a tree with one answer; the pairs of one prompt and one
//! chosen answer are one tree: the prompt, the chosen answer, then each rejected one.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::dataset::{Message, PairKind, PreferencePair, Role, SftRow};
use crate::error::{Error, Fault, Result};
use crate::token::{ChatTokenizer, Tree};

/// Trees to train on, and the rows that are not in them.
#[derive(Debug, Clone, Default)]
pub struct Encoded {
    /// What is trained on.
    pub trees: Vec<Tree>,
    /// For preference data the kind of each tree's rejected answers, in their order; empty for supervised rows.
    pub kinds: Vec<Vec<Option<PairKind>>>,
    /// Rows left out.
    pub dropped: Vec<DroppedRow>,
    /// Rows read.
    pub rows: usize,
}

/// A row that is not trained on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedRow {
    /// Name of the row, e.g. `dpo:12 (topbench-v2/4)`.
    pub row: String,
    /// Why.
    pub reason: DropReason,
    /// Tokens of prompt and answer, where the length is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<usize>,
}

/// Why a row is not trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// Longer than the limit; cutting it would train a cut answer.
    TooLong,
    /// Chosen and rejected are the same tokens: its loss is ln 2 whatever the model does.
    ChosenEqualsRejected,
}

/// Encodes supervised rows. `limit`: tokens of the longest prompt and answer that is accepted.
///
/// # Errors
/// [`Fault`]s naming every row that does not end with the assistant's answer or that the template refuses; a [`Fault`] if
/// nothing is left.
pub fn encode_sft(rows: &[SftRow], tokenizer: &ChatTokenizer, limit: usize) -> Result<Encoded> {
    let mut encoded = Encoded { rows: rows.len(), ..Encoded::default() };
    let mut faults = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let id = row_id("sft", index, row.trace_id.as_deref());
        match supervised_tree(row, &id, tokenizer) {
            Ok(tree) if tree.longest_row() > limit => encoded.drop_long(&id, tree.longest_row()),
            Ok(tree) => encoded.trees.push(tree),
            Err(error) => collect(error, &mut faults)?,
        }
    }
    encoded.finish(faults, limit)
}

fn supervised_tree(row: &SftRow, id: &str, tokenizer: &ChatTokenizer) -> Result<Tree> {
    match row.messages.split_last() {
        Some((answer, prompt)) if answer.role == Role::Assistant && !prompt.is_empty() => {
            tokenizer.encode_tree(prompt, &[(id, &answer.content)])
        }
        _ => Err(Fault::new("a supervised row must have a prompt and end with the assistant's answer").at(id).into()),
    }
}

/// Encodes preference pairs, one tree for all pairs that share prompt and chosen answer. `limit` as in [`encode_sft`].
///
/// # Errors
/// [`Fault`]s naming every pair whose answers are not one assistant turn each or that the template refuses; a [`Fault`] if
/// nothing is left.
pub fn encode_dpo(pairs: &[PreferencePair], tokenizer: &ChatTokenizer, limit: usize) -> Result<Encoded> {
    encode_groups(pairs, limit, |encoded, group| encoded.add_group(pairs, group, tokenizer, limit))
}

/// [`encode_dpo`] for a loss that takes answers alone: a row may lack its chosen or its rejected answer (an empty list). A
/// tree without a chosen answer has as many kinds as answers.
///
/// # Errors
/// As [`encode_dpo`]; a [`Fault`] naming a row that has neither.
pub fn encode_unpaired(pairs: &[PreferencePair], tokenizer: &ChatTokenizer, limit: usize) -> Result<Encoded> {
    encode_groups(pairs, limit, |encoded, group| encoded.add_answers(pairs, group, tokenizer, limit))
}

fn encode_groups(
    pairs: &[PreferencePair],
    limit: usize,
    add: impl Fn(&mut Encoded, &[usize]) -> Result<()>,
) -> Result<Encoded> {
    let mut encoded = Encoded { rows: pairs.len(), ..Encoded::default() };
    let mut faults = Vec::new();
    for group in group(pairs) {
        if let Err(error) = add(&mut encoded, &group) {
            collect(error, &mut faults)?;
        }
    }
    encoded.finish(faults, limit)
}

/// Indices of pairs with the same prompt and chosen answer, groups in the order of their first pair.
fn group(pairs: &[PreferencePair]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<Vec<(Role, &str)>, usize> = HashMap::new();
    for (index, pair) in pairs.iter().enumerate() {
        let turns = pair.prompt.iter().chain(&pair.chosen).map(|turn| (turn.role, turn.content.as_str()));
        let group = *known.entry(turns.collect()).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(index);
    }
    groups
}

impl Encoded {
    fn add_group(
        &mut self,
        pairs: &[PreferencePair],
        group: &[usize],
        tokenizer: &ChatTokenizer,
        limit: usize,
    ) -> Result<()> {
        let ids: Vec<String> =
            group.iter().map(|&index| row_id("dpo", index, pairs[index].trace_id.as_deref())).collect();
        let first = &pairs[group[0]];
        let mut answers = vec![(ids[0].as_str(), one_turn(&first.chosen, "chosen", &ids[0])?)];
        for (&index, id) in group.iter().zip(&ids) {
            answers.push((id, one_turn(&pairs[index].rejected, "rejected", id)?));
        }
        let tree = tokenizer.encode_tree(&first.prompt, &answers)?;
        let kinds = group.iter().map(|&index| pairs[index].kind).collect();
        self.add_preference_tree(tree, kinds, limit);
        Ok(())
    }

    /// Adds a group whose rows may lack one of their answers.
    fn add_answers(
        &mut self,
        pairs: &[PreferencePair],
        group: &[usize],
        tokenizer: &ChatTokenizer,
        limit: usize,
    ) -> Result<()> {
        let ids: Vec<String> =
            group.iter().map(|&index| row_id("dpo", index, pairs[index].trace_id.as_deref())).collect();
        let first = &pairs[group[0]];
        let mut rows = Vec::new();
        if !first.chosen.is_empty() {
            rows.push((ids[0].as_str(), one_turn(&first.chosen, "chosen", &ids[0])?));
        }
        let mut kinds = Vec::new();
        for (&index, id) in group.iter().zip(&ids) {
            let pair = &pairs[index];
            if !pair.rejected.is_empty() {
                rows.push((id, one_turn(&pair.rejected, "rejected", id)?));
                kinds.push(pair.kind);
            } else if pair.chosen.is_empty() {
                return Err(Fault::new("the row has neither a chosen nor a rejected answer").at(id).into());
            }
        }
        let tree = tokenizer.encode_tree(&first.prompt, &rows)?;
        if rows.len() > kinds.len() && !kinds.is_empty() {
            self.add_preference_tree(tree, kinds, limit);
        } else if tree.longest_row() > limit {
            self.drop_long(&ids[0], tree.longest_row());
        } else {
            self.trees.push(tree);
            self.kinds.push(kinds);
        }
        Ok(())
    }

    /// Weights by kind need the kind of every pair.
    ///
    /// # Errors
    /// A [`Fault`] for each of the first ten rows without one.
    pub(super) fn check_kinds(&self) -> Result<()> {
        let mut faults = Vec::new();
        for (tree, kinds) in self.trees.iter().zip(&self.kinds) {
            let names = tree.row_ids.iter().skip(tree.answers.len() - kinds.len());
            let without = names.zip(kinds).filter(|(_, kind)| kind.is_none());
            faults.extend(without.map(|(name, _)| {
                Fault::new("the pair has no `kind`, so `dpo.kind_weights` cannot say how much it counts").at(name)
            }));
        }
        faults.truncate(10);
        if faults.is_empty() { Ok(()) } else { Err(Error::Invalid(faults)) }
    }

    /// Adds a preference tree without the pairs that cannot be trained on.
    fn add_preference_tree(&mut self, tree: Tree, kinds: Vec<Option<PairKind>>, limit: usize) {
        let Tree { row_ids, prompt, answers } = tree;
        let mut answers = row_ids.into_iter().zip(answers);
        let Some((chosen_id, chosen)) = answers.next() else { return };
        let mut kept = Tree { row_ids: vec![chosen_id], prompt, answers: vec![chosen] };
        let mut kept_kinds = Vec::new();
        let chosen_tokens = kept.longest_row();
        for ((id, rejected), kind) in answers.zip(kinds) {
            let tokens = chosen_tokens.max(kept.prompt.len() + rejected.len());
            if tokens > limit {
                self.drop_long(&id, tokens);
            } else if rejected == kept.answers[0] {
                self.dropped.push(DroppedRow { row: id, reason: DropReason::ChosenEqualsRejected, tokens: None });
            } else {
                kept.row_ids.push(id);
                kept.answers.push(rejected);
                kept_kinds.push(kind);
            }
        }
        if kept.answers.len() > 1 {
            self.trees.push(kept);
            self.kinds.push(kept_kinds);
        }
    }

    fn drop_long(&mut self, id: &str, tokens: usize) {
        self.dropped.push(DroppedRow { row: id.to_owned(), reason: DropReason::TooLong, tokens: Some(tokens) });
    }

    fn finish(self, faults: Vec<Fault>, limit: usize) -> Result<Self> {
        if !faults.is_empty() {
            return Err(Error::Invalid(faults));
        }
        for dropped in &self.dropped {
            tracing::warn!("row {} is not trained on: {:?}", dropped.row, dropped.reason);
        }
        if self.trees.is_empty() {
            let longest = self.dropped.iter().filter_map(|dropped| dropped.tokens).max();
            let mut fault = Fault::new(format!("no row is left to train on: {} read", self.rows))
                .expected(format!("at least one of at most {limit} tokens"));
            if let Some(longest) = longest {
                fault = fault.hint(format!("the longest row has {longest} tokens; raise `max_tokens`"));
            }
            return Err(fault.into());
        }
        Ok(self)
    }
}

fn one_turn<'a>(turns: &'a [Message], side: &str, id: &str) -> Result<&'a str> {
    match turns {
        [turn] if turn.role == Role::Assistant => Ok(&turn.content),
        _ => Err(Fault::new(format!("`{side}` must hold one assistant turn")).at(id).into()),
    }
}

fn row_id(file: &str, index: usize, trace: Option<&str>) -> String {
    trace.map_or_else(|| format!("{file}:{index}"), |trace| format!("{file}:{index} ({trace})"))
}

/// Keeps the faults of a bad row and goes on, so that all are shown at once; anything else ends the work.
fn collect(error: Error, faults: &mut Vec<Fault>) -> Result<()> {
    match error {
        Error::Invalid(found) => {
            faults.extend(found);
            Ok(())
        }
        other => Err(other),
    }
}
