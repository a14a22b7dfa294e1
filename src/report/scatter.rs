//! Privacy against utility: a point a system, over contours of equal H.
//!
//! In: names, leakage and completion with their intervals. Out: a `<figure>` whose sentence says the same.

use std::fmt::Write as _;

use super::html::{escape, percent};

const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 38.0;

/// Levels of H that are drawn.
const LEVELS: [f64; 5] = [0.2, 0.4, 0.6, 0.8, 0.9];

/// Points of a contour.
const STEPS: usize = 60;

/// Shares that lie nearer than this are one place.
const NEAR: f64 = 0.02;

/// How a point is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// An untrained system: a ring.
    Ring,
    /// A trained one: a disc.
    Disc,
}

/// One system.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub name: String,
    pub mark: Mark,
    pub leakage: Option<f64>,
    pub leakage_range: Option<(f64, f64)>,
    pub completion: Option<f64>,
    pub completion_range: Option<(f64, f64)>,
    pub h: Option<f64>,
}

fn x(leakage: f64) -> f64 {
    LEFT + leakage.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
}

fn y(completion: f64) -> f64 {
    HEIGHT - BOTTOM - completion.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
}

/// The figure; contours are named at their upper ends, since systems gather at the left. Systems without both rates are named below it.
pub(super) fn scatter(title: &str, points: &[Point]) -> String {
    let said: Vec<String> = points
        .iter()
        .map(|point| {
            let Point { name, leakage, completion, h, .. } = point;
            format!("{name} leaks {}, completes {}, H {}", percent(*leakage), percent(*completion), percent(*h))
        })
        .collect();
    let mut out = format!(
        "<figure class=\"chart tall\"><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(title),
        escape(&format!("{title}. {}.", said.join("; ")))
    );
    axes(&mut out);
    for level in LEVELS {
        contour(level, &mut out);
    }
    let placed: Vec<(usize, &Point, f64, f64)> = points
        .iter()
        .enumerate()
        .filter_map(|(index, point)| Some((index, point, point.leakage?, point.completion?)))
        .collect();
    for (_, point, leakage, completion) in &placed {
        cross(point, (*leakage, *completion), &mut out);
    }
    places(&placed, &mut out);
    out.push_str("</svg><ul class=\"legend\">");
    for (index, point) in points.iter().enumerate() {
        let h = point.h.map_or_else(|| "not placed".to_owned(), |h| format!("H {}", percent(Some(h))));
        let _ = write!(out, "<li><b>{}</b> {} <span class=\"muted\">{h}</span></li>", index + 1, escape(&point.name));
    }
    out.push_str("</ul></figure>\n");
    out
}

fn axes(out: &mut String) {
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\"/><text class=\"tick\" x=\"{0:.1}\" y=\"{3:.1}\" text-anchor=\"middle\">{4:.0}</text>",
            x(share),
            y(1.0),
            y(0.0),
            y(0.0) + 14.0,
            100.0 * share
        );
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{2:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}</text>",
            x(0.0),
            x(1.0),
            y(share),
            x(0.0) - 6.0,
            y(share) + 4.0,
            100.0 * share
        );
    }
    let _ = write!(
        out,
        "<text class=\"tick\" x=\"{0:.1}\" y=\"{1}\" text-anchor=\"middle\">leakage, % (less is better)</text>\
         <text class=\"tick\" x=\"11\" y=\"{2:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 11 {2:.1})\">completion, %</text>",
        f64::midpoint(x(0.0), x(1.0)),
        HEIGHT - 6.0,
        f64::midpoint(y(0.0), y(1.0))
    );
}

/// Where 2 CR (1 - LR) / (CR + 1 - LR) is `level`: CR = level P / (2 P - level) with P = 1 - LR.
fn contour(level: f64, out: &mut String) {
    // Completion is 1 there; beyond it there is no such H.
    let last = 1.0 - level / (2.0 - level);
    let mut path = String::new();
    for step in 0..=STEPS {
        let leakage = last * step as f64 / STEPS as f64;
        let privacy = 1.0 - leakage;
        let completion = level * privacy / (2.0 * privacy - level);
        let command = if step == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", x(leakage), y(completion));
    }
    let _ = write!(
        out,
        "<path class=\"contour\" d=\"{path}\"/><text class=\"tick number\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}</text>",
        x(last) - 1.0,
        y(1.0) + 11.0,
        100.0 * level
    );
}

fn cross(point: &Point, (leakage, completion): (f64, f64), out: &mut String) {
    if let Some((low, high)) = point.leakage_range {
        let _ = write!(
            out,
            "<line class=\"interval thin\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/>",
            x(low),
            x(high),
            y(completion)
        );
    }
    if let Some((low, high)) = point.completion_range {
        let _ = write!(
            out,
            "<line class=\"interval thin\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\"/>",
            x(leakage),
            y(low),
            y(high)
        );
    }
}

/// A mark a system, and for each place the numbers of all systems there.
fn places(placed: &[(usize, &Point, f64, f64)], out: &mut String) {
    let mut places: Vec<(f64, f64, Vec<String>)> = Vec::new();
    for (index, point, leakage, completion) in placed {
        let class = if point.mark == Mark::Ring { "ring" } else { "point" };
        let _ = write!(
            out,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{}</title></circle>",
            x(*leakage),
            y(*completion),
            escape(&point.name)
        );
        let number = (index + 1).to_string();
        let is_near = |place: &&mut (f64, f64, Vec<String>)| {
            (place.0 - leakage).abs() < NEAR && (place.1 - completion).abs() < NEAR
        };
        match places.iter_mut().find(is_near) {
            Some((_, _, numbers)) => numbers.push(number),
            None => places.push((*leakage, *completion, vec![number])),
        }
    }
    for (leakage, completion, numbers) in places {
        let (right, top) = (leakage > 0.85, completion > 0.95);
        let _ = write!(
            out,
            "<text class=\"name number\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{}\">{}</text>",
            if right { x(leakage) - 8.0 } else { x(leakage) + 8.0 },
            if top { y(completion) + 14.0 } else { y(completion) - 7.0 },
            if right { "end" } else { "start" },
            numbers.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, leakage: Option<f64>, completion: f64) -> Point {
        Point {
            name: name.to_owned(),
            mark: Mark::Disc,
            leakage,
            leakage_range: Some((0.0, 0.2)),
            completion: Some(completion),
            completion_range: None,
            h: leakage.map(|leakage| crate::statistic::h_score(completion, leakage)),
        }
    }

    #[test]
    fn systems_in_one_place_share_a_label_and_one_without_a_rate_is_only_named() {
        let svg =
            scatter("Privacy", &[point("a", Some(0.1), 0.5), point("b", Some(0.105), 0.5), point("<c>", None, 0.9)]);
        assert!(svg.contains(">1, 2</text>"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("&lt;c&gt; <span class=\"muted\">not placed"), "{svg}");
        assert!(svg.contains("b leaks 10.5%, completes 50.0%, H 64.2%"), "{svg}");
    }

    #[test]
    fn a_contour_holds_only_points_of_its_h() {
        let mut drawn = String::new();
        contour(0.6, &mut drawn);
        let path = drawn.split("d=\"M").nth(1).unwrap().split('"').next().unwrap();
        for place in path.split('L') {
            let (across, up) = place.split_once(' ').unwrap();
            let across: f64 = across.parse().unwrap();
            let up: f64 = up.parse().unwrap();
            let leakage = (across - LEFT) / (WIDTH - LEFT - RIGHT);
            let completion = (HEIGHT - BOTTOM - up) / (HEIGHT - TOP - BOTTOM);
            assert!((crate::statistic::h_score(completion, leakage) - 0.6).abs() < 2e-3, "{place}");
        }
    }
}
