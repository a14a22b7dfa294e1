//! Ctrl-C: the first one asks long work to stop at its next safe point, where it saves and returns
//! [`Error::Interrupted`]; the second ends the process at once. Runs of several ranks also stop so for
//! what launchers and schedulers send before they end a job (SIGTERM, SIGUSR1), as often as it comes.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler; called once, by the binary.
pub fn install() {
    let outcome = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    });
    if let Err(error) = outcome {
        tracing::warn!("no handler for interruption: {error}");
    }
}

/// Takes SIGTERM and SIGUSR1 for requests to stop: `mpirun` sends the first to its ranks at Ctrl-C, and passes the second on.
#[cfg(unix)]
pub fn install_for_launchers() {
    extern "C" fn request(_: libc::c_int) {
        REQUESTED.store(true, Ordering::SeqCst);
    }
    for signal in [libc::SIGTERM, libc::SIGUSR1] {
        // SAFETY: the handler does one atomic store, which is all that a signal handler may safely do.
        let earlier = unsafe { libc::signal(signal, request as *const () as libc::sighandler_t) };
        if earlier == libc::SIG_ERR {
            tracing::warn!("no handler for signal {signal}");
        }
    }
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Returns [`Error::Interrupted`] once the user asked to stop.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn check() -> Result<()> {
    if requested() { Err(Error::Interrupted) } else { Ok(()) }
}
