//! One layer's tensors: norms and projections, by the names that Hugging Face checkpoints give them.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::adapter::Adapter;
use super::config::{ModelConfig, Positions};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernel::{FrozenWeight, WeightGradient};
use crate::recipe::settings::Projection;

/// A linear layer, with an adapter where one is trained.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    pub(super) weight: Weight,
    /// `[output]`
    pub(super) bias: Option<Tensor>,
    pub(super) adapter: Option<Adapter>,
}

/// A linear layer's weight, `[output, input]`.
#[derive(Debug, Clone)]
pub(super) enum Weight {
    Trained(Tensor),
    Frozen(FrozenWeight),
}

impl Weight {
    pub(super) fn dims2(&self) -> Result<(usize, usize)> {
        let dims = match self {
            Self::Trained(tensor) => tensor.dims(),
            Self::Frozen(weight) => weight.dims(),
        };
        match *dims {
            [output, input] => Ok((output, input)),
            _ => Err(Error::Failed(format!("a projection's weight has shape {dims:?}"))),
        }
    }

    /// The weight in f32, outside the gradient graph.
    fn widened(&self) -> Result<Tensor> {
        Ok(match self {
            Self::Trained(tensor) => tensor.detach(),
            Self::Frozen(weight) => weight.widened()?,
        })
    }
}

/// Norms of each head's queries and keys, each `[head_size]`.
#[derive(Debug, Clone)]
pub(super) struct HeadNorms {
    pub(super) query: Tensor,
    pub(super) key: Tensor,
}

#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub(super) attention_norm: Tensor,
    pub(super) feed_forward_norm: Tensor,
    pub(super) head_norms: Option<HeadNorms>,
    pub(super) positions: Positions,
    pub(super) projections: BTreeMap<Projection, Linear>,
}

impl Layer {
    /// A layer out of what `source` holds.
    pub(super) fn new(config: &ModelConfig, index: usize, source: &mut Source) -> Result<Self> {
        let name = |inner: &str| format!("model.layers.{index}.{inner}");
        let mut projections = BTreeMap::new();
        for projection in Projection::ALL {
            let path = module_path(projection);
            let weight = source.weight(&name(&format!("{path}.weight")))?;
            let is_biased = config.biased.contains(&projection);
            let bias = is_biased.then(|| source.tensor(&name(&format!("{path}.bias")))).transpose()?;
            projections.insert(projection, Linear { weight, bias, adapter: None });
        }
        let head_norms = if config.family.norms_heads() {
            let [query, key] =
                ["self_attn.q_norm.weight", "self_attn.k_norm.weight"].map(|norm| source.tensor(&name(norm)));
            Some(HeadNorms { query: query?, key: key? })
        } else {
            None
        };
        Ok(Self {
            attention_norm: source.tensor(&name("input_layernorm.weight"))?,
            feed_forward_norm: source.tensor(&name("post_attention_layernorm.weight"))?,
            head_norms,
            positions: config.positions.get(index).copied().unwrap_or(Positions::Rotary),
            projections,
        })
    }

    /// The same tensors outside the gradient graph.
    pub(super) fn detached(&self) -> Self {
        let linear = |linear: &Linear| Linear {
            weight: match &linear.weight {
                Weight::Trained(tensor) => Weight::Frozen(FrozenWeight::new(tensor)),
                Weight::Frozen(weight) => Weight::Frozen(weight.clone()),
            },
            bias: linear.bias.as_ref().map(Tensor::detach),
            adapter: linear.adapter.as_ref().map(Adapter::detached),
        };
        Self {
            attention_norm: self.attention_norm.detach(),
            feed_forward_norm: self.feed_forward_norm.detach(),
            head_norms: self
                .head_norms
                .as_ref()
                .map(|norms| HeadNorms { query: norms.query.detach(), key: norms.key.detach() }),
            positions: self.positions,
            projections: self.projections.iter().map(|(projection, each)| (*projection, linear(each))).collect(),
        }
    }

    /// Bytes of its tensors as they are held.
    pub(super) fn bytes(&self) -> usize {
        let of = |tensor: &Tensor| tensor.elem_count() * tensor.dtype().size_in_bytes();
        let linear = |linear: &Linear| {
            let weight = match &linear.weight {
                Weight::Trained(tensor) => of(tensor),
                Weight::Frozen(weight) => weight.bytes(),
            };
            let adapter = linear.adapter.as_ref().map_or(0, |adapter| of(&adapter.a) + of(&adapter.b));
            weight + adapter + linear.bias.as_ref().map_or(0, of)
        };
        let norms = self.head_norms.as_ref().map_or(0, |norms| of(&norms.query) + of(&norms.key));
        let projections: usize = self.projections.values().map(linear).sum();
        of(&self.attention_norm) + of(&self.feed_forward_norm) + norms + projections
    }

    /// Every tensor by its name within the layer, adapters merged.
    pub(super) fn merged(&self) -> Result<Vec<(String, Tensor)>> {
        let detached = self.detached();
        let mut tensors = vec![
            ("input_layernorm.weight".to_owned(), detached.attention_norm),
            ("post_attention_layernorm.weight".to_owned(), detached.feed_forward_norm),
        ];
        if let Some(norms) = detached.head_norms {
            tensors.push(("self_attn.q_norm.weight".to_owned(), norms.query));
            tensors.push(("self_attn.k_norm.weight".to_owned(), norms.key));
        }
        for (projection, Linear { weight, bias, adapter }) in detached.projections {
            let path = module_path(projection);
            let weight = match (weight.widened()?, adapter) {
                (weight, Some(adapter)) => adapter.merge_into(&weight)?,
                (weight, None) => weight,
            };
            tensors.push((format!("{path}.weight"), weight));
            tensors.extend(bias.map(|bias| (format!("{path}.bias"), bias)));
        }
        Ok(tensors)
    }
}

/// The tensors that a decoder is built of.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) tensors: BTreeMap<String, Tensor>,
    /// Projections that are kept as their file stores them.
    pub(super) compact: BTreeMap<String, FrozenWeight>,
    pub(super) gradient: WeightGradient,
    /// Where they are moved.
    pub(super) compute: Compute,
}

impl Source {
    pub(super) fn tensor(&mut self, name: &str) -> Result<Tensor> {
        let tensor = self.tensors.remove(name);
        let tensor = tensor.ok_or_else(|| Error::Failed(format!("tensor `{name}` is missing")))?;
        Ok(tensor.to_device(&self.compute.device)?)
    }

    fn weight(&mut self, name: &str) -> Result<Weight> {
        if let Some(weight) = self.compact.remove(name) {
            return Ok(Weight::Frozen(weight.moved(&self.compute)?));
        }
        let tensor = self.tensor(name)?;
        Ok(match self.gradient {
            WeightGradient::Needed => Weight::Trained(tensor),
            WeightGradient::Frozen => Weight::Frozen(FrozenWeight::new(&tensor).moved(&self.compute)?),
        })
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
