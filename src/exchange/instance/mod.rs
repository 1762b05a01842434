//! Stand-alone instances: one phase in a JSON file (`.json` or `.json.gz`).
//!
//! Fields: `tiles` and `transfers`, each with `source`, `destinations`, `words`, and optionally
//! `source_addresses` (one, or one for each iteration of an enclosing loop) and
//! `destination_addresses`. `name`, `origin` and `peer_program_horizon` may stand beside them and say
//! nothing here; any other field is an error.
//!
//! What has no address gets one: on every tile a place that all its sends read, and behind each other
//! places to write, none of which meets another or anything that the file places. Under N0 nothing has
//! to fit into memory: there, a file without any address is read without places.
//!
//! A file cannot ask for a cyclic order, so there is no error for one: only transfers that touch the
//! same words of a tile have an order, which is that of the file (rule D1), so whatever a transfer waits
//! for comes before it.

mod error;
mod free;

use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::json::{self, Form, Object};
use crate::target::{Address, TILES, TileId};

pub use error::InstanceError;
use free::{FreePlaces, READ, WRITTEN};

use super::phase::{ExchangeError, MOST_WORDS, Phase, TransferError};

/// A named phase.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The file's name without its endings.
    pub name: String,
    /// The phase.
    pub phase: Phase,
    /// Transfers as the file has them, before any is split.
    pub transfers: usize,
    /// Whether the phase's addresses mean anything: not so in an N0 instance without any.
    pub placed: bool,
}

/// Most words of all transfers together, every receiver counted, under N0 without addresses: far from
/// where sums of events could overflow. Placed ones are limited by memory.
const MOST_WORDS_IN_ALL: u64 = 1 << 30;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInstance {
    tiles: u32,
    #[serde(deserialize_with = "json::list")]
    transfers: Vec<RawTransfer>,
    #[serde(default, rename = "name")]
    _name: IgnoredAny,
    #[serde(default, rename = "origin")]
    _origin: IgnoredAny,
    #[serde(default, rename = "peer_program_horizon")]
    _peer_program_horizon: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTransfer {
    source: u16,
    destinations: Vec<u16>,
    words: u32,
    source_addresses: Option<Vec<u32>>,
    destination_addresses: Option<Vec<u32>>,
}

impl Form for RawInstance {
    const FORM: &'static str = "an object with `tiles` and `transfers`";
}

impl Form for RawTransfer {
    const FORM: &'static str = "an object with `source`, `destinations` and `words`";
}

/// Reads an instance file.
///
/// # Errors
/// The first thing that is wrong with it, naming the transfer.
pub fn read(path: &Path) -> Result<Instance, InstanceError> {
    parse(&text(path)?, path)
}

/// Reads an instance file for N0, where transfers need no places.
///
/// # Errors
/// As [`read`], but never for want of memory in a file without addresses.
pub fn read_n0(path: &Path) -> Result<Instance, InstanceError> {
    parse_n0(&text(path)?, path)
}

fn text(path: &Path) -> Result<String, InstanceError> {
    let path = path.to_owned();
    let mut bytes = std::fs::read(&path)
        .map_err(|source| InstanceError::Read { path: path.clone(), source })?;
    if path.extension().is_some_and(|ending| ending == "gz") {
        let mut unpacked = vec![];
        // All members: whatever follows the first must not be dropped in silence.
        let read = flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked);
        if let Err(source) = read {
            return Err(InstanceError::Packed { path, bytes: unpacked.len(), source });
        }
        bytes = unpacked;
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let byte = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        InstanceError::NotText { path, line, byte }
    })
}

/// Reads an instance's text; `path` names it.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str, path: &Path) -> Result<Instance, InstanceError> {
    placed(&raw(text, path)?, path)
}

/// Reads an instance's text for N0; `path` names it.
///
/// # Errors
/// As [`read_n0`].
pub fn parse_n0(text: &str, path: &Path) -> Result<Instance, InstanceError> {
    let raw = raw(text, path)?;
    let addressed = |transfer: &RawTransfer| {
        transfer.source_addresses.is_some() || transfer.destination_addresses.is_some()
    };
    if raw.transfers.iter().any(addressed) { placed(&raw, path) } else { unplaced(&raw, path) }
}

/// Reads the text into the file's types, which says nothing yet about what they mean.
fn raw(text: &str, path: &Path) -> Result<RawInstance, InstanceError> {
    let path = path.to_owned();
    if text.trim().is_empty() {
        return Err(InstanceError::Empty { path });
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let Object(raw): Object<RawInstance> =
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let place = match error.path().to_string().as_str() {
                "." | "?" => "the top level".to_owned(),
                // Where a text ends early, the last part of the path is not known.
                place => format!("`{}`", place.trim_end_matches(".?")),
            };
            InstanceError::Form { path: path.clone(), place, source: error.into_inner() }
        })?;
    let end = |source| InstanceError::Form { path: path.clone(), place: "the end".into(), source };
    reader.end().map_err(end)?;
    if raw.tiles == 0 || raw.tiles > u32::from(TILES) {
        return Err(InstanceError::Tiles { path, found: raw.tiles });
    }
    Ok(raw)
}

/// The phase with a place for everything.
fn placed(raw: &RawInstance, path: &Path) -> Result<Instance, InstanceError> {
    let mut phase = Phase::new(raw.tiles as u16);
    let mut free = FreePlaces::new(raw);
    // The first piece of every transfer: long ones are split.
    let mut pieces = vec![];
    for (index, transfer) in raw.transfers.iter().enumerate() {
        let room = |tile| InstanceError::NoRoom {
            path: path.to_owned(),
            index,
            words: transfer.words,
            tile,
        };
        let count = |found: usize, what, expected| {
            let path = path.to_owned();
            InstanceError::Addresses { path, index, found, what, expected }
        };
        let sources = match &transfer.source_addresses {
            Some(found) if found.is_empty() => {
                let expected = "one, or one for each iteration of the loop".to_owned();
                return Err(count(0, "source addresses", expected));
            }
            Some(found) => found.iter().copied().map(Address).collect(),
            None => vec![free.source(transfer).map_err(room)?],
        };
        let addresses = match &transfer.destination_addresses {
            Some(found) if found.len() == transfer.destinations.len() => found.clone(),
            Some(found) => {
                let expected = transfer.destinations.len().to_string();
                return Err(count(found.len(), "destination addresses", expected));
            }
            None => free.destinations(transfer).map_err(room)?,
        };
        let tiles = transfer.destinations.iter().map(|tile| TileId(*tile));
        let destinations: Vec<_> = tiles.zip(addresses.into_iter().map(Address)).collect();
        let first = phase.len();
        phase
            .add_moving(TileId(transfer.source), &sources, &destinations, transfer.words)
            .map_err(|error| illegal(path, &pieces, index, error))?;
        pieces.push(first);
    }
    if let Err(ExchangeError::Transfer { index, error }) = phase.check_accesses() {
        return Err(illegal(path, &pieces, of_piece(&pieces, index), error));
    }
    Ok(instance(raw, path, phase, true))
}

/// The phase with nothing but who sends how much to whom. All reads have one address and all writes
/// another, which no piece reaches from the first: nothing waits for anything.
fn unplaced(raw: &RawInstance, path: &Path) -> Result<Instance, InstanceError> {
    let mut words = 0;
    let mut phase = Phase::new(raw.tiles as u16);
    for (index, transfer) in raw.transfers.iter().enumerate() {
        words += u64::from(transfer.words) * transfer.destinations.len() as u64;
        if words > MOST_WORDS_IN_ALL {
            return Err(InstanceError::Words { path: path.to_owned(), index, words });
        }
        let tiles = transfer.destinations.iter().map(|tile| TileId(*tile));
        let destinations: Vec<_> = tiles.map(|tile| (tile, WRITTEN)).collect();
        let mut left = transfer.words;
        loop {
            let piece = left.min(MOST_WORDS);
            phase
                .add(TileId(transfer.source), READ, &destinations, piece)
                .map_err(|error| illegal(path, &[], index, error))?;
            left -= piece;
            if left == 0 {
                break;
            }
        }
    }
    Ok(instance(raw, path, phase, false))
}

fn instance(raw: &RawInstance, path: &Path, phase: Phase, placed: bool) -> Instance {
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = file.trim_end_matches(".gz").trim_end_matches(".json").to_owned();
    Instance { name, phase, transfers: raw.transfers.len(), placed }
}

/// The transfer that a piece is of.
fn of_piece(pieces: &[usize], piece: usize) -> usize {
    pieces.partition_point(|first| *first <= piece).saturating_sub(1)
}

/// What is wrong with a transfer; others are called by their number in the file, too, which a phase
/// does not know.
fn illegal(path: &Path, pieces: &[usize], index: usize, error: TransferError) -> InstanceError {
    let error = match error {
        TransferError::Iterations { found, expected, other } => {
            TransferError::Iterations { found, expected, other: of_piece(pieces, other) }
        }
        TransferError::OtherBase(other) => TransferError::OtherBase(of_piece(pieces, other)),
        TransferError::WrittenTwice { tile, address, other } => {
            TransferError::WrittenTwice { tile, address, other: of_piece(pieces, other) }
        }
        error => error,
    };
    InstanceError::Transfer { path: path.to_owned(), index, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::waits::Waits;

    /// An instance on eight tiles.
    fn of(transfers: &str) -> Result<Instance, InstanceError> {
        parse(&format!(r#"{{"tiles": 8, "transfers": [{transfers}]}}"#), Path::new("i.json"))
    }

    fn n0(transfers: &str) -> Result<Instance, InstanceError> {
        parse_n0(&format!(r#"{{"tiles": 8, "transfers": [{transfers}]}}"#), Path::new("i.json"))
    }

    /// All pairs of transfers of which the second waits for the first.
    fn waits(phase: &Phase) -> Vec<(u32, u32)> {
        let waits = Waits::new(phase);
        let of = |index| waits.earlier(index).map(move |earlier| (earlier, index));
        (0..phase.len() as u32).flat_map(of).collect()
    }

    #[test]
    fn invented_places_meet_nothing() {
        // Two long reads of tile 0, which also receives, and what the file places on tile 2.
        let found = of(r#"{"source": 0, "destinations": [1], "words": 40000},
            {"source": 3, "destinations": [0, 2], "words": 100},
            {"source": 4, "destinations": [2], "words": 8, "destination_addresses": [524304]},
            {"source": 2, "destinations": [1], "words": 8, "source_addresses": [524800]},
            {"source": 3, "destinations": [2], "words": 10}"#);
        let phase = found.unwrap().phase;
        assert_eq!(waits(&phase), []);
        let of_tile = |tile: u16| -> Vec<u32> {
            let all = (0..phase.len()).flat_map(|index| phase.transfer(index).destinations);
            all.filter(|(to, _)| to.0 == tile).map(|(_, at)| at.0).collect()
        };
        assert_eq!(of_tile(0), [0x60000 + 160_000]);
        assert_eq!(of_tile(2), [524_336, 524_304, 524_736]);
    }

    #[test]
    fn what_a_tile_sends_itself_goes_to_another_element() {
        let found = of(r#"{"source": 0, "destinations": [1], "words": 8},
            {"source": 0, "destinations": [0, 1], "words": 40000}"#);
        let phase = found.unwrap().phase;
        assert_eq!(phase.transfer(1).destinations[0].1.0, 0x88000);
    }

    #[test]
    fn more_than_memory_holds_is_refused_with_its_transfer() {
        let long = r#"{"source": 0, "destinations": [1], "words": 4294967295}"#;
        let short = r#"{"source": 2, "destinations": [1], "words": 1}"#;
        let message = of(&format!("{short}, {long}, {short}")).unwrap_err().to_string();
        assert_eq!(
            message,
            "`i.json`: transfer 1: no place is left for its 4294967295 words on tile 0"
        );
        let message = n0(&format!("{short}, {long}")).unwrap_err().to_string();
        assert!(message.contains("transfer 1: with it 4294967296 words arrive"), "{message}");
    }

    #[test]
    fn n0_needs_no_memory() {
        let all = [r#"{"source": 0, "destinations": [1], "words": 100000}"#; 3].join(", ");
        assert!(of(&all).is_err());
        let found = n0(&all).unwrap();
        assert_eq!((found.transfers, found.placed, waits(&found.phase)), (3, false, vec![]));
        let words: u32 =
            (0..found.phase.len()).map(|index| found.phase.transfer(index).words).sum();
        assert_eq!(words, 300_000);
        let refused = n0(r#"{"source": 0, "destinations": [1], "words": 0}"#).unwrap_err();
        assert_eq!(refused.to_string(), "`i.json`: transfer 0: it has no words");
        // Addresses that a file gives do count.
        let given = r#"{"source": 0, "destinations": [1], "words": 8, "source_addresses": [524288]},
            {"source": 2, "destinations": [0], "words": 8, "destination_addresses": [524288]}"#;
        let found = n0(given).unwrap();
        assert_eq!((found.placed, waits(&found.phase)), (true, vec![(0, 1)]));
    }

    #[test]
    fn transfers_have_their_numbers_in_the_file() {
        // The first is split in three.
        let long = r#"{"source": 0, "destinations": [1], "words": 9000}"#;
        let at = |source: u16| {
            format!(
                r#"{{"source": {source}, "destinations": [2], "words": 4,
                    "destination_addresses": [700000]}}"#
            )
        };
        let message = of(&[long.to_owned(), at(3), at(4)].join(", ")).unwrap_err().to_string();
        assert_eq!(
            message,
            "`i.json`: transfer 2: it writes 0xaae60 of tile 2, which transfer 1 writes too"
        );
    }

    #[test]
    fn what_stands_beside_the_transfers_is_allowed() {
        let text = r#"{"name": "a", "tiles": 2, "origin": "b", "peer_program_horizon": 7,
            "transfers": [{"source": 0, "destinations": [1], "words": 1}]} "#;
        assert_eq!(parse(text, Path::new("x.json.gz")).unwrap().name, "x");
    }
}
