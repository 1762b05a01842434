//! Where repeats lie whose gaps are used: a search over base and stride of each.
//!
//! Repeats are fixed one after the other, the largest first. Once all are, every block has one address,
//! what meets it keeps off, and the searches of [`super::place`] decide the rest. First come candidates
//! that leave gaps of useful sizes ([`candidates`]), those that take few second choices before those
//! that take many; then every base and stride there is. If all of them are ruled out, that is a proof.
//!
//! Work is counted, there is no clock.

mod candidates;

use std::ops::Range;

use super::branch::{Found, Limits};
use super::items::{Item, Items};
use super::place::{self, Outcome, Proof};
use super::problem::{Held, Problem};

/// Bases that are looked at for the price of one node: most break a rule at their first blocks.
const LOOKS: u64 = 16;

/// Nodes for what is not a block with one second choice; with more, in proportion.
const LEAF: u64 = 400;

/// The same where every base and stride is tried: mostly very few are needed.
const LAST_LEAF: u64 = 5_000;

/// Most second choices of a round; more are all but everything.
const MOST_SLACK: usize = 64;

/// Places a checked problem within a budget of nodes, with some buffers held to a few addresses; with the
/// nodes that it took.
pub(super) fn place_held(problem: &Problem, held: &[Held], budget: u64) -> (Outcome, u64) {
    let mut search = Search::new(problem, held, budget);
    let found = search.likely(budget).or_else(|| search.everything());
    let nodes = budget - search.left / LOOKS;
    let outcome = match found {
        Some(found) => Outcome::Placed(search.item_of.iter().map(|item| found[*item]).collect()),
        None if !search.open && place::exact(problem) => {
            Outcome::Impossible(Proof::Exhausted { nodes })
        }
        None => Outcome::Unknown { buffer: problem.repeats[search.deepest].blocks[0], nodes },
    };
    (outcome, nodes)
}

/// A repeat in the solver's form.
struct Row {
    /// Its place in the problem.
    number: usize,
    /// Items of its blocks.
    items: Vec<usize>,
    /// Bytes of a block.
    size: u32,
    /// The base is a multiple of it.
    alignment: u32,
    /// The stride is a multiple of it.
    step: u32,
    /// If only one is allowed.
    stride: Option<u32>,
}

impl Row {
    /// The bytes from the first block's start to the last one's.
    fn length(&self, stride: u32) -> u64 {
        (self.items.len() as u64 - 1) * u64::from(stride)
    }

    /// The least legal stride.
    fn least(&self) -> u32 {
        self.size.next_multiple_of(self.step)
    }
}

/// How far a search goes.
#[derive(Clone, Copy)]
struct Reach {
    /// Second choices it may take in all; `None`: every base and stride.
    slack: Option<usize>,
    /// Nodes for what is not a block.
    leaf: u64,
}

/// The state of the search.
struct Search {
    /// Blocks anywhere.
    items: Items,
    item_of: Vec<usize>,
    /// Repeats, the largest first.
    rows: Vec<Row>,
    /// Addresses of the blocks that are fixed.
    at: Vec<Option<u32>>,
    /// Strides of the rows that are fixed.
    strides: Vec<u32>,
    /// What may still be spent, in looks.
    left: u64,
    /// Something was left out, or not decided.
    open: bool,
    /// The repeat that was fixed last where most were.
    deepest: usize,
    /// How many were.
    depth: usize,
}

impl Search {
    fn new(problem: &Problem, held: &[Held], budget: u64) -> Search {
        let (items, item_of) = problem.items_held(held);
        let row = |(number, repeat): (usize, &super::Repeat)| Row {
            number,
            items: repeat.blocks.iter().map(|block| item_of[*block]).collect(),
            size: problem.buffers[repeat.blocks[0]].size,
            alignment: repeat.base_alignment(problem),
            step: repeat.alignment(problem),
            stride: repeat.stride,
        };
        let mut rows: Vec<Row> = problem.repeats.iter().enumerate().map(row).collect();
        let bytes = |row: &Row| row.items.len() as u64 * u64::from(row.size);
        rows.sort_by_key(|row| (std::cmp::Reverse(bytes(row)), row.number));
        Search {
            at: vec![None; items.len()],
            strides: vec![],
            deepest: rows.first().map_or(0, |row| row.number),
            depth: 0,
            items,
            item_of,
            rows,
            left: budget.saturating_mul(LOOKS),
            open: false,
        }
    }

    /// Rounds of candidates, with more and more second choices, for three quarters of the budget. Up to
    /// half goes to the likeliest places of all: often they are right, and the rest is hard.
    fn likely(&mut self, budget: u64) -> Option<Vec<u32>> {
        let later = self.left / 4;
        self.left -= later;
        let mut found = None;
        let mut slack = 0;
        while slack <= MOST_SLACK && found.is_none() && self.left > 0 {
            self.open = false;
            let leaf = if slack == 0 { budget / 2 } else { LEAF * slack as u64 };
            found = self.deeper(Reach { slack: Some(slack), leaf });
            if !self.open {
                break;
            }
            slack = (2 * slack).max(1);
        }
        self.left += later;
        found
    }

    /// Every base and stride of every repeat, as long as the budget lasts.
    fn everything(&mut self) -> Option<Vec<u32>> {
        self.open = false;
        self.deeper(Reach { slack: None, leaf: LAST_LEAF })
    }

    /// Fixes the next repeat in all ways within reach, and then the rest.
    fn deeper(&mut self, reach: Reach) -> Option<Vec<u32>> {
        let row = self.strides.len();
        if row == self.rows.len() {
            return self.leaf(reach.leaf);
        }
        if row >= self.depth {
            (self.depth, self.deepest) = (row, self.rows[row].number);
        }
        let mut legal_strides = 0;
        for stride in self.strides_within(row, reach) {
            if reach.slack.is_some_and(|slack| legal_strides > slack) {
                self.open = true;
                break;
            }
            let mut legal_bases = 0;
            for base in self.bases_within(row, stride, reach) {
                if self.left == 0 {
                    self.open = true;
                    return None;
                }
                self.left -= 1;
                if !self.is_legal(row, base, stride) {
                    continue;
                }
                let slack = match reach.slack {
                    Some(slack) if legal_strides + legal_bases > slack => {
                        self.open = true;
                        break;
                    }
                    slack => slack.map(|slack| slack - legal_strides - legal_bases),
                };
                self.left = self.left.saturating_sub(LOOKS);
                self.fix(row, base, stride);
                let wasted = self.is_wasteful(row);
                legal_bases += usize::from(!wasted);
                let found = if wasted { None } else { self.deeper(Reach { slack, ..reach }) };
                self.release(row);
                if found.is_some() {
                    return found;
                }
            }
            legal_strides += usize::from(legal_bases > 0);
        }
        None
    }

    /// Strides to try.
    fn strides_within(&self, row: usize, reach: Reach) -> Box<dyn Iterator<Item = u32>> {
        let (least, most) = self.legal_strides(row);
        match reach.slack {
            None if least > most => Box::new(std::iter::empty()),
            None => Box::new((least..=most).step_by(self.rows[row].step as usize)),
            Some(_) => Box::new(self.likely_strides(row).into_iter()),
        }
    }

    /// Bases to try.
    fn bases_within(&self, row: usize, stride: u32, reach: Reach) -> Box<dyn Iterator<Item = u32>> {
        let Row { items, size, alignment, .. } = &self.rows[row];
        match reach.slack {
            None => {
                let (size, alignment) = (*size, *alignment);
                let ranges = self.items.items[items[0]].ranges.clone();
                Box::new(ranges.into_iter().flat_map(move |range| {
                    let start = range.start.next_multiple_of(alignment);
                    (start..(range.end + 1).saturating_sub(size).max(start))
                        .step_by(alignment as usize)
                }))
            }
            Some(_) => Box::new(self.likely_bases(row, stride).into_iter()),
        }
    }

    /// Whether blocks may lie there, beside those that are fixed.
    fn is_legal(&self, row: usize, base: u32, stride: u32) -> bool {
        let Row { items, size, .. } = &self.rows[row];
        let free = (0..).zip(items).all(|(number, &item)| {
            let address = base + number * stride;
            self.items.lowest(item, address) == Some(address)
        });
        free && (0..).zip(items).all(|(number, &item)| {
            let address = base + number * stride;
            self.items.neighbours[item].iter().all(|other| match self.at[other.item] {
                Some(at) => address >= other.over(at) || address + size <= other.lowest_below(at),
                None => true,
            })
        })
    }

    fn fix(&mut self, row: usize, base: u32, stride: u32) {
        for (number, &item) in (0..).zip(&self.rows[row].items) {
            self.at[item] = Some(base + number * stride);
        }
        self.strides.push(stride);
    }

    fn release(&mut self, row: usize) {
        self.rows[row].items.iter().for_each(|item| self.at[*item] = None);
        self.strides.pop();
    }

    /// Whether at some time at which a repeat is there too few bytes are left in the gaps that hold
    /// anything at all.
    fn is_wasteful(&self, row: usize) -> bool {
        let rows = self.rows[row].items.iter();
        let mut sections: Vec<usize> =
            rows.flat_map(|item| self.items.sections_of[*item].iter().copied()).collect();
        sections.sort_unstable();
        sections.dedup();
        sections.into_iter().any(|section| {
            let here = &self.items.sections[section].items;
            let fixed = here.iter().filter_map(|(item, size)| Some((self.at[*item]?, *size)));
            let mut taken: Vec<Range<u32>> = fixed.map(|(at, size)| at..at + size).collect();
            taken.sort_unstable_by_key(|range| range.start);
            let rest = || here.iter().filter(|(item, _)| self.at[*item].is_none());
            let least = rest().map(|(_, size)| *size).min().unwrap_or(0);
            let aligned = rest().map(|(item, _)| self.items.items[*item].alignment).min();
            let bytes: u64 = rest().map(|(_, size)| u64::from(*size)).sum();
            bytes > self.useful(&taken, least, aligned.unwrap_or(1))
        })
    }

    /// Bytes of gaps that hold at least so many, aligned.
    fn useful(&self, taken: &[Range<u32>], least: u32, alignment: u32) -> u64 {
        let bytes = |start: u32, end: u32| {
            let room = end.saturating_sub(start.next_multiple_of(alignment));
            if room < least { 0 } else { u64::from(room) }
        };
        let free = self.items.free().iter().map(|free| {
            let mut start = free.start;
            let mut found = 0;
            let inside = |taken: &&Range<u32>| free.start <= taken.start && taken.end <= free.end;
            for taken in taken.iter().filter(inside) {
                found += bytes(start, taken.start);
                start = taken.end;
            }
            found + bytes(start, free.end)
        });
        free.sum()
    }

    /// Places what is not a block.
    fn leaf(&mut self, nodes: u64) -> Option<Vec<u32>> {
        let (items, kept) = self.rest();
        let nodes = nodes.min(self.left / LOOKS);
        let (found, spent) = place::decide(&items, Limits { nodes, stop: None });
        // What it takes to prepare them and to try the orders.
        let cost = spent + items.len() as u64 / 4;
        self.left = self.left.saturating_sub(cost * LOOKS);
        match found {
            Found::Placed(addresses) => {
                let mut all: Vec<u32> = self.at.iter().map(|at| at.unwrap_or(0)).collect();
                kept.iter().zip(addresses).for_each(|(item, address)| all[*item] = address);
                Some(all)
            }
            Found::Nothing => None,
            Found::Unknown(_) => {
                self.open = true;
                None
            }
        }
    }

    /// What is not a block, off the blocks; beside it, at their one address, blocks that something
    /// meets only while it is smaller than at other times. And which items these are.
    fn rest(&self) -> (Items, Vec<usize>) {
        let all = &self.items;
        let is_needed = |block: usize| {
            let others = all.neighbours[block].iter();
            others.clone().any(|n| self.at[n.item].is_none() && n.theirs < all.sizes[n.item])
        };
        let kept: Vec<usize> =
            (0..all.len()).filter(|item| self.at[*item].is_none() || is_needed(*item)).collect();
        let items = kept.iter().map(|&item| {
            let mut rest = all.items[item].clone();
            match self.at[item] {
                Some(at) => rest.ranges = std::iter::once(at..at + all.sizes[item]).collect(),
                None => self.keep_off(item, &mut rest),
            }
            rest
        });
        let mut apart = vec![];
        for (number, &item) in kept.iter().enumerate() {
            for other in all.neighbours[item].iter().filter(|n| n.apart && n.item > item) {
                if let Ok(other) = kept.binary_search(&other.item) {
                    apart.push((number, other));
                }
            }
        }
        (Items::new(items.collect(), all.free().to_vec(), &apart), kept)
    }

    /// Takes the blocks that an item meets out of its ranges.
    fn keep_off(&self, item: usize, rest: &mut Item) {
        for other in &self.items.neighbours[item] {
            let whole = other.size == self.items.sizes[item];
            if let Some(at) = self.at[other.item].filter(|_| whole) {
                rest.forbid(&(other.lowest_below(at)..other.over(at)));
            }
        }
    }
}
