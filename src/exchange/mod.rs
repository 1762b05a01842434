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
//! fits between what is already placed. Orders come from a few rules, first the one that suits the
//! traffic: coloured rounds for messages between single tiles, the busiest endpoint first for
//! multicasts. The best schedules are then pushed against their horizon and pulled back again,
//! which closes gaps, until that gains nothing or a counted budget is spent; with full effort, small
//! phases have messages moved about where the last one is held up. Transfers are all
//! 32-bit, all 64-bit where they can be, or 64-bit only where an endpoint needs it.
//!
//! Transfers whose words go on where others end, at the sender and at every receiver, are one message.
//!
//! A phase of which few transfers changed can take over the schedule that it had: [`reschedule`]; one
//! on other tiles can take over the order: [`retarget`].
//!
//! Of two schedules the one that ends first is taken; with full effort, of equals the one with the
//! smaller largest row, then with the fewer bytes in all rows. A limit of row bytes goes before all that.

pub mod bound;
mod branch;
mod changes;
pub mod colours;
pub mod improve;
pub mod instance;
pub mod jobs;
mod joins;
pub mod lanes;
pub mod n0;
pub mod orders;
mod parts;
pub mod phase;
pub mod place;
mod rank;
mod repair;
mod reschedule;
mod retarget;
pub mod rows;
mod runs;
mod search;
mod strips;
pub mod waits;
pub mod waves;
pub mod widths;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use bound::{Bounds, lower_bound};
use jobs::Jobs;
use joins::join;
use parts::halved;
pub use phase::{ExchangeError, Phase, Transfer, TransferError};
pub use place::Start;
use rank::{Rank, first};
use reschedule::of_starts;
pub use reschedule::reschedule;
pub use retarget::retarget;
pub use rows::{Base, Row, RowBytes, RowError};
use search::{Found, Unencoded};
use waits::Waits;

use crate::target::{Bytes, TileId};

/// Width of the transfers of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Width {
    /// Whichever schedule ends first, mixtures included; ordinary on a tie (`target/ipu21.md` §3.5).
    #[default]
    Automatic,
    /// 32-bit items.
    Ordinary,
    /// 64-bit items for every eligible transfer.
    Paired,
}

/// Widths of a schedule's transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Taken {
    /// All 32-bit.
    #[default]
    Ordinary,
    /// All eligible ones 64-bit.
    Paired,
    /// Some of the eligible ones 64-bit.
    Mixed,
}

/// How long to look for a good schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Effort {
    /// One order.
    Fast,
    /// Several orders, each improved: what a search can afford for every candidate.
    Trial,
    /// Beyond that, messages of small phases are moved about one by one.
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
    /// Most bytes of a tile's row. A schedule that keeps it is better than any that does not, however
    /// long it takes.
    pub row_limit: Option<Bytes>,
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
    /// Start of every message: of every transfer, or of those joined.
    pub starts: Vec<Start>,
    /// Event at which the last tile's row ends.
    pub horizon: u32,
    /// Horizon with every transfer 32-bit; `None` if none was found that keeps the limit, or
    /// that was not tried.
    pub ordinary_horizon: Option<u32>,
    /// Horizon with every eligible transfer 64-bit; `None` if none was found that keeps the limit, or
    /// that was not tried.
    pub paired_horizon: Option<u32>,
    /// Least horizon with some of the eligible transfers 64-bit; `None` as before.
    pub mixed_horizon: Option<u32>,
    /// Number of eligible transfers.
    pub candidates: u32,
    /// Which of the three was taken.
    pub taken: Taken,
    /// No schedule of this phase in the widths asked for can end before this.
    pub bound: u32,
    /// Most bytes of a row: at other addresses rows can become longer.
    pub row_limit: Option<Bytes>,
    /// The [`shape`] that it holds for.
    pub shape: [u8; 32],
    /// What has one start.
    pub messages: Messages,
}

/// What has one start each in a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Messages {
    /// Every transfer.
    #[default]
    Transfers,
    /// Transfers that continue one another together, where the first of them comes in the phase;
    /// every other one.
    Joined,
    /// What [`Messages::Joined`] has, or every transfer where nothing is joined; but those that are read
    /// one behind the other for the same receivers may start one behind the other in one send.
    Runs,
    /// Both halves of every long transfer, one after the other; every other one.
    Halves,
}

impl Messages {
    /// The phase in which they are the transfers; `None` if no transfer is joined with another, or none
    /// halved.
    fn of(self, phase: &Phase) -> Option<Cow<'_, Phase>> {
        match self {
            Messages::Transfers => Some(Cow::Borrowed(phase)),
            Messages::Joined => join(phase).map(Cow::Owned),
            Messages::Runs => Some(join(phase).map_or(Cow::Borrowed(phase), Cow::Owned)),
            Messages::Halves => halved(phase).map(Cow::Owned),
        }
    }
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
/// this is a defect. If no schedule was found whose rows keep the limit. Or if the caller wanted no
/// answer any more.
pub fn schedule(phase: &Phase, options: &Options<'_>) -> Result<Scheduled, ExchangeError> {
    encode(phase, &Arc::new(plan(phase, options)?))
}

/// The rows of a schedule at a phase's addresses.
///
/// # Errors
/// For a phase of another [`shape`] than the schedule's: other transfers, or accesses that its events
/// do not keep apart. Never for one of that shape without a limit of row bytes: a schedule is only
/// accepted if its rows can be encoded at any addresses.
pub fn relocate(phase: &Phase, schedule: &Arc<Schedule>) -> Result<Scheduled, ExchangeError> {
    if shape(phase) != schedule.shape {
        return Err(ExchangeError::OtherShape);
    }
    encode(phase, schedule)
}

fn encode(phase: &Phase, schedule: &Arc<Schedule>) -> Result<Scheduled, ExchangeError> {
    let messages = schedule.messages.of(phase).ok_or(ExchangeError::OtherShape)?;
    let rows = rows::encode(&messages, &schedule.starts);
    let rows = rows.map_err(|failed| ExchangeError::Unencodable(failed[0]))?;
    if let Some(limit) = schedule.row_limit {
        keep(limit, &messages, &schedule.starts)?;
    }
    Ok(Scheduled { schedule: Arc::clone(schedule), rows })
}

/// Whether rows keep a limit.
fn keep(limit: Bytes, phase: &Phase, starts: &[Start]) -> Result<(), ExchangeError> {
    let (RowBytes { largest, .. }, tile) = rows::bytes(phase, starts);
    if largest <= limit {
        return Ok(());
    }
    let (bytes, limit) = (largest.0, limit.0);
    Err(ExchangeError::RowTooLong { tile, bytes, limit })
}

/// Bytes that are hashed at once.
const HASHED: usize = 1 << 15;

/// Identity of everything that a schedule depends on: who sends how much to whom, what can be
/// paired, memory elements where a tile could read and write the same one, and what has to wait for
/// what.
pub fn shape(phase: &Phase) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let mut bytes = Vec::with_capacity(2 * HASHED);
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let mut end = |tile: TileId, beside: u32, mask: &dyn Fn() -> u32| {
            let contended = phase.contended(tile);
            let mask = if contended == 0 { 0 } else { mask() & contended };
            let word = u64::from(mask) << 32 | u64::from(beside) << 16 | u64::from(tile.0);
            bytes.extend_from_slice(&word.to_le_bytes());
        };
        // Pieces have fewer words than 16 bits can count.
        end(transfer.source, transfer.words, &|| lanes::source_mask(&transfer));
        for (tile, address) in transfer.destinations {
            end(*tile, 0, &|| lanes::element_mask(*address, transfer.words));
        }
        let flags = u64::from(phase.pairable(index)) | u64::from(transfer.moves()) << 1;
        let word = flags << 32 | transfer.destinations.len() as u64;
        bytes.extend_from_slice(&word.to_le_bytes());
        if bytes.len() >= HASHED {
            hasher.update(&bytes);
            bytes.clear();
        }
    }
    hasher.update(&bytes);
    hasher.update(&(phase.iterations() as u64).to_le_bytes());
    Waits::new(phase).hash(phase.len(), &mut hasher);
    for run in runs::of(phase).into_iter().flatten().filter(|run| run.len() > 1) {
        for at in run.iter().chain([&u32::MAX]) {
            hasher.update(&at.to_le_bytes());
        }
    }
    if let Some(joined) = join(phase) {
        hasher.update(&shape(&joined));
    }
    *hasher.finalize().as_bytes()
}

/// Finds the schedule of a phase. Transfers that continue one another are one message; with more
/// effort than [`Effort::Fast`] they may also stay apart, if that ends earlier, and with
/// [`Effort::Full`] others of a small phase may be sent as one, or long ones be two.
///
/// # Errors
/// As [`schedule`].
pub fn plan(phase: &Phase, options: &Options<'_>) -> Result<Schedule, ExchangeError> {
    let (mut best, mut failed) = (None, None);
    for messages in [Messages::Joined, Messages::Transfers, Messages::Runs, Messages::Halves] {
        if !worthwhile(messages, best.as_ref(), options.effort) {
            break;
        }
        let Some(parts) = messages.of(phase) else { continue };
        if matches!(messages, Messages::Runs | Messages::Halves) && !search::is_small(&parts) {
            continue;
        }
        let found = match messages {
            Messages::Runs => plan_runs(&parts, options),
            _ => plan_messages(&parts, options).map(Some),
        };
        match found {
            Ok(found) => {
                let earlier = |found: &Schedule| {
                    best.as_ref().is_none_or(|best: &Schedule| found.horizon < best.horizon)
                };
                let Some(mut found) = found.filter(earlier) else { continue };
                if messages != Messages::Transfers {
                    let bound = Bounds::new(phase).of_width(options.width);
                    found = Schedule { bound, shape: shape(phase), messages, ..found };
                }
                best = Some(with_horizons(found, best));
            }
            Err(error) if error.is_of_schedule() => failed = Some(error),
            Err(error) => return Err(error),
        }
    }
    match (best, failed) {
        (None, Some(failed)) => Err(failed),
        (best, _) => Ok(best.unwrap_or_default()),
    }
}

/// A schedule with the horizons of the one before it in widths that were not tried again.
fn with_horizons(found: Schedule, before: Option<Schedule>) -> Schedule {
    let Some(before) = before else { return found };
    Schedule {
        ordinary_horizon: found.ordinary_horizon.or(before.ordinary_horizon),
        paired_horizon: found.paired_horizon.or(before.paired_horizon),
        mixed_horizon: found.mixed_horizon.or(before.mixed_horizon),
        ..found
    }
}

/// Whether to try messages after those before them in [`plan`].
fn worthwhile(messages: Messages, best: Option<&Schedule>, effort: Effort) -> bool {
    let tried = match messages {
        Messages::Joined => true,
        Messages::Transfers => effort != Effort::Fast || best.is_none(),
        Messages::Runs | Messages::Halves => effort == Effort::Full && best.is_some(),
    };
    tried && best.is_none_or(|best| best.horizon > search::goal(best.bound))
}

/// The schedule of a phase whose transfers are its messages.
fn plan_messages(phase: &Phase, options: &Options<'_>) -> Result<Schedule, ExchangeError> {
    let eligible: Vec<bool> = (0..phase.len()).map(|index| phase.pairable(index)).collect();
    let candidates = eligible.iter().filter(|eligible| **eligible).count() as u32;
    let narrow = Jobs::new(phase, |_| false);
    let wide = (candidates > 0).then(|| Jobs::new(phase, |index| eligible[index]));
    let bounds = Bounds::of(phase, &narrow, wide.as_ref());
    let mut failed = Unencoded::default();
    let ordinary = match options.width {
        Width::Paired if candidates > 0 => None,
        _ => failed.or_none(search::best(phase, &narrow, options, bounds.ordinary))?,
    };
    let paired = match (options.width, &wide) {
        (Width::Ordinary, _) | (_, None) => None,
        (Width::Automatic, _) if ordinary.is_some() && hopeless(&narrow, options, bounds) => None,
        (_, Some(wide)) => failed.or_none(search::best(phase, wide, options, bounds.any))?,
    };
    let near = |found: &Option<Found>| {
        found.as_ref().is_some_and(|found| found.rank <= Rank::within(search::goal(bounds.any)))
    };
    let settled = options.effort == Effort::Fast || near(&ordinary) || near(&paired);
    let mixed = match options.width {
        Width::Automatic if !settled => mixture(phase, options, bounds.any)?,
        _ => None,
    };
    failed.unless(ordinary.is_some() || paired.is_some() || mixed.is_some())?;
    let kept = |found: &&Found| found.rank.over == Bytes(0);
    let horizon =
        |found: &Option<Found>| found.as_ref().filter(kept).map(|found| found.rank.horizon);
    let (ordinary_horizon, paired_horizon) = (horizon(&ordinary), horizon(&paired));
    let mixed_horizon = horizon(&mixed);
    // The first of equals: ordinary rows are the shortest.
    let found = [(ordinary, Taken::Ordinary), (paired, Taken::Paired), (mixed, Taken::Mixed)];
    let found = found.into_iter().filter_map(|(found, taken)| found.map(|found| (found, taken)));
    let bytes = |found: &(Found, Taken)| rank::bytes(phase, options, &found.0.starts);
    let best = first(found.collect(), |found| found.0.rank, bytes);
    let (Found { rank: Rank { horizon, .. }, starts }, taken) = best.unwrap_or_default();
    if let Some(limit) = options.row_limit {
        keep(limit, phase, &starts)?;
    }
    Ok(Schedule {
        starts,
        horizon,
        ordinary_horizon,
        paired_horizon,
        mixed_horizon,
        candidates,
        taken,
        bound: bounds.of_width(options.width),
        row_limit: options.row_limit,
        shape: shape(phase),
        messages: Messages::Transfers,
    })
}

/// The schedule of a phase whose transfers are sent as runs; `None` if there are hardly any.
fn plan_runs(phase: &Phase, options: &Options<'_>) -> Result<Option<Schedule>, ExchangeError> {
    let Some(runs) = runs::of(phase).filter(|_| options.width != Width::Paired) else {
        return Ok(None);
    };
    if !Waits::new(phase).is_empty() {
        return Ok(None);
    }
    let jobs = Jobs::of_runs(phase, &runs);
    let bound = Bounds::new(phase).of_width(options.width);
    let Found { rank, starts } = search::best(phase, &jobs, options, bound)?;
    if let Some(limit) = options.row_limit {
        keep(limit, phase, &starts)?;
    }
    Ok(Some(of_starts(phase, starts, rank.horizon, bound, options)))
}

/// Whether a fast schedule of a large phase does without 64-bit transfers: no bound is lower with them.
fn hopeless(narrow: &Jobs, options: &Options<'_>, bounds: Bounds) -> bool {
    let large = options.effort == Effort::Fast && narrow.work() > search::MANY;
    // Where rows are limited, 64-bit ones may be the shorter.
    let free = options.row_limit.is_none();
    large && free && bounds.any == bounds.ordinary
}

/// The best schedule with some of the eligible transfers 64-bit.
fn mixture(
    phase: &Phase,
    options: &Options<'_>,
    bound: u32,
) -> Result<Option<Found>, ExchangeError> {
    let mut all: Vec<Found> = vec![];
    let mut failed = Unencoded::default();
    for wide in widths::mixtures(phase, bound) {
        let jobs = Jobs::new(phase, |index| wide[index]);
        all.extend(failed.or_none(search::best(phase, &jobs, options, bound))?);
    }
    let bytes = |found: &Found| rank::bytes(phase, options, &found.starts);
    Ok(first(all, |found| found.rank, bytes))
}
