//! What two phases have in common.

use std::collections::{BTreeMap, VecDeque};

use crate::target::TileId;

use super::phase::Phase;

/// For every transfer of `phase` one of `from` with the same tiles and words, none for two.
pub(super) fn counterparts(phase: &Phase, from: &Phase) -> Vec<Option<u32>> {
    let (mut found, left) = walk(phase, from);
    // What stands elsewhere is little, if little changed.
    let mut places: BTreeMap<(TileId, u32, Vec<TileId>), VecDeque<u32>> = BTreeMap::new();
    let key = |phase: &Phase, index: usize| {
        let transfer = phase.transfer(index);
        let tiles = transfer.destinations.iter().map(|(tile, _)| *tile).collect();
        (transfer.source, transfer.words, tiles)
    };
    for old in left {
        places.entry(key(from, old as usize)).or_default().push_back(old);
    }
    if !places.is_empty() {
        for (new, found) in found.iter_mut().enumerate().filter(|(_, found)| found.is_none()) {
            *found = places.get_mut(&key(phase, new)).and_then(VecDeque::pop_front);
        }
    }
    found
}

/// How far ahead the next common transfers are looked for, and how many must follow each other there.
const AHEAD: usize = 16;
const RUN: usize = 4;

/// Finds what both list in the same order, as a program lowered twice does; and what is left of
/// `from`.
fn walk(phase: &Phase, from: &Phase) -> (Vec<Option<u32>>, Vec<u32>) {
    let same = |new: usize, old: usize| {
        new < phase.len() && old < from.len() && alike(phase, new, from, old)
    };
    let run = |new: usize, old: usize| (0..RUN).all(|far| same(new + far, old + far));
    let (mut found, mut left) = (vec![None; phase.len()], vec![]);
    let (mut new, mut old) = (0, 0);
    while new < phase.len() && old < from.len() {
        if same(new, old) {
            found[new] = Some(old as u32);
            (new, old) = (new + 1, old + 1);
            continue;
        }
        // The nearest place where both go on alike, after some were removed, added or replaced.
        let near = (1..AHEAD).find_map(|far| {
            let places = [(new, old + far), (new + far, old), (new + far, old + far)];
            places.into_iter().find(|(new, old)| run(*new, *old))
        });
        let (next, passed) = near.unwrap_or((new + 1, old + 1));
        left.extend(old as u32..passed as u32);
        (new, old) = (next, passed);
    }
    left.extend(old as u32..from.len() as u32);
    (found, left)
}

/// Whether two transfers take the same lanes for as long.
fn alike(phase: &Phase, new: usize, from: &Phase, old: usize) -> bool {
    let (new, old) = (phase.transfer(new), from.transfer(old));
    (new.source, new.words, new.destinations.len())
        == (old.source, old.words, old.destinations.len())
        && new.destinations.iter().zip(old.destinations).all(|(new, old)| new.0 == old.0)
}
