//! Giving every job, in a given order, the earliest start that fits.

use crate::target::TileId;

use super::jobs::{End, Job, Jobs};
use super::lanes::{Accesses, Care, Controls, Lane, Mark};

/// When a transfer's first item leaves, and how wide its items are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// S of `target/ipu21.md` §2.3.
    pub event: u32,
    /// 64-bit items.
    pub paired: bool,
    /// S0: the part of S that is not shift.
    pub natural: u32,
}

/// What a placement obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules<'a> {
    /// Everything; how near each tile's controls may come.
    All(&'a [Care]),
    /// No lane is used twice and no element read and written at once, but controls may meet: good
    /// enough to find an order.
    Lanes,
}

/// All jobs placed.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The event at which each starts.
    pub events: Vec<u32>,
    /// Tiles at which two controls take effect at once.
    pub doubled: Vec<TileId>,
}

/// Everything placed on one tile.
#[derive(Clone, Debug, Default)]
struct Tile {
    transmit: Lane,
    receive: Lane,
    controls: Controls,
    reads: Accesses,
    writes: Accesses,
}

/// Jobs placed between two looks at whether to stop.
const PATIENCE: usize = 1024;

/// Places all jobs in the order given. `None` if one ends after `limit`, or if `stopped` says so on
/// the way.
pub fn place(
    jobs: &Jobs,
    order: &[u32],
    rules: Rules<'_>,
    limit: u32,
    stopped: &dyn Fn() -> bool,
) -> Option<Placed> {
    let mut events = vec![0; jobs.len()];
    let mut board = Board::new(jobs, rules);
    for (count, &index) in order.iter().enumerate() {
        if count % PATIENCE == 0 && stopped() {
            return None;
        }
        let event = board.earliest(index as usize);
        if jobs.job(index as usize).horizon(event) > limit {
            return None;
        }
        board.occupy(index as usize, event);
        events[index as usize] = event;
    }
    let doubled = |tile: &TileId| board.tile(*tile).controls.doubled();
    let doubled = (0..jobs.tiles()).map(TileId).filter(doubled).collect();
    Some(Placed { events, doubled })
}

/// What jobs that start at `events` are for a row.
pub fn starts(jobs: &Jobs, events: &[u32]) -> Vec<Start> {
    let start = |(index, event): (usize, &u32)| {
        let job = jobs.job(index);
        Start { event: *event, paired: job.paired, natural: job.natural }
    };
    events.iter().enumerate().map(start).collect()
}

/// All tiles of a phase, part of its jobs placed.
struct Board<'a> {
    jobs: &'a Jobs,
    rules: Rules<'a>,
    tiles: Vec<Tile>,
}

impl<'a> Board<'a> {
    fn new(jobs: &'a Jobs, rules: Rules<'a>) -> Board<'a> {
        let shortest = (0..jobs.len()).map(|index| jobs.job(index).items).min().unwrap_or(1);
        let lane = Lane::new(shortest);
        let tile = Tile { transmit: lane.clone(), receive: lane, ..Tile::default() };
        Board { jobs, rules, tiles: vec![tile; usize::from(jobs.tiles())] }
    }

    fn tile(&self, tile: TileId) -> &Tile {
        &self.tiles[usize::from(tile.0)]
    }

    fn tile_mut(&mut self, tile: TileId) -> &mut Tile {
        &mut self.tiles[usize::from(tile.0)]
    }

    /// The earliest start that all lanes, controls and elements admit.
    fn earliest(&self, index: usize) -> u32 {
        let job = self.jobs.job(index);
        let mut event = job.natural;
        loop {
            let before = event;
            event = self.sender_earliest(job, event);
            for end in self.jobs.ends(index) {
                event = self.receiver_earliest(job, end, event);
            }
            if event == before {
                return event;
            }
        }
    }

    fn sender_earliest(&self, job: &Job, from: u32) -> u32 {
        let tile = self.tile(job.source);
        let busy = |event| lane_end(job, event) - event;
        let mut event = tile.transmit.earliest(from, busy(from));
        if job.paired {
            let partner = self.tile(job.source.partner());
            event = partner.transmit.earliest(event, busy(event));
        }
        if self.rules != Rules::Lanes && !tile.controls.admits_start(event) {
            return event + 1;
        }
        match tile.writes.conflict(event, job.sender_horizon(event), job.mask) {
            Some(end) => end,
            None => event,
        }
    }

    fn receiver_earliest(&self, job: &Job, end: &End, from: u32) -> u32 {
        let tile = self.tile(end.tile);
        let window = from.wrapping_add_signed(end.window);
        // A paired window keeps an event on both sides for its own controls.
        let (before, length) = if job.paired { (1, job.items + 2) } else { (0, job.items) };
        let found = tile.receive.earliest(window.saturating_sub(before), length) + before;
        let event = from + found.saturating_sub(window);
        if let Rules::All(cares) = self.rules {
            let window = event.wrapping_add_signed(end.window);
            let care = cares[usize::from(end.tile.0)];
            let fits = |(at, mark)| tile.controls.admits(at, mark, care);
            if !marks(job, end, window).into_iter().flatten().all(fits) {
                return event + 1;
            }
        }
        let (start, last) = write_span(job, end, event);
        match tile.reads.conflict(start, last, end.mask) {
            Some(free) => event + (free - start),
            None => event,
        }
    }

    fn occupy(&mut self, index: usize, event: u32) {
        let (jobs, rules) = (self.jobs, self.rules);
        let job = jobs.job(index);
        let last = lane_end(job, event);
        let sender = self.tile_mut(job.source);
        sender.transmit.occupy(event, last);
        sender.reads.add(event, job.sender_horizon(event), job.mask);
        if rules != Rules::Lanes {
            sender.controls.add_start(event);
        }
        if job.paired {
            self.tile_mut(job.source.partner()).transmit.occupy(event, last);
        }
        for end in jobs.ends(index) {
            let window = event.wrapping_add_signed(end.window);
            let tile = self.tile_mut(end.tile);
            let side = u32::from(job.paired);
            tile.receive.occupy(window - side, window + job.items + side);
            let (start, last) = write_span(job, end, event);
            tile.writes.add(start, last, end.mask);
            if rules == Rules::Lanes {
                continue;
            }
            for (at, mark) in marks(job, end, window).into_iter().flatten() {
                tile.controls.add(at, mark);
            }
        }
    }
}

/// End of the time for which a job takes its transmit lane: a borrowed one is held to the sender's
/// horizon (`target/ipu21.md` §3.3).
fn lane_end(job: &Job, event: u32) -> u32 {
    if job.paired { job.sender_horizon(event) } else { event + job.items }
}

/// Controls of a receiver whose source window starts at `window`.
fn marks(job: &Job, receiver: &End, window: u32) -> [Option<(u32, Mark)>; 5] {
    let end = window + job.items;
    if !job.paired {
        let pointer = window + 52 + 2 * receiver.row;
        return [
            Some((window, Mark::Select)),
            Some((end, Mark::Release)),
            Some((pointer, Mark::Pointer)),
            None,
            None,
        ];
    }
    let format = window + 51 + 2 * receiver.row;
    let select = receiver.early.then_some((window, Mark::Paired));
    let release = receiver.early.then_some((end, Mark::Paired));
    [
        select,
        release,
        Some((format, Mark::Paired)),
        Some((format + 2, Mark::Paired)),
        Some((format + job.items, Mark::Paired)),
    ]
}

/// Events during which a receiver's memory is written if its job starts at `event`.
fn write_span(job: &Job, receiver: &End, event: u32) -> (u32, u32) {
    let start = event.saturating_add_signed(receiver.write);
    (start, start + job.write_events())
}
