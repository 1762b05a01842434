//! Messages of one sender that a row can send as one: with the same receivers, back to back, from
//! addresses that go on.

use crate::target::{Address, TileId};

use super::phase::Phase;

/// Whether two messages of one sender have the same receivers, and no tile of theirs reads and
/// writes one memory element: there, the memory of a message is taken from its first item to its
/// last (rules M1 and D1 of `target/ipu21.md` §2.5), longer for one message than for two.
pub(super) fn admit(phase: &Phase, first: u32, second: u32) -> bool {
    let [first, second] = [first, second].map(|index| phase.transfer(index as usize));
    let calm = |tile: TileId| phase.contended(tile) == 0;
    fn tiles(ends: &[(TileId, Address)]) -> impl Iterator<Item = TileId> {
        ends.iter().map(|(tile, _)| *tile)
    }
    tiles(first.destinations).eq(tiles(second.destinations))
        && calm(first.source)
        && tiles(first.destinations).all(calm)
}
