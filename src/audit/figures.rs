//! What only a whole data set shows: frames that a model would learn by heart, answers far longer than the others.
//!
//! In: answers, one after the other. Out: a [`SetSummary`], and [`AuditRecord`]s of the row `set`. Of a frame 8 bytes are held.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::record::{Answer, AuditRecord, Finding};
use super::set::{FEWEST_FRAMES, FRAME_SHARE, LONG, SetSummary, frame};
use super::sketch::word_hash;
use crate::dataset::{Check, Severities};

/// Name of the row that findings about a whole set have.
const ROW: &str = "set";

/// Answers far longer than the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LongAnswers {
    /// Median length of all answers in characters.
    pub median: usize,
    /// Answers of more than four times as many.
    pub long: usize,
}

/// Sums over the answers until now.
#[derive(Debug, Default)]
pub struct Figures {
    frames: HashMap<u64, usize>,
    answers: usize,
    lengths: BTreeMap<usize, usize>,
}

impl Figures {
    /// Adds a better answer.
    pub fn add_chosen(&mut self, answer: &str) {
        self.answers += 1;
        *self.frames.entry(word_hash(frame(answer).bytes())).or_default() += 1;
        self.add(answer);
    }

    /// Adds any other answer.
    pub fn add(&mut self, answer: &str) {
        *self.lengths.entry(answer.chars().count()).or_default() += 1;
    }

    /// Frames of the better answers.
    pub fn summary(&self) -> SetSummary {
        let top = self.frames.values().max();
        SetSummary {
            answers: self.answers,
            frames: self.frames.len(),
            top_frame: top.map(|top| *top as f64 / self.answers as f64),
        }
    }

    /// Lengths of all answers.
    pub fn long_answers(&self) -> LongAnswers {
        let middle = self.lengths.values().sum::<usize>() / 2;
        let mut passed = 0;
        let median = self.lengths.iter().find(|(_, count)| {
            passed += **count;
            passed > middle
        });
        let median = median.map_or(0, |(length, _)| *length);
        let long = self.lengths.range(LONG * median.max(1) + 1..).map(|(_, count)| count).sum();
        LongAnswers { median, long }
    }
}

/// What a whole set shows, as severities weigh it.
pub fn set_records(set: &SetSummary, lengths: LongAnswers, severities: &Severities) -> Vec<AuditRecord> {
    let share = set.top_frame.filter(|share| set.answers >= FEWEST_FRAMES && *share > FRAME_SHARE);
    let finding = |check, holds: bool, reason: String| {
        let found = if holds {
            Finding::new(Answer::Chosen, check, true, Vec::new(), "")
        } else {
            Finding::warn(Answer::Chosen, check, Vec::new(), reason)
        };
        found.weighed(severities.get(check))
    };
    let percent = 100.0 * share.unwrap_or_default();
    let frames = format!("{percent:.1}% of {} better answers have one frame", set.answers);
    let long =
        format!("{} answers have more than {LONG} times the median of {} characters", lengths.long, lengths.median);
    [finding(Check::Frame, share.is_none(), frames), finding(Check::Length, lengths.long == 0, long)]
        .into_iter()
        .flatten()
        .map(|finding| finding.record(ROW, None))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Figures, set_records};
    use crate::audit::Verdict;
    use crate::dataset::{Check, Severities, Severity};

    #[test]
    fn a_frame_of_many_answers_and_answers_far_longer_than_the_others_are_told_once() {
        let mut figures = Figures::default();
        for index in 0..60 {
            let other = format!("{} way of saying it", "a".repeat(index));
            figures.add_chosen(&if index < 20 { format!("The fee is ${index}.") } else { other });
        }
        figures.add(&"far too long ".repeat(40));
        let (summary, lengths) = (figures.summary(), figures.long_answers());
        assert_eq!((summary.answers, summary.frames, lengths.long), (60, 41, 1));
        let verdicts = |severities: &Severities| -> Vec<(Check, Verdict)> {
            let records = set_records(&summary, lengths, severities);
            records.iter().map(|record| (record.check, record.verdict)).collect()
        };
        let usual = [(Check::Frame, Verdict::Warn), (Check::Length, Verdict::Warn)];
        assert_eq!(verdicts(&Severities::default()), usual);
        let strict: Severities = [(Check::Frame, Severity::Fail), (Check::Length, Severity::Off)].into_iter().collect();
        assert_eq!(verdicts(&strict), [(Check::Frame, Verdict::Fail)]);
        let records =
            set_records(&Figures::default().summary(), Figures::default().long_answers(), &Severities::default());
        assert!(records.iter().all(|record| record.verdict == Verdict::Pass && record.row == "set"));
    }
}
