//! What a recipe means once read: settings that cannot hold bad values.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use super::preference::{DpoSettings, KindWeights, LossName, NonNegative, PreferenceLoss, Smoothing};
use crate::dataset::Severities;
use crate::endpoint::EndpointSettings;

/// A finite number above 0: learning rates, beta, clipping thresholds.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Positive(f64);

impl Positive {
    /// One.
    pub const ONE: Self = Self(1.0);
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Positive {
    type Error = String;
    fn try_from(value: f64) -> Result<Self, String> {
        if value.is_finite() && value > 0.0 { Ok(Self(value)) } else { Err(format!("must be above 0, got `{value}`")) }
    }
}

impl From<Positive> for f64 {
    fn from(value: Positive) -> Self {
        value.0
    }
}

/// How the builder answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// Complete and silent: SFT rows and preference pairs.
    #[default]
    Guarded,
    /// Complete and leaking on purpose: SFT rows for a base model that shows the fault.
    Unguarded,
}

/// What the builder makes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BuildSettings {
    /// Which rows.
    pub answers: Answers,
    /// Share of unguarded answers that state the conclusion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaking: Option<Share>,
    /// The rows as Parquet files beside the JSON ones.
    #[serde(rename = "parquet", skip_serializing_if = "Tables::is_json")]
    pub tables: Tables,
    /// Files of rows whose prompts no row may have, exactly or nearly.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<PathBuf>,
    /// A model that writes the answers; without it templates are filled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<WriterSettings>,
    /// Severities of audit checks other than the usual ones.
    #[serde(skip_serializing_if = "Severities::is_empty")]
    pub severity: Severities,
}

/// In which forms rows are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tables {
    /// JSON lines.
    #[default]
    Json,
    /// JSON lines, and SFT rows and pairs as Parquet files too.
    JsonAndParquet,
}

impl Tables {
    /// Whether there is no Parquet file.
    pub fn is_json(&self) -> bool {
        *self == Self::Json
    }
}

impl Serialize for Tables {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(!self.is_json())
    }
}

/// A model that writes answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WriterSettings {
    /// Which model.
    #[serde(flatten)]
    pub model: WriterModel,
    /// Answers that are asked for together; the best one is taken.
    pub best_of: NonZeroUsize,
    /// Rounds before an answer is given up.
    pub tries: NonZeroUsize,
    /// Above 0, or all answers of a round are the same.
    pub temperature: Positive,
    /// Tokens of one answer.
    pub token_limit: NonZeroUsize,
}

/// Where a writing model is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum WriterModel {
    /// On this machine.
    Local {
        /// Folder, `.gguf` file or hub id.
        model: String,
    },
    /// Behind an endpoint.
    Endpoint(Box<EndpointSettings>),
}

/// A number in [0, 1).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Share(f64);

impl Share {
    /// Nothing.
    pub const ZERO: Self = Self(0.0);
    /// Four fifths: of unguarded answers, those that state the conclusion.
    pub const LEAKING: Self = Self(0.8);
    /// A fifth: of the traces, those held out.
    pub const HELD_OUT: Self = Self(0.2);
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
    /// In whole percent.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is in [0, 1)")]
    pub fn percent(self) -> u8 {
        (self.0 * 100.0).round() as u8
    }
}

impl TryFrom<f64> for Share {
    type Error = String;
    fn try_from(value: f64) -> Result<Self, String> {
        if (0.0..1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(format!("must be at least 0 and below 1, got `{value}`"))
        }
    }
}

impl From<Share> for f64 {
    fn from(value: Share) -> Self {
        value.0
    }
}

/// Low-rank adapters on the named projections; the base stays frozen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoraSettings {
    /// r.
    pub rank: NonZeroUsize,
    /// Scale is alpha / r, or alpha / sqrt(r).
    pub alpha: Positive,
    /// Dropout on the adapter's input while training.
    pub dropout: Share,
    /// Projections, e.g. `q_proj`.
    pub target_modules: Vec<Projection>,
    /// What alpha is divided by.
    #[serde(skip_serializing_if = "is_default")]
    pub scaling: AdapterScaling,
}

impl LoraSettings {
    /// The factor of the adapter's product.
    pub fn scale(&self) -> f64 {
        let rank = self.rank.get() as f64;
        match self.scaling {
            AdapterScaling::Lora => self.alpha.get() / rank,
            AdapterScaling::RsLora => self.alpha.get() / rank.sqrt(),
        }
    }
}

/// What alpha is divided by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdapterScaling {
    /// The rank (Hu et al. 2021).
    #[default]
    Lora,
    /// Its square root (Kalajdzievski 2023), so that high ranks learn as fast as low ones.
    RsLora,
}

/// For keys that are written only where they differ from the default, so that digests of older recipes stay.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A linear layer of the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Projection {
    /// Queries.
    QProj,
    /// Keys.
    KProj,
    /// Values.
    VProj,
    /// Attention output.
    OProj,
    /// Gate of the feed-forward block.
    GateProj,
    /// Up-projection of the feed-forward block.
    UpProj,
    /// Down-projection of the feed-forward block.
    DownProj,
}

impl Projection {
    /// All seven.
    pub const ALL: [Self; 7] =
        [Self::QProj, Self::KProj, Self::VProj, Self::OProj, Self::GateProj, Self::UpProj, Self::DownProj];

    /// The name in Hugging Face checkpoints.
    pub fn name(self) -> &'static str {
        match self {
            Self::QProj => "q_proj",
            Self::KProj => "k_proj",
            Self::VProj => "v_proj",
            Self::OProj => "o_proj",
            Self::GateProj => "gate_proj",
            Self::UpProj => "up_proj",
            Self::DownProj => "down_proj",
        }
    }
}

/// How large matrix products of training are computed. Everything else, sums included, is f32 in each case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arithmetic {
    /// In f32.
    #[default]
    F32,
    /// Each factor as the sum of two bf16 values, about 16 bits of it: on processors with a tile unit (AMX) faster than f32,
    /// elsewhere the same as f32.
    SplitBf16,
    /// Factors rounded to bf16, 8 bits: faster still on such processors, elsewhere the same as f32.
    Bf16,
}

/// How the frozen base of an adapter is held in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaseStorage {
    /// In f32.
    #[default]
    F32,
    /// Projections as the model's file has them (bf16, f16, or GGUF's blocks), widened one by one for each use.
    AsStored,
}

/// Learning-rate schedule after the warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// Half a cosine down to 0.
    #[default]
    Cosine,
    /// A line down to 0.
    Linear,
    /// No decay.
    Constant,
}

/// In which order rows are trained on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowOrder {
    /// Shuffled anew for every epoch.
    #[default]
    Shuffled,
    /// As in the file: a curriculum is a matter of the data.
    File,
}

/// How much one optimizer step takes. Rows are rows (SFT) or preference trees (DPO).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum StepSize {
    /// So many rows.
    #[serde(rename = "rows_per_step")]
    Rows(NonZeroUsize),
    /// As many rows as fit into so many packed tokens, at least one.
    #[serde(rename = "tokens_per_step")]
    Tokens(NonZeroUsize),
}

/// Which weights a run leaves in `final/`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Export {
    /// Those of the last step.
    #[default]
    Last,
    /// Those of the lowest loss on the held-out rows.
    Best,
}

/// What SFT and DPO share. The rows of a step are accumulated as one big batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainSettings {
    /// Passes over the data.
    pub epochs: NonZeroUsize,
    /// Stop after this many steps, whatever the epochs say.
    pub max_steps: Option<NonZeroUsize>,
    /// Rows or tokens of one optimizer step.
    #[serde(flatten)]
    pub step_size: StepSize,
    /// Peak learning rate.
    pub learning_rate: Positive,
    /// Decay after warm-up.
    pub schedule: Schedule,
    /// Share of the steps spent warming up.
    pub warmup_share: Share,
    /// Clip the global gradient norm at this.
    pub clip_norm: Positive,
    /// Decoupled weight decay; never on norms and biases.
    pub weight_decay: Share,
    /// Longest row in tokens; longer ones are dropped, counted and named.
    pub max_tokens: NonZeroUsize,
    /// Checkpoint every so many steps (and at the end).
    pub save_every: NonZeroUsize,
    /// How matrix products are computed.
    pub arithmetic: Arithmetic,
    /// In which order rows come.
    pub order: RowOrder,
    /// Evaluate on the held-out rows every so many steps (and at the end).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluate_every: Option<NonZeroUsize>,
    /// End after so many evaluations in a row without a lower loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<NonZeroUsize>,
    /// Newest checkpoints that are kept; the best is kept besides.
    #[serde(skip_serializing_if = "is_default_kept")]
    pub keep_checkpoints: NonZeroUsize,
    /// Which weights `final/` gets.
    #[serde(skip_serializing_if = "is_default")]
    pub export: Export,
    /// Where a pass would need more memory than this, in MiB, activations are computed again layer by layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit_mib: Option<NonZeroUsize>,
    /// Tokens that one forward and backward pass takes at most, unless a single row is longer; absent leaves it to the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_pass: Option<NonZeroUsize>,
}

impl TrainSettings {
    /// A recipe's defaults with this learning rate.
    pub fn new(learning_rate: Positive) -> Self {
        Self {
            epochs: defaults::EPOCHS,
            max_steps: None,
            step_size: StepSize::Rows(defaults::ROWS_PER_STEP),
            learning_rate,
            schedule: Schedule::default(),
            warmup_share: defaults::WARMUP_SHARE,
            clip_norm: defaults::CLIP_NORM,
            weight_decay: Share::ZERO,
            max_tokens: defaults::MAX_TOKENS,
            save_every: defaults::SAVE_EVERY,
            arithmetic: Arithmetic::default(),
            order: RowOrder::default(),
            evaluate_every: None,
            patience: None,
            keep_checkpoints: defaults::KEEP_CHECKPOINTS,
            export: Export::default(),
            memory_limit_mib: None,
            tokens_per_pass: None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default_kept(kept: &NonZeroUsize) -> bool {
    *kept == defaults::KEEP_CHECKPOINTS
}

/// Defaults of keys that a recipe may leave out.
pub mod defaults {
    use std::num::NonZeroUsize;

    use super::{NonNegative, Positive, Share};

    /// One pass.
    pub const EPOCHS: NonZeroUsize = NonZeroUsize::MIN;
    /// Rows or trees in a step.
    pub const ROWS_PER_STEP: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);
    /// Longest row.
    pub const MAX_TOKENS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2047);
    /// Steps between checkpoints.
    pub const SAVE_EVERY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(24);
    /// Share of steps spent warming up.
    pub const WARMUP_SHARE: Share = Share(0.1);
    /// The newest and the one before, in case the newest is damaged.
    pub const KEEP_CHECKPOINTS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);
    /// Global gradient norm.
    pub const CLIP_NORM: Positive = Positive(1.0);
    /// beta of DPO.
    pub const BETA: Positive = Positive(0.1);
    /// beta of `SimPO`, which scales log-probabilities per token (Meng et al. 2024).
    pub const SIMPO_BETA: Positive = Positive(2.0);
    /// gamma of `SimPO`.
    pub const TARGET_MARGIN: NonNegative = NonNegative::HALF;
    /// Weight of KTO's answers.
    pub const KTO_WEIGHT: Positive = Positive(1.0);
    /// Weight of a kind of pair.
    pub const KIND_WEIGHT: Positive = Positive(1.0);
    /// Rounds in which a writer may try an answer: one for each layout of a template.
    pub const WRITER_TRIES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(5);
    /// Answers that a writing model is asked for together.
    pub const WRITER_BEST_OF: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2);
    /// Temperature of a writing model.
    pub const WRITER_TEMPERATURE: Positive = Positive(0.8);
    /// Tokens of one answer of a writing model.
    pub const WRITER_TOKENS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(319);
}

/// SFT: completion-only cross-entropy, averaged over the answer tokens of the step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SftSettings {
    /// Common part.
    #[serde(flatten)]
    pub train: TrainSettings,
}

/// Decoding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GenerateSettings {
    /// Token limit of stage 1.
    pub selection_tokens: usize,
    /// Token limit of stage 2.
    pub response_tokens: usize,
    /// 0 is greedy.
    pub temperature: f64,
    /// Nucleus; absent keeps the whole distribution.
    pub top_p: Option<f64>,
    /// Traces decoded together.
    pub batch: usize,
    /// Whose selection stage 2 answers from.
    pub selection: SelectionSource,
    /// Answers to each trace, under as many seeds.
    #[serde(skip_serializing_if = "is_one")]
    pub samples: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(samples: &usize) -> bool {
    *samples == 1
}

/// Whose tool selection stage 2 answers from.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum SelectionSource {
    /// The model's own, as the protocol has it; a stage 1 that cannot be read ends the trace.
    #[default]
    Protocol,
    /// The trace's essential tools, so that models too weak for stage 1 can still be compared on stage 2. Stage 1 is
    /// generated and recorded all the same.
    Given,
}

impl Default for GenerateSettings {
    fn default() -> Self {
        Self {
            selection_tokens: 160,
            response_tokens: 320,
            temperature: 0.0,
            top_p: None,
            batch: 16,
            selection: SelectionSource::default(),
            samples: 1,
        }
    }
}
