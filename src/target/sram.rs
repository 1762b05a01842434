//! A tile's memory: regions, elements, what is reserved (`target/ipu21.md` §5).

use super::units::{Address, Bytes};

/// First byte of tile memory (`target/ipu21.md` §5.1).
pub const MEMORY_START: Address = Address(0x4c000);
/// One past the last byte (§5.1).
pub const MEMORY_END: Address = Address(0xe8000);
/// First byte that an application loads: the launch slot (§5.1).
pub const LOAD_START: Address = Address(0x4c010);
/// Where execution starts (§5.1).
pub const ENTRY: Address = Address(0x4c014);
/// One past the last byte that can be loaded (§5.1).
pub const LOAD_END: Address = Address(0xe7bb0);
/// One past the last byte that can be executed: the end of region 0 (§5.1).
pub const EXECUTABLE_END: Address = Address(0x80000);
/// First byte of region 1, where interleaved storage must lie (§5.1).
pub const INTERLEAVED_START: Address = Address(0x80000);
/// Host exchange aperture (§5.4).
pub const HOST_WINDOW: (Address, Address) = (Address(0x50000), Address(0x58000));
/// Runtime state: completion word, samples, stacks (§5.4).
pub const RUNTIME_STATE: (Address, Address) = (Address(0x58000), Address(0x586e0));
/// Cycle sample at a program's start (§7.2).
pub const START_CYCLE: Address = Address(0x58004);
/// Cycle sample at a program's end (§7.2).
pub const END_CYCLE: Address = Address(0x58008);
/// Bytes that instruction fetch looks ahead (§5.2).
pub const LOOK_AHEAD: Bytes = Bytes(64);
/// Bytes of a standard element (§5.2).
pub const STANDARD_ELEMENT: Bytes = Bytes(0x4000);
/// Bytes of an interleaved pair of elements, which acts as one (§5.2).
pub const INTERLEAVED_ELEMENT: Bytes = Bytes(0x8000);
/// Standard elements of a tile (§5.1).
pub const STANDARD_ELEMENTS: u8 = 13;
/// All elements of a tile, interleaved pairs counted once (§5.1).
pub const ELEMENTS: u8 = 26;

/// A memory element: two accesses to one in the same cycle conflict (`target/ipu21.md` §5.2).
/// `0..13` are standard, `13..26` interleaved pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element(pub u8);

impl Element {
    /// First byte.
    pub fn start(self) -> Address {
        if self.is_interleaved() {
            let number = u32::from(self.0 - STANDARD_ELEMENTS);
            INTERLEAVED_START + Bytes(number * INTERLEAVED_ELEMENT.0)
        } else {
            MEMORY_START + Bytes(u32::from(self.0) * STANDARD_ELEMENT.0)
        }
    }

    /// One past the last byte.
    pub fn end(self) -> Address {
        self.start() + if self.is_interleaved() { INTERLEAVED_ELEMENT } else { STANDARD_ELEMENT }
    }

    /// Whether it lies in region 1.
    pub fn is_interleaved(self) -> bool {
        self.0 >= STANDARD_ELEMENTS
    }
}

/// The element of an address; `None` outside tile memory.
pub fn element(address: Address) -> Option<Element> {
    if address < MEMORY_START || address >= MEMORY_END {
        None
    } else if address < INTERLEAVED_START {
        Some(Element(((address - MEMORY_START).0 / STANDARD_ELEMENT.0) as u8))
    } else {
        let pair = (address - INTERLEAVED_START).0 / INTERLEAVED_ELEMENT.0;
        Some(Element(STANDARD_ELEMENTS + pair as u8))
    }
}

/// Every element that a span of bytes touches; nothing for an empty span or one that leaves memory.
pub fn elements(start: Address, length: Bytes) -> impl Iterator<Item = Element> {
    let last = Address(start.0.saturating_add(length.0).saturating_sub(1));
    let range = match (element(start), element(last)) {
        (Some(first), Some(last)) if length.0 > 0 => first.0..last.0 + 1,
        _ => 0..0,
    };
    range.map(Element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_tile_the_memory() {
        let mut at = MEMORY_START;
        for number in 0..ELEMENTS {
            let found = Element(number);
            assert_eq!(found.start(), at);
            assert_eq!(element(found.start()), Some(found));
            assert_eq!(element(Address(found.end().0 - 1)), Some(found));
            at = found.end();
        }
        assert_eq!(at, MEMORY_END);
        assert_eq!(element(MEMORY_END), None);
    }

    #[test]
    fn a_span_touches_every_element_between() {
        let touched: Vec<_> = elements(Address(0x7fffc), Bytes(0x8008)).collect();
        assert_eq!(touched, [Element(12), Element(13), Element(14)]);
        assert_eq!(elements(Address(0x7fffc), Bytes(0)).count(), 0);
    }
}
