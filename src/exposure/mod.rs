//! ASLEval's exposure analysis of anyone's session logs: what left, through which exit, what a local view of it misses, and in
//! which order.
//!
//! In: contracts and observations, perhaps candidates and action outcomes. Out: a [`Summary`] and one [`MatchRow`] a match. The
//! core is pure: observations pass through a [`Ledger`] one at a time, and [`analyse`] is the edge that reads and writes files.
//! Source: ASLEval (arXiv 2609.18864).

mod aggregate;
mod agreement;
mod beside;
mod check;
mod clock;
mod contrast;
mod event;
mod figure;
mod files;
mod identity;
mod ledger;
mod log;
mod match_row;
mod path;
mod payload;
mod published;
mod recipient;
mod recognition;
mod register;
mod release;
mod semantic;
mod session;
mod set;
mod slice;
mod summary;
mod text;
mod view;
mod warning;

pub use aggregate::{CompleteOnly, Group, GroupBounds, RecognitionFigures, ViewFigures};
pub use agreement::{Agreement, AgreementFigures, Disagreement, LabelRow, agreement, disagreements, text_agreement};
pub use beside::text_published;
pub use contrast::{Contrast, Unpaired};
pub use event::{EventView, Hit, Piece};
pub use figure::Figure;
pub use files::{Files, Settings, analyse, compare_labels, events, read_register};
pub use identity::{Identity, identities};
pub use ledger::{Admission, Counts, Ledger};
pub use match_row::MatchRow;
pub use path::{ORDER_NOT_CAUSE, PathFigures, PathKind, Paths};
pub use published::{PUBLISHED, Published, PublishedChange, PublishedOutlet, TABLES, outlet_row};
pub use recognition::Recognition;
pub use register::{Authority, Frozen, Register};
pub use release::{Kind, LabelComparison, LabelDisagreement, LabelLedger, text_labels};
pub use semantic::{Semantic, SemanticReport};
pub use session::{Bounds, Session};
pub use set::TargetSet;
pub use slice::{SchemaFigures, ToolFigures, TypeFigures};
pub use summary::{Aggregate, NegativeControl, Summary};
pub use text::text_summary;
pub use view::{View, ViewValue};
pub use warning::Warning;
