//! Claims about the page.

use serde_json::{Value, json};
use topalign::exposure::{Settings, analyse, events};
use topalign::report::{Reference, render_exposure, sessions_to_show};

use super::{Rows, guarded, log, row, with};

fn page(rows: &Rows, reference: Reference) -> String {
    let folder = tempfile::tempdir().unwrap();
    let files = rows.write(folder.path());
    let summary = analyse(&files, &Settings::default(), None).unwrap();
    let shown = events(&files, &sessions_to_show(&summary), None).unwrap();
    render_exposure(&summary, &shown, "A <b>title</b>", reference)
}

/// The data that the page's script reads.
fn data(html: &str) -> Value {
    let start = html.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    let end = start + html[start..].find("</script>").unwrap();
    serde_json::from_str(&html[start..end]).unwrap()
}

#[test]
fn payloads_cannot_end_the_data_and_read_back_as_logged() {
    let payload = "</script><script>alert(1)</script> Ada Quill <!-- \u{2028}\0";
    let html = page(&log(vec![row("</script>", 1, "console", payload)]), Reference::Own);
    // The data, the script, and nothing of the payload's.
    assert_eq!(html.matches("<script").count(), 2);
    assert!(!html.contains("alert(1)<"));
    let data = data(&html);
    let event = &data["events"]["</script>"][0];
    let text: String =
        event["pieces"].as_array().unwrap().iter().map(|piece| piece["text"].as_str().unwrap()).collect();
    assert_eq!(text, payload);
    let marked: Vec<&str> = event["pieces"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|piece| !piece["hits"].as_array().unwrap().is_empty())
        .map(|piece| piece["text"].as_str().unwrap())
        .collect();
    assert_eq!(marked, ["Ada Quill"]);
    assert_eq!(event["hits"][0]["tier"], "exact");
    assert_eq!(event["hits"][0]["authorized"], false);
}

#[test]
fn the_page_loads_nothing_and_allows_only_its_own_script() {
    let html = page(&guarded(), Reference::Own);
    assert!(html.contains("default-src 'none'") && html.contains("script-src 'sha256-"));
    for part in ["src=\"", "@import", "url(", "href=\"http", "innerHTML", "onclick"] {
        assert!(!html.contains(part), "{part}");
    }
    assert!(html.contains("A &lt;b&gt;title&lt;/b&gt;"));
}

#[test]
fn published_numbers_are_there_only_when_asked_for_and_marked() {
    let own = page(&guarded(), Reference::Own);
    let with_paper = page(&guarded(), Reference::Paper);
    assert!(!own.contains("as published") && with_paper.contains("as published, arXiv 2609.18864v1"));
    assert!(with_paper.contains("47.8% / 46.9% / 245"));
    assert!(!own.contains("returns minimised") && with_paper.contains("<td>775.8</td>"));
}

#[test]
fn every_published_number_is_in_the_text_beside_ones_own() {
    let mut rows = guarded();
    for row in &mut rows.observations {
        let name = if row["condition"] == "guard-on" { "F-on" } else { "F-off" };
        row["condition"] = json!(name);
    }
    let text = topalign::exposure::text_published(&rows.analyse().unwrap().0);
    for part in [
        "as published, arXiv 2609.18864v1",
        "final answer only       coverage 50.0% / 80.5%, missed 0.0% / 9.7%, n 20 / 245",
        "F-on / Agent-F, guard on: session 50.0% / 100.0%, email 10.0% / 34.4%, console 50.0% / 100.0%",
        "paper, PIA/DeepSeek, top 10: confirmed 94.0%, reported 74.0%, precision 30.6%, FDR 69.4%, gap 20.0%",
        "schema Match / GLM: internal n/a / 77.2%, visible n/a / 72.6%, overlap n/a / 72.5%",
        "remainder 100.0% / 18.3%",
        "paper only, returns minimised: tool-call attempts 304 -> 775.8",
        "paper only, all exits redacted (oracle): coverage n/a -> 0",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn figures_stand_with_and_without_sessions_that_have_gaps() {
    let mut rows = guarded();
    let title = "Coverage where sessions have gaps";
    assert!(!page(&rows, Reference::Own).contains(title));
    rows.observations.push(with(row("guard-on-0", 2, "email", ""), json!({"status": "error"})));
    let html = page(&rows, Reference::Own);
    assert!(html.contains(title) && html.contains("Differences over pairs without gaps"));
}

#[test]
fn long_payloads_are_cut_to_what_surrounds_matches() {
    let payload = format!("{} Ada Quill {}", "x ".repeat(3_000), "y ".repeat(3_000));
    let data = data(&page(&log(vec![row("s", 1, "console", payload.as_str())]), Reference::Own));
    let pieces = data["events"]["s"][0]["pieces"].as_array().unwrap().clone();
    let bytes = |field: &str| -> usize {
        pieces
            .iter()
            .map(|piece| match &piece[field] {
                Value::String(text) => text.len(),
                other => other.as_u64().unwrap() as usize,
            })
            .sum()
    };
    assert!(bytes("text") < 400, "{}", bytes("text"));
    assert_eq!(bytes("text") + bytes("cut"), payload.len());
}

#[test]
fn events_are_ordered_by_time_where_all_have_it() {
    let at = |request: u32, time: &str| with(row("s", request, "console", "x"), json!({"timestamp": time}));
    let rows =
        log(vec![at(1, "2026-01-01T03:00:00Z"), at(2, "2026-01-01T03:30:00+02:00"), at(3, "2026-01-01T02:00:00Z")]);
    let data = data(&page(&rows, Reference::Own));
    let order: Vec<u64> =
        data["events"]["s"].as_array().unwrap().iter().map(|event| event["request"].as_u64().unwrap()).collect();
    assert_eq!(order, [2, 3, 1]);
}
