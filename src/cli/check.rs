//! `ipu-tune check PACKAGE`.

use serde_json::json;

use crate::check::package;
use crate::package::PackageError;
use crate::report;

use super::Exit;
use super::args::PackageArgs;
use super::error::CliError;
use super::output::Output;

/// Proves a package from its bytes.
pub(super) fn check(args: &PackageArgs, output: &Output) -> Result<Exit, CliError> {
    let path = args.package.clone();
    let bytes =
        std::fs::read(&path).map_err(|source| PackageError::Read { path: path.clone(), source })?;
    match package(&bytes) {
        Ok(checked) => {
            let value = json!({ "format": "ipu-tune/check@1", "valid": true, "violations": [] });
            output.result(&value, || report::checked(checked.get()))?;
            Ok(Exit::Success)
        }
        Err(violations) => {
            let list: Vec<_> = violations
                .list()
                .iter()
                .map(|found| json!({ "kind": found.kind(), "text": found.to_string() }))
                .collect();
            let count = violations.count();
            let value = json!({ "format": "ipu-tune/check@1", "valid": false, "count": count, "violations": list });
            output.result(&value, || {
                let lines: Vec<String> =
                    violations.list().iter().map(ToString::to_string).collect();
                lines.join("\n")
            })?;
            Err(CliError::Invalid { path, count })
        }
    }
}
