//! Room: whether sections can hold what is left of them, and what must lie higher so that they can.

use super::Search;
use crate::storage::items::Section;

/// An item that a section still has to hold.
#[derive(Clone, Copy)]
pub(super) struct Left {
    item: usize,
    size: u32,
    low: u32,
}

/// A section's items and sizes.
pub(super) fn by_number(section: &Section) -> Vec<(u32, u32)> {
    section.items.iter().map(|(item, size)| (*item as u32, *size)).collect()
}

/// Sorts items by their addresses, the highest first.
fn sort_mostly_sorted(order: &mut [(u32, u32)], low: &[u32]) {
    for end in 1..order.len() {
        let moved = order[end];
        let key = low[moved.0 as usize];
        let mut at = end;
        while at > 0 && low[order[at - 1].0 as usize] < key {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = moved;
    }
}

impl Search<'_> {
    /// Looks at a section again before long.
    pub(super) fn mark(&mut self, section: usize) {
        if !self.is_dirty[section] {
            self.is_dirty[section] = true;
            self.dirty.push_back(section);
        }
    }

    /// Whether every section that changed still has room for what is left of it.
    pub(super) fn sections_hold(&mut self) -> bool {
        while let Some(section) = self.dirty.pop_front() {
            self.is_dirty[section] = false;
            if !self.holds(section) {
                for (item, _) in &self.items.sections[section].items {
                    if !self.placed[*item] {
                        self.trouble[*item] += 1.0;
                    }
                }
                return false;
            }
        }
        true
    }

    fn holds(&mut self, section: usize) -> bool {
        sort_mostly_sorted(&mut self.highest_first[section], &self.low);
        let items = self.items;
        items.ceilings.iter().all(|ceiling| {
            let Some(spare) = self.spare_below(section, *ceiling) else { return false };
            if *ceiling == items.end() && spare != self.spare[section] {
                self.spare_trail.push((section, self.spare[section]));
                self.spare[section] = spare;
            }
            true
        })
    }

    /// Bytes that the items which must stay below a ceiling leave over; `None` if they do not fit.
    fn spare_below(&mut self, section: usize, ceiling: u32) -> Option<u64> {
        let items = self.items;
        let several = items.ceilings.len() > 1;
        let (mut lowest, mut highest, mut needed) = (ceiling, 0, 0);
        for &(item, size) in &self.highest_first[section] {
            let item = item as usize;
            if !self.placed[item] && (!several || items.ceiling(item) <= ceiling) {
                lowest = self.low[item];
                highest = highest.max(lowest);
                needed += u64::from(size);
                if needed > items.room(lowest..ceiling) {
                    return None;
                }
            }
        }
        if needed == 0 {
            // A section without anything left is never tight.
            return Some(u64::MAX / 4096);
        }
        let spare = items.room(lowest..ceiling) - needed;
        let wasteful = lowest < highest && items.room(lowest..highest) > spare;
        let holds = !wasteful || self.patience == 0 || self.not_lowest(section, ceiling, spare);
        holds.then_some(spare)
    }

    /// Raises what cannot be the lowest of those that are left; whether all of it still fits.
    fn not_lowest(&mut self, section: usize, ceiling: u32, spare: u64) -> bool {
        let items = self.items;
        let several = items.ceilings.len() > 1;
        let mut left = std::mem::take(&mut self.left);
        left.clear();
        for &(item, size) in self.highest_first[section].iter().rev() {
            let item = item as usize;
            if !self.placed[item] && (!several || items.ceiling(item) <= ceiling) {
                left.push(Left { item, size, low: self.low[item] });
            }
        }
        let lowest = left.first().map_or(0, |left| left.low);
        let raised = raised(&left, spare, |low| items.room(lowest..low));
        self.left = left;
        self.patience = self.patience.saturating_sub(raised.len());
        raised.into_iter().all(|(item, end)| {
            self.inferred = true;
            // It lies on something that is not placed: what is placed let it lie lower.
            self.set_floats(item, true);
            self.raise(item, end)
        })
    }
}

/// Items of a section that lie on others of it, and the lowest end of those others.
///
/// Take an item, and others that do not begin below some address. If so much is wasted below the item
/// that they do not all fit above it, it lies on one of them. What begins below that address may lie
/// in what is wasted; so the fewer bytes may, the better. Everything is sorted by address.
fn raised(left: &[Left], spare: u64, wasted: impl Fn(u32) -> u64) -> Vec<(usize, u32)> {
    // The two lowest ends from every place on: an item does not lie on itself.
    let mut ends = vec![[(u32::MAX, usize::MAX); 2]; left.len() + 1];
    for (at, &Left { item, size, low }) in left.iter().enumerate().rev() {
        let [first, second] = ends[at + 1];
        let end = (low + size, item);
        ends[at] = if end < first { [end, first] } else { [first, second.min(end)] };
    }
    let mut found = vec![];
    let (mut below, mut skipped) = (0_u64, 0);
    for (at, &Left { item, low, .. }) in left.iter().enumerate() {
        let surplus = wasted(low).saturating_sub(spare);
        while skipped < at && below + u64::from(left[skipped].size) < surplus {
            below += u64::from(left[skipped].size);
            skipped += 1;
        }
        let [first, second] = ends[skipped];
        let (end, _) = if first.1 == item { second } else { first };
        if below < surplus && end != u32::MAX && low < end {
            found.push((item, end));
        }
    }
    found
}
