//! Scheduling under N0, a timing made to compare schedulers alone: no latency, no controls, no
//! memory. A message of n words that starts at t holds its source's transmit lane and the receive
//! lanes of all its destinations over `[t, t + n)`; everything is 32-bit.

use super::Options;
use super::jobs::Jobs;
use super::phase::{ExchangeError, Phase};
use super::search::{Timing, best_events};

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

/// Finds a schedule under N0.
///
/// # Errors
/// If the caller wanted no answer any more.
pub fn plan(phase: &Phase, options: &Options<'_>) -> Result<N0Schedule, ExchangeError> {
    let jobs = Jobs::without_latency(phase);
    let (sent, received) = jobs.loads();
    let bound = sent.into_iter().chain(received).max().unwrap_or(0);
    let (horizon, starts) = best_events(phase, &jobs, options, bound, Timing::Lanes)?;
    Ok(N0Schedule { starts, horizon, bound })
}

/// Whether `starts` is a schedule of `phase`, and when it ends. Shares nothing with [`plan`].
///
/// # Errors
/// Two transfers that use one lane at once.
///
/// # Panics
/// If there is not one start for every transfer.
pub fn check(phase: &Phase, starts: &[u32]) -> Result<u32, Overlap> {
    assert_eq!(starts.len(), phase.len(), "one start for every transfer");
    let mut uses: Vec<(u16, bool, u32, u32, usize)> = vec![];
    for (index, start) in starts.iter().enumerate() {
        let transfer = phase.transfer(index);
        let end = start + transfer.words;
        uses.push((transfer.source.0, true, *start, end, index));
        uses.extend(transfer.destinations.iter().map(|(d, _)| (d.0, false, *start, end, index)));
    }
    uses.sort_unstable();
    for pair in uses.windows(2) {
        if (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1) && pair[1].2 < pair[0].3 {
            return Err(Overlap(pair[0].4, pair[1].4));
        }
    }
    Ok(uses.iter().map(|lane| lane.3).max().unwrap_or(0))
}

/// Two transfers that use one lane at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transfers {0} and {1} use one lane at once")]
pub struct Overlap(pub usize, pub usize);
