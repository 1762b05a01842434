//! Better orders from a schedule: pushed against the horizon and pulled back to the start, jobs come
//! out of the order that the rules put them in, and gaps close from both sides.

use std::cmp::Reverse;

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

    /// Up to 8 to 256 events, the same in every run.
    fn noise(&self, index: u32) -> u32 {
        let mut x = (u64::from(index) << 20 | self.round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^= x >> 29;
        x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x >> 40) as u32 % (8 << (self.round % 6))
    }
}
