//! What is already placed on one tile: lanes, controls, memory accesses.

use crate::target::sram::elements;
use crate::target::{Address, Bytes};

/// Busy intervals of a lane, sorted, disjoint, touching ones joined.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    busy: Vec<(u32, u32)>,
}

impl Lane {
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
        let joins_left = at > 0 && self.busy[at - 1].1 == start;
        let joins_right = self.busy.get(at).is_some_and(|interval| interval.0 == end);
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

/// Controls and send starts of a tile.
#[derive(Clone, Debug, Default)]
pub struct Controls {
    marks: Vec<(u32, Mark)>,
    starts: Vec<u32>,
}

impl Controls {
    /// Whether a control may take effect at `event`: it does not meet another one that it must not
    /// meet (rules C1, R4), nor the first two events of a send (rule S3). With `alone` no two
    /// controls meet at all, except where one replaces the other.
    pub fn admits(&self, event: u32, mark: Mark, alone: bool) -> bool {
        let sends = self.starts.binary_search(&event).is_ok()
            || event > 0 && self.starts.binary_search(&(event - 1)).is_ok();
        if sends {
            return false;
        }
        let at = self.marks.partition_point(|found| found.0 < event);
        self.marks[at..].iter().take_while(|found| found.0 == event).all(|found| {
            match (found.1, mark) {
                (Mark::Release, Mark::Select) | (Mark::Select, Mark::Release) => true,
                (Mark::Pointer, Mark::Select | Mark::Release)
                | (Mark::Select | Mark::Release, Mark::Pointer) => !alone,
                _ => false,
            }
        })
    }

    /// Whether a send may start at `event` (rule S3).
    pub fn admits_start(&self, event: u32) -> bool {
        let at = self.marks.partition_point(|found| found.0 < event);
        self.marks.get(at).is_none_or(|found| found.0 > event + 1)
    }

    /// Adds a control; a select takes the place of a release.
    pub fn add(&mut self, event: u32, mark: Mark) {
        let at = self.marks.partition_point(|found| found.0 < event);
        for found in self.marks[at..].iter_mut().take_while(|found| found.0 == event) {
            match (found.1, mark) {
                (Mark::Release, Mark::Select) => {
                    found.1 = Mark::Select;
                    return;
                }
                (Mark::Select, Mark::Release) => return,
                _ => {}
            }
        }
        self.marks.insert(at, (event, mark));
    }

    /// Adds a send.
    pub fn add_start(&mut self, event: u32) {
        let at = self.starts.partition_point(|start| *start < event);
        self.starts.insert(at, event);
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

    /// Adds an access.
    pub fn add(&mut self, start: u32, end: u32, mask: u32) {
        let at = self.spans.partition_point(|span| span.0 < start);
        self.spans.insert(at, (start, end, mask));
        self.all |= mask;
        self.longest = self.longest.max(end - start);
    }
}

/// The elements that some words lie in, one bit each.
pub fn element_mask(address: Address, words: u32) -> u32 {
    elements(address, Bytes(4 * words)).fold(0, |mask, element| mask | 1 << element.0)
}
