//! Parses, starts tracing, prints error and hints, sets the exit status.

use std::io::Write as _;
use std::process::ExitCode;

use topalign::cli::{self, Cli};
use topalign::error::Error;
use topalign::rank;
use topalign::run::interrupt;

/// glibc's allocator returns big blocks to the system after each training step and faults them in again at the next;
/// ARCHITECTURE.md has the figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::from_process();
    let place = cli.place();
    rank::share_cores(place.as_ref());
    start_tracing(cli.console().verbose, place.is_none_or(|place| place.rank == 0));
    interrupt::install(cli.interruption());
    let status = match cli::run(&cli) {
        Ok(()) => 0,
        Err(error) => {
            report(&error, rank::give_way(place.as_ref()));
            error.exit_status()
        }
    };
    rank::leave(status);
    ExitCode::from(status)
}

/// `speaker` is a rank after the first; once the others end this process too, the first one has said why.
fn report(error: &Error, speaker: Option<usize>) {
    // On a full disk there may be no room for the message either: the status still tells.
    let mut stderr = std::io::stderr().lock();
    let _ = match speaker {
        None => writeln!(stderr, "error: {error}"),
        Some(_) if interrupt::requested() || matches!(error, Error::Interrupted) => return,
        Some(rank) => writeln!(stderr, "error: rank {rank}: {error}"),
    };
    for hint in error.hints() {
        let _ = writeln!(stderr, "hint: {hint}");
    }
}

/// Ranks after the first say nothing but errors.
fn start_tracing(verbose: u8, is_first: bool) {
    let level = match verbose {
        _ if !is_first => "error",
        0 => "warn",
        1 => "topalign=info,warn",
        _ => "topalign=debug,info",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("TOPALIGN_LOG").unwrap_or_else(|_| level.into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
}
