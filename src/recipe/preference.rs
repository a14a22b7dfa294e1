//! Which loss compares answers, and what it can be told: a loss only holds the settings that it honours.

use serde::{Deserialize, Serialize};

use super::settings::{Positive, TrainSettings};
use crate::dataset::PairKind;

/// The name of a preference loss in a recipe: `dpo.loss`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossName {
    /// DPO.
    #[default]
    Sigmoid,
    /// Robust DPO.
    Robust,
    /// Identity preference optimisation.
    Ipo,
    /// A hinge on the margin.
    Hinge,
    /// Length-normalised and without reference.
    Simpo,
    /// Odds ratio, without reference.
    Orpo,
    /// Answers one by one; pairs are not needed.
    Kto,
}

impl LossName {
    /// As a recipe writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sigmoid => "sigmoid",
            Self::Robust => "robust",
            Self::Ipo => "ipo",
            Self::Hinge => "hinge",
            Self::Simpo => "simpo",
            Self::Orpo => "orpo",
            Self::Kto => "kto",
        }
    }
}

/// A share of labels taken to be wrong: at least 0 and below 0.5.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Smoothing(f64);

impl Smoothing {
    /// Labels are right.
    pub const NONE: Self = Self(0.0);
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Smoothing {
    type Error = String;
    fn try_from(value: f64) -> Result<Self, String> {
        if (0.0..0.5).contains(&value) { Ok(Self(value)) } else { Err(format!("must be below 0.5, got `{value}`")) }
    }
}

impl From<Smoothing> for f64 {
    fn from(value: Smoothing) -> Self {
        value.0
    }
}

/// A finite number of at least 0.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct NonNegative(f64);

impl NonNegative {
    /// Nothing.
    pub const ZERO: Self = Self(0.0);
    /// One half.
    pub const HALF: Self = Self(0.5);
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for NonNegative {
    type Error = String;
    fn try_from(value: f64) -> Result<Self, String> {
        if value.is_finite() && value >= 0.0 {
            Ok(Self(value))
        } else {
            Err(format!("must be at least 0, got `{value}`"))
        }
    }
}

impl From<NonNegative> for f64 {
    fn from(value: NonNegative) -> Self {
        value.0
    }
}

/// A preference loss with the settings that are its own. beta is every loss's and stands beside it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PreferenceLoss {
    /// DPO (Rafailov et al. 2023, equation 7); conservative DPO (Mitchell 2023) where labels are smoothed.
    Sigmoid {
        /// Share of labels taken to be wrong.
        label_smoothing: Smoothing,
    },
    /// Robust DPO (Chowdhury et al. 2024, equation 12): unbiased under that share of flipped labels.
    Robust {
        /// Share of labels taken to be wrong.
        label_smoothing: Smoothing,
    },
    /// IPO (Azar et al. 2023, equation 17) on log ratios per token.
    Ipo,
    /// A hinge on beta times the margin (Zhao et al. 2023).
    Hinge,
    /// `SimPO` (Meng et al. 2024, equation 6): log-probability per token, a target margin, no reference.
    Simpo {
        /// gamma: the margin that beta times the difference is asked to exceed.
        target_margin: NonNegative,
        /// Share of labels taken to be wrong.
        label_smoothing: Smoothing,
    },
    /// ORPO (Hong et al. 2024, equation 6): the chosen answer's loss per token and beta times the odds-ratio term.
    Orpo,
    /// KTO (Ethayarajh et al. 2024, equation 8): each answer against a baseline.
    Kto {
        /// Weight of chosen answers.
        desirable_weight: Positive,
        /// Weight of rejected answers.
        undesirable_weight: Positive,
    },
}

impl PreferenceLoss {
    /// Plain DPO.
    pub const DPO: Self = Self::Sigmoid { label_smoothing: Smoothing::NONE };

    /// The name.
    pub fn name(self) -> LossName {
        match self {
            Self::Sigmoid { .. } => LossName::Sigmoid,
            Self::Robust { .. } => LossName::Robust,
            Self::Ipo => LossName::Ipo,
            Self::Hinge => LossName::Hinge,
            Self::Simpo { .. } => LossName::Simpo,
            Self::Orpo => LossName::Orpo,
            Self::Kto { .. } => LossName::Kto,
        }
    }

    /// Whether the loss compares with the policy as it was at the start. Without, no reference pass is made.
    pub fn needs_reference(self) -> bool {
        !matches!(self, Self::Simpo { .. } | Self::Orpo)
    }

    /// Whether it compares two answers; KTO takes each alone, so that a row may lack its other half.
    pub fn is_paired(self) -> bool {
        !matches!(self, Self::Kto { .. })
    }

    fn label_smoothing(self) -> Option<Smoothing> {
        match self {
            Self::Sigmoid { label_smoothing }
            | Self::Robust { label_smoothing }
            | Self::Simpo { label_smoothing, .. } => Some(label_smoothing),
            Self::Ipo | Self::Hinge | Self::Orpo | Self::Kto { .. } => None,
        }
    }
}

/// How much a pair counts by why its rejected answer is worse. The loss of a step is the weighted mean of its pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct KindWeights {
    /// Of pairs whose rejected answer states the conclusion.
    pub explicit_leak: Positive,
    /// Of pairs whose rejected answer adds private fragments.
    pub over_disclosure: Positive,
    /// Of pairs whose rejected answer declines or withholds.
    pub over_refusal: Positive,
}

impl KindWeights {
    /// The weight of a kind.
    pub fn of(self, kind: PairKind) -> f64 {
        match kind {
            PairKind::ExplicitLeak => self.explicit_leak,
            PairKind::OverDisclosure => self.over_disclosure,
            PairKind::OverRefusal => self.over_refusal,
        }
        .get()
    }
}

/// Preference optimisation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(into = "Written")]
pub struct DpoSettings {
    /// Common part.
    pub train: TrainSettings,
    /// The loss.
    pub loss: PreferenceLoss,
    /// beta: the strength of the hold to the reference; tau of IPO, the scale of `SimPO`, lambda of ORPO.
    pub beta: Positive,
    /// Weight of the SFT term on the chosen answer (per token); 0 leaves it out. ORPO and KTO have none.
    pub chosen_weight: NonNegative,
    /// Weights by kind of pair; absent counts every pair alike.
    pub kind_weights: Option<KindWeights>,
    /// The kinds of pairs that are trained on; absent takes every pair.
    pub kinds: Option<Vec<PairKind>>,
}

impl DpoSettings {
    /// Plain DPO with the recipe's defaults.
    pub fn plain(train: TrainSettings) -> Self {
        Self {
            train,
            loss: PreferenceLoss::DPO,
            beta: super::settings::defaults::BETA,
            chosen_weight: NonNegative::ZERO,
            kind_weights: None,
            kinds: None,
        }
    }
}

impl DpoSettings {
    /// Whether pairs of this kind are trained on; a pair without a kind is of none that can be named.
    pub fn takes(&self, kind: Option<PairKind>) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kind.is_some_and(|kind| kinds.contains(&kind)))
    }
}

/// The settings as a recipe has them: only the keys that the loss honours.
#[derive(Serialize)]
struct Written {
    #[serde(flatten)]
    train: TrainSettings,
    #[serde(skip_serializing_if = "is_sigmoid")]
    loss: LossName,
    beta: Positive,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_smoothing: Option<Smoothing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_margin: Option<NonNegative>,
    #[serde(skip_serializing_if = "Option::is_none")]
    desirable_weight: Option<Positive>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undesirable_weight: Option<Positive>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen_weight: Option<NonNegative>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kinds: Option<Vec<PairKind>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind_weights: Option<KindWeights>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_sigmoid(loss: &LossName) -> bool {
    *loss == LossName::Sigmoid
}

impl From<DpoSettings> for Written {
    fn from(settings: DpoSettings) -> Self {
        let (desirable_weight, undesirable_weight) = match settings.loss {
            PreferenceLoss::Kto { desirable_weight, undesirable_weight } => {
                (Some(desirable_weight), Some(undesirable_weight))
            }
            _ => (None, None),
        };
        let target_margin = match settings.loss {
            PreferenceLoss::Simpo { target_margin, .. } => Some(target_margin),
            _ => None,
        };
        let has_chosen_term = !matches!(settings.loss, PreferenceLoss::Orpo | PreferenceLoss::Kto { .. });
        Self {
            train: settings.train,
            loss: settings.loss.name(),
            beta: settings.beta,
            label_smoothing: settings.loss.label_smoothing(),
            target_margin,
            desirable_weight,
            undesirable_weight,
            chosen_weight: has_chosen_term.then_some(settings.chosen_weight),
            kind_weights: settings.kind_weights,
            kinds: settings.kinds,
        }
    }
}
