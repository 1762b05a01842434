//! Where the rows of a stand-alone phase can lie: executable memory that a package leaves to them, in
//! elements that hold nothing of what their tile sends and receives (`target/ipu21.md` §2.5 M2, §5.4).

use crate::exchange::{Phase, Row};
use crate::target::sram::{
    EXECUTABLE_END, Element, HOST_WINDOW, LOAD_START, LOOK_AHEAD, RUNTIME_STATE, STANDARD_ELEMENT,
    elements,
};
use crate::target::{Address, Bytes, TileId};

/// Behind the words that launch a program, before the host aperture; and from the element behind the
/// runtime's state on.
const EXECUTABLE: [(Address, Address); 2] = [
    (Address(LOAD_START.0 + 16), HOST_WINDOW.0),
    (Address(RUNTIME_STATE.1.0.next_multiple_of(STANDARD_ELEMENT.0)), EXECUTABLE_END),
];

/// A row for which a tile has no place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoPlace {
    pub(super) tile: TileId,
    /// Length of the row.
    pub(super) bytes: Bytes,
}

/// The first place of every row, a byte address, in the order of the rows.
pub(super) fn of(phase: &Phase, rows: &[Row]) -> Result<Vec<u32>, NoPlace> {
    let place = |row: &Row| {
        let (tile, bytes) = (row.tile, Bytes(4 * row.words.len() as u32));
        first(phase.touched(tile), bytes).map(|found| found.0).ok_or(NoPlace { tile, bytes })
    };
    rows.iter().map(place).collect()
}

/// The first place whose elements, those of the look-ahead included, are none of `touched`: a set of
/// bits, one an element.
fn first(touched: u32, bytes: Bytes) -> Option<Address> {
    let fetched = bytes + LOOK_AHEAD;
    let is_free = |element: Element| touched >> element.0 & 1 == 0;
    EXECUTABLE.into_iter().find_map(|(start, end)| {
        let mut starts = elements(start, end - start).map(|element| element.start().max(start));
        starts.find(|at| *at + fetched <= end && elements(*at, fetched).all(is_free))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_get_the_first_elements_that_are_long_enough_and_free() {
        let of = |touched, bytes| first(touched, Bytes(bytes)).map(|found| found.0);
        assert_eq!(of(0, 4), Some(0x4c020));
        assert_eq!(of(0, 0x50000 - 0x4c020 - 64), Some(0x4c020));
        // The look-ahead would reach the host aperture.
        assert_eq!(of(0, 0x50000 - 0x4c020 - 60), Some(0x5c000));
        assert_eq!(of(1, 4), Some(0x5c000));
        assert_eq!(of(0b1_0001, 0x4000), Some(0x60000));
        // The sixth element cuts what is behind the runtime's state in two.
        assert_eq!(of(1 << 6, 0x8000), Some(0x68000));
        assert_eq!(of(1 << 6, 0x8000 - 64), Some(0x5c000));
    }

    #[test]
    fn rows_stay_in_executable_memory() {
        let of = |touched, bytes| first(touched, Bytes(bytes)).map(|found| found.0);
        assert_eq!(of(0, 0x80000 - 0x5c000 - 64), Some(0x5c000));
        assert_eq!(of(0, 0x80000 - 0x5c000 - 60), None);
        // The aperture's elements and that of the runtime's state do not do.
        assert_eq!(of(0b1_1111_1111_0001, 4), None);
        assert_eq!(of(0b0_1111_1111_0001, 4), Some(0x7c000));
    }
}
