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
//! for them ([`room`]), and states that failed before. An item below which so much would be wasted
//! that the others do not fit above it lies on one of them: it floats, and is raised. Items that are linked by no others are solved by
//! themselves.

mod floating;
mod room;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxHashSet;

use self::room::Left;
use super::items::{Items, Neighbour};

/// When a search gives up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits<'a> {
    /// Nodes that it may visit.
    pub(super) nodes: u64,
    /// Set by whoever does not want to wait any longer.
    pub(super) stop: Option<&'a AtomicBool>,
}

impl Limits<'_> {
    /// Whether somebody asked it to end.
    pub(super) fn stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// An address for every item.
    Placed(Vec<u32>),
    /// There is no placement.
    Nothing,
    /// A limit is reached; the item that was most often in the way.
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

/// Items that may be raised for want of room after one decision. Conclusions beyond that are rarely
/// worth their time: two sections can raise each other's items by a few bytes many times over.
const PATIENCE: usize = 30;

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
    dirty: VecDeque<usize>,
    is_dirty: Vec<bool>,
    failed: FxHashSet<u128>,
    hulls: Vec<Range<u32>>,
    /// For every item a neighbour that was found to fit below it, as a place in its neighbours: looked
    /// at first, because it mostly still does.
    below: Vec<u32>,
    /// The same for what a floating item can lie on.
    support: Vec<u32>,
    /// Items of every section, the last known highest first: mostly still sorted.
    highest_first: Vec<Vec<(u32, u32)>>,
    /// Floating items without support: empty and false between calls.
    floating: Vec<usize>,
    loose: Vec<bool>,
    heap: BinaryHeap<Reverse<(u32, usize)>>,
    /// Something was raised for want of room since the last lift.
    inferred: bool,
    /// How many more items may be raised for want of room after this decision.
    patience: usize,
    /// What a section still has to hold.
    left: Vec<Left>,
    nodes: u64,
    limits: Limits<'a>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        items: &'a Items,
        (rule, rank): (Rule, &'a [u32]),
        trouble: &'a mut [f64],
        limits: Limits<'a>,
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
            dirty: VecDeque::new(),
            is_dirty: vec![false; items.sections.len()],
            failed: FxHashSet::default(),
            hulls: items.items.iter().map(super::items::Item::hull).collect(),
            below: vec![0; items.len()],
            support: vec![0; items.len()],
            highest_first: items.sections.iter().map(room::by_number).collect(),
            floating: vec![],
            loose: vec![false; items.len()],
            heap: BinaryHeap::new(),
            inferred: false,
            patience: 0,
            left: vec![],
            nodes: 0,
            limits,
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
        let mut all: Vec<usize> = (0..self.items.len()).collect();
        if !self.settle(&all) {
            return Found::Nothing;
        }
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
            if self.nodes > self.limits.nodes || self.limits.stopped() {
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
            if !self.settle(group) {
                break;
            }
        }
        self.go_back(top);
        if self.failed.len() < REMEMBERED {
            self.failed.insert(key);
        }
        Err(End::Failed)
    }

    /// The next item to decide on: one below which nothing else of the group can be put. The lowest
    /// of all is one of them, and never floats after a lift.
    fn choose(&mut self, group: &[usize]) -> Option<usize> {
        let mut best: Option<((u64, u64, u32), usize)> = None;
        for &item in group {
            if !self.floats[item] && self.is_lowest(item) {
                let preference = self.preference(item);
                if best.is_none_or(|(least, _)| preference < least) {
                    best = Some((preference, item));
                }
            }
        }
        best.map(|(_, item)| item)
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
    fn is_lowest(&mut self, item: usize) -> bool {
        let others = &self.items.neighbours[item];
        let fits_below = |other: &Neighbour| {
            !self.placed[other.item] && other.over(self.low[other.item]) <= self.low[item]
        };
        if others.get(self.below[item] as usize).is_some_and(fits_below) {
            return false;
        }
        let found = others.iter().position(fits_below);
        if let Some(found) = found {
            self.below[item] = found as u32;
        }
        found.is_none()
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
        self.settle(rest)
    }

    /// Draws conclusions until there are no more; whether the group may still fit.
    fn settle(&mut self, group: &[usize]) -> bool {
        self.patience = PATIENCE;
        loop {
            self.inferred = false;
            if !self.lift(group) || !self.sections_hold() {
                return false;
            }
            if !self.inferred {
                return true;
            }
        }
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
}
