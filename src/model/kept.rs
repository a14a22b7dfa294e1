//! Keys and values that one layer keeps of one sequence: in host memory, or in tensors that grow in place.

use std::sync::Arc;

use candle_core::Tensor;

use crate::error::Result;

/// Rows that a buffer is made for at first; it doubles when it is full.
const ROWS: usize = 256;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    /// Keys and values, each `[tokens, key_value_heads * head_size]`.
    host: (Vec<f32>, Vec<f32>),
    device: (Rows, Rows),
}

impl Kept {
    pub(super) fn on_host(&mut self) -> (&mut Vec<f32>, &mut Vec<f32>) {
        (&mut self.host.0, &mut self.host.1)
    }

    pub(super) fn on_device(&mut self) -> (&mut Rows, &mut Rows) {
        (&mut self.device.0, &mut self.device.1)
    }
}

/// Rows in a buffer with room for more. A clone shares the buffer until one of the two adds to it.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    /// `[capacity, width]`
    buffer: Option<Tensor>,
    used: usize,
    /// Held by all that share the buffer.
    shared: Arc<()>,
}

impl Rows {
    /// Adds rows `[new, width]` and gives all of them, `[used, width]`: good until the next call.
    pub(super) fn append(&mut self, rows: &Tensor) -> Result<Tensor> {
        let (new, width) = rows.dims2()?;
        let needed = self.used + new;
        let capacity = self.buffer.as_ref().map_or(0, |buffer| buffer.dims()[0]);
        if needed > capacity || Arc::strong_count(&self.shared) > 1 {
            let larger = needed.next_power_of_two().max(ROWS);
            let buffer = Tensor::zeros((larger, width), rows.dtype(), rows.device())?;
            if let Some(smaller) = self.buffer.take().filter(|_| self.used > 0) {
                buffer.slice_set(&smaller.narrow(0, 0, self.used)?.contiguous()?, 0, 0)?;
            }
            self.buffer = Some(buffer);
            self.shared = Arc::default();
        }
        let Some(buffer) = &self.buffer else { return Ok(rows.clone()) };
        buffer.slice_set(&rows.detach().contiguous()?, 0, self.used)?;
        self.used = needed;
        Ok(buffer.narrow(0, 0, needed)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn rows_keep_their_order_and_values_while_the_buffer_grows() {
        let mut rows = Rows::default();
        let mut expected = Vec::new();
        for (step, count) in [3, 1, 251, 2, 600].into_iter().enumerate() {
            let values: Vec<f32> = (0..count * 2).map(|value| (value + 1000 * step) as f32).collect();
            expected.extend_from_slice(&values);
            let all = rows.append(&Tensor::from_vec(values, (count, 2), &Device::Cpu).unwrap()).unwrap();
            assert_eq!(all.flatten_all().unwrap().to_vec1::<f32>().unwrap(), expected);
        }
    }

    #[test]
    fn clones_grow_apart() {
        let row = |value: f32| Tensor::from_vec(vec![value, value], (1, 2), &Device::Cpu).unwrap();
        let values = |tensor: Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let mut first = Rows::default();
        first.append(&row(1.0)).unwrap();
        let mut second = first.clone();
        assert_eq!(values(first.append(&row(2.0)).unwrap()), [1.0, 1.0, 2.0, 2.0]);
        assert_eq!(values(second.append(&row(3.0)).unwrap()), [1.0, 1.0, 3.0, 3.0]);
        assert_eq!(values(first.append(&row(4.0)).unwrap()), [1.0, 1.0, 2.0, 2.0, 4.0, 4.0]);
    }
}
