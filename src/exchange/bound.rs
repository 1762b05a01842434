//! What no schedule of a phase can beat.
//!
//! Five things bound a horizon (`target/ipu21.md` §2.3, §2.5): a lane passes one item an event; both
//! transmit lanes of a pair pass all words of its members, whatever the widths, since a 64-bit item
//! takes both; a memory element is either read or written (rule M1); a control of a tile takes
//! effect at none of the first two events of its sends (rule S3); and who has to wait for others
//! starts after their completion (rule D1). To each of the first four comes the least time before
//! its first event and after its last one; where transfers wait, that is the time of all that they
//! wait for, and of all that waits for them.

use crate::target::TileId;

use super::Width;
use super::jobs::{End, Job, Jobs};
use super::joins::join;
use super::phase::Phase;
use super::runs;

/// Events between a write and the read that may follow it in one element (rule M1, §2.3).
const GUARD: u32 = 5;

/// A lower bound on the horizon, whichever transfers are 64-bit.
pub fn lower_bound(phase: &Phase) -> u32 {
    Bounds::new(phase).any
}

/// Lower bounds on the horizon of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// With all transfers 32-bit.
    pub ordinary: u32,
    /// With any of the eligible transfers 64-bit.
    pub any: u32,
}

impl Bounds {
    /// The bounds of a phase.
    pub fn new(phase: &Phase) -> Bounds {
        let apart = Bounds::of_messages(phase);
        // Transfers that continue one another need no controls between them, and can be wider.
        let Some(joined) = join(phase) else { return apart };
        let Bounds { ordinary, any } = Bounds::of_messages(&joined);
        Bounds { ordinary: ordinary.min(apart.ordinary), any: any.min(apart.any) }
    }

    /// The bound of schedules in the widths asked for.
    pub fn of_width(self, width: Width) -> u32 {
        if width == Width::Ordinary { self.ordinary } else { self.any }
    }

    fn of_messages(phase: &Phase) -> Bounds {
        let wide = (0..phase.len())
            .any(|index| phase.pairable(index))
            .then(|| Jobs::new(phase, |index| phase.pairable(index)));
        Bounds::of(phase, &Jobs::new(phase, |_| false), wide.as_ref())
    }

    /// The bounds of a phase's jobs: all 32-bit, and those 64-bit that can be, if any can.
    pub fn of(phase: &Phase, narrow: &Jobs, wide: Option<&Jobs>) -> Bounds {
        let bound = |wide: &Jobs| {
            let first = |index: usize| narrow.job(index).items.min(wide.job(index).items).min(2);
            Loads::new(narrow, wide).bound(|| runs::first_events(phase, first))
        };
        let ordinary = bound(narrow);
        Bounds { ordinary, any: wide.map_or(ordinary, bound) }
    }
}

/// What every lane, pair of lanes and memory element has to do.
struct Loads {
    sent: Vec<Port>,
    lent: Vec<Port>,
    received: Vec<Port>,
    /// By tile; none if no tile reads and writes one element.
    elements: Vec<[Element; 32]>,
    slots: Vec<Slots>,
    /// The longest chain of transfers that wait for one another.
    chain: u32,
    /// Whether a tile must select a source: one bit for each source, tile after tile.
    selected: Vec<u64>,
}

impl Loads {
    /// Each job may be as in `narrow` or as in `wide`.
    fn new(narrow: &Jobs, wide: &Jobs) -> Loads {
        let tiles = usize::from(narrow.tiles());
        let mut loads = Loads {
            sent: vec![Port::default(); tiles],
            lent: vec![Port::default(); tiles.div_ceil(2)],
            received: vec![Port::default(); tiles],
            elements: vec![],
            slots: vec![Slots::default(); tiles],
            chain: 0,
            selected: vec![0; (tiles * tiles).div_ceil(64)],
        };
        let chains = Chains::new(narrow, wide);
        for index in 0..narrow.len() {
            let job = narrow.job(index);
            let other = wide.job(index);
            let wait = chains.of(index);
            if narrow.has_waits() {
                let horizon = wait.horizon(job).min(wait.horizon(other));
                loads.chain = loads.chain.max(horizon);
            }
            loads.add_send(job, other, wait);
            loads.slots[usize::from(job.source.0)].add_send(job, other);
            for (end, wide_end) in narrow.ends(index).iter().zip(wide.ends(index)) {
                loads.add_receive(end, wide_end, other.items, wait);
                if !other.paired {
                    loads.add_select(end, job.source);
                }
            }
        }
        loads
    }

    fn add_send(&mut self, job: &Job, wide: &Job, wait: Wait) {
        let tile = usize::from(job.source.0);
        let before = wait.before + job.natural;
        let after = wait.after_send(job).min(wait.after_send(wide));
        self.sent[tile].add(wide.items, before, after);
        self.lent[tile / 2].add(job.items, before, after);
        for element in bits(job.mask) {
            self.element(tile, element).read.add(wide.items, before, after);
        }
    }

    fn add_receive(&mut self, end: &End, wide: &End, items: u32, wait: Wait) {
        let tile = usize::from(end.tile.0);
        let arrival = 52 + 2 * end.row;
        // No window opens before event 1 of the time that is not waited for, and who waits for the
        // words starts after the last of them is written.
        let (before, after) = (wait.before + 1, wait.after.max(GUARD));
        self.received[tile].add(items, before, arrival + after);
        debug_assert_eq!(end.mask, wide.mask);
        for element in bits(end.mask) {
            self.element(tile, element).written.add(items, before + arrival, after);
        }
    }

    fn element(&mut self, tile: usize, element: usize) -> &mut Element {
        if self.elements.is_empty() {
            self.elements = vec![[Element::default(); 32]; self.sent.len()];
        }
        &mut self.elements[tile][element]
    }

    fn add_select(&mut self, end: &End, source: TileId) {
        let tile = usize::from(end.tile.0);
        let at = tile * self.sent.len() + usize::from(source.0);
        let (selected, bit) = (&mut self.selected[at / 64], 1 << (at % 64));
        if *selected & bit == 0 {
            *selected |= bit;
            self.slots[tile].add_source(end);
        }
    }

    /// `starts`: by tile, events that starts of sends take at least, where one that goes on in another
    /// needs none. That takes longer to find than all others, and seldom matters.
    fn bound(&self, starts: impl FnOnce() -> Vec<u32>) -> u32 {
        let lanes = self.sent.iter().chain(&self.received).map(Port::bound);
        let pairs = self.lent.iter().map(Port::halved_bound);
        let elements = self.elements.iter().flatten().map(Element::bound);
        let least = lanes.chain(pairs).chain(elements).max().unwrap_or(0).max(self.chain);
        if self.slots.iter().all(|slots| slots.bound(slots.starts) <= least) {
            return least;
        }
        let slots = self.slots.iter().zip(starts()).map(|(slots, starts)| slots.bound(starts));
        least.max(slots.max().unwrap_or(0))
    }
}

/// What no job can start before, and how long it goes on after it, by the rule that who passes words
/// on waits for their completion.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    /// The least event at which all that it waits for is complete; 0 if it waits for none.
    before: u32,
    /// The least time from its completion to the end of the last row of those that wait for it; 0 if
    /// none does.
    after: u32,
}

impl Wait {
    /// The least event at which the last row ends that this job or one that waits for it takes part
    /// in.
    fn horizon(self, job: &Job) -> u32 {
        let start = self.before + job.natural;
        job.horizon(start).max(start + self.following(job))
    }

    /// The least time from the job's start to the end of the last row of those that wait for it.
    fn following(self, job: &Job) -> u32 {
        if self.after == 0 { 0 } else { job.completion + self.after }
    }

    /// Events from the job's last item to the end of the last row that takes part, or that follows.
    fn after_send(self, job: &Job) -> u32 {
        job.tail.max(self.following(job)).saturating_sub(job.items)
    }
}

/// The waits of all jobs; none if no job waits.
struct Chains(Vec<Wait>);

impl Chains {
    /// The longest paths: jobs only wait for earlier ones, so one way through them gives what comes
    /// before each, and one way back what comes after it. Each job has the width that is done first.
    fn new(narrow: &Jobs, wide: &Jobs) -> Chains {
        if !narrow.has_waits() {
            return Chains(vec![]);
        }
        let mut waits = vec![Wait::default(); narrow.len()];
        let least =
            |index: usize, of: &dyn Fn(&Job) -> u32| of(narrow.job(index)).min(of(wide.job(index)));
        for index in 0..narrow.len() {
            let complete = |earlier: usize| {
                waits[earlier].before + least(earlier, &|job| job.natural + job.completion)
            };
            waits[index].before = narrow.earlier(index).map(complete).max().unwrap_or(0);
        }
        for index in (0..narrow.len()).rev() {
            let wait = Wait { before: 0, after: waits[index].after };
            let whole = least(index, &|job| wait.horizon(job));
            for earlier in narrow.earlier(index) {
                waits[earlier].after = waits[earlier].after.max(whole);
            }
        }
        Chains(waits)
    }

    fn of(&self, index: usize) -> Wait {
        self.0.get(index).copied().unwrap_or_default()
    }
}

fn bits(mask: u32) -> impl Iterator<Item = usize> {
    let some = if mask == 0 { 0..0 } else { 0..32 };
    some.filter(move |bit| mask >> bit & 1 != 0)
}

/// Something that passes one item an event: items, the least time before and after any of them.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    items: u32,
    ends: Option<(u32, u32)>,
}

impl Port {
    fn add(&mut self, items: u32, before: u32, after: u32) {
        self.items += items;
        let (least_before, least_after) = self.ends.unwrap_or((before, after));
        self.ends = Some((least_before.min(before), least_after.min(after)));
    }

    fn bound(&self) -> u32 {
        self.ends.map_or(0, |(before, after)| before + self.items + after)
    }

    /// For two lanes that share the items.
    fn halved_bound(&self) -> u32 {
        Port { items: self.items.div_ceil(2), ..*self }.bound()
    }
}

/// A memory element: what is read from it and written into it.
#[derive(Clone, Copy, Debug, Default)]
struct Element {
    read: Port,
    written: Port,
}

impl Element {
    /// Reads and writes exclude each other, and a read after a write waits for its guard.
    fn bound(&self) -> u32 {
        let (Some(read), Some(written)) = (self.read.ends, self.written.ends) else { return 0 };
        let busy = self.read.items + self.written.items;
        let ends_with_write = read.0.min(written.0) + busy + written.1;
        let ends_with_read = read.0.min(written.0) + busy + GUARD + read.1;
        ends_with_write.min(ends_with_read)
    }
}

/// Events of a tile that exclude each other: the first two of every send, and those at which another
/// source is selected.
#[derive(Clone, Copy, Debug, Default)]
struct Slots {
    /// First events of sends, and second ones where the next send cannot start there, if none goes on in
    /// another.
    starts: u32,
    /// Sources that only ordinary messages come from.
    sources: u32,
    /// The least natural start of a send.
    natural: Option<u32>,
    /// The least time from one of these events to the end of the last row.
    after: Option<u32>,
}

impl Slots {
    fn add_send(&mut self, narrow: &Job, wide: &Job) {
        self.starts += narrow.items.min(wide.items).min(2);
        let natural = narrow.natural.min(wide.natural);
        self.natural = Some(self.natural.map_or(natural, |least| least.min(natural)));
        self.ends(narrow.tail.min(wide.tail).saturating_sub(1));
    }

    fn add_source(&mut self, end: &End) {
        self.sources += 1;
        // From the last release to the row's end.
        self.ends(52 + 2 * end.row + GUARD);
    }

    fn ends(&mut self, after: u32) {
        self.after = Some(self.after.map_or(after, |least| least.min(after)));
    }

    fn bound(&self, starts: u32) -> u32 {
        let (1.., Some(after)) = (self.sources, self.after) else { return 0 };
        // No window opens before event 1, and the last one is closed by a release.
        let first = self.natural.unwrap_or(1).min(1);
        first + starts + self.sources + after
    }
}
