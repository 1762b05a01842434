//! Places for transfers without addresses.

use crate::target::Address;
use crate::target::sram::{INTERLEAVED_ELEMENT, INTERLEAVED_START, MEMORY_END};

use super::{RawInstance, RawTransfer};

/// Where places to read are looked for: in region 0, with room for rows in front.
pub(super) const READ: Address = Address(0x60000);
/// Where places to write are looked for: in region 1.
pub(super) const WRITTEN: Address = INTERLEAVED_START;

/// Places for transfers without addresses.
pub(super) struct FreePlaces {
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
    pub(super) fn new(raw: &RawInstance) -> FreePlaces {
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
    pub(super) fn source(&self, transfer: &RawTransfer) -> Result<Address, u16> {
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
    pub(super) fn destinations(&mut self, transfer: &RawTransfer) -> Result<Vec<u32>, u16> {
        let bytes = 4 * u64::from(transfer.words);
        let mut places = vec![];
        for tile in &transfer.destinations {
            let index = usize::from(*tile);
            let Some(next) = self.next.get(index) else {
                places.push(WRITTEN.0);
                continue;
            };
            let own = if *tile == transfer.source { self.behind_reads(index) } else { 0 };
            let place = fit(&self.taken[index], own.max(*next), bytes).ok_or(*tile)?;
            self.next[index] = place + bytes;
            places.push(place as u32);
        }
        Ok(places)
    }

    /// Where the element that a tile reads last ends: what it sends itself goes to another (rule T2).
    fn behind_reads(&self, tile: usize) -> u64 {
        let end = self.read[tile].map_or(0, |at| at + self.longest[tile]);
        end.next_multiple_of(INTERLEAVED_ELEMENT.0.into())
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
