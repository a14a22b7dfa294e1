//! The one writer of files: a temporary name in the same folder, sync, rename. A reader never sees half a file.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use super::temporary::{self, Temporary};
use crate::error::{Error, Fault, Result};

/// Writes `bytes` to `path`, creating the folder, so that `path` holds either its old content or all of the new.
///
/// # Errors
/// [`Error::Write`] with the path.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// Like [`write()`], for content that is produced piece by piece.
///
/// # Errors
/// [`Error::Write`] with the path; the temporary file is removed.
pub fn write_with(
    path: &Path,
    produce: impl FnOnce(&mut std::io::BufWriter<fs::File>) -> std::io::Result<()>,
) -> Result<()> {
    let mut pending = Pending::create(path)?;
    produce(&mut pending.buffer).map_err(|source| Error::write(path, source))?;
    pending.commit()
}

/// A file that is being written: nothing is seen at its path before [`Pending::commit`], and a dropped one leaves nothing.
pub struct Pending {
    buffer: std::io::BufWriter<fs::File>,
    temporary: Temporary,
    path: std::path::PathBuf,
}

impl std::io::Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.buffer.flush()
    }
}

impl Pending {
    /// Opens the temporary file beside `path`, creating the folder.
    ///
    /// # Errors
    /// [`Error::Write`] with the path.
    pub fn create(path: &Path) -> Result<Self> {
        let fail = |source| Error::write(path, source);
        let folder = folder_of(path);
        let (file, temporary) = Temporary::file(folder).map_err(fail)?;
        Ok(Self { buffer: std::io::BufWriter::new(file), temporary, path: path.to_path_buf() })
    }

    /// The path that it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one JSON value and a line break.
    ///
    /// # Errors
    /// [`Error::Write`] with the path.
    pub fn row<T: serde::Serialize>(&mut self, row: &T) -> Result<()> {
        serde_json::to_writer(&mut self.buffer, row)
            .map_err(std::io::Error::from)
            .and_then(|()| self.buffer.write_all(b"\n"))
            .map_err(|source| Error::write(&self.path, source))
    }

    /// Syncs and renames: the path now holds the new content.
    ///
    /// # Errors
    /// [`Error::Write`] with the path.
    pub fn commit(self) -> Result<()> {
        commit_all([self])
    }

    fn sync(&mut self) -> Result<()> {
        self.buffer
            .flush()
            .and_then(|()| self.buffer.get_ref().sync_all())
            .and_then(|()| set_ordinary_permissions(self.temporary.path()))
            .map_err(|source| Error::write(&self.path, source))
    }
}

/// Commits files that belong together: none is renamed before all are whole on the disk.
///
/// # Errors
/// [`Error::Write`] with the path of the file that could not be written; on a full disk all paths hold what they held.
pub fn commit_all(files: impl IntoIterator<Item = Pending>) -> Result<()> {
    let mut files: Vec<Pending> = files.into_iter().collect();
    files.iter_mut().try_for_each(Pending::sync)?;
    let named: Vec<(&Temporary, &Path)> = files.iter().map(|file| (&file.temporary, file.path.as_path())).collect();
    temporary::rename_all(&named).map_err(|(index, source)| Error::write(named[index].1, source))
}

/// The files of an output folder, by which an earlier one is told from other folders.
#[derive(Debug, Clone, Copy)]
pub struct Outputs {
    /// What the folder is, for messages: `data set`.
    pub what: &'static str,
    /// The file that every such folder has.
    pub mark: &'static str,
    /// The names that its files may have, in lists.
    pub names: &'static [&'static [&'static str]],
}

/// Refuses a folder that [`write_folder`] would replace though it holds more than earlier outputs of this kind: nobody's files are
/// removed.
///
/// # Errors
/// A [`Fault`] with the path and what is there; [`Error::Write`] if it cannot be looked into.
pub fn refuse_other_folder(out: &Path, outputs: &Outputs) -> Result<()> {
    let fail = |source| Error::write(out, source);
    let entries = match fs::read_dir(out) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(fail(source)),
    };
    let mut found = Vec::new();
    for entry in entries {
        found.push(entry.map_err(fail)?.file_name());
    }
    let is_output = |name: &std::ffi::OsString| outputs.names.iter().copied().flatten().any(|known| name == known);
    let is_marked = found.is_empty() || out.join(outputs.mark).is_file();
    let mut foreign: Vec<String> =
        found.iter().filter(|&name| !(is_marked && is_output(name))).map(|name| name.display().to_string()).collect();
    if foreign.is_empty() {
        return Ok(());
    }
    foreign.sort_unstable();
    let more = if foreign.len() > SHOWN { ", ..." } else { "" };
    let what = outputs.what;
    Err(Fault::new(format!("the output folder holds something that is not a {what}"))
        .at(out.display())
        .got(format!("{}{more}", foreign[..foreign.len().min(SHOWN)].join(", ")))
        .expected(format!("a new or empty folder, or an earlier {what} folder and nothing else, which is replaced"))
        .hint("move these files away, or name another folder")
        .into())
}

/// Names that one message tells.
const SHOWN: usize = 5;

/// Fills a new folder through `produce` under a temporary name, then renames it to `path`, replacing what was there. Where a user
/// named the folder, [`refuse_other_folder`] comes first.
///
/// # Errors
/// [`Error::Write`] with the path, or whatever `produce` returns; the temporary folder is removed.
pub fn write_folder(path: &Path, produce: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let fail = |source| Error::write(path, source);
    let parent = folder_of(path);
    let fresh = Temporary::folder(parent).map_err(fail)?;
    produce(fresh.path()).map_err(|error| error_at(error, fresh.path(), path))?;
    set_ordinary_permissions(fresh.path()).map_err(fail)?;
    match temporary::replace_folder(&fresh, path).map_err(fail)? {
        Some(old) => old.remove().map_err(fail),
        None => Ok(()),
    }
}

/// Removes a folder with all that is in it, if it is there. It is renamed first, so that a process that ends on the way leaves
/// no part of it at its path.
///
/// # Errors
/// [`Error::Write`] with the path.
pub fn remove_folder(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let fail = |source| Error::write(path, source);
    let grave = Temporary::folder(folder_of(path)).map_err(fail)?;
    fs::rename(path, grave.path().join("removed")).map_err(fail)?;
    grave.remove().map_err(fail)
}

/// The folder that a path is in.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// An error of writing into the temporary folder names the file that there would have been.
fn error_at(error: Error, temporary: &Path, path: &Path) -> Error {
    match error {
        Error::Write { path: file, source } => {
            let place = file.strip_prefix(temporary).map(|rest| path.join(rest));
            Error::Write { path: place.unwrap_or(file), source }
        }
        other => other,
    }
}

/// Temporary files are private to the user; outputs get what an ordinary `open` would give.
#[cfg(unix)]
fn set_ordinary_permissions(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = if path.is_dir() { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_ordinary_permissions(_path: &Path) -> std::io::Result<()> {
    Ok(())
}
