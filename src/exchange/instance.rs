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
//! A transfer waits at most for transfers that come before it in the file (rule D1), so what a file
//! asks for is never cyclic.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::target::sram::{INTERLEAVED_START, MEMORY_END};
use crate::target::{Address, TILES, TileId};

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

/// Why a file is no instance.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum InstanceError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A `.gz` file that is damaged or none.
    #[error("cannot unpack `{}`", path.display())]
    Packed { path: PathBuf, source: std::io::Error },
    /// The file is no UTF-8 text.
    #[error("`{}` is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
    /// The file is empty.
    #[error("`{}` is empty, expected an exchange instance", path.display())]
    Empty { path: PathBuf },
    /// The text is not of the format.
    #[error("`{}`: bad value at {place}", path.display())]
    Form { path: PathBuf, place: String, source: serde_json::Error },
    /// A number of tiles that no chip has.
    #[error("`{}`: {found} tiles, expected 1 to {TILES}", path.display())]
    Tiles { path: PathBuf, found: u32 },
    /// More words than events can be counted for.
    #[error("`{}`: {words} words in all, at most {MOST_WORDS_IN_ALL} are possible", path.display())]
    Words { path: PathBuf, words: u64 },
    /// A number of addresses that does not fit.
    #[error("`{}`: transfer {index}: {found} {what}, expected {expected}", path.display())]
    Addresses { path: PathBuf, index: usize, found: usize, what: &'static str, expected: String },
    /// A transfer without addresses for which memory is too small.
    #[error("`{}`: transfer {index}: no place is left for its {words} words on tile {tile}", path.display())]
    NoRoom { path: PathBuf, index: usize, words: u32, tile: u16 },
    /// A transfer that is not legal.
    #[error("`{}`: transfer {index}: {error}", path.display())]
    Transfer { path: PathBuf, index: usize, error: TransferError },
}

impl InstanceError {
    /// What the user can do.
    pub fn hint(&self) -> String {
        let hint = match self {
            InstanceError::Read { .. } => "check the path",
            InstanceError::Packed { .. } => {
                "the file is damaged; one that is not packed needs another ending than `.gz`"
            }
            InstanceError::NotText { .. } | InstanceError::Empty { .. } => {
                "an instance is one JSON object with `tiles` and `transfers`"
            }
            InstanceError::Form { .. } => {
                "an instance is one JSON object with `tiles` and `transfers` (beside them `name`, \
                 `origin`, `peer_program_horizon`); a transfer has `source`, `destinations`, `words` \
                 and may have `source_addresses` and `destination_addresses`"
            }
            InstanceError::Tiles { .. } => "`tiles` is the number of tiles that take part",
            InstanceError::Words { .. } => "fewer or shorter transfers",
            InstanceError::Addresses { .. } => "leave the addresses out, and places are found",
            InstanceError::NoRoom { .. } => {
                "fewer words, or addresses in the file; without any, `--timing n0` needs no places"
            }
            InstanceError::Transfer { error, .. } => of_transfer(error),
        };
        hint.to_owned()
    }
}

fn of_transfer(error: &TransferError) -> &'static str {
    match error {
        TransferError::UnknownTile(_) => "tiles have numbers from 0 to below `tiles`",
        TransferError::NoWords => "`words` is at least 1",
        TransferError::NoDestination => "`destinations` names at least one tile",
        TransferError::DestinationTwice(_) => "name every tile once in `destinations`",
        TransferError::OnlyToItself => "leave it out: a tile copies its own words without exchange",
        TransferError::LoopInElement => {
            "its source needs another destination address, in another memory element"
        }
        TransferError::Misaligned(_) => "addresses are multiples of 4 bytes",
        TransferError::OutOfRange { .. } => {
            "tile memory is 0x4c000 to 0xe8000, in decimal 311296 to 950272"
        }
        TransferError::Iterations { .. } => {
            "`source_addresses` holds one, or one for every iteration of the loop"
        }
        TransferError::OtherBase(_) => {
            "all sources of a tile that move go on by the same bytes in each iteration"
        }
        TransferError::WrittenTwice { .. } => {
            "another of `destination_addresses` for one of the two"
        }
    }
}

/// Most words of all transfers together under N0 without addresses: far from where sums of events
/// could overflow. Placed ones are limited by memory.
const MOST_WORDS_IN_ALL: u64 = 1 << 30;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `tiles` and `transfers`")]
struct RawInstance {
    tiles: u32,
    transfers: Vec<RawTransfer>,
    #[serde(default, rename = "name")]
    _name: IgnoredAny,
    #[serde(default, rename = "origin")]
    _origin: IgnoredAny,
    #[serde(default, rename = "peer_program_horizon")]
    _peer_program_horizon: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `source`, `destinations` and `words`")]
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
        flate2::read::MultiGzDecoder::new(&bytes[..])
            .read_to_end(&mut unpacked)
            .map_err(|source| InstanceError::Packed { path: path.clone(), source })?;
        bytes = unpacked;
    }
    String::from_utf8(bytes).map_err(|_| InstanceError::NotText { path })
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
    let raw: RawInstance = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
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
    let words = raw.transfers.iter().map(|transfer| u64::from(transfer.words)).sum();
    if words > MOST_WORDS_IN_ALL {
        return Err(InstanceError::Words { path: path.to_owned(), words });
    }
    let mut phase = Phase::new(raw.tiles as u16);
    for (index, transfer) in raw.transfers.iter().enumerate() {
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

/// Where places to read are looked for: in region 0, with room for rows in front.
const READ: Address = Address(0x60000);
/// Where places to write are looked for: in region 1.
const WRITTEN: Address = INTERLEAVED_START;

/// Places for transfers without addresses.
struct FreePlaces {
    /// On every tile, where all reads without an address are; `None` if nothing is large enough.
    read: Vec<Option<u64>>,
    /// On every tile, bytes of the longest of these reads.
    longest: Vec<u64>,
    /// On every tile, what is taken from the start: first byte, one past the last, ascending.
    taken: Vec<Vec<(u64, u64)>>,
    /// On every tile, where to look for the next place to write.
    next: Vec<u64>,
}

impl FreePlaces {
    fn new(raw: &RawInstance) -> FreePlaces {
        let tiles = raw.tiles as usize;
        let bytes = |transfer: &RawTransfer| 4 * u64::from(transfer.words);
        // An unknown tile is refused when its transfer is added.
        let tile = |tile: u16| Some(usize::from(tile)).filter(|tile| *tile < tiles);
        let mut written = vec![vec![]; tiles];
        let mut longest = vec![0; tiles];
        for transfer in &raw.transfers {
            let given = transfer.destination_addresses.iter().flatten().map(|at| u64::from(*at));
            for (to, at) in transfer.destinations.iter().zip(given) {
                if let Some(to) = tile(*to) {
                    written[to].push((at, at + bytes(transfer)));
                }
            }
            if let (Some(source), None) = (tile(transfer.source), &transfer.source_addresses) {
                longest[source] = bytes(transfer).max(longest[source]);
            }
        }
        written.iter_mut().for_each(|spans| spans.sort_unstable());
        let read: Vec<Option<u64>> = (written.iter().zip(&longest))
            .map(|(written, bytes)| fit(written, READ.0.into(), *bytes))
            .collect();
        let mut taken = written;
        for (taken, (read, bytes)) in taken.iter_mut().zip(read.iter().zip(&longest)) {
            taken.extend(read.map(|at| (at, at + bytes)).filter(|_| *bytes > 0));
        }
        for transfer in &raw.transfers {
            let given = transfer.source_addresses.iter().flatten().map(|at| u64::from(*at));
            if let Some(source) = tile(transfer.source) {
                taken[source].extend(given.map(|at| (at, at + bytes(transfer))));
            }
        }
        taken.iter_mut().for_each(|spans| spans.sort_unstable());
        FreePlaces { read, longest, taken, next: vec![WRITTEN.0.into(); tiles] }
    }

    /// Where a transfer's words are read; the tile if there is no room.
    fn source(&self, transfer: &RawTransfer) -> Result<Address, u16> {
        let index = usize::from(transfer.source);
        match self.read.get(index) {
            Some(Some(found)) => Ok(Address(*found as u32)),
            // The longest is to blame, not those that would have read there, too.
            Some(None) if self.longest[index] == 4 * u64::from(transfer.words) => {
                Err(transfer.source)
            }
            _ => Ok(READ),
        }
    }

    /// Where a transfer's words are written; the tile on which there is no room.
    fn destinations(&mut self, transfer: &RawTransfer) -> Result<Vec<u32>, u16> {
        let bytes = 4 * u64::from(transfer.words);
        let mut places = vec![];
        for tile in &transfer.destinations {
            let index = usize::from(*tile);
            let Some(next) = self.next.get_mut(index) else {
                places.push(WRITTEN.0);
                continue;
            };
            let place = fit(&self.taken[index], *next, bytes).ok_or(*tile)?;
            *next = place + bytes;
            places.push(place as u32);
        }
        Ok(places)
    }
}

/// The first bytes from an address on that nothing has taken.
fn fit(taken: &[(u64, u64)], from: u64, bytes: u64) -> Option<u64> {
    let mut at = from;
    for (start, end) in taken {
        if *start < at + bytes && *end > at {
            at = end.next_multiple_of(4);
        }
    }
    (at + bytes <= MEMORY_END.0.into()).then_some(at)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]
mod tests {
    use super::*;

    /// An instance on eight tiles.
    fn of(transfers: &str) -> Result<Instance, InstanceError> {
        parse(&format!(r#"{{"tiles": 8, "transfers": [{transfers}]}}"#), Path::new("i.json"))
    }

    fn n0(transfers: &str) -> Result<Instance, InstanceError> {
        parse_n0(&format!(r#"{{"tiles": 8, "transfers": [{transfers}]}}"#), Path::new("i.json"))
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
        assert_eq!(phase.dependences(), []);
        let of_tile = |tile: u16| -> Vec<u32> {
            let all = (0..phase.len()).flat_map(|index| phase.transfer(index).destinations);
            all.filter(|(to, _)| to.0 == tile).map(|(_, at)| at.0).collect()
        };
        assert_eq!(of_tile(0), [0x60000 + 160_000]);
        assert_eq!(of_tile(2), [524_336, 524_304, 524_736]);
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
        assert!(message.contains("4294967296 words in all"), "{message}");
    }

    #[test]
    fn n0_needs_no_memory() {
        let all = [r#"{"source": 0, "destinations": [1], "words": 100000}"#; 3].join(", ");
        assert!(of(&all).is_err());
        let found = n0(&all).unwrap();
        assert_eq!((found.transfers, found.placed, found.phase.dependences()), (3, false, vec![]));
        let words: u32 =
            (0..found.phase.len()).map(|index| found.phase.transfer(index).words).sum();
        assert_eq!(words, 300_000);
        let refused = n0(r#"{"source": 0, "destinations": [1], "words": 0}"#).unwrap_err();
        assert_eq!(refused.to_string(), "`i.json`: transfer 0: it has no words");
        // Addresses that a file gives do count.
        let given = r#"{"source": 0, "destinations": [1], "words": 8, "source_addresses": [524288]},
            {"source": 2, "destinations": [0], "words": 8, "destination_addresses": [524288]}"#;
        let found = n0(given).unwrap();
        assert_eq!((found.placed, found.phase.dependences()), (true, vec![(0, 1)]));
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
