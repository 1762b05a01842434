//! All orders of a few jobs: each is placed after the other, as long as what is left can still end in
//! time.

use super::jobs::Jobs;
use super::place::{Board, Rules, Tiles};

/// Looks for the earliest start of a job have run out before all orders were tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unfinished;

/// Looks that an order counts, for each of its jobs: all are placed again, and their rows written.
const ORDER: usize = 4;

/// A job at a lane through which one at a time can pass.
struct Passage {
    job: usize,
    /// Events from its start to when it passes.
    begins: i32,
    items: u32,
}

/// The way down to one order.
pub(super) struct Branching<'a> {
    jobs: &'a Jobs,
    board: Board<'a>,
    /// What passes each lane that more than one passes.
    lanes: Vec<Vec<Passage>>,
    /// Whether two jobs have a tile in common: if not, it does not matter which is placed first.
    meet: Vec<bool>,
    /// First choice of what is placed next.
    preferred: Vec<u32>,
    order: Vec<u32>,
    placed: Vec<bool>,
    events: Vec<u32>,
    limit: u32,
    looks: usize,
}

impl<'a> Branching<'a> {
    /// Tries orders near to `preferred` first, and looks for a start so many times at most.
    pub(super) fn new(
        jobs: &'a Jobs,
        rules: Rules<'a>,
        preferred: &[u32],
        looks: usize,
    ) -> Branching<'a> {
        Branching {
            jobs,
            board: Board::new(jobs, rules),
            lanes: lanes(jobs),
            meet: meetings(jobs),
            preferred: preferred.to_vec(),
            order: vec![],
            placed: vec![false; jobs.len()],
            events: vec![0; jobs.len()],
            limit: 0,
            looks,
        }
    }

    /// Gives every order that may end by `limit` to `found`, which says what the limit is from then
    /// on. Of orders that lead to the same schedule for certain, it gives one.
    ///
    /// # Errors
    /// [`Unfinished`], or what `found` fails with.
    pub(super) fn run<E: From<Unfinished>>(
        &mut self,
        limit: u32,
        found: &mut impl FnMut(&[u32]) -> Result<u32, E>,
    ) -> Result<(), E> {
        self.limit = limit;
        self.next(found)
    }

    fn next<E: From<Unfinished>>(
        &mut self,
        found: &mut impl FnMut(&[u32]) -> Result<u32, E>,
    ) -> Result<(), E> {
        if self.order.len() == self.jobs.len() {
            self.look(ORDER * self.jobs.len())?;
            self.limit = found(&self.order)?;
            return Ok(());
        }
        let starts = self.starts()?;
        if self.least(&starts) > self.limit {
            return Ok(());
        }
        for place in 0..self.preferred.len() {
            let index = self.preferred[place];
            let at = index as usize;
            let (job, ends) = (self.jobs.job(at), self.jobs.ends(at));
            let event = starts[at];
            if self.placed[at] || !self.is_next(place) || job.horizon(event) > self.limit {
                continue;
            }
            let before = self.board.tiles_of(job, ends);
            self.board.occupy(job, ends, event);
            self.order.push(index);
            (self.placed[at], self.events[at]) = (true, event);
            self.next(found)?;
            (self.placed[at], self.events[at]) = (false, 0);
            self.order.pop();
            self.board.put_back(before);
        }
        Ok(())
    }

    /// The earliest starts of all jobs that are not placed.
    fn starts(&mut self) -> Result<Vec<u32>, Unfinished> {
        let mut starts = vec![0; self.jobs.len()];
        for (at, start) in starts.iter_mut().enumerate() {
            if self.placed[at] {
                continue;
            }
            self.look(1)?;
            let job = self.jobs.job(at);
            // What is not placed yet starts at 0 at the earliest.
            let ready = self.jobs.ready(at as u32, job, &self.events);
            *start = self.board.earliest(job, self.jobs.ends(at), ready);
        }
        Ok(starts)
    }

    /// Counts looks for a start.
    fn look(&mut self, looks: usize) -> Result<(), Unfinished> {
        self.looks = self.looks.checked_sub(looks).ok_or(Unfinished)?;
        Ok(())
    }

    /// The earliest event at which all can end.
    fn least(&self, starts: &[u32]) -> u32 {
        let left = (0..starts.len()).filter(|at| !self.placed[*at]);
        let alone = left.map(|at| self.jobs.job(at).horizon(starts[at]));
        let lanes = self.lanes.iter().map(|lane| self.least_of(lane, starts));
        alone.chain(lanes).max().unwrap_or(0)
    }

    /// The same of what passes one lane, whose jobs may interrupt one another: then it is best to let
    /// that pass of which most is left afterwards (the preemptive bound of Jackson, 1955).
    fn least_of(&self, lane: &[Passage], starts: &[u32]) -> u32 {
        let left = lane.iter().filter(|passage| !self.placed[passage.job]);
        // When each can pass, its items, and what comes after the last of them.
        let mut left: Vec<(u32, u32, u32)> = left
            .map(|passage| {
                let start = starts[passage.job];
                let from = start.wrapping_add_signed(passage.begins);
                let end = self.jobs.job(passage.job).horizon(start);
                (from, passage.items, end.saturating_sub(from + passage.items))
            })
            .collect();
        left.sort_unstable();
        let (mut now, mut least) = (0, 0);
        while let Some(first) = left.first() {
            now = now.max(first.0);
            let next = left.iter().map(|passage| passage.0).find(|from| *from > now);
            let ready = left.iter().take_while(|passage| passage.0 <= now);
            let (at, passes) = ready
                .enumerate()
                .max_by_key(|(_, passage)| passage.2)
                .map_or((0, *first), |(at, passage)| (at, *passage));
            let items = next.map_or(passes.1, |next| passes.1.min(next - now));
            now += items;
            if items == passes.1 {
                least = least.max(now + passes.2);
                left.remove(at);
            } else {
                left[at].1 -= items;
            }
        }
        least
    }

    /// Whether a job may be placed next: all that it waits for is placed, and no order that leads to
    /// the same schedule is tried elsewhere.
    fn is_next(&self, place: usize) -> bool {
        let at = self.preferred[place] as usize;
        let waits = self.jobs.earlier(at).any(|earlier| !self.placed[earlier]);
        let swaps = self.order.last().is_some_and(|last| {
            let before = self.preferred[..place].contains(last);
            !before && !self.meet[*last as usize * self.jobs.len() + at]
        });
        !waits && !swaps
    }
}

/// The lanes of all tiles that more than one job passes, those for sending first.
fn lanes(jobs: &Jobs) -> Vec<Vec<Passage>> {
    let tiles = usize::from(jobs.tiles());
    let mut lanes: Vec<Vec<Passage>> = (0..2 * tiles).map(|_| vec![]).collect();
    for at in 0..jobs.len() {
        let job = jobs.job(at);
        let mut pass = |lane: usize, begins: i32| {
            lanes[lane].push(Passage { job: at, begins, items: job.items });
        };
        pass(job.source.0.into(), 0);
        if job.paired {
            pass(job.source.partner().0.into(), 0);
        }
        jobs.ends(at).iter().for_each(|end| pass(tiles + usize::from(end.tile.0), end.window));
    }
    lanes.retain(|lane| lane.len() > 1);
    lanes
}

/// Whether each two jobs have a tile in common, or one waits for the other.
fn meetings(jobs: &Jobs) -> Vec<bool> {
    let tiles = |at: usize| {
        let source = jobs.job(at).source;
        let ends = jobs.ends(at).iter().map(|end| end.tile);
        ends.chain([source, source.partner()])
    };
    let meet = |one: usize, other: usize| {
        let shared = tiles(one).any(|tile| tiles(other).any(|with| with == tile));
        shared || jobs.earlier(one).any(|at| at == other) || jobs.earlier(other).any(|at| at == one)
    };
    let all = 0..jobs.len();
    all.clone().flat_map(|one| all.clone().map(move |other| meet(one, other))).collect()
}
