//! The form that the solver works on: items over sections.
//!
//! A section is a maximal set of items that are in memory at one time; all that matters of time is
//! which items share one. Buffers that lie at one address (aliases) are one item, whose size changes
//! over time.

use std::ops::Range;

use super::ranges::without;
use crate::target::Address;
use crate::target::sram::element;

/// A thing that gets one address.
#[derive(Clone, Debug, Default)]
pub(super) struct Item {
    /// Bytes of every stretch of time, ascending and disjoint.
    pub(super) spans: Vec<(Range<u32>, u32)>,
    /// The address is a multiple of it.
    pub(super) alignment: u32,
    /// Ranges one of which has to hold all of it, at its most bytes; ascending by starts and by ends,
    /// disjoint unless several buffers have its address.
    pub(super) ranges: Vec<Range<u32>>,
}

impl Item {
    /// The most bytes of any time.
    pub(super) fn size(&self) -> u32 {
        self.spans.iter().map(|(_, size)| *size).max().unwrap_or(0)
    }

    /// Takes a hole out of its ranges.
    pub(super) fn forbid(&mut self, hole: &Range<u32>) {
        self.ranges = without(&self.ranges, hole);
    }

    /// From its first step to its last.
    pub(super) fn hull(&self) -> Range<u32> {
        let start = self.spans.first().map_or(0, |(live, _)| live.start);
        start..self.spans.last().map_or(start, |(live, _)| live.end)
    }
}

/// Another item that is in memory at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Neighbour {
    /// Its index.
    pub(super) item: usize,
    /// The most bytes that this item has while the other is there too.
    pub(super) size: u32,
    /// The most bytes that the other has while this item is there.
    pub(super) theirs: u32,
    /// They may share no memory element.
    pub(super) apart: bool,
}

impl Neighbour {
    /// Where the other may begin at the lowest if this item lies below it at `address`.
    pub(super) fn above(&self, address: u32) -> u32 {
        self.end(address + self.size)
    }

    /// Where this item may begin at the lowest if the other lies below it at `address`.
    pub(super) fn over(&self, address: u32) -> u32 {
        self.end(address + self.theirs)
    }

    /// The first byte that this item must stay below if it lies below the other at `address`.
    pub(super) fn lowest_below(&self, address: u32) -> u32 {
        if self.apart { element_start(address) } else { address }
    }

    fn end(&self, end: u32) -> u32 {
        if self.apart { element_end(end) } else { end }
    }
}

/// Items that are in memory at one time, with their sizes then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// A step of that time.
    pub(super) step: u32,
    /// Items and bytes.
    pub(super) items: Vec<(usize, u32)>,
}

/// A problem in the solver's form.
#[derive(Clone, Debug)]
pub(super) struct Items {
    pub(super) items: Vec<Item>,
    pub(super) sizes: Vec<u32>,
    pub(super) neighbours: Vec<Vec<Neighbour>>,
    pub(super) sections: Vec<Section>,
    /// The sections of every item.
    pub(super) sections_of: Vec<Vec<usize>>,
    /// Free memory, ascending and disjoint.
    free: Vec<Range<u32>>,
    /// Ends of memory that some item must stay below, ascending; the last is the end of it all.
    pub(super) ceilings: Vec<u32>,
}

impl Items {
    /// Prepares items; the pairs may share no element while both are in memory.
    pub(super) fn new(items: Vec<Item>, free: Vec<Range<u32>>, apart: &[(usize, usize)]) -> Items {
        let sections = sections(&items);
        let mut sections_of = vec![vec![]; items.len()];
        for (index, section) in sections.iter().enumerate() {
            for &(item, _) in &section.items {
                sections_of[item].push(index);
            }
        }
        let mut ceilings: Vec<u32> = items.iter().map(ceiling).collect();
        ceilings.push(free.last().map_or(0, |range| range.end));
        ceilings.sort_unstable();
        ceilings.dedup();
        let sizes = items.iter().map(Item::size).collect();
        let neighbours = neighbours(&items, apart);
        Items { items, sizes, neighbours, sections, sections_of, free, ceilings }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Free memory, ascending and disjoint.
    pub(super) fn free(&self) -> &[Range<u32>] {
        &self.free
    }

    /// Free bytes of `range`.
    pub(super) fn room(&self, range: Range<u32>) -> u64 {
        let inside = |free: &Range<u32>| {
            u64::from(free.end.min(range.end).saturating_sub(free.start.max(range.start)))
        };
        self.free.iter().map(inside).sum()
    }

    /// The end of all memory.
    pub(super) fn end(&self) -> u32 {
        self.ceilings.last().copied().unwrap_or(0)
    }

    /// All free bytes.
    pub(super) fn memory(&self) -> u64 {
        self.room(0..u32::MAX)
    }

    /// Free bytes of an item's ranges.
    pub(super) fn room_of(&self, item: usize) -> u32 {
        self.items[item].ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Whether an item can lie nowhere else.
    pub(super) fn is_within(&self, item: usize, range: &Range<u32>) -> bool {
        let inside = |found: &Range<u32>| range.start <= found.start && found.end <= range.end;
        self.items[item].ranges.iter().all(inside)
    }

    /// The memory that `item` must stay below.
    pub(super) fn ceiling(&self, item: usize) -> u32 {
        ceiling(&self.items[item])
    }

    /// The lowest legal address of an item at or above one.
    pub(super) fn lowest(&self, item: usize, from: u32) -> Option<u32> {
        self.lowest_of(item, self.sizes[item], from)
    }

    /// The same of an item that has another size.
    pub(super) fn lowest_of(&self, item: usize, size: u32, from: u32) -> Option<u32> {
        let Item { ranges, alignment, .. } = &self.items[item];
        ranges.iter().find_map(|range| {
            let at = range.start.max(from).checked_next_multiple_of(*alignment)?;
            (at.checked_add(size)? <= range.end).then_some(at)
        })
    }
}

/// Bytes of the largest aligned buffer that would fit into one of some ranges.
pub(super) fn largest(ranges: &[Range<u32>], alignment: u32) -> u32 {
    let aligned = |range: &Range<u32>| {
        let start = range.start.checked_next_multiple_of(alignment)?;
        Some(range.end.saturating_sub(start))
    };
    ranges.iter().filter_map(aligned).max().unwrap_or(0)
}

fn ceiling(item: &Item) -> u32 {
    item.ranges.last().map_or(0, |range| range.end)
}

/// The start of the memory element that an address lies in; the address itself outside tile memory.
pub(super) fn element_start(address: u32) -> u32 {
    element(Address(address)).map_or(address, |found| found.start().0)
}

/// The end of the memory element that a span's last byte lies in; the span's own end outside tile
/// memory, which has no elements.
pub(super) fn element_end(end: u32) -> u32 {
    element(Address(end.saturating_sub(1))).map_or(end, |found| found.end().0)
}

fn neighbours(items: &[Item], apart: &[(usize, usize)]) -> Vec<Vec<Neighbour>> {
    let mut found = vec![vec![]; items.len()];
    let hulls: Vec<Range<u32>> = items.iter().map(Item::hull).collect();
    let mut by_start: Vec<usize> = (0..items.len()).collect();
    by_start.sort_by_key(|item| hulls[*item].start);
    for (at, &a) in by_start.iter().enumerate() {
        let later = by_start[at + 1..].iter();
        for &b in later.take_while(|b| hulls[**b].start < hulls[a].end) {
            if let Some((size_a, size_b)) = meeting(&items[a], &items[b]) {
                found[a].push(Neighbour { item: b, size: size_a, theirs: size_b, apart: false });
                found[b].push(Neighbour { item: a, size: size_b, theirs: size_a, apart: false });
            }
        }
    }
    found.iter_mut().for_each(|others| others.sort_unstable_by_key(|other| other.item));
    for &(a, b) in apart {
        for (from, to) in [(a, b), (b, a)] {
            if let Ok(at) = found[from].binary_search_by_key(&to, |other| other.item) {
                found[from][at].apart = true;
            }
        }
    }
    found
}

/// The most bytes that two items have while both are there; `None` if they never meet.
fn meeting(a: &Item, b: &Item) -> Option<(u32, u32)> {
    let mut most: Option<(u32, u32)> = None;
    let (mut a, mut b) = (a.spans.as_slice(), b.spans.as_slice());
    while let ([(live_a, size_a), rest_a @ ..], [(live_b, size_b), rest_b @ ..]) = (a, b) {
        if live_a.start < live_b.end && live_b.start < live_a.end {
            let (x, y) = most.unwrap_or((0, 0));
            most = Some((x.max(*size_a), y.max(*size_b)));
        }
        if live_a.end <= live_b.end {
            a = rest_a;
        } else {
            b = rest_b;
        }
    }
    most
}

/// All maximal sections, by time.
fn sections(items: &[Item]) -> Vec<Section> {
    // At one step ends come before starts: lifetimes are half-open.
    let mut events: Vec<(u32, bool, usize, u32)> = vec![];
    for (index, item) in items.iter().enumerate() {
        for (live, size) in &item.spans {
            events.push((live.start, true, index, *size));
            events.push((live.end, false, index, *size));
        }
    }
    events.sort_unstable();
    let mut sections = vec![];
    let mut here: Vec<(usize, u32)> = vec![];
    let mut grown = false;
    let mut since = 0;
    for (step, starts, item, size) in events {
        if starts {
            here.push((item, size));
            (grown, since) = (true, step);
        } else {
            if grown {
                sections.push(Section { step: since, items: here.clone() });
            }
            here.retain(|found| *found != (item, size));
            grown = false;
        }
    }
    sections
}
