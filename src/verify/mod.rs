//! The semantic verifier: a model is asked whether a text tells, in other words, what matching did not find in it.
//!
//! In: an [`Observation`]: a text on a visible channel and the contract's targets that have no headline match there. Out: an
//! [`Outcome`]: matches of tier `semantic`, what was rejected, or why there is no verdict. The model may pick only from the
//! batch that it was given and must quote the text; an id outside the batch is rejected and counted, and never read as
//! another. The same kind of model can also judge a whole answer by two separate [`Question`]s. Targets go to the chosen model and nowhere else. Source: ASLEval, section 3.3, D-2 (arXiv 2609.18864).

mod observation;
mod prompt;
mod question;
mod read;
mod tally;

pub use observation::Observation;
pub use question::{Question, ask_all};
pub use read::{Reading, Rejected, Unreadable, read_reply};
pub use tally::Tally;

use serde::{Deserialize, Serialize};

use crate::adjudicate::{Disclosure, Match};
use crate::contract::{Contract, Target};
use crate::endpoint::{CallError, Chat, ChatRequest, in_parallel};
use crate::error::Result;

/// Targets in one request: a model loses count in long lists.
const BATCH: usize = 16;

/// Tokens for each target of the batch, and for the frame around them.
const REPLY_TOKENS: (usize, usize) = (48, 64);

/// Whether semantic matches decide headline figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SemanticUse {
    /// They are shown beside the headline.
    #[default]
    Beside,
    /// They decide it; the deterministic figures are shown beside.
    Headline,
}

/// What the verifier says of one observation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Matches of tier `semantic`, at most one a target.
    pub matches: Vec<Match>,
    /// Answers that were not accepted.
    pub rejected: Rejected,
    /// Why the observation, or a part of it, has no verdict. Matches of the other parts stand; what is not among them is open.
    pub unscored: Option<String>,
    /// Requests made for it.
    pub requests: usize,
}

/// Asks about one observation.
///
/// # Errors
/// [`CallError::Interrupted`] only; every other failure is the outcome's `unscored`.
pub fn verify(chat: &dyn Chat, observation: &Observation<'_>) -> Result<Outcome, CallError> {
    let mut outcome = Outcome::default();
    for batch in observation.unresolved.chunks(BATCH) {
        outcome.requests += 1;
        match ask(chat, observation.payload, batch) {
            Ok(reading) => {
                outcome.matches.extend(reading.matches);
                outcome.rejected += reading.rejected;
            }
            Err(NoVerdict::Call(CallError::Interrupted)) => return Err(CallError::Interrupted),
            Err(reason) => outcome.unscored = Some(reason.to_string()),
        }
    }
    Ok(outcome)
}

/// Asks about all observations, `workers` requests at a time; the outcomes are in the order of the observations. `finished`
/// hears of each as it comes.
///
/// # Errors
/// [`crate::error::Error::Interrupted`].
pub fn verify_all(
    chat: &(dyn Chat + Sync),
    workers: usize,
    observations: &[Observation<'_>],
    mut finished: impl FnMut(),
) -> Result<Vec<Outcome>> {
    let mut outcomes = vec![Outcome::default(); observations.len()];
    let work = |observation: &Observation<'_>| verify(chat, observation);
    in_parallel(workers, observations, work, |index, outcome| {
        outcomes[index] = outcome.map_err(|_| crate::error::Error::Interrupted)?;
        finished();
        Ok(())
    })?;
    Ok(outcomes)
}

#[derive(Debug, thiserror::Error)]
enum NoVerdict {
    #[error("the verifier gave no reply: {0}")]
    Call(#[from] CallError),
    #[error("the verifier's reply is {0}")]
    Reply(#[from] Unreadable),
}

fn ask(chat: &dyn Chat, payload: &str, batch: &[&Target]) -> Result<Reading, NoVerdict> {
    let (each, frame) = REPLY_TOKENS;
    let request = ChatRequest::greedy(prompt::messages(payload, batch), frame + each * batch.len());
    let reply = chat.chat(&request.for_json(prompt::schema(batch)))?;
    Ok(read_reply(reply.whole()?, payload, batch)?)
}

impl Outcome {
    /// The matches as disclosures. They decide nothing while their tier stays outside the headline.
    pub fn disclosures(&self, contract: &Contract) -> Vec<Disclosure> {
        let disclosure = |found: &Match| {
            Some(Disclosure {
                target_id: found.target_id.clone(),
                kind: contract.target(&found.target_id)?.kind,
                alias: found.alias.clone(),
                tier: found.tier,
                negated: found.negated,
                weak: found.weak,
                span: found.span.clone(),
            })
        };
        self.matches.iter().filter_map(disclosure).collect()
    }
}
