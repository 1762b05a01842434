//! Better orders from a schedule: pushed against the horizon and pulled back to the start, jobs come
//! out of the order that the rules put them in, and gaps close from both sides.

use std::cmp::Reverse;

use crate::target::TileId;

use super::jobs::Jobs;
use super::place::{Rules, place};

/// Proposes orders for the jobs of a phase.
pub struct Improver<'a> {
    jobs: &'a Jobs,
    back: Jobs,
    round: u64,
}

impl<'a> Improver<'a> {
    /// An improver for `jobs`.
    pub fn new(jobs: &'a Jobs) -> Improver<'a> {
        Improver { jobs, back: jobs.reversed(), round: 0 }
    }

    /// The next order to try from a schedule; with `shaken`, jobs that end about the same time may
    /// change places, otherwise another way each time.
    pub fn next(&mut self, horizon: u32, events: &[u32], shaken: bool) -> Vec<u32> {
        self.round += 1;
        let key = |index: u32| {
            let at = index as usize;
            let left = horizon - events[at] - self.jobs.job(at).items;
            left + if shaken { self.noise(index) } else { 0 }
        };
        let mut order: Vec<u32> = (0..self.jobs.len() as u32).collect();
        order.sort_by_cached_key(|index| (key(*index), *index));
        let Some(back) = place(&self.back, &order, Rules::Lanes, u32::MAX, &|| false) else {
            return order;
        };
        let end = |index: u32| back.events[index as usize] + self.back.job(index as usize).items;
        order.sort_by_cached_key(|index| (Reverse(end(*index)), *index));
        order
    }

    /// An order in which some messages of one sender that follow each other come elsewhere: before
    /// another message. All of them share a receiver with the one that ends last, for nothing else
    /// can make that one end sooner.
    pub fn moved(&mut self, horizon: u32, events: &[u32]) -> Vec<u32> {
        self.round += 1;
        let jobs = self.jobs;
        let mut order: Vec<u32> = (0..jobs.len() as u32).collect();
        order.sort_by_cached_key(|index| (events[*index as usize], *index));
        let ends_last = |index: &usize| jobs.job(*index).horizon(events[*index]) == horizon;
        let Some(last) = (0..jobs.len()).rfind(ends_last) else { return order };
        let tiles: Vec<TileId> = jobs.ends(last).iter().map(|end| end.tile).collect();
        let shares =
            |at: &usize| jobs.ends(order[*at] as usize).iter().any(|end| tiles.contains(&end.tile));
        let near: Vec<usize> = (0..order.len()).filter(shares).collect();
        let (from, to) = (self.random(0, near.len()), self.random(1, near.len()));
        let source = |at: &usize| jobs.job(order[*at] as usize).source;
        let same = near[from..].iter().take_while(|at| source(at) == source(&near[from])).count();
        let block = &near[from..=from + self.random(2, same)];
        if block.contains(&near[to]) {
            return order;
        }
        let mut moved = Vec::with_capacity(order.len());
        for at in 0..order.len() {
            if at == near[to] {
                moved.extend(block.iter().map(|at| order[*at]));
            }
            if !block.contains(&at) {
                moved.push(order[at]);
            }
        }
        moved
    }

    /// A number below `below`, the same in every run.
    fn random(&self, which: u32, below: usize) -> usize {
        scrambled(u64::from(which) << 32 | self.round) as usize % below
    }

    /// Up to 8 to 256 events, the same in every run.
    fn noise(&self, index: u32) -> u32 {
        scrambled(u64::from(index) << 20 | self.round) % (8 << (self.round % 6))
    }
}

/// A number of 24 bits that looks like chance.
fn scrambled(seed: u64) -> u32 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x >> 40) as u32
}
