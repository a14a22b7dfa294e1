//! The list of held-out traces, to be searched: by any text of theirs, by verdict, by system.
//!
//! In: [`Example`]s. Out: a section whose traces all stand in the page; the page's script only hides those that do not match, so
//! that without it, and in print, everything is there.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Example;
use super::example::example;
use super::html::escape;
use super::page::section;
use crate::evaluate::Class;

/// The script of the list, which reads and hides what the page holds already.
pub(super) const SCRIPT: &str = include_str!("list.js");

/// The section; none without traces.
pub(super) fn list(examples: &[Example], left_out: usize, out: &mut String) {
    if examples.is_empty() {
        return;
    }
    section("examples", "Held-out traces", out);
    out.push_str(
        "<p class=\"note\">Those first on which the systems differ. Marked: <mark class=\"e0\">the conclusion</mark> \
         <mark class=\"e1\">private fragments</mark> <mark class=\"e2\">weak or distant matches, which decide nothing alone</mark> \
         <mark class=\"e3\">refusals</mark>. Answers are shown as they came, sensitive conclusions included.</p>\n",
    );
    if left_out > 0 {
        let _ = writeln!(
            out,
            "<p class=\"note\">{left_out} more are not on this page; <code>verdicts.jsonl</code> has them.</p>"
        );
    }
    controls(examples, out);
    out.push_str("<div id=\"traces\">\n");
    for row in examples {
        out.push_str(&example(row));
    }
    out.push_str("</div></section>\n");
}

/// The fields of the search; hidden until the script shows them.
fn controls(examples: &[Example], out: &mut String) {
    let mut systems: Vec<&str> = Vec::new();
    for answer in examples.iter().flat_map(|example| &example.answers) {
        if !systems.contains(&answer.verdict.system.as_str()) {
            systems.push(&answer.verdict.system);
        }
    }
    let found: BTreeSet<Class> =
        examples.iter().flat_map(|example| &example.answers).map(|answer| answer.verdict.class).collect();
    out.push_str(
        "<form class=\"find\" id=\"find\" role=\"search\" aria-label=\"Held-out traces\" hidden>\
         <label>Text <input type=\"search\" id=\"find-text\" autocomplete=\"off\" spellcheck=\"false\"></label>\
         <label>Verdict <select id=\"find-class\"><option value=\"\">any</option>",
    );
    for class in found {
        let _ = write!(out, "<option>{}</option>", class.name());
    }
    out.push_str("</select></label><label>System <select id=\"find-system\"><option value=\"\">any</option>");
    for system in systems {
        let _ = write!(out, "<option>{}</option>", escape(system));
    }
    let _ = writeln!(
        out,
        "</select></label><button type=\"button\" id=\"find-open\" aria-pressed=\"false\">Open all</button>\
         <p id=\"find-count\" class=\"muted\" role=\"status\" aria-live=\"polite\">{0} of {0} traces</p></form>",
        examples.len()
    );
}
