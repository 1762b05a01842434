//! Bytes of every tile.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::package::{Application, TileImage};
use crate::program::Program;
use crate::search::usage::{SupportUsage, TileUsage};
use crate::target::sram::{MEMORY_END, MEMORY_START};
use crate::target::{PhysicalTile, TileId};

/// What memory holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryFigures {
    /// Bytes that a tile has.
    pub tile_bytes: u32,
    /// Support memory by kind, each of the tile that needs the most of it.
    pub support: SupportFigures,
    /// Every tile that the package loads, by logical number.
    pub tiles: Vec<TileFigures>,
}

/// Support memory by kind, each of the tile that needs the most of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SupportFigures {
    /// Launch words, runtime routines and kernels.
    pub linked_bytes: u32,
    /// Tile program.
    pub generated_code_bytes: u32,
    /// Exchange rows.
    pub exchange_table_bytes: u32,
    /// Cycle samples.
    pub profile_bytes: u32,
    /// Programs of the host's calls.
    pub host_code_bytes: u32,
    /// What these need beside code.
    pub host_data_bytes: u32,
}

/// One tile's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TileFigures {
    /// Its logical number.
    pub tile: u16,
    /// Routines, kernels, its program and those of the host's calls.
    pub code_bytes: u32,
    /// Exchange rows.
    pub rows_bytes: u32,
    /// Memory that holds a buffer at some step.
    pub data_bytes: u32,
    /// Bytes in buffers at its fullest step.
    pub live_bytes: u64,
}

impl MemoryFigures {
    /// Memory of a package whose recipe was lowered to `program`; `usage` is by image.
    pub fn of(
        application: &Application,
        program: &Program,
        support: &SupportUsage,
        usage: &[TileUsage],
    ) -> MemoryFigures {
        let mut data = BTreeMap::<TileId, Vec<(u32, u32)>>::new();
        for region in &application.debug_regions {
            let Some(tile) = logical(region.physical_tile) else { continue };
            data.entry(tile).or_default().push((region.address, region.address + region.size));
        }
        let live = live_bytes(program);
        let tile = |(image, usage): (&TileImage, &TileUsage)| {
            let tile = logical(image.physical_tile)?;
            let buffers = data.get_mut(&tile).map_or(0, |ranges| covered(ranges));
            Some(TileFigures {
                tile: tile.0,
                code_bytes: usage.linked_bytes + usage.generated_code_bytes + usage.host_code_bytes,
                rows_bytes: usage.exchange_table_bytes,
                data_bytes: buffers + usage.host_data_bytes,
                live_bytes: live.get(usize::from(tile.0)).copied().unwrap_or(0),
            })
        };
        let mut tiles: Vec<TileFigures> =
            application.tiles.iter().zip(usage).filter_map(tile).collect();
        tiles.sort_unstable_by_key(|figures| figures.tile);
        MemoryFigures {
            tile_bytes: MEMORY_END.0 - MEMORY_START.0,
            support: SupportFigures {
                linked_bytes: support.linked_bytes,
                generated_code_bytes: support.generated_code_bytes,
                exchange_table_bytes: support.exchange_table_bytes,
                profile_bytes: support.profile_bytes,
                host_code_bytes: support.host_code_bytes,
                host_data_bytes: support.host_data_bytes,
            },
            tiles,
        }
    }
}

/// The logical number of a tile of a package.
fn logical(physical: u32) -> Option<TileId> {
    PhysicalTile::new(u16::try_from(physical).ok()?).map(PhysicalTile::logical)
}

/// Bytes in buffers at the fullest step of every tile.
fn live_bytes(program: &Program) -> Vec<u64> {
    let steps = program.steps.len() + 1;
    // By tile and step, how many bytes begin to live, and how many cease to.
    let mut begun = vec![vec![0_u64; steps]; program.tiles.into()];
    let mut ended = begun.clone();
    for buffer in &program.buffers {
        let place = |step: u32| (step as usize).min(steps - 1);
        let (start, end) = (place(buffer.live.start), place(buffer.live.end));
        for (TileId(tile), size) in buffer.sizes.iter() {
            begun[usize::from(*tile)][start] += u64::from(*size);
            ended[usize::from(*tile)][end] += u64::from(*size);
        }
    }
    let most = |(begun, ended): (Vec<u64>, Vec<u64>)| {
        let (mut now, mut most) = (0, 0);
        for (begun, ended) in begun.into_iter().zip(ended) {
            now = now + begun - ended;
            most = most.max(now);
        }
        most
    };
    begun.into_iter().zip(ended).map(most).collect()
}

/// Bytes in at least one of the ranges.
fn covered(ranges: &mut [(u32, u32)]) -> u32 {
    ranges.sort_unstable();
    let (mut bytes, mut reached) = (0, 0);
    for (start, end) in ranges {
        bytes += (*end).max(reached) - (*start).max(reached);
        reached = reached.max(*end);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_bytes_are_counted_once() {
        assert_eq!(covered(&mut []), 0);
        assert_eq!(covered(&mut [(30, 40), (10, 20)]), 20);
        assert_eq!(covered(&mut [(10, 40), (20, 30), (35, 50)]), 40);
        assert_eq!(covered(&mut [(10, 20), (10, 20), (20, 21)]), 11);
    }
}
