//! Inline SVG: curves over steps, intervals on a scale from 0 to 100, bars by exit.

use std::fmt::Write as _;

use super::html::escape;
use super::text::percent;

/// Points beyond this many are averaged in bins: the eye sees no more, and the page stays small.
const POINTS: usize = 300;

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 130.0;
/// Room for the labels of the axes: left, right, top, bottom.
const MARGIN: (f64, f64, f64, f64) = (46.0, 8.0, 8.0, 20.0);

/// A curve over steps; `None` for fewer than two points.
pub(super) fn curve(title: &str, points: &[(f64, f64)]) -> Option<String> {
    let points = binned(points);
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < 2 || first.0 >= last.0 {
        return None;
    }
    let low = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    let range = if high > low { high - low } else { 1.0 };
    let (left, right, top, bottom) = MARGIN;
    let (plot_right, plot_bottom) = (WIDTH - right, HEIGHT - bottom);
    let x = |step: f64| left + (step - first.0) / (last.0 - first.0) * (plot_right - left);
    let y = |value: f64| plot_bottom - (value - low) / range * (plot_bottom - top);
    let line: Vec<String> = points.iter().map(|(step, value)| format!("{:.1},{:.1}", x(*step), y(*value))).collect();
    let label = format!(
        "{title}: {} at step {}, {} at step {}; lowest {}, highest {}",
        short(first.1),
        first.0,
        short(last.1),
        last.0,
        short(low),
        short(high)
    );
    let mut svg = format!(
        "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\"><title>{0}</title>\n",
        escape(&label)
    );
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "<path class=\"axis\" d=\"M{left} {top}V{plot_bottom}H{plot_right}\"/>");
    for (value, position) in [(high, y(high)), (low, y(low))] {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 4.0,
            position + 4.0,
            short(value)
        );
        if high <= low {
            break;
        }
    }
    for (step, anchor) in [(first.0, "start"), (last.0, "end")] {
        let _ =
            writeln!(svg, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{step}</text>", x(step), HEIGHT - 5.0);
    }
    let _ = write!(svg, "<polyline class=\"line\" points=\"{}\"/></svg>", line.join(" "));
    let _ = writeln!(svg, "<figcaption>{}</figcaption></figure>", escape(title));
    Some(svg)
}

/// Means of equal runs of points.
fn binned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(POINTS).max(1);
    let last = points.last().map(|point| point.0);
    let mut bins: Vec<(f64, f64)> = points
        .chunks(size)
        .map(|bin| {
            let mean = bin.iter().map(|point| point.1).sum::<f64>() / bin.len() as f64;
            (bin[0].0, mean)
        })
        .collect();
    if let (Some(bin), Some(last)) = (bins.last_mut(), last) {
        bin.0 = last;
    }
    bins
}

/// Three significant digits.
fn short(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if !(1e-3..1e5).contains(&size) {
        format!("{value:.1e}")
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A fraction and its interval on a scale from 0 to 1; decoration beside the figures, so hidden from screen readers.
pub(super) fn strip(value: f64, low: Option<f64>, high: Option<f64>) -> String {
    let x = |share: f64| 3.0 + share.clamp(0.0, 1.0) * 114.0;
    let mut svg =
        "<svg class=\"strip\" viewBox=\"0 0 120 12\" aria-hidden=\"true\"><path class=\"axis\" d=\"M3 6H117\"/>"
            .to_owned();
    if let Some((low, high)) = low.zip(high) {
        let _ = write!(svg, "<path class=\"whisker\" d=\"M{:.1} 6H{:.1}\"/>", x(low), x(high));
    }
    let _ = write!(svg, "<circle cx=\"{:.1}\" cy=\"6\" r=\"3\"/></svg>", x(value));
    svg
}

/// A share of rows as a bar with its figure.
pub(super) fn bar(class: &str, count: usize, of: usize) -> String {
    if of == 0 {
        return "none judged".to_owned();
    }
    let share = count as f64 / of as f64;
    format!(
        "<span class=\"bar\"><span class=\"fill {class}\" style=\"width:{}%\"></span></span> {} % ({count} of {of})",
        percent(share),
        percent(share)
    )
}
