//! What is already placed on one tile: lanes, controls, memory accesses.

use crate::target::Address;
use crate::target::sram::element;

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

    /// No message can start in `[from, to)`, whose first event is free: keeps [`Lane::earliest`]
    /// from looking there again.
    pub fn exclude(&mut self, from: u32, to: u32) {
        let at = self.busy.partition_point(|interval| interval.1 <= from);
        let gap_start = at.checked_sub(1).map_or(0, |before| self.busy[before].1);
        let gap_end = self.busy.get(at).map_or(u32::MAX, |interval| interval.0);
        let none_before = from == gap_start;
        let none_after = to >= gap_end || gap_end - to < self.shortest;
        match (none_before, none_after) {
            (true, true) => self.occupy(gap_start, gap_end),
            (true, false) => self.occupy(gap_start, to),
            (false, true) if from + self.shortest <= gap_end => {
                self.occupy(from + self.shortest - 1, gap_end);
            }
            (false, _) => {}
        }
    }

    /// Occupies `[start, end)`, which must be free.
    pub fn occupy(&mut self, start: u32, end: u32) {
        if start == end {
            return;
        }
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
    /// An ordinary select or release. One may take the other's place (rule R4), and two of a kind
    /// cannot meet as windows are apart.
    Source,
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

/// Controls and send starts of a tile: four bits an event, so that a look costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Controls {
    events: Vec<u8>,
    doubled: bool,
}

const SOURCE: u8 = 1;
const POINTER: u8 = 2;
const PAIRED: u8 = 4;
const START: u8 = 8;
const MARKS: u8 = SOURCE | POINTER | PAIRED;
/// Two controls at once.
const DOUBLE: u8 = SOURCE | POINTER;

/// Events before the one that is looked at, in one look.
const BEFORE: u32 = 2;
/// Where the flags of an event, and of those beside it, are in a look.
const HERE: u32 = 4 * BEFORE;
const LAST: u32 = HERE - 4;
const NEXT: u32 = HERE + 4;

/// Flags at a place in a look.
fn at(place: u32, flags: u8) -> u32 {
    u32::from(flags) << place
}

impl Controls {
    /// The flags of five events around one, four bits each: the event itself lies at [`HERE`].
    fn around(&self, event: u32) -> u32 {
        let first = (event / 2) as usize;
        let bytes = self.events.get(first..first + 4);
        let flags = bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
        flags >> (event % 2 * 4)
    }

    fn put(&mut self, event: u32, flag: u8) {
        let at = event + BEFORE;
        let (byte, shift) = ((at / 2) as usize, at % 2 * 4);
        if byte + 4 > self.events.len() {
            self.events.resize((byte + 4).next_power_of_two(), 0);
        }
        self.events[byte] |= flag << shift;
        self.doubled |= self.events[byte] >> shift & DOUBLE == DOUBLE;
    }

    /// Whether two controls take effect at once anywhere.
    pub fn doubled(&self) -> bool {
        self.doubled
    }

    /// Whether a control may take effect at `event`: it does not meet another one that it must not
    /// meet (rules C1, R4), nor the first two events of a send (rule S3).
    pub fn admits(&self, event: u32, mark: Mark, care: Care) -> bool {
        let flags = self.around(event);
        let (meets, joins) = match mark {
            Mark::Source => (PAIRED, POINTER),
            Mark::Pointer => (POINTER | PAIRED, SOURCE),
            Mark::Paired => (MARKS, 0),
        };
        let refused = at(HERE, meets | START) | at(LAST, START);
        if flags & refused != 0 {
            return false;
        }
        let doubled = |place: u32| flags & at(place, DOUBLE) == at(place, DOUBLE);
        match (care, flags & at(HERE, joins) != 0) {
            (Care::Free, _) => true,
            (Care::Alone, joins) => !joins,
            (Care::Apart, true) => flags & (at(NEXT, MARKS) | at(NEXT + 4, MARKS)) == 0,
            (Care::Apart, false) => !doubled(LAST) && !doubled(LAST - 4),
        }
    }

    /// Whether a send may start at `event` (rule S3).
    pub fn admits_start(&self, event: u32) -> bool {
        self.around(event) & (at(HERE, MARKS) | at(NEXT, MARKS)) == 0
    }

    /// Adds a control.
    pub fn add(&mut self, event: u32, mark: Mark) {
        self.put(
            event,
            match mark {
                Mark::Source => SOURCE,
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
    let last = Address(address.0.saturating_add(4 * words - 1));
    match (element(address), element(last)) {
        (Some(first), Some(last)) => (u32::MAX << first.0) & (u32::MAX >> (31 - last.0)),
        _ => 0,
    }
}
