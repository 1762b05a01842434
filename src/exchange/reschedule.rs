//! A schedule for a phase of which few transfers differ from one that has a schedule.
//!
//! What did not change keeps its events, what is gone frees its own, and what is new takes the
//! earliest that are free. Where that ends late, everything at the receivers that end late is placed
//! anew; a result that is still late is none, and the phase has to be scheduled as a whole.

use std::cmp::Reverse;

use super::bound::Bounds;
use super::jobs::Jobs;
use super::joins::join;
use super::phase::{ExchangeError, Phase};
use super::place::{Placed, Start, place_between, starts};
use super::{Messages, Options, Schedule, Scheduled, Taken, Width, changes, encode, rows, shape};

/// A phase of which more than one transfer in so many changed is scheduled as a whole.
const FEW: usize = 8;
/// A result that is farther above its bound than the schedule it comes from by one part in so many is
/// repaired.
const LATE: u32 = 64;
/// A result that stays farther above it by one part in so many is none.
const TOO_LATE: u32 = 16;

/// Schedules a phase from the schedule of another one. Widths of unchanged transfers are kept; new ones
/// are 64-bit if all eligible ones were.
///
/// `None` says that the phase has to be scheduled as a whole: `previous` is of another phase than
/// `from`, too much changed, transfers wait for others, a tile has to write its base, or the result
/// would end late or have no rows; or transfers would be one message that were not.
///
/// # Errors
/// If the caller wanted no answer any more.
pub fn reschedule(
    phase: &Phase,
    from: &Phase,
    previous: &Schedule,
    options: &Options<'_>,
) -> Result<Option<Scheduled>, ExchangeError> {
    let apart = previous.messages == Messages::Transfers && join(phase).is_some();
    // What is kept of a run needs the rest of it.
    if apart || previous.messages == Messages::Runs || shape(from) != previous.shape {
        return Ok(None);
    }
    let of = |phase| previous.messages.of(phase);
    let (Some(messages), Some(old)) = (of(phase), of(from)) else { return Ok(None) };
    let bound = || Bounds::new(phase).of_width(options.width);
    let Some(found) = between_kept(&messages, &old, previous, options, bound)? else {
        return Ok(None);
    };
    let schedule = Schedule { shape: shape(phase), messages: previous.messages, ..found };
    // Rows that have become too long are a reason to look at the whole phase.
    Ok(encode(phase, &schedule.into()).ok())
}

/// A schedule of messages, from those of the phase that has one; `bound` gives the bound of the phase.
fn between_kept(
    phase: &Phase,
    from: &Phase,
    previous: &Schedule,
    options: &Options<'_>,
    bound: impl FnOnce() -> u32,
) -> Result<Option<Schedule>, ExchangeError> {
    let kept = keep(phase, from, previous, options.width);
    let unchanged = kept.iter().flatten().count();
    let changed = phase.len().max(from.len()) - unchanged;
    if FEW * changed > phase.len() {
        return Ok(None);
    }
    let eligible: Vec<bool> = (0..phase.len()).map(|index| phase.pairable(index)).collect();
    let wide = |index: usize| match kept[index] {
        Some(start) => start.paired,
        None => match options.width {
            Width::Automatic => previous.taken == Taken::Paired && eligible[index],
            Width::Ordinary => false,
            Width::Paired => eligible[index],
        },
    };
    let jobs = Jobs::new(phase, wide);
    if jobs.is_empty() || !jobs.free() {
        return Ok(None);
    }
    let bound = bound();
    let horizon = carried_over(previous, bound);
    let placed = between(&jobs, &kept, horizon + horizon / LATE, options)?;
    if !in_time(jobs.horizon(&placed.events), previous, bound) {
        return Ok(None);
    }
    let starts = starts(&jobs, &placed.events);
    if rows::encodable(phase, &starts, &placed.doubled).is_err() {
        return Ok(None);
    }
    let horizon = jobs.horizon(&placed.events);
    Ok(Some(of_starts(phase, starts, horizon, bound, options)))
}

/// The schedule that these starts are.
pub(super) fn of_starts(
    phase: &Phase,
    starts: Vec<Start>,
    horizon: u32,
    bound: u32,
    options: &Options<'_>,
) -> Schedule {
    let candidates = (0..phase.len()).filter(|index| phase.pairable(*index)).count();
    let paired = starts.iter().filter(|start| start.paired).count();
    let taken = match paired {
        0 => Taken::Ordinary,
        _ if paired == candidates => Taken::Paired,
        _ => Taken::Mixed,
    };
    let of = |width: Taken| (width == taken).then_some(horizon);
    Schedule {
        starts,
        horizon,
        ordinary_horizon: of(Taken::Ordinary),
        paired_horizon: of(Taken::Paired),
        mixed_horizon: of(Taken::Mixed),
        candidates: candidates as u32,
        taken,
        bound,
        row_limit: options.row_limit,
        shape: shape(phase),
        messages: Messages::Transfers,
    }
}

/// Whether the width of a start may be that of a transfer.
pub(super) fn allows(start: &Start, phase: &Phase, index: usize, width: Width) -> bool {
    let pairable = phase.pairable(index);
    match width {
        Width::Automatic => !start.paired || pairable,
        Width::Ordinary => !start.paired,
        Width::Paired => start.paired == pairable,
    }
}

/// The start that every transfer had, if it had one and can keep it.
fn keep(phase: &Phase, from: &Phase, previous: &Schedule, width: Width) -> Vec<Option<Start>> {
    let start = |(index, old): (usize, Option<u32>)| {
        let start = previous.starts.get(old? as usize)?;
        allows(start, phase, index, width).then_some(*start)
    };
    changes::counterparts(phase, from).into_iter().enumerate().map(start).collect()
}

/// Whether a horizon is not much farther above its bound than that of the schedule it comes from.
pub(super) fn in_time(horizon: u32, previous: &Schedule, bound: u32) -> bool {
    let carried = carried_over(previous, bound);
    horizon <= carried + carried / TOO_LATE
}

/// The horizon that is as far above a bound as a schedule's is above its own.
fn carried_over(previous: &Schedule, bound: u32) -> u32 {
    let horizon = u64::from(previous.horizon) * u64::from(bound);
    horizon.div_ceil(u64::from(previous.bound).max(1)) as u32
}

/// Places jobs between those that keep their starts. If one ends after `limit`, that is repaired once,
/// and the better of both is taken.
fn between(
    jobs: &Jobs,
    kept: &[Option<Start>],
    limit: u32,
    options: &Options<'_>,
) -> Result<Placed, ExchangeError> {
    let mut kept: Vec<Option<u32>> =
        kept.iter().map(|start| start.map(|start| start.event)).collect();
    let (sent, received) = jobs.loads();
    // The busiest endpoint's first, as where a whole phase is ordered by load.
    let load = |index: &u32| {
        let job = jobs.job(*index as usize);
        let most = jobs.ends_of(job).iter().map(|end| received[usize::from(end.tile.0)]).max();
        let load = most.unwrap_or(0).max(sent[usize::from(job.source.0)]);
        (Reverse(load), Reverse(job.items))
    };
    let placed = place_between(jobs, &mut kept, |loose| loose.sort_by_cached_key(load));
    if jobs.horizon(&placed.events) <= limit {
        return Ok(placed);
    }
    if options.stopped() {
        return Err(ExchangeError::Stopped);
    }
    loosen(jobs, &placed.events, limit, &mut kept);
    // What ends late comes first, all else in the order that it had.
    let key = |index: &u32| {
        let event = placed.events[*index as usize];
        (jobs.job(*index as usize).horizon(event) <= limit, event)
    };
    let repaired = place_between(jobs, &mut kept, |loose| loose.sort_by_cached_key(key));
    let better = jobs.horizon(&repaired.events) < jobs.horizon(&placed.events);
    Ok(if better { repaired } else { placed })
}

/// Lets go of everything at the receivers of the jobs that end after `limit`.
fn loosen(jobs: &Jobs, events: &[u32], limit: u32, kept: &mut [Option<u32>]) {
    let mut late = vec![false; usize::from(jobs.tiles())];
    for (index, event) in events.iter().enumerate() {
        if jobs.job(index).horizon(*event) > limit {
            jobs.ends(index).iter().for_each(|end| late[usize::from(end.tile.0)] = true);
        }
    }
    for (index, kept) in kept.iter_mut().enumerate() {
        if jobs.ends(index).iter().any(|end| late[usize::from(end.tile.0)]) {
            *kept = None;
        }
    }
}
