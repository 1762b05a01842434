//! Floating items: each will lie on something that is not placed yet, so none is lower than the lowest
//! support that it can have.

use std::cmp::Reverse;

use super::Search;
use crate::storage::items::Neighbour;

impl Search<'_> {
    /// Raises what floats to its lowest support; whether all of it can be supported.
    ///
    /// Supports lie lower than what they carry, so whoever is looked at in the order of addresses can
    /// rely on those before. The others climb, the lowest first: what has climbed as far as it must is
    /// a support for the rest.
    pub(super) fn lift(&mut self, group: &[usize]) -> bool {
        let mut floating = std::mem::take(&mut self.floating);
        floating.clear();
        floating.extend(group.iter().filter(|item| !self.placed[**item] && self.floats[**item]));
        floating.sort_unstable_by_key(|item| self.low[*item]);
        floating.retain(|item| !self.is_supported(*item));
        let climbed = floating.is_empty() || self.climb(&floating);
        floating.iter().for_each(|item| self.loose[*item] = false);
        self.floating = floating;
        climbed
    }

    /// Whether an item has something to lie on where it is; otherwise it is loose.
    fn is_supported(&mut self, item: usize) -> bool {
        let others = &self.items.neighbours[item];
        let carries = |other: &Neighbour| {
            !self.placed[other.item]
                && !self.loose[other.item]
                && other.over(self.low[other.item]) <= self.low[item]
        };
        if others.get(self.support[item] as usize).is_some_and(carries) {
            return true;
        }
        match others.iter().position(carries) {
            Some(found) => self.support[item] = found as u32,
            None => self.loose[item] = true,
        }
        !self.loose[item]
    }

    fn climb(&mut self, loose: &[usize]) -> bool {
        let items = self.items;
        let mut heap = std::mem::take(&mut self.heap);
        heap.clear();
        for &item in loose {
            let firm = items.neighbours[item]
                .iter()
                .filter(|other| !self.placed[other.item] && !self.loose[other.item]);
            if let Some(support) = firm.map(|other| other.over(self.low[other.item])).min() {
                heap.push(Reverse((self.climbed(item, support), item)));
            }
        }
        let mut left = loose.len();
        while let Some(Reverse((low, item))) = heap.pop() {
            if !self.loose[item] {
                continue;
            }
            if low == u32::MAX || !self.raise(item, low) {
                self.trouble[item] += 1.0;
                break;
            }
            self.loose[item] = false;
            left -= 1;
            for other in items.neighbours[item].iter().filter(|other| self.loose[other.item]) {
                let low = self.climbed(other.item, other.above(low));
                heap.push(Reverse((low, other.item)));
            }
        }
        self.heap = heap;
        left == 0
    }

    /// Where an item lies on a support.
    fn climbed(&self, item: usize, support: u32) -> u32 {
        self.items.lowest(item, support.max(self.low[item])).unwrap_or(u32::MAX)
    }
}
