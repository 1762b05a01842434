//! The transfers of one phase, checked when they are added.

use std::collections::BTreeMap;

use crate::target::sram::{MEMORY_END, MEMORY_START};
use crate::target::topology::paired_time;
use crate::target::{Address, TileId, route, time_to_mux};

use super::lanes::{element_mask, source_mask};
use super::rows::RowError;

/// Most words of one ordinary transfer (`target/ipu21.md` §2.4); longer ones are split.
pub const MOST_WORDS: u32 = 4148;

/// One message: words from a source to the same or other addresses of some tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// Sending tile.
    pub source: TileId,
    /// Where the words are read, in an iteration whose offset is 0.
    pub source_address: Address,
    /// Bytes by which each iteration of the enclosing loop reads elsewhere; one 0 without a loop.
    pub offsets: &'a [u32],
    /// Receiving tiles and where they write.
    pub destinations: &'a [(TileId, Address)],
    /// 32-bit words.
    pub words: u32,
}

impl Transfer<'_> {
    /// Where the words are read, iteration by iteration.
    pub fn sources(&self) -> impl Iterator<Item = Address> {
        self.offsets.iter().map(|offset| Address(self.source_address.0 + offset))
    }

    /// Whether the words come from elsewhere in each iteration.
    pub fn moves(&self) -> bool {
        self.offsets.len() > 1
    }
}

/// Whether a tile that hears its own ordinary message of so many words releases itself in the first
/// two events of its send, where no control may take effect (rules S3 and T3 of `target/ipu21.md`
/// §2.5). Its select comes before them, its pointer after them: half as many words do not.
fn released(tile: TileId, words: u32) -> bool {
    let release = i64::from(time_to_mux(tile, tile) + 1) + i64::from(words);
    release == 0 || release == 1
}

/// All transfers of a phase.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    tiles: u16,
    /// Iterations of the enclosing loop, and the first transfer that says so.
    iterations: Option<(usize, usize)>,
    /// Transfers whose source address moves, ascending.
    moving: Vec<usize>,
    /// How the moving base of a tile goes on, iteration by iteration (`target/ipu21.md` §2.7).
    offsets: BTreeMap<TileId, Vec<u32>>,
    sources: Vec<(TileId, Address, u32)>,
    first: Vec<u32>,
    destinations: Vec<(TileId, Address)>,
    /// Memory elements that are read and written, by tile.
    read: Vec<u32>,
    written: Vec<u32>,
}

/// What is wrong with a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// A tile that the phase has not.
    #[error("tile {0} does not exist in this phase")]
    UnknownTile(TileId),
    /// No words.
    #[error("it has no words")]
    NoWords,
    /// No destination.
    #[error("it has no destination")]
    NoDestination,
    /// A tile twice among the destinations.
    #[error("tile {0} is a destination twice")]
    DestinationTwice(TileId),
    /// The source is the only destination (rule T2).
    #[error("its only destination is its source")]
    OnlyToItself,
    /// The source is among the destinations, in the same memory element (rule T2).
    #[error("it goes to its own source inside one memory element")]
    LoopInElement,
    /// Not a multiple of four (rule M3).
    #[error("address {0} is not a multiple of 4")]
    Misaligned(Address),
    /// Not in tile memory.
    #[error("{words} words at {address} leave tile memory")]
    OutOfRange {
        /// First byte.
        address: Address,
        /// Length.
        words: u32,
    },
    /// Another number of source addresses than another transfer has, and not one.
    #[error(
        "it has {found} source addresses where transfer {other} has {expected}; one, or as many, are possible"
    )]
    Iterations {
        /// Its number.
        found: usize,
        /// The other's.
        expected: usize,
        /// An earlier transfer.
        other: usize,
    },
    /// Source addresses that go on unlike those of another transfer of its tile.
    #[error("its source addresses go on unlike those of transfer {0}: a tile has one moving base")]
    OtherBase(usize),
    /// Two transfers write one word.
    #[error("it writes {address} of tile {tile}, which transfer {other} writes too")]
    WrittenTwice {
        /// Where.
        tile: TileId,
        /// The word.
        address: Address,
        /// The earlier transfer.
        other: usize,
    },
}

/// Why a phase cannot be scheduled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// A transfer is not legal.
    #[error("transfer {index}: {error}")]
    Transfer {
        /// Which, in the order added.
        index: usize,
        /// Why; the message says it.
        error: TransferError,
    },
    /// The caller wanted no answer any more.
    #[error("scheduling was stopped")]
    Stopped,
    /// A schedule was to be used for a phase that it was not made for.
    #[error("the schedule is of a phase of another shape")]
    OtherShape,
    /// A row has no encoding.
    #[error("no encoding was found: {0}")]
    Unencodable(RowError),
    /// The rows of no schedule that was found are short enough.
    #[error("tile {tile}: its row takes {bytes} bytes, {limit} are allowed")]
    RowTooLong {
        /// The tile with the largest row, in the schedule with the smallest of these.
        tile: TileId,
        /// Bytes of its row.
        bytes: u32,
        /// Most bytes of a row.
        limit: u32,
    },
}

impl ExchangeError {
    /// Whether the phase is legal, but none of the schedules found is: others may be.
    pub(super) fn is_of_schedule(&self) -> bool {
        matches!(self, ExchangeError::Unencodable(_) | ExchangeError::RowTooLong { .. })
    }
}

impl Phase {
    /// A phase without transfers on the logical tiles `0..tiles`.
    pub fn new(tiles: u16) -> Phase {
        let none = vec![0; usize::from(tiles)];
        Phase { tiles, first: vec![0], read: none.clone(), written: none, ..Phase::default() }
    }

    /// Adds a transfer; one that is too long for the fabric is split.
    ///
    /// # Errors
    /// If the transfer alone is not legal.
    pub fn add(
        &mut self,
        source: TileId,
        source_address: Address,
        destinations: &[(TileId, Address)],
        words: u32,
    ) -> Result<(), TransferError> {
        self.add_moving(source, &[source_address], destinations, words)
    }

    /// Adds a transfer of a loop's body: its words come from one of `addresses` in each iteration.
    /// All such transfers of a tile go on by the same bytes, as there is one moving base.
    ///
    /// # Errors
    /// If the transfer is not legal, alone or in a loop with those added before.
    ///
    /// # Panics
    /// If there is no address.
    pub fn add_moving(
        &mut self,
        source: TileId,
        addresses: &[Address],
        destinations: &[(TileId, Address)],
        words: u32,
    ) -> Result<(), TransferError> {
        for address in addresses {
            self.check(source, *address, destinations, words)?;
        }
        let count = addresses.len();
        if let Some((expected, other)) = self.iterations
            && count > 1
            && count != expected
        {
            return Err(TransferError::Iterations { found: count, expected, other });
        }
        let least = *addresses.iter().min().expect("a transfer has a source address");
        let moves = addresses.iter().any(|address| *address != least);
        if moves {
            let offsets: Vec<u32> = addresses.iter().map(|address| address.0 - least.0).collect();
            if self.offsets.get(&source).is_some_and(|known| *known != offsets) {
                let of_tile = |other: &&usize| self.transfer(**other).source == source;
                let other = self.moving.iter().find(of_tile).copied().unwrap_or_default();
                return Err(TransferError::OtherBase(other));
            }
            self.offsets.insert(source, offsets);
        }
        if count > 1 && self.iterations.is_none() {
            self.iterations = Some((count, self.len()));
        }
        for address in addresses {
            self.read[usize::from(source.0)] |= element_mask(*address, words);
        }
        for (tile, address) in destinations {
            self.written[usize::from(tile.0)] |= element_mask(*address, words);
        }
        self.push(source, least, destinations, words, moves);
        Ok(())
    }

    /// Adds a legal transfer, in pieces that the fabric can carry and that none of their sender's own
    /// controls for them meets (rule T3).
    fn push(
        &mut self,
        source: TileId,
        source_address: Address,
        destinations: &[(TileId, Address)],
        words: u32,
        moves: bool,
    ) {
        let mut done = 0;
        while done < words {
            if moves {
                self.moving.push(self.len());
            }
            let mut piece = (words - done).min(MOST_WORDS);
            if destinations.iter().any(|(tile, _)| *tile == source) && released(source, piece) {
                piece /= 2;
            }
            let shift = |address: Address| Address(address.0 + 4 * done);
            self.sources.push((source, shift(source_address), piece));
            let moved = destinations.iter().map(|(tile, address)| (*tile, shift(*address)));
            self.destinations.extend(moved);
            self.first.push(self.destinations.len() as u32);
            done += piece;
        }
    }

    fn check(
        &self,
        source: TileId,
        address: Address,
        destinations: &[(TileId, Address)],
        words: u32,
    ) -> Result<(), TransferError> {
        if words == 0 {
            return Err(TransferError::NoWords);
        }
        if destinations.is_empty() {
            return Err(TransferError::NoDestination);
        }
        let unknown =
            |tile: TileId| (tile.0 >= self.tiles).then_some(TransferError::UnknownTile(tile));
        let ends = std::iter::once((source, address)).chain(destinations.iter().copied());
        for (tile, address) in ends {
            if let Some(error) = unknown(tile) {
                return Err(error);
            }
            if !address.0.is_multiple_of(4) {
                return Err(TransferError::Misaligned(address));
            }
            let end = u64::from(address.0) + 4 * u64::from(words);
            if address < MEMORY_START || end > u64::from(MEMORY_END.0) {
                return Err(TransferError::OutOfRange { address, words });
            }
        }
        let mut tiles: Vec<TileId> = destinations.iter().map(|(tile, _)| *tile).collect();
        tiles.sort_unstable();
        if let Some(pair) = tiles.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(TransferError::DestinationTwice(pair[0]));
        }
        if let Some((_, to)) = destinations.iter().find(|(tile, _)| *tile == source) {
            if destinations.len() == 1 {
                return Err(TransferError::OnlyToItself);
            }
            if element_mask(address, words) & element_mask(*to, words) != 0 {
                return Err(TransferError::LoopInElement);
            }
        }
        Ok(())
    }

    /// Checks what only all transfers together can violate.
    ///
    /// # Errors
    /// The first transfer that writes a word that another writes.
    pub fn check_accesses(&self) -> Result<(), ExchangeError> {
        for (tile, spans) in self.writes(|_| true) {
            for pair in spans.windows(2) {
                if pair[1].0 < pair[0].1 {
                    let (index, other) = (pair[0].2.max(pair[1].2), pair[0].2.min(pair[1].2));
                    let address = Address(pair[1].0);
                    let error = TransferError::WrittenTwice { tile, address, other };
                    return Err(ExchangeError::Transfer { index, error });
                }
            }
        }
        Ok(())
    }

    /// What is written on each of some tiles, ascending: first byte, one past the last, and by which
    /// transfer.
    pub(super) fn writes(
        &self,
        of: impl Fn(TileId) -> bool,
    ) -> BTreeMap<TileId, Vec<(u32, u32, usize)>> {
        let mut writes: BTreeMap<TileId, Vec<(u32, u32, usize)>> = BTreeMap::new();
        for index in 0..self.len() {
            let transfer = self.transfer(index);
            for (tile, address) in transfer.destinations.iter().filter(|(tile, _)| of(*tile)) {
                let span = (address.0, address.0 + 4 * transfer.words, index);
                writes.entry(*tile).or_default().push(span);
            }
        }
        writes.values_mut().for_each(|spans| spans.sort_unstable());
        writes
    }

    /// The memory elements of a tile that the phase both reads and writes: only there must accesses
    /// keep apart (rule M1).
    pub fn contended(&self, tile: TileId) -> u32 {
        let tile = usize::from(tile.0);
        self.read[tile] & self.written[tile]
    }

    /// The memory elements of a tile that the phase reads or writes, in any iteration: the bit `1 << n`
    /// stands for the element `n`.
    pub fn touched(&self, tile: TileId) -> u32 {
        let tile = usize::from(tile.0);
        self.read[tile] | self.written[tile]
    }

    /// Whether any tile reads and writes one element.
    pub fn contends(&self) -> bool {
        (0..self.tiles).any(|tile| self.contended(TileId(tile)) != 0)
    }

    /// Number of tiles.
    pub fn tiles(&self) -> u16 {
        self.tiles
    }

    /// Number of transfers, pieces counted one by one.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether nothing moves.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// One transfer.
    #[inline(always)]
    pub fn transfer(&self, index: usize) -> Transfer<'_> {
        let (source, source_address, words) = self.sources[index];
        let range = self.first[index] as usize..self.first[index + 1] as usize;
        let destinations = &self.destinations[range];
        let offsets = self.offsets_of(source, index);
        Transfer { source, source_address, offsets, destinations, words }
    }

    fn offsets_of(&self, source: TileId, index: usize) -> &[u32] {
        if !self.moving.is_empty() && self.moving.binary_search(&index).is_ok() {
            return &self.offsets[&source];
        }
        &[0]
    }

    /// Iterations of the enclosing loop; 1 without one.
    pub fn iterations(&self) -> usize {
        self.iterations.map_or(1, |(count, _)| count)
    }

    /// Bytes by which a tile's moving sources lie behind their first places, iteration by iteration;
    /// `None` if none of its sources moves.
    pub fn base(&self, tile: TileId) -> Option<&[u32]> {
        self.offsets.get(&tile).map(Vec::as_slice)
    }

    /// Whether a transfer can be 64-bit (`target/ipu21.md` §3.1): an even number of words from 2
    /// on, everything aligned to 8, whole pairs, and events of a receiver that do not coincide. The
    /// sender's own pair may be among several, if what it gets lies in other memory elements and its
    /// controls leave alone the first two events of the send.
    pub fn pairable(&self, index: usize) -> bool {
        self.can_pair(&self.transfer(index))
    }

    /// [`Phase::pairable`] of a transfer that may be none of the phase's.
    pub(super) fn can_pair(&self, transfer: &Transfer<'_>) -> bool {
        let items = transfer.words / 2;
        let aligned = |address: Address| address.0.is_multiple_of(8);
        let has = |tile: TileId| transfer.destinations.iter().any(|(found, _)| *found == tile);
        transfer.words >= 2
            && transfer.words.is_multiple_of(2)
            && transfer.destinations.len().is_multiple_of(2)
            && transfer.sources().all(aligned)
            && transfer.source.partner().0 < self.tiles
            && transfer.destinations.iter().all(|(tile, address)| {
                let gap = || 51 + 2 * tile.row();
                aligned(*address)
                    && has(tile.partner())
                    && items != 2
                    && items != gap()
                    && items != gap() + 2
            })
            && (!has(transfer.source) || comes_home(transfer))
    }
}

/// Whether a 64-bit message to whole pairs may go to the sender's own, too.
fn comes_home(transfer: &Transfer<'_>) -> bool {
    let (source, items) = (transfer.source, transfer.words as i32 / 2);
    let home = |tile: TileId| tile == source || tile == source.partner();
    let read = source_mask(transfer);
    let apart = |address: Address| read & element_mask(address, transfer.words) == 0;
    let window = paired_time(source, source);
    let format = window + 51 + 2 * source.row() as i32;
    let early = route(source, source).destination_is_early;
    let selects = [window, window + items].into_iter().filter(|_| early);
    let mut controls = selects.chain([format, format + 2, format + items]);
    transfer.destinations.len() > 2
        && transfer.destinations.iter().all(|(tile, address)| !home(*tile) || apart(*address))
        && controls.all(|control| control != 0 && control != 1)
}
