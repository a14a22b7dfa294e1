//! The decoder: embedding, layers of attention and `SwiGLU`, final norm, head (Touvron et al. 2023), over packed trees.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{Device, Tensor, Var};

use super::adapter::{self, Adapter};
use super::config::ModelConfig;
use super::weights::Weights;
use crate::error::{Error, Fault, Result};
use crate::kernel::{self, AttentionLayout, Dropout, Product, RotaryTable, WeightGradient};
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

/// A linear layer, with an adapter where one is trained.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    pub(super) weight: Tensor,
    pub(super) adapter: Option<Adapter>,
}

#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub(super) attention_norm: Tensor,
    pub(super) feed_forward_norm: Tensor,
    pub(super) projections: BTreeMap<Projection, Linear>,
}

/// A Llama decoder. Cloning shares every tensor.
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
    device: Device,
    /// Share and seed of the adapters' dropout, where they have one.
    adapter_dropout: Option<(f64, Seed)>,
    /// The dropout of this pass.
    dropout: Option<Dropout>,
}

impl Decoder {
    /// Builds a decoder from checked weights and makes the trainable tensors variables.
    ///
    /// # Errors
    /// A [`Fault`] for settings that cannot be honoured, or a failed tensor operation.
    pub fn new(
        config: ModelConfig,
        weights: Weights,
        trainable: &Trainable,
        seed: Seed,
        device: &Device,
    ) -> Result<Self> {
        let mut weights = weights.check(&config, "model")?.0;
        let mut parameters = BTreeMap::new();
        if *trainable == Trainable::Full {
            for (name, tensor) in &mut weights {
                let variable = Var::from_tensor(tensor)?;
                *tensor = variable.as_tensor().clone();
                parameters.insert(name.clone(), variable);
            }
        }
        let mut take =
            |name: &str| weights.remove(name).ok_or_else(|| Error::Failed(format!("tensor `{name}` is missing")));
        let embedding = take("model.embed_tokens.weight")?;
        let head = if config.tied { embedding.clone() } else { take("lm_head.weight")? };
        let layers = (0..config.layers)
            .map(|layer| {
                let mut named = |name: &str| take(&format!("model.layers.{layer}.{name}.weight"));
                let projections = Projection::ALL.into_iter().map(|projection| {
                    Ok((projection, Linear { weight: named(module_path(projection))?, adapter: None }))
                });
                Ok(Layer {
                    projections: projections.collect::<Result<_>>()?,
                    attention_norm: named("input_layernorm")?,
                    feed_forward_norm: named("post_attention_layernorm")?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let norm = take("model.norm.weight")?;
        let weight_gradient =
            if *trainable == Trainable::Full { WeightGradient::Needed } else { WeightGradient::Frozen };
        let product = Product::from(weight_gradient);
        let inverse_frequencies = config.inverse_frequencies();
        let device = device.clone();
        let mut decoder = Self {
            config,
            embedding,
            layers,
            norm,
            head,
            inverse_frequencies,
            product,
            parameters,
            device,
            adapter_dropout: None,
            dropout: None,
        };
        if let Trainable::Lora(settings) = trainable {
            decoder.add_adapters(settings, seed)?;
        }
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
                let a = adapter::initial_a(&name, settings.rank.get(), input, seed, &self.device)?;
                let b = Tensor::zeros((output, settings.rank.get()), candle_core::DType::F32, &self.device)?;
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
        &self.device
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
        for layer in &mut decoder.layers {
            layer.attention_norm = layer.attention_norm.detach();
            layer.feed_forward_norm = layer.feed_forward_norm.detach();
            for linear in layer.projections.values_mut() {
                linear.weight = linear.weight.detach();
                if let Some(adapter) = &mut linear.adapter {
                    *adapter = adapter.detached();
                }
            }
        }
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
            variable.set(&tensors[name].to_dtype(candle_core::DType::F32)?)?;
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
            let name = |inner: &str| format!("model.layers.{index}.{inner}.weight");
            weights.insert(name("input_layernorm"), layer.attention_norm.detach());
            weights.insert(name("post_attention_layernorm"), layer.feed_forward_norm.detach());
            for (projection, linear) in &layer.projections {
                weights.insert(name(module_path(*projection)), linear.merged()?);
            }
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
        let ids = Tensor::new(sequence.tokens.as_slice(), &self.device)?;
        let mut x = self.embedding.embedding(&ids)?;
        for layer in &self.layers {
            x = self.layer(layer, &x, &rotary, &layout)?;
        }
        self.norm(&x, &self.norm)
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
        let q = kernel::rotary(&self.project(layer, Projection::QProj, &normed)?, rotary)?;
        let k = kernel::rotary(&self.project(layer, Projection::KProj, &normed)?, rotary)?;
        let v = self.project(layer, Projection::VProj, &normed)?;
        let attended = kernel::attention(&q, &k, &v, layout, self.config.heads, self.config.key_value_heads)?;
        let x = (x + self.project(layer, Projection::OProj, &attended)?)?;
        self.feed_forward(layer, &x)
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

    pub(super) fn project(&self, layer: &Layer, projection: Projection, x: &Tensor) -> Result<Tensor> {
        let linear = &layer.projections[&projection];
        let dropout = self.dropout.as_ref().zip(linear.adapter.as_ref());
        if let Some((dropout, adapter)) = dropout {
            let mask = dropout.mask(&adapter.name, x.dim(1)?);
            let (pair, arithmetic) = ((&adapter.a, &adapter.b), self.product.arithmetic);
            let adapted =
                kernel::adapted_linear_with_dropout(x, &linear.weight, pair, adapter.scale, arithmetic, mask)?;
            return Ok(adapted);
        }
        Ok(match &linear.adapter {
            Some(adapter) => kernel::adapted_linear(
                x,
                &linear.weight,
                &adapter.a,
                &adapter.b,
                adapter.scale,
                self.product.arithmetic,
            )?,
            None => kernel::linear(x, &linear.weight, self.product)?,
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

    /// Logits after these rows of `hidden`. `[rows, vocabulary]`
    ///
    /// # Errors
    /// Rows out of range.
    pub fn logits(&self, hidden: &Tensor, rows: &[u32]) -> Result<Tensor> {
        Ok(kernel::linear(&select(hidden, rows)?, &self.head, self.product)?)
    }
}

fn select(hidden: &Tensor, rows: &[u32]) -> Result<Tensor> {
    Ok(hidden.index_select(&Tensor::new(rows, hidden.device())?, 0)?)
}

impl Linear {
    fn merged(&self) -> Result<Tensor> {
        let weight = self.weight.detach();
        match &self.adapter {
            None => Ok(weight),
            Some(adapter) => adapter.merge_into(&weight),
        }
    }
}

/// Path of a projection within its layer.
pub(super) fn module_path(projection: Projection) -> &'static str {
    match projection {
        Projection::QProj => "self_attn.q_proj",
        Projection::KProj => "self_attn.k_proj",
        Projection::VProj => "self_attn.v_proj",
        Projection::OProj => "self_attn.o_proj",
        Projection::GateProj => "mlp.gate_proj",
        Projection::UpProj => "mlp.up_proj",
        Projection::DownProj => "mlp.down_proj",
    }
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
