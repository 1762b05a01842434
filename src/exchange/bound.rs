//! What no schedule of a phase can beat.

use crate::target::time_to_mux;

use super::phase::Phase;

/// A lower bound on the horizon: for every endpoint, the earliest that its first item can pass, its
/// items one an event, and the shortest way from its last item to the end of a row
/// (`target/ipu21.md` §2.3). 64-bit items halve what an eligible transfer needs on both sides, and
/// take the lane of the sender's partner too.
pub fn lower_bound(phase: &Phase) -> u32 {
    let tiles = usize::from(phase.tiles());
    let mut sent = vec![Port::default(); tiles];
    let mut received = vec![Port::default(); tiles];
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let items = if phase.pairable(index) { transfer.words / 2 } else { transfer.words };
        let mut natural = 0;
        let mut tail = 0;
        for (tile, _) in transfer.destinations {
            let time = time_to_mux(transfer.source, *tile);
            natural = natural.max(-time);
            tail = tail.max(time + 58 + 2 * tile.row() as i32);
        }
        let natural = natural as u32;
        // An item leaves at `natural` at the earliest; after the last one, the farthest receiver's
        // row runs on for `tail` events (one fewer for a pair's early member: not counted).
        sent[usize::from(transfer.source.0)].add(items, natural, (tail - 1).max(0) as u32);
        for (tile, _) in transfer.destinations {
            received[usize::from(tile.0)].add(items, 1, 57 + 2 * tile.row());
        }
    }
    sent.iter().chain(&received).map(Port::bound).max().unwrap_or(0)
}

/// One endpoint: items, the least head and the least tail of any transfer there.
#[derive(Clone, Copy, Debug, Default)]
struct Port {
    items: u32,
    ends: Option<(u32, u32)>,
}

impl Port {
    fn add(&mut self, items: u32, head: u32, tail: u32) {
        self.items += items;
        let (least_head, least_tail) = self.ends.unwrap_or((head, tail));
        self.ends = Some((least_head.min(head), least_tail.min(tail)));
    }

    fn bound(&self) -> u32 {
        self.ends.map_or(0, |(head, tail)| head + self.items + tail)
    }
}
