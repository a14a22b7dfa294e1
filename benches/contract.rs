//! Contracts a second: v2-sized traces from JSON text to frozen contracts, on two threads.
//!
//! `cargo bench --bench contract`. The traces are the project's own, in the v2 schema; with
//! `TOPALIGN_SHARED` set, those of the public v2 file. Prints traces a second, and the share of reading alone.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rayon::prelude::*;
use topalign::contract::derive;
use topalign::trace::{Format, Trace, read};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Traces a round.
const ROUND: usize = 24_000;

fn main() {
    let rows = rows();
    let bytes: usize = rows.iter().map(String::len).sum();
    println!("{} different traces, {} bytes each on average", rows.len(), bytes / rows.len().max(1));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool of threads");
    let parse = |index: usize| -> Trace { serde_json::from_str(&rows[index % rows.len()]).expect("a trace") };
    for round in 1..=3 {
        let reading = pool.install(|| rate(&|index| parse(index).tools.len()));
        let whole =
            pool.install(|| rate(&|index| derive(&parse(index)).contract.map_or(0, |frozen| frozen.digest.len())));
        println!(
            "round {round}: {whole:.0} contracts a second from JSON on 2 threads; reading alone {reading:.0} a second"
        );
    }
}

/// Traces a second.
fn rate(work: &(dyn Fn(usize) -> usize + Sync)) -> f64 {
    let start = Instant::now();
    let sum: usize = (0..ROUND).into_par_iter().map(work).sum();
    assert!(sum > 0, "nothing was done");
    ROUND as f64 / start.elapsed().as_secs_f64()
}

/// Canonical traces, one JSON text each.
fn rows() -> Vec<String> {
    let shared =
        std::env::var_os("TOPALIGN_SHARED").map(|root| PathBuf::from(root).join("data/topbench-v2/Trajectories.json"));
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/scenario-v2.json");
    let file = shared.filter(|file| file.exists()).unwrap_or(own);
    println!("traces of {}", file.file_name().unwrap_or_default().to_string_lossy());
    let traces = read(&file, Format::Auto).expect("traces");
    traces.iter().map(|trace| serde_json::to_string(trace).expect("JSON")).collect()
}
