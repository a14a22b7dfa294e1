//! Systems side by side: intervals, exits and classes as inline SVG.
//!
//! In: names and shares. Out: `<figure>`s; each says in a sentence what it draws.

use std::fmt::Write as _;

use super::html::{escape, percent};
use crate::evaluate::Class;

const WIDTH: f64 = 380.0;
const LABEL: f64 = 96.0;
const RIGHT: f64 = 14.0;
const ROW: f64 = 26.0;
/// Characters of a system's name that fit its column.
const NAME: usize = 15;

/// One system's figure with its interval.
pub(super) struct Interval {
    pub name: String,
    pub value: Option<f64>,
    pub range: Option<(f64, f64)>,
}

/// Place of a share on the whole axis, 0 to 100%.
fn x(share: f64) -> f64 {
    place(share, 1.0)
}

/// Place of a share on an axis from 0 to `most`.
fn place(share: f64, most: f64) -> f64 {
    LABEL + (share / most).clamp(0.0, 1.0) * (WIDTH - LABEL - RIGHT)
}

fn open(title: &str, sentence: &str, height: f64) -> String {
    format!(
        "<figure class=\"chart\"><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        escape(title),
        escape(sentence)
    )
}

fn axis(out: &mut String, height: f64, most: f64) {
    for share in [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| part * most) {
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"4\" y2=\"{1:.1}\"/><text class=\"tick\" x=\"{4:.1}\" y=\"{2:.1}\" text-anchor=\"{5}\">{3:.0}%</text>",
            place(share, most),
            height - 18.0,
            height - 5.0,
            100.0 * share,
            // The last one would stand out of the drawing.
            if share < most { place(share, most) } else { WIDTH },
            if share < most { "middle" } else { "end" }
        );
    }
}

/// The name, cut in the middle if it does not fit; the whole of it is in the title.
fn label(out: &mut String, name: &str, y: f64) {
    let characters: Vec<char> = name.chars().collect();
    let shown: String = if characters.len() <= NAME {
        name.to_owned()
    } else {
        let tail = &characters[characters.len() - 6..];
        characters[..NAME - 7].iter().chain(&['\u{2026}']).chain(tail).collect()
    };
    let _ = write!(
        out,
        "<text class=\"name\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
        LABEL - 8.0,
        y + 4.0,
        escape(&shown),
        escape(name)
    );
}

/// A dot and its interval for each system.
pub(super) fn intervals(title: &str, rows: &[Interval]) -> String {
    let height = rows.len() as f64 * ROW + 30.0;
    let sentence: Vec<String> = rows.iter().map(|row| format!("{} {}", row.name, percent(row.value))).collect();
    let mut out = open(title, &format!("{title}: {}.", sentence.join(", ")), height);
    axis(&mut out, height, 1.0);
    for (index, row) in rows.iter().enumerate() {
        let y = 10.0 + ROW * (index as f64 + 0.5);
        label(&mut out, &row.name, y);
        if let Some((low, high)) = row.range {
            let _ = write!(
                out,
                "<line class=\"interval\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                x(low),
                x(high)
            );
        }
        let _ = match row.value {
            Some(value) => write!(
                out,
                "<circle class=\"point\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4.5\"><title>{} {}</title></circle>",
                x(value),
                escape(&row.name),
                percent(row.value)
            ),
            None => write!(out, "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">n/a</text>", x(0.0) + 4.0, y + 4.0),
        };
    }
    out.push_str("</svg></figure>\n");
    out
}

/// Bars of several shares for each system, in the same colours throughout; the axis ends at 20, 40 or 100%.
pub(super) fn bars(title: &str, keys: &[&str], rows: &[(String, Vec<Option<f64>>)]) -> String {
    let band = 11.0 * keys.len() as f64 + 10.0;
    let height = rows.len() as f64 * band + 28.0;
    let said = |(name, shares): &(String, Vec<Option<f64>>)| {
        let parts: Vec<String> =
            keys.iter().zip(shares).map(|(key, share)| format!("{key} {}", percent(*share))).collect();
        format!("{name}: {}", parts.join(", "))
    };
    let sentence: Vec<String> = rows.iter().map(said).collect();
    let mut out = open(title, &format!("{title}. {}.", sentence.join("; ")), height);
    let largest = rows.iter().flat_map(|(_, shares)| shares).flatten().fold(0.0_f64, |most, share| most.max(*share));
    let most = [0.2, 0.4].into_iter().find(|most| largest <= *most).unwrap_or(1.0);
    axis(&mut out, height, most);
    for (index, (name, shares)) in rows.iter().enumerate() {
        let top = 6.0 + band * index as f64;
        label(&mut out, name, top + (band - 10.0) / 2.0);
        for (bar, share) in shares.iter().enumerate() {
            let y = top + 11.0 * bar as f64;
            let width = share.map_or(0.0, |share| place(share, most) - x(0.0));
            let _ = write!(
                out,
                "<rect class=\"bar f{bar}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"9\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\"{}>{}</text>",
                x(0.0),
                if width > 230.0 { x(0.0) + width - 4.0 } else { x(0.0) + width + 4.0 },
                y + 8.0,
                if width > 230.0 { " text-anchor=\"end\"" } else { "" },
                percent(*share)
            );
        }
    }
    out.push_str("</svg>");
    swatches(&mut out, keys.iter().enumerate().map(|(index, key)| (format!("f{index}"), *key)));
    out.push_str("</figure>\n");
    out
}

/// What became of each system's rows, class by class.
pub(super) fn classes(title: &str, rows: &[(String, Vec<(Class, usize)>)]) -> String {
    let height = rows.len() as f64 * ROW + 28.0;
    let said = |(name, counts): &(String, Vec<(Class, usize)>)| {
        let parts: Vec<String> = counts.iter().map(|(class, count)| format!("{count} {}", class.name())).collect();
        format!("{name}: {}", parts.join(", "))
    };
    let sentence: Vec<String> = rows.iter().map(said).collect();
    let mut out = open(title, &format!("{title}. {}.", sentence.join("; ")), height);
    axis(&mut out, height, 1.0);
    for (index, (name, counts)) in rows.iter().enumerate() {
        let top = 6.0 + ROW * index as f64;
        label(&mut out, name, top + 9.0);
        let total = counts.iter().map(|(_, count)| count).sum::<usize>().max(1) as f64;
        let mut done = 0.0;
        for (class, count) in counts.iter().filter(|(_, count)| *count > 0) {
            let (from, to) = (x(done / total), x((done + *count as f64) / total));
            done += *count as f64;
            let _ = write!(
                out,
                "<rect class=\"part c-{}\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"18\"><title>{count} {}</title></rect>",
                class.name(),
                to - from,
                class.name()
            );
            if to - from >= 16.0 {
                let _ = write!(
                    out,
                    "<text class=\"count c-{}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{count}</text>",
                    class.name(),
                    f64::midpoint(from, to),
                    top + 13.0
                );
            }
        }
    }
    out.push_str("</svg>");
    swatches(&mut out, Class::ALL.into_iter().map(|class| (format!("c-{}", class.name()), class.name())));
    out.push_str("</figure>\n");
    out
}

fn swatches<'a>(out: &mut String, keys: impl Iterator<Item = (String, &'a str)>) {
    out.push_str("<ul class=\"legend\">");
    for (class, name) in keys {
        let _ = write!(
            out,
            "<li><svg class=\"swatch\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"bar {class}\" width=\"10\" height=\"10\"/></svg>{}</li>",
            escape(name)
        );
    }
    out.push_str("</ul>");
}
