//! One layer's tensors: norms and projections, by the names that Hugging Face checkpoints give them.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::adapter::Adapter;
use super::config::{ModelConfig, Positions};
use crate::error::Result;
use crate::recipe::settings::Projection;

/// A linear layer, with an adapter where one is trained.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    /// `[output, input]`
    pub(super) weight: Tensor,
    /// `[output]`
    pub(super) bias: Option<Tensor>,
    pub(super) adapter: Option<Adapter>,
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
    /// A layer out of the tensors that `take` gives by their names within it.
    pub(super) fn new(
        config: &ModelConfig,
        index: usize,
        mut take: impl FnMut(&str) -> Result<Tensor>,
    ) -> Result<Self> {
        let mut projections = BTreeMap::new();
        for projection in Projection::ALL {
            let path = module_path(projection);
            let weight = take(&format!("{path}.weight"))?;
            let is_biased = config.biased.contains(&projection);
            let bias = is_biased.then(|| take(&format!("{path}.bias"))).transpose()?;
            projections.insert(projection, Linear { weight, bias, adapter: None });
        }
        let head_norms = if config.family.norms_heads() {
            Some(HeadNorms { query: take("self_attn.q_norm.weight")?, key: take("self_attn.k_norm.weight")? })
        } else {
            None
        };
        Ok(Self {
            attention_norm: take("input_layernorm.weight")?,
            feed_forward_norm: take("post_attention_layernorm.weight")?,
            head_norms,
            positions: config.positions.get(index).copied().unwrap_or(Positions::Rotary),
            projections,
        })
    }

    /// The same tensors outside the gradient graph.
    pub(super) fn detached(&self) -> Self {
        let linear = |linear: &Linear| Linear {
            weight: linear.weight.detach(),
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
            let weight = match adapter {
                Some(adapter) => adapter.merge_into(&weight)?,
                None => weight,
            };
            tensors.push((format!("{path}.weight"), weight));
            tensors.extend(bias.map(|bias| (format!("{path}.bias"), bias)));
        }
        Ok(tensors)
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
