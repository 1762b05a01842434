//! Why a database cannot be used.

use std::path::PathBuf;

/// Why a database was refused. It was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum StoreError {
    /// There is none.
    #[error("there is no database `{}`", path.display())]
    Absent { path: PathBuf },
    /// The folder does not exist, or the path is one.
    #[error("`{}` cannot be a database: {what}", path.display())]
    Path { path: PathBuf, what: String },
    /// The log of a database that is gone.
    #[error("`{}` does not exist, but `{}`, its log, does", path.display(), log.display())]
    Leftover { path: PathBuf, log: PathBuf },
    /// Another program's file.
    #[error("`{}` is not a database of this program: {what}", path.display())]
    Foreign { path: PathBuf, what: String },
    /// Written by a later version.
    #[error("`{}` has schema version {found}, this program knows up to {known}", path.display())]
    Newer { path: PathBuf, found: u32, known: u32 },
    /// Damaged.
    #[error("`{}` is damaged: {what}", path.display())]
    Corrupt { path: PathBuf, what: String },
    /// Somebody else writes.
    #[error("`{}` is locked by another process", path.display())]
    Locked { path: PathBuf },
    /// Somebody else went on with the study meanwhile.
    #[error("`{}`: another process went on with this study", path.display())]
    Overtaken { path: PathBuf },
    /// It cannot be written.
    #[error("`{}` cannot be written: {what}", path.display())]
    ReadOnly { path: PathBuf, what: String },
    /// Its study is of something else.
    #[error("`{}` has a study of another {what}: {found}, now {wanted}", path.display())]
    OtherStudy { path: PathBuf, what: &'static str, found: String, wanted: String },
    /// SQLite says no.
    #[error("`{}`", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    /// A record does not say what it should.
    #[error("`{}`: a stored {what} cannot be read", path.display())]
    Record { path: PathBuf, what: &'static str, source: serde_json::Error },
}

impl StoreError {
    /// What the user can do.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Absent { .. } => "name the model or the database of an earlier run",
            Self::Path { .. } | Self::ReadOnly { .. } => {
                "choose another place with `--db PATH`, or make this one writable"
            }
            Self::Leftover { .. } => {
                "put the database back beside its log, or remove the log, or use `--db PATH`"
            }
            Self::Foreign { .. } => "choose another place with `--db PATH`",
            Self::Newer { .. } => "use the newer program, or another database with `--db PATH`",
            Self::Corrupt { .. } => "restore a copy, or start again with `--db PATH`",
            Self::Overtaken { .. } => "let one process tune at a time; the same command resumes",
            Self::Locked { .. } => "wait for the other process, or use `--db PATH`",
            Self::OtherStudy { .. } => {
                "`--fresh` starts a new study beside the old one, `--warm-start` one that tries its \
                 recipes again; `--db PATH` uses another database"
            }
            Self::Sqlite { .. } | Self::Record { .. } => return None,
        };
        Some(hint.to_owned())
    }
}
