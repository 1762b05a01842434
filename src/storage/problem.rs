//! One tile's problem.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::target::sram::{INTERLEAVED_START, MEMORY_END, MEMORY_START};

use super::items::{Item, Items, largest};
use super::ranges::{intersection, meet, ranges_at, starts, union, without};
use super::repeats::{Repeat, RepeatRule};

/// Bytes of a tile's memory: no buffer is larger.
pub(super) const MOST_BYTES: u32 = MEMORY_END.0 - MEMORY_START.0;

/// The memory that a buffer may lie in (`target/ipu21.md` §5.1).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// Anywhere.
    #[default]
    Either,
    /// Region 0, which alone can be executed.
    Standard,
    /// Region 1.
    Interleaved,
}

impl Region {
    fn range(self) -> Range<u32> {
        match self {
            Region::Either => 0..u32::MAX,
            Region::Standard => 0..INTERLEAVED_START.0,
            Region::Interleaved => INTERLEAVED_START.0..u32::MAX,
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Region::Either => "all",
            Region::Standard => "standard",
            Region::Interleaved => "interleaved",
        }
    }
}

/// A buffer of one tile. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// Payload and whatever may be read beyond it.
    pub size: u32,
    /// A power of two.
    pub alignment: u32,
    /// Where it may lie.
    pub region: Region,
    /// Steps during which it holds data: ascending, disjoint.
    pub live: Vec<Range<u32>>,
    /// Addresses that it must not touch.
    pub forbidden: Vec<Range<u32>>,
    /// It lies inside one of these, or on adjacent ones, if a placement is found where it does. Blocks
    /// of a repeat that has room without gaps are looked for at its least stride only.
    pub preferred: Vec<Range<u32>>,
    /// Shares its place with no other buffer, at no step.
    pub untouched: bool,
}

/// Buffers to place on one tile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Free ranges, ascending and disjoint. A buffer may not straddle two.
    pub free: Vec<Range<u32>>,
    /// What to place.
    pub buffers: Vec<Buffer>,
    /// Pairs of buffers that must not share a memory element while both live.
    pub apart: Vec<(usize, usize)>,
    /// Pairs of buffers that have one address: views, and results in an input's place.
    pub aliases: Vec<(usize, usize)>,
    /// Blocks of one size at one stride.
    pub repeats: Vec<Repeat>,
}

/// What is wrong with a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum ProblemError {
    /// An empty buffer, or one larger than a tile.
    #[error("buffer {buffer} has {size} bytes, expected 1 to {MOST_BYTES}")]
    Size { buffer: usize, size: u32 },
    /// Not a power of two.
    #[error("buffer {buffer} has alignment {alignment}, expected a power of two")]
    Alignment { buffer: usize, alignment: u32 },
    /// A lifetime that ends before it starts.
    #[error("buffer {buffer} lives from step {start} to step {end}")]
    Lifetime { buffer: usize, start: u32, end: u32 },
    /// A lifetime without steps, or one whose parts overlap.
    #[error("buffer {buffer} needs lifetimes that ascend and do not overlap")]
    Lifetimes { buffer: usize },
    /// Free ranges that overlap or leave tile memory.
    #[error("free range {start:#x} to {end:#x} overlaps another or leaves tile memory")]
    Range { start: u32, end: u32 },
    /// A forbidden range that is empty or leaves tile memory.
    #[error(
        "buffer {buffer}: forbidden range {start:#x} to {end:#x} is empty or leaves tile memory"
    )]
    Forbidden { buffer: usize, start: u32, end: u32 },
    /// A preferred range that is empty or leaves tile memory.
    #[error(
        "buffer {buffer}: preferred range {start:#x} to {end:#x} is empty or leaves tile memory"
    )]
    Preferred { buffer: usize, start: u32, end: u32 },
    /// Blocks that cannot lie at one stride.
    #[error("repeat {repeat}: {rule}")]
    Repeat { repeat: usize, rule: RepeatRule },
    /// A pair that names no two buffers.
    #[error("buffers {0} and {1} cannot lie apart")]
    Apart(usize, usize),
    /// A pair that names no two buffers.
    #[error("buffers {0} and {1} cannot have one address")]
    Alias(usize, usize),
    /// Two buffers that share their place and must not.
    #[error("buffers {0} and {1} have one address and must lie apart")]
    Contradiction(usize, usize),
}

/// A buffer, and the addresses at which alone it may begin: ascending ranges that do not touch.
pub(super) type Held = (usize, Vec<Range<u32>>);

/// Why nothing fits: how many bytes are too many, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The memory that is too small, for the buffers that must lie in it.
    pub region: Region,
    /// A step at which the most bytes live.
    pub step: u32,
    /// Bytes that live then beyond what is free.
    pub bytes_over: u32,
}

impl Problem {
    /// Checks what the solver takes for granted.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ProblemError> {
        let mut end = MEMORY_START.0;
        for range in &self.free {
            if range.start < end || range.end <= range.start || range.end > MEMORY_END.0 {
                return Err(ProblemError::Range { start: range.start, end: range.end });
            }
            end = range.end;
        }
        for (index, buffer) in self.buffers.iter().enumerate() {
            buffer.check(index)?;
        }
        let count = self.buffers.len();
        for &(a, b) in &self.aliases {
            if a == b || a.max(b) >= count {
                return Err(ProblemError::Alias(a, b));
            }
        }
        let groups = self.groups();
        for &(a, b) in &self.apart {
            if a == b || a.max(b) >= count {
                return Err(ProblemError::Apart(a, b));
            }
            if groups[a] == groups[b] && self.buffers[a].meets(&self.buffers[b]) {
                return Err(ProblemError::Contradiction(a, b));
            }
        }
        let mut taken = vec![false; count];
        for (repeat, found) in self.repeats.iter().enumerate() {
            found.check(self, &mut taken).map_err(|rule| ProblemError::Repeat { repeat, rule })?;
        }
        Ok(())
    }

    /// Free bytes.
    pub fn capacity(&self) -> u64 {
        self.free.iter().map(|range| u64::from(range.end - range.start)).sum()
    }

    /// From the first step of any buffer to the last.
    pub fn steps(&self) -> Range<u32> {
        let live = || self.buffers.iter().flat_map(|buffer| &buffer.live);
        let start = live().map(|live| live.start).min().unwrap_or(0);
        start..live().map(|live| live.end).max().unwrap_or(start)
    }

    /// The first step at which the most bytes live, and how many: buffers with one address count
    /// once.
    pub fn fullest(&self) -> (u32, u64) {
        let (items, _) = self.items();
        let bytes = items.sections.iter().map(|section| {
            let bytes = section.items.iter().map(|(_, size)| u64::from(*size)).sum();
            (section.step, bytes)
        });
        bytes.max_by_key(|(step, bytes)| (*bytes, Reverse(*step))).unwrap_or((0, 0))
    }

    /// Free bytes up to the end of the highest buffer.
    pub fn height(&self, addresses: &[u32]) -> u64 {
        let ends = self.buffers.iter().zip(addresses);
        let end = ends.map(|(buffer, at)| u64::from(*at) + u64::from(buffer.size)).max();
        let below = |range: &Range<u32>| {
            end.unwrap_or(0).min(range.end.into()).saturating_sub(range.start.into())
        };
        self.free.iter().map(below).sum()
    }

    /// Bytes that hold something at some step.
    pub fn taken(&self, addresses: &[u32]) -> u64 {
        let buffers = self.buffers.iter().zip(addresses);
        let ranges = buffers.map(|(buffer, at)| *at..*at + buffer.size).collect();
        union(ranges).into_iter().map(|range| u64::from(range.end - range.start)).sum()
    }

    /// For every buffer the first buffer with the same address.
    pub(super) fn groups(&self) -> Vec<usize> {
        let mut group: Vec<usize> = (0..self.buffers.len()).collect();
        for &(a, b) in &self.aliases {
            let (first, second) = (group[a].min(group[b]), group[a].max(group[b]));
            group.iter_mut().filter(|found| **found == second).for_each(|found| *found = first);
        }
        group
    }

    /// The solver's form, and for every buffer its item.
    pub(super) fn items(&self) -> (Items, Vec<usize>) {
        self.items_held(&[])
    }

    /// The same with some buffers held to a few addresses.
    pub(super) fn items_held(&self, held: &[Held]) -> (Items, Vec<usize>) {
        let groups = self.groups();
        let mut firsts = groups.clone();
        firsts.sort_unstable();
        firsts.dedup();
        let item_of: Vec<usize> =
            groups.iter().map(|first| firsts.partition_point(|found| found < first)).collect();
        let mut members: Vec<Vec<&Buffer>> = vec![vec![]; firsts.len()];
        let of_buffers = item_of.iter().zip(&self.buffers);
        of_buffers.for_each(|(item, buffer)| members[*item].push(buffer));
        let mut held_of: Vec<Vec<&[Range<u32>]>> = vec![vec![]; firsts.len()];
        held.iter().for_each(|(buffer, starts)| held_of[item_of[*buffer]].push(starts));
        let items = members.iter().zip(&held_of).map(|(members, held)| self.item(members, held));
        let apart: Vec<_> = self
            .apart
            .iter()
            .filter(|(a, b)| self.buffers[*a].meets(&self.buffers[*b]))
            .map(|(a, b)| (item_of[*a], item_of[*b]))
            .collect();
        (Items::new(items.collect(), self.free.clone(), &apart), item_of)
    }

    /// The item of buffers with one address, and addresses at which alone it may begin.
    fn item(&self, members: &[&Buffer], held: &[&[Range<u32>]]) -> Item {
        let alignment = members.iter().map(|member| member.alignment).max().unwrap_or(1);
        let mut item = Item { spans: spans(members), alignment, ranges: vec![] };
        item.ranges = match (members, held) {
            ([only], []) => self.ranges_of(only),
            _ => self.shared_ranges(members, held, item.size()),
        };
        item
    }

    /// Ranges one of which has to hold all of a buffer, ascending and disjoint.
    pub(super) fn ranges_of(&self, buffer: &Buffer) -> Vec<Range<u32>> {
        let region = buffer.region.range();
        let clip = |range: &Range<u32>| range.start.max(region.start)..range.end.min(region.end);
        let mut ranges: Vec<Range<u32>> = self.free.iter().map(clip).collect();
        ranges.retain(|range| !range.is_empty());
        buffer.forbidden.iter().for_each(|hole| ranges = without(&ranges, hole));
        ranges
    }

    /// Why a buffer can lie in none of its preferred ranges, though it has a place elsewhere.
    pub(super) fn wish_fault(&self, buffer: &Buffer) -> Option<&'static str> {
        let Buffer { size, alignment, .. } = *buffer;
        let allowed = self.ranges_of(buffer);
        if buffer.preferred.is_empty() || largest(&allowed, alignment) < size {
            return None;
        }
        let wish = buffer.wish();
        let left = |ranges: &[Range<u32>]| intersection(&wish, &starts(ranges, size));
        let in_region = self.ranges_of(&Buffer { forbidden: vec![], ..buffer.clone() });
        let legal = left(&allowed);
        if wish.is_empty() {
            Some("all are shorter than it is with its tail")
        } else if left(&self.free).is_empty() {
            Some("none has room for it inside one of the `free` ranges")
        } else if left(&in_region).is_empty() {
            Some("none has room for it in its region")
        } else if legal.is_empty() {
            Some("none has room for it beside what is `forbidden`")
        } else if largest(&ranges_at(&legal, size), alignment) < size {
            Some("none has room for it at a multiple of its `alignment`")
        } else {
            None
        }
    }

    /// Ranges one of which has to hold the largest of buffers with one address: the rules of each hold
    /// for its own bytes alone, so all that they say together is at which addresses all may begin.
    fn shared_ranges(
        &self,
        members: &[&Buffer],
        held: &[&[Range<u32>]],
        size: u32,
    ) -> Vec<Range<u32>> {
        let of_members = members.iter().map(|member| starts(&self.ranges_of(member), member.size));
        let all = of_members.chain(held.iter().map(|starts| starts.to_vec()));
        let shared = all.reduce(|shared, starts| intersection(&shared, &starts));
        ranges_at(&shared.unwrap_or_default(), size)
    }
}

/// Sizes over time of buffers with one address.
fn spans(members: &[&Buffer]) -> Vec<(Range<u32>, u32)> {
    if let [only] = members {
        return only.lifetimes().into_iter().map(|live| (live, only.size)).collect();
    }
    let mut changes: Vec<(u32, bool, u32)> = vec![];
    for member in members {
        for live in member.lifetimes() {
            changes.extend([(live.start, true, member.size), (live.end, false, member.size)]);
        }
    }
    changes.sort_unstable();
    // How many of each size there are.
    let mut here: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut since, mut spans) = (0, vec![]);
    for (step, starts, size) in changes {
        if let Some((most, _)) = here.last_key_value()
            && since < step
        {
            spans.push((since..step, *most));
        }
        since = step;
        let count = here.entry(size).or_default();
        *count = if starts { *count + 1 } else { *count - 1 };
        if *count == 0 {
            here.remove(&size);
        }
    }
    spans
}

impl Buffer {
    fn check(&self, buffer: usize) -> Result<(), ProblemError> {
        let size = self.size;
        if size == 0 || size > MOST_BYTES {
            return Err(ProblemError::Size { buffer, size });
        }
        if !self.alignment.is_power_of_two() {
            return Err(ProblemError::Alignment { buffer, alignment: self.alignment });
        }
        for live in &self.live {
            if live.is_empty() {
                return Err(ProblemError::Lifetime { buffer, start: live.start, end: live.end });
            }
        }
        if self.live.is_empty() || self.live.windows(2).any(|pair| pair[0].end > pair[1].start) {
            return Err(ProblemError::Lifetimes { buffer });
        }
        for &Range { start, end } in &self.forbidden {
            if start < MEMORY_START.0 || end <= start || end > MEMORY_END.0 {
                return Err(ProblemError::Forbidden { buffer, start, end });
            }
        }
        for &Range { start, end } in &self.preferred {
            if start < MEMORY_START.0 || end <= start || end > MEMORY_END.0 {
                return Err(ProblemError::Preferred { buffer, start, end });
            }
        }
        Ok(())
    }

    /// Steps during which nothing else may lie there.
    fn lifetimes(&self) -> Vec<Range<u32>> {
        if self.untouched { std::iter::once(0..u32::MAX).collect() } else { self.live.clone() }
    }

    /// Addresses at which it may begin to lie where it is preferred.
    pub(super) fn wish(&self) -> Vec<Range<u32>> {
        starts(&union(self.preferred.clone()), self.size)
    }

    /// Whether both are in memory at one step.
    pub(super) fn meets(&self, other: &Buffer) -> bool {
        meet(&self.live, &other.live)
    }
}
