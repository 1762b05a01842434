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
    direction: u32,
}

/// Whether every sender has its lane: a paired send borrows the partner's, which cannot send at
/// the same time (`target/ipu21.md` §3.3).
///
/// # Errors
/// The tile that sends while its lane is lent, and when.
pub fn lanes(rows: &[RowEvents]) -> Result<(), (TileId, String)> {
    for (tile, row) in (0..).map(TileId).zip(rows) {
        let Some(partner) = rows.get(usize::from(tile.partner().0)) else {
            continue;
        };
        for send in row.sends.iter().filter(|send| send.sctl & 4 != 0) {
            let end = send.start + send.items;
            let at = partner.sends.partition_point(|other| other.start + other.items <= send.start);
            if let Some(other) = partner.sends.get(at).filter(|other| other.start < end) {
                let what = format!("it sends at event {} while its lane is lent", other.start);
                return Err((tile.partner(), what));
            }
        }
    }
    Ok(())
}

/// Everything that arrives at `tile`, in the order in which it is written; `rows` by logical tile.
///
/// # Errors
/// If words arrive before any pointer is set, two at once, or in another format than they are sent,
/// or if the format changes under ordinary words.
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
        let Some(source) = PhysicalTile::new(source).map(PhysicalTile::logical) else {
            continue;
        };
        let Some(sender) = rows.get(usize::from(source.0)) else {
            continue;
        };
        let way = route(source, tile);
        let latency = way.write_latency;
        overlaps(&sender.sends, start, end, way.time_to_mux + 1, |send, first, items| {
            if send.sctl & 4 == 0 && send.sctl & way.direction as u8 != 0 {
                streams.push(Stream {
                    sent: first,
                    arrival: first + latency,
                    source,
                    from: send.address.wrapping_add((first - send.start) * 4),
                    items,
                    item_bytes: 4,
                    direction: 0,
                });
            }
        });
    }
    streams
}

/// What `selector`'s paired selections bring to `tile` (the selector itself or its partner).
fn paired(tile: TileId, selector: TileId, rows: &[RowEvents], streams: &mut Vec<Stream>) {
    let Some(row) = rows.get(usize::from(selector.0)) else {
        return;
    };
    let lane = selector.physical().0 & 2;
    for (start, end, value) in windows(row, true) {
        let Some(source) = PhysicalTile::new(value ^ lane).map(PhysicalTile::logical) else {
            continue;
        };
        let Some(sender) = rows.get(usize::from(source.0)) else {
            continue;
        };
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
                    from: send.address.wrapping_add((first - send.start) * 8),
                    items,
                    item_bytes: 8,
                    direction: route(source, tile).direction as u32,
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
    receiver(streams, row)?;
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
                if pic.format {
                    format = pic.value;
                } else {
                    pointer = Some(row.incoming_base.wrapping_add(pic.value * 4));
                }
            }
            let until = controls.peek().map_or(u32::MAX, |(event, _)| *event);
            let items = (stream.items - done).min(until - now);
            if stream.direction != format {
                let bytes = stream.item_bytes;
                return Err(format!(
                    "items of {bytes} bytes arrive at event {now} in format {format}"
                ));
            }
            let to = pointer.ok_or("words arrive before a pointer is set")?;
            let end = to.checked_add(items * stream.item_bytes);
            arrivals.push(Arrival {
                sent: stream.sent + done,
                written: now,
                source: stream.source,
                from: stream.from.wrapping_add(done * stream.item_bytes),
                to,
                items,
                item_bytes: stream.item_bytes,
            });
            pointer = Some(end.ok_or("words arrive beyond any address")?);
            done += items;
        }
    }
    Ok(arrivals)
}

/// What stops the chip's receiver whatever the pointer: one lane takes one item an event, and the
/// format may not change while ordinary words are written (`target/ipu21.md` §2.5, R1 to R3).
fn receiver(streams: &[Stream], row: &RowEvents) -> Result<(), String> {
    for pair in streams.windows(2) {
        if pair[1].arrival < pair[0].arrival + pair[0].items {
            return Err(format!("two items arrive at event {}", pair[1].arrival));
        }
    }
    for (event, _) in row.pics.iter().filter(|(_, pic)| pic.format) {
        let at = streams.partition_point(|stream| stream.arrival + stream.items <= *event);
        let under = streams.get(at).filter(|stream| stream.arrival <= *event);
        if under.is_some_and(|stream| stream.item_bytes == 4) {
            return Err(format!("the format changes at event {event} while ordinary words arrive"));
        }
    }
    Ok(())
}
