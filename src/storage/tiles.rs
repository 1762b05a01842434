//! Which tiles are alike: a program's tiles by the pieces that they hold, and the few of them whose
//! answer is good for all.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::program::{BufferId, Program};
use crate::target::TileId;

/// The pieces of a tile: buffers, ascending, and their payload bytes.
pub(super) type Pieces = Vec<(BufferId, u32)>;

/// Tiles that take one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Family {
    /// The pieces that are placed; every tile of the family has some of them, none larger.
    pub(super) pieces: Pieces,
    /// Its tiles by the pieces that they have, those with all of them first.
    pub(super) kinds: Vec<(Pieces, Vec<TileId>)>,
}

impl Family {
    /// The lowest tile that has all pieces.
    pub(super) fn tile(&self) -> TileId {
        self.kinds[0].1[0]
    }
}

/// All tiles of a program in families, the one with the most bytes first.
///
/// A tile whose pieces are all in another's, none larger, takes that one's addresses: every rule that
/// holds for buffers holds for fewer and smaller ones at the same addresses.
pub(super) fn families(program: &Program) -> Vec<Family> {
    let mut on_tile: Vec<Pieces> = vec![vec![]; program.tiles.into()];
    for (id, buffer) in (0..).map(BufferId).zip(&program.buffers) {
        for &(tile, bytes) in buffer.sizes.iter() {
            on_tile[usize::from(tile.0)].push((id, bytes));
        }
    }
    let mut kinds: BTreeMap<Pieces, Vec<TileId>> = BTreeMap::new();
    for (tile, pieces) in (0..).map(TileId).zip(on_tile) {
        kinds.entry(pieces).or_default().push(tile);
    }
    let mut kinds: Vec<(Pieces, Vec<TileId>)> = kinds.into_iter().collect();
    let bytes =
        |pieces: &Pieces| -> u64 { pieces.iter().map(|(_, bytes)| u64::from(*bytes)).sum() };
    kinds.sort_by_cached_key(|(pieces, tiles)| {
        (Reverse(bytes(pieces)), Reverse(pieces.len()), tiles[0])
    });
    let mut families: Vec<Family> = vec![];
    for (pieces, tiles) in kinds {
        match families.iter_mut().find(|family| covers(&family.pieces, &pieces)) {
            Some(family) => family.kinds.push((pieces, tiles)),
            None => families.push(Family { pieces: pieces.clone(), kinds: vec![(pieces, tiles)] }),
        }
    }
    families
}

/// Whether `all` has every piece of `some`, at least as large.
fn covers(all: &Pieces, some: &Pieces) -> bool {
    let mut all = all.iter();
    some.iter().all(|(id, bytes)| {
        all.by_ref()
            .find(|(found, _)| found >= id)
            .is_some_and(|(found, most)| found == id && most >= bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_fewer_and_smaller_ones_only() {
        let pieces = |list: &[(u32, u32)]| -> Pieces {
            list.iter().map(|(id, bytes)| (BufferId(*id), *bytes)).collect()
        };
        let all = pieces(&[(1, 8), (3, 16), (4, 4)]);
        for covered in [&[][..], &[(1, 8), (4, 4)], &[(3, 12)], &[(1, 4), (3, 16), (4, 4)]] {
            assert!(covers(&all, &pieces(covered)), "{covered:?}");
        }
        for other in [&[(2, 4)][..], &[(3, 20)], &[(1, 8), (5, 4)], &[(0, 4)]] {
            assert!(!covers(&all, &pieces(other)), "{other:?}");
        }
    }
}
