//! Running the program as a user does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;

/// Runs the program in a folder.
pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin!("ipu-tune"));
    command.current_dir(folder).args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command.output().expect("the program starts")
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A folder with a small shipped model.
pub fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a new folder");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("search-spaces/models/mlp2-tiny.json");
    let model = folder.path().join("m.json");
    fs::copy(shipped, &model).expect("a shipped model");
    (folder, model)
}

/// Names of all files in a folder.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    let entries = entries.map(|entry| entry.expect("a readable entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
