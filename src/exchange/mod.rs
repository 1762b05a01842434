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
use std::sync::Arc;
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

/// A schedule: when every transfer starts. It does not depend on addresses, only on the phase's
/// [`shape`], and holds for every phase of that shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Start of every transfer.
    pub starts: Vec<Start>,
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
    /// No schedule of this phase can end before this.
    pub bound: u32,
}

/// A scheduled phase at its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// When everything happens.
    pub schedule: Arc<Schedule>,
    /// Rows of all tiles that take part, ascending by tile.
    pub rows: Vec<Row>,
}

/// Schedules a phase and encodes its rows.
///
/// # Errors
/// If no order could be encoded; with the forbidden coincidences that the last attempt works with
/// this is a defect. Or if the caller wanted no answer any more.
pub fn schedule(phase: &Phase, options: &Options<'_>) -> Result<Scheduled, ExchangeError> {
    relocate(phase, &Arc::new(plan(phase, options)?))
}

/// The rows of a schedule at a phase's addresses; the phase must have the shape that the schedule
/// was made for.
///
/// # Errors
/// Never for a phase of that shape: a schedule is only accepted if its rows can be encoded at any
/// addresses.
pub fn relocate(phase: &Phase, schedule: &Arc<Schedule>) -> Result<Scheduled, ExchangeError> {
    let rows = rows::encode(phase, &schedule.starts);
    let rows = rows.map_err(|failed| ExchangeError::Unencodable(failed[0]))?;
    Ok(Scheduled { schedule: Arc::clone(schedule), rows })
}

/// Identity of everything that a schedule depends on: who sends how much to whom, what can be
/// paired, and memory elements where a tile could read and write the same one.
pub fn shape(phase: &Phase) -> [u8; 32] {
    let tiles = usize::from(phase.tiles());
    let (mut read, mut written) = (vec![0_u32; tiles], vec![0_u32; tiles]);
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let mask = |address| lanes::element_mask(address, transfer.words);
        read[usize::from(transfer.source.0)] |= mask(transfer.source_address);
        for (tile, address) in transfer.destinations {
            written[usize::from(tile.0)] |= mask(*address);
        }
    }
    let mut hasher = blake3::Hasher::new();
    let mut bytes = Vec::with_capacity(64);
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let mut end = |tile: TileId, address| {
            let at = usize::from(tile.0);
            let mixed = read[at] & written[at] != 0;
            let mask = if mixed { lanes::element_mask(address, transfer.words) } else { 0 };
            bytes.extend(tile.0.to_le_bytes());
            bytes.extend(mask.to_le_bytes());
        };
        end(transfer.source, transfer.source_address);
        transfer.destinations.iter().for_each(|(tile, address)| end(*tile, *address));
        bytes.extend(transfer.words.to_le_bytes());
        bytes.extend((transfer.destinations.len() as u32).to_le_bytes());
        bytes.push(u8::from(phase.pairable(index)));
        hasher.update(&bytes);
        bytes.clear();
    }
    *hasher.finalize().as_bytes()
}

/// Finds the schedule of a phase.
///
/// # Errors
/// As [`schedule`].
pub fn plan(phase: &Phase, options: &Options<'_>) -> Result<Schedule, ExchangeError> {
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
    let horizon =
        |attempt: &Option<(u32, Vec<Start>)>| attempt.as_ref().map(|(horizon, _)| *horizon);
    let (ordinary_horizon, paired_horizon) = (horizon(&ordinary), horizon(&paired));
    let take_paired = match (ordinary_horizon, paired_horizon) {
        (Some(ordinary), Some(paired)) => paired < ordinary,
        (None, Some(_)) => true,
        _ => false,
    };
    let (horizon, starts) = if take_paired { paired } else { ordinary }.unwrap_or_default();
    Ok(Schedule {
        starts,
        horizon,
        ordinary_horizon,
        paired_horizon,
        candidates,
        paired: take_paired,
        bound,
    })
}

/// A horizon this close to the bound ends the search for a better order: one part in so many.
const CLOSE: u32 = 64;

/// The best of several orders: horizon and starts.
fn best(
    phase: &Phase,
    paired: bool,
    options: &Options<'_>,
    bound: u32,
) -> Result<(u32, Vec<Start>), ExchangeError> {
    let mut best: Option<(u32, Vec<Start>)> = None;
    for rule in orders::rules(phase, options.effort == Effort::Full) {
        let order = rule.order(phase, paired);
        let (horizon, starts) = attempt(phase, paired, &order, options)?;
        if best.as_ref().is_none_or(|(least, _)| horizon < *least) {
            best = Some((horizon, starts));
        }
        if horizon <= bound + bound / CLOSE {
            break;
        }
    }
    Ok(best.unwrap_or_default())
}

/// Places the transfers in an order. Tiles whose rows do not encode get no coinciding controls in
/// the next attempt.
fn attempt(
    phase: &Phase,
    paired: bool,
    order: &[u32],
    options: &Options<'_>,
) -> Result<(u32, Vec<Start>), ExchangeError> {
    let mut strict: BTreeSet<TileId> = BTreeSet::new();
    loop {
        let stopped = || options.stopped();
        let starts = place::place(phase, paired, order, &strict, &stopped);
        let starts = starts.ok_or(ExchangeError::Stopped)?;
        match rows::horizon(phase, &starts) {
            Ok(horizon) => return Ok((horizon, starts)),
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
