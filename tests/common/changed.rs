//! A phase with some of its transfers changed, as a change of a program's plan does it.

use ipu_tune::check::{TileRow, phase as check_phase};
use ipu_tune::exchange::{Phase, Scheduled};
use ipu_tune::target::{Address, TileId};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

#[path = "wanted.rs"]
mod wanted;
use wanted::wanted;

/// Where rows lie for checking: executable, and away from all data.
const ROWS: u32 = 0x4c000;

/// The horizon that the checker finds.
pub(crate) fn checked(phase: &Phase, scheduled: &Scheduled) -> u32 {
    let row = |row: &'_ ipu_tune::exchange::Row| (row.tile, row.words.clone());
    let made: Vec<(TileId, Vec<u32>)> = scheduled.rows.iter().map(row).collect();
    let rows: Vec<TileRow<'_>> =
        made.iter().map(|(tile, words)| TileRow { tile: *tile, address: ROWS, words }).collect();
    check_phase(phase.tiles(), &rows, &wanted(phase)).unwrap().get().horizon
}

/// `phase` with other names of tiles, of which there are `tiles`.
pub(crate) fn renamed(phase: &Phase, tiles: u16, name: impl Fn(TileId) -> TileId) -> Phase {
    let mut new = Phase::new(tiles);
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let to = transfer.destinations.iter().map(|(tile, address)| (name(*tile), *address));
        let to: Vec<_> = to.collect();
        let source = name(transfer.source);
        new.add(source, transfer.source_address, &to, transfer.words).unwrap();
    }
    new
}

/// `phase` with about `thousandths` of its transfers removed, added, of another length, or at other
/// addresses, as many of each.
pub(crate) fn changed(phase: &Phase, thousandths: usize, random: &mut ChaCha8Rng) -> Phase {
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
        if random.random_range(0..1000) >= thousandths {
            add(transfer.destinations, transfer.words);
            continue;
        }
        match random.random_range(0..4) {
            0 => {}
            1 => {
                add(transfer.destinations, transfer.words);
                let to = TileId(random.random_range(0..phase.tiles()));
                if to != source {
                    add(&elsewhere(&[to], transfer.words), transfer.words);
                }
            }
            2 => {
                let words = transfer.words + 2 * random.random_range(0..8_u32);
                add(&elsewhere(&tiles, words), words);
            }
            _ => add(&elsewhere(&tiles, transfer.words), transfer.words),
        }
    }
    new
}
