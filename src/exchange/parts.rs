//! Long transfers in two halves: two messages can go where there is no room for one.

use crate::target::{Address, TileId};

use super::phase::{Phase, Transfer};
use super::rows::GUARDED;

/// Words that each half has at least: a message needs a select, a pointer and a send of its own.
const LEAST: u32 = 16;

/// The phase in which every long transfer is two messages, the second right behind the first; none if
/// none is long. No tile reads and writes one memory element in it and no transfer moves, so that a
/// schedule holds wherever the whole transfers lie.
pub(super) fn halved(phase: &Phase) -> Option<Phase> {
    if phase.contends() || phase.iterations() > 1 {
        return None;
    }
    let mut parts = Phase::new(phase.tiles());
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let first = if divides(phase, index) { (transfer.words / 4) * 2 } else { transfer.words };
        add(&mut parts, &transfer, 0, first);
        add(&mut parts, &transfer, first, transfer.words - first);
    }
    (parts.len() > phase.len()).then_some(parts)
}

/// Whether a transfer is long, and whether its halves can be 64-bit does not depend on where it lies.
fn divides(phase: &Phase, index: usize) -> bool {
    let transfer = phase.transfer(index);
    let receives = |tile: TileId| transfer.destinations.iter().any(|(other, _)| *other == tile);
    let to_pairs = transfer.destinations.iter().all(|(tile, _)| receives(tile.partner()));
    let known = phase.pairable(index) || !to_pairs;
    // One of these takes an event more than its halves, which no bound may count.
    let guarded = transfer.words == GUARDED;
    !guarded && transfer.words >= 2 * LEAST && known && !receives(transfer.source)
}

/// Adds words of a transfer, from the word `first` on.
fn add(parts: &mut Phase, transfer: &Transfer<'_>, first: u32, words: u32) {
    if words == 0 {
        return;
    }
    let shift = |address: Address| Address(address.0 + 4 * first);
    let destinations: Vec<(TileId, Address)> =
        transfer.destinations.iter().map(|(tile, address)| (*tile, shift(*address))).collect();
    let added = parts.add(transfer.source, shift(transfer.source_address), &destinations, words);
    added.expect("parts of a legal transfer are legal");
}
