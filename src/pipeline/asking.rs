//! An evaluation with the models that are asked on the way: a semantic verifier, a judge beside the deterministic one.
//!
//! In: completions, traces, contracts and the models. Out: [`Judged`], which writes `verdicts.jsonl`, `summary.json` and, since
//! latencies are never the same twice, `calls.json` apart from them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use crate::completion::Completion;
use crate::contract::Contract;
use crate::endpoint::{Chat, Client, Counts};
use crate::error::{Error, Result};
use crate::evaluate::{
    Beside, Evaluation, OpinionQuestion, Opinions, Semantic, Settings, Unresolved, evaluate_with, questions, unresolved,
};
use crate::run::atomic::{Pending, commit_all};
use crate::trace::{Part, Trace};
use crate::verify::{Observation, Question, SemanticUse, ask_all, verify_all};

/// A model that is asked.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The model.
    pub chat: &'a (dyn Chat + Sync),
    /// Requests under way together.
    pub workers: usize,
}

impl<'a> From<&'a Client> for Asked<'a> {
    fn from(client: &'a Client) -> Self {
        Self { chat: client, workers: client.settings().concurrency }
    }
}

/// The models of an evaluation; without any it is deterministic.
#[derive(Clone, Copy, Default)]
pub struct Asking<'a> {
    /// Asked about what matching left open, and what its matches decide.
    pub verifier: Option<(Asked<'a>, SemanticUse)>,
    /// Judges beside the deterministic judge.
    pub judge: Option<Asked<'a>>,
    /// The part of a split that each trace belongs to.
    pub parts: Option<&'a BTreeMap<String, Part>>,
}

/// An evaluation and what asking took.
#[derive(Debug)]
pub struct Judged {
    /// Verdicts and figures.
    pub evaluation: Evaluation,
    /// Calls by role, `verifier` or `judge`.
    pub calls: BTreeMap<&'static str, Counts>,
}

impl Asking<'_> {
    /// Asks the models, then judges. `progress` hears how many requests of how many a role has behind it.
    ///
    /// # Errors
    /// Inputs that do not fit together, before anything is asked; an interruption.
    pub fn evaluate(
        &self,
        (completions, traces, contracts): (&[Completion], &[Trace], &[Contract]),
        settings: &Settings,
        progress: impl Fn(usize, usize),
    ) -> Result<Judged> {
        let mut beside = Beside { parts: self.parts.cloned().unwrap_or_default(), ..Beside::default() };
        let mut calls = BTreeMap::new();
        // Without anybody to ask the texts need not be searched twice.
        let asks = self.verifier.is_some() || self.judge.is_some();
        let open = if asks { unresolved(completions, traces, contracts)? } else { Vec::new() };
        if let Some((asked, in_headline)) = self.verifier {
            beside.semantic = Some(verify(asked, in_headline, &open, &progress)?);
            calls.insert("verifier", asked.chat.counts());
        }
        if let Some(asked) = self.judge {
            beside.opinions = Some(opinions(asked, &questions(completions, traces), &progress)?);
            calls.insert("judge", asked.chat.counts());
        }
        let evaluation = evaluate_with(completions, traces, contracts, settings, &beside)?;
        Ok(Judged { evaluation, calls })
    }
}

fn verify(
    asked: Asked<'_>,
    in_headline: SemanticUse,
    open: &[Unresolved<'_>],
    progress: impl Fn(usize, usize),
) -> Result<Semantic> {
    let observations: Vec<Observation<'_>> = open.iter().map(|open| open.observation.clone()).collect();
    let mut done = 0;
    let outcomes = verify_all(asked.chat, asked.workers, &observations, || {
        done += 1;
        progress(done, observations.len());
    })?;
    Ok(Semantic::new(asked.chat.model(), in_headline, open, outcomes))
}

fn opinions(asked: Asked<'_>, questions: &[OpinionQuestion<'_>], progress: impl Fn(usize, usize)) -> Result<Opinions> {
    let plain: Vec<Question<'_>> = questions.iter().map(|question| question.question).collect();
    let mut done = 0;
    let answers = ask_all(asked.chat, asked.workers, &plain, || {
        done += 1;
        progress(done, plain.len());
    })?;
    Ok(Opinions::new(asked.chat.model(), questions, answers))
}

impl Judged {
    /// Writes the evaluation's files into a folder.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn write(&self, folder: &Path) -> Result<()> {
        let pretty = |value: serde_json::Result<Vec<u8>>| value.map_err(|error| Error::Failed(error.to_string()));
        let mut verdicts = Pending::create(&folder.join("verdicts.jsonl"))?;
        self.evaluation.verdicts.iter().try_for_each(|verdict| verdicts.row(verdict))?;
        let mut files = vec![verdicts];
        let mut add = |name: &str, json: Vec<u8>| -> Result<()> {
            let mut file = Pending::create(&folder.join(name))?;
            file.write_all(&json).map_err(|source| Error::write(file.path(), source))?;
            files.push(file);
            Ok(())
        };
        if !self.calls.is_empty() {
            add("calls.json", pretty(serde_json::to_vec_pretty(&self.calls))?)?;
        }
        add("summary.json", pretty(serde_json::to_vec_pretty(&self.evaluation.summary))?)?;
        // Verdicts and figures are replaced together.
        commit_all(files)
    }
}
