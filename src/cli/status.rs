//! `ipu-tune status` and `ipu-tune history`.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::report;
use crate::store::{Store, current};

use super::Exit;
use super::args::StudyArgs;
use super::error::CliError;
use super::output::Output;

/// The database that the user means: the path itself, or the one beside a model.
pub(super) fn database(study: &Path) -> PathBuf {
    let model = study.extension().is_some_and(|ending| ending == "json");
    if model { study.with_extension("tune.db") } else { study.to_owned() }
}

fn open(args: &StudyArgs) -> Result<Store, CliError> {
    Ok(Store::open_read_only(&database(&args.path))?)
}

/// Where a study stands.
pub(super) fn status(args: &StudyArgs, output: &Output) -> Result<Exit, CliError> {
    let store = open(args)?;
    let (summary, history) = (store.summary()?, store.history()?);
    let value =
        json!({ "format": "ipu-tune/status@1", "study": summary, "incumbent": current(&history) });
    output.result(&value, || report::summary(&summary, &history))?;
    Ok(Exit::Success)
}

/// The incumbents, one line each.
pub(super) fn history(args: &StudyArgs, output: &Output) -> Result<Exit, CliError> {
    let entries = open(args)?.history()?;
    if !output.json() {
        output.text(&report::history(&entries))?;
        return Ok(Exit::Success);
    }
    for entry in &entries {
        let mut value = json!(entry);
        value["format"] = "ipu-tune/history@1".into();
        output.line(&value)?;
    }
    Ok(Exit::Success)
}
