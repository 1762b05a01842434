//! Replaying one exchange phase from its rows: rules of `target/ipu21.md` §2.5 and §3, and what
//! arrives where.

use rayon::prelude::*;

use crate::target::sram::{LOOK_AHEAD, elements};
use crate::target::topology::paired_time;
use crate::target::{Address, Bytes, NO_SOURCE, PhysicalTile, TileId, route};

use super::Checked;
use super::delivery;
use super::rows::{Decoded, Sent, decode_row};
use super::violation::{Violation, Violations};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseReport {
    /// Event at which the last row ends.
    pub horizon: u32,
    /// Words that arrive, every receiver counted.
    pub words: u64,
    /// Words of the largest row, and of all rows.
    pub row_words: (usize, usize),
}

/// Consecutive items that arrive on a tile.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    written: u32,
    items: u32,
    item_bytes: u32,
    source: TileId,
    from: u32,
    to: u32,
}

/// Events that a row goes on after its last item is written (`target/ipu21.md` §2.3, §3.2).
const GUARD: u32 = 5;
/// A format holds for items written from two events after it is set (§3.2).
const FORMAT_LEAD: u32 = 2;

/// Checks a phase of the logical tiles `0..tiles`: its rows do what is wanted and break no rule.
///
/// # Errors
/// Everything that is wrong.
pub fn phase(
    tiles: u16,
    rows: &[TileRow<'_>],
    wanted: &[Wanted],
) -> Result<Checked<PhaseReport>, Violations> {
    let mut violations = Violations::default();
    let mut decoded = vec![Decoded::default(); tiles.into()];
    let mut places = vec![None; usize::from(tiles)];
    let mut report = PhaseReport::default();
    for row in rows {
        if row.tile.0 >= tiles {
            let what = "a row of a tile that the phase has not".to_owned();
            let (tile, address) = (row.tile, row.address);
            violations.add(Violation::Instruction { tile, address, what });
            continue;
        }
        let found = decode_row(row.tile, row.address, row.words, &mut violations);
        report.horizon = report.horizon.max(found.horizon);
        report.row_words.0 = report.row_words.0.max(found.length);
        report.row_words.1 += found.length;
        places[usize::from(row.tile.0)] = Some(row.address);
        decoded[usize::from(row.tile.0)] = found;
    }
    report.words = wanted.iter().map(|wanted| u64::from(wanted.words)).sum();
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    let replay = Replay { decoded: &decoded, places: &places, wanted: &wanted };
    let found: Vec<Violations> =
        (0..tiles).into_par_iter().map(|tile| replay.tile(TileId(tile))).collect();
    found.into_iter().for_each(|other| violations.merge(other));
    if violations.is_empty() { Ok(Checked(report)) } else { Err(violations) }
}

struct Replay<'a> {
    decoded: &'a [Decoded],
    places: &'a [Option<u32>],
    wanted: &'a [Wanted],
}

impl Replay<'_> {
    fn row(&self, tile: TileId) -> Option<&Decoded> {
        self.decoded.get(usize::from(tile.0))
    }

    fn tile(&self, tile: TileId) -> Violations {
        let mut violations = Violations::default();
        let Some(row) = self.row(tile) else { return violations };
        controls(tile, row, &mut violations);
        self.lanes(tile, row, &mut violations);
        let arrivals = self.arrivals(tile, row, &mut violations);
        memory(tile, row, self.places[usize::from(tile.0)], &arrivals, &mut violations);
        if let Some(last) = arrivals.iter().map(|a| a.written + a.items).max()
            && row.horizon < last + GUARD
        {
            let (horizon, needed) = (row.horizon, last + GUARD);
            violations.add(Violation::ShortRow { tile, horizon, needed });
        }
        let first = self.wanted.partition_point(|wanted| wanted.tile < tile);
        let end = self.wanted.partition_point(|wanted| wanted.tile <= tile);
        let arrived = arrivals.iter().map(|a| Wanted {
            tile,
            to: a.to,
            words: a.items * a.item_bytes / 4,
            source: a.source,
            from: a.from,
        });
        delivery::compare(tile, arrived.collect(), &self.wanted[first..end], &mut violations);
        violations
    }

    /// Rule S2: no send while the partner uses this tile's lane.
    fn lanes(&self, tile: TileId, row: &Decoded, violations: &mut Violations) {
        let Some(partner) = self.row(tile.partner()) else { return };
        for lent in partner.sends.iter().filter(|send| send.is_paired()) {
            let end = lent.start + lent.items;
            let busy = |send: &&Sent| send.start < end && lent.start < send.start + send.items;
            if let Some(send) = row.sends.iter().find(busy) {
                violations.add(Violation::LaneTaken { tile, event: send.start.max(lent.start) });
            }
        }
    }

    /// Everything that arrives on a tile, in the order in which it is written.
    fn arrivals(&self, tile: TileId, row: &Decoded, violations: &mut Violations) -> Vec<Arrival> {
        let mut arrivals = vec![];
        for (start, end, number) in windows(row, false) {
            let Some(source) = PhysicalTile::new(number).map(PhysicalTile::logical) else {
                continue;
            };
            let way = route(source, tile);
            let Some(sender) = self.row(source) else { continue };
            for send in &sender.sends {
                let heard = !send.is_paired() && send.sctl & way.direction as u8 != 0;
                let part = heard.then(|| overlap(send, start, end, way.time_to_mux + 1)).flatten();
                if let Some((first, items)) = part {
                    arrivals.push(Arrival {
                        written: first + way.write_latency,
                        items,
                        item_bytes: 4,
                        source,
                        from: send.address + 4 * (first - send.start),
                        to: 0,
                    });
                }
            }
        }
        for selector in [tile, tile.partner()] {
            self.paired_arrivals(tile, selector, &mut arrivals);
        }
        arrivals.sort_by_key(|arrival| arrival.written);
        point(tile, row, arrivals, violations)
    }

    /// What the paired selections of `selector` bring to `tile`: both members of a pair get the same
    /// items, the early one selects.
    fn paired_arrivals(&self, tile: TileId, selector: TileId, arrivals: &mut Vec<Arrival>) {
        let Some(row) = self.row(selector) else { return };
        for (start, end, number) in windows(row, true) {
            let number = number ^ (selector.physical().0 & 2);
            let Some(source) = PhysicalTile::new(number).map(PhysicalTile::logical) else {
                continue;
            };
            let way = route(source, selector);
            let Some(sender) = self.row(source) else { continue };
            let time = paired_time(source, selector);
            for send in &sender.sends {
                let heard = send.is_paired() && send.sctl & way.direction as u8 != 0;
                let part = (heard && way.destination_is_early)
                    .then(|| overlap(send, start, end, time))
                    .flatten();
                if let Some((first, items)) = part {
                    arrivals.push(Arrival {
                        written: (i64::from(first) + i64::from(time)) as u32 + 53 + 2 * tile.row(),
                        items,
                        item_bytes: 8,
                        source,
                        from: send.address + 8 * (first - send.start),
                        to: 0,
                    });
                }
            }
        }
    }
}

/// Events during which a source is selected: start, end, number.
fn windows(row: &Decoded, paired: bool) -> Vec<(u32, u32, u16)> {
    let selects: Vec<_> = row.selects.iter().filter(|(_, xpic)| xpic.paired == paired).collect();
    let ends = selects.iter().skip(1).map(|(event, _)| *event).chain([u32::MAX]);
    let windows = selects.iter().zip(ends).map(|((event, xpic), end)| (*event, end, xpic.source));
    windows.filter(|(_, _, source)| *source != NO_SOURCE).collect()
}

/// The items of a send whose first pass at a mux is `time` events after they leave, inside a window:
/// event of the first, and how many.
fn overlap(send: &Sent, start: u32, end: u32, time: i32) -> Option<(u32, u32)> {
    let [start, end] = [start, end].map(|event| i64::from(event) - i64::from(time));
    let first = start.max(i64::from(send.start));
    let last = end.min(i64::from(send.start) + i64::from(send.items));
    (first < last).then(|| (first as u32, (last - first) as u32))
}

/// Rules C1 and S3.
fn controls(tile: TileId, row: &Decoded, violations: &mut Violations) {
    let mut events: Vec<(u32, bool, bool)> = vec![];
    events.extend(row.selects.iter().map(|(event, xpic)| (*event, true, !xpic.paired)));
    events.extend(row.pics.iter().map(|(event, pic)| (*event, false, !pic.format)));
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

/// Gives arrivals their addresses: the pointer goes on by one item an item.
fn point(
    tile: TileId,
    row: &Decoded,
    arrivals: Vec<Arrival>,
    violations: &mut Violations,
) -> Vec<Arrival> {
    let pointers: Vec<(u32, u32)> = row
        .pics
        .iter()
        .filter(|(_, pic)| !pic.format)
        .map(|(event, pic)| (*event, pic.value * 4))
        .collect();
    let formats: Vec<(u32, u32)> = row
        .pics
        .iter()
        .filter(|(_, pic)| pic.format)
        .map(|(event, pic)| (event + FORMAT_LEAD, pic.value))
        .collect();
    let mut placed = vec![];
    let (mut next, mut pointer) = (0, None);
    for arrival in arrivals {
        let mut done = 0;
        while done < arrival.items {
            let now = arrival.written + done;
            while next < pointers.len() && pointers[next].0 <= now {
                pointer = Some(pointers[next].1);
                next += 1;
            }
            let until = pointers.get(next).map_or(u32::MAX, |control| control.0);
            let items = (arrival.items - done).min(until - now);
            let Some(to) = pointer else {
                violations.add(Violation::NoPointer { tile, event: now });
                return placed;
            };
            let from = arrival.from + done * arrival.item_bytes;
            placed.push(Arrival { written: now, items, from, to, ..arrival });
            pointer = Some(to + items * arrival.item_bytes);
            done += items;
        }
        let wide = arrival.item_bytes == 8;
        let inside =
            |event: u32| event > arrival.written && event < arrival.written + arrival.items;
        let at = formats.partition_point(|format| format.0 <= arrival.written);
        let current = at.checked_sub(1).map_or(0, |before| formats[before].1);
        let changes = formats.get(at).is_some_and(|format| inside(format.0));
        let way = route(arrival.source, tile).direction as u32;
        if changes || current != if wide { way } else { 0 } {
            violations.add(Violation::Format { tile, event: arrival.written });
        }
    }
    placed
}

/// Rules M1, M2, M3 and D1 on one tile.
fn memory(
    tile: TileId,
    row: &Decoded,
    place: Option<u32>,
    arrivals: &[Arrival],
    violations: &mut Violations,
) {
    let touched = |address: u32, bytes: u32| elements(Address(address), Bytes(bytes)).map(|e| e.0);
    let reads: Vec<(u32, u32, u32, u32)> = row
        .sends
        .iter()
        .map(|send| {
            (send.start, send.start + send.items, send.address, send.items * send.item_bytes())
        })
        .collect();
    let writes: Vec<(u32, u32, u32, u32)> = arrivals
        .iter()
        .map(|a| (a.written, a.written + a.items + GUARD, a.to, a.items * a.item_bytes))
        .collect();
    let by_element = |spans: &[(u32, u32, u32, u32)]| -> Vec<(u8, u32, u32)> {
        let mut all: Vec<_> = spans
            .iter()
            .flat_map(|span| touched(span.2, span.3).map(|element| (element, span.0, span.1)))
            .collect();
        all.sort_unstable();
        all
    };
    let (read, written) = (by_element(&reads), by_element(&writes));
    for (element, start, end) in &read {
        let first = written.partition_point(|span| span.0 < *element);
        let same = written[first..].iter().take_while(|span| span.0 == *element && span.1 < *end);
        if let Some(span) = same.clone().find(|span| span.2 > *start) {
            let (element, event) = (*element, span.1.max(*start));
            violations.add(Violation::ElementConflict { tile, element, event });
        }
    }
    if let Some(start) = place {
        let bytes = 4 * row.length as u32 + LOOK_AHEAD.0;
        for element in touched(start, bytes) {
            let shares =
                |spans: &[(u8, u32, u32)]| spans.binary_search_by_key(&element, |s| s.0).is_ok();
            if shares(&read) || shares(&written) {
                violations.add(Violation::RowElement { tile, row: start, element });
            }
        }
    }
    alignment(tile, row, arrivals, violations);
    dependences(tile, &reads, &writes, violations);
}

fn alignment(tile: TileId, row: &Decoded, arrivals: &[Arrival], violations: &mut Violations) {
    let reads = row.sends.iter().map(|send| (send.address, send.item_bytes()));
    let writes = arrivals.iter().map(|arrival| (arrival.to, arrival.item_bytes));
    for (address, bytes) in reads.chain(writes) {
        if !address.is_multiple_of(bytes) {
            violations.add(Violation::Alignment { tile, address });
        }
    }
}

/// Rule D1, in the strict form that programs here obey: no word is both sent and received.
fn dependences(
    tile: TileId,
    reads: &[(u32, u32, u32, u32)],
    writes: &[(u32, u32, u32, u32)],
    violations: &mut Violations,
) {
    let mut written: Vec<(u32, u32)> =
        writes.iter().map(|span| (span.2, span.2 + span.3)).collect();
    written.sort_unstable();
    for (_, _, start, bytes) in reads {
        let at = written.partition_point(|span| span.1 <= *start);
        if let Some(span) = written.get(at).filter(|span| span.0 < start + bytes) {
            violations.add(Violation::Dependence { tile, address: span.0.max(*start) });
        }
    }
}
