//! One exchange phase: which words arrive where, from what every tile's row says.
//!
//! A receiver gets what its selected source sends while it is selected, and writes it where its
//! pointer stands when the word arrives (`target/ipu21.md` §2.1, §2.3, §3.2).

use crate::target::topology::paired_time;
use crate::target::{NO_SOURCE, PhysicalTile, Pic, TileId, route};

use super::rows::{RowEvents, Send};

/// A format set at F holds for items written from F + 2 on: on at F and off at F + n frame the n
/// items written in `[F + 2, F + 2 + n)` (`target/ipu21.md` §3.2).
const FORMAT_LEAD: u32 = 2;

/// Consecutive items from one tile's memory into another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Event at which the first item is read.
    pub sent: u32,
    /// Event at which the first item is written.
    pub written: u32,
    /// Sender.
    pub source: TileId,
    /// Byte address at the sender.
    pub from: u32,
    /// Byte address at the receiver.
    pub to: u32,
    /// Items.
    pub items: u32,
    /// Bytes of an item: 4, or 8 paired.
    pub item_bytes: u32,
}

/// Items on their way to a receiver whose pointer is not yet looked at.
struct Stream {
    sent: u32,
    arrival: u32,
    source: TileId,
    from: u32,
    items: u32,
    item_bytes: u32,
}

/// Everything that arrives at `tile`, in the order in which it is written; `rows` by logical tile.
///
/// # Errors
/// If words arrive before any pointer is set, or in another format than they are sent.
pub fn arrivals(tile: TileId, rows: &[RowEvents]) -> Result<Vec<Arrival>, String> {
    let mut streams = ordinary(tile, rows);
    paired(tile, tile, rows, &mut streams);
    // The partner's paired selection drives this tile's receiver too.
    paired(tile, tile.partner(), rows, &mut streams);
    streams.sort_by_key(|stream| stream.arrival);
    let row = &rows[usize::from(tile.0)];
    write(&streams, row)
}

/// Selection windows of one kind: start, end, selected number.
fn windows(row: &RowEvents, paired: bool) -> impl Iterator<Item = (u32, u32, u16)> + '_ {
    let selects: Vec<(u32, u16)> = row
        .selects
        .iter()
        .filter(|(_, xpic)| xpic.paired == paired)
        .map(|(event, xpic)| (*event, xpic.source))
        .collect();
    (0..selects.len()).filter_map(move |index| {
        let (start, source) = selects[index];
        let end = selects.get(index + 1).map_or(u32::MAX, |next| next.0);
        (source != NO_SOURCE).then_some((start, end, source))
    })
}

fn ordinary(tile: TileId, rows: &[RowEvents]) -> Vec<Stream> {
    let mut streams = vec![];
    for (start, end, source) in windows(&rows[usize::from(tile.0)], false) {
        let Some(source) = PhysicalTile::new(source).map(PhysicalTile::logical) else { continue };
        let Some(sender) = rows.get(usize::from(source.0)) else { continue };
        let way = route(source, tile);
        let latency = way.write_latency;
        overlaps(&sender.sends, start, end, way.time_to_mux + 1, |send, first, items| {
            if send.sctl & 4 == 0 && send.sctl & way.direction as u8 != 0 {
                streams.push(Stream {
                    sent: first,
                    arrival: first + latency,
                    source,
                    from: send.address + (first - send.start) * 4,
                    items,
                    item_bytes: 4,
                });
            }
        });
    }
    streams
}

/// What `selector`'s paired selections bring to `tile` (the selector itself or its partner).
fn paired(tile: TileId, selector: TileId, rows: &[RowEvents], streams: &mut Vec<Stream>) {
    let Some(row) = rows.get(usize::from(selector.0)) else { return };
    let lane = selector.physical().0 & 2;
    for (start, end, value) in windows(row, true) {
        let Some(source) = PhysicalTile::new(value ^ lane).map(PhysicalTile::logical) else {
            continue;
        };
        let Some(sender) = rows.get(usize::from(source.0)) else { continue };
        let way = route(source, selector);
        if !way.destination_is_early {
            continue;
        }
        let time = paired_time(source, tile);
        overlaps(&sender.sends, start, end, time, |send, first, items| {
            if send.sctl & 4 != 0 && send.sctl & way.direction as u8 != 0 {
                streams.push(Stream {
                    sent: first,
                    arrival: first.wrapping_add_signed(time + 53) + 2 * tile.row(),
                    source,
                    from: send.address + (first - send.start) * 8,
                    items,
                    item_bytes: 8,
                });
            }
        });
    }
}

/// Parts of sends that pass the mux, `time` events after they leave, inside `[start, end)`.
fn overlaps(
    sends: &[Send],
    start: u32,
    end: u32,
    time: i32,
    mut found: impl FnMut(&Send, u32, u32),
) {
    let shift = |event: u32| i64::from(event) - i64::from(time);
    let (start, end) = (shift(start), shift(end));
    let first = sends.partition_point(|send| i64::from(send.start + send.items) <= start);
    for send in sends[first..].iter().take_while(|send| i64::from(send.start) < end) {
        let from = start.max(i64::from(send.start));
        let to = end.min(i64::from(send.start + send.items));
        if from < to {
            found(send, from as u32, (to - from) as u32);
        }
    }
}

/// Splits streams where the pointer is set anew, and gives every piece its address.
fn write(streams: &[Stream], row: &RowEvents) -> Result<Vec<Arrival>, String> {
    let mut pics: Vec<(u32, Pic)> = row
        .pics
        .iter()
        .map(|(event, pic)| (if pic.format { event + FORMAT_LEAD } else { *event }, *pic))
        .collect();
    pics.sort_by_key(|(event, _)| *event);
    let mut controls = pics.iter().peekable();
    let mut pointer: Option<u32> = None;
    let mut format = 0;
    let mut arrivals = vec![];
    for stream in streams {
        let mut done = 0;
        while done < stream.items {
            let now = stream.arrival + done;
            while let Some((_, pic)) = controls.next_if(|(event, _)| *event <= now) {
                if pic.format { format = pic.value } else { pointer = Some(pic.value * 4) }
            }
            let until = controls.peek().map_or(u32::MAX, |(event, _)| *event);
            let items = (stream.items - done).min(until - now);
            if (stream.item_bytes == 8) != (format != 0) {
                return Err(format!(
                    "items of {} bytes arrive in format {format}",
                    stream.item_bytes
                ));
            }
            let to = pointer.ok_or("words arrive before a pointer is set")?;
            arrivals.push(Arrival {
                sent: stream.sent + done,
                written: now,
                source: stream.source,
                from: stream.from + done * stream.item_bytes,
                to,
                items,
                item_bytes: stream.item_bytes,
            });
            pointer = Some(to + items * stream.item_bytes);
            done += items;
        }
    }
    Ok(arrivals)
}
