//! Looking for a good order: a few rules first, then better ones from what they lead to.

use super::branch::{Branching, Unfinished};
use super::improve::Improver;
use super::jobs::Jobs;
use super::lanes::Care;
use super::orders;
use super::phase::{ExchangeError, Phase};
use super::place::{Placed, Rules, Start, place, starts};
use super::rank::{Rank, bytes, first};
use super::repair::{REPAIRS, farther, part_controls};
use super::rows::{self, RowBytes, RowError};
use super::{Effort, Options};
use crate::target::Bytes;

/// Jobs and receivers that are placed for one phase and width, at most.
const BUDGET: usize = 450_000;
/// Larger phases get less, in proportion to this: placing one job takes longer there, too.
const SHARE: usize = 4_000_000_000;

/// Jobs and receivers from which on one rule has to do.
const HUGE: usize = 500_000;

/// The budget for so many jobs and receivers: if they are not too many, at least one rule is tried
/// and improved once.
fn budget(work: usize) -> usize {
    BUDGET.min(SHARE / work.max(1)).max(if work < HUGE { 3 * work } else { work })
}

/// Items from which on messages leave room enough between controls for all rows to encode, mostly.
const LONG: u32 = 64;
/// Jobs and receivers from which on a fast schedule keeps all controls apart: that costs events, but
/// then few rows have to be tried, those with two controls of one message at once. From there on other
/// schedules are repaired where a row does not encode.
pub(super) const MANY: usize = 20_000;
/// Jobs and receivers from which on every schedule is a fast one.
const ENORMOUS: usize = 2_000_000;
/// Jobs and receivers up to which messages are moved about, the most moves, and the most jobs and
/// receivers that they place.
const MOVABLE: usize = 8_000;
const MOVES: usize = 4_000;
const MOVED: usize = 4_000_000;
/// Moves without a gain that end them, where rows have to encode.
const UNMOVED: usize = 400;
/// Jobs up to which every order is tried, if that takes no more looks for the earliest start of a job
/// than so many at first, and with full effort, so many where other changes did not do, either.
const FEW: usize = 12;
const LOOKS: usize = 10_000;
const MORE_LOOKS: usize = 100_000;
/// Rules whose schedules are improved.
const IMPROVED: usize = 3;
/// A horizon this close to the bound ends the search for a better order: one part in so many.
const CLOSE: u32 = 256;
/// Rounds of changed orders without a gain that end the search.
const STALE: usize = 24;
/// The same for lanes alone, where a round costs less.
const LANES_STALE: usize = 1000;

/// A horizon that needs no improvement.
pub(super) fn goal(bound: u32) -> u32 {
    bound + bound / CLOSE
}

/// Whether a phase is small enough for messages to be moved about.
pub(super) fn is_small(phase: &Phase) -> bool {
    Jobs::new(phase, |_| false).work() <= MOVABLE
}

/// A schedule for one choice of widths.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) rank: Rank,
    pub(super) starts: Vec<Start>,
}

/// The same as it is looked for: the event at which every job starts.
#[derive(Clone, Debug, Default)]
struct Tried {
    rank: Rank,
    events: Vec<u32>,
}

/// What a schedule has to obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    /// The chip's rules; rows must encode.
    Exact,
    /// Lanes only.
    Lanes,
}

/// The best schedule found for one choice of widths.
pub(super) fn best(
    phase: &Phase,
    jobs: &Jobs,
    options: &Options<'_>,
    bound: u32,
) -> Result<Found, ExchangeError> {
    let Tried { rank, events } = look(phase, jobs, options, bound, Timing::Exact)?;
    Ok(Found { rank, starts: starts(jobs, &events) })
}

/// The best schedule found: horizon and the event at which every job starts.
pub(super) fn best_events(
    phase: &Phase,
    jobs: &Jobs,
    options: &Options<'_>,
    bound: u32,
    timing: Timing,
) -> Result<(u32, Vec<u32>), ExchangeError> {
    let Tried { rank, events } = look(phase, jobs, options, bound, timing)?;
    Ok((rank.horizon, events))
}

/// The schedule of one order; with more effort than [`Effort::Fast`], improved until nothing is gained.
pub(super) fn from_order(
    phase: &Phase,
    jobs: &Jobs,
    order: &[u32],
    options: &Options<'_>,
    bound: u32,
) -> Result<Found, ExchangeError> {
    let mut search = Search::new(phase, jobs, options, bound, Timing::Exact);
    let mut tried = search.attempt(order, u32::MAX)?.unwrap_or_default();
    let mut improver = Improver::new(jobs);
    let mut gained = options.effort != Effort::Fast;
    while gained && !search.near(&tried) {
        gained = search.step(&mut improver, &mut tried, false)?;
    }
    Ok(Found { rank: tried.rank, starts: starts(jobs, &tried.events) })
}

fn look(
    phase: &Phase,
    jobs: &Jobs,
    options: &Options<'_>,
    bound: u32,
    timing: Timing,
) -> Result<Tried, ExchangeError> {
    if jobs.is_empty() {
        return Ok(Tried::default());
    }
    let mut search = Search::new(phase, jobs, options, bound, timing);
    let mut found = search.by_rules()?;
    if options.effort != Effort::Fast {
        search.improve(&mut found)?;
    }
    Ok(first(found, |tried| tried.rank, |tried| search.bytes(tried)).unwrap_or_default())
}

/// Why schedules that have no encoding are none: that is a failure only where nothing else is found.
#[derive(Debug, Default)]
pub(super) struct Unencoded(Option<ExchangeError>);

impl Unencoded {
    /// What was found; `None` if that has no encoding.
    pub(super) fn or_none<T>(
        &mut self,
        found: Result<T, ExchangeError>,
    ) -> Result<Option<T>, ExchangeError> {
        match found {
            Err(error @ ExchangeError::Unencodable(_)) => {
                self.0.get_or_insert(error);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// The first failure, unless something was `found`.
    pub(super) fn unless(self, found: bool) -> Result<(), ExchangeError> {
        if found { Ok(()) } else { self.0.map_or(Ok(()), Err) }
    }
}

/// Why not all orders were tried.
enum Ended {
    Unfinished,
    Failed(ExchangeError),
}

impl From<Unfinished> for Ended {
    fn from(Unfinished: Unfinished) -> Ended {
        Ended::Unfinished
    }
}

struct Search<'a> {
    phase: &'a Phase,
    jobs: &'a Jobs,
    options: &'a Options<'a>,
    timing: Timing,
    /// A horizon that needs no improvement.
    goal: u32,
    /// Rounds of changed orders without a gain that end the search.
    stale: usize,
    /// How near controls come before a row was found that does not encode.
    care: Care,
    /// What is left of the budget.
    left: usize,
}

impl<'a> Search<'a> {
    fn new(
        phase: &'a Phase,
        jobs: &'a Jobs,
        options: &'a Options<'a>,
        bound: u32,
        timing: Timing,
    ) -> Search<'a> {
        let (goal, stale) = match timing {
            Timing::Exact => (goal(bound), STALE),
            Timing::Lanes => (bound, LANES_STALE),
        };
        let least = (0..jobs.len()).map(|index| jobs.job(index).items).min().unwrap_or(0);
        let fast = options.effort == Effort::Fast || jobs.work() > ENORMOUS;
        let care = match fast {
            true if jobs.work() > MANY => Care::Alone,
            _ if least < LONG => Care::Apart,
            _ => Care::Free,
        };
        let left = budget(jobs.work());
        Search { phase, jobs, options, timing, goal, stale, care, left }
    }

    /// Schedules by the rules, best first; at least one.
    fn by_rules(&mut self) -> Result<Vec<Tried>, ExchangeError> {
        let mut found: Vec<Tried> = vec![];
        let mut failed = Unencoded::default();
        let full = self.options.effort != Effort::Fast;
        for rule in orders::rules(self.jobs) {
            let enough = !full || 2 * self.left < 5 * self.jobs.work();
            // Rows that are too long are a reason to try every rule.
            let kept = found.first().is_some_and(|found| found.rank.over == Bytes(0));
            if kept && (enough || self.done(&found)) {
                break;
            }
            self.left = self.left.saturating_sub(self.jobs.work());
            let tried = self.attempt(&rule.order(self.jobs), u32::MAX);
            found.extend(failed.or_none(tried)?.flatten());
            found.sort_by_key(|tried| tried.rank);
        }
        failed.unless(!found.is_empty())?;
        Ok(found)
    }

    /// Improves the best schedules found, each until nothing more is gained; then the best one with
    /// changes. The best comes first.
    fn improve(&mut self, found: &mut [Tried]) -> Result<(), ExchangeError> {
        let mut improver = Improver::new(self.jobs);
        for at in 0..found.len().min(IMPROVED) {
            let mut gained = true;
            while gained && !self.done(found) {
                gained = self.step(&mut improver, &mut found[at], false)?;
            }
        }
        found.sort_by_key(|tried| tried.rank);
        let few = self.jobs.len() <= FEW;
        if few && !self.done(found) && self.every_order(&mut found[0], LOOKS)? {
            return Ok(());
        }
        let mut stale = 0;
        while stale < self.stale && !self.done(found) {
            stale = if self.step(&mut improver, &mut found[0], true)? { 0 } else { stale + 1 };
        }
        if self.options.effort != Effort::Full {
            return Ok(());
        }
        // Everything that less effort does comes first, so that more never finds less.
        if few && !self.near(&found[0]) && self.every_order(&mut found[0], MORE_LOOKS)? {
            return Ok(());
        }
        if self.jobs.work() <= MOVABLE {
            self.by_moves(&mut improver, &mut found[0])?;
        }
        Ok(())
    }

    /// Moves messages about while that makes nothing worse.
    fn by_moves(
        &mut self,
        improver: &mut Improver<'_>,
        found: &mut Tried,
    ) -> Result<(), ExchangeError> {
        let unmoved = if self.timing == Timing::Lanes { MOVES } else { UNMOVED };
        let mut stale = 0;
        for _ in 0..MOVES.min(MOVED / self.jobs.work()) {
            if self.near(found) || stale == unmoved {
                break;
            }
            let order = improver.moved(found.rank.horizon, &found.events);
            stale += 1;
            if let Some(other) = self.try_within(&order, found, 0)? {
                stale = if other.rank < found.rank { 0 } else { stale };
                *found = other;
            }
        }
        Ok(())
    }

    /// Tries all orders of few jobs; whether that came to an end.
    fn every_order(&self, best: &mut Tried, looks: usize) -> Result<bool, ExchangeError> {
        let cares = vec![self.care; self.jobs.tiles().into()];
        let rules = match self.timing {
            Timing::Exact => Rules::All(&cares),
            Timing::Lanes => Rules::Lanes,
        };
        let mut order: Vec<u32> = (0..self.jobs.len() as u32).collect();
        order.sort_by_key(|index| best.events[*index as usize]);
        let limit = |best: &Tried| match best.rank.over {
            Bytes(0) if self.near(best) => 0,
            Bytes(0) => best.rank.horizon - 1,
            _ => u32::MAX,
        };
        let mut branching = Branching::new(self.jobs, rules, &order, looks);
        let result = branching.run(limit(best), &mut |order| {
            let better = self.try_to_beat(order, best).map_err(Ended::Failed)?;
            better.into_iter().for_each(|better| *best = better);
            Ok(limit(best))
        });
        match result {
            Ok(()) => Ok(true),
            Err(Ended::Unfinished) => Ok(false),
            Err(Ended::Failed(error)) => Err(error),
        }
    }

    /// Whether a schedule needs no improvement.
    fn near(&self, tried: &Tried) -> bool {
        tried.rank <= Rank::within(self.goal)
    }

    /// Bytes of a schedule's rows; none where rows do not count.
    fn bytes(&self, tried: &Tried) -> RowBytes {
        match self.timing {
            Timing::Exact => bytes(self.phase, self.options, &starts(self.jobs, &tried.events)),
            Timing::Lanes => RowBytes::default(),
        }
    }

    /// Whether to leave it at the best of `found`.
    fn done(&self, found: &[Tried]) -> bool {
        self.left == 0 || found.iter().any(|tried| self.near(tried))
    }

    /// One better order; whether it ends earlier.
    fn step(
        &mut self,
        improver: &mut Improver<'_>,
        found: &mut Tried,
        shaken: bool,
    ) -> Result<bool, ExchangeError> {
        self.left = self.left.saturating_sub(2 * self.jobs.work());
        let order = improver.next(found.rank.horizon, &found.events, shaken);
        let better = self.try_to_beat(&order, found)?;
        let gained = better.is_some();
        better.into_iter().for_each(|better| *found = better);
        Ok(gained)
    }

    /// A schedule of an order that is better than `found`.
    fn try_to_beat(&self, order: &[u32], found: &Tried) -> Result<Option<Tried>, ExchangeError> {
        Ok(self.try_within(order, found, 1)?.filter(|other| other.rank < found.rank))
    }

    /// A schedule of an order that is not worse than `found`, and ends so many events before it where
    /// that keeps the limit of rows. One whose rows have no encoding is none.
    fn try_within(
        &self,
        order: &[u32],
        found: &Tried,
        before: u32,
    ) -> Result<Option<Tried>, ExchangeError> {
        let kept = found.rank.over == Bytes(0);
        let limit = if kept { found.rank.horizon - before } else { u32::MAX };
        let tried = Unencoded::default().or_none(self.attempt(order, limit))?.flatten();
        Ok(tried.filter(|other| other.rank <= found.rank))
    }

    /// Places the jobs in an order; none if that ends after `limit`. Tiles whose rows do not encode
    /// keep their controls farther apart in the next attempt; if no repair helped, all tiles do.
    fn attempt(&self, order: &[u32], limit: u32) -> Result<Option<Tried>, ExchangeError> {
        let stopped = || self.options.stopped();
        let order = &self.jobs.in_order(order);
        if self.timing == Timing::Lanes {
            let placed = place(self.jobs, order, Rules::Lanes, limit, &stopped);
            if placed.is_none() && stopped() {
                return Err(ExchangeError::Stopped);
            }
            let tried = |Placed { events, .. }: Placed| {
                let rank = Rank::within(self.jobs.horizon(&events));
                Tried { rank, events }
            };
            return Ok(placed.map(tried));
        }
        let mut cares = vec![self.care; self.jobs.tiles().into()];
        loop {
            let Some(placed) = place(self.jobs, order, Rules::All(&cares), limit, &stopped) else {
                return if stopped() { Err(ExchangeError::Stopped) } else { Ok(None) };
            };
            let failed = match self.encoded(placed)? {
                Ok(tried) => return Ok(Some(tried).filter(|tried| tried.rank.horizon <= limit)),
                Err(failed) => failed,
            };
            let changed = if self.repairable() {
                let near = cares.iter().any(|care| *care != Care::Alone);
                cares.fill(Care::Alone);
                near
            } else {
                farther(&mut cares, &failed)
            };
            if !changed {
                return Err(ExchangeError::Unencodable(failed[0]));
            }
        }
    }

    /// Whether rows are repaired where they do not encode: with very many jobs, placing all of them again
    /// takes too long, and then other rows fail.
    fn repairable(&self) -> bool {
        self.jobs.work() > MANY && self.jobs.free() && self.jobs.parts().is_empty()
    }

    /// The schedule of placed jobs, repaired if it may be; or what does not encode.
    fn encoded(&self, mut placed: Placed) -> Result<Result<Tried, Vec<RowError>>, ExchangeError> {
        let mut left = if self.repairable() { REPAIRS } else { 0 };
        loop {
            // Only two controls at once can be at odds with where words lie.
            let starts = starts(self.jobs, &placed.events);
            let Err(failed) = rows::encodable(self.phase, &starts, &placed.doubled) else {
                let horizon = self.jobs.horizon(&placed.events);
                let rank = Rank::of(self.phase, self.options, horizon, &starts);
                return Ok(Ok(Tried { rank, events: placed.events }));
            };
            if left == 0 {
                return Ok(Err(failed));
            }
            if self.options.stopped() {
                return Err(ExchangeError::Stopped);
            }
            left -= 1;
            placed = part_controls(self.jobs, placed, &failed);
        }
    }
}
