//! Continuous batched decoding: when one sequence ends, the next request takes its place at once.

use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;

use super::{NextToken, Sampler};
use crate::error::Result;
use crate::run::interrupt;

/// Prompts whose caches are kept for other requests, at most.
const KEPT_PREFIXES: usize = 4;

/// Whether other requests have the same prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Prefix {
    /// None does.
    #[default]
    Own,
    /// Samples of one prompt: it is read once, and its cache copied.
    Shared,
}

/// One sequence to decode.
#[derive(Debug, Clone)]
pub struct Request<K> {
    /// The caller's name for it, handed back with the result.
    pub key: K,
    /// Prompt tokens.
    pub prompt: Vec<u32>,
    /// Most tokens to generate, the terminator not counted.
    pub limit: usize,
    /// The source of this sequence's draws, and of no other's.
    pub generator: ChaCha8Rng,
    /// Whether other requests have the same prompt.
    pub prefix: Prefix,
}

/// What came out of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// Tokens without the terminator.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub ended: Ended,
}

/// Why a generation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The model wrote a terminator.
    Stop,
    /// The token limit or the model's context is full.
    Length,
    /// It could not be decoded; the reason holds counts, never text.
    Failed(String),
}

struct Running<K, C> {
    key: K,
    cache: C,
    /// Chosen but not yet read by the model.
    next: u32,
    tokens: Vec<u32>,
    limit: usize,
    generator: ChaCha8Rng,
}

/// The parts that stay the same for every sequence of a run.
struct Engine<'a, M> {
    model: &'a M,
    terminators: &'a [u32],
    sampler: Sampler,
}

/// Decodes all requests, at most `batch` of them together. `finished` receives each result as it comes and may answer with
/// a request that follows from it, which runs next.
///
/// # Errors
/// What the model or `finished` returns, or [`crate::error::Error::Interrupted`]; a request that does not fit the context
/// ends as [`Ended::Failed`] and the rest go on.
pub fn decode_all<M: NextToken, K>(
    (model, terminators): (&M, &[u32]),
    sampler: Sampler,
    batch: usize,
    requests: impl IntoIterator<Item = Request<K>>,
    mut finished: impl FnMut(K, Generated) -> Result<Option<Request<K>>>,
) -> Result<()> {
    let engine = Engine { model, terminators, sampler };
    let mut prefixes: Prefixes<M::Cache> = VecDeque::new();
    let mut waiting: VecDeque<Request<K>> = VecDeque::new();
    let mut requests = requests.into_iter();
    let mut running: Vec<Box<Running<K, M::Cache>>> = Vec::new();
    loop {
        while running.len() < batch.max(1) {
            interrupt::check()?;
            let Some(request) = waiting.pop_front().or_else(|| requests.next()) else { break };
            match engine.start(request, &mut prefixes)? {
                Step::Goes(sequence) => running.push(sequence),
                Step::Ends(key, generated) => waiting.extend(finished(key, generated)?),
            }
        }
        if running.is_empty() {
            return Ok(());
        }
        interrupt::check()?;
        for step in engine.advance(std::mem::take(&mut running))? {
            match step {
                Step::Goes(sequence) => running.push(sequence),
                Step::Ends(key, generated) => waiting.extend(finished(key, generated)?),
            }
        }
    }
}

/// Prompts that were read for several requests, with their caches and the logits after them; the latest stands first.
type Prefixes<C> = VecDeque<(Vec<u32>, C, Vec<f32>)>;

enum Step<K, C> {
    Goes(Box<Running<K, C>>),
    Ends(K, Generated),
}

impl<M: NextToken> Engine<'_, M> {
    fn start<K>(&self, request: Request<K>, prefixes: &mut Prefixes<M::Cache>) -> Result<Step<K, M::Cache>> {
        let Request { key, prompt, limit, generator, prefix } = request;
        let context = self.model.context_length();
        if prompt.is_empty() || prompt.len() >= context {
            let reason = format!("the prompt has {} tokens and the model's context {context}", prompt.len());
            return Ok(Step::Ends(key, Generated { tokens: Vec::new(), ended: Ended::Failed(reason) }));
        }
        let limit = limit.min(context - prompt.len());
        let (cache, logits) = match prefix {
            Prefix::Own => self.model.start(&prompt)?,
            Prefix::Shared => self.read_once(prompt, prefixes)?,
        };
        Ok(self.choose(Box::new(Running { key, cache, next: 0, tokens: Vec::new(), limit, generator }), &logits))
    }

    /// A copy of what was read of this prompt before, or reads it and keeps that.
    fn read_once(&self, prompt: Vec<u32>, prefixes: &mut Prefixes<M::Cache>) -> Result<(M::Cache, Vec<f32>)> {
        if let Some((_, cache, logits)) = prefixes.iter().find(|(kept, _, _)| *kept == prompt) {
            return Ok((cache.clone(), logits.clone()));
        }
        let (cache, logits) = self.model.start(&prompt)?;
        prefixes.truncate(KEPT_PREFIXES - 1);
        prefixes.push_front((prompt, cache.clone(), logits.clone()));
        Ok((cache, logits))
    }

    /// One token more for every running sequence.
    fn advance<K>(&self, mut running: Vec<Box<Running<K, M::Cache>>>) -> Result<Vec<Step<K, M::Cache>>> {
        let tokens: Vec<u32> = running.iter().map(|sequence| sequence.next).collect();
        let mut caches: Vec<&mut M::Cache> = running.iter_mut().map(|sequence| &mut sequence.cache).collect();
        let logits = self.model.advance(&mut caches, &tokens)?; // [sequences][vocabulary]
        Ok(running.into_iter().zip(logits).map(|(sequence, logits)| self.choose(sequence, &logits)).collect())
    }

    fn choose<K>(&self, mut sequence: Box<Running<K, M::Cache>>, logits: &[f32]) -> Step<K, M::Cache> {
        let ended = match self.sampler.choose(logits, &mut sequence.generator) {
            None => Ended::Failed("the model's logits are not finite".to_owned()),
            Some(token) if self.terminators.contains(&token) => Ended::Stop,
            // The limit is tried after the terminator: an answer of exactly `limit` tokens is complete.
            Some(_) if sequence.tokens.len() >= sequence.limit => Ended::Length,
            Some(token) => {
                sequence.tokens.push(token);
                sequence.next = token;
                return Step::Goes(sequence);
            }
        };
        Step::Ends(sequence.key, Generated { tokens: sequence.tokens, ended })
    }
}
