//! The one writer of files: a temporary name in the same folder, sync, rename. A reader never sees half a file.

use std::fs;
use std::io::Write as _;
use std::path::Path;

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
    temporary: tempfile::TempPath,
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
        fs::create_dir_all(folder).map_err(fail)?;
        let temporary = tempfile::Builder::new().prefix(".topalign-").tempfile_in(folder).map_err(fail)?;
        let (file, temporary) = temporary.into_parts();
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
            .and_then(|()| set_ordinary_permissions(&self.temporary))
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
    files.into_iter().try_for_each(|Pending { temporary, path, .. }| {
        temporary.persist(&path).map_err(|error| Error::write(&path, error.error))
    })
}

/// Refuses a folder that [`write_folder`] would replace though it is not an earlier `what`, which `mark` in it would show.
///
/// # Errors
/// A [`Fault`] with the path; [`Error::Write`] if it cannot be looked into.
pub fn refuse_other_folder(out: &Path, mark: &str, what: &str) -> Result<()> {
    let mut entries = match fs::read_dir(out) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Error::write(out, source)),
    };
    if entries.next().is_none() || out.join(mark).is_file() {
        return Ok(());
    }
    Err(Fault::new(format!("the output folder holds something that is not a {what}"))
        .at(out.display())
        .expected(format!("a new or empty folder, or an earlier {what} folder, which is replaced"))
        .into())
}

/// Fills a new folder through `produce` under a temporary name, then renames it to `path`, replacing what was there.
///
/// # Errors
/// [`Error::Write`] with the path, or whatever `produce` returns; the temporary folder is removed.
pub fn write_folder(path: &Path, produce: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let fail = |source| Error::write(path, source);
    let parent = folder_of(path);
    fs::create_dir_all(parent).map_err(fail)?;
    let temporary = tempfile::Builder::new().prefix(".topalign-").tempdir_in(parent).map_err(fail)?;
    produce(temporary.path()).map_err(|error| error_at(error, temporary.path(), path))?;
    set_ordinary_permissions(temporary.path()).map_err(fail)?;
    let fresh = temporary.keep();
    if path.exists() {
        let old = parent.join(format!(".topalign-old-{}", std::process::id()));
        fs::rename(path, &old).map_err(fail)?;
        fs::rename(&fresh, path).map_err(fail)?;
        fs::remove_dir_all(&old).map_err(fail)?;
    } else {
        fs::rename(&fresh, path).map_err(fail)?;
    }
    Ok(())
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
    let grave = tempfile::Builder::new().prefix(".topalign-").tempdir_in(folder_of(path)).map_err(fail)?;
    fs::rename(path, grave.path().join("removed")).map_err(fail)?;
    grave.close().map_err(fail)
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
