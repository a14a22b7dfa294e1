//! Curves over training steps, or over another count, as inline SVG.
//!
//! In: [`Series`] of points. Out: a `<figure>` with a drawing that follows the page's colours and a sentence that says the same.

use std::fmt::Write as _;

use super::html::{escape, tick};

const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;

/// Points from which the raw line is drawn faint with its running mean over it.
const SMOOTHED_FROM: usize = 40;

/// Most points that a line is drawn with: more cannot be told apart at this width.
const MOST_POINTS: usize = 1_000;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Step and value, in the order of steps; only finite values.
    pub points: Vec<(f64, f64)>,
    /// Step, least and greatest value, where a point stands for several.
    pub ranges: Vec<(f64, f64, f64)>,
}

/// One drawing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chart {
    /// Title over the drawing.
    pub title: String,
    /// Lines; those without points are left out.
    pub series: Vec<Series>,
    /// A level to compare with, with its name: ln 2, or 0.
    pub reference: Option<(f64, &'static str)>,
    /// What the values are over: `step`.
    pub across: &'static str,
}

impl Chart {
    /// The figure; empty without any point.
    pub(super) fn render(&self) -> String {
        let series: Vec<&Series> = self.series.iter().filter(|series| !series.points.is_empty()).collect();
        if series.is_empty() {
            return String::new();
        }
        let scale = Scale::of(&series, self.reference.map(|(level, _)| level));
        let mut out = format!("<figure class=\"chart\"><figcaption>{}</figcaption>", escape(&self.title));
        let _ = write!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.sentence(&series))
        );
        scale.axes(self.across, &mut out);
        if let Some((level, name)) = self.reference {
            let y = scale.y(level);
            let _ = write!(
                out,
                "<line class=\"level\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                WIDTH - RIGHT,
                y - 4.0,
                escape(name)
            );
        }
        for (index, series) in series.iter().enumerate() {
            series.draw(&scale, index, &mut out);
        }
        out.push_str("</svg>");
        legend(&series, &mut out);
        out.push_str("</figure>\n");
        out
    }

    fn sentence(&self, series: &[&Series]) -> String {
        let parts: Vec<String> = series
            .iter()
            .filter_map(|series| {
                let ((first_step, first), (last_step, last)) = (series.points.first()?, series.points.last()?);
                let across = self.across;
                Some(format!(
                    "{} goes from {first:.4} at {across} {first_step:.0} to {last:.4} at {across} {last_step:.0}",
                    series.name
                ))
            })
            .collect();
        format!("{}: {}.", self.title, parts.join("; "))
    }
}

impl Series {
    fn draw(&self, scale: &Scale, index: usize, out: &mut String) {
        let smoothed = self.points.len() >= SMOOTHED_FROM;
        let class = if smoothed { "line faint" } else { "line" };
        let _ = write!(out, "<path class=\"{class} s{index}\" d=\"{}\"/>", scale.path(&thin(&self.points)));
        if smoothed {
            let mean = running_mean(&self.points, self.points.len() / 20);
            let _ = write!(out, "<path class=\"line s{index}\" d=\"{}\"/>", scale.path(&thin(&mean)));
        }
        for (x, low, high) in &self.ranges {
            let _ = write!(
                out,
                "<line class=\"line s{index}\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\"/>",
                scale.x(*x),
                scale.y(*low),
                scale.y(*high)
            );
        }
        let marked = if self.points.len() == 1 || !self.ranges.is_empty() { &self.points[..] } else { &[] };
        for (x, y) in marked {
            let _ = write!(
                out,
                "<circle class=\"dot s{index}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                scale.x(*x),
                scale.y(*y)
            );
        }
    }
}

fn legend(series: &[&Series], out: &mut String) {
    if series.len() < 2 {
        return;
    }
    out.push_str("<ul class=\"legend\">");
    for (index, series) in series.iter().enumerate() {
        let _ = write!(
            out,
            "<li><svg class=\"key\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><line class=\"line s{index}\" x1=\"0\" x2=\"24\" y1=\"4\" y2=\"4\"/></svg>{}</li>",
            escape(&series.name)
        );
    }
    out.push_str("</ul>");
}

/// Every n-th point, and the last.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = points.len().div_ceil(MOST_POINTS).max(1);
    let last = points.len().saturating_sub(1);
    points
        .iter()
        .enumerate()
        .filter(|(index, _)| index % every == 0 || *index == last)
        .map(|(_, point)| *point)
        .collect()
}

/// Mean over the points at most `reach` away on each side; the window stays centred, so ends are not shifted.
fn running_mean(points: &[(f64, f64)], reach: usize) -> Vec<(f64, f64)> {
    (0..points.len())
        .map(|index| {
            let reach = reach.min(index).min(points.len() - 1 - index);
            let window = &points[index - reach..=index + reach];
            (points[index].0, window.iter().map(|(_, value)| value).sum::<f64>() / window.len() as f64)
        })
        .collect()
}

/// From steps and values to places in the drawing.
struct Scale {
    x: (f64, f64),
    y: (f64, f64),
    y_step: f64,
}

impl Scale {
    fn of(series: &[&Series], level: Option<f64>) -> Self {
        let points = || series.iter().flat_map(|series| &series.points);
        let x = range(points().map(|(step, _)| *step));
        let ends = series.iter().flat_map(|series| &series.ranges).flat_map(|(_, low, high)| [*low, *high]);
        let (low, high) = range(points().map(|(_, value)| *value).chain(level).chain(ends));
        let y_step = nice_step(high - low, 5.0);
        Self { x, y: ((low / y_step).floor() * y_step, (high / y_step).ceil() * y_step), y_step }
    }

    fn x(&self, step: f64) -> f64 {
        LEFT + (step - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (value - self.y.0) / (self.y.1 - self.y.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        for (index, (step, value)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", self.x(*step), self.y(*value));
        }
        path
    }

    fn axes(&self, across: &str, out: &mut String) {
        let lines = ((self.y.1 - self.y.0) / self.y_step).round() as usize;
        for line in 0..=lines {
            let value = self.y.0 + line as f64 * self.y_step;
            let value = if value.abs() < self.y_step * 1e-6 { 0.0 } else { value };
            let y = self.y(value);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                tick(value, self.y_step)
            );
        }
        let step = nice_step(self.x.1 - self.x.0, 5.0).max(1.0);
        let mut value = (self.x.0 / step).ceil() * step;
        while value <= self.x.1 {
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                self.x(value),
                HEIGHT - BOTTOM + 15.0,
                tick(value, step)
            );
            value += step;
        }
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            HEIGHT - 4.0,
            escape(across)
        );
    }
}

/// Least and greatest, widened where they are equal.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if high - low > 1e-12 * high.abs().max(1e-30) {
        return (low, high);
    }
    let margin = if low == 0.0 { 1.0 } else { 0.1 * low.abs() };
    (low - margin, high + margin)
}

/// 1, 2 or 5 times a power of ten, so that about `count` steps cover `span`.
fn nice_step(span: f64, count: f64) -> f64 {
    let rough = (span / count).max(f64::MIN_POSITIVE * 1e6);
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> String {
        let series = vec![Series { name: "loss".to_owned(), points, ranges: Vec::new() }];
        Chart { title: "Loss".to_owned(), series, reference: None, across: "step" }.render()
    }

    #[test]
    fn a_chart_without_points_is_left_out() {
        assert_eq!(chart(Vec::new()), "");
    }

    #[test]
    fn constant_single_and_tiny_series_draw_finite_places() {
        for points in [
            vec![(1.0, 0.0), (2.0, 0.0)],
            vec![(7.0, 3.0)],
            vec![(1.0, 1e-7), (2.0, 2e-7)],
            vec![(1.0, -4.0), (2.0, -4.0)],
        ] {
            let svg = chart(points);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn the_running_mean_keeps_both_ends_and_evens_the_middle() {
        let points: Vec<(f64, f64)> =
            [0.0, 4.0, 2.0, 0.0].into_iter().enumerate().map(|(x, y)| (x as f64, y)).collect();
        let mean: Vec<f64> = running_mean(&points, 1).into_iter().map(|(_, value)| value).collect();
        assert_eq!(mean, [0.0, 2.0, 2.0, 0.0]);
    }

    #[test]
    fn long_logs_are_thinned_to_what_the_width_can_show() {
        let points: Vec<(f64, f64)> = (0..25_000).map(|step| (f64::from(step), 1.0)).collect();
        let kept = thin(&points);
        assert!(kept.len() <= MOST_POINTS + 1);
        assert_eq!(kept.last(), points.last());
    }

    #[expect(clippy::float_cmp, reason = "the steps are exact by construction")]
    #[test]
    fn steps_of_an_axis_are_round() {
        assert_eq!([nice_step(10.0, 5.0), nice_step(3.2, 5.0), nice_step(0.7, 5.0)], [2.0, 1.0, 0.2]);
    }
}
