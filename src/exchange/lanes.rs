//! What is already placed on one tile: lanes, controls, memory accesses.

use rustc_hash::FxHashMap;

use crate::target::Address;
use crate::target::sram::element;
use crate::target::topology::Direction;

use super::phase::Transfer;

/// Busy intervals of a lane, sorted and disjoint. Gaps that are too short for any message count as
/// busy: nothing is lost, and a full lane is one interval.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    busy: Vec<(u32, u32)>,
    shortest: u32,
    /// The interval at which the last look ended: the next one mostly begins near it.
    looked: usize,
}

/// Intervals behind the last one looked at that are asked one by one.
const NEAR: usize = 8;

impl Lane {
    /// An empty lane for messages of at least `shortest` events.
    pub fn new(shortest: u32) -> Lane {
        Lane { shortest, ..Lane::default() }
    }

    /// The earliest `start ≥ from` at which `length` events are free.
    pub fn earliest(&mut self, from: u32, length: u32) -> u32 {
        let mut at = self.seek(from);
        let mut start = from;
        while let Some(interval) = self.busy.get(at) {
            if start + length <= interval.0 {
                break;
            }
            start = start.max(interval.1);
            at += 1;
        }
        self.looked = at;
        start
    }

    /// The first interval that ends after `from`.
    fn seek(&self, from: u32) -> usize {
        let ends = |interval: &(u32, u32)| interval.1 <= from;
        let mut near = self.looked..(self.looked + NEAR).min(self.busy.len());
        let before =
            self.looked.checked_sub(1).is_none_or(|last| self.busy.get(last).is_some_and(ends));
        match near.find(|at| !ends(&self.busy[*at])) {
            Some(found) if before => found,
            _ => self.busy.partition_point(ends),
        }
    }

    /// No message can start in `[from, to)`: keeps [`Lane::earliest`] from looking there again, where
    /// that is the front of a gap.
    pub fn exclude(&mut self, from: u32, to: u32) {
        let at = self.busy.partition_point(|interval| interval.1 <= from);
        let gap_start = at.checked_sub(1).map_or(0, |before| self.busy[before].1);
        let gap_end = self.busy.get(at).map_or(u32::MAX, |interval| interval.0);
        // A long message may start before `from` and cover what follows.
        if from == gap_start {
            let no_start_left = to >= gap_end || gap_end - to < self.shortest;
            self.occupy(gap_start, if no_start_left { gap_end } else { to });
        }
    }

    /// Occupies `[start, end)`, of which parts may be busy already.
    pub fn cover(&mut self, start: u32, end: u32) {
        let first = self.busy.partition_point(|interval| interval.1 < start);
        let last = self.busy.partition_point(|interval| interval.0 <= end);
        let (mut from, mut to) = (start, end);
        for interval in self.busy.drain(first..last) {
            from = from.min(interval.0);
            to = to.max(interval.1);
        }
        self.occupy(from, to);
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

/// Windows of a tile's 64-bit messages, by their start: first event, end, direction.
#[derive(Clone, Debug, Default)]
pub struct Runs(Vec<(u32, u32, Direction)>);

/// Whether the window of a 64-bit message touches one before it and one after it, in the same format:
/// then no format is set in between, and the next source is selected at once (rule R6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touch {
    /// One ends where it starts.
    pub before: bool,
    /// One starts where it ends.
    pub after: bool,
}

impl Runs {
    /// What a window would touch; `None` if that has another format: two formats cannot be set at once.
    pub fn touch(&self, start: u32, items: u32, direction: Direction) -> Option<Touch> {
        let at = self.0.partition_point(|window| window.0 < start);
        let before = at.checked_sub(1).map(|before| self.0[before]);
        let before = before.filter(|window| window.1 == start);
        let after = self.0.get(at).filter(|window| window.0 == start + items);
        let differs = |window: &(u32, u32, Direction)| window.2 != direction;
        if before.iter().any(differs) || after.into_iter().any(differs) {
            return None;
        }
        Some(Touch { before: before.is_some(), after: after.is_some() })
    }

    /// Adds a window.
    pub fn add(&mut self, start: u32, items: u32, direction: Direction) {
        let at = self.0.partition_point(|window| window.0 < start);
        self.0.insert(at, (start, start + items, direction));
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

/// Controls and send starts of a tile: four bits an event.
#[derive(Clone, Debug, Default)]
pub struct Controls {
    /// Of the first events, two a byte, so that a look there costs nothing.
    dense: Vec<u8>,
    /// Of all later ones, [`ENTRY`] events an entry: long messages leave most of them without any.
    sparse: FxHashMap<u32, u32>,
    doubled: bool,
}

const SOURCE: u8 = 1;
const POINTER: u8 = 2;
const PAIRED: u8 = 4;
const START: u8 = 8;
const MARKS: u8 = SOURCE | POINTER | PAIRED;
/// Two controls at once.
const DOUBLE: u8 = SOURCE | POINTER;

/// Bytes of the first events, at most.
const DENSE: usize = 1 << 16;
/// Bytes of one look.
const LOOK: usize = 4;
/// Events of one entry of the later ones.
const ENTRY: u32 = 8;
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
        let bytes = self.dense.get(first..first + LOOK);
        match bytes.and_then(|bytes| bytes.try_into().ok()) {
            Some(bytes) => u32::from_le_bytes(bytes) >> (event % 2 * 4),
            None if self.sparse.is_empty() => 0,
            None => self.around_sparse(event),
        }
    }

    /// The same of later events.
    fn around_sparse(&self, event: u32) -> u32 {
        let entry = event / ENTRY;
        let flags = |entry| u64::from(self.sparse.get(&entry).copied().unwrap_or(0));
        let both = flags(entry) | flags(entry + 1) << u32::BITS;
        (both >> (event % ENTRY * 4)) as u32
    }

    fn put(&mut self, event: u32, flag: u8) {
        let at = event + BEFORE;
        let (byte, shift) = ((at / 2) as usize, at % 2 * 4);
        if byte < DENSE {
            if byte + LOOK > self.dense.len() {
                self.dense.resize((byte + LOOK).next_power_of_two().min(DENSE), 0);
            }
            self.dense[byte] |= flag << shift;
            self.doubled |= self.dense[byte] >> shift & DOUBLE == DOUBLE;
        }
        // A look is at one of both: what lies where they meet is in both.
        if byte + LOOK > DENSE {
            let shift = at % ENTRY * 4;
            let flags = self.sparse.entry(at / ENTRY).or_default();
            *flags |= u32::from(flag) << shift;
            self.doubled |= (*flags >> shift) as u8 & DOUBLE == DOUBLE;
        }
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
        // Most phases ask for no element: then nothing here is looked at.
        if mask == 0 || self.all & mask == 0 {
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

/// The elements that a transfer reads, in all iterations.
pub fn source_mask(transfer: &Transfer<'_>) -> u32 {
    transfer.sources().fold(0, |mask, address| mask | element_mask(address, transfer.words))
}

/// The elements that some words lie in, one bit each.
pub fn element_mask(address: Address, words: u32) -> u32 {
    let last = Address(address.0.saturating_add(4 * words - 1));
    match (element(address), element(last)) {
        (Some(first), Some(last)) => (u32::MAX << first.0) & (u32::MAX >> (31 - last.0)),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Lanes as a flag an event, to compare with.
    struct Events(Vec<bool>);

    impl Events {
        fn earliest(&self, from: u32, length: u32) -> u32 {
            let free = |start: &u32| (*start..start + length).all(|event| !self.busy(event));
            (from..).find(free).unwrap()
        }

        fn busy(&self, event: u32) -> bool {
            self.0.get(event as usize).copied().unwrap_or(false)
        }

        fn occupy(&mut self, start: u32, end: u32) {
            self.0.resize(self.0.len().max(end as usize), false);
            self.0[start as usize..end as usize].fill(true);
        }
    }

    /// Numbers below 2³¹, the same in every run.
    fn numbers() -> impl FnMut(u32) -> u32 {
        let mut state = 1_u64;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32 % below
        }
    }

    #[test]
    fn a_lane_finds_what_events_one_by_one_find() {
        let mut number = numbers();
        for shortest in 1..6 {
            let (mut lane, mut events) = (Lane::new(shortest), Events(vec![]));
            for _ in 0..300 {
                let (from, length) = (number(400), shortest + number(9));
                let start = lane.earliest(from, length);
                assert_eq!(start, events.earliest(from, length));
                lane.occupy(start, start + length);
                events.occupy(start, start + length);
            }
        }
    }

    #[test]
    fn what_is_covered_is_busy_however_often() {
        let mut number = numbers();
        for shortest in 1..6 {
            let (mut lane, mut events) = (Lane::new(shortest), Events(vec![]));
            for _ in 0..300 {
                let (start, length) = (number(4000), 1 + number(12));
                lane.cover(start, start + length);
                events.occupy(start, start + length);
                let (from, length) = (number(4000), shortest + number(9));
                assert_eq!(lane.earliest(from, length), events.earliest(from, length));
            }
        }
    }

    /// However far apart controls lie, and on both sides of the last of the first events.
    #[test]
    fn controls_are_found_where_they_were_put() {
        let last = 2 * DENSE as u32;
        let mut number = numbers();
        let mut at = |around: u32| match around {
            0 => number(40),
            _ => around - 20 + number(40),
        };
        let (mut controls, mut events) = (Controls::default(), BTreeMap::new());
        for around in [0, last / 2, last, 5 * last, u32::MAX / 2].repeat(20) {
            let (event, flag) = (at(around), [SOURCE, POINTER, PAIRED, START][at(0) as usize % 4]);
            controls.put(event, flag);
            *events.entry(event).or_insert(0) |= flag;
            let put = |event: u32| events.get(&event).copied().unwrap_or(0);
            assert_eq!(controls.doubled(), events.values().any(|put| put & DOUBLE == DOUBLE));
            for around in [30, last / 2, last, 5 * last, u32::MAX / 2] {
                for event in around - 30..around + 30 {
                    let flags = controls.around(event);
                    let all = (0..5)
                        .filter_map(|place| Some((place, (event + place).checked_sub(BEFORE)?)));
                    all.for_each(|(place, event)| {
                        assert_eq!((flags >> (4 * place)) as u8 & 15, put(event), "{event}");
                    });
                }
            }
        }
        assert!(controls.dense.len() == DENSE && controls.sparse.len() < 40);
    }

    #[test]
    fn windows_touch_in_one_format_only() {
        let mut runs = Runs::default();
        runs.add(20, 10, Direction::One);
        runs.add(40, 10, Direction::Two);
        let touch = |before, after| Some(Touch { before, after });
        assert_eq!(runs.touch(30, 9, Direction::One), touch(true, false));
        assert_eq!(runs.touch(31, 9, Direction::Two), touch(false, true));
        assert_eq!(runs.touch(31, 8, Direction::Two), touch(false, false));
        assert_eq!(runs.touch(30, 10, Direction::One), None);
        assert_eq!(runs.touch(30, 9, Direction::Two), None);
        runs.add(30, 5, Direction::One);
        assert_eq!(runs.touch(10, 10, Direction::One), touch(false, true));
        assert_eq!(runs.touch(35, 5, Direction::Two), None);
    }

    #[test]
    fn excluded_starts_are_never_found_and_no_others_are_lost() {
        let mut number = numbers();
        for shortest in 1..6 {
            let (mut lane, mut events) = (Lane::new(shortest), Events(vec![]));
            let mut excluded = Events(vec![]);
            for _ in 0..300 {
                let (from, length) = (number(400), shortest + number(9));
                let start = lane.earliest(from, length);
                let wanted = (from..).find(|start| {
                    !excluded.busy(*start) && events.earliest(*start, length) == *start
                });
                // A start in the middle of a gap cannot be taken out of it.
                assert!(start <= wanted.unwrap() && events.earliest(start, length) == start);
                if number(3) == 0 {
                    let to = start + 1 + number(12);
                    lane.exclude(start, to);
                    // Only starts of one gap are meant.
                    let gap = (start..to).take_while(|event| !events.busy(*event));
                    gap.for_each(|event| excluded.occupy(event, event + 1));
                    assert!(lane.earliest(start, length) >= start);
                } else if start == wanted.unwrap() {
                    lane.occupy(start, start + length);
                    events.occupy(start, start + length);
                }
            }
        }
    }

    #[test]
    fn a_gap_without_a_start_is_closed() {
        let mut lane = Lane::new(4);
        lane.occupy(0, 10);
        lane.occupy(20, 30);
        lane.exclude(10, 17);
        assert_eq!(lane.earliest(0, 4), 30);
    }

    #[test]
    fn starts_are_taken_off_the_front_of_a_gap() {
        let mut lane = Lane::new(4);
        lane.occupy(0, 10);
        lane.occupy(40, 50);
        lane.exclude(10, 12);
        assert_eq!(lane.earliest(0, 4), 12);
        lane.exclude(30, 60);
        assert_eq!(lane.earliest(29, 11), 29);
    }
}
