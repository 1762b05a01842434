//! A phase as the placement sees it: every transfer's lanes, latencies and memory elements, worked
//! out once for all attempts.

use std::collections::BTreeMap;

use crate::target::instruction::BASE_WRITE;
use crate::target::topology::{Direction, direction, paired_time};
use crate::target::{TileId, route, time_to_mux};

use super::lanes::{element_mask, source_mask};
use super::phase::{Phase, Transfer};
use super::rows::Base;
use super::runs::Run;
use super::waits::Waits;

/// One transfer at one width.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Sender.
    pub source: TileId,
    /// Items, one an event.
    pub items: u32,
    /// 64-bit items.
    pub paired: bool,
    /// S0: the earliest start (`target/ipu21.md` §2.3).
    pub natural: u32,
    /// Events from the start without shift to the earliest end of the sender's row (§2.3).
    pub least: u32,
    /// Events from the start to the last receiver's row end.
    pub tail: u32,
    /// Events from the start until all is read and written (§2.3).
    pub completion: u32,
    /// Memory elements that are read, of those that the sender's tile writes too.
    pub mask: u32,
    /// What the sender's base must hold, if its tile's sends differ in that.
    pub base: Option<Base>,
    /// Events from the begin of a write of the base to the start that it is for.
    pub lead: u32,
    first: u32,
    last: u32,
    /// Where its further pointers are.
    pointers: (u32, u32),
}

/// One receiver of a job.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The tile.
    pub tile: TileId,
    /// Its row on the chip.
    pub row: u32,
    /// Source window's start, relative to the send's.
    pub window: i32,
    /// Whether it is a pair's early member (selects the source).
    pub early: bool,
    /// Where its words come from, which is the format of 64-bit ones.
    pub direction: Direction,
    /// Start of the time for which memory is written, relative to the send's.
    pub write: i32,
    /// Memory elements that are written, of those that the tile reads too.
    pub mask: u32,
}

/// All jobs of a phase.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    tiles: u16,
    jobs: Vec<Job>,
    ends: Vec<End>,
    /// The jobs for whose completion each has to wait.
    waits: Waits,
    /// Whether a tile has to write its base inside its row; empty if none has.
    rebased: Vec<bool>,
    /// Items before the further pointers of all jobs.
    pointers: Vec<u32>,
    /// By transfer, what of which job it is; empty if every job is a transfer.
    parts: Vec<Part>,
}

/// A transfer that is part of a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Number of the job.
    pub job: u32,
    /// Items of the job before it.
    pub before: u32,
}

/// A sender's row has at least so many events.
const LEAST: u32 = 6;

impl Jobs {
    /// The transfers of `phase`; those for which `wide` says so are 64-bit.
    pub fn new(phase: &Phase, wide: impl Fn(usize) -> bool) -> Jobs {
        let mut jobs = Jobs { tiles: phase.tiles(), ..Jobs::default() };
        jobs.jobs.reserve(phase.len());
        jobs.rebased = rebased(phase);
        for index in 0..phase.len() {
            jobs.add(phase, &phase.transfer(index), wide(index));
        }
        jobs.waits = Waits::new(phase);
        jobs
    }

    /// The runs of a phase in which no transfer waits for another, all 32-bit: one send each, with a
    /// pointer for every part.
    pub(super) fn of_runs(phase: &Phase, runs: &[Run]) -> Jobs {
        let mut jobs = Jobs { tiles: phase.tiles(), ..Jobs::default() };
        jobs.parts = vec![Part::default(); phase.len()];
        for (run, number) in runs.iter().zip(0..) {
            let first = jobs.pointers.len() as u32;
            let mut words = 0;
            for transfer in run {
                jobs.parts[*transfer as usize] = Part { job: number, before: words };
                jobs.pointers.extend((words > 0).then_some(words));
                words += phase.transfer(*transfer as usize).words;
            }
            let head = phase.transfer(run[0] as usize);
            jobs.add(phase, &Transfer { words, ..head }, false);
            jobs.jobs[number as usize].pointers = (first, jobs.pointers.len() as u32);
        }
        jobs
    }

    /// The transfers without any timing of the chip's: an ordinary item takes one event of the
    /// sender's and of all receivers' lanes at once (N0).
    pub fn without_latency(phase: &Phase) -> Jobs {
        let mut jobs = Jobs::new(phase, |_| false);
        for job in &mut jobs.jobs {
            let completion = job.items;
            *job = Job {
                natural: 0,
                least: 0,
                tail: job.items,
                completion,
                mask: 0,
                base: None,
                ..*job
            };
        }
        for end in &mut jobs.ends {
            *end = End { window: 0, write: 0, mask: 0, ..*end };
        }
        jobs
    }

    fn add(&mut self, phase: &Phase, transfer: &Transfer<'_>, paired: bool) {
        let source = transfer.source;
        let items = if paired { transfer.words / 2 } else { transfer.words };
        let first = self.ends.len() as u32;
        let (mut least, mut tail, mut completion) = (0, 0, items as i32);
        for &(tile, address) in transfer.destinations {
            let time = time_to_mux(source, tile);
            least = least.min(time);
            let window = if paired { paired_time(source, tile) } else { time + 1 };
            let early = paired && route(source, tile).destination_is_early;
            let direction = direction(source, tile);
            let mask = match phase.contended(tile) {
                0 => 0,
                contended => element_mask(address, transfer.words) & contended,
            };
            let row = tile.row();
            let arrival = if paired { 53 } else { 52 } + 2 * row as i32;
            let end = End { tile, row, window, early, direction, write: window + arrival, mask };
            completion = completion.max(end.write + items as i32);
            tail = tail.max(window.saturating_add_unsigned(end.after(items, paired)));
            self.ends.push(end);
        }
        self.jobs.push(Job {
            source,
            items,
            paired,
            natural: -least as u32,
            least: LEAST,
            tail: tail.max(0) as u32,
            completion: completion as u32,
            mask: match phase.contended(source) {
                0 => 0,
                contended => source_mask(transfer) & contended,
            },
            base: self.base(transfer),
            lead: self.ends[first as usize..]
                .iter()
                .find(|end| end.tile == source)
                .map_or(BASE_WRITE, |home| home.lead(items)),
            first,
            last: self.ends.len() as u32,
            pointers: (0, 0),
        });
    }

    fn base(&self, transfer: &Transfer<'_>) -> Option<Base> {
        let differ = self.rebased.get(usize::from(transfer.source.0)).is_some_and(|differ| *differ);
        differ.then_some(if transfer.moves() { Base::Moving } else { Base::Zero })
    }

    /// The same lanes and memory with time running backwards: what ended at the horizon starts at 0.
    /// Neither controls nor what has to wait for what are carried over.
    pub fn reversed(&self) -> Jobs {
        let mut back = Jobs { waits: Waits::default(), ..self.clone() };
        for job in &mut back.jobs {
            for end in &mut back.ends[job.first as usize..job.last as usize] {
                end.window = -end.window;
                end.write = -(end.write + job.write_events() as i32) + job.items as i32;
            }
            let natural = job.natural;
            job.natural = job.tail.saturating_sub(job.items);
            job.tail = job.items + natural;
        }
        back
    }

    /// Number of tiles.
    pub fn tiles(&self) -> u16 {
        self.tiles
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether nothing moves.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether no job waits for another and no tile has to write its base: any order will do.
    pub fn free(&self) -> bool {
        self.waits.is_empty() && !self.rebased.contains(&true)
    }

    /// Of every transfer the part of a job that it is; none if every job is a transfer.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Items before the further pointers of all jobs, which [`Job::pointers`] takes its own from.
    pub fn pointers(&self) -> &[u32] {
        &self.pointers
    }

    /// Whether any job waits for another.
    pub fn has_waits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// The jobs for whose completion a job waits (rule D1), as [`Waits::earlier`] tells them.
    pub fn earlier(&self, index: usize) -> impl Iterator<Item = usize> {
        self.waits.earlier(index as u32).map(|earlier| earlier as usize)
    }

    /// What placing all of them takes: jobs and receivers.
    pub fn work(&self) -> usize {
        self.jobs.len() + self.ends.len()
    }

    /// One job.
    pub fn job(&self, index: usize) -> &Job {
        &self.jobs[index]
    }

    /// The receivers of a job.
    pub fn ends(&self, index: usize) -> &[End] {
        self.ends_of(&self.jobs[index])
    }

    /// The receivers of one of these jobs.
    pub fn ends_of(&self, job: &Job) -> &[End] {
        &self.ends[job.first as usize..job.last as usize]
    }

    /// An order in which no job comes before one that it has to wait for, else as given; but of each
    /// tile that has to write its base, all sends from one base come before those from the other.
    pub fn in_order(&self, order: &[u32]) -> Vec<u32> {
        let order = self.base_by_base(order);
        if self.waits.is_empty() {
            return order;
        }
        let mut taken = vec![false; self.len()];
        let mut sorted = Vec::with_capacity(order.len());
        for &index in &order {
            self.take(index, &mut taken, &mut sorted);
        }
        sorted
    }

    /// Every tile's sends keep the tile's places in the order, but those with the base of its first
    /// come first: a base write takes longer than most changes of order can save.
    fn base_by_base(&self, order: &[u32]) -> Vec<u32> {
        let mut order = order.to_vec();
        if self.rebased.is_empty() {
            return order;
        }
        let mut places: BTreeMap<TileId, Vec<usize>> = BTreeMap::new();
        for (place, index) in order.iter().enumerate() {
            let job = &self.jobs[*index as usize];
            if job.base.is_some() {
                places.entry(job.source).or_default().push(place);
            }
        }
        for places in places.values() {
            let mut sends: Vec<u32> = places.iter().map(|place| order[*place]).collect();
            let base = |index: &u32| self.jobs[*index as usize].base;
            let first = base(&sends[0]);
            sends.sort_by_key(|index| base(index) != first);
            places.iter().zip(sends).for_each(|(place, index)| order[*place] = index);
        }
        order
    }

    /// Takes a job after all that it has to wait for, the first added first; those come earlier in the
    /// phase, so this ends.
    fn take(&self, index: u32, taken: &mut [bool], sorted: &mut Vec<u32>) {
        // A chain may be as long as the phase: no recursion. A job comes here twice, before and after
        // all that it waits for. What one brings here was added before all that the one below it has
        // still to bring: so there are only a few times as many here as there are jobs.
        let mut waiting = vec![(index, false)];
        while let Some((index, brought)) = waiting.pop() {
            if taken[index as usize] {
                continue;
            }
            if brought {
                taken[index as usize] = true;
                sorted.push(index);
                continue;
            }
            waiting.push((index, true));
            let from = waiting.len();
            let open = self.waits.earlier(index).filter(|earlier| !taken[*earlier as usize]);
            waiting.extend(open.map(|earlier| (earlier, false)));
            waiting[from..].sort_unstable_by(|one, other| other.cmp(one));
        }
    }

    /// The earliest start of a job, those that it has to wait for starting at `events` (rule D1): it
    /// waits in full, although its own natural start would leave time.
    pub fn ready(&self, index: u32, job: &Job, events: &[u32]) -> u32 {
        if self.waits.is_empty() {
            return job.natural;
        }
        let completion = |earlier: u32| {
            let at = earlier as usize;
            events[at] + self.jobs[at].completion
        };
        job.natural + self.waits.earlier(index).map(completion).max().unwrap_or(0)
    }

    /// Items that every tile sends (lends included) and receives.
    pub fn loads(&self) -> (Vec<u32>, Vec<u32>) {
        let tiles = usize::from(self.tiles);
        let (mut sent, mut received) = (vec![0_u32; tiles], vec![0_u32; tiles]);
        for (index, job) in self.jobs.iter().enumerate() {
            sent[usize::from(job.source.0)] += job.items;
            if job.paired {
                sent[usize::from(job.source.partner().0)] += job.items;
            }
            for end in self.ends(index) {
                received[usize::from(end.tile.0)] += job.items;
            }
        }
        (sent, received)
    }

    /// Event at which the last row ends if the jobs start at `events`.
    pub fn horizon(&self, events: &[u32]) -> u32 {
        let ends = self.jobs.iter().zip(events).map(|(job, event)| job.horizon(*event));
        ends.max().unwrap_or(0)
    }
}

impl Job {
    /// Items before each further pointer of the job, of those of all.
    pub fn pointers<'a>(&self, all: &'a [u32]) -> &'a [u32] {
        &all[self.pointers.0 as usize..self.pointers.1 as usize]
    }

    /// 32-bit words.
    pub fn words(&self) -> u32 {
        self.items << u32::from(self.paired)
    }

    /// Event at which the sender is through (§2.3).
    pub fn sender_horizon(&self, event: u32) -> u32 {
        (event + self.items).max((event + self.least).saturating_sub(self.natural))
    }

    /// Events during which a receiver's memory is written, up to its horizon (§2.3, §3.2).
    pub fn write_events(&self) -> u32 {
        self.items + if !self.paired && self.items == 52 { 6 } else { 5 }
    }

    /// Event at which the last row that takes part may end.
    pub fn horizon(&self, event: u32) -> u32 {
        self.sender_horizon(event).max(event + self.tail)
    }
}

impl End {
    /// Events from the begin of a write of the base to the start of a send that comes back to its tile:
    /// the fewest with which the source is neither selected nor released during the write. The pointer
    /// and a format take effect after the start.
    fn lead(&self, items: u32) -> u32 {
        let selects = [self.window, self.window.saturating_add_unsigned(items)];
        // A write that ends at the start, or before one of them.
        let ends = [0, selects[0] - 1, selects[1] - 1].into_iter().filter(|end| *end <= 0);
        let write = BASE_WRITE as i32;
        let apart = |end: &i32| selects.iter().all(|at| *at > *end || *at <= *end - write);
        let end = ends.filter(apart).max().unwrap_or_default();
        (write - end) as u32
    }

    /// Events from the window's start to the end of the row (`target/ipu21.md` §2.3, §3.2).
    fn after(&self, items: u32, paired: bool) -> u32 {
        let guard = match (paired, items) {
            (true, _) => 6,
            (false, 52) => 6,
            (false, _) => 5,
        };
        52 + 2 * self.row + items + guard
    }
}

/// Whether each tile sends both from addresses that move and from such that do not; empty if none
/// does.
fn rebased(phase: &Phase) -> Vec<bool> {
    if phase.iterations() == 1 {
        return vec![];
    }
    let mut fixed = vec![false; usize::from(phase.tiles())];
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        fixed[usize::from(transfer.source.0)] |= !transfer.moves();
    }
    let moves = |tile: u16| phase.base(TileId(tile)).is_some();
    (0..phase.tiles()).zip(fixed).map(|(tile, fixed)| fixed && moves(tile)).collect()
}
