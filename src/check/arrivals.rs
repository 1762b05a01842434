//! What arrives on a tile: which items pass its mux while their sender is selected, in which format
//! they are written, and where the pointer stands then (`target/ipu21.md` §2.1, §2.3, §3.2).

use crate::target::topology::paired_time;
use crate::target::{NO_SOURCE, PhysicalTile, TileId, route};

use super::rows::{Decoded, Sent};
use super::violation::{Violation, Violations};

/// Consecutive items of one message that arrive on a tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Event at which the first item is written.
    pub(super) written: u32,
    /// Items.
    pub(super) items: u32,
    /// Bytes of an item.
    pub(super) item_bytes: u32,
    /// Sender.
    pub(super) source: TileId,
    /// Number of the message in the sender's row.
    pub(super) message: u32,
    /// Byte address of the first item at the sender.
    pub(super) from: u32,
    /// Byte address of the first item at the receiver.
    pub(super) to: u32,
}

impl Arrival {
    /// One past the event at which the last item is written.
    pub(super) fn end(&self) -> u32 {
        self.written + self.items
    }

    /// All its bytes.
    pub(super) fn bytes(&self) -> u32 {
        self.items * self.item_bytes
    }
}

/// A format holds for items written from two events after it is set (§3.2).
const FORMAT_LEAD: u32 = 2;

/// Everything that arrives on `tile`, in the order in which it is written; `rows` by logical tile.
pub(super) fn arrivals(
    tile: TileId,
    rows: &[Decoded],
    violations: &mut Violations,
) -> Vec<Arrival> {
    let Some(row) = rows.get(usize::from(tile.0)) else { return vec![] };
    let mut arrivals = vec![];
    let mut silent = vec![];
    ordinary(tile, row, rows, &mut arrivals, &mut silent);
    paired(tile, tile, rows, &mut arrivals, &mut silent);
    for (event, selector) in silent {
        violations.add(Violation::NothingHeard { tile, event, selector });
    }
    // The partner's selections drive this tile's receiver too.
    paired(tile, tile.partner(), rows, &mut arrivals, &mut vec![]);
    arrivals.sort_by_key(|arrival| arrival.written);
    // A receive lane takes one item an event (rules R1 and R2).
    for pair in arrivals.windows(2).filter(|pair| pair[1].written < pair[0].end()) {
        violations.add(Violation::ItemsMeet { tile, event: pair[1].written });
    }
    formats(tile, row, &arrivals, violations);
    point(tile, row, arrivals, violations)
}

/// Event and selector of a selection that lasts longer than what it brings.
type Silent = Vec<(u32, u16)>;

/// Whether items pass the mux in every event of a window, as rule R4 has it. A window without an end
/// is a fault of its own.
fn fills(heard: &[Arrival], start: u32, end: u32) -> bool {
    let items: u32 = heard.iter().map(|arrival| arrival.items).sum();
    items == end - start || (end == u32::MAX && items > 0)
}

/// The tile behind a selector, and what it sends.
fn sender(number: u16, rows: &[Decoded]) -> Option<(TileId, &Decoded)> {
    let source = PhysicalTile::new(number)?.logical();
    Some((source, rows.get(usize::from(source.0))?))
}

fn ordinary(
    tile: TileId,
    row: &Decoded,
    rows: &[Decoded],
    arrivals: &mut Vec<Arrival>,
    silent: &mut Silent,
) {
    for (start, end, number) in windows(row, false) {
        let before = arrivals.len();
        let Some((source, sender)) = sender(number, rows) else {
            silent.push((start, number));
            continue;
        };
        let way = route(source, tile);
        heard(&sender.sends, start, end, way.time_to_mux + 1, |send, first, items| {
            if !send.is_paired() && send.sctl & way.direction as u8 != 0 {
                arrivals.push(Arrival {
                    written: first + way.write_latency,
                    items,
                    item_bytes: 4,
                    source,
                    message: send.message,
                    from: send.address.saturating_add(4 * (first - send.start)),
                    to: 0,
                });
            }
        });
        if !fills(&arrivals[before..], start, end) {
            silent.push((start, number));
        }
    }
}

/// What the paired selections of `selector` bring to `tile`: both members of a pair get the same
/// items, the early one selects.
fn paired(
    tile: TileId,
    selector: TileId,
    rows: &[Decoded],
    arrivals: &mut Vec<Arrival>,
    silent: &mut Silent,
) {
    let Some(row) = rows.get(usize::from(selector.0)) else { return };
    for (start, end, number) in windows(row, true) {
        let before = arrivals.len();
        let found = sender(number ^ (selector.physical().0 & 2), rows);
        let found = found.filter(|(source, _)| route(*source, selector).destination_is_early);
        let Some((source, sender)) = found else {
            silent.push((start, number));
            continue;
        };
        let way = route(source, selector);
        let time = paired_time(source, selector);
        heard(&sender.sends, start, end, time, |send, first, items| {
            if send.is_paired() && send.sctl & way.direction as u8 != 0 {
                arrivals.push(Arrival {
                    written: first.wrapping_add_signed(time) + 53 + 2 * tile.row(),
                    items,
                    item_bytes: 8,
                    source,
                    message: send.message,
                    from: send.address.saturating_add(8 * (first - send.start)),
                    to: 0,
                });
            }
        });
        if !fills(&arrivals[before..], start, end) {
            silent.push((start, number));
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

/// Parts of sends that pass a mux `time` events after they leave, inside a window: the send, the
/// event at which the first item leaves, how many items.
fn heard(sends: &[Sent], start: u32, end: u32, time: i32, mut found: impl FnMut(&Sent, u32, u32)) {
    let [start, end] = [start, end].map(|event| i64::from(event) - i64::from(time));
    let begin = sends.partition_point(|send| i64::from(send.start + send.items) <= start);
    for send in sends[begin..].iter().take_while(|send| i64::from(send.start) < end) {
        let first = start.max(i64::from(send.start));
        let last = end.min(i64::from(send.start + send.items));
        if first < last {
            found(send, first as u32, (last - first) as u32);
        }
    }
}

/// Every item is written in the format of its width and way, and no format changes while ordinary
/// items are written (rule R3).
fn formats(tile: TileId, row: &Decoded, arrivals: &[Arrival], violations: &mut Violations) {
    let formats: Vec<(u32, u32)> = row
        .pics
        .iter()
        .filter(|(_, pic)| pic.format)
        .map(|(event, pic)| (*event, pic.value))
        .collect();
    for arrival in arrivals {
        let at = formats.partition_point(|format| format.0 + FORMAT_LEAD <= arrival.written);
        let current = at.checked_sub(1).map_or(0, |before| formats[before].1);
        let wide = arrival.item_bytes == 8;
        let wanted = if wide { route(arrival.source, tile).direction as u32 } else { 0 };
        let changes = if wide {
            formats.get(at).is_some_and(|format| format.0 + FORMAT_LEAD < arrival.end())
        } else {
            let first = formats.partition_point(|format| format.0 < arrival.written);
            formats.get(first).is_some_and(|format| format.0 < arrival.end())
                || formats.get(at).is_some_and(|format| format.0 + FORMAT_LEAD < arrival.end())
        };
        if changes || current != wanted {
            violations.add(Violation::Format { tile, event: arrival.written });
        }
    }
    // Only the same format goes on without being taken back, and then it is not set again (rule R6).
    for pair in formats.windows(2).filter(|pair| pair[0].1 != 0 && pair[1].1 != 0) {
        violations.add(Violation::Format { tile, event: pair[1].0 });
    }
    // A format is on exactly while wide items are written (§3.2, rule R6).
    for (index, (event, _)) in formats.iter().enumerate().filter(|(_, format)| format.1 != 0) {
        let start = event + FORMAT_LEAD;
        let end = formats.get(index + 1).map_or(u32::MAX, |next| next.0 + FORMAT_LEAD);
        let first = arrivals.partition_point(|arrival| arrival.end() <= start);
        let mut at = start;
        for arrival in arrivals[first..].iter().take_while(|arrival| arrival.written < end) {
            if arrival.written > at {
                break;
            }
            at = at.max(arrival.end());
        }
        if at < end && end != u32::MAX {
            violations.add(Violation::Format { tile, event: at });
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
    for pair in pointers.iter().zip(pointers.iter().skip(1).map(|next| next.0).chain([u32::MAX])) {
        let ((event, _), end) = pair;
        let at = arrivals.partition_point(|arrival| arrival.end() <= *event);
        if arrivals.get(at).is_none_or(|arrival| arrival.written >= end) {
            violations.add(Violation::IdlePointer { tile, event: *event });
        }
    }
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
            let from = arrival.from.saturating_add(done * arrival.item_bytes);
            let piece = Arrival { written: now, items, from, to, ..arrival };
            pointer = Some(to.saturating_add(piece.bytes()));
            placed.push(piece);
            done += items;
        }
    }
    placed
}
