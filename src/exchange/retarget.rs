//! A schedule for a phase that is another one on other tiles.
//!
//! Ways differ from tile to tile, so no event can be kept as it is; but the order can: everything is
//! placed anew in the order in which it started, and that is improved.

use std::collections::BTreeMap;

use super::bound::Bounds;
use super::jobs::Jobs;
use super::phase::{ExchangeError, Phase};
use super::reschedule::{allows, in_time, of_starts};
use super::{Options, Schedule, Scheduled, encode, search, shape};
use crate::target::TileId;

/// Schedules a phase from the schedule of another one whose transfers it has, in the same order, on
/// other tiles. Widths are kept.
///
/// `None` says that the phase has to be scheduled as a whole: `previous` is of another phase than
/// `from`, the transfers are others, what was 64-bit cannot be so any more, or the result would end
/// late or have no rows within the limit.
///
/// # Errors
/// If the caller wanted no answer any more.
pub fn retarget(
    phase: &Phase,
    from: &Phase,
    previous: &Schedule,
    options: &Options<'_>,
) -> Result<Option<Scheduled>, ExchangeError> {
    if shape(from) != previous.shape || !is_renamed(phase, from) {
        return Ok(None);
    }
    // Which transfers are one message depends on addresses, which need not be those of `from`.
    let Some(messages) = previous.messages.of(phase) else { return Ok(None) };
    let (messages, starts) = (messages.as_ref(), &previous.starts);
    let same = messages.len() == starts.len();
    if !same || !(0..messages.len()).all(|at| allows(&starts[at], messages, at, options.width)) {
        return Ok(None);
    }
    let jobs = Jobs::new(messages, |index| starts[index].paired);
    let mut order: Vec<u32> = (0..jobs.len() as u32).collect();
    order.sort_by_key(|index| starts[*index as usize].event);
    let bound = Bounds::new(phase).of_width(options.width);
    let found = match search::from_order(messages, &jobs, &order, options, bound) {
        Ok(found) => found,
        Err(ExchangeError::Stopped) => return Err(ExchangeError::Stopped),
        Err(_) => return Ok(None),
    };
    if !in_time(found.rank.horizon, previous, bound) {
        return Ok(None);
    }
    let schedule = Schedule {
        shape: shape(phase),
        messages: previous.messages,
        ..of_starts(messages, found.starts, found.rank.horizon, bound, options)
    };
    // Rows that have become too long are a reason to look at the whole phase.
    Ok(encode(phase, &schedule.into()).ok())
}

/// Whether one phase is another one with other names of tiles.
fn is_renamed(phase: &Phase, from: &Phase) -> bool {
    let (mut names, mut old_names) = (BTreeMap::new(), BTreeMap::new());
    let mut renamed = |new: TileId, old: TileId| {
        *names.entry(old).or_insert(new) == new && *old_names.entry(new).or_insert(old) == old
    };
    let all = (0..phase.len()).map(|index| (phase.transfer(index), from.transfer(index)));
    phase.len() == from.len()
        && all.into_iter().all(|(new, old)| {
            let (to, old_to) = (new.destinations, old.destinations);
            (new.words, to.len()) == (old.words, old_to.len())
                && renamed(new.source, old.source)
                && to.iter().zip(old_to).all(|(new, old)| renamed(new.0, old.0))
        })
}
