//! Bias, norm, gate and rotation. Forwards are Candle's fused kernels, which have no backward of their own.

use candle_core::{D, Result, Tensor};
use candle_nn::ops::sigmoid;

use super::own_backward::{Operation, apply1, apply2};
use super::{like, widened};
use crate::kernel::{RotaryTable, WeightGradient};

struct Bias;

/// See [`crate::kernel::add_bias`].
///
/// # Errors
/// Shapes that do not fit.
pub fn add_bias(x: &Tensor, bias: &Tensor, gradient: WeightGradient) -> Result<Tensor> {
    match gradient {
        WeightGradient::Needed => apply2(Bias, x, bias),
        WeightGradient::Frozen => apply2(Bias, x, &bias.detach()),
    }
}

impl Operation<2> for Bias {
    const NAME: &'static str = "composed-bias";

    fn forward(&self, [x, bias]: [&Tensor; 2]) -> Result<Tensor> {
        x.broadcast_add(&like(bias, x)?)
    }

    fn backward(
        &self,
        [_, bias]: [&Tensor; 2],
        is_needed: [bool; 2],
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 2]> {
        let to_bias = is_needed[1].then(|| widened(gradient)?.sum(0)?.to_dtype(bias.dtype())).transpose()?;
        Ok([is_needed[0].then(|| gradient.clone()), to_bias])
    }
}

struct RmsNorm {
    epsilon: f64,
}

/// See [`crate::kernel::rms_norm`].
///
/// # Errors
/// Shapes that do not fit.
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64, gradient: WeightGradient) -> Result<Tensor> {
    let x = x.contiguous()?;
    match gradient {
        WeightGradient::Needed => apply2(RmsNorm { epsilon }, &x, weight),
        WeightGradient::Frozen => apply2(RmsNorm { epsilon }, &x, &weight.detach()),
    }
}

impl Operation<2> for RmsNorm {
    const NAME: &'static str = "composed-rms-norm";

    fn forward(&self, [x, weight]: [&Tensor; 2]) -> Result<Tensor> {
        candle_nn::ops::rms_norm(x, &like(weight, x)?, self.epsilon as f32)
    }

    /// With r the root of the mean square and g the gradient: dx = (g w - x mean(g w x) / r^2) / r, dw = sum(g x / r).
    fn backward(
        &self,
        [x, weight]: [&Tensor; 2],
        is_needed: [bool; 2],
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 2]> {
        let (wide_x, wide_gradient, wide_weight) = (widened(x)?, widened(gradient)?, widened(weight)?);
        let inverse = (wide_x.sqr()?.mean_keepdim(D::Minus1)? + self.epsilon)?.sqrt()?.recip()?; // [tokens, 1]
        let normed = wide_x.broadcast_mul(&inverse)?;
        let to_weight = is_needed[1].then(|| (&normed * &wide_gradient)?.sum(0)?.to_dtype(weight.dtype()));
        let to_x = is_needed[0].then(|| {
            let scaled = wide_gradient.broadcast_mul(&wide_weight)?;
            let pull = (&scaled * &normed)?.mean_keepdim(D::Minus1)?; // [tokens, 1]
            (scaled - normed.broadcast_mul(&pull)?)?.broadcast_mul(&inverse)?.to_dtype(x.dtype())
        });
        Ok([to_x.transpose()?, to_weight.transpose()?])
    }
}

struct SwiGlu;

/// See [`crate::kernel::swiglu`].
///
/// # Errors
/// Shapes that differ.
pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    apply2(SwiGlu, gate, up)
}

impl Operation<2> for SwiGlu {
    const NAME: &'static str = "composed-swiglu";

    fn forward(&self, [gate, up]: [&Tensor; 2]) -> Result<Tensor> {
        gate.silu()? * up
    }

    /// silu'(x) = s (1 + x (1 - s)) with s the sigmoid.
    fn backward(
        &self,
        [gate, up]: [&Tensor; 2],
        is_needed: [bool; 2],
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 2]> {
        let sigmoid = sigmoid(gate)?;
        let silu = (gate * &sigmoid)?;
        let to_up = is_needed[1].then(|| gradient * &silu).transpose()?;
        let to_gate = is_needed[0].then(|| {
            let slope = (&sigmoid + (&silu * sigmoid.affine(-1.0, 1.0)?)?)?;
            (gradient * up)? * slope
        });
        Ok([to_gate.transpose()?, to_up])
    }
}

struct Rotary {
    table: RotaryTable,
}

/// See [`crate::kernel::rotary`].
///
/// # Errors
/// Shapes that do not fit.
pub fn rotary(x: &Tensor, table: &RotaryTable) -> Result<Tensor> {
    apply1(Rotary { table: table.clone() }, &x.contiguous()?)
}

impl Rotary {
    fn turn(&self, x: &Tensor, back: bool) -> Result<Tensor> {
        let (tokens, width) = x.dims2()?;
        let size = self.table.head_size;
        let (cosines, sines) = self.table.tensors(x.device(), x.dtype())?;
        let sines = if back { sines.neg()? } else { sines };
        let by_head = x.reshape((1, tokens, width / size, size))?;
        candle_nn::rotary_emb::rope_thd(&by_head, &cosines, &sines)?.reshape((tokens, width))
    }
}

impl Operation<1> for Rotary {
    const NAME: &'static str = "composed-rotary";

    fn forward(&self, [x]: [&Tensor; 1]) -> Result<Tensor> {
        self.turn(x, false)
    }

    fn backward(
        &self,
        _: [&Tensor; 1],
        is_needed: [bool; 1],
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 1]> {
        Ok([is_needed[0].then(|| self.turn(gradient, true)).transpose()?])
    }
}
