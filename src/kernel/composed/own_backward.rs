//! Operations whose forward and backward are both written with tensor operations.
//!
//! Candle would keep every intermediate of a forward that is recorded. Here the forward runs outside the graph; its result is
//! put into the graph by a custom operation that hands out the finished value, on whatever device it is.

use std::sync::{Mutex, PoisonError};

use candle_core::backend::BackendStorage as _;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, CustomOp2, CustomOp3, Layout, MetalStorage, Result, Shape, Storage, Tensor,
    bail,
};

/// An operation of `N` tensors. What it is given is outside the graph.
pub trait Operation<const N: usize>: Send + Sync + 'static {
    /// Its name in Candle's errors.
    const NAME: &'static str;

    /// The result.
    fn forward(&self, inputs: [&Tensor; N]) -> Result<Tensor>;

    /// Gradients of the inputs that need one, each of its input's type.
    fn backward(
        &self,
        inputs: [&Tensor; N],
        is_needed: [bool; N],
        output: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; N]>;
}

/// A finished result on its way into the graph.
struct Finished<O> {
    operation: O,
    value: Mutex<Option<Tensor>>,
}

impl<O> Finished<O> {
    fn take(&self, name: &str) -> Result<Tensor> {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(value) = value else { bail!("{name}: the result was taken twice") };
        // A storage is handed on whole, so the value must be all of it.
        if value.is_contiguous() && value.layout().start_offset() == 0 { Ok(value) } else { value.force_contiguous() }
    }

    fn on_cpu(&self, name: &str) -> Result<(CpuStorage, Shape)> {
        let value = self.take(name)?;
        let (storage, layout) = value.storage_and_layout();
        match &*storage {
            Storage::Cpu(storage) => Ok((storage.try_clone(layout)?, layout.shape().clone())),
            _ => bail!("{name}: the result is not on the CPU, where the inputs are"),
        }
    }

    fn on_cuda(&self, name: &str) -> Result<(CudaStorage, Shape)> {
        let value = self.take(name)?;
        let (storage, layout) = value.storage_and_layout();
        match &*storage {
            Storage::Cuda(storage) => Ok((storage.try_clone(layout)?, layout.shape().clone())),
            _ => bail!("{name}: the result is not on the GPU, where the inputs are"),
        }
    }

    fn on_metal(&self, name: &str) -> Result<(MetalStorage, Shape)> {
        let value = self.take(name)?;
        let (storage, layout) = value.storage_and_layout();
        match &*storage {
            Storage::Metal(storage) => Ok((storage.try_clone(layout)?, layout.shape().clone())),
            _ => bail!("{name}: the result is not on the GPU, where the inputs are"),
        }
    }
}

fn finish<O: Operation<N>, const N: usize>(operation: O, inputs: [&Tensor; N]) -> Result<(Finished<O>, Tensor)> {
    let detached = inputs.map(Tensor::detach);
    let value = operation.forward(detached.each_ref())?;
    Ok((Finished { operation, value: Mutex::new(Some(value.clone())) }, value))
}

fn backward<O: Operation<N>, const N: usize>(
    operation: &O,
    inputs: [&Tensor; N],
    output: &Tensor,
    gradient: &Tensor,
) -> Result<[Option<Tensor>; N]> {
    let is_needed = inputs.map(Tensor::track_op);
    let detached = inputs.map(Tensor::detach);
    operation.backward(detached.each_ref(), is_needed, &output.detach(), &gradient.detach().contiguous()?)
}

/// Applies an operation of one tensor.
pub fn apply1<O: Operation<1>>(operation: O, x: &Tensor) -> Result<Tensor> {
    let (finished, value) = finish(operation, [x])?;
    if !x.track_op() {
        return Ok(value);
    }
    drop(value);
    x.apply_op1(finished)
}

/// Applies an operation of two tensors.
pub fn apply2<O: Operation<2>>(operation: O, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (finished, value) = finish(operation, [a, b])?;
    if !a.track_op() && !b.track_op() {
        return Ok(value);
    }
    drop(value);
    a.apply_op2(b, finished)
}

/// Applies an operation of three tensors.
pub fn apply3<O: Operation<3>>(operation: O, a: &Tensor, b: &Tensor, c: &Tensor) -> Result<Tensor> {
    let (finished, value) = finish(operation, [a, b, c])?;
    if !a.track_op() && !b.track_op() && !c.track_op() {
        return Ok(value);
    }
    drop(value);
    a.apply_op3(b, c, finished)
}

impl<O: Operation<1>> CustomOp1 for Finished<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        self.on_cpu(O::NAME)
    }

    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        self.on_cuda(O::NAME)
    }

    fn metal_fwd(&self, _: &MetalStorage, _: &Layout) -> Result<(MetalStorage, Shape)> {
        self.on_metal(O::NAME)
    }

    fn bwd(&self, x: &Tensor, output: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let [to_x] = backward(&self.operation, [x], output, gradient)?;
        Ok(to_x)
    }
}

impl<O: Operation<2>> CustomOp2 for Finished<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        self.on_cpu(O::NAME)
    }

    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        self.on_cuda(O::NAME)
    }

    fn metal_fwd(&self, _: &MetalStorage, _: &Layout, _: &MetalStorage, _: &Layout) -> Result<(MetalStorage, Shape)> {
        self.on_metal(O::NAME)
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        output: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let [to_a, to_b] = backward(&self.operation, [a, b], output, gradient)?;
        Ok((to_a, to_b))
    }
}

impl<O: Operation<3>> CustomOp3 for Finished<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.on_cpu(O::NAME)
    }

    fn cuda_fwd(
        &self,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.on_cuda(O::NAME)
    }

    fn metal_fwd(
        &self,
        _: &MetalStorage,
        _: &Layout,
        _: &MetalStorage,
        _: &Layout,
        _: &MetalStorage,
        _: &Layout,
    ) -> Result<(MetalStorage, Shape)> {
        self.on_metal(O::NAME)
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        c: &Tensor,
        output: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [to_a, to_b, to_c] = backward(&self.operation, [a, b, c], output, gradient)?;
        Ok((to_a, to_b, to_c))
    }
}
