//! Ctrl-C. Work that keeps what it has (checkpoints, answers so far) stops at its next safe point, where it saves and returns
//! [`Error::Interrupted`]; a second Ctrl-C ends it at once, as the first one ends all other work. No temporary file is left. Runs of
//! several ranks also stop at a safe point for what launchers and schedulers send before they end a job (SIGTERM, SIGUSR1), as often
//! as it comes.

use std::sync::atomic::{AtomicBool, Ordering};

use super::temporary;
use crate::error::{Error, Result};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// The exit status of interrupted work.
const STATUS: i32 = 130;

/// How a command takes the first Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It goes on to its next safe point, where it sees [`check`] and saves.
    AtSafePoint,
    /// It ends at once: nothing that it has so far is of use.
    AtOnce,
}

/// Installs the handler; called once, by the binary.
pub fn install(manner: Manner) {
    // The handler runs on a thread of its own, not inside the signal, so that it may lock and remove files.
    let outcome = ctrlc::set_handler(move || {
        if manner == Manner::AtOnce || REQUESTED.swap(true, Ordering::SeqCst) {
            temporary::leave(STATUS);
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
