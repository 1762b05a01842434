//! `ipu-tune inspect PACKAGE`.

use serde_json::json;

use crate::package::{load, save_together};
use crate::report;

use super::Exit;
use super::args::InspectArgs;
use super::error::CliError;
use super::origin::lowered;
use super::output::Output;
use super::picture::picture;

/// Shows what a package holds.
pub(super) fn inspect(args: &InspectArgs, output: &Output) -> Result<Exit, CliError> {
    let (bytes, application) = load(&args.package)?;
    if let Some(path) = &args.svg {
        let program = lowered(&args.package, &application)?.program;
        let drawn = picture(&args.package, &application, &program, args.tile)?;
        save_together(&[(path.as_path(), drawn.svg.as_bytes())])?;
    }
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
