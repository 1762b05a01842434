//! Which transfers of a phase wait for which (rule D1 of `target/ipu21.md` §2.5): of two that touch
//! the same bytes of a tile, one of them writing, the later waits for the completion of the earlier.
//!
//! Where a thousand transfers read a block that another thousand writes, that is a million pairs.
//! They are not kept: only who writes what, by address, and for every stretch of these who reads all
//! of it. All pairs of a transfer are told from that in time proportional to their number. No pair
//! may be left out for being implied by others: readers of a word do not wait for one another, so
//! who writes it has to wait for each.

use super::phase::Phase;

/// The pairs of transfers that have to keep the order in which they were added, as each word is
/// written at most once.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// What is written on tiles that also read there: by which transfer, by tile and address. A place
    /// here is a write.
    writers: Vec<u32>,
    /// The places that each transfer reads, as ascending ranges that do not touch.
    read: Lists<(u32, u32)>,
    /// The places that each transfer writes.
    written: Lists<u32>,
    /// A binary tree over the places, its root the first and its leaves the last nodes: for each node
    /// who reads all places below it and not all below its parent, ascending.
    readers: Lists<u32>,
}

impl Waits {
    /// The waits of a phase.
    pub fn new(phase: &Phase) -> Waits {
        if !phase.contends() {
            return Waits::default();
        }
        let writes = phase.writes(|tile| phase.contended(tile) != 0);
        let mut writers = vec![];
        let mut written = vec![];
        // By tile: what is written there, and the place of the first.
        let mut places = vec![None; usize::from(phase.tiles())];
        for (tile, spans) in &writes {
            places[usize::from(tile.0)] = Some((spans, writers.len()));
            for span in spans {
                written.push((span.2 as u32, writers.len() as u32));
                writers.push(span.2 as u32);
            }
        }
        let (mut read, mut readers) = (vec![], vec![]);
        let mut ranges = vec![];
        for index in 0..phase.len() {
            let transfer = phase.transfer(index);
            let Some((spans, first)) = places[usize::from(transfer.source.0)] else { continue };
            let met = transfer.sources().map(|address| {
                let end = address.0 + 4 * transfer.words;
                let start = spans.partition_point(|span| span.1 <= address.0);
                let met = spans[start..].partition_point(|span| span.0 < end);
                ((first + start) as u32, (first + start + met) as u32)
            });
            ranges.clear();
            ranges.extend(met.filter(|range| range.0 < range.1));
            // Iterations of a loop may read the same.
            for range in merged(&mut ranges) {
                read.push((index as u32, range));
                let nodes = nodes(range, writers.len());
                readers.extend(nodes.map(|node| (node, index as u32)));
            }
        }
        if read.is_empty() {
            return Waits::default();
        }
        Waits {
            read: Lists::new(read, phase.len()),
            written: Lists::new(written, phase.len()),
            readers: Lists::new(readers, 2 * writers.len()),
            writers,
        }
    }

    /// Whether no transfer waits for another.
    pub fn is_empty(&self) -> bool {
        self.writers.is_empty()
    }

    /// The transfers that one waits for, in no order, all added before it. One whose words it reads
    /// and that has read words before it writes them comes twice.
    pub fn earlier(&self, index: u32) -> impl Iterator<Item = u32> {
        let read = self.read.of(index).iter();
        let read = read.flat_map(|range| &self.writers[range.0 as usize..range.1 as usize]);
        let leaf = move |place: &u32| place + self.writers.len() as u32;
        let nodes = self.written.of(index).iter().map(leaf).flat_map(|leaf| {
            std::iter::successors(Some(leaf), |node| Some(node / 2).filter(|node| *node > 0))
        });
        let overwritten = nodes.flat_map(move |node| {
            self.readers.of(node).iter().take_while(move |reader| **reader < index)
        });
        read.filter(move |writer| **writer < index).chain(overwritten).copied()
    }

    /// Hashes which of so many transfers wait for which.
    pub(super) fn hash(&self, transfers: usize, hasher: &mut blake3::Hasher) {
        if self.is_empty() {
            return;
        }
        // Those that one transfer waits for as bits, each once and in an order that no address has a
        // say in.
        let mut bits = vec![0_u64; transfers.div_ceil(64)];
        let (mut touched, mut bytes) = (vec![], vec![]);
        for index in 0..transfers as u32 {
            for earlier in self.earlier(index) {
                let word = earlier / 64;
                if bits[word as usize] == 0 {
                    touched.push(word);
                }
                bits[word as usize] |= 1 << (earlier % 64);
            }
            touched.sort_unstable();
            for word in touched.drain(..) {
                let found = std::mem::take(&mut bits[word as usize]);
                bytes.extend([index, word].map(u32::to_le_bytes).as_flattened());
                bytes.extend(found.to_le_bytes());
            }
            hasher.update(&bytes);
            bytes.clear();
        }
    }
}

/// Ranges that do not touch and hold the same.
fn merged(ranges: &mut Vec<(u32, u32)>) -> impl Iterator<Item = (u32, u32)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    ranges.iter().copied()
}

/// The fewest nodes of the tree over so many places that have a range of them below them.
fn nodes(range: (u32, u32), places: usize) -> impl Iterator<Item = u32> {
    let leaf = |place: u32| place + places as u32;
    let level = (leaf(range.0), leaf(range.1));
    let up = |(start, end): &(u32, u32)| Some((start.div_ceil(2), end / 2));
    std::iter::successors(Some(level), up).take_while(|level| level.0 < level.1).flat_map(
        |(start, end)| {
            // A right child at the start, a left one at the end: their parents have more below them.
            let first = (start % 2 == 1).then_some(start);
            let last = (end % 2 == 1).then(|| end - 1);
            first.into_iter().chain(last)
        },
    )
}

/// A list for each of some numbers, all in one.
#[derive(Clone, Debug, Default)]
struct Lists<T> {
    /// Where the list of each number begins, and where the last ends; empty without lists.
    first: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy + Ord> Lists<T> {
    /// The lists of the numbers up to `count`, their items ascending.
    fn new(mut items: Vec<(u32, T)>, count: usize) -> Lists<T> {
        items.sort_unstable();
        let mut first = vec![0; count + 1];
        items.iter().for_each(|(number, _)| first[*number as usize + 1] += 1);
        for number in 0..count {
            first[number + 1] += first[number];
        }
        Lists { first, items: items.into_iter().map(|(_, item)| item).collect() }
    }

    fn of(&self, number: u32) -> &[T] {
        let number = number as usize;
        match self.first.get(number..number + 2) {
            Some(ends) => &self.items[ends[0] as usize..ends[1] as usize],
            None => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rand::seq::SliceRandom;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::exchange::jobs::Jobs;
    use crate::exchange::place::{Rules, place};
    use crate::exchange::shape;
    use crate::target::{Address, TileId};

    /// Messages between few tiles with little memory: in a loop or not, to tiles alone or to pairs.
    fn phase(random: &mut ChaCha8Rng, shift: u32) -> Phase {
        let pairs = random.random_range(2..7_u16);
        let (room, iterations) = (random.random_range(10..200_u32), random.random_range(1..4));
        let steps: Vec<u32> = (0..iterations).map(|_| random.random_range(0..room)).collect();
        let mut phase = Phase::new(2 * pairs);
        let mut written = BTreeSet::new();
        for _ in 0..random.random_range(2..60) {
            let words = 2 * random.random_range(1..12_u32);
            let mut at = || Address(0x60000 + shift + 8 * random.random_range(0..room));
            let (from, to) = (at(), [(); 4].map(|()| at()));
            let source = TileId(random.random_range(0..2 * pairs));
            let first = TileId(2 * random.random_range(0..pairs));
            let second = TileId(random.random_range(0..2 * pairs));
            let mut ends: Vec<_> = match random.random_range(0..3) {
                0 => vec![(first, to[0]), (first.partner(), to[1])],
                1 => vec![(first, to[0]), (second, to[2])],
                _ => vec![(second, to[3])],
            };
            ends.dedup_by_key(|end| end.0);
            ends.retain(|(tile, at)| {
                let all = || (0..words).map(|word| (*tile, at.0 + 4 * word));
                let free = *tile != source && all().all(|word| !written.contains(&word));
                free && all().all(|word| written.insert(word))
            });
            if ends.is_empty() {
                continue;
            }
            let moved = |step: &u32| Address(from.0 + 8 * step);
            let moving: Vec<Address> = steps.iter().map(moved).collect();
            let moving = if random.random_range(0..2) == 0 { &moving[..] } else { &[from] };
            phase.add_moving(source, moving, &ends, words).unwrap();
        }
        phase.check_accesses().unwrap();
        phase
    }

    /// Every pair, word by word: whom each transfer waits for.
    fn pairs(phase: &Phase) -> BTreeMap<u32, BTreeSet<u32>> {
        let all = || (0..phase.len() as u32).map(|index| (index, phase.transfer(index as usize)));
        let mut writers = BTreeMap::new();
        for (index, transfer) in all() {
            for (tile, at) in transfer.destinations {
                writers.extend((0..transfer.words).map(|word| ((*tile, at.0 + 4 * word), index)));
            }
        }
        let mut pairs: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (index, transfer) in all() {
            for at in transfer.sources() {
                for word in 0..transfer.words {
                    if let Some(&writer) = writers.get(&(transfer.source, at.0 + 4 * word)) {
                        pairs.entry(index.max(writer)).or_default().insert(index.min(writer));
                    }
                }
            }
        }
        pairs
    }

    /// Takes a job after all that it waits for.
    fn take(index: u32, pairs: &BTreeMap<u32, BTreeSet<u32>>, sorted: &mut Vec<u32>) {
        if sorted.contains(&index) {
            return;
        }
        pairs.get(&index).into_iter().flatten().for_each(|index| take(*index, pairs, sorted));
        sorted.push(index);
    }

    #[test]
    fn waits_orders_and_events_are_those_of_all_pairs() {
        let (mut waiting, mut number) = (0, 0);
        for seed in 0..500 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let phase = phase(&mut random, 0);
            let pairs = pairs(&phase);
            let waits = Waits::new(&phase);
            assert_eq!(waits.is_empty(), pairs.is_empty());
            for index in 0..phase.len() as u32 {
                let told: BTreeSet<u32> = waits.earlier(index).collect();
                assert_eq!(told, pairs.get(&index).cloned().unwrap_or_default(), "seed {seed}");
                assert!(waits.earlier(index).count() <= 2 * told.len());
            }
            waiting += pairs.len();
            number += pairs.values().map(BTreeSet::len).sum::<usize>();
            for wide in [false, true] {
                let jobs = Jobs::new(&phase, |index| wide && phase.pairable(index));
                let mut order: Vec<u32> = (0..phase.len() as u32).collect();
                order.shuffle(&mut random);
                let found = jobs.in_order(&order);
                if phase.iterations() == 1 {
                    let mut sorted = vec![];
                    order.iter().for_each(|index| take(*index, &pairs, &mut sorted));
                    assert_eq!(found, sorted, "seed {seed}");
                }
                let events =
                    place(&jobs, &found, Rules::Lanes, u32::MAX, &|| false).unwrap().events;
                for index in 0..phase.len() as u32 {
                    let job = jobs.job(index as usize);
                    let complete =
                        |at: &u32| events[*at as usize] + jobs.job(*at as usize).completion;
                    let all = pairs.get(&index).into_iter().flatten();
                    let ready = job.natural + all.map(complete).max().unwrap_or(0);
                    assert_eq!(jobs.ready(index, job, &events), ready, "seed {seed}");
                }
            }
        }
        assert!(
            waiting > 2_000 && 3 * number > 4 * waiting,
            "{number} pairs of {waiting} that wait"
        );
    }

    /// The shape tells phases by who waits for whom, not by where.
    #[test]
    fn shapes_are_equal_wherever_the_words_lie() {
        for seed in 0..100 {
            let phase = |shift| phase(&mut ChaCha8Rng::seed_from_u64(seed), shift);
            assert_eq!(shape(&phase(0)), shape(&phase(64)));
        }
    }

    /// As many readers of a block as writers of its words, each of whom waits for all readers.
    #[test]
    fn as_much_is_kept_as_there_are_accesses() {
        let count = 2_000;
        let mut phase = Phase::new(1 + count);
        for index in 1..=count {
            let to = [(TileId(index % 400 + 1), Address(0x90000 + 8_000 * u32::from(index / 400)))];
            phase.add(TileId(0), Address(0x60000), &to, u32::from(count)).unwrap();
        }
        for index in 1..=count {
            let to = [(TileId(0), Address(0x60000 + 4 * u32::from(index - 1)))];
            phase.add(TileId(index % 400 + 1), Address(0x58000), &to, 1).unwrap();
        }
        let waits = Waits::new(&phase);
        let all: usize = (0..phase.len() as u32).map(|index| waits.earlier(index).count()).sum();
        assert_eq!(all, usize::from(count) * usize::from(count));
        let kept = [waits.writers.len(), waits.read.items.len(), waits.written.items.len()];
        assert!(kept.iter().all(|kept| *kept <= usize::from(count)));
        // A range takes two nodes of each level at most.
        assert!(waits.readers.items.len() <= 2 * 11 * usize::from(count));
    }
}
