//! Rotary position embedding (Su et al. 2021), in the half-rotated layout of Hugging Face checkpoints: within each head,
//! value i pairs with value i + size / 2.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, DType, Device, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::composed::Uploaded;
use super::storage::{slice, tensor_like, with_values};
use super::{composed, is_fused};

/// Cosines and sines of the positions of one packed sequence.
#[derive(Debug, Clone)]
pub struct RotaryTable {
    /// `[tokens, head_size / 2]`
    cosines: Arc<Vec<f32>>,
    /// `[tokens, head_size / 2]`
    sines: Arc<Vec<f32>>,
    pub(super) head_size: usize,
    uploaded: Arc<Uploaded<(Tensor, Tensor)>>,
}

impl RotaryTable {
    /// The table for these positions; `inverse_frequencies` has `head_size / 2` values.
    pub fn new(positions: &[u32], inverse_frequencies: &[f64]) -> Self {
        let angles =
            || positions.iter().flat_map(|&position| inverse_frequencies.iter().map(move |f| f64::from(position) * f));
        Self {
            cosines: Arc::new(angles().map(|angle| angle.cos() as f32).collect()),
            sines: Arc::new(angles().map(|angle| angle.sin() as f32).collect()),
            head_size: 2 * inverse_frequencies.len(),
            uploaded: Arc::default(),
        }
    }

    /// Cosines and sines on a device, `[tokens, head_size / 2]` each.
    pub(super) fn tensors(&self, device: &Device, dtype: DType) -> Result<(Tensor, Tensor)> {
        self.uploaded.get(device, dtype, || {
            let half = self.head_size / 2;
            let table = |values: &[f32]| {
                Tensor::from_slice(values, (values.len() / half.max(1), half), device)?.to_dtype(dtype)
            };
            Ok((table(&self.cosines)?, table(&self.sines)?))
        })
    }
}

#[derive(Clone)]
struct Rotary {
    table: RotaryTable,
    /// 1 turns forward; -1 turns back, which is the gradient of turning forward.
    direction: f32,
}

/// Turns each head of `x` `[tokens, heads * head_size]` by its position.
///
/// # Errors
/// Shapes that do not fit the table.
pub fn rotary(x: &Tensor, table: &RotaryTable) -> Result<Tensor> {
    let (tokens, width) = x.dims2()?;
    if !width.is_multiple_of(table.head_size) || table.cosines.len() * 2 != tokens * table.head_size {
        candle_core::bail!("rotary: input {:?} does not fit the table of head size {}", x.shape(), table.head_size);
    }
    if is_fused(x) {
        x.contiguous()?.apply_op1(Rotary { table: table.clone(), direction: 1.0 })
    } else {
        composed::rotary(x, table)
    }
}

impl Rotary {
    fn turn(&self, x: &[f32], width: usize) -> Vec<f32> {
        let half = self.table.head_size / 2;
        let mut y = vec![0.0; x.len()];
        y.par_chunks_mut(width).zip(x.par_chunks(width)).enumerate().with_min_len(32).for_each(|(token, (y, x))| {
            let cosines = &self.table.cosines[token * half..(token + 1) * half];
            let sines = &self.table.sines[token * half..(token + 1) * half];
            for (y, x) in y.chunks_mut(2 * half).zip(x.chunks(2 * half)) {
                for index in 0..half {
                    let (first, second) = (x[index], x[index + half]);
                    let sine = sines[index] * self.direction;
                    y[index] = first * cosines[index] - second * sine;
                    y[index + half] = second * cosines[index] + first * sine;
                }
            }
        });
        y
    }
}

impl CustomOp1 for Rotary {
    fn name(&self) -> &'static str {
        "rotary"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (_, width) = layout.shape().dims2()?;
        Ok((CpuStorage::F32(self.turn(slice(storage, layout)?, width)), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let back = Self { direction: -self.direction, ..self.clone() };
        let (_, width) = x.dims2()?;
        let to_x = with_values(gradient, |gradient| Ok(back.turn(gradient, width)))?;
        Ok(Some(tensor_like(to_x, x)?))
    }
}
