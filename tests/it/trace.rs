//! Claims about readers.

use std::path::PathBuf;

/// A file of the shared reference data, or `None` with a printed reason where it is absent.
pub fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("TOPALIGN_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = root.join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: no shared data at {} (set TOPALIGN_SHARED)", path.display());
    None
}
