//! Branch and propagate: a placement, or the proof that there is none.
//!
//! Items are placed over those that are placed already, each at the lowest address where it can lie.
//! Nothing is lost: take any placement and let items sink, lower ones first; each ends at most where
//! it was, because how far an item pushes those above it grows with its own address. That holds for
//! alignment, for ranges, and for pairs that share no element (the upper one starts at an element's
//! start). In the end every item lies on another one or at the bottom of its ranges.
//!
//! So one item is chosen below which no other can still be put, and there are two cases. It lies at its
//! lowest address, and all that meets it and is not placed lies above. Or it *floats*: it will lie on
//! something that is not placed yet, so its lowest address rises to the lowest such support.
//!
//! Cut off are: sections whose remaining items need more bytes than lie above the lowest place left
//! for them, and states that failed before. Items that are linked by no others are solved by
//! themselves.

use std::ops::Range;

use rustc_hash::FxHashSet;

use super::items::Items;

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// An address for every item.
    Placed(Vec<u32>),
    /// There is no placement.
    Nothing,
    /// The budget is used up; the item that was most often in the way.
    Unknown(usize),
}

/// Which item is chosen: the one with the least key, then by the given order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The lowest address, then the tightest section, roughly.
    LowestRoughly,
    /// The lowest address, then the tightest section.
    Lowest,
    /// The tightest section.
    Tightest,
    /// Address and spare bytes of the tightest section together.
    Sum,
    /// The tightest section, sooner the more often the item was in the way.
    Troubled,
}

/// States that are remembered as failed.
const REMEMBERED: usize = 1 << 18;

/// Why a group of items is not placed.
enum End {
    Failed,
    OutOfBudget,
}

/// How far the trails had come.
#[derive(Clone, Copy)]
struct Mark {
    low: usize,
    floats: usize,
    spare: usize,
}

/// The state of one search.
pub(super) struct Search<'a> {
    items: &'a Items,
    rule: Rule,
    /// Place in the order of preference.
    rank: &'a [u32],
    /// How often an item was in the way.
    trouble: &'a mut [f64],
    /// Lowest possible address; the address itself of what is placed.
    low: Vec<u32>,
    placed: Vec<bool>,
    /// Will lie on something that is not placed yet.
    floats: Vec<bool>,
    /// Bytes of a section beyond those that are wasted or needed.
    spare: Vec<u64>,
    low_trail: Vec<(usize, u32)>,
    floats_trail: Vec<usize>,
    spare_trail: Vec<(usize, u64)>,
    /// Sections to look at again, each once.
    dirty: Vec<usize>,
    is_dirty: Vec<bool>,
    failed: FxHashSet<u128>,
    hulls: Vec<Range<u32>>,
    nodes: u64,
    budget: u64,
    scratch: Vec<(u32, u32)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        items: &'a Items,
        (rule, rank): (Rule, &'a [u32]),
        trouble: &'a mut [f64],
        budget: u64,
    ) -> Search<'a> {
        Search {
            items,
            rule,
            rank,
            trouble,
            low: vec![0; items.len()],
            placed: vec![false; items.len()],
            floats: vec![false; items.len()],
            spare: vec![0; items.sections.len()],
            low_trail: vec![],
            floats_trail: vec![],
            spare_trail: vec![],
            dirty: vec![],
            is_dirty: vec![false; items.sections.len()],
            failed: FxHashSet::default(),
            hulls: items.items.iter().map(super::items::Item::hull).collect(),
            nodes: 0,
            budget,
            scratch: vec![],
        }
    }

    /// Nodes that were visited.
    pub(super) fn nodes(&self) -> u64 {
        self.nodes
    }

    pub(super) fn run(&mut self) -> Found {
        for item in 0..self.items.len() {
            match self.items.lowest(item, 0) {
                Some(low) => self.low[item] = low,
                None => return Found::Nothing,
            }
        }
        for section in 0..self.items.sections.len() {
            self.mark(section);
        }
        if !self.sections_hold() {
            return Found::Nothing;
        }
        let mut all: Vec<usize> = (0..self.items.len()).collect();
        all.sort_by_key(|item| self.hulls[*item].start);
        match self.components(&all) {
            Ok(()) => Found::Placed(self.low.clone()),
            Err(End::Failed) => Found::Nothing,
            Err(End::OutOfBudget) => {
                let worst =
                    (0..all.len()).max_by(|a, b| self.trouble[*a].total_cmp(&self.trouble[*b]));
                Found::Unknown(worst.unwrap_or(0))
            }
        }
    }

    /// Solves unplaced items, given by first step, group by group.
    fn components(&mut self, items: &[usize]) -> Result<(), End> {
        let mut groups: Vec<&[usize]> = vec![];
        let (mut start, mut end) = (0, 0);
        for (at, item) in items.iter().enumerate() {
            let hull = &self.hulls[*item];
            if at > start && hull.start >= end {
                groups.push(&items[start..at]);
                start = at;
            }
            end = end.max(hull.end);
        }
        if start < items.len() {
            groups.push(&items[start..]);
        }
        groups.sort_by_key(|group| group.len());
        groups.into_iter().try_for_each(|group| self.group(group))
    }

    fn group(&mut self, group: &[usize]) -> Result<(), End> {
        if let [item] = *group {
            // A floating item without anything left to lie on could have been lower.
            if self.floats[item] {
                return Err(End::Failed);
            }
            self.placed[item] = true;
            return Ok(());
        }
        let key = self.key(group);
        if self.failed.contains(&key) {
            return Err(End::Failed);
        }
        let top = self.trails();
        let mut rest = Vec::with_capacity(group.len());
        while let Some(choice) = self.choose(group) {
            self.nodes += 1;
            if self.nodes > self.budget {
                return Err(End::OutOfBudget);
            }
            let mark = self.trails();
            rest.clear();
            rest.extend(group.iter().copied().filter(|item| *item != choice));
            if self.put(choice, &rest) {
                match self.components(&rest) {
                    Err(End::Failed) => {}
                    other => return other,
                }
            }
            for item in group {
                self.placed[*item] = false;
            }
            self.go_back(mark);
            self.set_floats(choice, true);
            if !self.lift(group) || !self.sections_hold() {
                break;
            }
        }
        self.go_back(top);
        if self.failed.len() < REMEMBERED {
            self.failed.insert(key);
        }
        Err(End::Failed)
    }

    /// The next item to decide on: one below which nothing else of the group can be put. If every such
    /// item floats, supports rise until one does not, or nothing is left to lie on.
    fn choose(&mut self, group: &[usize]) -> Option<usize> {
        loop {
            let free =
                group.iter().copied().filter(|item| !self.floats[*item] && self.is_lowest(*item));
            if let Some(found) = free.min_by_key(|item| self.preference(*item)) {
                return Some(found);
            }
            let before = self.low_trail.len();
            if !self.lift(group) || !self.sections_hold() || self.low_trail.len() == before {
                return None;
            }
        }
    }

    fn preference(&self, item: usize) -> (u64, u64, u32) {
        let (low, rank) = (u64::from(self.low[item]), self.rank[item]);
        let spare = self.items.sections_of[item].iter().map(|section| self.spare[*section]);
        let spare = spare.min().unwrap_or(0);
        let memory = self.items.memory();
        match self.rule {
            Rule::LowestRoughly => (low, spare / (memory / 64).max(1), rank),
            Rule::Lowest => (low, spare, rank),
            Rule::Tightest => (spare, 0, rank),
            Rule::Sum => (low + spare, 0, rank),
            Rule::Troubled => {
                let spare = (spare + memory / 1024 + 1) as f64;
                ((1000.0 * spare / self.trouble[item].sqrt()) as u64, low, rank)
            }
        }
    }

    /// Whether nothing that meets the item and is not placed fits below it.
    fn is_lowest(&self, item: usize) -> bool {
        let mut others =
            self.items.neighbours[item].iter().filter(|other| !self.placed[other.item]);
        others.all(|other| other.over(self.low[other.item]) > self.low[item])
    }

    /// Identity of what is left to do.
    fn key(&self, group: &[usize]) -> u128 {
        let mut sum = 0_u128;
        for item in group {
            let floats = u128::from(self.floats[*item]);
            let value = (*item as u128) << 33 | floats << 32 | u128::from(self.low[*item]);
            // A product mixes upwards only, so it is folded and multiplied once more.
            let mixed = (value + 0x9e37_79b9_7f4a_7c15)
                .wrapping_mul(0xda94_2042_e4dd_58b5_9e37_79b9_7f4a_7c15);
            let mixed =
                (mixed ^ mixed >> 64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f_1656_67b1_9e37_79f9);
            sum = sum.wrapping_add(mixed ^ mixed >> 61);
        }
        sum
    }

    /// Places an item at its lowest address; whether the rest may still fit.
    fn put(&mut self, choice: usize, rest: &[usize]) -> bool {
        let items = self.items;
        let address = self.low[choice];
        self.placed[choice] = true;
        for &section in &items.sections_of[choice] {
            self.mark(section);
        }
        for other in &items.neighbours[choice] {
            if self.placed[other.item] {
                continue;
            }
            let end = other.above(address);
            if self.low[other.item] < end {
                if !self.raise(other.item, end) {
                    return false;
                }
                self.set_floats(other.item, false);
            } else if self.floats[other.item]
                && items.lowest(other.item, end) == Some(self.low[other.item])
            {
                self.set_floats(other.item, false);
            }
        }
        self.lift(rest) && self.sections_hold()
    }

    /// Raises what floats to its lowest support; whether all of it can be supported.
    fn lift(&mut self, group: &[usize]) -> bool {
        let items = self.items;
        group.iter().all(|&item| {
            if self.placed[item] || !self.floats[item] {
                return true;
            }
            let others = items.neighbours[item].iter().filter(|other| !self.placed[other.item]);
            let support = others.map(|other| other.over(self.low[other.item])).min();
            support.is_some_and(|support| self.raise(item, support))
        })
    }

    /// Keeps an unplaced item at or above an address.
    fn raise(&mut self, item: usize, from: u32) -> bool {
        if self.low[item] >= from {
            return true;
        }
        let items = self.items;
        let Some(low) = items.lowest(item, from) else {
            self.trouble[item] += 1.0;
            return false;
        };
        self.low_trail.push((item, self.low[item]));
        self.low[item] = low;
        for &section in &items.sections_of[item] {
            self.mark(section);
        }
        true
    }

    fn set_floats(&mut self, item: usize, floats: bool) {
        if self.floats[item] != floats {
            self.floats_trail.push(item);
            self.floats[item] = floats;
        }
    }

    fn trails(&self) -> Mark {
        Mark {
            low: self.low_trail.len(),
            floats: self.floats_trail.len(),
            spare: self.spare_trail.len(),
        }
    }

    fn go_back(&mut self, mark: Mark) {
        for section in self.dirty.drain(..) {
            self.is_dirty[section] = false;
        }
        for (item, low) in self.low_trail.drain(mark.low..).rev() {
            self.low[item] = low;
        }
        for item in self.floats_trail.drain(mark.floats..).rev() {
            self.floats[item] = !self.floats[item];
        }
        for (section, spare) in self.spare_trail.drain(mark.spare..).rev() {
            self.spare[section] = spare;
        }
    }

    fn mark(&mut self, section: usize) {
        if !self.is_dirty[section] {
            self.is_dirty[section] = true;
            self.dirty.push(section);
        }
    }

    /// Whether every section that changed still has room for what is left of it.
    fn sections_hold(&mut self) -> bool {
        while let Some(section) = self.dirty.pop() {
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
        let items = self.items;
        let several = items.ceilings.len() > 1;
        for &ceiling in &items.ceilings {
            self.scratch.clear();
            let (mut lowest, mut highest, mut needed) = (u32::MAX, 0, 0);
            for &(item, size) in &items.sections[section].items {
                if !self.placed[item] && (!several || items.ceiling(item) <= ceiling) {
                    let low = self.low[item];
                    (lowest, highest) = (lowest.min(low), highest.max(low));
                    needed += u64::from(size);
                    self.scratch.push((low, size));
                }
            }
            let room = items.room(lowest..ceiling);
            if needed > room {
                return false;
            }
            if ceiling == items.end() {
                // A section without anything left is never tight.
                let spare = if needed == 0 { u64::MAX / 4096 } else { room - needed };
                if spare != self.spare[section] {
                    self.spare_trail.push((section, self.spare[section]));
                    self.spare[section] = spare;
                }
            }
            if needed > items.room(highest..ceiling)
                && !steps_hold(items, &mut self.scratch, ceiling)
            {
                return false;
            }
        }
        true
    }
}

/// Whether the highest items fit above the lowest of them, for every number of them.
fn steps_hold(items: &Items, lows: &mut [(u32, u32)], ceiling: u32) -> bool {
    lows.sort_unstable_by(|a, b| b.cmp(a));
    let mut needed = 0;
    lows.iter().all(|&(low, size)| {
        needed += u64::from(size);
        needed <= items.room(low..ceiling)
    })
}
