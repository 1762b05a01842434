//! Which files a report is made of.

use std::path::{Path, PathBuf};

use super::super::args::ReportArgs;
use super::super::error::CliError;
use super::super::paths::is_same;
use super::super::status::database;

/// Where everything lies.
pub(super) struct Files {
    pub(super) database: PathBuf,
    /// The model, where tuning expects it.
    pub(super) model: PathBuf,
    pub(super) package: PathBuf,
    /// Whether the user named the package.
    pub(super) named: bool,
    out: PathBuf,
}

impl Files {
    pub(super) fn of(args: &ReportArgs) -> Files {
        let database = database(&args.study);
        let package = args.package.clone();
        Files {
            model: beside(&database, "json"),
            named: package.is_some(),
            package: package.unwrap_or_else(|| beside(&database, "ipuexe")),
            out: args.out.clone(),
            database,
        }
    }

    /// A page must not take the place of what it is about.
    pub(super) fn refuse_overwriting(&self) -> Result<(), CliError> {
        let sources =
            [(&self.database, "database"), (&self.model, "model"), (&self.package, "package")];
        match sources.into_iter().find(|(path, _)| is_same(path, &self.out)) {
            Some((_, what)) => {
                let (option, instead) = ("--out", "page");
                Err(CliError::Overwrites { option, path: self.out.clone(), what, instead })
            }
            None => Ok(()),
        }
    }
}

/// What lies beside `NAME.tune.db` under NAME with another ending.
fn beside(database: &Path, ending: &str) -> PathBuf {
    let inner = database.with_extension("");
    let tuned = inner.extension().is_some_and(|found| found == "tune");
    if tuned { inner.with_extension(ending) } else { database.with_extension(ending) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_beside_their_database() {
        let of = |path: &str| beside(Path::new(path), "ipuexe").display().to_string();
        assert_eq!(of("a/m.tune.db"), "a/m.ipuexe");
        assert_eq!(of("a/b.c.tune.db"), "a/b.c.ipuexe");
        assert_eq!(of("a/other.db"), "a/other.ipuexe");
        assert_eq!(of("noend"), "noend.ipuexe");
    }
}
