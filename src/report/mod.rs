//! Summaries become text and one self-contained HTML page.
//!
//! In: a run folder, read by [`collect`] into a [`Page`], or a [`Summary`](crate::evaluate::Summary). Out: [`render`] gives the
//! page (no network, no script: inline styles and SVG), [`text_table`] the terminal's view. Everything that comes from a file
//! is escaped.

mod chart;
mod collect;
mod example;
mod html;
mod page;
mod table;
mod text;

pub use collect::{FILE, collect};
pub use example::{Answer, Example};
pub use page::{Curve, Page, render};
pub use text::text_table;
