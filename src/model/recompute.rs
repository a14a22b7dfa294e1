//! Gradients with the activations of one layer at a time: each layer's input is kept, the layer is computed again when its
//! gradient is due (Chen et al. 2016). Loss and gradients are those of the ordinary pass; a third of the time comes on top.

use std::sync::Arc;

use candle_core::backprop::GradStore;
use candle_core::{Tensor, Var};

use super::decoder::{Decoder, layout};
use crate::error::{Error, Result};
use crate::kernel::RotaryTable;
use crate::token::Packed;

impl Decoder {
    /// Gradients of `loss` of the log-probabilities of the trained tokens, `[rows]` to a scalar; it is called once.
    ///
    /// # Errors
    /// As [`Decoder::hidden_states`] and [`Decoder::log_probabilities`]; what `loss` returns.
    pub fn gradients_by_layer(
        &self,
        packed: &Packed,
        loss: &mut dyn FnMut(&Tensor) -> Result<Tensor>,
    ) -> Result<GradStore> {
        let sequence = &packed.sequence;
        self.check_tokens(&sequence.tokens, sequence.positions.iter().copied().max().unwrap_or(0))?;
        let layout = Arc::new(layout(sequence)?);
        let rotary = RotaryTable::new(&sequence.positions, &self.inverse_frequencies);
        let embedded = self.embed(&sequence.tokens)?; // [tokens, hidden]

        let frozen = self.detached();
        let mut inputs = Vec::with_capacity(self.layers.len());
        let mut x = embedded.detach();
        for layer in &frozen.layers {
            inputs.push(x.clone());
            x = frozen.layer(layer, &x, &rotary, &layout)?;
        }
        let top = Var::from_tensor(&x)?;
        drop(x);
        let hidden = self.norm(top.as_tensor(), &self.norm)?;
        let log_probabilities = self.log_probabilities(&hidden, &packed.rows, &packed.targets)?;
        let mut gradients = loss(&log_probabilities)?.backward()?;
        let mut gradient = taken(&mut gradients, top.as_tensor())?;

        for (index, layer) in self.layers.iter().enumerate().rev() {
            let Some(input) = inputs.pop() else { break };
            // Nothing below a frozen embedding needs a gradient.
            let is_needed = index > 0 || embedded.track_op();
            let input = if is_needed { Var::from_tensor(&input)?.as_tensor().clone() } else { input };
            let output = self.layer(layer, &input, &rotary, &layout)?;
            let mut of_layer = through(&output, &gradient)?;
            if is_needed {
                gradient = taken(&mut of_layer, &input)?;
            }
            gradients.extend(of_layer)?;
        }
        if embedded.track_op() {
            gradients.extend(through(&embedded, &gradient)?)?;
        }
        Ok(gradients)
    }
}

/// Backward from a tensor whose own gradient is known: that of `sum(output * gradient)`.
fn through(output: &Tensor, gradient: &Tensor) -> Result<GradStore> {
    Ok((output * gradient.detach())?.sum_all()?.backward()?)
}

fn taken(gradients: &mut GradStore, tensor: &Tensor) -> Result<Tensor> {
    gradients.remove(tensor).ok_or_else(|| Error::Failed("a layer's input gets no gradient from the loss".to_owned()))
}
