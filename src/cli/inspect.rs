//! `ipu-tune inspect PACKAGE`.

use serde_json::json;

use crate::package::load;
use crate::report;

use super::Exit;
use super::args::PackageArgs;
use super::error::CliError;
use super::output::Output;

/// Shows what a package holds.
pub(super) fn inspect(args: &PackageArgs, output: &Output) -> Result<Exit, CliError> {
    let (bytes, application) = load(&args.package)?;
    let origin = &application.origin;
    let recipe: serde_json::Value = serde_json::from_str(&origin.recipe).unwrap_or_default();
    let value = json!({
        "format": "ipu-tune/inspect@1",
        "bytes": bytes.len(),
        "tiles": application.tiles.len(),
        "symbols": application.debug_symbols.len(),
        "kernels": origin.kernels,
        "predicted_cycles": origin.predicted_cycles,
        "measured_cycles": origin.measured_cycles,
        "device": origin.measured_on,
        "simulated": origin.simulated,
        "seed": origin.seed,
        "trial": origin.trial,
        "recipe": recipe,
    });
    output.result(&value, || report::inspect(&application, bytes.len()))?;
    Ok(Exit::Success)
}
