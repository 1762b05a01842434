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
        let colours = colour(jobs, &messages);
        let mut rounds: Vec<(u32, u32)> = colours.into_iter().zip(messages).collect();
        rounds.sort_unstable();
        order.extend(rounds.into_iter().map(|(_, index)| index));
    }
    order
}

/// No message has this colour at a tile.
const NONE: u32 = u32::MAX;

/// Which message has a colour at a tile, senders first.
struct Table {
    colours: usize,
    /// Tiles of both sides; a receiver counts on from the last sender.
    held: Vec<u32>,
}

/// A colour for each of `messages` (in their order), as few as possible.
fn colour(jobs: &Jobs, messages: &[u32]) -> Vec<u32> {
    let tiles = usize::from(jobs.tiles());
    let nodes = |at: usize| {
        let index = messages[at] as usize;
        let sender = usize::from(jobs.job(index).source.0);
        (sender, tiles + usize::from(jobs.ends(index)[0].tile.0))
    };
    let mut degrees = vec![0; 2 * tiles];
    for at in 0..messages.len() {
        let (sender, receiver) = nodes(at);
        degrees[sender] += 1;
        degrees[receiver] += 1;
    }
    let colours = degrees.into_iter().max().unwrap_or(0);
    let mut table = Table { colours, held: vec![NONE; 2 * tiles * colours] };
    let mut given = vec![0; messages.len()];
    for at in 0..messages.len() {
        let (sender, receiver) = nodes(at);
        let (free, wanted) = (table.free(sender), table.free(receiver));
        if free != wanted {
            table.swap(receiver, free, wanted, &nodes, &mut given);
        }
        table.set(sender, free, at as u32);
        table.set(receiver, free, at as u32);
        given[at] = free as u32;
    }
    given
}

impl Table {
    fn get(&self, node: usize, colour: usize) -> u32 {
        self.held[node * self.colours + colour]
    }

    fn set(&mut self, node: usize, colour: usize, message: u32) {
        self.held[node * self.colours + colour] = message;
    }

    /// The first colour that no message at `node` has; there is one, as its messages are no more
    /// than the colours and one of them has none yet.
    fn free(&self, node: usize) -> usize {
        let row = &self.held[node * self.colours..(node + 1) * self.colours];
        row.iter().position(|held| *held == NONE).unwrap_or(0)
    }

    /// Exchanges two colours along the path from `node` that begins with `taken`, so that `taken` is
    /// free there. The path cannot come back to a tile where `taken` was free on the other side.
    fn swap(
        &mut self,
        node: usize,
        taken: usize,
        other: usize,
        nodes: &impl Fn(usize) -> (usize, usize),
        given: &mut [u32],
    ) {
        let (mut node, mut from, mut to) = (node, taken, other);
        let mut message = self.get(node, from);
        self.set(node, from, NONE);
        while message != NONE {
            let (sender, receiver) = nodes(message as usize);
            let far = if sender == node { receiver } else { sender };
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
