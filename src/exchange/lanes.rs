//! What is already placed on one tile: lanes, controls, memory accesses.

use crate::target::sram::elements;
use crate::target::{Address, Bytes};

use super::phase::Phase;

/// Busy intervals of a lane, sorted and disjoint. Gaps that are too short for any message count as
/// busy: nothing is lost, and a full lane is one interval.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    busy: Vec<(u32, u32)>,
    shortest: u32,
}

impl Lane {
    /// An empty lane for messages of at least `shortest` events.
    pub fn new(shortest: u32) -> Lane {
        Lane { busy: vec![], shortest }
    }

    /// The earliest `start ≥ from` at which `length` events are free.
    pub fn earliest(&self, from: u32, length: u32) -> u32 {
        let mut at = self.busy.partition_point(|interval| interval.1 <= from);
        let mut start = from;
        while let Some(interval) = self.busy.get(at) {
            if start + length <= interval.0 {
                break;
            }
            start = start.max(interval.1);
            at += 1;
        }
        start
    }

    /// Occupies `[start, end)`, which must be free.
    pub fn occupy(&mut self, start: u32, end: u32) {
        let at = self.busy.partition_point(|interval| interval.0 < start);
        let unusable = |gap: u32| gap == 0 || gap < self.shortest;
        let joins_left = at > 0 && unusable(start - self.busy[at - 1].1);
        let joins_right = self.busy.get(at).is_some_and(|interval| unusable(interval.0 - end));
        match (joins_left, joins_right) {
            (true, true) => {
                self.busy[at - 1].1 = self.busy[at].1;
                self.busy.remove(at);
            }
            (true, false) => self.busy[at - 1].1 = end,
            (false, true) => self.busy[at].0 = start,
            (false, false) => self.busy.insert(at, (start, end)),
        }
    }
}

/// What takes effect at one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// An ordinary source select.
    Select,
    /// An ordinary release: gone where a select takes its place (rule R4).
    Release,
    /// An ordinary pointer.
    Pointer,
    /// Anything paired: shares its event with nothing.
    Paired,
}

/// How near the controls of a tile may come. Two at once need a two-word instruction at an even word
/// (rule C3), for which a row has not always the instruction that can be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Care {
    /// As near as the rules allow.
    Free,
    /// After two at once two events stay free: then an instruction that can be split follows.
    Apart,
    /// Never two at once, except where one replaces the other.
    Alone,
}

/// Controls and send starts of a tile: one byte an event, so that a look costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Controls {
    events: Vec<u8>,
    doubled: bool,
}

const SELECT: u8 = 1;
const RELEASE: u8 = 2;
const POINTER: u8 = 4;
const PAIRED: u8 = 8;
const START: u8 = 16;
const MARKS: u8 = SELECT | RELEASE | POINTER | PAIRED;

/// Whether two controls take effect at once.
fn is_double(flags: u8) -> bool {
    flags & POINTER != 0 && flags & (SELECT | RELEASE) != 0
}

impl Controls {
    fn at(&self, event: u32) -> u8 {
        self.events.get(event as usize).copied().unwrap_or(0)
    }

    fn put(&mut self, event: u32, flag: u8) {
        let at = event as usize;
        if at >= self.events.len() {
            self.events.resize((at + 1).next_power_of_two(), 0);
        }
        self.events[at] |= flag;
        self.doubled |= is_double(self.events[at]);
    }

    /// Whether two controls take effect at once anywhere.
    pub fn doubled(&self) -> bool {
        self.doubled
    }

    /// Whether a control may take effect at `event`: it does not meet another one that it must not
    /// meet (rules C1, R4), nor the first two events of a send (rule S3).
    pub fn admits(&self, event: u32, mark: Mark, care: Care) -> bool {
        let here = self.at(event);
        let (last, before) = (self.at(event.wrapping_sub(1)), self.at(event.wrapping_sub(2)));
        if (here | last) & START != 0 {
            return false;
        }
        let (meets, joins) = match mark {
            Mark::Select => (SELECT | PAIRED, POINTER),
            Mark::Release => (RELEASE | PAIRED, POINTER),
            Mark::Pointer => (POINTER | PAIRED, SELECT | RELEASE),
            Mark::Paired => (MARKS, 0),
        };
        if here & meets != 0 {
            return false;
        }
        match (care, here & joins != 0) {
            (Care::Free, _) => true,
            (Care::Alone, joins) => !joins,
            (Care::Apart, true) => (self.at(event + 1) | self.at(event + 2)) & MARKS == 0,
            (Care::Apart, false) => !is_double(last) && !is_double(before),
        }
    }

    /// Whether a send may start at `event` (rule S3).
    pub fn admits_start(&self, event: u32) -> bool {
        (self.at(event) | self.at(event + 1)) & MARKS == 0
    }

    /// Adds a control. A select and a release at one event are one control (rule R4).
    pub fn add(&mut self, event: u32, mark: Mark) {
        self.put(
            event,
            match mark {
                Mark::Select => SELECT,
                Mark::Release => RELEASE,
                Mark::Pointer => POINTER,
                Mark::Paired => PAIRED,
            },
        );
    }

    /// Adds a send.
    pub fn add_start(&mut self, event: u32) {
        self.put(event, START);
    }
}

/// Memory accesses of one direction of a tile: when, and in which elements.
#[derive(Clone, Debug, Default)]
pub struct Accesses {
    spans: Vec<(u32, u32, u32)>,
    all: u32,
    longest: u32,
}

impl Accesses {
    /// The end of an access that overlaps `[start, end)` in an element of `mask`, if there is one.
    pub fn conflict(&self, start: u32, end: u32, mask: u32) -> Option<u32> {
        if self.all & mask == 0 {
            return None;
        }
        let first = self.spans.partition_point(|span| span.0 + self.longest <= start);
        let near = self.spans[first..].iter().take_while(|span| span.0 < end);
        near.filter(|span| span.1 > start && span.2 & mask != 0).map(|span| span.1).max()
    }

    /// Adds an access; one to no element that matters is none.
    pub fn add(&mut self, start: u32, end: u32, mask: u32) {
        if mask == 0 {
            return;
        }
        let at = self.spans.partition_point(|span| span.0 < start);
        self.spans.insert(at, (start, end, mask));
        self.all |= mask;
        self.longest = self.longest.max(end - start);
    }
}

/// Of every tile, the memory elements that a phase both reads and writes: only there must accesses
/// keep apart (rule M1).
pub fn contended(phase: &Phase) -> Vec<u32> {
    let tiles = usize::from(phase.tiles());
    let (mut read, mut written) = (vec![0_u32; tiles], vec![0_u32; tiles]);
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let mask = |address| element_mask(address, transfer.words);
        read[usize::from(transfer.source.0)] |= mask(transfer.source_address);
        for (tile, address) in transfer.destinations {
            written[usize::from(tile.0)] |= mask(*address);
        }
    }
    read.into_iter().zip(written).map(|(read, written)| read & written).collect()
}

/// The elements that some words lie in, one bit each.
pub fn element_mask(address: Address, words: u32) -> u32 {
    elements(address, Bytes(4 * words)).fold(0, |mask, element| mask | 1 << element.0)
}
