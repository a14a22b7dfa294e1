//! The decoder: embedding, layers of attention and `SwiGLU`, final norm, head (Touvron et al. 2023), over packed trees.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor, Var};

use super::adapter::{self, Adapter};
use super::config::{ModelConfig, Positions};
use super::layer::{Layer, Source, Weight};
use super::weights::{Compact, Weights};
use crate::device::Compute;
use crate::error::{Error, Fault, Result};
use crate::kernel::{self, AttentionLayout, Dropout, FrozenWeight, Product, RotaryTable, WeightGradient};
use crate::recipe::settings::{Arithmetic, LoraSettings, Projection};
use crate::run::seed::Seed;
use crate::token::PackedSequence;

/// What is trained.
#[derive(Debug, Clone, PartialEq)]
pub enum Trainable {
    /// Nothing: inference and reference passes.
    Nothing,
    /// Every weight.
    Full,
    /// Low-rank adapters on a frozen base.
    Lora(LoraSettings),
}

/// A decoder of any family. Cloning shares every tensor.
#[derive(Debug, Clone)]
pub struct Decoder {
    pub(super) config: ModelConfig,
    pub(super) embedding: Tensor,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Tensor,
    /// The embedding itself where they are tied.
    pub(super) head: Tensor,
    pub(super) inverse_frequencies: Vec<f64>,
    product: Product,
    parameters: BTreeMap<String, Var>,
    compute: Compute,
    /// Share and seed of the adapters' dropout, where they have one.
    adapter_dropout: Option<(f64, Seed)>,
    /// The dropout of this pass.
    dropout: Option<Dropout>,
}

impl Decoder {
    /// Builds a decoder from checked weights, which it moves to where it computes, and makes the trainable tensors variables.
    ///
    /// Trained weights, embedding, head and norms are f32 in any number format; a frozen projection is held in the format.
    ///
    /// # Errors
    /// A [`Fault`] for settings that cannot be honoured, or a failed tensor operation.
    pub fn new(
        config: ModelConfig,
        weights: Weights,
        trainable: &Trainable,
        seed: Seed,
        compute: impl Into<Compute>,
    ) -> Result<Self> {
        Self::on_base(config, weights, Compact::default(), trainable, seed, compute)
    }

    /// A decoder whose frozen projections are kept as their file stores them.
    ///
    /// # Errors
    /// As [`Decoder::new`]; a [`Fault`] if every weight is to be trained and some are compact.
    pub fn on_base(
        config: ModelConfig,
        weights: Weights,
        compact: Compact,
        trainable: &Trainable,
        seed: Seed,
        compute: impl Into<Compute>,
    ) -> Result<Self> {
        let compute = compute.into();
        compute.prepare();
        if *trainable == Trainable::Full && !compact.0.is_empty() {
            return Err(Fault::new("weights that are kept as their file stores them cannot be trained")
                .expected("adapters, or a base in f32")
                .into());
        }
        let mut weights = weights.check_beside(&config, &compact, "model")?.0;
        let mut parameters = BTreeMap::new();
        if *trainable == Trainable::Full {
            for (name, tensor) in &mut weights {
                let variable = Var::from_tensor(&tensor.to_device(&compute.device)?)?;
                *tensor = variable.as_tensor().clone();
                parameters.insert(name.clone(), variable);
            }
        }
        let weight_gradient =
            if *trainable == Trainable::Full { WeightGradient::Needed } else { WeightGradient::Frozen };
        let mut source =
            Source { tensors: weights, compact: compact.0, gradient: weight_gradient, compute: compute.clone() };
        let embedding = source.tensor("model.embed_tokens.weight")?;
        let head = if config.tied { embedding.clone() } else { source.tensor("lm_head.weight")? };
        let layers =
            (0..config.layers).map(|layer| Layer::new(&config, layer, &mut source)).collect::<Result<Vec<_>>>()?;
        let norm = source.tensor("model.norm.weight")?;
        let product = Product::from(weight_gradient);
        let inverse_frequencies = config.inverse_frequencies();
        let mut decoder = Self {
            config,
            embedding,
            layers,
            norm,
            head,
            inverse_frequencies,
            product,
            parameters,
            compute,
            adapter_dropout: None,
            dropout: None,
        };
        if let Trainable::Lora(settings) = trainable {
            decoder.add_adapters(settings, seed)?;
        }
        // Later passes may come from another thread, and so on another stream of the device.
        decoder.compute.device.synchronize()?;
        Ok(decoder)
    }

    /// Computes matrix products in another arithmetic than f32.
    #[must_use]
    pub fn with_arithmetic(mut self, arithmetic: Arithmetic) -> Self {
        self.product.arithmetic = arithmetic;
        self
    }

    fn add_adapters(&mut self, settings: &LoraSettings, seed: Seed) -> Result<()> {
        self.adapter_dropout = (settings.dropout.get() > 0.0).then(|| (settings.dropout.get(), seed));
        let scale = settings.scale();
        for (index, layer) in self.layers.iter_mut().enumerate() {
            for projection in &settings.target_modules {
                let Some(linear) = layer.projections.get_mut(projection) else { continue };
                let name = adapter::name(index, *projection);
                let (output, input) = linear.weight.dims2()?;
                let a = adapter::initial_a(&name, settings.rank.get(), input, seed, &self.compute.device)?;
                let b = Tensor::zeros((output, settings.rank.get()), DType::F32, &self.compute.device)?;
                let (a, b) = (Var::from_tensor(&a)?, Var::from_tensor(&b)?);
                let (own_a, own_b) = (a.as_tensor().clone(), b.as_tensor().clone());
                linear.adapter = Some(Adapter { a: own_a, b: own_b, scale, name: name.clone() });
                self.parameters.insert(format!("{name}.lora_A.weight"), a);
                self.parameters.insert(format!("{name}.lora_B.weight"), b);
            }
        }
        Ok(())
    }

    /// Shape and constants.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Where the tensors are.
    pub fn device(&self) -> &Device {
        &self.compute.device
    }

    /// Where and in which number format it computes.
    pub fn compute(&self) -> &Compute {
        &self.compute
    }

    /// Bytes of all weights, adapters included, as they are held.
    pub fn weight_bytes(&self) -> usize {
        let head = if self.config.tied { 0 } else { bytes(&self.head) };
        bytes(&self.embedding) + bytes(&self.norm) + head + self.layers.iter().map(Layer::bytes).sum::<usize>()
    }

    /// The trainable tensors by name: Hugging Face names when all is trained, PEFT names for adapters.
    pub fn parameters(&self) -> &BTreeMap<String, Var> {
        &self.parameters
    }

    /// The same decoder outside the gradient graph: nothing is recorded or kept for a backward. Shares the tensors, so it
    /// follows every update.
    #[must_use]
    pub fn detached(&self) -> Self {
        let mut decoder = self.clone();
        decoder.parameters.clear();
        decoder.product.weight_gradient = WeightGradient::Frozen;
        for tensor in [&mut decoder.embedding, &mut decoder.norm, &mut decoder.head] {
            *tensor = tensor.detach();
        }
        decoder.layers = decoder.layers.iter().map(Layer::detached).collect();
        decoder
    }

    /// The base under the adapters, outside the graph: the reference of DPO when the policy is an adapter.
    #[must_use]
    pub fn without_adapter(&self) -> Self {
        let mut decoder = self.detached();
        for linear in decoder.layers.iter_mut().flat_map(|layer| layer.projections.values_mut()) {
            linear.adapter = None;
        }
        decoder
    }

    /// The same decoder with the dropout of one training pass, where its adapters have one; see [`Dropout::new`] for `rows`.
    #[must_use]
    pub fn with_dropout(&self, step: usize, rows: impl FnOnce() -> Vec<u64>) -> Self {
        let dropout = self.adapter_dropout.map(|(share, seed)| Dropout::new(share, seed, step, rows()));
        Self { dropout, ..self.clone() }
    }

    /// Sets the trainable tensors, e.g. from a checkpoint.
    ///
    /// # Errors
    /// A [`Fault`] naming every tensor that is missing, unknown or of another shape; nothing is set then.
    pub fn load_parameters(&self, tensors: &BTreeMap<String, Tensor>, place: &str) -> Result<()> {
        let mut faults = Vec::new();
        for (name, variable) in &self.parameters {
            match tensors.get(name) {
                None => faults.push(Fault::new(format!("tensor `{name}` is missing")).at(place)),
                Some(tensor) if tensor.dims() != variable.dims() => faults.push(
                    Fault::new(format!("tensor `{name}` has another shape"))
                        .at(place)
                        .got(format!("{:?}", tensor.dims()))
                        .expected(format!("{:?}", variable.dims())),
                ),
                Some(_) => {}
            }
        }
        for name in tensors.keys().filter(|name| !self.parameters.contains_key(*name)) {
            faults.push(Fault::new(format!("tensor `{name}` is not trained here")).at(place));
        }
        if !faults.is_empty() {
            faults.truncate(10);
            return Err(Error::Invalid(faults));
        }
        for (name, variable) in &self.parameters {
            variable.set(&tensors[name].to_dtype(DType::F32)?)?;
        }
        Ok(())
    }

    /// Every weight by its Hugging Face name, adapters merged: w + scale b a.
    ///
    /// # Errors
    /// A failed tensor operation.
    pub fn merged_weights(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut weights = BTreeMap::from([
            ("model.embed_tokens.weight".to_owned(), self.embedding.detach()),
            ("model.norm.weight".to_owned(), self.norm.detach()),
        ]);
        if !self.config.tied {
            weights.insert("lm_head.weight".to_owned(), self.head.detach());
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let named = |(name, tensor)| (format!("model.layers.{index}.{name}"), tensor);
            weights.extend(layer.merged()?.into_iter().map(named));
        }
        Ok(weights)
    }

    /// Hidden states after the final norm. `[tokens, hidden]`
    ///
    /// # Errors
    /// A [`Fault`] for a token outside the vocabulary or a position past the context; failed tensor operations.
    pub fn hidden_states(&self, sequence: &PackedSequence) -> Result<Tensor> {
        self.check_tokens(&sequence.tokens, sequence.positions.iter().copied().max().unwrap_or(0))?;
        let layout = Arc::new(layout(sequence)?);
        let rotary = RotaryTable::new(&sequence.positions, &self.inverse_frequencies);
        let mut x = self.embed(&sequence.tokens)?;
        for layer in &self.layers {
            x = self.layer(layer, &x, &rotary, &layout)?;
        }
        self.norm(&x, &self.norm)
    }

    /// The tokens' embeddings in the number format of the activations. `[tokens, hidden]`
    pub(super) fn embed(&self, tokens: &[u32]) -> Result<Tensor> {
        let ids = Tensor::new(tokens, self.device())?;
        Ok(self.embedding.embedding(&ids)?.to_dtype(self.compute.format.dtype())?)
    }

    pub(super) fn check_tokens(&self, tokens: &[u32], last_position: u32) -> Result<()> {
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= self.config.vocabulary) {
            return Err(Fault::new("a token id is outside the model's vocabulary")
                .got(token)
                .expected(format!("below {}", self.config.vocabulary))
                .hint("tokenizer and model do not belong together")
                .into());
        }
        if last_position as usize >= self.config.context {
            return Err(Fault::new("a sequence is longer than the model's context")
                .got(last_position as usize + 1)
                .expected(format!("at most {} tokens", self.config.context))
                .into());
        }
        Ok(())
    }

    pub(super) fn layer(
        &self,
        layer: &Layer,
        x: &Tensor,
        rotary: &RotaryTable,
        layout: &Arc<AttentionLayout>,
    ) -> Result<Tensor> {
        let normed = self.norm(x, &layer.attention_norm)?;
        let (q, k, v) = self.heads(layer, &normed, rotary)?;
        let attended = kernel::attention(&q, &k, &v, layout, self.config.heads, self.config.key_value_heads)?;
        let x = (x + self.project(layer, Projection::OProj, &attended)?)?;
        self.feed_forward(layer, &x)
    }

    /// Queries, keys and values of all heads; the first two normed by head and turned to their positions where the layer does
    /// so.
    pub(super) fn heads(&self, layer: &Layer, x: &Tensor, rotary: &RotaryTable) -> Result<(Tensor, Tensor, Tensor)> {
        let mut q = self.project(layer, Projection::QProj, x)?;
        let mut k = self.project(layer, Projection::KProj, x)?;
        let v = self.project(layer, Projection::VProj, x)?;
        if let Some(norms) = &layer.head_norms {
            (q, k) = (self.norm_heads(&q, &norms.query)?, self.norm_heads(&k, &norms.key)?);
        }
        if layer.positions == Positions::Rotary {
            (q, k) = (kernel::rotary(&q, rotary)?, kernel::rotary(&k, rotary)?);
        }
        Ok((q, k, v))
    }

    /// `x` `[tokens, heads * size]` with each head normed by itself; `weight` `[size]` is shared by the heads.
    fn norm_heads(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let (tokens, width) = x.dims2()?;
        let size = self.config.head_size;
        let by_head = x.reshape((tokens * (width / size), size))?;
        Ok(self.norm(&by_head, weight)?.reshape((tokens, width))?)
    }

    pub(super) fn feed_forward(&self, layer: &Layer, x: &Tensor) -> Result<Tensor> {
        let normed = self.norm(x, &layer.feed_forward_norm)?;
        let gate = self.project(layer, Projection::GateProj, &normed)?;
        let up = self.project(layer, Projection::UpProj, &normed)?;
        Ok((x + self.project(layer, Projection::DownProj, &kernel::swiglu(&gate, &up)?)?)?)
    }

    pub(super) fn norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        Ok(kernel::rms_norm(x, weight, self.config.norm_epsilon, self.product.weight_gradient)?)
    }

    fn adapted(&self, x: &Tensor, weight: &FrozenWeight, adapter: &Adapter) -> Result<Tensor> {
        let Adapter { a, b, scale, name } = adapter;
        let arithmetic = self.product.arithmetic;
        Ok(match &self.dropout {
            Some(dropout) => {
                let mask = dropout.mask(name, x.dim(1)?);
                kernel::adapted_linear_with_dropout(x, weight, (a, b), *scale, arithmetic, mask)?
            }
            None => kernel::adapted_linear(x, weight, a, b, *scale, arithmetic)?,
        })
    }

    pub(super) fn project(&self, layer: &Layer, projection: Projection, x: &Tensor) -> Result<Tensor> {
        let linear = &layer.projections[&projection];
        let arithmetic = self.product.arithmetic;
        let projected = match (&linear.weight, &linear.adapter) {
            (Weight::Trained(weight), _) => kernel::linear(x, weight, self.product)?,
            (Weight::Frozen(weight), None) => kernel::frozen_linear(x, weight, arithmetic)?,
            (Weight::Frozen(weight), Some(adapter)) => self.adapted(x, weight, adapter)?,
        };
        Ok(match &linear.bias {
            Some(bias) => kernel::add_bias(&projected, bias, self.product.weight_gradient)?,
            None => projected,
        })
    }

    /// Log-probability of each target after its row of `hidden`. `[rows]`
    ///
    /// # Errors
    /// Rows or targets out of range.
    pub fn log_probabilities(&self, hidden: &Tensor, rows: &[u32], targets: &[u32]) -> Result<Tensor> {
        let hidden = select(hidden, rows)?;
        Ok(kernel::chosen_log_probability(&hidden, &self.head, targets, self.product)?)
    }

    /// Logits after these rows of `hidden`, f32. `[rows, vocabulary]`
    ///
    /// # Errors
    /// Rows out of range.
    pub fn logits(&self, hidden: &Tensor, rows: &[u32]) -> Result<Tensor> {
        Ok(kernel::linear(&select(hidden, rows)?.to_dtype(DType::F32)?, &self.head, self.product)?)
    }
}

fn bytes(tensor: &Tensor) -> usize {
    tensor.elem_count() * tensor.dtype().size_in_bytes()
}

fn select(hidden: &Tensor, rows: &[u32]) -> Result<Tensor> {
    Ok(hidden.index_select(&Tensor::new(rows, hidden.device())?, 0)?)
}

pub(super) fn layout(sequence: &PackedSequence) -> Result<AttentionLayout> {
    let mut runs = Vec::with_capacity(sequence.segments.len());
    for (index, segment) in sequence.segments.iter().enumerate() {
        let mut before = Vec::new();
        let mut parent = segment.parent;
        let mut above = index;
        while let Some(ancestor) = parent {
            if ancestor >= above {
                return Err(Error::Failed(format!(
                    "segment {above} continues segment {ancestor}, which is not before it"
                )));
            }
            above = ancestor;
            let ancestor = &sequence.segments[ancestor];
            before.push(ancestor.start..ancestor.end);
            parent = ancestor.parent;
        }
        before.reverse();
        runs.push((segment.start..segment.end, before));
    }
    Ok(AttentionLayout::new(runs)?)
}
