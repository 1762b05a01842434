//! Quantities of the machine, one type each, with only the arithmetic that means something: an
//! address plus an address does not compile.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// Logical tile, `0..1472`. The chip's own numbering is [`PhysicalTile`]; only
/// [`topology`](super::topology) converts (`target/ipu21.md` §1.1).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TileId(pub u16);

/// The chip's own number of a tile, `0..1472` (`target/ipu21.md` §1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PhysicalTile(pub u16);

/// A byte address in a tile's memory, `0x4c000..0xe8000` (`target/ipu21.md` §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(pub u32);

/// A size or distance in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u32);

/// A number of 32-bit exchange words.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Words(pub u32);

/// A duration in tile clock cycles.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Cycles(pub u64);

/// A point on the event clock of one exchange phase, counted from its entry synchronization
/// (`target/ipu21.md` §2.1).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Event(pub u32);

impl Bytes {
    /// The smallest multiple of `alignment` that is not below this size.
    pub fn align_up(self, alignment: Bytes) -> Bytes {
        Bytes(self.0.next_multiple_of(alignment.0))
    }
}

impl Words {
    /// The size in bytes: four a word.
    pub fn bytes(self) -> Bytes {
        Bytes(self.0 * 4)
    }
}

impl Address {
    /// The first address at or above this one that is a multiple of `alignment`.
    pub fn align_up(self, alignment: Bytes) -> Address {
        Address(self.0.next_multiple_of(alignment.0))
    }
}

impl Add<Bytes> for Address {
    type Output = Address;
    fn add(self, distance: Bytes) -> Address {
        Address(self.0 + distance.0)
    }
}

impl Sub for Address {
    type Output = Bytes;
    fn sub(self, from: Address) -> Bytes {
        Bytes(self.0 - from.0)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}

impl Add for Words {
    type Output = Words;
    fn add(self, other: Words) -> Words {
        Words(self.0 + other.0)
    }
}

impl Add for Cycles {
    type Output = Cycles;
    fn add(self, other: Cycles) -> Cycles {
        Cycles(self.0 + other.0)
    }
}

impl Sub for Cycles {
    type Output = Cycles;
    fn sub(self, other: Cycles) -> Cycles {
        Cycles(self.0 - other.0)
    }
}

impl AddAssign for Cycles {
    fn add_assign(&mut self, other: Cycles) {
        self.0 += other.0;
    }
}

impl std::iter::Sum for Cycles {
    fn sum<I: Iterator<Item = Cycles>>(all: I) -> Cycles {
        Cycles(all.map(|cycles| cycles.0).sum())
    }
}

impl Add<Words> for Event {
    type Output = Event;
    fn add(self, items: Words) -> Event {
        Event(self.0 + items.0)
    }
}

impl fmt::Display for TileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PhysicalTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
