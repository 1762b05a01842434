//! Scheduling under N0, a timing made to compare schedulers alone: no latency, no controls, no
//! memory elements. A message of n words that starts at t holds its source's transmit lane and the
//! receive lanes of all its destinations over `[t, t + n)`; everything is 32-bit. Accesses to one word
//! keep the order of the transfers.

pub mod anneal;
pub mod beam;
pub mod chance;
mod check;
pub mod messages;

pub use check::{Clash, check, check_lanes};

use anneal::Annealing;
use beam::{Attempt, Beam};
use messages::Messages;

use super::jobs::Jobs;
use super::orders::OrderRule;
use super::phase::{ExchangeError, Phase};
use super::place::{Rules, place};
use super::search::{Timing, best_events};
use super::{Effort, Options, waves};

/// A schedule under N0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct N0Schedule {
    /// Start of every transfer.
    pub starts: Vec<u32>,
    /// End of the last one.
    pub horizon: u32,
    /// The most words that a tile must send, or receive.
    pub bound: u32,
}

/// Transfers and receivers up to which more is tried than the rules of all timings.
const SMALL: usize = 16_000;
/// Transfers and receivers up to which orders are annealed and partial schedules followed.
const FEW: usize = 4_000;
/// Steps of the annealing at most, and lanes that they lay out.
const ANNEALED: usize = 500_000;
const LAID_OUT: usize = 1_000_000_000;
/// Attempts at following partial schedules, how many at once, and lanes looked at in all attempts.
const ATTEMPTS: u64 = 8;
const WIDTH: usize = 20;
const FOLLOWED: usize = 100_000_000;

/// Finds a schedule under N0.
///
/// # Errors
/// If the caller wanted no answer any more.
pub fn plan(phase: &Phase, options: &Options<'_>) -> Result<N0Schedule, ExchangeError> {
    let jobs = Jobs::without_latency(phase);
    let (sent, received) = jobs.loads();
    let bound = sent.into_iter().chain(received).max().unwrap_or(0);
    let (horizon, starts) = best_events(phase, &jobs, options, bound, Timing::Lanes)?;
    let mut found = N0Schedule { starts, horizon, bound };
    if jobs.work() <= SMALL && options.effort != Effort::Fast {
        found.by_waves(&jobs);
    }
    // Neither knows of transfers that have to wait for others.
    let free = !jobs.has_waits();
    if jobs.work() <= FEW && options.effort == Effort::Full && free {
        let messages = Messages::new(phase);
        found.by_beam(&messages, &|| options.stopped());
        found.by_annealing(&messages, &|| options.stopped());
    }
    if options.stopped() { Err(ExchangeError::Stopped) } else { Ok(found) }
}

impl N0Schedule {
    /// Fills the lanes event by event, of equally good messages the shortest. The rules of all
    /// timings take the longest; a grid with messages of two lengths along rows and columns needs it
    /// this way.
    fn by_waves(&mut self, jobs: &Jobs) {
        if self.horizon == self.bound {
            return;
        }
        let mut order = OrderRule::Longest.order(jobs);
        order.reverse();
        let order = jobs.in_order(&waves::order(jobs, &order));
        if let Some(placed) = place(jobs, &order, Rules::Lanes, self.horizon, &|| false) {
            self.improve(jobs.horizon(&placed.events), placed.events);
        }
    }

    /// Looks for a schedule without an idle event, where there has to be one to reach the bound.
    fn by_beam(&mut self, messages: &Messages, stopped: &dyn Fn() -> bool) {
        if self.horizon == self.bound || !beam::suits(messages, self.bound) {
            return;
        }
        let mut beam = Beam::new(messages, self.bound);
        let mut steps = FOLLOWED / messages.loads().len();
        for seed in 0..ATTEMPTS {
            let attempt = Attempt { width: WIDTH, seed, steps };
            match beam.attempt(attempt, stopped) {
                (_, Some(starts)) => return self.improve(self.bound, starts),
                (taken, None) if taken < steps => steps -= taken,
                (_, None) => return,
            }
        }
    }

    /// Anneals the order of the messages.
    fn by_annealing(&mut self, messages: &Messages, stopped: &dyn Fn() -> bool) {
        if self.horizon == self.bound {
            return;
        }
        let mut order: Vec<u32> = (0..messages.count() as u32).collect();
        order.sort_by_key(|message| self.starts[*message as usize]);
        let lanes: usize = (0..messages.count()).map(|message| messages.lanes(message).len()).sum();
        let annealing = Annealing::new(messages, order, self.bound);
        let steps = ANNEALED.min(LAID_OUT / lanes.max(1));
        let (horizon, starts) = annealing.run(steps, stopped);
        self.improve(horizon, starts);
    }

    fn improve(&mut self, horizon: u32, starts: Vec<u32>) {
        if horizon < self.horizon {
            (self.horizon, self.starts) = (horizon, starts);
        }
    }
}
