//! Profiles: what a device measured, step by step (`target/ipu21.md` §7.2).

use capnp::message::Builder;
use capnp::serialize;

use super::application::{SCHEMA_VERSION, Step};
use super::decode::{form, options};
use super::file::PackageError;
use super::wire::profile_capnp as wire;

/// One step on one tile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleSample {
    /// What was done.
    pub step: Step,
    /// Counter before; 32 bits, wraps.
    pub start_cycle: u32,
    /// Counter after.
    pub end_cycle: u32,
}

/// All steps of one tile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TileProfile {
    /// The chip's number of the tile.
    pub physical_tile: u32,
    /// Its samples.
    pub samples: Vec<CycleSample>,
}

/// A profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Tile clock.
    pub clock_hz: u64,
    /// All tiles.
    pub tiles: Vec<TileProfile>,
}

/// The profile's bytes.
pub fn write_profile(profile: &Profile) -> Vec<u8> {
    let mut message = Builder::new_default();
    let mut root = message.init_root::<wire::profile::Builder<'_>>();
    root.set_schema_version(SCHEMA_VERSION);
    root.set_clock_hz(profile.clock_hz);
    let mut tiles = root.init_tiles(profile.tiles.len() as u32);
    for (index, tile) in (0..).zip(&profile.tiles) {
        let mut to = tiles.reborrow().get(index);
        to.set_physical_tile(tile.physical_tile);
        let mut samples = to.init_samples(tile.samples.len() as u32);
        for (index, sample) in (0..).zip(&tile.samples) {
            let mut to = samples.reborrow().get(index);
            to.set_start_cycle(sample.start_cycle);
            to.set_end_cycle(sample.end_cycle);
            super::encode::step(&sample.step, to.init_step());
        }
    }
    serialize::write_message_to_words(&message)
}

/// Reads a profile of schema version 1 to 5.
///
/// # Errors
/// If the bytes are no profile.
pub fn read_profile(bytes: &[u8]) -> Result<Profile, PackageError> {
    let mut rest = bytes;
    let message = serialize::read_message_from_flat_slice(&mut rest, options()).map_err(form)?;
    let root = message.get_root::<wire::profile::Reader<'_>>().map_err(form)?;
    let found = root.get_schema_version();
    if !(1..=SCHEMA_VERSION).contains(&found) {
        return Err(PackageError::Version { found, expected: SCHEMA_VERSION });
    }
    let sample = |from: wire::cycle_sample::Reader<'_>| -> capnp::Result<CycleSample> {
        Ok(CycleSample {
            step: super::decode::step(from.get_step()?)?,
            start_cycle: from.get_start_cycle(),
            end_cycle: from.get_end_cycle(),
        })
    };
    let tile = |from: wire::tile_profile::Reader<'_>| -> capnp::Result<TileProfile> {
        Ok(TileProfile {
            physical_tile: from.get_physical_tile(),
            samples: from.get_samples()?.iter().map(sample).collect::<capnp::Result<_>>()?,
        })
    };
    let tiles = root.get_tiles().map_err(form)?.iter().map(tile).collect::<capnp::Result<_>>();
    Ok(Profile { clock_hz: root.get_clock_hz(), tiles: tiles.map_err(form)? })
}
