//! Strides and bases that are worth a try first: those with which blocks and gaps fill memory.

use std::ops::Range;

use super::{Row, Search};
use crate::storage::items::{element_end, element_start};

/// Most strides of a repeat.
const MOST_STRIDES: usize = 64;

/// Most other buffers that are thought of in a gap, or outside of all.
const MOST_SIZES: usize = 12;

impl Search {
    /// The least and the greatest legal stride of a repeat, the second less if there is none.
    pub(super) fn legal_strides(&self, row: usize) -> (u32, u32) {
        let row = &self.rows[row];
        if let Some(stride) = row.stride {
            return (stride, stride);
        }
        let free = self.items.free();
        let start = free.first().map_or(0, |range| range.start);
        let room = free.last().map_or(0, |range| range.end) - start;
        let between = row.items.len() as u32 - 1;
        let most = room.saturating_sub(row.size) / between;
        (row.least(), most / row.step * row.step)
    }

    /// Strides of a repeat, the likely ones first.
    pub(super) fn likely_strides(&self, row: usize) -> Vec<u32> {
        let this = &self.rows[row];
        let (least, most) = self.legal_strides(row);
        let mut found = vec![];
        let others: Vec<usize> =
            (0..self.rows.len()).filter(|other| *other != row && self.meet(row, *other)).collect();
        // Side by side with those that have one.
        let strides = others.iter().filter_map(|other| match self.strides.get(*other) {
            Some(stride) => Some(*stride),
            None => self.rows[*other].stride,
        });
        let known: Vec<u32> = strides.collect();
        found.extend(&known);
        // One block of every other repeat in a gap, or of one.
        let as_many = |other: &&usize| self.rows[**other].items.len() >= this.items.len();
        let as_many: Vec<&Row> =
            others.iter().filter(as_many).map(|other| &self.rows[*other]).collect();
        let all = packed(this, &as_many);
        found.push(all);
        found.extend(self.periods(this));
        found.push(least);
        found.extend(as_many.iter().map(|other| packed(this, &[*other])));
        found.extend(known.iter().flat_map(|stride| [2 * stride, stride / 2]));
        // A buffer beside them.
        let sizes = self.sizes();
        found.extend(sizes.iter().map(|size| all + size));
        found.extend(sizes.iter().map(|size| this.size + size));
        found.push(most);
        let mut kept: Vec<u32> = vec![];
        for stride in found {
            let stride = stride.next_multiple_of(this.step);
            if (least..=most).contains(&stride) && !kept.contains(&stride) {
                kept.push(stride);
            }
        }
        kept.truncate(MOST_STRIDES);
        kept
    }

    /// Strides with which a repeat fills a free range, or what the largest buffers leave of it.
    fn periods(&self, row: &Row) -> Vec<u32> {
        let blocks = row.items.len() as u32;
        let down = |room: u32| room / blocks / row.step * row.step;
        let mut found = vec![];
        for free in self.items.free() {
            let mut room = free.end - free.start;
            found.push(down(room));
            for size in self.sizes().into_iter().rev() {
                if size <= room / blocks || size > room {
                    break;
                }
                room -= size;
                found.push(down(room));
            }
        }
        found
    }

    /// Sizes of what is not a block, ascending, as many as are looked at.
    fn sizes(&self) -> Vec<u32> {
        let is_block = |item: &usize| self.rows.iter().any(|row| row.items.contains(item));
        let items = (0..self.items.len()).filter(|item| !is_block(item));
        let mut sizes: Vec<u32> =
            items.map(|item| self.items.sizes[item].next_multiple_of(4)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        // Evenly, the largest among them.
        let every = sizes.len().div_ceil(MOST_SIZES).max(1);
        let mut some: Vec<u32> = sizes.into_iter().rev().step_by(every).collect();
        some.reverse();
        some
    }

    /// Whether blocks of both are in memory at one time.
    fn meet(&self, row: usize, other: usize) -> bool {
        let of_other = |item: usize| self.rows[other].items.contains(&item);
        let mut blocks = self.rows[row].items.iter();
        blocks.any(|block| self.items.neighbours[*block].iter().any(|found| of_other(found.item)))
    }

    /// Bases of a repeat at a stride: beside blocks that are fixed, and at the ends of ranges.
    pub(super) fn likely_bases(&self, row: usize, stride: u32) -> Vec<u32> {
        let Row { items, size, alignment, .. } = &self.rows[row];
        let up = |address: u32| address.next_multiple_of(*alignment);
        let down = |address: u32| address / alignment * alignment;
        let length = self.rows[row].length(stride);
        let base_of_last =
            |address: u32| u32::try_from(u64::from(address).checked_sub(length)?).ok();
        let ranges = |item: usize| self.items.items[item].ranges.iter();
        let mut found: Vec<(u8, u32)> = vec![];
        for range in ranges(items[0]) {
            found.push((0, up(range.start)));
            found.extend(element_starts(range).map(|start| (3, up(start))));
        }
        for range in items.last().into_iter().flat_map(|item| ranges(*item)) {
            let last = range.end.checked_sub(*size).map(down).and_then(base_of_last);
            found.extend(last.map(|base| (1, base)));
        }
        for (number, &item) in (0_u32..).zip(items) {
            let first = |address: u32| address.checked_sub(number * stride);
            for other in &self.items.neighbours[item] {
                let Some(at) = self.at[other.item] else { continue };
                found.extend(first(up(other.over(at))).map(|base| (0, base)));
                let below = other.lowest_below(at).checked_sub(*size).map(down);
                found.extend(below.and_then(first).map(|base| (2, base)));
            }
        }
        // The first reason for a base counts.
        found.sort_unstable_by_key(|(reason, base)| (*base, *reason));
        found.dedup_by_key(|(_, base)| *base);
        found.sort_unstable();
        found.into_iter().map(|(_, base)| base).collect()
    }
}

/// The stride with which one block of each lies between two of a repeat.
fn packed(row: &Row, others: &[&Row]) -> u32 {
    let step = others.iter().map(|other| other.step).max().unwrap_or(1);
    let end = others
        .iter()
        .fold(row.size, |end, other| end.next_multiple_of(other.alignment) + other.size);
    end.next_multiple_of(step.max(row.step))
}

/// Starts of memory elements inside a range.
fn element_starts(range: &Range<u32>) -> impl Iterator<Item = u32> {
    let end = range.end;
    let next = |start: u32| element_end(start + 1);
    let first = next(element_start(range.start));
    std::iter::successors(Some(first), move |start| Some(next(*start)).filter(|n| n > start))
        .take_while(move |start| *start < end)
}
