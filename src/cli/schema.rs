//! `ipu-tune schema` and `ipu-tune models`.

use std::path::Path;

use serde_json::json;

use crate::model::{Graph, format, shipped};
use crate::plan::Network;
use crate::report;
use crate::space;
use crate::storage;

use super::Exit;
use super::args::{SchemaArgs, SchemaFormat};
use super::error::CliError;
use super::output::Output;

/// Prints a JSON Schema.
pub(super) fn schema(args: &SchemaArgs, output: &Output) -> Result<Exit, CliError> {
    let schema = match args.format {
        SchemaFormat::Model => format::schema(),
        SchemaFormat::Space => space::file::schema(),
        SchemaFormat::Placement => storage::file::schema(),
    };
    let text =
        serde_json::to_string_pretty(&schema).map_err(|error| CliError::Output(error.into()))?;
    output.text(&text)?;
    Ok(Exit::Success)
}

/// Lists the shipped models.
pub(super) fn models(output: &Output) -> Result<Exit, CliError> {
    let mut rows = vec![];
    for (name, text) in shipped::MODELS {
        let graph = Graph::from_json(text, Path::new(name))?;
        let refusal = Network::from_graph(&graph).err().map(|error| error.to_string());
        let (operations, work) = (graph.operations().len(), graph.multiply_adds());
        if output.json() {
            output.line(&json!({
                "format": "ipu-tune/models@1",
                "name": name,
                "operations": operations,
                "multiply_adds": work,
                "tunable": refusal.is_none(),
                "refusal": refusal,
            }))?;
        }
        let state = refusal.unwrap_or_else(|| "can be tuned".to_owned());
        rows.push([(*name).to_owned(), operations.to_string(), report::cycles(work), state]);
    }
    if !output.json() {
        output.text(&report::table(["model", "operations", "multiply-adds", ""], rows))?;
    }
    Ok(Exit::Success)
}
