//! Text made safe for HTML, and numbers made readable.
//!
//! In: any text, also a model's. Out: markup in which it is only ever text.

use std::fmt::Write as _;

/// Escapes text for element content and quoted attributes. Control characters, which HTML does not allow or which end a line
/// unseen, become their visible pictures.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            '\u{2028}' | '\u{2029}' | '\u{85}' => out.push('\u{2424}'),
            '\u{7f}' => out.push('\u{2421}'),
            control if u32::from(control) < 0x20 => {
                out.push(char::from_u32(0x2400 + u32::from(control)).unwrap_or('\u{fffd}'));
            }
            control if control.is_control() => out.push('\u{fffd}'),
            // Overrides of the writing direction could reorder what a reader sees of an answer.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(out, "&lt;U+{:04X}&gt;", u32::from(character));
            }
            other => out.push(other),
        }
    }
    out
}

/// A share as percent with one decimal, `n/a` when absent.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "n/a".to_owned(), |share| format!("{:.1}%", 100.0 * share + 0.0))
}

/// A difference of shares in percentage points, with its sign.
pub(super) fn points(difference: Option<f64>) -> String {
    difference.map_or_else(
        || "n/a".to_owned(),
        |difference| format!("{:+.1}", 100.0 * difference + 0.0).replace('-', "\u{2212}"),
    )
}

/// A p-value: three digits, in scientific form below a thousandth.
pub(super) fn p_value(p: f64) -> String {
    if p >= 0.001 { format!("{p:.3}") } else { format!("{p:.1e}") }
}

/// A number for an axis: as many decimals as the step between ticks needs.
pub(super) fn tick(value: f64, step: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e6).contains(&step) {
        return format!("{value:.0e}");
    }
    let decimals = (-step.log10()).ceil().clamp(0.0, 6.0) as usize;
    format!("{value:.decimals$}")
}

/// A column's heading and the side on which its cells stand.
#[derive(Debug, Clone, Copy)]
pub(super) enum Column {
    /// Words, to the left.
    Words(&'static str),
    /// Figures, to the right.
    Figures(&'static str),
}

impl Column {
    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Words(heading) => (heading, " class=\"words\""),
            Self::Figures(heading) => (heading, ""),
        }
    }
}

/// A table in a box that scrolls sideways on its own; `rows` are markup, the first cell of each names it.
pub(super) fn table(caption: &str, head: &[Column], rows: &[Vec<String>]) -> String {
    let mut out = format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{0}\" tabindex=\"0\"><table><caption>{0}</caption><thead><tr>",
        escape(caption)
    );
    for column in head {
        let (heading, class) = column.parts();
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(heading));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (index, (cell, column)) in row.iter().zip(head).enumerate() {
            let (_, class) = column.parts();
            let _ = if index == 0 {
                write!(out, "<th scope=\"row\"{class}>{cell}</th>")
            } else {
                write!(out, "<td{class}>{cell}</td>")
            };
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_an_answer_is_text() {
        assert_eq!(escape("<b a='x\" y'>&</b>"), "&lt;b a=&#39;x&quot; y&#39;&gt;&amp;&lt;/b&gt;");
    }

    #[test]
    fn line_separators_controls_and_direction_overrides_are_made_visible() {
        assert_eq!(escape("a\u{2028}b\0c\u{202e}d\ne"), "a\u{2424}b\u{2400}c&lt;U+202E&gt;d\ne");
    }

    #[test]
    fn absent_is_not_zero() {
        assert_eq!((percent(None).as_str(), percent(Some(0.0)).as_str()), ("n/a", "0.0%"));
        assert_eq!(points(Some(-0.125)), "\u{2212}12.5");
    }

    #[test]
    fn ticks_have_the_decimals_of_their_step() {
        assert_eq!([tick(0.25, 0.05), tick(20.0, 10.0), tick(5e-5, 5e-5)], ["0.25", "20", "5e-5"]);
    }
}
