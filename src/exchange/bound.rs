//! What no schedule of a phase can beat.
//!
//! Three things bound a horizon (`target/ipu21.md` §2.3, §2.5): a lane passes one item an event; both
//! transmit lanes of a pair pass all words of its members, whatever the widths, since a 64-bit item
//! takes both; and a memory element is either read or written (rule M1). To each comes the least
//! time before its first item and after its last one.

use super::jobs::{End, Job, Jobs};
use super::phase::Phase;

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
        let wide = (0..phase.len())
            .any(|index| phase.pairable(index))
            .then(|| Jobs::new(phase, |index| phase.pairable(index)));
        Bounds::of(&Jobs::new(phase, |_| false), wide.as_ref())
    }

    /// The bounds of a phase's jobs: all 32-bit, and those 64-bit that can be, if any can.
    pub fn of(narrow: &Jobs, wide: Option<&Jobs>) -> Bounds {
        let ordinary = Loads::new(narrow, narrow).bound();
        let any = wide.map_or(ordinary, |wide| Loads::new(narrow, wide).bound());
        Bounds { ordinary, any }
    }
}

/// What every lane, pair of lanes and memory element has to do.
struct Loads {
    sent: Vec<Port>,
    lent: Vec<Port>,
    received: Vec<Port>,
    elements: Vec<[Element; 32]>,
}

impl Loads {
    /// Each job may be as in `narrow` or as in `wide`.
    fn new(narrow: &Jobs, wide: &Jobs) -> Loads {
        let tiles = usize::from(narrow.tiles());
        let mut loads = Loads {
            sent: vec![Port::default(); tiles],
            lent: vec![Port::default(); tiles.div_ceil(2)],
            received: vec![Port::default(); tiles],
            elements: vec![[Element::default(); 32]; tiles],
        };
        for index in 0..narrow.len() {
            let job = narrow.job(index);
            let other = wide.job(index);
            let after = after(job).min(after(other));
            loads.add_send(job, other.items, after);
            for (end, wide_end) in narrow.ends(index).iter().zip(wide.ends(index)) {
                loads.add_receive(end, wide_end, other.items);
            }
        }
        loads
    }

    fn add_send(&mut self, job: &Job, items: u32, after: u32) {
        let tile = usize::from(job.source.0);
        self.sent[tile].add(items, job.natural, after);
        self.lent[tile / 2].add(job.items, job.natural, after);
        for element in bits(job.mask) {
            self.elements[tile][element].read.add(items, job.natural, after);
        }
    }

    fn add_receive(&mut self, end: &End, wide: &End, items: u32) {
        let tile = usize::from(end.tile.0);
        let arrival = 52 + 2 * end.row;
        self.received[tile].add(items, 1, arrival + GUARD);
        debug_assert_eq!(end.mask, wide.mask);
        for element in bits(end.mask) {
            self.elements[tile][element].written.add(items, 1 + arrival, GUARD);
        }
    }

    fn bound(&self) -> u32 {
        let lanes = self.sent.iter().chain(&self.received).map(Port::bound);
        let pairs = self.lent.iter().map(Port::halved_bound);
        let elements = self.elements.iter().flatten().map(Element::bound);
        lanes.chain(pairs).chain(elements).max().unwrap_or(0)
    }
}

/// Events from a job's last item to the end of the last row that takes part.
fn after(job: &Job) -> u32 {
    job.tail.saturating_sub(job.items)
}

fn bits(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |bit| mask >> bit & 1 != 0)
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
