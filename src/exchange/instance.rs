//! Stand-alone instances: one phase in a JSON file (`.json` or `.json.gz`).
//!
//! Fields: `tiles` and `transfers`, each with `source`, `destinations`, `words`, and optionally
//! `source_addresses` (one, or one for each iteration of an enclosing loop) and
//! `destination_addresses`. Without addresses, transfers get disjoint
//! places in the order in which they come.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::target::{Address, TILES, TileId};

use super::phase::{ExchangeError, Phase};

/// A named phase.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The file's name without its endings.
    pub name: String,
    /// The phase.
    pub phase: Phase,
    /// Transfers as the file has them, before any is split.
    pub transfers: usize,
}

/// Why a file is no instance.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum InstanceError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The text is not of the format.
    #[error("`{}`: bad value at `{place}`", path.display())]
    Form { path: PathBuf, place: String, source: serde_json::Error },
    /// A number of tiles or of addresses that does not fit.
    #[error("`{}`: {what}", path.display())]
    Count { path: PathBuf, what: String },
    /// A transfer that is not legal.
    #[error("`{}`", path.display())]
    Transfer { path: PathBuf, source: ExchangeError },
}

#[derive(Deserialize)]
struct RawInstance {
    tiles: u32,
    transfers: Vec<RawTransfer>,
}

#[derive(Deserialize)]
struct RawTransfer {
    source: u16,
    destinations: Vec<u16>,
    words: u32,
    source_addresses: Option<Vec<u32>>,
    destination_addresses: Option<Vec<u32>>,
}

/// Reads an instance file.
///
/// # Errors
/// The first thing that is wrong with it, naming the transfer.
pub fn read(path: &Path) -> Result<Instance, InstanceError> {
    let wrap = |source| InstanceError::Read { path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(wrap)?;
    let text = if path.extension().is_some_and(|ending| ending == "gz") {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).map_err(wrap)?;
        text
    } else {
        String::from_utf8_lossy(&bytes).into_owned()
    };
    parse(&text, path)
}

/// Reads an instance's text; `path` names it.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str, path: &Path) -> Result<Instance, InstanceError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let raw: RawInstance = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let place = error.path().to_string();
        InstanceError::Form { path: path.to_owned(), place, source: error.into_inner() }
    })?;
    let count = |what: String| InstanceError::Count { path: path.to_owned(), what };
    if raw.tiles == 0 || raw.tiles > u32::from(TILES) {
        return Err(count(format!("{} tiles, expected 1 to {TILES}", raw.tiles)));
    }
    let mut phase = Phase::new(raw.tiles as u16);
    let mut free = FreePlaces::new(raw.tiles as usize);
    for (index, transfer) in raw.transfers.iter().enumerate() {
        let wrap = |error| InstanceError::Transfer {
            path: path.to_owned(),
            source: ExchangeError::Transfer { index, error },
        };
        let sources = match transfer.source_addresses.as_deref() {
            Some([]) => {
                let what = "expected one, or one for each iteration of the loop";
                return Err(count(format!("transfer {index}: no source address, {what}")));
            }
            Some(found) => found.iter().copied().map(Address).collect(),
            None => vec![free.source(transfer)],
        };
        let addresses = match &transfer.destination_addresses {
            Some(found) if found.len() == transfer.destinations.len() => found.clone(),
            Some(found) => {
                let wanted = transfer.destinations.len();
                let found = found.len();
                return Err(count(format!(
                    "transfer {index}: {found} destination addresses, expected {wanted}"
                )));
            }
            None => free.destinations(transfer),
        };
        let tiles = transfer.destinations.iter().map(|tile| TileId(*tile));
        let destinations: Vec<_> = tiles.zip(addresses.into_iter().map(Address)).collect();
        phase
            .add_moving(TileId(transfer.source), &sources, &destinations, transfer.words)
            .map_err(wrap)?;
    }
    phase
        .check_accesses()
        .map_err(|source| InstanceError::Transfer { path: path.to_owned(), source })?;
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = file.trim_end_matches(".gz").trim_end_matches(".json").to_owned();
    Ok(Instance { name, phase, transfers: raw.transfers.len() })
}

/// Places for transfers without addresses: reads in region 0, writes in region 1, one after the
/// other.
struct FreePlaces {
    received: Vec<u32>,
}

impl FreePlaces {
    fn new(tiles: usize) -> FreePlaces {
        FreePlaces { received: vec![0x80000; tiles] }
    }

    fn source(&self, _: &RawTransfer) -> Address {
        Address(0x60000)
    }

    fn destinations(&mut self, transfer: &RawTransfer) -> Vec<u32> {
        let mut places = vec![];
        for tile in &transfer.destinations {
            // An unknown tile is refused when the transfer is added.
            let Some(next) = self.received.get_mut(usize::from(*tile)) else {
                places.push(0x80000);
                continue;
            };
            places.push(*next);
            *next += 4 * transfer.words;
        }
        places
    }
}
