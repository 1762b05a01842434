//! What an exchange phase carries: the bytes of every arrival, read when they leave.
//!
//! A word is read from its sender's memory at the event at which it is sent, so a word that a tile
//! receives and sends on in one phase goes on as it was received (`target/ipu21.md` §2.5, D1).
//! Arrivals that no other arrival of the phase feeds or overwrites are copied whole; only the
//! others are followed item by item.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::exchange::Arrival;

/// Sorted disjoint spans, `start..end`.
type Union = Vec<(u32, u32)>;

/// An item's step on the event clock: event, writes after reads, receiver, arrival, item.
type ItemEvent = (u32, bool, usize, usize, u32);

/// The bytes of all arrivals of all receivers; `read` gives what a tile's memory held before the
/// phase.
///
/// # Errors
/// What `read` says.
pub fn payloads<E: Send>(
    moved: &[Vec<Arrival>],
    read: impl Fn(usize, u32, u32) -> Result<Vec<u8>, E> + Sync,
) -> Result<Vec<Vec<Vec<u8>>>, E> {
    let mut payloads: Vec<Vec<Vec<u8>>> = moved
        .par_iter()
        .map(|arrivals| {
            let whole = |a: &Arrival| read(usize::from(a.source.0), a.from, a.items * a.item_bytes);
            arrivals.iter().map(whole).collect()
        })
        .collect::<Result<_, E>>()?;
    let entangled = entangled(moved);
    if !entangled.is_empty() {
        forward(moved, &entangled, &mut payloads);
    }
    Ok(payloads)
}

/// Arrivals, as receiver and index, that read what the phase writes or write what it reads.
fn entangled(moved: &[Vec<Arrival>]) -> Vec<(usize, usize)> {
    let size = |a: &Arrival| a.items * a.item_bytes;
    let mut reads: Vec<Union> = vec![vec![]; moved.len()];
    for arrival in moved.iter().flatten() {
        reads[usize::from(arrival.source.0)].push((arrival.from, arrival.from + size(arrival)));
    }
    let reads: Vec<Union> = reads.into_iter().map(union).collect();
    let write = |a: &Arrival| (a.to, a.to + size(a));
    let writes: Vec<Union> =
        moved.iter().map(|arrivals| union(arrivals.iter().map(write).collect())).collect();
    let mut found = vec![];
    for (tile, arrivals) in moved.iter().enumerate() {
        for (index, arrival) in arrivals.iter().enumerate() {
            let end = arrival.from + size(arrival);
            let is_fed = meets(&writes[usize::from(arrival.source.0)], arrival.from, end);
            if is_fed || meets(&reads[tile], arrival.to, arrival.to + size(arrival)) {
                found.push((tile, index));
            }
        }
    }
    found
}

fn union(mut spans: Union) -> Union {
    spans.sort_unstable();
    let mut joined: Union = vec![];
    for (start, end) in spans {
        match joined.last_mut().filter(|last| start <= last.1) {
            Some(last) => last.1 = last.1.max(end),
            None => joined.push((start, end)),
        }
    }
    joined
}

fn meets(spans: &[(u32, u32)], start: u32, end: u32) -> bool {
    let at = spans.partition_point(|span| span.1 <= start);
    spans.get(at).is_some_and(|span| span.0 < end)
}

/// Replaces payloads by what was in memory when each item was read: an item that is read at an
/// event sees what was written before that event.
fn forward(moved: &[Vec<Arrival>], entangled: &[(usize, usize)], payloads: &mut [Vec<Vec<u8>>]) {
    let mut events: Vec<ItemEvent> = vec![];
    for (tile, index) in entangled {
        let arrival = &moved[*tile][*index];
        for item in 0..arrival.items {
            events.push((arrival.sent + item, false, *tile, *index, item));
            events.push((arrival.written + item, true, *tile, *index, item));
        }
    }
    events.sort_unstable();
    let mut fresh: BTreeMap<(usize, u32), u8> = BTreeMap::new();
    for (_, writes, tile, index, item) in events {
        let arrival = &moved[tile][index];
        let shift = item * arrival.item_bytes;
        let range = shift as usize..(shift + arrival.item_bytes) as usize;
        let bytes = &mut payloads[tile][index][range];
        if writes {
            for (at, byte) in (arrival.to + shift..).zip(bytes.iter()) {
                fresh.insert((tile, at), *byte);
            }
        } else {
            let source = usize::from(arrival.source.0);
            for (at, byte) in (arrival.from + shift..).zip(bytes) {
                if let Some(new) = fresh.get(&(source, at)) {
                    *byte = *new;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::target::TileId;

    use super::*;

    fn arrival(sent: u32, source: u16, from: u32, to: u32, items: u32) -> Arrival {
        Arrival { sent, written: sent + 55, source: TileId(source), from, to, items, item_bytes: 4 }
    }

    /// Memory in which every byte tells its tile and address.
    fn memory(tile: usize, at: u32, count: u32) -> Result<Vec<u8>, ()> {
        Ok((at..at + count).map(|at| (tile as u32 * 64 + at) as u8).collect())
    }

    #[test]
    fn what_is_forwarded_is_what_was_received_before() {
        // Tile 0's words reach tile 1 from event 55 on, which sends them on to tile 2.
        let moved = vec![vec![], vec![arrival(0, 0, 0, 16, 10)], vec![arrival(50, 1, 16, 0, 10)]];
        let found = payloads(&moved, memory).unwrap();
        let old = memory(1, 16, 40).unwrap();
        let new = memory(0, 0, 40).unwrap();
        // Word k is written at 55 + k and read at 50 + k: five events too early, every one of them.
        assert_eq!(found[2][0], old);
        let late = vec![vec![], moved[1].clone(), vec![arrival(56, 1, 16, 0, 10)]];
        assert_eq!(payloads(&late, memory).unwrap()[2][0], new);
    }

    #[test]
    fn a_source_that_is_overwritten_later_is_sent_as_it_was() {
        let moved = vec![vec![arrival(0, 1, 0, 0, 8)], vec![arrival(0, 0, 0, 0, 8)]];
        let found = payloads(&moved, memory).unwrap();
        assert_eq!(found[0][0], memory(1, 0, 32).unwrap());
        assert_eq!(found[1][0], memory(0, 0, 32).unwrap());
    }

    #[test]
    fn only_what_meets_is_followed() {
        let moved = vec![vec![], vec![arrival(0, 0, 0, 64, 4)], vec![arrival(0, 1, 0, 0, 4)]];
        assert!(entangled(&moved).is_empty());
        let moved = vec![vec![], vec![arrival(0, 0, 0, 12, 4)], vec![arrival(0, 1, 0, 0, 4)]];
        assert_eq!(entangled(&moved), [(1, 0), (2, 0)]);
    }
}
