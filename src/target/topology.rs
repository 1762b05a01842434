//! Tile numbers and routes, in closed form (`target/ipu21.md` §1).

use super::units::{PhysicalTile, TileId};

/// Tiles of the chip (`target/ipu21.md` §1.1).
pub const TILES: u16 = 1472;

/// Source selector that selects nothing (`target/ipu21.md` §1.3).
pub const NO_SOURCE: u16 = 0x640;

/// Rows of tiles in one strip (`target/ipu21.md` §1.1).
const ROWS: u16 = 23;

/// Direction in which an ordinary send drives the fabric (`target/ipu21.md` §1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// `sctl` bit 0.
    One = 1,
    /// `sctl` bit 1.
    Two = 2,
}

/// What a word meets on its way from one tile to another (`target/ipu21.md` §1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Folded column distance, signed.
    pub hops: i32,
    /// `6 · hops + lane offset`.
    pub displacement: i32,
    /// Direction to send in.
    pub direction: Direction,
    /// T: events from a send to the receiver's mux, less one; may be negative.
    pub time_to_mux: i32,
    /// L: events from a send to the write in the receiver's memory.
    pub write_latency: u32,
    /// The later of both pair members' [`Route::time_to_mux`].
    pub paired_time: i32,
    /// Whether the receiver is the member of its pair that a word reaches first.
    pub destination_is_early: bool,
}

/// The chip's number of every tile: a look takes less than working it out.
static PHYSICAL: [PhysicalTile; TILES as usize] = {
    let mut numbers = [PhysicalTile(0); TILES as usize];
    let mut tile = 0;
    while tile < TILES {
        let pair = tile / 2;
        let (strip, j) = (pair / ROWS, pair % ROWS);
        let row = if strip.is_multiple_of(2) { j } else { ROWS - 1 - j };
        let number = 64 * row + 4 * (strip / 2) + 2 * (tile % 2) + strip % 2;
        numbers[tile as usize] = PhysicalTile(number);
        tile += 1;
    }
    numbers
};

impl TileId {
    /// The chip's number of this tile; the tile must exist.
    #[inline]
    pub fn physical(self) -> PhysicalTile {
        PHYSICAL[usize::from(self.0)]
    }

    /// The other member of the exchange pair.
    pub fn partner(self) -> TileId {
        TileId(self.0 ^ 1)
    }

    /// Row on the chip, `0..23`.
    pub fn row(self) -> u32 {
        self.physical().row()
    }
}

impl PhysicalTile {
    /// A physical tile, if there is one of this number.
    pub fn new(number: u16) -> Option<PhysicalTile> {
        (number < TILES).then_some(PhysicalTile(number))
    }

    /// The logical number of this tile.
    pub fn logical(self) -> TileId {
        let (group, side) = (self.group() as u16, self.side() as u16);
        let strip = 2 * group + side;
        let row = self.row() as u16;
        let j = if strip.is_multiple_of(2) { row } else { ROWS - 1 - row };
        TileId(2 * (ROWS * strip + j) + self.lane() as u16)
    }

    /// Row, `0..23`.
    pub fn row(self) -> u32 {
        u32::from(self.0 >> 6)
    }

    /// Raw column group C, `0..16`.
    pub fn group(self) -> u32 {
        u32::from(self.0 >> 2 & 0xf)
    }

    /// Lane λ inside the pair.
    pub fn lane(self) -> u32 {
        u32::from(self.0 >> 1 & 1)
    }

    /// Side σ of the column group.
    pub fn side(self) -> u32 {
        u32::from(self.0 & 1)
    }

    /// Folded column f, `0..8`.
    fn folded(self) -> i32 {
        let group = self.group() as i32;
        group.min(15 - group)
    }

    /// Half η of the chip.
    fn half(self) -> i32 {
        i32::from(self.group() >= 8)
    }
}

fn hops(s: PhysicalTile, d: PhysicalTile) -> i32 {
    d.folded() - s.folded() - (s.half() ^ s.side() as i32)
}

fn lane_offset(d: PhysicalTile) -> i32 {
    match (d.lane(), d.side() as i32 == d.half()) {
        (0, true) => 1,
        (0, false) => 5,
        (_, true) => 2,
        (_, false) => 4,
    }
}

/// T of a physical pair (`target/ipu21.md` §1.2).
fn physical_time(s: PhysicalTile, d: PhysicalTile) -> i32 {
    let displacement = 6 * hops(s, d) + lane_offset(d);
    let u = s.group() as i32 % 8;
    let turn = if s.half() == d.half() { 1 + u } else { 16 - u };
    8 * s.half() - d.group() as i32
        + 4 * (s.folded() - d.folded())
        + turn
        + 2 * (s.row() as i32 - d.row() as i32)
        + displacement.abs()
        - 31
}

/// The direction in which a send from `source` reaches `destination`.
pub fn direction(source: TileId, destination: TileId) -> Direction {
    towards(hops(source.physical(), destination.physical()))
}

fn towards(hops: i32) -> Direction {
    if hops >= 0 { Direction::One } else { Direction::Two }
}

/// T: the receiver's mux must be switched this many events and one after the send begins.
pub fn time_to_mux(source: TileId, destination: TileId) -> i32 {
    physical_time(source.physical(), destination.physical())
}

/// Tp: the later T of both members of the destination's pair.
pub fn paired_time(source: TileId, destination: TileId) -> i32 {
    time_to_mux(source, destination).max(time_to_mux(source, destination.partner()))
}

/// Everything about the way from `source` to `destination`.
pub fn route(source: TileId, destination: TileId) -> Route {
    let (s, d) = (source.physical(), destination.physical());
    let hops = hops(s, d);
    let time_to_mux = physical_time(s, d);
    let partner = physical_time(s, PhysicalTile(d.0 ^ 2));
    Route {
        hops,
        displacement: 6 * hops + lane_offset(d),
        direction: towards(hops),
        time_to_mux,
        write_latency: (time_to_mux + 53 + 2 * d.row() as i32) as u32,
        paired_time: time_to_mux.max(partner),
        destination_is_early: time_to_mux < partner,
    }
}

/// Value of the paired source selector: the receiver's own lane of the source pair
/// (`target/ipu21.md` §1.3).
pub fn paired_selector(source: TileId, destination: TileId) -> u16 {
    source.physical().0 ^ (destination.physical().0 & 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_a_permutation_and_partners_share_a_pair() {
        let mut seen = [false; TILES as usize];
        for tile in (0..TILES).map(TileId) {
            let physical = tile.physical();
            seen[usize::from(physical.0)] = true;
            assert_eq!(physical.logical(), tile);
            assert_eq!(tile.partner().physical().0, physical.0 ^ 2);
        }
        assert!(seen.iter().all(|hit| *hit));
        assert_eq!(PhysicalTile::new(TILES), None);
    }

    #[test]
    fn the_laws_of_routes_hold_for_every_pair() {
        let (mut least, mut most) = (i32::MAX, i32::MIN);
        for s in (0..TILES).map(TileId) {
            for d in (0..TILES).map(TileId).filter(|d| *d != s) {
                let t = time_to_mux(s, d);
                (least, most) = (least.min(t), most.max(t));
                assert_eq!((t - time_to_mux(s, d.partner())).abs(), 1);
                assert_eq!(t, time_to_mux(s.partner(), d), "T does not know the source's lane");
            }
        }
        assert_eq!((least, most), (-78, 112));
    }
}
