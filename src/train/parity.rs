//! Whether a device computes what the CPU computes: logits, log-probabilities, loss, every gradient and decoding of one model, side
//! by side.
//!
//! The reference is the CPU in f32 by the fused operations. Where the device is that CPU too, it takes the composed operations,
//! which are those of GPUs.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use rand::RngExt as _;
use serde::Serialize;

use super::policy::{DecoderPolicy, Pass, Policy as _};
use crate::checkpoint::SourceModel;
use crate::device::{Compute, NumberFormat};
use crate::error::{Error, Fault, Result};
use crate::kernel::composed::on_composed_path;
use crate::loss::negative_log_likelihood;
use crate::model::{Decoder, KeyValueCache, Step, Trainable, with_big_stack};
use crate::recipe::settings::{AdapterScaling, LoraSettings, Positive, Projection, Share};
use crate::run::seed::Seed;
use crate::token::{Packed, Tree, pack};

/// What is compared.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Tokens of the pass: two trees, each a prompt of a half and three answers.
    pub tokens: NonZeroUsize,
    /// Seed of the tokens and of the adapters.
    pub seed: Seed,
}

/// How far the device is from the CPU, quantity by quantity.
#[derive(Debug, Clone, Serialize)]
pub struct Parity {
    /// The device.
    pub device: String,
    /// Its number format.
    pub dtype: NumberFormat,
    /// Tokens of the pass.
    pub tokens: usize,
    /// One row a quantity.
    pub differences: Vec<Difference>,
    /// Seconds on the CPU, all quantities.
    pub reference_seconds: f64,
    /// Seconds on the device, compiling its kernels included.
    pub device_seconds: f64,
}

/// One quantity.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    /// What: `logits`, `loss`, `gradients of all weights`, ...
    pub quantity: &'static str,
    /// Euclidean length of the difference over that of the reference; of several tensors the largest.
    pub relative: f64,
    /// The tensor with that difference, where there are several.
    pub tensor: Option<String>,
    /// What is still within the rounding of the number format.
    pub limit: f64,
}

impl Difference {
    /// Whether it is within its limit; what is not a number is not.
    pub fn is_within(&self) -> bool {
        self.relative <= self.limit
    }
}

impl Parity {
    /// Whether every quantity is within its limit.
    pub fn holds(&self) -> bool {
        self.differences.iter().all(Difference::is_within)
    }
}

/// Computes everything on the CPU and on the device.
///
/// # Errors
/// A model that cannot be read or whose context is shorter than the probe; a failure of the device.
pub fn compare(model: &Path, compute: &Compute, probe: Probe) -> Result<Parity> {
    with_big_stack(|| {
        let source = SourceModel::open(model, &Device::Cpu)?;
        let packed = probe.packed(source.config.vocabulary, source.config.context)?;
        let begun = Instant::now();
        let right = measured(&source, &Compute::cpu(), &packed, probe.seed)?;
        let reference_seconds = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let found = || measured(&source, compute, &packed, probe.seed);
        let found = if compute.device.is_cpu() { on_composed_path(found) } else { found() }?;
        let device_seconds = begun.elapsed().as_secs_f64();
        Ok(Parity {
            device: compute.device_name(),
            dtype: compute.format,
            tokens: packed.sequence.tokens.len(),
            differences: differences(&right, &found, compute.format)?,
            reference_seconds,
            device_seconds,
        })
    })
}

impl Probe {
    fn packed(self, vocabulary: usize, context: usize) -> Result<Packed> {
        let (prompt, answer) = ((self.tokens.get() / 4).max(2), (self.tokens.get() / 12).max(2));
        if prompt + answer > context {
            return Err(Fault::new("the probe is longer than the model's context")
                .got(prompt + answer)
                .expected(format!("at most {context} tokens in a row"))
                .hint("lower --tokens")
                .into());
        }
        let mut random = self.seed.stream("parity");
        let mut tokens =
            |count: usize| (0..count).map(|_| random.random_range(0..vocabulary as u32)).collect::<Vec<u32>>();
        let mut tree =
            || Tree { row_ids: Vec::new(), prompt: tokens(prompt), answers: (0..3).map(|_| tokens(answer)).collect() };
        Ok(pack(&[&tree(), &tree()]))
    }
}

/// Every quantity of one side, on the host.
struct Measured {
    single: Vec<(&'static str, Tensor)>,
    gradients: Vec<(&'static str, BTreeMap<String, Tensor>)>,
}

fn measured(source: &SourceModel, compute: &Compute, packed: &Packed, seed: Seed) -> Result<Measured> {
    let decoder =
        |trainable: &Trainable| Decoder::new(source.config.clone(), source.weights.clone(), trainable, seed, compute);
    let mut single = Vec::new();
    let mut gradients = Vec::new();
    for (name, trainable) in
        [("gradients of all weights", Trainable::Full), ("gradients of adapters", Trainable::Lora(adapters()?))]
    {
        let decoder = decoder(&trainable)?;
        if matches!(trainable, Trainable::Full) {
            let hidden = decoder.detached().hidden_states(&packed.sequence)?;
            single.push(("logits", on_host(&decoder.detached().logits(&hidden, &packed.rows)?)?));
            single.push(("logits of decoding", on_host(&decoded(&decoder, &packed.sequence.tokens)?)?));
        }
        for (name, parameter) in decoder.parameters() {
            // B starts at 0, which would leave A without a gradient.
            if name.ends_with("lora_B.weight") {
                parameter.set(&(parameter.ones_like()? * 0.01)?)?;
            }
        }
        let policy = DecoderPolicy::new(decoder);
        let mut values = None;
        let pass = Pass::Training { step: 0, units: &[0, 1] };
        let store = policy.gradients(packed, pass, &mut |log_probabilities| {
            let loss = negative_log_likelihood(log_probabilities, packed.rows.len())?;
            values = Some((log_probabilities.detach(), loss.detach()));
            Ok(loss)
        })?;
        if let Some((log_probabilities, loss)) = values.filter(|_| matches!(trainable, Trainable::Full)) {
            single.push(("log-probabilities", on_host(&log_probabilities)?));
            single.push(("loss", on_host(&loss)?));
        }
        let mut of_parameters = BTreeMap::new();
        for (name, parameter) in policy.parameters() {
            let gradient = store.get(parameter.as_tensor());
            let gradient = gradient.ok_or_else(|| Error::Failed(format!("`{name}` gets no gradient")))?;
            of_parameters.insert(name.clone(), on_host(gradient)?);
        }
        gradients.push((name, of_parameters));
    }
    Ok(Measured { single, gradients })
}

/// Logits after the first tokens read as a prompt and the next ones one by one. `[1, vocabulary]`
fn decoded(decoder: &Decoder, tokens: &[u32]) -> Result<Tensor> {
    let mut cache = KeyValueCache::default();
    let (prompt, rest) = tokens.split_at(tokens.len().min(24) / 2);
    let mut logits = decoder.decode(&mut [Step { tokens: prompt, cache: &mut cache }])?;
    for token in rest.iter().take(4) {
        logits = decoder.decode(&mut [Step { tokens: &[*token], cache: &mut cache }])?;
    }
    Ok(logits)
}

fn adapters() -> Result<LoraSettings> {
    let number = |number: f64| Positive::try_from(number).map_err(|rule| Error::Failed(format!("alpha {rule}")));
    Ok(LoraSettings {
        rank: NonZeroUsize::MIN.saturating_add(7),
        alpha: number(16.0)?,
        dropout: Share::ZERO,
        target_modules: Projection::ALL.to_vec(),
        scaling: AdapterScaling::Lora,
    })
}

fn on_host(tensor: &Tensor) -> Result<Tensor> {
    Ok(tensor.detach().to_device(&Device::Cpu)?.to_dtype(DType::F32)?)
}

fn differences(right: &Measured, found: &Measured, format: NumberFormat) -> Result<Vec<Difference>> {
    let mut rows = Vec::new();
    for ((quantity, right), (_, found)) in right.single.iter().zip(&found.single) {
        let limit = limit(quantity, format);
        rows.push(Difference { quantity, relative: relative(right, found)?, tensor: None, limit });
    }
    for ((quantity, right), (_, found)) in right.gradients.iter().zip(&found.gradients) {
        let mut worst = Difference { quantity, relative: 0.0, tensor: None, limit: limit(quantity, format) };
        for (name, right) in right {
            let found = found.get(name).ok_or_else(|| Error::Failed(format!("`{name}` is missing on the device")))?;
            let relative = relative(right, found)?;
            // What is not a number is the worst, and stays so.
            if relative.is_nan() || relative > worst.relative {
                worst = Difference { relative, tensor: Some(name.clone()), ..worst };
            }
        }
        rows.push(worst);
    }
    Ok(rows)
}

/// Eight bits of precision leave differences of some thousandths in a product, and more where they pass through all layers.
fn limit(quantity: &str, format: NumberFormat) -> f64 {
    match (format, quantity) {
        (NumberFormat::F32, _) => 1e-3,
        (NumberFormat::Bf16, "loss") => 1e-2,
        (NumberFormat::Bf16, _) => 1e-1,
    }
}

fn relative(right: &Tensor, found: &Tensor) -> Result<f64> {
    let values = |tensor: &Tensor| tensor.flatten_all()?.to_vec1::<f32>();
    let (right, found) = (values(right)?, values(found)?);
    let square = |value: f64| value * value;
    let length: f64 = right.iter().map(|&value| square(f64::from(value))).sum();
    let apart: f64 = right.iter().zip(&found).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    Ok((apart / length.max(f64::MIN_POSITIVE)).sqrt())
}
