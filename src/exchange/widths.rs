//! Which eligible transfers are worth being 64-bit, if neither all nor none are.
//!
//! A 64-bit message is through in half the time but takes its sender's partner along and needs
//! controls that meet nothing (`target/ipu21.md` §3.4). So only those are paired that an endpoint
//! with too much to do needs: all of its own, from some load on, or just enough of them that no other
//! has less to do.

use std::collections::BinaryHeap;

use super::jobs::Jobs;
use super::phase::Phase;

/// Loads from which on an endpoint has too much to do, in eighths of the bound.
const TOO_MUCH: [u32; 3] = [8, 6, 5];
/// Fewest words that gain anything: shorter messages are all controls.
const FEWEST: u32 = 16;

/// Width choices to try beside all and none, none of them twice.
pub fn mixtures(phase: &Phase, bound: u32) -> Vec<Vec<bool>> {
    let (sent, received) = Jobs::new(phase, |_| false).loads();
    let load = |index: usize| {
        let transfer = phase.transfer(index);
        let receivers = transfer.destinations.iter().map(|(tile, _)| received[usize::from(tile.0)]);
        receivers.max().unwrap_or(0).max(sent[usize::from(transfer.source.0)])
    };
    let eligible: Vec<bool> = (0..phase.len()).map(|index| phase.pairable(index)).collect();
    let balanced = Loads::new(phase, &eligible, &sent, &received).balance(phase);
    let is_some = |wide: &Vec<bool>| wide.contains(&true) && *wide != eligible;
    let mut choices: Vec<Vec<bool>> = vec![balanced].into_iter().filter(is_some).collect();
    for eighths in TOO_MUCH {
        let limit = bound / 8 * eighths;
        let worth = |index: usize| phase.transfer(index).words >= FEWEST && load(index) > limit;
        let wide: Vec<bool> =
            eligible.iter().enumerate().map(|(index, may)| *may && worth(index)).collect();
        if is_some(&wide) && !choices.contains(&wide) {
            choices.push(wide);
        }
    }
    choices
}

/// What every lane has to do. A tile's lane for sending has its number, that for receiving comes after
/// all of those.
struct Loads {
    tiles: usize,
    items: Vec<u32>,
    /// Transfers of a lane that can still become 64-bit, the longest last.
    narrow: Vec<Vec<usize>>,
}

impl Loads {
    fn new(phase: &Phase, eligible: &[bool], sent: &[u32], received: &[u32]) -> Loads {
        let tiles = sent.len();
        let mut loads =
            Loads { tiles, items: [sent, received].concat(), narrow: vec![vec![]; 2 * tiles] };
        for index in (0..phase.len()).filter(|index| eligible[*index]) {
            for lane in loads.lanes(phase, index) {
                loads.narrow[lane].push(index);
            }
        }
        for transfers in &mut loads.narrow {
            transfers.sort_by_key(|index| phase.transfer(*index).words);
        }
        loads
    }

    /// The lanes of a 32-bit transfer.
    fn lanes(&self, phase: &Phase, index: usize) -> Vec<usize> {
        let transfer = phase.transfer(index);
        let received = transfer.destinations.iter();
        let received = received.map(|(tile, _)| self.tiles + usize::from(tile.0));
        std::iter::once(usize::from(transfer.source.0)).chain(received).collect()
    }

    /// Widens transfers of the lane that has most to do, the longest first, as long as that gives no
    /// partner as much.
    fn balance(mut self, phase: &Phase) -> Vec<bool> {
        let mut wide = vec![false; phase.len()];
        let mut busiest: BinaryHeap<(u32, usize)> = self.items.iter().copied().zip(0..).collect();
        while let Some((load, lane)) = busiest.pop() {
            if self.items[lane] != load {
                busiest.push((self.items[lane], lane));
                continue;
            }
            let Some(index) = self.narrow[lane].pop() else { break };
            let transfer = phase.transfer(index);
            let partner = usize::from(transfer.source.partner().0);
            let half = transfer.words / 2;
            if !wide[index] && self.items[partner] + half < load {
                wide[index] = true;
                self.lanes(phase, index).into_iter().for_each(|lane| self.items[lane] -= half);
                self.items[partner] += half;
                busiest.push((self.items[partner], partner));
            }
            busiest.push((self.items[lane], lane));
        }
        wide
    }
}
