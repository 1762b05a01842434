//! An order for fragmented traffic: lanes are filled event by event, always with the message that
//! leaves the least idle time on both sides.
//!
//! Many short messages between the same tiles lose most where latencies differ: a receiver that
//! waits for a far sender has a gap that nothing fits into. Here the sender that is free first takes
//! the message whose start wastes least; a receiver far behind its load comes first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::jobs::Jobs;

/// An idle event, of the sender or of a receiver, weighs as much as this many by which the receiver
/// is ahead of the one that is worst off.
const IDLE: i64 = 4;

/// Messages of a sender that are looked at for each choice.
const CHOICES: usize = 128;

/// Indices of all jobs by the start that the waves give them. `order` says which come first among
/// equals.
pub fn order(jobs: &Jobs, order: &[u32]) -> Vec<u32> {
    Waves::new(jobs, order).run()
}

struct Waves<'a> {
    jobs: &'a Jobs,
    /// Jobs of every sender that are left.
    left: Vec<Vec<u32>>,
    /// When every transmit and receive lane is free.
    transmit: Vec<u32>,
    receive: Vec<u32>,
    /// Items that every tile has still to receive, or to send.
    pending: Vec<u32>,
    unsent: Vec<u32>,
    /// When the receiver that is worst off is through, at best.
    latest: u32,
}

impl<'a> Waves<'a> {
    fn new(jobs: &'a Jobs, order: &[u32]) -> Waves<'a> {
        let tiles = usize::from(jobs.tiles());
        let mut left = vec![vec![]; tiles];
        for &index in order.iter().rev() {
            left[usize::from(jobs.job(index as usize).source.0)].push(index);
        }
        let (unsent, pending) = jobs.loads();
        let latest = pending.iter().copied().max().unwrap_or(0);
        let transmit = vec![0; tiles];
        let receive = vec![1; tiles];
        Waves { jobs, left, transmit, receive, pending, unsent, latest }
    }

    fn run(mut self) -> Vec<u32> {
        let mut starts = Vec::with_capacity(self.jobs.len());
        let mut free: BinaryHeap<Reverse<(u32, u32, usize)>> = (0..self.left.len())
            .filter(|tile| !self.left[*tile].is_empty())
            .map(|tile| Reverse((0, u32::MAX - self.unsent[tile], tile)))
            .collect();
        while let Some(Reverse((_, _, tile))) = free.pop() {
            let (place, start) = self.choose(tile);
            let index = self.left[tile].remove(place);
            self.take(index, start);
            starts.push((start, index));
            if !self.left[tile].is_empty() {
                free.push(Reverse((self.transmit[tile], u32::MAX - self.unsent[tile], tile)));
            }
        }
        starts.sort_unstable();
        starts.into_iter().map(|(_, index)| index).collect()
    }

    /// The message that the sender takes next: where it is in the list, and its start.
    fn choose(&self, tile: usize) -> (usize, u32) {
        let left = &self.left[tile];
        let first = left.len().saturating_sub(CHOICES);
        let mut best = (i64::MAX, 0, 0);
        for place in (first..left.len()).rev() {
            let (cost, start) = self.cost(tile, left[place] as usize);
            if cost < best.0 {
                best = (cost, place, start);
            }
        }
        (best.1, best.2)
    }

    fn cost(&self, tile: usize, index: usize) -> (i64, u32) {
        let job = self.jobs.job(index);
        let mut start = self.transmit[tile].max(job.natural);
        let ends = self.jobs.ends(index);
        for end in ends {
            let free = self.receive[usize::from(end.tile.0)];
            start = start.max(free.saturating_add_signed(-end.window));
        }
        let (mut idle, mut ahead) = (0, i64::MAX);
        for end in ends {
            let at = usize::from(end.tile.0);
            let window = start.wrapping_add_signed(end.window);
            idle += i64::from(window - self.receive[at]);
            let through = self.receive[at] + self.pending[at];
            ahead = ahead.min(i64::from(self.latest) - i64::from(through));
        }
        let waits = i64::from(start - self.transmit[tile]);
        let cost = IDLE * (waits + idle / ends.len() as i64) + ahead;
        (cost, start)
    }

    fn take(&mut self, index: u32, start: u32) {
        let job = self.jobs.job(index as usize);
        let source = usize::from(job.source.0);
        self.transmit[source] = start + job.items;
        self.unsent[source] -= job.items;
        if job.paired {
            let partner = usize::from(job.source.partner().0);
            self.transmit[partner] = self.transmit[partner].max(start + job.items);
            self.unsent[partner] -= job.items;
        }
        for end in self.jobs.ends(index as usize) {
            let at = usize::from(end.tile.0);
            self.receive[at] = start.wrapping_add_signed(end.window) + job.items;
            self.pending[at] -= job.items;
            self.latest = self.latest.max(self.receive[at] + self.pending[at]);
        }
    }
}
