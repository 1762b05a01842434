//! Better orders by simulated annealing: messages that share a lane change places, and what that
//! costs is by how much lanes overrun the bound, all together.
//!
//! The horizon alone hardly ever tells two orders apart. Orders are laid out without going back into
//! gaps, so only what follows the first change has to be laid out anew, up to where nothing differs.

use super::chance::Chance;
use super::messages::Messages;

/// Messages between two places at which the lanes' states are kept.
const BLOCK: usize = 16;
/// First and last tolerance of a worse order, in words of an average message per thousand.
const HOT: u64 = 600;
const COLD: u64 = 30;
/// Steps between two looks at whether to stop.
const PATIENCE: usize = 4096;

/// An order and what it leads to.
struct Order {
    messages: Vec<u32>,
    places: Vec<usize>,
    /// When every lane is free before each block, and after the last one.
    free: Vec<Vec<u32>>,
    overrun: u64,
}

/// Annealing of one set of messages.
pub struct Annealing<'a> {
    messages: &'a Messages,
    by_lane: Vec<Vec<u32>>,
    target: u32,
    order: Order,
    /// The lanes' states of the order that is tried.
    tried: Vec<Vec<u32>>,
    best: (u32, Vec<u32>),
    chance: Chance,
}

impl<'a> Annealing<'a> {
    /// An annealing that begins with an order and ends if it finds one that ends at `target`.
    pub fn new(messages: &'a Messages, order: Vec<u32>, target: u32) -> Annealing<'a> {
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, message)| places[*message as usize] = place);
        let blocks = order.len().div_ceil(BLOCK) + 1;
        let free = vec![vec![0; messages.loads().len()]; blocks];
        let order = Order { messages: order, places, free: free.clone(), overrun: u64::MAX };
        let mut annealing = Annealing {
            messages,
            by_lane: messages.by_lane(),
            target,
            order,
            tried: free,
            best: (u32::MAX, vec![]),
            chance: Chance::default(),
        };
        annealing.lay_out(0, messages.count());
        annealing.keep(0, blocks - 1);
        annealing
    }

    /// Takes so many steps, and returns the best horizon with the starts that lead to it.
    pub fn run(mut self, steps: usize, stopped: &dyn Fn() -> bool) -> (u32, Vec<u32>) {
        let words: u64 =
            self.order.messages.iter().map(|m| u64::from(self.messages.words(*m as usize))).sum();
        let average = words / self.messages.count().max(1) as u64 + 1;
        for step in 0..steps {
            if self.best.0 <= self.target || step % PATIENCE == 0 && stopped() {
                break;
            }
            let left = (steps - step) as u64 * 1000 / steps as u64;
            let tolerance = average * (COLD + (HOT - COLD) * left * left / 1_000_000);
            self.step(tolerance);
        }
        let starts = starts(self.messages, &self.best.1);
        (self.best.0, starts)
    }

    /// One change, taken back if it is worse by more than chance times `tolerance` thousandths.
    fn step(&mut self, tolerance: u64) {
        let one = self.chance.below(self.messages.count());
        let lanes = self.messages.lanes(one);
        let near = &self.by_lane[lanes[self.chance.below(lanes.len())] as usize];
        let other = near[self.chance.below(near.len())] as usize;
        let (from, to) = (self.order.places[one], self.order.places[other]);
        if from == to {
            return;
        }
        let swapped = self.chance.below(2) == 0;
        self.change(from, to, swapped);
        let (first, last) = (from.min(to), from.max(to));
        let same = self.lay_out(first / BLOCK, last + 1);
        let overrun = self.overrun(&self.tried[same]);
        // The product of two numbers: often little is allowed, seldom much.
        let chance = (self.chance.below(1 << 16) * self.chance.below(1 << 16)) as u64;
        let allowed = ((3 * tolerance * chance) >> 32) / 1000;
        if same + 1 == self.tried.len() && overrun > self.order.overrun.saturating_add(allowed) {
            self.change(to, from, swapped);
            return;
        }
        for place in first..=last {
            self.order.places[self.order.messages[place] as usize] = place;
        }
        self.keep(first / BLOCK, same);
    }

    /// Swaps two messages of the order, or moves one to the place of the other.
    fn change(&mut self, from: usize, to: usize, swapped: bool) {
        let order = &mut self.order.messages;
        match swapped {
            true => order.swap(from, to),
            false if from < to => order[from..=to].rotate_left(1),
            false => order[to..=from].rotate_right(1),
        }
    }

    /// Lays out the order from a block on. Returns the first block, after the first `changed`
    /// messages, before which all lanes are as they were, or else the end.
    fn lay_out(&mut self, block: usize, changed: usize) -> usize {
        let blocks = self.tried.len() - 1;
        self.tried[block].clone_from(&self.order.free[block]);
        for at in block..blocks {
            let (before, after) = self.tried.split_at_mut(at + 1);
            let free = &mut after[0];
            free.clone_from(&before[at]);
            let end = ((at + 1) * BLOCK).min(self.order.messages.len());
            for &message in &self.order.messages[at * BLOCK..end] {
                place(self.messages, message as usize, free);
            }
            if end >= changed && end < self.order.messages.len() && *free == self.order.free[at + 1]
            {
                return at + 1;
            }
        }
        blocks
    }

    /// Makes the blocks after `from` up to `to` of what was tried the order's.
    fn keep(&mut self, from: usize, to: usize) {
        for at in from + 1..=to {
            std::mem::swap(&mut self.order.free[at], &mut self.tried[at]);
        }
        if to + 1 < self.tried.len() {
            return;
        }
        self.order.overrun = self.overrun(&self.order.free[to]);
        let horizon = self.order.free[to].iter().copied().max().unwrap_or(0);
        if horizon < self.best.0 {
            self.best = (horizon, self.order.messages.clone());
        }
    }

    fn overrun(&self, free: &[u32]) -> u64 {
        free.iter().map(|end| u64::from(end.saturating_sub(self.target))).sum()
    }
}

/// Places a message where all its lanes are free for good; its start.
fn place(messages: &Messages, message: usize, free: &mut [u32]) -> u32 {
    let lanes = messages.lanes(message);
    let start = lanes.iter().map(|lane| free[*lane as usize]).max().unwrap_or(0);
    let end = start + messages.words(message);
    lanes.iter().for_each(|lane| free[*lane as usize] = end);
    start
}

/// The start of every message, laid out in an order.
fn starts(messages: &Messages, order: &[u32]) -> Vec<u32> {
    let mut starts = vec![0; messages.count()];
    let mut free = vec![0; messages.loads().len()];
    for &message in order {
        starts[message as usize] = place(messages, message as usize, &mut free);
    }
    starts
}
