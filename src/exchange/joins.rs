//! Messages of one sender that can be one: with the same receivers, from addresses that go on.
//!
//! Where they go on at every receiver, too, they are scheduled as one, which needs one
//! send, one select and one pointer. Others are only sent as one, where they happen to lie back to back.

use crate::target::{Address, TileId};

use super::phase::{MOST_WORDS, Phase, Transfer};

/// Whether two messages of one sender have the same receivers, and no tile of theirs reads and
/// writes one memory element: there, the memory of a message is taken from its first item to its
/// last (rules M1 and D1 of `target/ipu21.md` §2.5), longer for one message than for two.
pub(super) fn admit(phase: &Phase, first: u32, second: u32) -> bool {
    let [first, second] = [first, second].map(|index| phase.transfer(index as usize));
    let calm = |tile: TileId| phase.contended(tile) == 0;
    fn tiles(ends: &[(TileId, Address)]) -> impl Iterator<Item = TileId> {
        ends.iter().map(|(tile, _)| *tile)
    }
    tiles(first.destinations).eq(tiles(second.destinations))
        && calm(first.source)
        && tiles(first.destinations).all(calm)
}

/// The phase in which transfers that continue one another are one message, where the first of them
/// was; none if nothing continues.
pub(super) fn join(phase: &Phase) -> Option<Phase> {
    let next = followers(phase)?;
    let mut follows = vec![false; phase.len()];
    next.iter().flatten().for_each(|later| follows[*later as usize] = true);
    let mut messages: Vec<(u32, u32)> = vec![];
    for head in (0..phase.len() as u32).filter(|head| !follows[*head as usize]) {
        let chain: Vec<u32> = std::iter::successors(Some(head), |at| next[*at as usize]).collect();
        let mut rest = chain.as_slice();
        while let Some(first) = rest.first() {
            let (parts, words) = joinable(phase, rest);
            messages.push((*first, words));
            rest = &rest[parts..];
        }
    }
    if messages.len() == phase.len() {
        return None;
    }
    messages.sort_unstable();
    let mut joined = Phase::new(phase.tiles());
    for (first, words) in messages {
        let first = phase.transfer(first as usize);
        let sources: Vec<Address> = first.sources().collect();
        let added = joined.add_moving(first.source, &sources, first.destinations, words);
        added.expect("parts of a phase are legal, and so is what they are together");
    }
    Some(joined)
}

/// Of transfers that go on, how many of the first become one message, and its words: as many as the
/// fabric can carry at once, but if they can be 64-bit, it can.
fn joinable(phase: &Phase, parts: &[u32]) -> (usize, u32) {
    let first = phase.transfer(parts[0] as usize);
    let (mut best, mut words) = ((1, first.words), first.words);
    let mut wide = phase.can_pair(&first);
    for (count, part) in parts.iter().enumerate().skip(1) {
        let transfer = phase.transfer(*part as usize);
        words += transfer.words;
        if words > MOST_WORDS {
            break;
        }
        wide |= phase.can_pair(&transfer);
        if !wide || phase.can_pair(&Transfer { words, ..first }) {
            best = (count + 1, words);
        }
    }
    best
}

/// The transfer that goes on where each one ends; none if no transfer has one.
fn followers(phase: &Phase) -> Option<Vec<Option<u32>>> {
    // Sender and first receiver before the number: only those with the same can go on.
    let key = |index: u32| {
        let transfer = phase.transfer(index as usize);
        let receiver = transfer.destinations[0].0;
        u64::from(transfer.source.0) << 48 | u64::from(receiver.0) << 32 | u64::from(index)
    };
    let mut keys: Vec<u64> = (0..phase.len() as u32).map(key).collect();
    keys.sort_unstable();
    let mut next = vec![];
    for group in keys.chunk_by(|one, other| one >> 32 == other >> 32) {
        if group.len() == 1 {
            continue;
        }
        let at = |transfer: &Transfer<'_>, done: u32| {
            let shift = |address: Address| address.0 + 4 * done;
            (shift(transfer.source_address), shift(transfer.destinations[0].1))
        };
        let begins = |key: &u64| {
            let index = *key as u32;
            (at(&phase.transfer(index as usize), 0), index)
        };
        let mut begun: Vec<((u32, u32), u32)> = group.iter().map(begins).collect();
        begun.sort_unstable();
        for (_, index) in &begun {
            let transfer = phase.transfer(*index as usize);
            let end = at(&transfer, transfer.words);
            let Ok(found) = begun.binary_search_by_key(&end, |begun| begun.0) else { continue };
            let later = begun[found].1;
            if goes_on(&transfer, &phase.transfer(later as usize)) && admit(phase, *index, later) {
                next.resize(phase.len(), None);
                next[*index as usize] = Some(later);
            }
        }
    }
    (!next.is_empty()).then_some(next)
}

/// Whether the words of `second` lie behind those of `first` wherever they are read and written. Not
/// where a tile hears itself, which may have been split on purpose (rule T3).
fn goes_on(first: &Transfer<'_>, second: &Transfer<'_>) -> bool {
    let behind = |(first_at, second_at): (Address, Address)| {
        second_at.0.checked_sub(first_at.0) == Some(4 * first.words)
    };
    let home = first.destinations.iter().any(|(tile, _)| *tile == first.source);
    !home
        && !first.moves()
        && !second.moves()
        && behind((first.source_address, second.source_address))
        && first
            .destinations
            .iter()
            .zip(second.destinations)
            .all(|(one, two)| behind((one.1, two.1)))
}
