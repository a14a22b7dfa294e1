//! Summaries become text and one self-contained HTML page.

mod text;

pub use text::text_table;
