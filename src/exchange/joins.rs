//! Messages of one sender that a row can send as one: with the same receivers, back to back, from
//! addresses that go on.

use crate::target::{Address, TileId};

use super::lanes::contended;
use super::phase::Phase;

/// What tells whether two messages may become one.
pub(super) struct Joins<'a> {
    phase: &'a Phase,
    contended: Vec<u32>,
}

impl<'a> Joins<'a> {
    /// Of the messages of a phase.
    pub(super) fn new(phase: &'a Phase) -> Joins<'a> {
        Joins { phase, contended: contended(phase) }
    }

    /// Whether two messages of one sender have the same receivers, and no tile of theirs reads and
    /// writes one memory element: there, the memory of a message is taken from its first item to its
    /// last (rules M1 and D1 of `target/ipu21.md` §2.5), longer for one message than for two.
    pub(super) fn admit(&self, first: u32, second: u32) -> bool {
        let [first, second] = [first, second].map(|index| self.phase.transfer(index as usize));
        let calm = |tile: TileId| self.contended[usize::from(tile.0)] == 0;
        let tiles = |ends: &'a [(TileId, Address)]| ends.iter().map(|(tile, _)| *tile);
        tiles(first.destinations).eq(tiles(second.destinations))
            && calm(first.source)
            && tiles(first.destinations).all(calm)
    }
}
