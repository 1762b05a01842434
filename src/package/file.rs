//! Package files: written beside their destination, synced, then renamed.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::application::Application;

/// Why a package cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum PackageError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// The bytes are no application message.
    #[error("not a package: {0}")]
    Form(String),
    /// Another schema version.
    #[error("package schema version {found}, expected {expected}")]
    Version { found: u32, expected: u32 },
    /// A reader check is broken.
    #[error("not a valid package: {0}")]
    Rule(String),
}

impl PackageError {
    /// What the user can do.
    pub fn hint(&self) -> Option<String> {
        let PackageError::Write { path, source } = self else { return None };
        if source.kind() == std::io::ErrorKind::IsADirectory {
            return Some("the path of a file, not of a folder".to_owned());
        }
        if source.kind() == std::io::ErrorKind::InvalidInput {
            return Some("the path of a file, not of a device or a pipe".to_owned());
        }
        let folder = folder(path).display();
        Some(format!("the folder `{folder}` has to exist, to be writable, and to have room"))
    }
}

/// Reads a package file: its bytes and what they mean.
///
/// # Errors
/// If the file cannot be read or is no package.
pub fn load(path: &Path) -> Result<(Vec<u8>, Application), PackageError> {
    let bytes = std::fs::read(path)
        .map_err(|source| PackageError::Read { path: path.to_owned(), source })?;
    let application = super::read(&bytes)?;
    Ok((bytes, application))
}

/// Writes bytes to a file that then is there completely or not at all.
///
/// # Errors
/// If the folder or the file cannot be written; an old file is then untouched.
pub fn save(path: &Path, bytes: &[u8]) -> Result<(), PackageError> {
    save_together(&[(path, bytes)])
}

/// The same for several files: none is put in place before all are written.
///
/// # Errors
/// If a folder or a file cannot be written; old files are then untouched.
pub fn save_together(files: &[(&Path, &[u8])]) -> Result<(), PackageError> {
    let staged: Vec<Staged> =
        files.iter().map(|(path, bytes)| Staged::new(path, bytes)).collect::<Result<_, _>>()?;
    staged.into_iter().try_for_each(Staged::put_in_place)
}

/// Whether a path is free or that of a file: a device or a pipe would be gone, and what is written not
/// where it is read.
///
/// # Errors
/// Of the kind `IsADirectory` for a folder, `InvalidInput` for anything else that is no file.
pub fn replaceable(path: &Path) -> std::io::Result<()> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Err(std::io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => Err(std::io::ErrorKind::InvalidInput.into()),
        _ => Ok(()),
    }
}

/// A file that is written and synced, but not at its place yet; dropped, it is gone.
struct Staged {
    /// Without links: what a link points to is replaced, not the link.
    path: PathBuf,
    file: tempfile::NamedTempFile,
}

impl Staged {
    fn new(path: &Path, bytes: &[u8]) -> Result<Staged, PackageError> {
        let wrap = |source| PackageError::Write { path: path.to_owned(), source };
        replaceable(path).map_err(wrap)?;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        // As other tools write files: readable by all, unless the umask says no.
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        let mut builder = tempfile::Builder::new();
        let made = builder.permissions(permissions).tempfile_in(folder(&path));
        // The temporary file's own path, which these errors carry, tells nobody anything.
        let plain = |source: std::io::Error| wrap(source.kind().into());
        let mut file = made.map_err(plain)?;
        file.as_file_mut().write_all(bytes).map_err(wrap)?;
        file.as_file().sync_all().map_err(wrap)?;
        Ok(Staged { path, file })
    }

    fn put_in_place(self) -> Result<(), PackageError> {
        let wrap = |source| PackageError::Write { path: self.path.clone(), source };
        self.file.persist(&self.path).map_err(|error| wrap(error.error))?;
        // The rename itself must survive a power cut too.
        std::fs::File::open(folder(&self.path)).and_then(|folder| folder.sync_all()).map_err(wrap)
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
