//! Temporary files and folders. All that are open are known, so that the end of the process leaves none beside the outputs.
//!
//! One lock guards them: making one, renaming one and [`leave`] happen one after the other, and an interruption comes before files
//! that belong together are renamed or after all of them are.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PREFIX: &str = ".topalign-";

/// Another thread may write into a folder while it is removed; it ends with the process.
const TRIES: usize = 20;

static OPEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Each change of the set is one call, so that it is whole whichever thread panicked.
fn open() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file or folder under a temporary name: removed when it is dropped, unless it was renamed.
#[derive(Debug)]
pub(super) struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// A new file in `folder`, which is made too.
    pub fn file(folder: &Path) -> io::Result<(File, Self)> {
        let mut open = open();
        fs::create_dir_all(folder)?;
        let made = tempfile::Builder::new().prefix(PREFIX).tempfile_in(folder)?;
        let (file, path) = made.keep().map_err(|error| error.error)?;
        open.insert(path.clone());
        Ok((file, Self { path }))
    }

    /// A new folder in `parent`, which is made too.
    pub fn folder(parent: &Path) -> io::Result<Self> {
        let mut open = open();
        fs::create_dir_all(parent)?;
        let path = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?.keep();
        open.insert(path.clone());
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it.
    pub fn remove(self) -> io::Result<()> {
        let outcome = remove(&self.path);
        // Dropping `self` finds nothing left to do.
        open().remove(&self.path);
        outcome
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let is_open = open().contains(&self.path);
        if is_open {
            // What cannot be removed is in nobody's way: its name is no output's.
            let _ = remove(&self.path);
            open().remove(&self.path);
        }
    }
}

/// Gives temporary files the names that they should have, one after the other; the index of the first that cannot have it comes
/// with the error.
pub(super) fn rename_all(files: &[(&Temporary, &Path)]) -> Result<(), (usize, io::Error)> {
    let mut open = open();
    for (index, (temporary, path)) in files.iter().enumerate() {
        fs::rename(&temporary.path, path).map_err(|error| (index, error))?;
        open.remove(&temporary.path);
    }
    Ok(())
}

/// Puts a temporary folder in the place of `path`. What stood there is temporary from then on.
pub(super) fn replace_folder(fresh: &Temporary, path: &Path) -> io::Result<Option<Temporary>> {
    let mut open = open();
    let mut old = None;
    if path.exists() {
        let aside = path.with_file_name(format!("{PREFIX}old-{}", std::process::id()));
        fs::rename(path, &aside)?;
        old = Some(aside);
    }
    if let Err(error) = fs::rename(&fresh.path, path) {
        if let Some(aside) = &old {
            fs::rename(aside, path)?;
        }
        return Err(error);
    }
    open.remove(&fresh.path);
    Ok(old.map(|path| {
        open.insert(path.clone());
        Temporary { path }
    }))
}

/// Removes everything temporary and ends the process. Other threads go on until then, but make and rename nothing more.
pub(super) fn leave(status: i32) -> ! {
    let open = open();
    // What is in a folder first: names of a folder's content come after its own.
    for path in open.iter().rev() {
        for _ in 0..TRIES {
            match remove(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
    }
    std::process::exit(status)
}

fn remove(path: &Path) -> io::Result<()> {
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}
