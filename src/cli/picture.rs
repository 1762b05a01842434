//! The picture of what one tile of a package holds over time.

use std::collections::BTreeMap;
use std::path::Path;

use crate::package::Application;
use crate::program::Program;
use crate::report::figures::Picture;
use crate::storage::tile_to_svg;
use crate::target::{TILES, TileId};

use super::error::CliError;

/// Draws a tile of the package at `path`, whose recipe was lowered to `program`: the one that the
/// user named, or the one with the most bytes in buffers.
pub(super) fn picture(
    path: &Path,
    application: &Application,
    program: &Program,
    tile: Option<u16>,
) -> Result<Picture, CliError> {
    let tile = tile.map_or_else(|| fullest(program), TileId);
    let physical = (tile.0 < TILES).then(|| u32::from(tile.physical().0));
    let image = application.tiles.iter().find(|image| Some(image.physical_tile) == physical);
    let image = image.ok_or_else(|| CliError::NoTile {
        path: path.to_owned(),
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
    Ok(Picture { tile: tile.0, svg: tile_to_svg(program, tile, address, taken.collect()) })
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
