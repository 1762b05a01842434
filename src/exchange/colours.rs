//! An order for point-to-point traffic: rounds in which every tile sends at most one message and
//! receives at most one.
//!
//! The messages are the edges of a bipartite multigraph, and its edges can be coloured with as many
//! colours as the busiest tile has messages (Kőnig). Messages of about one length are coloured
//! together, the longest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

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
        by_colour(&colour(jobs, &messages), &messages, &mut order);
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

/// Which message has a colour at a tile, senders first.
struct Table {
    colours: usize,
    /// Tiles of both sides; a receiver counts on from the last sender.
    held: Vec<u32>,
    /// Colours that a tile has not, one bit each, `words` words a tile.
    free: Vec<u64>,
    words: usize,
}

/// A colour for each of `messages` (in their order), as few as possible.
fn colour(jobs: &Jobs, messages: &[u32]) -> Vec<u32> {
    let tiles = usize::from(jobs.tiles());
    let node = |message: &u32| {
        let sender = usize::from(jobs.job(*message as usize).source.0);
        let receiver = usize::from(jobs.ends(*message as usize)[0].tile.0);
        (sender as u32, (tiles + receiver) as u32)
    };
    let nodes: Vec<(u32, u32)> = messages.iter().map(node).collect();
    let mut degrees = vec![0; 2 * tiles];
    for (sender, receiver) in &nodes {
        degrees[*sender as usize] += 1;
        degrees[*receiver as usize] += 1;
    }
    let mut table = Table::new(2 * tiles, degrees.into_iter().max().unwrap_or(0));
    let mut given = vec![0; messages.len()];
    for (at, (sender, receiver)) in nodes.iter().enumerate() {
        let (sender, receiver) = (*sender as usize, *receiver as usize);
        let colour = table.free_at_both(sender, receiver).unwrap_or_else(|| {
            let (free, wanted) = (table.free_at(sender), table.free_at(receiver));
            table.swap(receiver, free, wanted, &nodes, &mut given);
            free
        });
        table.set(sender, colour, at as u32);
        table.set(receiver, colour, at as u32);
        given[at] = colour as u32;
    }
    given
}

impl Table {
    fn new(nodes: usize, colours: usize) -> Table {
        let words = colours.div_ceil(64);
        let last = u64::MAX >> (64 * words - colours);
        let mut free = vec![u64::MAX; nodes * words];
        for node in free.chunks_mut(words.max(1)) {
            node.last_mut().into_iter().for_each(|word| *word = last);
        }
        Table { colours, held: vec![NONE; nodes * colours], free, words }
    }

    fn get(&self, node: usize, colour: usize) -> u32 {
        self.held[node * self.colours + colour]
    }

    fn set(&mut self, node: usize, colour: usize, message: u32) {
        self.held[node * self.colours + colour] = message;
        let word = &mut self.free[node * self.words + colour / 64];
        let bit = 1 << (colour % 64);
        *word = if message == NONE { *word | bit } else { *word & !bit };
    }

    fn free(&self, node: usize) -> &[u64] {
        &self.free[node * self.words..(node + 1) * self.words]
    }

    /// The first colour that no message at `node` has; there is one, as its messages are no more
    /// than the colours and one of them has none yet.
    fn free_at(&self, node: usize) -> usize {
        self.free_at_both(node, node).unwrap_or(0)
    }

    /// The first colour that no message at either node has.
    fn free_at_both(&self, node: usize, other: usize) -> Option<usize> {
        let both = self.free(node).iter().zip(self.free(other)).map(|(one, two)| one & two);
        let (word, bits) = both.enumerate().find(|(_, bits)| *bits != 0)?;
        Some(64 * word + bits.trailing_zeros() as usize)
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
