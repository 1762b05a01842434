//! A phase with some of its transfers changed, as a change of a program's plan does it.

use ipu_tune::exchange::Phase;
use ipu_tune::target::{Address, TileId};

/// Numbers that look like chance, the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// One below `below`.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// `phase` with about `thousandths` of its transfers removed, added, of another length, or at other
/// addresses, as many of each.
pub(crate) fn changed(phase: &Phase, thousandths: usize, numbers: &mut Numbers) -> Phase {
    // Away from where rows are checked, and behind all that is read or written.
    let mut free = vec![0x50000; usize::from(phase.tiles())];
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let source = (transfer.source, transfer.source_address);
        for (tile, address) in transfer.destinations.iter().chain([&source]) {
            let end = address.0 + 4 * transfer.words;
            let free = &mut free[usize::from(tile.0)];
            *free = end.next_multiple_of(8).max(*free);
        }
    }
    let mut new = Phase::new(phase.tiles());
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let (source, from) = (transfer.source, transfer.source_address);
        let mut elsewhere = |tiles: &[TileId], words: u32| -> Vec<(TileId, Address)> {
            let place = |tile: &TileId| {
                let free = &mut free[usize::from(tile.0)];
                let at = *free;
                *free = (at + 4 * words).next_multiple_of(8);
                (*tile, Address(at))
            };
            tiles.iter().map(place).collect()
        };
        let tiles: Vec<TileId> = transfer.destinations.iter().map(|(tile, _)| *tile).collect();
        let mut add = |to: &[(TileId, Address)], words| new.add(source, from, to, words).unwrap();
        if numbers.below(1000) >= thousandths {
            add(transfer.destinations, transfer.words);
            continue;
        }
        match numbers.below(4) {
            0 => {}
            1 => {
                add(transfer.destinations, transfer.words);
                let to = TileId(numbers.below(phase.tiles().into()) as u16);
                if to != source {
                    add(&elsewhere(&[to], transfer.words), transfer.words);
                }
            }
            2 => {
                let words = transfer.words + 2 * numbers.below(8) as u32;
                add(&elsewhere(&tiles, words), words);
            }
            _ => add(&elsewhere(&tiles, transfer.words), transfer.words),
        }
    }
    new
}
