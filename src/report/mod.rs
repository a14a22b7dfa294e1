//! Summaries become text and one self-contained HTML page.
