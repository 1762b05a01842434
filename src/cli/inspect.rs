//! `ipu-tune inspect PACKAGE`.

use std::collections::BTreeMap;

use serde_json::json;

use crate::package::{Application, load, save_together};
use crate::program::Program;
use crate::report;
use crate::storage::tile_to_svg;
use crate::target::{TILES, TileId};

use super::Exit;
use super::args::InspectArgs;
use super::error::CliError;
use super::origin::lowered;
use super::output::Output;

/// Shows what a package holds.
pub(super) fn inspect(args: &InspectArgs, output: &Output) -> Result<Exit, CliError> {
    let (bytes, application) = load(&args.package)?;
    if let Some(path) = &args.svg {
        let svg = picture(args, &application)?;
        save_together(&[(path.as_path(), svg.as_bytes())])?;
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

/// What one tile of a package holds over time.
fn picture(args: &InspectArgs, application: &Application) -> Result<String, CliError> {
    let program = lowered(&args.package, application)?.program;
    let tile = args.tile.map_or_else(|| fullest(&program), TileId);
    let physical = (tile.0 < TILES).then(|| u32::from(tile.physical().0));
    let image = application.tiles.iter().find(|image| Some(image.physical_tile) == physical);
    let image = image.ok_or_else(|| CliError::NoTile {
        path: args.package.clone(),
        tile: tile.0,
        tiles: application.tiles.len() as u16,
    })?;
    let regions = application.debug_regions.iter();
    let addresses: BTreeMap<&str, u32> = regions
        .filter(|region| region.physical_tile == image.physical_tile)
        .map(|region| (region.name.as_str(), region.address))
        .collect();
    let taken = image.segments.iter();
    let taken = taken.map(|segment| segment.address..segment.address + segment.memory_size);
    let address = |name: &str| addresses.get(name).copied();
    Ok(tile_to_svg(&program, tile, address, taken.collect()))
}

/// The tile with the most bytes in buffers, the first of several.
fn fullest(program: &Program) -> TileId {
    let mut bytes = BTreeMap::<TileId, u64>::new();
    for (tile, size) in program.buffers.iter().flat_map(|buffer| buffer.sizes.iter()) {
        *bytes.entry(*tile).or_default() += u64::from(*size);
    }
    let most = bytes.values().max().copied();
    bytes.into_iter().find(|(_, bytes)| Some(*bytes) == most).map_or(TileId(0), |found| found.0)
}
