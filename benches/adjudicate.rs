//! Adjudication of plain payloads with 1,000 targets in one contract, beside aho-corasick alone over the same bytes.
//!
//! `cargo bench --bench adjudicate` prints one table. Machines drift: only the ratio means anything.

use std::time::Instant;

use aho_corasick::AhoCorasick;
use rayon::prelude::*;
use serde_json::json;
use topalign::adjudicate::Matcher;
use topalign::contract::Contract;
use topalign::error::{Error, Result};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TARGETS: usize = 1000;
const MEGABYTES: usize = 64;
/// One payload in so many holds a target.
const RARITY: usize = 20;
const ROUNDS: usize = 5;

const GIVEN: [&str; 20] = [
    "Aaliyah", "Benedikt", "Camila", "Dmitri", "Eleni", "Farid", "Giulia", "Hiroshi", "Ingrid", "Joaquin", "Kavita",
    "Lorenzo", "Mehmet", "Nadia", "Oksana", "Priya", "Quentin", "Rosalind", "Soren", "Tatiana",
];
const SYLLABLES: [&str; 20] = [
    "bar", "kov", "den", "mar", "tiz", "gor", "lin", "sand", "ver", "hul", "ost", "ner", "pal", "rud", "zim", "fen",
    "dov", "cas", "yil", "wick",
];
const WORDS: [&str; 60] = [
    "the", "report", "of", "monthly", "figures", "was", "sent", "to", "everyone", "in", "office", "and", "a",
    "meeting", "is", "planned", "for", "next", "week", "please", "bring", "your", "notes", "about", "garden",
    "project", "which", "will", "start", "soon", "because", "weather", "has", "been", "good", "we", "expect", "that",
    "all", "tasks", "are", "done", "by", "then", "if", "not", "let", "me", "know", "order", "shipped", "on", "time",
    "with", "delivery", "status", "updated", "customer", "service", "team",
];

/// A small fixed generator: the same bytes in every run.
struct Stream(u64);

impl Stream {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

fn value(index: usize, stream: &mut Stream) -> (&'static str, String) {
    let mut surname = || {
        let name: String = (0..3).map(|_| SYLLABLES[stream.next(SYLLABLES.len())]).collect();
        name[..1].to_uppercase() + &name[1..]
    };
    match index % 10 {
        0..=2 => {
            let surname = surname();
            ("person", format!("{} {surname}", GIVEN[stream.next(GIVEN.len())]))
        }
        3 | 4 => {
            let first = surname().to_lowercase();
            ("label", format!("{first} {}", surname().to_lowercase()))
        }
        5 => ("email", format!("{}@example.com", surname().to_lowercase())),
        6 => ("account", (0..16).map(|_| char::from(b'0' + stream.next(10) as u8)).collect()),
        7 => ("money", format!("${}.{:02}", 1000 + stream.next(900_000), stream.next(100))),
        8 => ("date", format!("19{:02}-{:02}-{:02}", 10 + stream.next(80), 1 + stream.next(12), 1 + stream.next(28))),
        _ => {
            ("phone", format!("+1 {}-{}-{}", 200 + stream.next(700), 200 + stream.next(700), 1000 + stream.next(9000)))
        }
    }
}

/// Payloads of about a kilobyte: sentences, some numbers, rows of JSON.
fn payloads(values: &[String], stream: &mut Stream) -> Vec<String> {
    let mut all = Vec::new();
    let mut size = 0;
    while size < MEGABYTES << 20 {
        let json = stream.next(2) == 0;
        let mut text = String::new();
        while text.len() < 1000 {
            text.push_str(if json { "{\"note\": \"" } else { "" });
            for _ in 0..12 {
                text.push_str(WORDS[stream.next(WORDS.len())]);
                text.push(' ');
            }
            let value = match stream.next(4) {
                0 => format!("number {} ", stream.next(100_000)),
                1 => format!("at {}:{:02} ", stream.next(24), stream.next(60)),
                2 => format!("${}.50 ", stream.next(900)),
                _ => String::new(),
            };
            text.push_str(&value);
            text.push_str(if json { "\"}, " } else { ".\n" });
        }
        if stream.next(RARITY) == 0 {
            text.push_str(&values[stream.next(values.len())]);
        }
        size += text.len();
        all.push(text);
    }
    all
}

fn seconds(work: &dyn Fn() -> usize) -> (f64, usize) {
    let start = Instant::now();
    let count = work();
    (start.elapsed().as_secs_f64(), count)
}

/// The middle one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let mut stream = Stream(2027);
    let mut values = Vec::new();
    let mut targets = Vec::new();
    for index in 0..TARGETS {
        let (kind, value) = value(index, &mut stream);
        targets.push(json!({"target_id": format!("e{index}"), "value": value, "type": kind}));
        values.push(value);
    }
    let contract: Contract =
        serde_json::from_value(json!({"contract_id": "bench", "channels": [], "targets": targets}))
            .map_err(|error| Error::Failed(error.to_string()))?;
    let matcher = Matcher::new(&contract)?;
    let plain = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(&values)
        .map_err(|error| Error::Failed(error.to_string()))?;
    let payloads = payloads(&values, &mut stream);
    let megabytes = payloads.iter().map(String::len).sum::<usize>() as f64 / 1e6;
    let alone = |text: &String| plain.find_overlapping_iter(text.as_str()).count();
    let adjudicated = |text: &String| matcher.find(text).len();
    println!("{TARGETS} targets, {} payloads, {megabytes:.0} MB, {ROUNDS} rounds", payloads.len());
    for (name, threads) in [("1 thread", 1), ("2 threads", 2)] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|error| Error::Failed(error.to_string()))?;
        let base: &(dyn Fn() -> usize + Sync) = &|| payloads.par_iter().map(alone).sum();
        let ours: &(dyn Fn() -> usize + Sync) = &|| payloads.par_iter().map(adjudicated).sum();
        // In turn, so that whatever else the machine does meets both.
        let rounds: Vec<_> = (0..ROUNDS).map(|_| pool.install(|| (seconds(&base), seconds(&ours)))).collect();
        let best = |of: &dyn Fn(usize) -> f64| (0..ROUNDS).map(of).fold(f64::INFINITY, f64::min);
        println!(
            "{name}: aho-corasick {:.0} MB/s ({} hits), adjudication {:.0} MB/s ({} matches), ratio {:.2} (median of {ROUNDS} pairs)",
            megabytes / best(&|round| rounds[round].0.0),
            rounds[0].0.1,
            megabytes / best(&|round| rounds[round].1.0),
            rounds[0].1.1,
            median(rounds.iter().map(|(base, ours)| ours.0 / base.0).collect())
        );
    }
    Ok(())
}
