//! An order for point-to-point traffic: rounds in which every tile sends at most one message and
//! receives at most one.
//!
//! The messages are the edges of a bipartite multigraph, and its edges can be coloured with as many
//! colours as the busiest tile has messages (Kőnig). Messages of about one length are coloured
//! together, the longest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::jobs::Jobs;

/// Indices of all jobs, round after round. Of a message to several tiles only the first counts.
pub fn rounds(jobs: &Jobs) -> Vec<u32> {
    let mut lengths: BTreeMap<Reverse<u32>, Vec<u32>> = BTreeMap::new();
    for index in 0..jobs.len() {
        let length = jobs.job(index).items.max(1).ilog2();
        lengths.entry(Reverse(length)).or_default().push(index as u32);
    }
    let mut order = Vec::with_capacity(jobs.len());
    for messages in lengths.into_values() {
        let colours = colour(&nodes(jobs, &messages), 2 * usize::from(jobs.tiles()), SPARE);
        by_colour(&colours, &messages, &mut order);
    }
    order
}

/// Adds messages to an order, colour after colour and else as given.
fn by_colour(colours: &[u32], messages: &[u32], order: &mut Vec<u32>) {
    let most = colours.iter().max().map_or(0, |most| *most as usize);
    // Where the messages of each colour go: after those of all colours before.
    let mut places = vec![0; most + 2];
    colours.iter().for_each(|colour| places[*colour as usize + 1] += 1);
    places[0] = order.len();
    (0..=most).for_each(|colour| places[colour + 1] += places[colour]);
    order.resize(order.len() + messages.len(), 0);
    for (colour, message) in colours.iter().zip(messages) {
        let place = &mut places[*colour as usize];
        order[*place] = *message;
        *place += 1;
    }
}

/// No message has this colour at a tile.
const NONE: u32 = u32::MAX;

/// Colours that a tile has a row for, for each of its messages.
const SPARE: usize = 4;

/// Which message has a colour at a tile, senders first.
struct Table {
    rows: Vec<Row>,
    held: Vec<u32>,
    /// Colours that a tile has not, one bit each.
    free: Vec<u64>,
    /// The message of a tile and a colour that the tile's row does not reach. Rows for all colours would
    /// take as much for every tile as the busiest one needs.
    far: FxHashMap<(u32, u32), u32>,
}

/// What is kept for all of the first colours of a tile.
#[derive(Clone, Copy)]
struct Row {
    /// How many colours: all, or whole words of them and more than twice the tile's messages.
    colours: usize,
    /// Where they begin in the table's messages.
    held: usize,
    /// Where they begin in the table's words of free ones.
    free: usize,
}

/// The ends of some messages. A receiver counts on from the last sender.
fn nodes(jobs: &Jobs, messages: &[u32]) -> Vec<(u32, u32)> {
    let ends = |message: &u32| {
        let sender = jobs.job(*message as usize).source;
        let receiver = jobs.ends(*message as usize)[0].tile;
        (u32::from(sender.0), u32::from(jobs.tiles()) + u32::from(receiver.0))
    };
    messages.iter().map(ends).collect()
}

/// A colour for each message between two of `count` nodes, as few as possible. How long rows are does
/// not change them.
fn colour(nodes: &[(u32, u32)], count: usize, spare: usize) -> Vec<u32> {
    let mut degrees = vec![0_usize; count];
    for (sender, receiver) in nodes {
        degrees[*sender as usize] += 1;
        degrees[*receiver as usize] += 1;
    }
    let mut table = Table::new(&degrees, spare);
    let mut given = vec![0; nodes.len()];
    for (at, (sender, receiver)) in nodes.iter().enumerate() {
        let (sender, receiver) = (*sender as usize, *receiver as usize);
        let colour = table.free_at_both(sender, receiver).unwrap_or_else(|| {
            let (free, wanted) = (table.free_at(sender), table.free_at(receiver));
            table.swap(receiver, free, wanted, nodes, &mut given);
            free
        });
        table.set(sender, colour, at as u32);
        table.set(receiver, colour, at as u32);
        given[at] = colour as u32;
    }
    given
}

impl Table {
    fn new(degrees: &[usize], spare: usize) -> Table {
        let all = degrees.iter().copied().max().unwrap_or(0);
        let mut rows = Vec::with_capacity(degrees.len());
        let (mut held, mut free) = (0, 0);
        for degree in degrees {
            let colours = degree.saturating_mul(spare).min(all).next_multiple_of(64).min(all);
            rows.push(Row { colours, held, free });
            held += colours;
            free += colours.div_ceil(64);
        }
        let mut free = vec![u64::MAX; free];
        for row in rows.iter().filter(|row| row.colours % 64 != 0) {
            free[row.free + row.colours / 64] = u64::MAX >> (64 - row.colours % 64);
        }
        Table { rows, held: vec![NONE; held], free, far: FxHashMap::default() }
    }

    fn get(&self, node: usize, colour: usize) -> u32 {
        let row = self.rows[node];
        if colour < row.colours {
            return self.held[row.held + colour];
        }
        self.far.get(&(node as u32, colour as u32)).copied().unwrap_or(NONE)
    }

    fn set(&mut self, node: usize, colour: usize, message: u32) {
        let row = self.rows[node];
        if colour < row.colours {
            self.held[row.held + colour] = message;
            let word = &mut self.free[row.free + colour / 64];
            let bit = 1 << (colour % 64);
            *word = if message == NONE { *word | bit } else { *word & !bit };
        } else if message == NONE {
            self.far.remove(&(node as u32, colour as u32));
        } else {
            self.far.insert((node as u32, colour as u32), message);
        }
    }

    fn free(&self, node: usize) -> &[u64] {
        let row = self.rows[node];
        &self.free[row.free..row.free + row.colours.div_ceil(64)]
    }

    /// The first colour that no message at `node` has; there is one, as its messages are no more
    /// than the colours and one of them has none yet.
    fn free_at(&self, node: usize) -> usize {
        self.free_at_both(node, node).unwrap_or(0)
    }

    /// The first colour that no message at either node has.
    fn free_at_both(&self, node: usize, other: usize) -> Option<usize> {
        let first = |(word, bits): (usize, u64)| 64 * word + bits.trailing_zeros() as usize;
        let both = self.free(node).iter().zip(self.free(other)).map(|(one, two)| one & two);
        let found = both.enumerate().find(|(_, bits)| *bits != 0).map(first);
        found.or_else(|| self.free_behind(node, other))
    }

    /// The same behind the shorter of their rows. The longer one suffices: if it has not all colours,
    /// it has more than both nodes have messages.
    fn free_behind(&self, node: usize, other: usize) -> Option<usize> {
        let longer = self.rows[node].colours > self.rows[other].colours;
        let (short, long) = if longer { (other, node) } else { (node, other) };
        let words = self.free(long).iter().enumerate().skip(self.free(short).len());
        let colours = words.filter(|(_, bits)| **bits != 0).flat_map(|(word, bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| 64 * word + bit)
        });
        colours.into_iter().find(|colour| !self.far.contains_key(&(short as u32, *colour as u32)))
    }

    /// Exchanges two colours along the path from `node` that begins with `taken`, so that `taken` is
    /// free there. The path cannot come back to a tile where `taken` was free on the other side.
    fn swap(
        &mut self,
        node: usize,
        taken: usize,
        other: usize,
        nodes: &[(u32, u32)],
        given: &mut [u32],
    ) {
        let (mut node, mut from, mut to) = (node, taken, other);
        let mut message = self.get(node, from);
        self.set(node, from, NONE);
        while message != NONE {
            let (sender, receiver) = nodes[message as usize];
            let far = if sender as usize == node { receiver } else { sender } as usize;
            let next = self.get(far, to);
            self.set(node, to, message);
            self.set(far, to, message);
            given[message as usize] = to as u32;
            // `far` held the message under `from`: the next one takes that colour there.
            self.set(far, from, NONE);
            (node, from, to) = (far, to, from);
            message = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Messages between random nodes, of which a few have most.
    fn crowded(random: &mut ChaCha8Rng) -> (Vec<(u32, u32)>, usize) {
        let (side, busy) = (random.random_range(4..60), random.random_range(1..4));
        let mut end = || {
            let most = if random.random_bool(0.7) { busy } else { side };
            random.random_range(0..most)
        };
        let nodes = (0..1500).map(|_| (end(), side + end())).collect();
        (nodes, 2 * side as usize)
    }

    #[test]
    fn short_rows_give_the_colours_that_full_ones_give() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let mut far = 0;
        for _ in 0..40 {
            let (nodes, count) = crowded(&mut random);
            let given = colour(&nodes, count, SPARE);
            assert_eq!(given, colour(&nodes, count, usize::MAX));
            let mut seen = BTreeSet::new();
            let mut degrees = vec![0; count];
            for ((sender, receiver), colour) in nodes.iter().zip(&given) {
                assert!(seen.insert((*sender, colour)) && seen.insert((*receiver, colour)));
                degrees[*sender as usize] += 1;
                degrees[*receiver as usize] += 1;
            }
            let most = degrees.iter().copied().max();
            assert!(given.iter().max().map(|most| *most as usize) < most);
            let table = Table::new(&degrees, SPARE);
            let reach = |node: &u32| table.rows[*node as usize].colours;
            let ends = nodes.iter().zip(&given);
            far += ends.filter(|((_, end), colour)| **colour as usize >= reach(end)).count();
        }
        assert!(far > 1000, "{far} colours are behind their rows");
    }

    /// One sender of all, many receivers of few.
    #[test]
    fn rows_take_as_much_as_there_are_messages() {
        let mut degrees = vec![60; 1_500];
        degrees[0] = 90_000;
        let table = Table::new(&degrees, SPARE);
        assert!(table.held.len() < 6 * 180_000 && table.free.len() < 20_000);
    }
}
