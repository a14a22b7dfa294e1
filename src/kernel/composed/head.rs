//! Log-probability of chosen tokens in chunks of rows: `[rows, vocabulary]` never exists whole. f32 throughout: hidden states of
//! another number format are widened, since logits rounded to bf16 move a log-probability by hundredths of a nat.

use std::sync::{Arc, OnceLock};

use candle_core::{D, Result, Tensor, bail};

use super::own_backward::{Operation, apply2};
use super::widened;
use crate::kernel::WeightGradient;

/// Logits that exist at one time: enough rows to keep a GPU busy, in 128 MiB of f32.
const LOGITS: usize = 1 << 25;

/// Rows whose logits exist at one time.
pub fn rows_together(vocabulary: usize) -> usize {
    (LOGITS / vocabulary.max(1)).clamp(1, 4096)
}

struct ChosenLogProbability {
    targets: Arc<Vec<u32>>,
    /// Whether the forward keeps the derivative: the hidden rows are tracked and the head is not.
    keeps_derivative: bool,
    saved: OnceLock<Saved>,
}

/// What the forward keeps for the backward, as in the fused operation.
enum Saved {
    /// Each row's log-sum. `[rows, 1]`
    LogSums(Tensor),
    /// d log p / d hidden. `[rows, hidden]`
    Derivative(Tensor),
}

/// See [`crate::kernel::chosen_log_probability`].
///
/// # Errors
/// Shapes that do not fit.
pub fn chosen_log_probability(
    hidden: &Tensor,
    head: &Tensor,
    targets: &[u32],
    gradient: WeightGradient,
) -> Result<Tensor> {
    let head = if gradient == WeightGradient::Needed { head.clone() } else { head.detach() };
    let operation = ChosenLogProbability {
        targets: Arc::new(targets.to_vec()),
        keeps_derivative: hidden.track_op() && !head.track_op(),
        saved: OnceLock::new(),
    };
    apply2(operation, hidden, &head)
}

/// One chunk of rows.
struct Chunk {
    start: usize,
    /// `[rows, hidden]`
    hidden: Tensor,
    /// `[rows, 1]`
    targets: Tensor,
    /// `[rows, vocabulary]`
    logits: Tensor,
}

impl ChosenLogProbability {
    /// Runs `work` on every chunk, whose logits are computed on the way.
    fn chunks(&self, hidden: &Tensor, head: &Tensor, mut work: impl FnMut(Chunk) -> Result<()>) -> Result<()> {
        let (rows, step) = (hidden.dim(0)?, rows_together(head.dim(0)?));
        let targets = Tensor::new(self.targets.as_slice(), hidden.device())?.unsqueeze(1)?;
        for start in (0..rows).step_by(step) {
            let count = step.min(rows - start);
            let hidden = widened(&hidden.narrow(0, start, count)?)?;
            let logits = hidden.matmul(&head.t()?)?;
            work(Chunk { start, hidden, targets: targets.narrow(0, start, count)?, logits })?;
        }
        Ok(())
    }
}

impl Operation<2> for ChosenLogProbability {
    const NAME: &'static str = "composed-chosen-log-probability";

    fn forward(&self, [hidden, head]: [&Tensor; 2]) -> Result<Tensor> {
        let head = widened(head)?;
        let (mut values, mut log_sums, mut derivatives) = (Vec::new(), Vec::new(), Vec::new());
        self.chunks(hidden, &head, |chunk| {
            let largest = chunk.logits.max_keepdim(D::Minus1)?;
            let exponentials = chunk.logits.broadcast_sub(&largest)?.exp()?;
            let sums = exponentials.sum_keepdim(D::Minus1)?;
            let log_sum = (largest + sums.log()?)?; // [rows, 1]
            values.push((chunk.logits.gather(&chunk.targets, 1)? - &log_sum)?.squeeze(1)?);
            if self.keeps_derivative {
                // d log p / d logits = one-hot(target) - softmax.
                let expected = exponentials.matmul(&head)?.broadcast_div(&sums)?;
                derivatives.push((head.index_select(&chunk.targets.squeeze(1)?, 0)? - expected)?);
            } else {
                log_sums.push(log_sum);
            }
            Ok(())
        })?;
        if values.is_empty() {
            return Tensor::zeros(0, head.dtype(), head.device());
        }
        let saved = if self.keeps_derivative {
            Saved::Derivative(Tensor::cat(&derivatives, 0)?)
        } else {
            Saved::LogSums(Tensor::cat(&log_sums, 0)?)
        };
        let _ = self.saved.set(saved);
        Tensor::cat(&values, 0)
    }

    fn backward(
        &self,
        [hidden, head]: [&Tensor; 2],
        is_needed: [bool; 2],
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 2]> {
        let gradient = gradient.unsqueeze(1)?; // [rows, 1]
        let log_sums = match self.saved.get() {
            None => bail!("log-probability: backward before forward"),
            Some(Saved::Derivative(derivative)) => {
                let to_hidden = derivative.broadcast_mul(&gradient)?.to_dtype(hidden.dtype())?;
                return Ok([Some(to_hidden), None]);
            }
            Some(Saved::LogSums(log_sums)) => log_sums,
        };
        let wide_head = widened(head)?;
        let (mut to_hidden, mut to_head): (Vec<Tensor>, Option<Tensor>) = (Vec::new(), None);
        self.chunks(hidden, &wide_head, |chunk| {
            let count = chunk.hidden.dim(0)?;
            let rows = |all: &Tensor| all.narrow(0, chunk.start, count);
            let gradient = rows(&gradient)?;
            let softmax = chunk.logits.broadcast_sub(&rows(log_sums)?)?.exp()?;
            let at_logits = softmax.broadcast_mul(&gradient.neg()?)?;
            let at_logits = at_logits.scatter_add(&chunk.targets.contiguous()?, &gradient.contiguous()?, 1)?;
            if is_needed[0] {
                to_hidden.push(at_logits.matmul(&wide_head)?.to_dtype(hidden.dtype())?);
            }
            if is_needed[1] {
                let part = at_logits.t()?.matmul(&chunk.hidden)?;
                to_head = Some(match to_head.take() {
                    Some(sum) => (sum + part)?,
                    None => part,
                });
            }
            Ok(())
        })?;
        let to_hidden = if to_hidden.is_empty() { None } else { Some(Tensor::cat(&to_hidden, 0)?) };
        Ok([to_hidden, to_head.map(|to_head| to_head.to_dtype(head.dtype())).transpose()?])
    }
}
