//! Exchange scheduling: from the transfers of one phase to a start for each, and to the rows that
//! make tiles send, select and write at the right events.
//!
//! Invariants: a [`Scheduled`] phase obeys every rule of `target/ipu21.md` §2.5 and §3; its rows
//! are the encoding of exactly that schedule. Route latencies overlap: a transfer waits for its
//! lanes only where and when it uses them, never for the end of an earlier payload elsewhere.
//!
//! Absent on purpose: where buffers lie (`storage`), what cycles cost (`cost`), any clock. Rows lie
//! in elements that hold no data (rule M2), which is `storage`'s promise.
//!
//! How: list scheduling. Transfers are taken in an order and each gets the earliest start that
//! fits between what is already placed; a few orders are tried and the best horizon wins.

pub mod bound;
pub mod instance;
pub mod lanes;
pub mod orders;
pub mod phase;
pub mod place;
pub mod rows;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

pub use bound::lower_bound;
pub use phase::{ExchangeError, Phase, Transfer, TransferError};
pub use place::Start;
pub use rows::{Row, RowError};

use crate::target::TileId;

/// Width of the transfers of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Width {
    /// Whichever schedule ends first; ordinary on a tie (`target/ipu21.md` §3.5).
    #[default]
    Automatic,
    /// 32-bit items.
    Ordinary,
    /// 64-bit items for every eligible transfer.
    Paired,
}

/// How long to look for a good schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Effort {
    /// One order.
    Fast,
    /// Several orders.
    #[default]
    Full,
}

/// What to look for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Width of the transfers.
    pub width: Width,
    /// How long to look.
    pub effort: Effort,
    /// Give up as soon as this is set.
    pub stop: Option<&'a AtomicBool>,
}

impl Options<'_> {
    fn stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// A scheduled phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Event at which the last tile's row ends.
    pub horizon: u32,
    /// Horizon with every transfer 32-bit; `None` if that was not tried.
    pub ordinary_horizon: Option<u32>,
    /// Horizon with every eligible transfer 64-bit; `None` if that was not tried.
    pub paired_horizon: Option<u32>,
    /// Number of eligible transfers.
    pub candidates: u32,
    /// Whether the paired schedule was taken.
    pub paired: bool,
    /// Rows of all tiles that take part, ascending by tile.
    pub rows: Vec<Row>,
    /// No schedule of this phase can end before this.
    pub bound: u32,
}

/// Schedules a phase.
///
/// # Errors
/// If no order could be encoded; with the forbidden coincidences that the last attempt works with
/// this is a defect.
pub fn schedule(phase: &Phase, options: &Options<'_>) -> Result<Scheduled, ExchangeError> {
    let bound = lower_bound(phase);
    let candidates = (0..phase.len()).filter(|index| phase.pairable(*index)).count() as u32;
    let ordinary = match options.width {
        Width::Paired if candidates > 0 => None,
        _ => Some(best(phase, false, options, bound)?),
    };
    let paired = match options.width {
        Width::Ordinary => None,
        _ if candidates == 0 => None,
        _ => Some(best(phase, true, options, bound)?),
    };
    let horizon = |attempt: &Option<(u32, Vec<Row>)>| attempt.as_ref().map(|(horizon, _)| *horizon);
    let (ordinary_horizon, paired_horizon) = (horizon(&ordinary), horizon(&paired));
    let take_paired = match (ordinary_horizon, paired_horizon) {
        (Some(ordinary), Some(paired)) => paired < ordinary,
        (None, Some(_)) => true,
        _ => false,
    };
    let (horizon, rows) = if take_paired { paired } else { ordinary }.unwrap_or_default();
    Ok(Scheduled { horizon, ordinary_horizon, paired_horizon, candidates, paired: take_paired, rows, bound })
}

/// A horizon this close to the bound ends the search for a better order: one part in so many.
const CLOSE: u32 = 64;

/// The best of several orders: horizon and rows.
fn best(
    phase: &Phase,
    paired: bool,
    options: &Options<'_>,
    bound: u32,
) -> Result<(u32, Vec<Row>), ExchangeError> {
    let mut best: Option<(u32, Vec<Row>)> = None;
    for rule in orders::rules(phase, options.effort == Effort::Full) {
        let order = rule.order(phase, paired);
        let (horizon, rows) = attempt(phase, paired, &order, options)?;
        if best.as_ref().is_none_or(|(least, _)| horizon < *least) {
            best = Some((horizon, rows));
        }
        if horizon <= bound + bound / CLOSE {
            break;
        }
    }
    Ok(best.unwrap_or_default())
}

/// Places the transfers in an order and encodes the rows. Tiles whose rows do not encode get no
/// coinciding controls in the next attempt.
fn attempt(
    phase: &Phase,
    paired: bool,
    order: &[u32],
    options: &Options<'_>,
) -> Result<(u32, Vec<Row>), ExchangeError> {
    let mut strict: BTreeSet<TileId> = BTreeSet::new();
    loop {
        let stopped = || options.stopped();
        let starts = place::place(phase, paired, order, &strict, &stopped);
        let starts = starts.ok_or(ExchangeError::Stopped)?;
        match rows::encode(phase, &starts) {
            Ok(rows) => {
                let horizon = rows.iter().map(|row| row.horizon).max().unwrap_or(0);
                return Ok((horizon, rows));
            }
            Err(failed) => {
                let before = strict.len();
                strict.extend(failed.iter().map(|error| error.tile));
                if strict.len() == before {
                    return Err(ExchangeError::Unencodable(failed[0]));
                }
            }
        }
    }
}
