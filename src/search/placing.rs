//! Addresses of a program's buffers and schedules of its phases, and addresses that make the schedules
//! shorter.
//!
//! A tile that reads and writes one memory element in a phase does so at different times
//! (`target/ipu21.md` §2.5, rule M1), which can make the phase much longer (§8.2). Where it does, the
//! buffers of all phases are placed in different elements, or those of the phases that lose the most if
//! there is no room for all; everything is scheduled again, and the better of the two is kept.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rayon::prelude::*;

use crate::exchange::{self, Effort, ExchangeError, Options, Phase, Scheduled, Taken, Width};
use crate::plan::{ExchangeMode, StoragePlan};
use crate::program::{Addresses, BufferId, Program, StepKind};
use crate::storage::{
    PlaceOptions, PlacedProgram, exchanged_in, exchanged_together, place_program,
};
use crate::target::Bytes;

use super::memo::Memo;
use super::outcome::Failure;

/// Most phases whose buffers are moved: each attempt is a placement of all tiles.
const MOST_PHASES: usize = 8;
/// Events above its bound from which a phase is worth a schedule more.
const LEAST_EXCESS: u32 = 64;
/// The same as a part of the phase.
const LEAST_PART: u32 = 50;

/// A program that is placed, and where.
#[derive(Clone, Copy)]
pub(super) struct Placing<'a> {
    pub(super) program: &'a Program,
    pub(super) free: &'a [Range<u32>],
    pub(super) memo: &'a Memo,
    pub(super) stop: &'a AtomicBool,
}

/// Addresses, and the schedule of every exchange step at them.
pub(super) struct Placed {
    pub(super) addresses: Addresses,
    pub(super) phases: BTreeMap<usize, Arc<Scheduled>>,
    /// Events that moving buffers saved.
    pub(super) saved_events: u64,
}

impl Placed {
    /// Events of all phases together.
    fn events(&self) -> u64 {
        self.phases.values().map(|phase| u64::from(phase.schedule.horizon)).sum()
    }
}

impl Placing<'_> {
    /// Places and schedules; with `Apart`, all buffers that are read and written in one exchange are
    /// to lie in different elements, else those where that was seen to gain something.
    pub(super) fn place(&self, plan: StoragePlan) -> Result<Placed, Failure> {
        let wishes = match plan {
            StoragePlan::Apart => exchanged_together(self.program),
            StoragePlan::Automatic => vec![],
        };
        let PlacedProgram { addresses, stats } = self.storage(&wishes)?;
        tracing::debug!(
            tiles = self.program.tiles,
            kinds = stats.kinds,
            problems = stats.problems,
            known = stats.known,
            live_bytes = stats.live_bytes,
            peak_bytes = stats.peak_bytes,
            "placed program storage"
        );
        let phases = schedule(self.program, &addresses, self.memo, self.stop)?;
        self.optimize(Placed { addresses, phases, saved_events: 0 })
    }

    fn storage(&self, wishes: &[(BufferId, BufferId)]) -> Result<PlacedProgram, Failure> {
        let Placing { program, free, memo, stop } = *self;
        let options = PlaceOptions { free, wishes, answers: &memo.answers, stop };
        Ok(place_program(program, &options)?)
    }

    /// Moves buffers apart where that shortens exchange.
    fn optimize(&self, placed: Placed) -> Result<Placed, Failure> {
        let begun = now();
        let held_up = self.held_up(&placed)?;
        if held_up.is_empty() {
            return Ok(placed);
        }
        let Some(addresses) = self.apart(&held_up)? else {
            return Ok(placed);
        };
        let phases = schedule(self.program, &addresses, self.memo, self.stop)?;
        let moved = Placed { addresses, phases, saved_events: 0 };
        let (events, moved_events) = (placed.events(), moved.events());
        let saved_events = events.saturating_sub(moved_events);
        tracing::debug!(
            phase = "optimize_exchange_placement",
            contended = held_up.len(),
            events,
            moved_events,
            elapsed_ms = begun.elapsed().as_millis() as u64,
            success = saved_events > 0,
            "package build phase finished"
        );
        Ok(if saved_events > 0 { Placed { saved_events, ..moved } } else { placed })
    }

    /// Steps that take longer than their bound and have tiles that read and write one element, those
    /// that lose the most first.
    fn held_up(&self, placed: &Placed) -> Result<Vec<usize>, Failure> {
        let mut found = vec![];
        for (step, phase) in &placed.phases {
            let schedule = &phase.schedule;
            let excess = schedule.horizon.saturating_sub(schedule.bound);
            if excess < LEAST_EXCESS.max(schedule.horizon / LEAST_PART) {
                continue;
            }
            let phase = self::phase(self.program, *step, &placed.addresses)?;
            if phase.contends() {
                found.push((Reverse(excess), *step));
            }
        }
        found.sort_unstable();
        found.truncate(MOST_PHASES);
        Ok(found.into_iter().map(|(_, step)| step).collect())
    }

    /// Addresses at which the buffers of all steps lie apart; where there is no room for that, those of
    /// as many of the given ones as possible, the first before the others; `None` if there is room for
    /// none.
    ///
    /// All steps, because moving the buffers of some can push those of others together.
    fn apart(&self, steps: &[usize]) -> Result<Option<Addresses>, Failure> {
        let all = self.storage(&exchanged_together(self.program))?;
        if all.stats.granted == all.stats.problems {
            return Ok(Some(all.addresses));
        }
        let mut wishes = vec![];
        let mut found = None;
        for step in steps {
            let granted = wishes.len();
            wishes.extend(exchanged_in(&self.program.steps[*step]));
            let PlacedProgram { addresses, stats } = self.storage(&wishes)?;
            if stats.granted == stats.problems {
                found = Some(addresses);
            } else {
                wishes.truncate(granted);
            }
        }
        Ok(found)
    }
}

#[expect(clippy::disallowed_methods, reason = "the time is logged and decides nothing")]
fn now() -> Instant {
    Instant::now()
}

/// The transfers of a step at their addresses.
fn phase(program: &Program, step: usize, addresses: &Addresses) -> Result<Phase, Failure> {
    let mut phase = Phase::new(program.tiles);
    let mut destinations = vec![];
    let missing =
        || Failure::Illegal { what: "a transfer between buffers without a place".to_owned() };
    for transfer in program.steps[step].transfers() {
        let (from, offset) = transfer.from;
        let source = addresses.get(from, transfer.source).ok_or_else(missing)? + Bytes(offset);
        let (to, offset) = transfer.to;
        destinations.clear();
        for tile in transfer.destinations {
            let address = addresses.get(to, *tile).ok_or_else(missing)? + Bytes(offset);
            destinations.push((*tile, address));
        }
        phase
            .add(transfer.source, source, &destinations, transfer.words)
            .map_err(|error| Failure::Illegal { what: error.to_string() })?;
    }
    Ok(phase)
}

fn schedule(
    program: &Program,
    addresses: &Addresses,
    memo: &Memo,
    stop: &AtomicBool,
) -> Result<BTreeMap<usize, Arc<Scheduled>>, Failure> {
    let steps: Vec<(usize, ExchangeMode)> = program
        .steps
        .iter()
        .enumerate()
        .filter_map(|(index, step)| match step.kind {
            StepKind::Exchange(mode) => Some((index, mode)),
            StepKind::Compute => None,
        })
        .collect();
    let scheduled: Vec<Result<(usize, Arc<Scheduled>), Failure>> = steps
        .into_par_iter()
        .map(|(index, mode)| {
            let phase = phase(program, index, addresses)?;
            let width = match mode {
                ExchangeMode::Automatic => Width::Automatic,
                ExchangeMode::Ordinary => Width::Ordinary,
                ExchangeMode::Paired => Width::Paired,
            };
            let mut key = exchange::shape(&phase);
            key[0] ^= width as u8;
            if let Some(found) = memo.phase(&key) {
                // `relocate` refuses what is not of the schedule's shape and makes the rows anew; that
                // they keep every rule, `check` proves from the finished package.
                let relocated = exchange::relocate(&phase, &found).map_err(unencodable)?;
                tracing::debug!(
                    phase = index,
                    "reused exchange optimization after validating relocated rows"
                );
                return Ok((index, Arc::new(relocated)));
            }
            let options =
                Options { width, effort: Effort::Trial, stop: Some(stop), ..Options::default() };
            let scheduled = exchange::schedule(&phase, &options).map_err(unencodable)?;
            let schedule = &scheduled.schedule;
            if let (Some(ordinary), Some(paired)) =
                (schedule.ordinary_horizon, schedule.paired_horizon)
            {
                tracing::debug!(
                    phase = index,
                    candidates = schedule.candidates,
                    ordinary_horizon = ordinary,
                    paired_horizon = paired,
                    mixed_horizon = schedule.mixed_horizon,
                    use_paired = schedule.taken == Taken::Paired,
                    use_mixed = schedule.taken == Taken::Mixed,
                    "compared ordinary and paired exchange schedules"
                );
            }
            memo.keep_phase(key, schedule);
            Ok((index, Arc::new(scheduled)))
        })
        .collect();
    scheduled.into_iter().collect()
}

fn unencodable(error: ExchangeError) -> Failure {
    match error {
        ExchangeError::Stopped => Failure::Stopped,
        other => Failure::Unencodable { what: other.to_string() },
    }
}
