//! What bytes alone say of a problem: those that must be in a region at a time, against its room.

use std::cmp::Reverse;
use std::ops::Range;

use super::items::Items;
use super::problem::{Problem, Region, Shortage};
use crate::target::sram::INTERLEAVED_START;

/// Bytes that must be in a region at a step, and the room it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The memory.
    pub region: Region,
    /// A step at which they live.
    pub step: u32,
    /// Bytes of the buffers that may lie nowhere else.
    pub live_bytes: u64,
    /// Free bytes of the region.
    pub room_bytes: u64,
}

impl Load {
    fn over(&self) -> Option<u64> {
        self.live_bytes.checked_sub(self.room_bytes).filter(|over| *over > 0)
    }

    /// Bytes that are left.
    pub fn spare_bytes(&self) -> u64 {
        self.room_bytes.saturating_sub(self.live_bytes)
    }
}

/// The regions, the smaller ones first.
fn regions() -> [(Region, Range<u32>); 3] {
    let middle = INTERLEAVED_START.0;
    [
        (Region::Interleaved, middle..u32::MAX),
        (Region::Standard, 0..middle),
        (Region::Either, 0..u32::MAX),
    ]
}

/// The loads of a region.
fn loads(
    items: &Items,
    (region, range): (Region, Range<u32>),
) -> impl Iterator<Item = Load> + use<'_> {
    let room_bytes = items.room(range.clone());
    items.sections.iter().map(move |section| {
        let bound = section.items.iter().filter(|(item, _)| items.is_within(*item, &range));
        let live_bytes = bound.map(|(_, size)| u64::from(*size)).sum();
        Load { region, step: section.step, live_bytes, room_bytes }
    })
}

/// The proof that no placement exists, if bytes alone give one.
pub(super) fn shortage(items: &Items) -> Option<Shortage> {
    regions().into_iter().find_map(|region| {
        let most = loads(items, region).filter_map(|load| Some((load.over()?, load)));
        let (over, load) = most.max_by_key(|(over, load)| (*over, Reverse(load.step)))?;
        let bytes_over = u32::try_from(over).unwrap_or(u32::MAX);
        Some(Shortage { region: load.region, step: load.step, bytes_over })
    })
}

/// Whether some range is too small for the items that may lie nowhere else.
pub(super) fn is_overfull(items: &Items, range: &Range<u32>) -> bool {
    let mut loads = loads(items, (Region::Either, range.clone()));
    loads.any(|load| load.over().is_some())
}

impl Problem {
    /// Where the fewest bytes are to spare: if a placement is ruled out though no bytes are missing,
    /// the place to look at. All memory if there are no buffers.
    pub fn tightest(&self) -> Load {
        let (items, _) = self.items();
        // A region that nothing has to lie in is not tight, however small it is.
        let bound = |load: &Load| load.live_bytes > 0;
        let all = regions().into_iter().flat_map(|region| loads(&items, region).filter(bound));
        let none = || {
            let room_bytes = self.capacity();
            Load { region: Region::Either, step: 0, live_bytes: 0, room_bytes }
        };
        all.min_by_key(|load| (load.spare_bytes(), load.step)).unwrap_or_else(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Buffer;

    fn buffer(size: u32, region: Region, live: Range<u32>) -> Buffer {
        Buffer {
            size,
            alignment: 8,
            region,
            live: std::iter::once(live).collect(),
            forbidden: vec![],
            preferred: vec![],
            untouched: false,
        }
    }

    #[test]
    fn the_tightest_place_has_the_fewest_bytes_to_spare() {
        let middle = INTERLEAVED_START.0;
        let problem = Problem {
            free: std::iter::once(middle - 1000..middle + 500).collect(),
            buffers: vec![
                buffer(600, Region::Standard, 0..2),
                buffer(300, Region::Standard, 1..3),
                buffer(400, Region::Interleaved, 5..6),
                buffer(900, Region::Either, 5..6),
            ],
            ..Problem::default()
        };
        let load =
            |region, step, live_bytes, room_bytes| Load { region, step, live_bytes, room_bytes };
        assert_eq!(problem.tightest(), load(Region::Standard, 1, 900, 1000));
        let mut fuller = problem.clone();
        fuller.buffers[2].size = 450;
        assert_eq!(fuller.tightest(), load(Region::Interleaved, 5, 450, 500));
        fuller.buffers[3].size = 1020;
        assert_eq!(fuller.tightest(), load(Region::Either, 5, 1470, 1500));
        fuller.buffers.clear();
        assert_eq!(fuller.tightest(), load(Region::Either, 0, 0, 1500));
    }
}
