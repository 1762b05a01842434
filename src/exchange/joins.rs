//! Messages of one sender that can be one: with the same receivers, from addresses that go on.
//!
//! Where they go on at every receiver, too, they are scheduled as one ([`Joined`]), which needs one
//! send, one select and one pointer. Others are only sent as one, where they happen to lie back to back.

use crate::target::{Address, TileId};

use super::phase::{MOST_WORDS, Phase, Transfer};
use super::place::Start;

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

/// A phase whose messages that continue one another are one.
pub(super) struct Joined {
    /// The messages, each where the first of its parts was.
    pub(super) phase: Phase,
    /// The parts of every message, in the order of their words.
    parts: Vec<Vec<u32>>,
}

impl Joined {
    /// Joins what continues; none if nothing does.
    pub(super) fn of(phase: &Phase) -> Option<Joined> {
        let next = followers(phase)?;
        let mut follows = vec![false; phase.len()];
        next.iter().flatten().for_each(|later| follows[*later as usize] = true);
        let mut joined = Joined { phase: Phase::new(phase.tiles()), parts: vec![] };
        for head in (0..phase.len() as u32).filter(|head| !follows[*head as usize]) {
            let chain: Vec<u32> =
                std::iter::successors(Some(head), |at| next[*at as usize]).collect();
            let mut rest = chain.as_slice();
            while !rest.is_empty() {
                let (message, left) = rest.split_at(joinable(phase, rest));
                rest = left;
                joined.parts.push(message.to_vec());
            }
        }
        if joined.parts.len() == phase.len() {
            return None;
        }
        joined.parts.sort_unstable_by_key(|parts| parts[0]);
        for parts in &joined.parts {
            let first = phase.transfer(parts[0] as usize);
            let sources: Vec<Address> = first.sources().collect();
            let words = words(phase, parts);
            let added = joined.phase.add_moving(first.source, &sources, first.destinations, words);
            added.expect("parts of a phase are legal, and so is what they are together");
            if !phase.pairable(parts[0] as usize) {
                joined.phase.keep_narrow();
            }
        }
        Some(joined)
    }

    /// The parts of every message of several.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[u32]> {
        self.parts.iter().map(Vec::as_slice).filter(|parts| parts.len() > 1)
    }

    /// Starts of all parts, from those of the messages.
    pub(super) fn split(&self, phase: &Phase, starts: &[Start]) -> Vec<Start> {
        let mut of_parts = vec![None; phase.len()];
        for (parts, start) in self.parts.iter().zip(starts) {
            let mut event = start.event;
            for part in parts {
                of_parts[*part as usize] = Some(Start { event, ..*start });
                let words = phase.transfer(*part as usize).words;
                event += if start.paired { words / 2 } else { words };
            }
        }
        of_parts.into_iter().flatten().collect()
    }

    /// Starts of the messages, from those of their parts.
    pub(super) fn whole(&self, starts: &[Start]) -> Vec<Start> {
        self.parts.iter().map(|parts| starts[parts[0] as usize]).collect()
    }
}

fn words(phase: &Phase, parts: &[u32]) -> u32 {
    parts.iter().map(|part| phase.transfer(*part as usize).words).sum()
}

/// Of parts that go on, how many of the first can be one message: the fabric can carry it, and it can
/// be 64-bit where they can. One of 52 words needs an event more than its parts.
fn joinable(phase: &Phase, parts: &[u32]) -> usize {
    let first = phase.transfer(parts[0] as usize);
    let wide = phase.pairable(parts[0] as usize);
    let (mut most, mut words) = (1, first.words);
    for (count, part) in parts.iter().enumerate().skip(1) {
        let transfer = phase.transfer(*part as usize);
        words += transfer.words;
        if words > MOST_WORDS || phase.pairable(*part as usize) != wide {
            break;
        }
        if words != 52 && (!wide || phase.can_pair(&Transfer { words, ..first })) {
            most = count + 1;
        }
    }
    most
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
