//! The page of an exposure analysis: the paper's figures, and from every number down to the bytes behind it.
//!
//! In: a [`Summary`] and the events of sessions. Out: one HTML document with its style, script and data inside, that loads
//! nothing. The script only ever sets text; the page allows no other script by its digest.

mod bars;
mod data;
mod gaps;
mod sessions;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

use super::html::escape;
use crate::exposure::{EventView, PUBLISHED, Summary};
use crate::session::Outcome;

const STYLE: &str = include_str!("../style.css");
const OWN_STYLE: &str = include_str!("exposure.css");
const SCRIPT: &str = include_str!("exposure.js");

/// Events that a page holds at most; sessions past that show their figures only.
const MOST_EVENTS: u64 = 40_000;

/// Whether the paper's numbers stand beside one's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// Own figures only.
    Own,
    /// With the paper's, marked as published.
    Paper,
}

/// The sessions whose events fit on a page: those with exposure first, then by id.
pub fn sessions_to_show(summary: &Summary) -> BTreeSet<String> {
    let (exposed, quiet): (Vec<_>, Vec<_>) = summary.sessions.iter().partition(|session| session.exposed > 0);
    let mut left = MOST_EVENTS;
    let mut shown = BTreeSet::new();
    for session in exposed.into_iter().chain(quiet) {
        let events = session.observations + session.unscored;
        if events > left {
            break;
        }
        left -= events;
        shown.insert(session.session_id.clone());
    }
    shown
}

/// Renders the page.
pub fn render_exposure(
    summary: &Summary,
    events: &BTreeMap<String, Vec<EventView>>,
    title: &str,
    reference: Reference,
) -> String {
    page(summary, events, title, reference, "")
}

/// Renders the page of a run of sessions: the same, with what was known beforehand and the price of privacy.
pub fn render_sessions(
    outcome: &Outcome,
    events: &BTreeMap<String, Vec<EventView>>,
    title: &str,
    reference: Reference,
) -> String {
    page(&outcome.summary, events, title, reference, &sessions::sections(outcome))
}

/// `more` are sections of its own, markup that follows the overview.
fn page(
    summary: &Summary,
    events: &BTreeMap<String, Vec<EventView>>,
    title: &str,
    reference: Reference,
    more: &str,
) -> String {
    let mut out = head(title);
    overview(summary, events.len(), &mut out);
    out.push_str(more);
    out.push_str(&bars::coverage(summary, reference));
    out.push_str(&bars::outlet_loss(summary));
    tables::views(summary, reference, &mut out);
    tables::contrasts(summary, &mut out);
    tables::recognition(summary, reference, &mut out);
    tables::paths(summary, reference, &mut out);
    tables::slices(summary, &mut out);
    gaps::completeness(summary, &mut out);
    if reference == Reference::Paper {
        gaps::interventions(&mut out);
    }
    tables::identities(summary, &mut out);
    tables::warnings(summary, &mut out);
    out.push_str(SESSIONS);
    let _ = writeln!(
        out,
        "</main><script type=\"application/json\" id=\"data\">{}</script>\n<script>{SCRIPT}</script></body></html>",
        data::embedded(summary, events)
    );
    out
}

const SESSIONS: &str = "<section aria-labelledby=\"sessions\"><h2 id=\"sessions\">Sessions</h2>\
    <p class=\"note\">Choose a number above or a session here to see its events in order. Payloads are shown as they were logged, \
    sensitive values included. Internal events are evidence of the path and never count as exposure.</p>\
    <div class=\"controls\"><label>Find <input id=\"find\" type=\"search\" autocomplete=\"off\"></label>\
    <label>Condition <select id=\"condition\"></select></label>\
    <label>Show <select id=\"show\"></select></label>\
    <label>Order <select id=\"order\"></select></label></div>\
    <p id=\"count\" class=\"muted\" role=\"status\" aria-live=\"polite\"></p>\
    <div id=\"list\" class=\"scroll\"></div><p><button type=\"button\" id=\"more\" hidden>Show more</button></p>\
    <div id=\"detail\" tabindex=\"-1\" aria-live=\"polite\"></div>\
    <noscript><p>The sessions need the page's own script; summary.json and matches.jsonl hold the same.</p></noscript></section>\n";

fn head(title: &str) -> String {
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <link rel=\"icon\" href=\"data:,\"><title>{0}</title>\n<style>\n{STYLE}{OWN_STYLE}</style></head>\n<body><main>\
         <header><h1>{0}</h1><p class=\"muted\">Which hidden targets left, through which exit, and what local views of it miss. \
         Rates in percent with 95% intervals over sessions.</p></header>\n",
        escape(title)
    )
}

fn overview(summary: &Summary, shown: usize, out: &mut String) {
    let counts = &summary.counts;
    let facts = [
        ("Sessions", format!("{}; events of {shown} are on this page", summary.sessions.len())),
        (
            "Observations",
            format!("{}, {} repeated, {} failed or missing", counts.rows, counts.duplicates, counts.unscored),
        ),
        (
            "Matches",
            format!("{} exact or normalised; {} of weaker tiers, in no figure", counts.matches, counts.weaker_matches),
        ),
        ("Contracts", format!("{}, frozen and hashed", summary.contracts.len())),
        ("Resampling", format!("{} resamples, seed {}", summary.resamples, summary.seed)),
    ];
    out.push_str("<dl class=\"facts\">");
    for (name, value) in facts {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value));
    }
    out.push_str("</dl>\n");
}

/// How published numbers are marked.
fn published() -> String {
    format!("<span class=\"published\">{}</span>", escape(PUBLISHED))
}

/// A number that leads to the sessions behind it; `channel` is `*` for the union.
fn number(text: &str, condition: Option<&str>, channel: &str) -> String {
    format!(
        "<button type=\"button\" class=\"number\" data-condition=\"{}\" data-channel=\"{}\">{}</button>",
        escape(condition.unwrap_or("*")),
        escape(channel),
        escape(text)
    )
}
