//! Linear layers: trained, frozen, and frozen with an adapter.

use candle_core::{Result, Tensor};

use super::like;
use super::own_backward::{Operation, apply1, apply2, apply3};
use crate::kernel::{FrozenWeight, WeightGradient};

struct Linear;

/// See [`crate::kernel::linear`].
///
/// # Errors
/// Shapes that do not fit.
pub fn linear(x: &Tensor, weight: &Tensor, weight_gradient: WeightGradient) -> Result<Tensor> {
    let x = x.contiguous()?;
    match weight_gradient {
        WeightGradient::Needed => apply2(Linear, &x, weight),
        WeightGradient::Frozen => apply2(Linear, &x, &weight.detach()),
    }
}

impl Operation<2> for Linear {
    const NAME: &'static str = "composed-linear";

    fn forward(&self, [x, weight]: [&Tensor; 2]) -> Result<Tensor> {
        x.matmul(&like(weight, x)?.t()?)
    }

    fn backward(
        &self,
        [x, weight]: [&Tensor; 2],
        is_needed: [bool; 2],
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 2]> {
        let to_x = is_needed[0].then(|| gradient.matmul(&like(weight, x)?)).transpose()?;
        let to_weight = is_needed[1].then(|| gradient.t()?.matmul(x)?.to_dtype(weight.dtype())).transpose()?;
        Ok([to_x, to_weight])
    }
}

struct Frozen(FrozenWeight);

/// See [`crate::kernel::frozen_linear`].
///
/// # Errors
/// Shapes that do not fit.
pub fn frozen_linear(x: &Tensor, weight: &FrozenWeight) -> Result<Tensor> {
    apply1(Frozen(weight.clone()), &x.contiguous()?)
}

impl Operation<1> for Frozen {
    const NAME: &'static str = "composed-frozen-linear";

    fn forward(&self, [x]: [&Tensor; 1]) -> Result<Tensor> {
        x.matmul(&self.0.beside(x)?.t()?)
    }

    fn backward(
        &self,
        [x]: [&Tensor; 1],
        is_needed: [bool; 1],
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 1]> {
        Ok([is_needed[0].then(|| gradient.matmul(&self.0.beside(x)?)).transpose()?])
    }
}

struct Adapted {
    weight: FrozenWeight,
    scale: f64,
    /// What the adapter's input is multiplied by. `[tokens, input]`
    factors: Option<Tensor>,
}

/// See [`crate::kernel::adapted_linear`]; `factors` is [`crate::kernel::Mask::factors`] where there is dropout.
///
/// # Errors
/// Shapes that do not fit.
pub fn adapted_linear(
    x: &Tensor,
    weight: &FrozenWeight,
    (a, b): (&Tensor, &Tensor),
    scale: f64,
    factors: Option<Tensor>,
) -> Result<Tensor> {
    let factors = factors.map(|factors| like(&factors, x)).transpose()?;
    apply3(Adapted { weight: weight.clone(), scale, factors }, &x.contiguous()?, a, b)
}

impl Adapted {
    /// What the adapter reads of x.
    fn read(&self, x: &Tensor) -> Result<Tensor> {
        self.drop(x.clone())
    }

    fn drop(&self, x: Tensor) -> Result<Tensor> {
        match &self.factors {
            Some(factors) => x * factors,
            None => Ok(x),
        }
    }
}

impl Operation<3> for Adapted {
    const NAME: &'static str = "composed-adapted-linear";

    fn forward(&self, [x, a, b]: [&Tensor; 3]) -> Result<Tensor> {
        let inner = self.read(x)?.matmul(&like(a, x)?.t()?)?; // [tokens, rank]
        let adapted = (inner.matmul(&like(b, x)?.t()?)? * self.scale)?;
        x.matmul(&self.weight.beside(x)?.t()?)? + adapted
    }

    fn backward(
        &self,
        [x, a, b]: [&Tensor; 3],
        is_needed: [bool; 3],
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 3]> {
        let (read, narrow_a, narrow_b) = (self.read(x)?, like(a, x)?, like(b, x)?);
        let scaled = |product: Result<Tensor>| product? * self.scale;
        let to_b = is_needed[2].then(|| {
            let inner = read.matmul(&narrow_a.t()?)?; // [tokens, rank]
            scaled(gradient.t()?.matmul(&inner))?.to_dtype(b.dtype())
        });
        let to_inner = scaled(gradient.matmul(&narrow_b))?; // [tokens, rank]
        let to_a = is_needed[1].then(|| to_inner.t()?.matmul(&read)?.to_dtype(a.dtype()));
        // The first layer of a frozen base reads an embedding that no gradient reaches.
        let to_x = is_needed[0].then(|| {
            let through = self.drop(to_inner.matmul(&narrow_a)?)?;
            gradient.matmul(&self.weight.beside(x)?)? + through
        });
        Ok([to_x.transpose()?, to_a.transpose()?, to_b.transpose()?])
    }
}
