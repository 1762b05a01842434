//! Which paths lead to one file.

use std::path::{Path, PathBuf};

/// Whether two paths lead to one file, which need not exist yet.
pub(super) fn is_same(a: &Path, b: &Path) -> bool {
    matches!((canonical(a), canonical(b)), (Some(a), Some(b)) if a == b)
}

/// The path without links; of a file that does not exist, its name in its folder's.
fn canonical(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_any_of_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("inner")).unwrap();
        std::fs::write(path("a"), "").unwrap();
        std::fs::write(path("b"), "").unwrap();
        std::os::unix::fs::symlink(path("a"), path("link")).unwrap();
        std::os::unix::fs::symlink(folder.path(), path("inner/outer")).unwrap();
        for same in ["a", "inner/../a", "link", "inner/outer/a"] {
            assert!(is_same(&path("a"), &path(same)), "{same}");
        }
        assert!(is_same(&path("new"), &path("inner/outer/new")));
        for other in ["b", "new", "inner/a", "none/a", ".."] {
            assert!(!is_same(&path("a"), &path(other)), "{other}");
        }
        assert!(is_same(Path::new("new"), Path::new("./new")));
    }
}
