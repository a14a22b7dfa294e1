//! Tree packing: one prompt and all answers to it become one sequence, so that the prompt is computed once.
//!
//! In: [`Tree`]s (a supervised row is a tree with one answer; a trace's preference data is a tree with one chosen and up
//! to three rejected answers). Out: a [`Packed`] sequence with the hidden rows that are trained and their targets.

/// Tokens laid end to end in segments; a segment sees its own past and, through `parent`, the whole of its ancestors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedSequence {
    /// Token ids. `[tokens]`
    pub tokens: Vec<u32>,
    /// Position of each token for rotary embedding, counted from 0 at the start of its tree. `[tokens]`
    pub positions: Vec<u32>,
    /// The segments in order; together they cover all tokens.
    pub segments: Vec<Segment>,
}

/// A run of tokens that attends causally to itself and wholly to its parent segment (and the parent's parents).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First token.
    pub start: usize,
    /// One past the last token.
    pub end: usize,
    /// Index of the segment that this one continues; always an earlier one.
    pub parent: Option<usize>,
}

/// One prompt with its answers, in tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Names of the rows that it came from, one for each answer, for logs and errors.
    pub row_ids: Vec<String>,
    /// Prompt tokens, generation prompt included.
    pub prompt: Vec<u32>,
    /// Answer tokens, each ending with one terminator.
    pub answers: Vec<Vec<u32>>,
}

impl Tree {
    /// Number of tokens that [`pack`] lays out for this tree.
    pub fn packed_tokens(&self) -> usize {
        self.prompt.len() + self.answers.iter().map(|answer| answer.len().saturating_sub(1)).sum::<usize>()
    }

    /// Number of tokens of the longest prompt and answer taken together: what a context limit applies to.
    pub fn longest_row(&self) -> usize {
        self.prompt.len() + self.answers.iter().map(Vec::len).max().unwrap_or(0)
    }
}

/// A packed sequence and what is trained in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// The sequence that the decoder reads.
    pub sequence: PackedSequence,
    /// Hidden rows whose next token is trained; the last row of a prompt stands once for each of its answers.
    /// `[trained]`
    pub rows: Vec<u32>,
    /// The next token of each of those rows. `[trained]`
    pub targets: Vec<u32>,
    /// The answer that each of those rows belongs to, counted over all answers of all trees. `[trained]`
    pub answer_of_row: Vec<usize>,
}

/// Packs trees one after the other. Trees never see each other, answers of one tree never see each other.
///
/// The first token of an answer is predicted from the last row of the prompt, and the last (the terminator) is a target
/// only: nothing is predicted from it, so it takes no row. A tree with prompt `[10, 11, 12]` and answers `[20, 21, 2]`
/// and `[30, 2]` becomes
///
/// ```text
/// row           0   1   2   3   4   5
/// token        10  11  12  20  21  30
/// position      0   1   2   3   4   3
/// segment       prompt      first   second (both continue the prompt)
///
/// rows          2   3   4   2   5
/// targets      20  21   2  30   2
/// answer_of_row 0   0   0   1   1
/// ```
///
/// ```
/// use topalign::token::{Tree, pack};
/// let tree = Tree { row_ids: vec![], prompt: vec![10, 11, 12], answers: vec![vec![20, 21, 2], vec![30, 2]] };
/// let packed = pack(&[&tree]);
/// assert_eq!(packed.sequence.tokens, [10, 11, 12, 20, 21, 30]);
/// assert_eq!(packed.sequence.positions, [0, 1, 2, 3, 4, 3]);
/// assert_eq!(packed.rows, [2, 3, 4, 2, 5]);
/// assert_eq!(packed.targets, [20, 21, 2, 30, 2]);
/// assert_eq!(packed.answer_of_row, [0, 0, 0, 1, 1]);
/// ```
pub fn pack(trees: &[&Tree]) -> Packed {
    let mut packed = Packed::default();
    let mut answer_index = 0;
    for tree in trees {
        let prompt_segment = packed.sequence.push(&tree.prompt, 0, None);
        let last_prompt_row = packed.sequence.tokens.len().checked_sub(1).filter(|_| !tree.prompt.is_empty());
        for answer in &tree.answers {
            packed.push_answer(answer, tree.prompt.len(), prompt_segment, last_prompt_row, answer_index);
            answer_index += 1;
        }
    }
    packed
}

impl PackedSequence {
    /// Appends a segment and returns its index; an empty run of tokens makes none.
    fn push(&mut self, tokens: &[u32], first_position: usize, parent: Option<usize>) -> Option<usize> {
        if tokens.is_empty() {
            return None;
        }
        let start = self.tokens.len();
        self.tokens.extend_from_slice(tokens);
        self.positions.extend((first_position..first_position + tokens.len()).map(|position| position as u32));
        self.segments.push(Segment { start, end: start + tokens.len(), parent });
        Some(self.segments.len() - 1)
    }

    /// One causal sequence from position 0, with nothing packed beside it.
    pub fn single(tokens: &[u32]) -> Self {
        let mut sequence = Self::default();
        sequence.push(tokens, 0, None);
        sequence
    }
}

impl Packed {
    fn push_answer(
        &mut self,
        answer: &[u32],
        prompt_tokens: usize,
        prompt_segment: Option<usize>,
        last_prompt_row: Option<usize>,
        answer_index: usize,
    ) {
        let Some((_, inputs)) = answer.split_last() else { return };
        let first_row = self.sequence.tokens.len();
        self.sequence.push(inputs, prompt_tokens, prompt_segment);
        // Without a prompt nothing predicts the first token, which then stays untrained.
        let rows = std::iter::once(last_prompt_row).chain((first_row..first_row + inputs.len()).map(Some));
        for (row, &target) in rows.zip(answer) {
            let Some(row) = row else { continue };
            self.rows.push(row as u32);
            self.targets.push(target);
            self.answer_of_row.push(answer_index);
        }
    }
}
