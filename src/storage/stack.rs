//! Items at their addresses, in the order of these: the bytes that they take together, and where one
//! more takes the fewest.
//!
//! Every question is one pass over the order. An item counts with its most bytes, whatever its size at
//! the time at which it meets another.

use std::ops::Range;

use super::items::{Items, element_end, element_start};

/// What two items are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// Never in memory at one time.
    Strangers,
    /// They may not overlap.
    Meet,
    /// They may share no memory element.
    Apart,
}

/// What every item may and may not, whatever its size.
pub(super) struct Rules<'a> {
    items: &'a Items,
    /// Relations of every item, a row each.
    relations: Vec<Relation>,
}

impl<'a> Rules<'a> {
    pub(super) fn of(items: &'a Items) -> Rules<'a> {
        let count = items.len();
        let mut relations = vec![Relation::Strangers; count * count];
        for (item, neighbours) in items.neighbours.iter().enumerate() {
            for other in neighbours {
                let relation = if other.apart { Relation::Apart } else { Relation::Meet };
                relations[item * count + other.item] = relation;
            }
        }
        Rules { items, relations }
    }

    fn row(&self, item: usize) -> &[Relation] {
        let count = self.items.len();
        &self.relations[item * count..(item + 1) * count]
    }
}

/// Bytes that items take at any time, and those of the ranges before.
struct Taken {
    range: Range<u32>,
    before: u32,
}

/// Items of one set of sizes at their addresses.
pub(super) struct Stack<'a> {
    rules: &'a Rules<'a>,
    /// Bytes of every item.
    sizes: &'a [u32],
    /// Addresses of those that are placed.
    at: Vec<u32>,
    /// What is placed, by address.
    order: Vec<usize>,
    /// Of the last survey: what all other items take, disjoint and ascending.
    taken: Vec<Taken>,
    /// Of the last survey: where the item cannot lie, disjoint and ascending.
    blocked: Vec<Range<u32>>,
}

impl<'a> Stack<'a> {
    /// Nothing is placed.
    pub(super) fn new(rules: &'a Rules<'a>, sizes: &'a [u32]) -> Stack<'a> {
        let count = rules.items.len();
        Stack {
            rules,
            sizes,
            at: vec![0; count],
            order: Vec::with_capacity(count),
            taken: vec![],
            blocked: vec![],
        }
    }

    /// Places items at addresses, in any order.
    pub(super) fn fill(&mut self, placed: impl Iterator<Item = (usize, u32)>) {
        for (item, at) in placed {
            self.at[item] = at;
            self.order.push(item);
        }
        let at = &self.at;
        self.order.sort_unstable_by_key(|item| (at[*item], *item));
    }

    /// Places one more item.
    pub(super) fn put(&mut self, item: usize, at: u32) {
        let place = self.order.partition_point(|other| (self.at[*other], *other) < (at, item));
        self.at[item] = at;
        self.order.insert(place, item);
    }

    fn remove(&mut self, item: usize) {
        self.order.retain(|other| *other != item);
    }

    /// What is placed here, whatever its size.
    pub(super) fn items(&self) -> &'a Items {
        self.rules.items
    }

    /// Bytes of an item.
    pub(super) fn size(&self, item: usize) -> u32 {
        self.sizes[item]
    }

    /// The address of a placed item.
    pub(super) fn address(&self, item: usize) -> u32 {
        self.at[item]
    }

    /// Addresses of all items.
    pub(super) fn into_addresses(self) -> Vec<u32> {
        self.at
    }

    fn end(&self, item: usize) -> u32 {
        self.at[item] + self.sizes[item]
    }

    /// Bytes that some item takes at some time.
    pub(super) fn bytes(&self) -> u64 {
        let mut end = 0;
        let new = self.order.iter().map(|item| {
            let from = self.at[*item].max(end);
            end = end.max(self.end(*item));
            u64::from(end.saturating_sub(from))
        });
        new.sum()
    }

    /// Whether an item can lie at an address beside all that is placed.
    pub(super) fn allows(&mut self, item: usize, at: u32) -> bool {
        self.survey(item);
        let end = at + self.sizes[item];
        self.rules.items.lowest_of(item, self.sizes[item], at) == Some(at)
            && !self.blocked.iter().any(|blocked| blocked.start < end && at < blocked.end)
    }

    /// The legal address at which an item takes the fewest bytes that no other takes, the lowest of
    /// equals; with those bytes.
    pub(super) fn cheapest(&mut self, item: usize) -> Option<(u32, u32)> {
        self.survey(item);
        let mut best: Option<(u32, u32)> = None;
        for range in &self.rules.items.items[item].ranges {
            let mut low = range.start;
            for blocked in &self.blocked {
                if blocked.end <= low {
                    continue;
                }
                if blocked.start >= range.end {
                    break;
                }
                self.within_gap(item, low..blocked.start, &mut best);
                low = blocked.end;
            }
            self.within_gap(item, low..range.end, &mut best);
        }
        best.map(|(bytes, at)| (at, bytes))
    }

    /// The cheapest address inside a gap: at one of its ends, or an end of the item is one of what is
    /// taken.
    fn within_gap(&self, item: usize, gap: Range<u32>, best: &mut Option<(u32, u32)>) {
        let (size, alignment) = (self.sizes[item], self.rules.items.items[item].alignment);
        let down = |at: u32| at / alignment * alignment;
        let Some(first) = gap.start.checked_next_multiple_of(alignment) else { return };
        let Some(last) = gap.end.checked_sub(size).map(down) else { return };
        if first > last {
            return;
        }
        let mut consider = |at: u32| {
            if (first..=last).contains(&at) {
                let found = (size - self.taken_within(at..at + size), at);
                if best.is_none_or(|best| found < best) {
                    *best = Some(found);
                }
            }
        };
        consider(first);
        consider(last);
        let from = self.taken.partition_point(|taken| taken.range.end <= gap.start);
        for taken in self.taken[from..].iter().take_while(|taken| taken.range.start < gap.end) {
            for end in [taken.range.start, taken.range.end.saturating_sub(size)] {
                consider(down(end));
                consider(down(end) + alignment);
            }
        }
    }

    /// Finds what all placed items but one take, and where that one cannot lie.
    fn survey(&mut self, item: usize) {
        self.taken.clear();
        self.blocked.clear();
        let relations = self.rules.row(item);
        let mut is_sorted = true;
        for &other in self.order.iter().filter(|other| **other != item) {
            let (start, end) = (self.at[other], self.end(other));
            match self.taken.last_mut() {
                Some(last) if start <= last.range.end => last.range.end = last.range.end.max(end),
                last => {
                    let before =
                        last.map_or(0, |last| last.before + last.range.end - last.range.start);
                    self.taken.push(Taken { range: start..end, before });
                }
            }
            let blocked = match relations[other] {
                Relation::Strangers => continue,
                Relation::Meet => start..end,
                Relation::Apart => element_start(start)..element_end(end),
            };
            is_sorted &= self.blocked.last().is_none_or(|last| last.start <= blocked.start);
            self.blocked.push(blocked);
        }
        if !is_sorted {
            self.blocked.sort_unstable_by_key(|range| range.start);
        }
        self.blocked.dedup_by(|next, last| {
            let joined = next.start <= last.end;
            if joined {
                last.end = last.end.max(next.end);
            }
            joined
        });
    }

    /// Taken bytes below an address.
    fn taken_below(&self, address: u32) -> u32 {
        let next = self.taken.partition_point(|taken| taken.range.start < address);
        next.checked_sub(1).map_or(0, |last| {
            let taken = &self.taken[last];
            taken.before + taken.range.end.min(address) - taken.range.start
        })
    }

    fn taken_within(&self, range: Range<u32>) -> u32 {
        self.taken_below(range.end) - self.taken_below(range.start)
    }

    /// Bytes that an item alone takes, of every item.
    fn alone(&self) -> Vec<u32> {
        let mut alone = vec![0; self.at.len()];
        // Of what begins lower: the highest end and whose it is, and the end below it.
        let (mut highest, mut second) = ((0, usize::MAX), 0);
        for (place, &item) in self.order.iter().enumerate() {
            let (start, end) = (self.at[item], self.end(item));
            if end > highest.0 {
                second = highest.0;
                highest = (end, item);
            } else {
                second = second.max(end);
            }
            let next = self.order.get(place + 1).map_or(u32::MAX, |next| self.at[*next]);
            alone[highest.1] += next.min(highest.0).saturating_sub(start.max(second));
        }
        alone
    }

    /// Moves items while that saves bytes and more than a goal are taken, the highest first, in a
    /// number of rounds at most.
    pub(super) fn tighten(&mut self, goal: u64, rounds: usize) {
        let mut bytes = self.bytes();
        let mut alone = self.alone();
        // Items that cannot save anything where all others lie now.
        let mut settled = vec![false; self.at.len()];
        for _ in 0..rounds {
            let highest_first: Vec<usize> = self.order.iter().rev().copied().collect();
            let mut moved = false;
            for item in highest_first {
                if bytes <= goal {
                    return;
                }
                // What lies where others do takes nothing that could be saved.
                if alone[item] == 0 || settled[item] {
                    continue;
                }
                settled[item] = true;
                if let Some((at, new)) = self.cheapest(item)
                    && new < alone[item]
                {
                    bytes -= u64::from(alone[item] - new);
                    self.remove(item);
                    self.put(item, at);
                    alone = self.alone();
                    settled.fill(false);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
    }
}
