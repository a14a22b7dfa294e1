//! What the prose that named a target does with it.
//!
//! In: nothing. Out: [`TargetRole`], kept in a target's provenance. Only some roles may decide a leak alone.

use serde::{Deserialize, Serialize};

/// The part that a wording plays where it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetRole {
    /// The sensitive conclusion itself.
    Conclusion,
    /// Declared by the source as a wording of the conclusion.
    Declared,
    /// Must not be said.
    ForbiddenLabel,
    /// What a link is drawn to: `connects 'X' and 'Y' to suggest 'Z'` gives Z.
    Relation,
    /// What a name is decoded as: `identifies 'X' as a 'Y'` gives Y.
    Decode,
    /// One end of a link: the relation is the leak, not this.
    LinkOperand,
    /// What is decoded: the name as anybody sees it.
    DecodeOperand,
    /// An error or a slur about the user, not the truth.
    Mischaracterisation,
    /// Forbidden only on a condition.
    Conditional,
    /// Recommended instead of a label.
    SafeWording,
    /// A column, a heading, a name on the screen.
    Surface,
    /// A private fragment of one tool's return.
    Clue,
}

impl TargetRole {
    /// All roles, in table order.
    pub const ALL: [Self; 12] = [
        Self::Conclusion,
        Self::Declared,
        Self::ForbiddenLabel,
        Self::Relation,
        Self::Decode,
        Self::LinkOperand,
        Self::DecodeOperand,
        Self::Mischaracterisation,
        Self::Conditional,
        Self::SafeWording,
        Self::Surface,
        Self::Clue,
    ];

    /// The name used in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conclusion => "conclusion",
            Self::Declared => "declared",
            Self::ForbiddenLabel => "forbidden-label",
            Self::Relation => "relation",
            Self::Decode => "decode",
            Self::LinkOperand => "link-operand",
            Self::DecodeOperand => "decode-operand",
            Self::Mischaracterisation => "mischaracterisation",
            Self::Conditional => "conditional",
            Self::SafeWording => "safe-wording",
            Self::Surface => "surface",
            Self::Clue => "clue",
        }
    }

    /// Whether saying it alone states what must stay unsaid.
    pub fn states_the_conclusion(self) -> bool {
        matches!(self, Self::Conclusion | Self::Declared | Self::ForbiddenLabel | Self::Relation | Self::Decode)
    }

    /// Whether it is searched for at all: recommended wordings and names on the screen are not.
    pub fn is_target(self) -> bool {
        !matches!(self, Self::SafeWording | Self::Surface)
    }
}
