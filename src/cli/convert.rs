//! `ipu-tune convert GRAPH`: from the neutral operator-graph format.

use crate::model::{ModelError, convert as converter};
use crate::package::save;

use super::Exit;
use super::args::ConvertArgs;
use super::error::CliError;
use super::output::Output;

/// Converts a graph.
pub(super) fn convert(args: &ConvertArgs, output: &Output) -> Result<Exit, CliError> {
    let path = &args.graph;
    let text = std::fs::read_to_string(path)
        .map_err(|source| ModelError::Read { path: path.clone(), source })?;
    let graph = converter::from_neutral(&text, path)?;
    match &args.output {
        Some(to) => save(to, graph.to_json_pretty().as_bytes())?,
        None => output.text(graph.to_json_pretty().trim_end())?,
    }
    Ok(Exit::Success)
}
