//! Ctrl-C: the first one asks long work to stop at its next safe point, where it saves and returns
//! [`Error::Interrupted`]; the second ends the process at once.

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
