//! What a package was made from, by its own account.

use std::path::Path;

use crate::model::Graph;
use crate::package::Application;
use crate::plan::{Network, Recipe};
use crate::program::{Program, program};
use crate::space::check_recipe;

use super::error::CliError;

/// A package's model, and its recipe lowered.
pub(super) struct Lowered {
    pub(super) graph: Graph,
    pub(super) network: Network,
    pub(super) program: Program,
}

/// Lowers the recipe of the package at `path` again.
pub(super) fn lowered(path: &Path, application: &Application) -> Result<Lowered, CliError> {
    let origin = |what: String| CliError::Origin { path: path.to_owned(), what };
    let graph = Graph::from_json(&application.origin.model, path)?;
    let network = Network::from_graph(&graph)?;
    let recipe = Recipe::from_json(&application.origin.recipe)
        .map_err(|error| origin(format!("its recipe cannot be read: {error}")))?;
    check_recipe(&network, &recipe).map_err(|illegal| origin(illegal.to_string()))?;
    let program = program(&network, &recipe);
    Ok(Lowered { graph, network, program })
}
