//! Giving every job, in a given order, the earliest start that fits.

use crate::target::TileId;
use crate::target::instruction::BASE_WRITE;

use super::jobs::{End, Job, Jobs};
use super::lanes::{Accesses, Care, Controls, Lane, Mark, Runs, Touch};
use super::rows::Base;
use super::strips::{self, Strips};

/// When a transfer's first item leaves, and how wide its items are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// S of `target/ipu21.md` §2.3.
    pub event: u32,
    /// 64-bit items.
    pub paired: bool,
    /// S0: the part of S that is not shift.
    pub natural: u32,
    /// Goes on in the send of the transfer that is read before it.
    pub follows: bool,
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
pub struct Tile {
    transmit: Lane,
    /// What windows of 32-bit messages keep clear of.
    receive: Lane,
    /// What windows of 64-bit messages keep clear of, and how those touch; only used where there are
    /// any.
    receive_wide: Lane,
    runs: Runs,
    controls: Controls,
    reads: Accesses,
    writes: Accesses,
    /// End of the last send, and its base: sends that differ in that are placed one after the other.
    based: Option<(u32, Base)>,
}

impl Tile {
    /// The first event from `from` on at which a send from `base` may start: after the last one, and
    /// where that had the other base, [`Job::lead`] events after the begin of a write of the base, in
    /// which neither a control takes effect nor a borrowed lane is busy (`target/ipu21.md` §2.7).
    fn admit_base(&mut self, job: &Job, from: u32, base: Base, busy: u32, controls: bool) -> u32 {
        let Some((end, last)) = self.based else { return from };
        if last == base {
            return from.max(end);
        }
        let lead = job.lead;
        let free = |start: u32| {
            let mut looked = base_write(start - lead);
            !controls || looked.all(|event| self.controls.admits_start(event))
        };
        let mut earliest = |start: u32| {
            let written = start.max(end + lead) - lead;
            self.transmit.earliest(written, lead + busy) + lead
        };
        let mut start = earliest(from);
        while !free(start) {
            start = earliest(start + 1);
        }
        start
    }

    /// The first event from `from` on at which the controls admit the start of a send. Where nothing but
    /// `starts` takes the lane, the events before it are not looked at again.
    fn admit_start(&mut self, from: u32, starts: bool) -> u32 {
        let mut event = from;
        while !self.controls.admits_start(event) {
            event += 1;
        }
        if event > from && starts {
            self.transmit.exclude(from, event);
        }
        event
    }

    /// When a write of the base begins that a send which starts at `event` needs.
    fn base_written(&self, job: &Job, event: u32) -> Option<u32> {
        let differs = self.based.is_some_and(|(_, last)| job.base.is_some_and(|base| base != last));
        differs.then(|| event - job.lead)
    }

    /// Events after `from` at which the controls admit a receive's window, with further `pointers`.
    /// Events that one of the first `shared` marks rules out are not looked at again: those are the same
    /// for all jobs.
    fn admit_receive(
        &mut self,
        job: &Job,
        end: &End,
        from: u32,
        pointers: &[u32],
        care: Care,
        shared: usize,
    ) -> u32 {
        let fits = |(at, mark)| self.controls.admits(at, mark, care);
        let (mut window, mut none) = (from, from);
        loop {
            let marks = marks(job, end, window).into_iter().chain(more(end, window, pointers));
            let Some(refused) = marks.map(fits).position(|fits| !fits) else { break };
            none += u32::from(none == window && refused < shared);
            window += 1;
        }
        if none > from {
            self.receive.exclude(from, none);
        }
        window - from
    }

    /// Whether a 64-bit message's window may start at `window`, where its lane is free.
    fn admits_wide(&self, job: &Job, end: &End, window: u32, controls: bool) -> bool {
        let Some(touch) = self.runs.touch(window, job.items, end.direction) else { return false };
        let mut marks = wide_marks(job, end, window, touch).into_iter().flatten();
        !controls || marks.all(|at| self.controls.admits(at, Mark::Paired, Care::Free))
    }

    /// Takes the events of a 32-bit message's window, and its controls, further `pointers` among them.
    fn receive(
        &mut self,
        job: &Job,
        end: &End,
        window: u32,
        pointers: &[u32],
        rules: Rules<'_>,
        wide: bool,
    ) {
        let last = window + job.items;
        self.receive.occupy(window, last);
        if wide {
            self.receive_wide.cover(window - APART, last + APART);
        }
        if rules != Rules::Lanes {
            let marks = marks(job, end, window).into_iter().chain(more(end, window, pointers));
            marks.for_each(|(at, mark)| self.controls.add(at, mark));
        }
    }

    /// The same of a 64-bit one. Events of controls that a message before or after it does not need any
    /// more (rule R6) stay taken: so what is placed stays legal without that message.
    fn receive_wide(&mut self, job: &Job, end: &End, window: u32, rules: Rules<'_>) {
        let last = window + job.items;
        let touch = self.runs.touch(window, job.items, end.direction).unwrap_or_default();
        self.receive.cover(window - APART, last + APART);
        self.receive_wide.occupy(window, last);
        self.runs.add(window, job.items, end.direction);
        if rules == Rules::Lanes {
            return;
        }
        let marks = wide_marks(job, end, window, touch).into_iter().flatten();
        marks.for_each(|at| self.controls.add(at, Mark::Paired));
    }
}

/// Events between the windows of a 32-bit and a 64-bit message: the format changes after the last word
/// (rule R3), and the pointer after the last 64-bit item follows it by an event less (rule R2).
const APART: u32 = 1;

/// Jobs placed between two looks at whether to stop.
const PATIENCE: usize = 1024;

/// Places all jobs in the order given, which is one of [`Jobs::in_order`]. `None` if one ends after `limit`, or if `stopped` says so on
/// the way.
pub fn place(
    jobs: &Jobs,
    order: &[u32],
    rules: Rules<'_>,
    limit: u32,
    stopped: &dyn Fn() -> bool,
) -> Option<Placed> {
    let alone = |cares: &[Care]| cares.iter().all(|care| *care == Care::Alone);
    if let Rules::All(cares) = rules
        && alone(cares)
        && let Some(strips) = Strips::worthwhile(jobs)
    {
        // Longer phases are begun again between intervals, which give the same starts.
        let last = limit.min(strips::LAST);
        let placed = place_on(strips, jobs, order, last, stopped);
        if placed.is_some() || last == limit {
            return placed;
        }
    }
    place_on(Board::new(jobs, rules), jobs, order, limit, stopped)
}

/// Tiles that jobs are placed on.
pub trait Tiles {
    /// The earliest start from `from` on that all tiles of a job admit.
    fn earliest(&mut self, job: &Job, ends: &[End], from: u32) -> u32;
    /// Puts a job where all its tiles admit it.
    fn occupy(&mut self, job: &Job, ends: &[End], event: u32);
    /// Tiles at which two controls take effect at once.
    fn doubled(&self) -> Vec<TileId>;
}

fn place_on(
    mut board: impl Tiles,
    jobs: &Jobs,
    order: &[u32],
    limit: u32,
    stopped: &dyn Fn() -> bool,
) -> Option<Placed> {
    let mut events = vec![0; jobs.len()];
    let (mut batch, mut ends): (Vec<Job>, Vec<End>) = (vec![], vec![]);
    for some in order.chunks(PATIENCE) {
        if stopped() {
            return None;
        }
        // Jobs lie all over memory: copying many at once keeps each from being waited for.
        batch.clear();
        batch.extend(some.iter().map(|index| *jobs.job(*index as usize)));
        ends.clear();
        batch.iter().for_each(|job| ends.extend_from_slice(jobs.ends_of(job)));
        let mut rest = ends.as_slice();
        for (job, index) in batch.iter().zip(some) {
            let (ends, left) = rest.split_at(jobs.ends_of(job).len());
            rest = left;
            let event = board.earliest(job, ends, jobs.ready(*index, job, &events));
            if job.horizon(event) > limit {
                return None;
            }
            board.occupy(job, ends, event);
            events[*index as usize] = event;
        }
    }
    Some(Placed { events, doubled: board.doubled() })
}

/// Places jobs that are [`Jobs::free`] between others that keep their events. One that cannot keep it,
/// as its memory is in use then, is placed anew, too; `order` says in which order those are.
pub fn place_between(
    jobs: &Jobs,
    kept: &mut [Option<u32>],
    order: impl FnOnce(&mut Vec<u32>),
) -> Placed {
    // None of those placed anew may meet another control: what was encoded stays so.
    let cares = vec![Care::Alone; jobs.tiles().into()];
    let mut board = Board::new(jobs, Rules::All(&cares));
    let mut events = vec![0; jobs.len()];
    for (index, kept) in kept.iter_mut().enumerate() {
        let (job, ends) = (jobs.job(index), jobs.ends(index));
        *kept = kept.filter(|event| !board.accesses_conflict(job, ends, *event));
        if let Some(event) = *kept {
            board.occupy(job, ends, event);
            events[index] = event;
        }
    }
    let is_loose = |index: &u32| kept[*index as usize].is_none();
    let mut loose: Vec<u32> = (0..jobs.len() as u32).filter(is_loose).collect();
    order(&mut loose);
    for index in loose {
        let (job, ends) = (jobs.job(index as usize), jobs.ends(index as usize));
        let event = board.earliest(job, ends, job.natural);
        board.occupy(job, ends, event);
        events[index as usize] = event;
    }
    Placed { events, doubled: board.doubled() }
}

/// What transfers whose jobs start at `events` are for a row.
pub fn starts(jobs: &Jobs, events: &[u32]) -> Vec<Start> {
    let start = |index: usize, before: u32| {
        let Job { paired, natural, .. } = *jobs.job(index);
        let event = events[index] + before;
        Start { event, paired, natural: natural + before, follows: before > 0 }
    };
    match jobs.parts() {
        [] => (0..events.len()).map(|index| start(index, 0)).collect(),
        parts => parts.iter().map(|part| start(part.job as usize, part.before)).collect(),
    }
}

/// All tiles of a phase, part of its jobs placed.
pub struct Board<'a> {
    rules: Rules<'a>,
    tiles: Vec<Tile>,
    /// How many marks of a receive are the same for all jobs: if they are alike, all; if none is
    /// paired, those of its start.
    shared: usize,
    /// Whether any is paired.
    wide: bool,
    /// Whether a transmit lane is taken by its tile's sends alone: it is neither borrowed nor kept free
    /// for base writes.
    starts: bool,
    /// Further pointers of all jobs.
    pointers: &'a [u32],
}

impl<'a> Board<'a> {
    /// Nothing placed.
    pub fn new(jobs: &'a Jobs, rules: Rules<'a>) -> Board<'a> {
        let all = || (0..jobs.len()).map(|index| jobs.job(index));
        let shortest = all().map(|job| job.items).min().unwrap_or(1);
        let shared = match all().all(|job| !job.paired) {
            true if all().all(|job| job.items == shortest) => 3,
            true => 2,
            false => 0,
        };
        let lane = Lane::new(shortest);
        let tile = Tile {
            transmit: lane.clone(),
            receive: lane.clone(),
            receive_wide: lane,
            ..Tile::default()
        };
        let wide = all().any(|job| job.paired);
        let starts = !wide && all().all(|job| job.base.is_none());
        let tiles = vec![tile; usize::from(jobs.tiles())];
        Board { rules, tiles, shared, wide, starts, pointers: jobs.pointers() }
    }

    /// What placing a job changes, as it is before.
    pub fn tiles_of(&self, job: &Job, ends: &[End]) -> Vec<(TileId, Tile)> {
        let lent = job.paired.then(|| job.source.partner());
        let tiles = [job.source].into_iter().chain(lent).chain(ends.iter().map(|end| end.tile));
        tiles.map(|tile| (tile, self.tile(tile).clone())).collect()
    }

    /// Takes back what was changed since.
    pub fn put_back(&mut self, tiles: Vec<(TileId, Tile)>) {
        tiles.into_iter().for_each(|(tile, before)| *self.tile_mut(tile) = before);
    }

    fn tile(&self, tile: TileId) -> &Tile {
        &self.tiles[usize::from(tile.0)]
    }

    fn tile_mut(&mut self, tile: TileId) -> &mut Tile {
        &mut self.tiles[usize::from(tile.0)]
    }

    /// Whether a job that starts at `event` would read or write what is written or read then.
    fn accesses_conflict(&self, job: &Job, ends: &[End], event: u32) -> bool {
        let writes = &self.tile(job.source).writes;
        writes.conflict(event, job.sender_horizon(event), job.mask).is_some()
            || ends.iter().any(|end| {
                let (start, last) = write_span(job, end, event);
                self.tile(end.tile).reads.conflict(start, last, end.mask).is_some()
            })
    }

    /// The earliest start that the sender's tile admits.
    fn sender_earliest(&mut self, job: &Job, from: u32) -> u32 {
        let busy = lane_end(job, from) - from;
        let controls = self.rules != Rules::Lanes;
        let starts = self.starts;
        settle(from, |from| {
            let tile = self.tile_mut(job.source);
            let free = tile.transmit.earliest(from, busy);
            let mut event = if controls { tile.admit_start(free, starts) } else { free };
            if let Some(base) = job.base {
                event = tile.admit_base(job, event, base, busy, controls);
            }
            if let Some(end) = tile.writes.conflict(event, job.sender_horizon(event), job.mask) {
                event = end;
            }
            if job.paired {
                event = self.tile_mut(job.source.partner()).transmit.earliest(event, busy);
            }
            (free, event)
        })
    }

    /// The earliest start that a receiver admits.
    fn receiver_earliest(&mut self, job: &Job, end: &End, from: u32) -> u32 {
        let (rules, shared) = (self.rules, self.shared);
        let pointers = job.pointers(self.pointers);
        let tile = self.tile_mut(end.tile);
        settle(from, |from| {
            let window = from.wrapping_add_signed(end.window);
            let lane = if job.paired { &mut tile.receive_wide } else { &mut tile.receive };
            let found = lane.earliest(window, job.items);
            let free = from + found.saturating_sub(window);
            let mut event = free;
            if job.paired {
                event += u32::from(!tile.admits_wide(job, end, found, rules != Rules::Lanes));
            } else if let Rules::All(cares) = rules {
                let care = cares[usize::from(end.tile.0)];
                event += tile.admit_receive(job, end, found.max(window), pointers, care, shared);
            }
            let (start, last) = write_span(job, end, event);
            let read = tile.reads.conflict(start, last, end.mask);
            (free, event + read.map_or(0, |end| end - start))
        })
    }
}

impl Tiles for Board<'_> {
    fn earliest(&mut self, job: &Job, ends: &[End], from: u32) -> u32 {
        let mut event = self.sender_earliest(job, from);
        // Asked in turn until all agree, the sender after the receivers.
        let (mut agreed, mut next) = (1, 0);
        while agreed <= ends.len() {
            let admitted = match ends.get(next) {
                Some(end) => self.receiver_earliest(job, end, event),
                None => self.sender_earliest(job, event),
            };
            next = if next == ends.len() { 0 } else { next + 1 };
            agreed = if admitted == event { agreed + 1 } else { 1 };
            event = admitted;
        }
        event
    }

    fn occupy(&mut self, job: &Job, ends: &[End], event: u32) {
        let (rules, wide) = (self.rules, self.wide);
        let pointers = job.pointers(self.pointers);
        let last = lane_end(job, event);
        let sender = self.tile_mut(job.source);
        let written = sender.base_written(job, event);
        sender.transmit.occupy(written.unwrap_or(event), last);
        sender.reads.add(event, job.sender_horizon(event), job.mask);
        if rules != Rules::Lanes {
            let written = written.into_iter().flat_map(base_write);
            written.for_each(|event| sender.controls.add_start(event));
            sender.controls.add_start(event);
        }
        sender.based = job.base.map(|base| (last, base));
        if job.paired {
            self.tile_mut(job.source.partner()).transmit.occupy(event, last);
        }
        for end in ends {
            let window = event.wrapping_add_signed(end.window);
            let tile = self.tile_mut(end.tile);
            if job.paired {
                tile.receive_wide(job, end, window, rules);
            } else {
                tile.receive(job, end, window, pointers, rules, wide);
            }
            let (start, last) = write_span(job, end, event);
            tile.writes.add(start, last, end.mask);
        }
    }

    fn doubled(&self) -> Vec<TileId> {
        let tiles = self.tiles.iter().zip(0..);
        let doubled = tiles.filter(|(tile, _)| tile.controls.doubled());
        doubled.map(|(_, number)| TileId(number)).collect()
    }
}

/// The first event from `from` on that `earliest` leaves where it is. That gives the first event at
/// which the lane is free, and the one that it comes to from there: if they are the same, it would
/// leave that one.
#[inline]
fn settle(from: u32, mut earliest: impl FnMut(u32) -> (u32, u32)) -> u32 {
    let mut event = from;
    loop {
        let (free, next) = earliest(event);
        if next == free {
            return next;
        }
        event = next;
    }
}

/// End of the time for which a job takes its transmit lane: a borrowed one is held to the sender's
/// horizon (`target/ipu21.md` §3.3).
fn lane_end(job: &Job, event: u32) -> u32 {
    if job.paired { job.sender_horizon(event) } else { event + job.items }
}

/// Events of a base write that begins at `event`, every other one: a start keeps controls away from
/// two.
fn base_write(event: u32) -> impl Iterator<Item = u32> {
    (event + 1..=event + BASE_WRITE).step_by(2)
}

/// Controls of a 32-bit message's receiver whose source window starts at `window`.
pub fn marks(job: &Job, receiver: &End, window: u32) -> [(u32, Mark); 3] {
    let pointer = window + 52 + 2 * receiver.row;
    [(window, Mark::Source), (pointer, Mark::Pointer), (window + job.items, Mark::Source)]
}

/// The further pointers of a 32-bit message's receiver, before each of which so many items arrive.
fn more(receiver: &End, window: u32, pointers: &[u32]) -> impl Iterator<Item = (u32, Mark)> {
    let pointer = window + 52 + 2 * receiver.row;
    pointers.iter().map(move |before| (pointer + before, Mark::Pointer))
}

/// Events of the controls of a 64-bit message's receiver, of which rule R6 leaves out those that touch
/// another message.
fn wide_marks(job: &Job, receiver: &End, window: u32, touch: Touch) -> [Option<u32>; 5] {
    let format = window + format_gap(receiver);
    let selects = |touches: bool, event: u32| (receiver.early && !touches).then_some(event);
    [
        selects(touch.before, window),
        selects(touch.after, window + job.items),
        (!touch.before).then_some(format),
        Some(format + 2),
        (!touch.after).then_some(format + job.items),
    ]
}

/// Events from a 64-bit message's window to its format (`target/ipu21.md` §3.2).
fn format_gap(receiver: &End) -> u32 {
    51 + 2 * receiver.row
}

/// Events during which a receiver's memory is written if its job starts at `event`.
fn write_span(job: &Job, receiver: &End, event: u32) -> (u32, u32) {
    let start = event.saturating_add_signed(receiver.write);
    (start, start + job.write_events())
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::exchange::phase::Phase;
    use crate::target::Address;

    /// Every tile to every other, messages of 4 to `most` words.
    fn phase(most: u32) -> Phase {
        let mut random = ChaCha8Rng::seed_from_u64(u64::from(most));
        let mut phase = Phase::new(32);
        for (source, distance) in (0..32_u16).flat_map(|tile| (1..32).map(move |far| (tile, far))) {
            let to = (TileId((source + distance) % 32), Address(0x90000 + 64 * u32::from(source)));
            let from = Address(0x60000 + 64 * u32::from(distance));
            phase.add(TileId(source), from, &[to], random.random_range(4..=most)).unwrap();
        }
        phase
    }

    #[test]
    fn what_is_not_looked_at_again_would_not_have_been_taken() {
        for most in [4, 5, 16] {
            let jobs = Jobs::new(&phase(most), |_| false);
            let cares = vec![Care::Apart; jobs.tiles().into()];
            let events = |shared: Option<usize>| {
                let mut board = Board::new(&jobs, Rules::All(&cares));
                board.shared = shared.unwrap_or(board.shared);
                let mut place = |index| {
                    let (job, ends) = (jobs.job(index), jobs.ends(index));
                    let event = board.earliest(job, ends, job.natural);
                    board.occupy(job, ends, event);
                    event
                };
                (0..jobs.len()).map(&mut place).collect::<Vec<u32>>()
            };
            assert_eq!(events(None), events(Some(0)), "up to {most} words");
            // Ends of messages are not shared where lengths differ.
            assert_eq!(events(Some(3)) == events(None), most == 4, "up to {most} words");
        }
    }

    /// Messages between random tiles, of up to `most` words and to up to `wide` tiles.
    fn traffic(random: &mut ChaCha8Rng, most: u32, wide: usize) -> Phase {
        let tiles = random.random_range(2..24);
        let mut phase = Phase::new(tiles);
        let mut next = vec![Address(0x90000); usize::from(tiles)];
        for _ in 0..random.random_range(1..400) {
            let source = TileId(random.random_range(0..tiles));
            let length = random.random_range(1..=most);
            let mut ends: Vec<(TileId, Address)> = vec![];
            for _ in 0..random.random_range(1..=wide) {
                let tile = TileId(random.random_range(0..tiles));
                if tile != source && ends.iter().all(|end| end.0 != tile) {
                    ends.push((tile, next[usize::from(tile.0)]));
                }
            }
            for (tile, address) in &ends {
                next[usize::from(tile.0)] = Address(address.0 + 4 * length);
            }
            if !ends.is_empty() && next.iter().all(|next| next.0 < 0xe0000) {
                phase.add(source, Address(0x60000), &ends, length).unwrap();
            }
        }
        phase
    }

    #[test]
    fn strips_give_every_job_the_start_that_intervals_give() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let (mut doubled, mut compared) = (0, 0);
        for (most, wide) in [(1, 1), (4, 1), (23, 1), (60, 3), (200, 1), (700, 5)].repeat(40) {
            let phase = traffic(&mut random, most, wide);
            let jobs = Jobs::new(&phase, |_| false);
            let cares = vec![Care::Alone; jobs.tiles().into()];
            let mut order: Vec<u32> = (0..jobs.len() as u32).collect();
            if random.random_bool(0.5) {
                order.sort_by_key(|index| std::cmp::Reverse(jobs.job(*index as usize).items));
            }
            let all = Rules::All(&cares);
            let never = || false;
            let strips = Strips::new(&jobs).unwrap();
            let strips = place_on(strips, &jobs, &order, u32::MAX, &never).unwrap();
            let lanes = place_on(Board::new(&jobs, all), &jobs, &order, u32::MAX, &never).unwrap();
            assert_eq!(strips.events, lanes.events, "up to {most} words to up to {wide} tiles");
            assert_eq!(strips.doubled, lanes.doubled);
            doubled += strips.doubled.len();
            compared += jobs.len();
        }
        assert!(doubled > 0 && compared > 10_000);
    }

    #[test]
    fn what_is_too_long_for_strips_is_placed_between_intervals() {
        let mut phase = Phase::new(24);
        for index in 0..40_u16 {
            let to = [(TileId(1 + index % 23), Address(0x90000 + 0x13000 * u32::from(index / 23)))];
            let words = 15_000 + 11 * u32::from(index);
            phase.add(TileId(0), Address(0x60000), &to, words).unwrap();
        }
        let jobs = Jobs::new(&phase, |_| false);
        let cares = vec![Care::Alone; jobs.tiles().into()];
        let order: Vec<u32> = (0..jobs.len() as u32).collect();
        let all = |limit| place(&jobs, &order, Rules::All(&cares), limit, &|| false);
        let placed = all(u32::MAX).unwrap();
        let horizon = jobs.horizon(&placed.events);
        assert!(horizon > 2 * strips::LAST && Strips::worthwhile(&jobs).is_some());
        let mut strips = place_on(Strips::new(&jobs).unwrap(), &jobs, &order, u32::MAX, &|| false);
        assert_eq!(placed.events, strips.take().unwrap().events);
        assert_eq!(all(horizon).unwrap().events, placed.events);
        assert!(all(horizon - 1).is_none() && all(strips::LAST).is_none());
    }
}
