//! A frozen linear layer with a low-rank adapter in one operation: y = x w^T + scale (x a^T) b^T (Hu et al. 2021,
//! equation 3). The products accumulate into one buffer; the frozen weight gets no gradient work.

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor};

use super::dropout::Mask;
use super::frozen::FrozenWeight;
use super::matrix::{Threads, View, multiply};
use super::storage::{slice, with_values};
use super::{composed, is_fused};
use crate::recipe::settings::Arithmetic;

struct Adapted {
    weight: FrozenWeight,
    scale: f32,
    arithmetic: Arithmetic,
    /// What the adapter does not see of x.
    mask: Option<Mask>,
}

/// `x` `[tokens, input]`, `weight` `[output, input]`, `a` `[rank, input]`, `b` `[output, rank]`: `[tokens, output]`.
///
/// # Errors
/// Shapes that do not fit.
pub fn adapted_linear(
    x: &Tensor,
    weight: &FrozenWeight,
    a: &Tensor,
    b: &Tensor,
    scale: f64,
    arithmetic: Arithmetic,
) -> Result<Tensor> {
    if is_fused(x) {
        let operation = Adapted { weight: weight.clone(), scale: scale as f32, arithmetic, mask: None };
        x.contiguous()?.apply_op3(a, b, operation)
    } else {
        composed::adapted_linear(x, weight, (a, b), scale, None)
    }
}

/// [`adapted_linear`] whose adapter reads x through a dropout mask: `x w^T + scale (mask(x) a^T) b^T`.
///
/// # Errors
/// Shapes that do not fit.
pub fn adapted_linear_with_dropout(
    x: &Tensor,
    weight: &FrozenWeight,
    (a, b): (&Tensor, &Tensor),
    scale: f64,
    arithmetic: Arithmetic,
    mask: Mask,
) -> Result<Tensor> {
    let (tokens, input) = x.dims2()?;
    if !mask.fits(tokens, input) {
        candle_core::bail!("adapted linear: the dropout mask does not fit an input of {:?}", x.dims());
    }
    if is_fused(x) {
        let operation = Adapted { weight: weight.clone(), scale: scale as f32, arithmetic, mask: Some(mask) };
        x.contiguous()?.apply_op3(a, b, operation)
    } else {
        composed::adapted_linear(x, weight, (a, b), scale, Some(mask.factors(x.device())?))
    }
}

impl Adapted {
    /// What the adapter reads of x.
    fn read<'x>(&self, x: &'x [f32]) -> std::borrow::Cow<'x, [f32]> {
        match &self.mask {
            None => x.into(),
            Some(mask) => {
                let mut dropped = x.to_vec();
                mask.apply(&mut dropped);
                dropped.into()
            }
        }
    }
}

/// x a^T: `[tokens, rank]`.
fn narrow(x: &[f32], a: &[f32], tokens: usize, input: usize, rank: usize) -> Vec<f32> {
    let mut inner = vec![0.0; tokens * rank];
    let right = View::new(a, rank, input, input).transposed();
    multiply(&mut inner, rank, View::new(x, tokens, input, input), right, 1.0, false, Threads::All(Arithmetic::F32));
    inner
}

impl CustomOp3 for Adapted {
    fn name(&self) -> &'static str {
        "adapted-linear"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let ((tokens, input), (rank, _), (output, _)) = (l1.shape().dims2()?, l2.shape().dims2()?, l3.shape().dims2()?);
        if self.weight.dims() != [output, input]
            || l2.shape().dims() != [rank, input]
            || l3.shape().dims() != [output, rank]
        {
            candle_core::bail!("adapted linear: shapes of weight {:?} and adapter do not fit", self.weight.dims());
        }
        let (x, a, b) = (slice(s1, l1)?, slice(s2, l2)?, slice(s3, l3)?);
        let inner = narrow(&self.read(x), a, tokens, input, rank);
        let mut y = vec![0.0; tokens * output];
        self.weight.with_values(|weight| {
            let right = View::new(weight, output, input, input).transposed();
            multiply(
                &mut y,
                output,
                View::new(x, tokens, input, input),
                right,
                1.0,
                false,
                Threads::All(self.arithmetic),
            );
            Ok(())
        })?;
        let right = View::new(b, output, rank, rank).transposed();
        multiply(
            &mut y,
            output,
            View::new(&inner, tokens, rank, rank),
            right,
            self.scale,
            true,
            Threads::All(self.arithmetic),
        );
        Ok((CpuStorage::F32(y), (tokens, output).into()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        a: &Tensor,
        b: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let ((tokens, input), (rank, _), (output, _)) = (x.dims2()?, a.dims2()?, b.dims2()?);
        // The first layer of a frozen base reads an embedding that no gradient reaches.
        let mut to_x = x.track_op().then(|| vec![0.0; tokens * input]);
        let mut to_a = vec![0.0; rank * input];
        let mut to_b = vec![0.0; output * rank];
        with_values(x, |xs| {
            with_values(a, |a| {
                with_values(b, |b| {
                    with_values(gradient, |gradient| {
                        let gradient = View::new(gradient, tokens, output, output);
                        let read = self.read(xs);
                        let inner = narrow(&read, a, tokens, input, rank);
                        let left = gradient.transposed();
                        let right = View::new(&inner, tokens, rank, rank);
                        multiply(&mut to_b, rank, left, right, self.scale, false, Threads::All(self.arithmetic));
                        // scale * gradient b: the gradient at the narrow side. [tokens, rank]
                        let mut to_inner = vec![0.0; tokens * rank];
                        let right = View::new(b, output, rank, rank);
                        multiply(
                            &mut to_inner,
                            rank,
                            gradient,
                            right,
                            self.scale,
                            false,
                            Threads::All(self.arithmetic),
                        );
                        let to_inner = View::new(&to_inner, tokens, rank, rank);
                        let right = View::new(&read, tokens, input, input);
                        multiply(
                            &mut to_a,
                            input,
                            to_inner.transposed(),
                            right,
                            1.0,
                            false,
                            Threads::All(self.arithmetic),
                        );
                        let Some(to_x) = &mut to_x else { return Ok(()) };
                        self.weight.with_values(|weight| {
                            let right = View::new(weight, output, input, input);
                            multiply(to_x, input, gradient, right, 1.0, false, Threads::All(self.arithmetic));
                            Ok(())
                        })?;
                        let right = View::new(a, rank, input, input);
                        let Some(mask) = &self.mask else {
                            multiply(to_x, input, to_inner, right, 1.0, true, Threads::All(self.arithmetic));
                            return Ok(());
                        };
                        let mut through = vec![0.0; tokens * input];
                        multiply(&mut through, input, to_inner, right, 1.0, false, Threads::All(self.arithmetic));
                        mask.apply(&mut through);
                        to_x.iter_mut().zip(through).for_each(|(sum, more)| *sum += more);
                        Ok(())
                    })
                })
            })
        })?;
        Ok((
            to_x.map(|to_x| Tensor::from_vec(to_x, (tokens, input), x.device())).transpose()?,
            Some(Tensor::from_vec(to_a, (rank, input), x.device())?),
            Some(Tensor::from_vec(to_b, (output, rank), x.device())?),
        ))
    }
}
