//! Messages of one sender to the same receivers that are read one behind the other: sent without a gap
//! they are one send, with a pointer for each at its receivers.

use super::phase::{Phase, Transfer};

/// By tile, how many first and second events of sends there are at least, if every transfer that can goes
/// on in another's send; `first` says of a transfer how many it has by itself.
pub(super) fn first_events(phase: &Phase, first: impl Fn(usize) -> u32) -> Vec<u32> {
    let mut edges: Vec<Edge> = Vec::with_capacity(2 * phase.len());
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        edges.push(Edge { place: place(&transfer, 0), begins: first(index) });
        edges.push(Edge { place: place(&transfer, transfer.words), begins: 0 });
    }
    edges.sort_unstable();
    let mut events = vec![0; usize::from(phase.tiles())];
    for edges in edges.chunk_by(|one, other| one.place == other.place) {
        let ends = edges.partition_point(|edge| edge.begins == 0);
        // Each that ends here can go on in one that begins here; those with the fewest events cannot.
        let begins = &edges[ends..];
        let left = begins.len().saturating_sub(ends);
        let taken: u32 = begins[..left].iter().map(|edge| edge.begins).sum();
        events[(edges[0].place >> SENDER) as usize] += taken;
    }
    events
}

/// Where the words of a transfer begin or end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    place: u64,
    /// First and second events of a send that begins here; none where one ends.
    begins: u32,
}

/// Where the sender's number lies in a place.
const SENDER: u32 = 48;

/// The word so many behind the first of a transfer. Of the receivers only the first and their number tell
/// transfers apart, so that some count as going on that cannot: a bound is only lower for it.
fn place(transfer: &Transfer<'_>, words: u32) -> u64 {
    let at = u64::from(transfer.source_address.0 / 4 + words);
    let receivers = u64::from(transfer.destinations[0].0.0) << 12
        | u64::from(transfer.moves()) << 11
        | transfer.destinations.len() as u64;
    u64::from(transfer.source.0) << SENDER | receivers << 24 | at
}
