//! What is wrong with the addresses of a placement file, by the rules of the file itself: it knows
//! neither the solver nor the form that the solver works on.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{FileBuffer, FileRepeat, PlacementFile};
use super::problem::Region;
use crate::target::sram::{EXECUTABLE_END, INTERLEAVED_START, elements};
use crate::target::{Address, Bytes};

/// A rule that addresses break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum Misplaced {
    /// Addresses for some buffers only, or for more than there are.
    #[error("{addresses} addresses for {buffers} buffers")]
    Count { addresses: usize, buffers: usize },
    /// No multiple of the alignment.
    #[error("`{name}` lies at {address}, no multiple of {alignment}")]
    Alignment { name: String, address: u32, alignment: u32 },
    /// Not inside one free range.
    #[error("`{name}` takes {start} to {end}, which is inside no free range")]
    NotFree { name: String, start: u64, end: u64 },
    /// In the other region, or code where it cannot be executed.
    #[error("`{name}` takes {start} to {end}, which is not in its region")]
    Region { name: String, start: u64, end: u64 },
    /// On an address that is forbidden to it.
    #[error("`{name}` touches {start} to {end}, which is forbidden to it")]
    Forbidden { name: String, start: u32, end: u32 },
    /// Two buffers on one byte at one time.
    #[error("`{a}` and `{b}` overlap")]
    Overlap { a: String, b: String },
    /// Two buffers in one memory element at one time.
    #[error("`{a}` and `{b}` share a memory element")]
    Element { a: String, b: String },
    /// Blocks that do not lie at one stride.
    #[error("block `{name}` lies at {address}, not {stride} bytes above the block before it")]
    Stride { name: String, address: u32, stride: u32 },
    /// A stride that is not whole words or breaks a block's alignment, or one that is too small for a
    /// block.
    #[error(
        "blocks from `{name}` on lie {stride} bytes apart, expected a multiple of {multiple} from \
         {least} on"
    )]
    Step { name: String, stride: i64, multiple: u32, least: u64 },
    /// One address was asked for.
    #[error("`{a}` and `{b}` have two addresses")]
    Alias { a: String, b: String },
}

impl PlacementFile {
    /// Every rule that addresses, in the order of the buffers, break.
    pub fn misplaced(&self, addresses: &[u32]) -> Vec<Misplaced> {
        let buffers = self.buffers.len();
        if addresses.len() != buffers {
            return vec![Misplaced::Count { addresses: addresses.len(), buffers }];
        }
        let mut found = vec![];
        for (buffer, address) in self.buffers.iter().zip(addresses) {
            self.alone(buffer, *address, &mut found);
        }
        let linked = Linked::of(self);
        for index in 0..self.buffers.len() {
            for earlier in 0..index {
                self.together([earlier, index], addresses, &linked, &mut found);
            }
        }
        for repeat in &self.repeats {
            self.at_one_stride(repeat, addresses, &linked, &mut found);
        }
        found
    }

    /// What the blocks of a repeat need: the given stride, or that of the first two; it is a multiple
    /// of 4 and of every block's alignment, which are powers of two.
    fn at_one_stride(
        &self,
        repeat: &FileRepeat,
        addresses: &[u32],
        linked: &Linked<'_>,
        found: &mut Vec<Misplaced>,
    ) {
        let blocks = repeat.blocks.iter().filter_map(|name| {
            let index = *linked.numbers.get(name.as_str())?;
            Some((&self.buffers[index], addresses[index]))
        });
        let blocks: Vec<(&FileBuffer, u32)> = blocks.collect();
        let [first, second, ..] = blocks.as_slice() else { return };
        let stride = i64::from(second.1) - i64::from(first.1);
        let least = u64::from(first.0.size) + u64::from(first.0.tail);
        let multiple = blocks.iter().fold(4, |most, (block, _)| most.max(block.alignment));
        let wanted = repeat.stride.or(u32::try_from(stride).ok());
        let is_legal =
            |wanted: &u32| u64::from(*wanted) >= least && wanted.is_multiple_of(multiple);
        match wanted.filter(is_legal) {
            None => {
                let name = first.0.name.clone();
                found.push(Misplaced::Step { name, stride, multiple, least });
            }
            Some(stride) => {
                for pair in blocks.windows(2) {
                    let (name, address) = (pair[1].0.name.clone(), pair[1].1);
                    if u64::from(address) != u64::from(pair[0].1) + u64::from(stride) {
                        found.push(Misplaced::Stride { name, address, stride });
                    }
                }
            }
        }
    }

    /// What a buffer needs by itself.
    fn alone(&self, buffer: &FileBuffer, address: u32, found: &mut Vec<Misplaced>) {
        let name = || buffer.name.clone();
        let (start, end) = extent(buffer, address);
        if !address.is_multiple_of(buffer.alignment) {
            let alignment = buffer.alignment;
            found.push(Misplaced::Alignment { name: name(), address, alignment });
        }
        if !self.free.iter().any(|[from, to]| u64::from(*from) <= start && end <= u64::from(*to)) {
            found.push(Misplaced::NotFree { name: name(), start, end });
        }
        let standard = end <= u64::from(INTERLEAVED_START.0);
        let in_region = match buffer.region {
            Region::Either => true,
            Region::Standard => standard,
            Region::Interleaved => start >= u64::from(INTERLEAVED_START.0),
        };
        if !in_region || buffer.executable && end > u64::from(EXECUTABLE_END.0) {
            found.push(Misplaced::Region { name: name(), start, end });
        }
        for &[from, to] in &buffer.forbidden {
            if u64::from(from) < end && start < u64::from(to) {
                found.push(Misplaced::Forbidden { name: name(), start: from, end: to });
            }
        }
    }

    /// What two buffers need of each other.
    fn together(
        &self,
        pair: [usize; 2],
        addresses: &[u32],
        linked: &Linked<'_>,
        found: &mut Vec<Misplaced>,
    ) {
        let [a, b] = pair.map(|index| (&self.buffers[index], addresses[index]));
        let names = || (a.0.name.clone(), b.0.name.clone());
        if linked.aliases.contains(&pair) && a.1 != b.1 {
            let (a, b) = names();
            found.push(Misplaced::Alias { a, b });
        }
        let at_once = live_at_once(a.0, b.0);
        let ((start_a, end_a), (start_b, end_b)) = (extent(a.0, a.1), extent(b.0, b.1));
        let alone = a.0.untouched || b.0.untouched;
        let overlap = start_a < end_b && start_b < end_a;
        let one_place = linked.places[pair[0]] == linked.places[pair[1]];
        if (at_once || alone) && overlap && !one_place {
            let (a, b) = names();
            found.push(Misplaced::Overlap { a, b });
        }
        if at_once && linked.apart.contains(&pair) {
            let touched = |(start, end): (u64, u64)| -> BTreeSet<u8> {
                let (start, length) = (start.try_into(), (end - start).try_into());
                let (start, length) = (start.unwrap_or(u32::MAX), length.unwrap_or(0));
                elements(Address(start), Bytes(length)).map(|element| element.0).collect()
            };
            if !touched((start_a, end_a)).is_disjoint(&touched((start_b, end_b))) {
                let (a, b) = names();
                found.push(Misplaced::Element { a, b });
            }
        }
    }
}

/// The pairs of a file, by the numbers of its buffers.
struct Linked<'a> {
    /// Buffers by name.
    numbers: BTreeMap<&'a str, usize>,
    /// The lower number first.
    aliases: BTreeSet<[usize; 2]>,
    apart: BTreeSet<[usize; 2]>,
    /// For every buffer one that aliases lead to, the same for all that have its address.
    places: Vec<usize>,
}

impl Linked<'_> {
    fn of(file: &PlacementFile) -> Linked<'_> {
        let names = file.buffers.iter().map(|buffer| buffer.name.as_str());
        let numbers: BTreeMap<&str, usize> = names.zip(0..).collect();
        let pairs = |list: &[[String; 2]]| -> BTreeSet<[usize; 2]> {
            let number = |name: &String| numbers.get(name.as_str()).copied();
            let pair = |[a, b]: &[String; 2]| {
                let (a, b) = (number(a)?, number(b)?);
                Some([a.min(b), a.max(b)])
            };
            list.iter().filter_map(pair).collect()
        };
        let (aliases, apart) = (pairs(&file.aliases), pairs(&file.apart));
        let mut places: Vec<usize> = (0..file.buffers.len()).collect();
        for [a, b] in &aliases {
            let (kept, other) = (places[*a], places[*b]);
            places.iter_mut().filter(|place| **place == other).for_each(|place| *place = kept);
        }
        Linked { numbers, aliases, apart, places }
    }
}

impl FileBuffer {
    /// Whether all of it lies in its preferred ranges; `None` if it has none.
    pub fn is_granted(&self, address: u32) -> Option<bool> {
        let (start, end) = extent(self, address);
        let preferred = |byte: u64| {
            self.preferred
                .iter()
                .any(|[from, to]| u64::from(*from) <= byte && byte < u64::from(*to))
        };
        (!self.preferred.is_empty()).then(|| (start..end).all(preferred))
    }
}

/// Where a buffer starts and ends, tail included.
fn extent(buffer: &FileBuffer, address: u32) -> (u64, u64) {
    let start = u64::from(address);
    (start, start + u64::from(buffer.size) + u64::from(buffer.tail))
}

fn live_at_once(a: &FileBuffer, b: &FileBuffer) -> bool {
    if a.persistent || b.persistent {
        // The other lives at some step, or through all of them too.
        return true;
    }
    // Both ascend: what ends first meets nothing that comes later.
    let (mut at_a, mut at_b) = (0, 0);
    while let (Some([from, to]), Some([start, end])) = (a.live.get(at_a), b.live.get(at_b)) {
        if from < end && start < to {
            return true;
        }
        if to <= end {
            at_a += 1;
        } else {
            at_b += 1;
        }
    }
    false
}
