//! Traces answered by several ranks: dealt out in rounds, each rank's part decoded as if it were all.

use super::{NextToken, Protocol};
use crate::completion::Completion;
use crate::error::Result;
use crate::rank::{self, Group};
use crate::trace::Trace;

/// Batches of each rank between two gatherings: what a killed run loses, against the wait for the slowest rank.
const BATCHES_PER_ROUND: usize = 4;

impl<M: NextToken> Protocol<'_, M> {
    /// As [`Protocol::answer_traces`], dealt out by the length of what is read; every rank gets all completions in the order of the
    /// traces. `completed` is called on the first rank alone, after each round where there are several ranks.
    ///
    /// # Errors
    /// As [`Protocol::answer_traces`] and [`Group::gather`].
    pub fn answer_dealt(
        &self,
        group: &dyn Group,
        traces: &[Trace],
        mut completed: impl FnMut(&Completion) -> Result<()>,
    ) -> Result<Vec<Completion>> {
        if group.is_alone() {
            return self.answer_traces(traces, completed);
        }
        let mut all = Vec::with_capacity(traces.len());
        for round in traces.chunks(group.size() * self.settings.batch.max(1) * BATCHES_PER_ROUND) {
            let weights: Vec<usize> = round.iter().map(length).collect();
            let shares = rank::deal(&weights, group.size());
            let own: Vec<Trace> = shares[group.rank()].iter().map(|&index| round[index].clone()).collect();
            let answered = self.answer_traces(&own, |_| Ok(()))?;
            // Samples of one trace go together.
            let samples = self.settings.samples.max(1);
            let by_trace: Vec<Vec<Completion>> = answered.chunks(samples).map(<[Completion]>::to_vec).collect();
            let by_trace = rank::in_order(&shares, group.exchange(by_trace)?)?;
            let answered: Vec<Completion> = by_trace.into_iter().flatten().collect();
            if group.is_first() {
                answered.iter().try_for_each(&mut completed)?;
            }
            all.extend(answered);
        }
        Ok(all)
    }
}

/// Bytes of the text that a trace's prompts are made of.
fn length(trace: &Trace) -> usize {
    let tools = trace.tools.iter().map(|tool| tool.description.len() + tool.return_text.len());
    trace.goal.len() + tools.sum::<usize>()
}
