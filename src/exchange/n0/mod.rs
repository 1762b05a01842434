//! Scheduling under N0, a timing made to compare schedulers alone: no latency, no controls, no
//! memory elements. A message of n words that starts at t holds its source's transmit lane and the
//! receive lanes of all its destinations over `[t, t + n)`; everything is 32-bit. Accesses to one word
//! keep the order of the transfers.

mod check;

pub use check::{Clash, check};

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
        by_waves(phase, &jobs, &mut found);
    }
    if options.stopped() { Err(ExchangeError::Stopped) } else { Ok(found) }
}

/// Fills the lanes event by event, of equally good messages the shortest. The rules of all timings
/// take the longest; a grid with messages of two lengths along rows and columns needs it this way.
fn by_waves(phase: &Phase, jobs: &Jobs, found: &mut N0Schedule) {
    let mut order = OrderRule::Longest.order(phase, jobs);
    order.reverse();
    let order = jobs.in_order(&waves::order(jobs, &order));
    let Some(placed) = place(jobs, &order, Rules::Lanes, found.horizon, &|| false) else { return };
    let horizon = jobs.horizon(&placed.events);
    if horizon < found.horizon {
        found.starts = placed.events;
        found.horizon = horizon;
    }
}
