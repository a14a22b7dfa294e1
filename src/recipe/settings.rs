//! What a recipe means once read: settings that cannot hold bad values.

use serde::{Deserialize, Serialize};

/// A finite number above 0: learning rates, beta, clipping thresholds.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Positive(f64);

impl Positive {
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

/// A number in [0, 1).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Share(f64);

impl Share {
    /// Nothing.
    pub const ZERO: Self = Self(0.0);
    /// The number.
    pub fn get(self) -> f64 {
        self.0
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraSettings {
    /// r.
    pub rank: std::num::NonZeroUsize,
    /// Scale is alpha / r.
    pub alpha: Positive,
    /// Dropout on the adapter's input while training.
    #[serde(default = "zero_share")]
    pub dropout: Share,
    /// Projections, e.g. `q_proj`.
    #[serde(default = "all_projections")]
    pub target_modules: Vec<Projection>,
}

fn zero_share() -> Share {
    Share::ZERO
}

fn all_projections() -> Vec<Projection> {
    Projection::ALL.to_vec()
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

/// What SFT and DPO share. A step is `rows_per_step` rows (SFT) or traces (DPO), accumulated as one big batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainSettings {
    /// Passes over the data.
    #[serde(default = "one")]
    pub epochs: std::num::NonZeroUsize,
    /// Stop after this many steps, whatever the epochs say.
    #[serde(default)]
    pub max_steps: Option<std::num::NonZeroUsize>,
    /// Rows (SFT) or preference trees (DPO) in one optimizer step.
    #[serde(default = "eight")]
    pub rows_per_step: std::num::NonZeroUsize,
    /// Peak learning rate.
    pub learning_rate: Positive,
    /// Decay after warm-up.
    #[serde(default)]
    pub schedule: Schedule,
    /// Share of the steps spent warming up.
    #[serde(default = "warmup")]
    pub warmup_share: Share,
    /// Clip the global gradient norm at this.
    #[serde(default = "clip")]
    pub clip_norm: Positive,
    /// Decoupled weight decay; never on norms and biases.
    #[serde(default = "zero_share")]
    pub weight_decay: Share,
    /// Longest row in tokens; longer ones are dropped, counted and named.
    #[serde(default = "max_tokens")]
    pub max_tokens: std::num::NonZeroUsize,
    /// Checkpoint every so many steps (and at the end).
    #[serde(default = "save_every")]
    pub save_every: std::num::NonZeroUsize,
}

fn one() -> std::num::NonZeroUsize {
    std::num::NonZeroUsize::MIN
}
fn eight() -> std::num::NonZeroUsize {
    std::num::NonZeroUsize::MIN.saturating_add(7)
}
fn max_tokens() -> std::num::NonZeroUsize {
    std::num::NonZeroUsize::MIN.saturating_add(2047)
}
fn save_every() -> std::num::NonZeroUsize {
    std::num::NonZeroUsize::MIN.saturating_add(24)
}
fn warmup() -> Share {
    Share(0.1)
}
fn clip() -> Positive {
    Positive(1.0)
}

/// SFT: completion-only cross-entropy, averaged over the answer tokens of the step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SftSettings {
    /// Common part.
    #[serde(flatten)]
    pub train: TrainSettings,
}

/// DPO (Rafailov et al. 2023, equation 7) with a sigmoid loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DpoSettings {
    /// Common part.
    #[serde(flatten)]
    pub train: TrainSettings,
    /// beta.
    #[serde(default = "beta")]
    pub beta: Positive,
    /// Label smoothing of conservative DPO; 0 is plain DPO.
    #[serde(default = "zero_share")]
    pub label_smoothing: Share,
    /// Weight of the SFT term on the chosen answer (per token); 0 leaves it out.
    #[serde(default)]
    pub chosen_weight: f64,
}

fn beta() -> Positive {
    Positive(0.1)
}

/// Decoding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerateSettings {
    /// Token limit of stage 1.
    #[serde(default = "selection_tokens")]
    pub selection_tokens: usize,
    /// Token limit of stage 2.
    #[serde(default = "response_tokens")]
    pub response_tokens: usize,
    /// 0 is greedy.
    #[serde(default)]
    pub temperature: f64,
    /// Nucleus; absent keeps the whole distribution.
    #[serde(default)]
    pub top_p: Option<f64>,
    /// Traces decoded together.
    #[serde(default = "batch")]
    pub batch: usize,
    /// Whose selection stage 2 answers from.
    #[serde(default)]
    pub selection: SelectionSource,
}

/// Whose tool selection stage 2 answers from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SelectionSource {
    /// The model's own, as the protocol has it; a stage 1 that cannot be read ends the trace.
    #[default]
    Protocol,
    /// The trace's essential tools, so that models too weak for stage 1 can still be compared on stage 2. Stage 1 is
    /// generated and recorded all the same.
    Given,
}

fn selection_tokens() -> usize {
    160
}
fn response_tokens() -> usize {
    320
}
fn batch() -> usize {
    16
}

impl Default for GenerateSettings {
    fn default() -> Self {
        Self {
            selection_tokens: selection_tokens(),
            response_tokens: response_tokens(),
            temperature: 0.0,
            top_p: None,
            batch: batch(),
            selection: SelectionSource::default(),
        }
    }
}
