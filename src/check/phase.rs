//! Replaying one exchange phase from its rows: rules of `target/ipu21.md` §2.5 and §3, and what
//! arrives where.

use rayon::prelude::*;

use crate::target::{NO_SOURCE, TileId};

use super::arrivals::{Arrival, arrivals};
use super::dependences::Dependences;
use super::memory::{self, Receives};
use super::messages::{self, Message};
use super::rows::{Bases, Decoded, decode_row};
use super::violation::{Violation, Violations};
use super::{Checked, delivery};

/// One tile's row as it lies in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileRow<'a> {
    /// The tile.
    pub tile: TileId,
    /// Byte address of the first word.
    pub address: u32,
    /// Its words; more may follow its return.
    pub words: &'a [u32],
}

/// Words that must arrive on a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// Receiver.
    pub tile: TileId,
    /// Byte address of the first word.
    pub to: u32,
    /// Words.
    pub words: u32,
    /// Sender.
    pub source: TileId,
    /// Byte address of the first word at the sender.
    pub from: u32,
}

/// What a replayed phase showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseReport {
    /// Event at which the last row ends.
    pub horizon: u32,
    /// Event at which every tile's row ends, by logical tile; 0 where it only returns.
    pub ends: Vec<u32>,
    /// Items sent, of 32 and of 64 bits.
    pub items: [u64; 2],
    /// Words that arrive, every receiver counted.
    pub words: u64,
    /// Words of the largest row, and of all rows.
    pub row_words: (usize, usize),
}

/// Checks a phase of the logical tiles `0..tiles`: its rows do what is wanted, in program order where
/// a word is both sent and received, and break no rule.
///
/// # Errors
/// Everything that is wrong.
pub fn phase(
    tiles: u16,
    rows: &[TileRow<'_>],
    wanted: &[Wanted],
) -> Result<Checked<PhaseReport>, Violations> {
    replay(tiles, rows, &[], wanted, true)
}

/// As [`phase`], for one iteration of a loop: rows may write their bases, and on the tile that comes
/// as the `n`-th, send addresses count from `bases[n]`.
///
/// # Errors
/// Everything that is wrong.
pub fn iteration(
    tiles: u16,
    rows: &[TileRow<'_>],
    bases: &[Bases],
    wanted: &[Wanted],
) -> Result<Checked<PhaseReport>, Violations> {
    replay(tiles, rows, bases, wanted, true)
}

/// As [`phase`], for what is wanted in no order: no word may be both sent and received.
pub(super) fn unordered_phase(
    tiles: u16,
    rows: &[TileRow<'_>],
    wanted: &[Wanted],
) -> Result<Checked<PhaseReport>, Violations> {
    replay(tiles, rows, &[], wanted, false)
}

fn replay(
    tiles: u16,
    rows: &[TileRow<'_>],
    bases: &[Bases],
    wanted: &[Wanted],
    ordered: bool,
) -> Result<Checked<PhaseReport>, Violations> {
    let mut violations = Violations::default();
    let mut decoded = vec![Decoded::default(); tiles.into()];
    let mut places = vec![None; usize::from(tiles)];
    let mut report = PhaseReport { ends: vec![0; tiles.into()], ..PhaseReport::default() };
    for row in rows {
        if row.tile.0 >= tiles {
            let what = "a row of a tile that the phase has not".to_owned();
            let (tile, address) = (row.tile, row.address);
            violations.add(Violation::Instruction { tile, address, what });
            continue;
        }
        let bases = bases.get(usize::from(row.tile.0)).copied().unwrap_or_default();
        let found = decode_row(row.tile, row.address, row.words, bases, &mut violations);
        report.horizon = report.horizon.max(found.horizon);
        report.row_words.0 = report.row_words.0.max(found.length);
        report.row_words.1 += found.length;
        report.ends[usize::from(row.tile.0)] = found.horizon;
        for sent in &found.sends {
            report.items[usize::from(sent.is_paired())] += u64::from(sent.items);
        }
        places[usize::from(row.tile.0)] = Some(row.address);
        decoded[usize::from(row.tile.0)] = found;
    }
    report.words = wanted.iter().map(|wanted| u64::from(wanted.words)).sum();
    let mut wanted: Vec<(Wanted, usize)> = wanted.iter().copied().zip(0..).collect();
    wanted.sort_unstable();
    let arrived: Vec<(Vec<Arrival>, Violations)> = (0..tiles)
        .into_par_iter()
        .map(|tile| {
            let mut violations = Violations::default();
            (arrivals(TileId(tile), &decoded, &mut violations), violations)
        })
        .collect();
    let (arrived, found): (Vec<_>, Vec<_>) = arrived.into_iter().unzip();
    found.into_iter().for_each(|other| violations.merge(other));
    let messages = messages::messages(&decoded, &arrived);
    let replay = Replay {
        decoded: &decoded,
        places: &places,
        arrived: &arrived,
        messages: &messages,
        wanted: &wanted,
    };
    let found: Vec<Violations> =
        (0..tiles).into_par_iter().map(|tile| replay.tile(TileId(tile))).collect();
    found.into_iter().for_each(|other| violations.merge(other));
    let order = ordered.then_some(wanted.as_slice());
    Dependences { arrived: &arrived, messages: &messages, wanted: order }.check(&mut violations);
    if violations.is_empty() { Ok(Checked(report)) } else { Err(violations) }
}

/// All tiles of a phase; every slice by logical tile, but for what is wanted.
struct Replay<'a> {
    decoded: &'a [Decoded],
    places: &'a [Option<u32>],
    arrived: &'a [Vec<Arrival>],
    messages: &'a [Vec<Message>],
    wanted: &'a [(Wanted, usize)],
}

impl Replay<'_> {
    fn tile(&self, tile: TileId) -> Violations {
        let mut violations = Violations::default();
        let index = usize::from(tile.0);
        let (row, arrivals) = (&self.decoded[index], &self.arrived[index]);
        controls(tile, row, arrivals, &mut violations);
        left_behind(tile, row, &mut violations);
        messages::check(tile, self.messages, &mut violations);
        let receives = Receives::new(arrivals);
        let place = self.places[index];
        let messages = &self.messages[index];
        memory::Tile { tile, row, messages, place, arrivals, receives: &receives }
            .check(&mut violations);
        let needed = receives.horizon().max(messages::busy_until(tile, self.messages));
        if row.horizon < needed {
            violations.add(Violation::ShortRow { tile, horizon: row.horizon, needed });
        }
        let first = self.wanted.partition_point(|wanted| wanted.0.tile < tile);
        let end = self.wanted.partition_point(|wanted| wanted.0.tile <= tile);
        let arrived = arrivals.iter().map(|a| Wanted {
            tile,
            to: a.to,
            words: a.bytes() / 4,
            source: a.source,
            from: a.from,
        });
        let wanted = self.wanted[first..end].iter().map(|wanted| wanted.0).collect();
        delivery::compare(tile, arrived.collect(), wanted, &mut violations);
        violations
    }
}

/// The next phase finds the receiver as this one left it: nothing may be selected any more, in
/// either stream, and the format must be that of ordinary items (`target/ipu21.md` §2.3, §3.2).
fn left_behind(tile: TileId, row: &Decoded, violations: &mut Violations) {
    for (paired, what) in [(false, "a source"), (true, "a paired source")] {
        let last = row.selects.iter().rfind(|(_, xpic)| xpic.paired == paired);
        if last.is_some_and(|(_, xpic)| xpic.source != NO_SOURCE) {
            violations.add(Violation::LeftBehind { tile, what });
        }
    }
    let format = row.pics.iter().rfind(|(_, pic)| pic.format);
    if format.is_some_and(|(_, pic)| pic.value != 0) {
        violations.add(Violation::LeftBehind { tile, what: "a format" });
    }
}

/// Rules C1 and S3.
fn controls(tile: TileId, row: &Decoded, arrivals: &[Arrival], violations: &mut Violations) {
    // A pointer is one for 64-bit items if such are written next.
    let points_narrow = |event: u32| {
        let next = arrivals.partition_point(|arrival| arrival.end() <= event);
        arrivals.get(next).is_none_or(|arrival| arrival.item_bytes == 4)
    };
    let mut events: Vec<(u32, bool, bool)> = vec![];
    events.extend(row.selects.iter().map(|(event, xpic)| (*event, true, !xpic.paired)));
    let narrow = |event: u32, format: bool| !format && points_narrow(event);
    events.extend(row.pics.iter().map(|(event, pic)| (*event, false, narrow(*event, pic.format))));
    events.sort_unstable();
    for same in events.chunk_by(|a, b| a.0 == b.0) {
        let pair = same.len() == 2 && same[0].1 != same[1].1 && same.iter().all(|found| found.2);
        if same.len() > 1 && !pair {
            violations.add(Violation::ControlsMeet { tile, event: same[0].0 });
        }
    }
    for send in row.sends.iter().filter(|send| send.begins) {
        for event in [send.start, send.start + 1] {
            if events.binary_search_by_key(&event, |found| found.0).is_ok() {
                violations.add(Violation::ControlAtStart { tile, event, start: send.start });
            }
        }
    }
}
