//! The tiles of a phase in which no control meets another, for very many short messages: what is taken
//! is a bit an event, and 64 starts are looked at in one step.
//!
//! Gives every job the same start as the rules of [`super::place`], for phases without 64-bit items,
//! base writes and memory elements that matter.

use crate::target::TileId;

use super::jobs::{End, Job, Jobs};
use super::place::Tiles;

/// Events of a word.
const WORD: u32 = u64::BITS;

/// Events from which on messages that are all alike are placed faster between intervals, of which they
/// leave few.
const LONG: u32 = 8;

/// The last event of a phase that is placed on strips: they take memory for all events of all tiles,
/// whether or not anything happens there.
pub(super) const LAST: u32 = 1 << 18;

/// What is taken in 64 events of a tile, one bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// The transmit lane.
    transmit: u64,
    /// The receive lane.
    receive: u64,
    /// Where no source may be selected or released: a pointer takes effect, or a send is in its first
    /// two events (rules C1 and S3 of `target/ipu21.md`).
    select: u64,
    /// Where no pointer may take effect: the same, or a source is selected or released.
    pointer: u64,
    /// Where no send may start: a control takes effect then or one event later.
    start: u64,
}

/// One tile.
#[derive(Clone, Debug)]
struct Strip {
    words: Vec<Word>,
    /// Where no send of the shortest messages so far may start, 64 events a word. Beside the other
    /// flags, so that many are looked at in little memory.
    sends: Vec<u64>,
    /// Where no window of the shortest messages so far may start, their release aside.
    receives: Vec<u64>,
    /// Events from a window's start to its pointer.
    pointer: u32,
    /// Events of the shortest messages so far.
    shortest: u32,
    /// No send of those starts in so many words, and no window.
    sent: usize,
    received: usize,
    /// Two controls take effect at once somewhere.
    doubled: bool,
}

impl Strip {
    fn new(tile: TileId) -> Strip {
        Strip {
            words: vec![],
            sends: vec![],
            receives: vec![],
            pointer: 52 + 2 * tile.row(),
            shortest: u32::MAX,
            sent: 0,
            received: 0,
            doubled: false,
        }
    }

    /// Flags of 64 events from `from` on.
    fn flags(&self, from: u32, of: impl Fn(&Word) -> u64) -> u64 {
        bits(&self.words, from, of)
    }

    /// Of 64 events from `from` on, those with which `length` clear ones begin.
    fn clear(&self, from: u32, length: u32, of: impl Fn(&Word) -> u64 + Copy) -> u64 {
        let part = length.min(WORD);
        let next = |from| u128::from(self.flags(from, of));
        let mut clear = !(next(from) | next(from + WORD) << WORD);
        let mut wide = 1;
        while 2 * wide <= part {
            clear &= clear >> wide;
            wide *= 2;
        }
        let mut starts = (clear & clear >> (part - wide)) as u64;
        let mut done = part;
        while done < length && starts != 0 {
            let more = (length - done).min(WORD);
            done += more;
            starts &= self.clear(from + done - WORD, WORD, of);
        }
        starts
    }

    /// Makes ready for messages of `shortest` events.
    fn admit(&mut self, shortest: u32) {
        if shortest >= self.shortest {
            return;
        }
        self.shortest = shortest;
        (self.sent, self.received) = (0, 0);
        for at in 0..self.words.len() {
            let from = at as u32 * WORD;
            let word = self.words[at];
            let sends = !self.clear(from, shortest, |word| word.transmit) | word.start;
            let receives = !self.clear(from, shortest, |word| word.receive)
                | word.select
                | self.flags(from + self.pointer, |word| word.pointer);
            (self.sends[at], self.receives[at]) = (sends, receives);
        }
    }

    /// The first event at which a send may start, as far as known.
    fn first_send(&mut self) -> u32 {
        while self.sends.get(self.sent) == Some(&u64::MAX) {
            self.sent += 1;
        }
        self.sent as u32 * WORD
    }

    /// The first event at which a window may start, as far as known.
    fn first_window(&mut self) -> u32 {
        while self.receives.get(self.received) == Some(&u64::MAX) {
            self.received += 1;
        }
        self.received as u32 * WORD
    }

    /// Takes the events `[start, end)`.
    fn take(&mut self, start: u32, end: u32, of: impl Fn(&mut Word) -> &mut u64) {
        self.reach(end);
        set(&mut self.words, start, end, of);
    }

    fn bar_send(&mut self, start: u32, end: u32) {
        self.reach(end);
        set(&mut self.sends, start, end, |word| word);
    }

    fn bar_window(&mut self, start: u32, end: u32) {
        self.reach(end);
        set(&mut self.receives, start, end, |word| word);
    }

    /// Makes room for the events before `end`.
    fn reach(&mut self, end: u32) {
        let needed = end.div_ceil(WORD) as usize;
        if needed > self.words.len() {
            let words = needed.next_power_of_two();
            self.words.resize(words, Word::default());
            self.sends.resize(words, 0);
            self.receives.resize(words, 0);
        }
    }

    /// Events before those taken at which no message of the shortest may start either.
    fn before(&self, start: u32) -> u32 {
        (start + 1).saturating_sub(self.shortest)
    }

    fn send(&mut self, start: u32, end: u32) {
        self.take(start, end, |word| &mut word.transmit);
        self.bar_send(self.before(start), end);
        self.bar_select(start, start + 2);
        self.bar_pointer(start, start + 2);
    }

    fn receive(&mut self, start: u32, end: u32) {
        self.take(start, end, |word| &mut word.receive);
        self.bar_window(self.before(start), end);
        let pointer = start + self.pointer;
        self.bar_select(pointer, pointer + 1);
        for at in [start, end, pointer] {
            self.bar_pointer(at, at + 1);
            let before = at.saturating_sub(1);
            self.take(before, at + 1, |word| &mut word.start);
            self.bar_send(before, at + 1);
        }
        self.doubled |= pointer == end;
    }

    fn bar_select(&mut self, start: u32, end: u32) {
        self.take(start, end, |word| &mut word.select);
        self.bar_window(start, end);
    }

    fn bar_pointer(&mut self, start: u32, end: u32) {
        self.take(start, end, |word| &mut word.pointer);
        let window = |event: u32| event.saturating_sub(self.pointer);
        self.bar_window(window(start), window(end));
    }
}

/// Flags of 64 events from `from` on; none is set behind the last word.
fn bits<T>(words: &[T], from: u32, of: impl Fn(&T) -> u64) -> u64 {
    let (at, shift) = ((from / WORD) as usize, from % WORD);
    let word = |at: usize| words.get(at).map_or(0, &of);
    let both = u128::from(word(at)) | u128::from(word(at + 1)) << WORD;
    (both >> shift) as u64
}

/// Sets the flags of the events `[start, end)`, which have words.
fn set<T>(words: &mut [T], start: u32, end: u32, of: impl Fn(&mut T) -> &mut u64) {
    let mut at = start;
    while at < end {
        let next = (at / WORD + 1) * WORD;
        let kept = u64::MAX << (at % WORD) & u64::MAX >> (next - end.min(next));
        *of(&mut words[(at / WORD) as usize]) |= kept;
        at = next;
    }
}

/// All tiles of a phase, part of its jobs placed.
pub(super) struct Strips {
    tiles: Vec<Strip>,
    /// The shortest message of those with a number of binary digits.
    shortest: [u32; 33],
}

/// Binary digits of a length.
fn digits(length: u32) -> usize {
    (u32::BITS - length.leading_zeros()) as usize
}

impl Strips {
    /// Empty tiles for these jobs; none if some of them ask for more than lanes and controls, or if all
    /// are long and alike: their lanes stay few intervals, which are found faster.
    pub(super) fn worthwhile(jobs: &Jobs) -> Option<Strips> {
        let mut lengths = (0..jobs.len()).map(|index| jobs.job(index).items);
        let first = lengths.next()?;
        let alike = first >= LONG && lengths.all(|length| length == first);
        if alike { None } else { Strips::new(jobs) }
    }

    /// Empty tiles for these jobs; none if some of them ask for more than lanes and controls.
    pub(super) fn new(jobs: &Jobs) -> Option<Strips> {
        if !jobs.pointers().is_empty() {
            return None;
        }
        let mut shortest = [u32::MAX; 33];
        for index in 0..jobs.len() {
            let job = jobs.job(index);
            let masked = job.mask != 0 || jobs.ends_of(job).iter().any(|end| end.mask != 0);
            if masked || job.paired || job.base.is_some() {
                return None;
            }
            let shortest = &mut shortest[digits(job.items)];
            *shortest = job.items.min(*shortest);
        }
        let tiles = (0..jobs.tiles()).map(|tile| Strip::new(TileId(tile))).collect();
        Some(Strips { tiles, shortest })
    }

    fn tile(&self, tile: TileId) -> &Strip {
        &self.tiles[usize::from(tile.0)]
    }

    fn tile_mut(&mut self, tile: TileId) -> &mut Strip {
        &mut self.tiles[usize::from(tile.0)]
    }

    /// Of some of 64 starts from `event` on, those that all lanes and controls admit.
    fn admitted(&self, job: &Job, ends: &[End], event: u32, starts: u64) -> u64 {
        let sender = self.tile(job.source);
        let sent = sender.clear(event, job.items, |word| word.transmit);
        ends.iter().fold(starts & sent, |starts, end| {
            let tile = self.tile(end.tile);
            let window = event.wrapping_add_signed(end.window);
            let released = !tile.flags(window + job.items, |word| word.select);
            starts & released & tile.clear(window, job.items, |word| word.receive)
        })
    }
}

impl Tiles for Strips {
    fn earliest(&mut self, job: &Job, ends: &[End], from: u32) -> u32 {
        let shortest = self.shortest[digits(job.items)];
        let sender = self.tile_mut(job.source);
        sender.admit(shortest);
        let mut event = from.max(sender.first_send());
        for end in ends {
            let tile = self.tile_mut(end.tile);
            tile.admit(shortest);
            event = event.max(tile.first_window().saturating_add_signed(-end.window));
        }
        loop {
            let mut starts = !bits(&self.tile(job.source).sends, event, |word| *word);
            for end in ends {
                let window = event.wrapping_add_signed(end.window);
                starts &= !bits(&self.tile(end.tile).receives, window, |word| *word);
            }
            if starts != 0 {
                starts = self.admitted(job, ends, event, starts);
            }
            if starts != 0 {
                return event + starts.trailing_zeros();
            }
            event += WORD;
        }
    }

    fn occupy(&mut self, job: &Job, ends: &[End], event: u32) {
        self.tile_mut(job.source).send(event, event + job.items);
        for end in ends {
            let window = event.wrapping_add_signed(end.window);
            self.tile_mut(end.tile).receive(window, window + job.items);
        }
    }

    fn doubled(&self) -> Vec<TileId> {
        let doubled = self.tiles.iter().zip(0..).filter(|(tile, _)| tile.doubled);
        doubled.map(|(_, number)| TileId(number)).collect()
    }
}
