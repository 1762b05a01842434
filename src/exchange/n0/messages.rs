//! A phase as N0 sees it: messages and the lanes that they hold.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::exchange::Phase;

/// The messages of a phase, in its order.
pub struct Messages {
    words: Vec<u32>,
    /// Lanes of all messages, one message after the other.
    lanes: Vec<u32>,
    /// Where each message's lanes begin, and where the last one's end.
    first: Vec<u32>,
    loads: Vec<u32>,
}

impl Messages {
    /// The messages of `phase`. Lanes that no message uses have no number.
    pub fn new(phase: &Phase) -> Messages {
        let transfers = (0..phase.len()).map(|index| phase.transfer(index));
        Messages::from_parts(transfers.map(|transfer| {
            let receive = transfer.destinations.iter().map(|(tile, _)| (false, tile.0));
            (transfer.words, [(true, transfer.source.0)].into_iter().chain(receive))
        }))
    }

    /// Messages of so many words with the lanes they hold, whatever names those.
    fn from_parts<Name: Ord, Names: Iterator<Item = Name>>(
        parts: impl Iterator<Item = (u32, Names)>,
    ) -> Messages {
        let (mut words, mut lanes, mut first) = (vec![], vec![], vec![0]);
        let mut loads: Vec<u32> = vec![];
        let mut numbers = BTreeMap::new();
        for (length, names) in parts {
            for name in names {
                let next = numbers.len();
                let lane = *numbers.entry(name).or_insert(next);
                loads.resize(numbers.len(), 0);
                loads[lane] += length;
                lanes.push(lane as u32);
            }
            words.push(length);
            first.push(lanes.len() as u32);
        }
        Messages { words, lanes, first, loads }
    }

    /// Number of messages.
    pub fn count(&self) -> usize {
        self.words.len()
    }

    /// Words of a message.
    pub fn words(&self, message: usize) -> u32 {
        self.words[message]
    }

    /// Lanes that a message holds.
    pub fn lanes(&self, message: usize) -> &[u32] {
        let Range { start, end } = self.first[message]..self.first[message + 1];
        &self.lanes[start as usize..end as usize]
    }

    /// Words that every lane carries.
    pub fn loads(&self) -> &[u32] {
        &self.loads
    }

    /// The messages that hold each lane.
    pub fn by_lane(&self) -> Vec<Vec<u32>> {
        let mut by_lane = vec![vec![]; self.loads.len()];
        for message in 0..self.count() {
            for lane in self.lanes(message) {
                by_lane[*lane as usize].push(message as u32);
            }
        }
        by_lane
    }
}
