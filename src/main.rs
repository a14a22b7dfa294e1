//! Parses, starts tracing, prints error and hints, sets the exit status.

use std::io::Write as _;
use std::process::ExitCode;

use topalign::cli::{self, Cli};
use topalign::run::interrupt;

/// glibc's allocator returns big blocks to the system after each training step and faults them in again at the next;
/// ARCHITECTURE.md has the figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::from_process();
    start_tracing(cli.console().verbose);
    interrupt::install();
    match cli::run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // On a full disk there may be no room for the message either: the status still tells.
            let mut stderr = std::io::stderr().lock();
            let _ = writeln!(stderr, "error: {error}");
            for hint in error.hints() {
                let _ = writeln!(stderr, "hint: {hint}");
            }
            ExitCode::from(error.exit_status())
        }
    }
}

fn start_tracing(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "topalign=info,warn",
        _ => "topalign=debug,info",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("TOPALIGN_LOG").unwrap_or_else(|_| level.into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
}
