//! Messages as their senders made them and everybody who hears them: directions, loop-back, borrowed
//! lanes, and until when a sender is busy (`target/ipu21.md` §1.3, §2.3, §2.5 S2 and T2, §3.3).

use std::iter;

use crate::target::{TileId, route, time_to_mux};

use super::arrivals::Arrival;
use super::rows::Decoded;
use super::violation::{Violation, Violations};

/// One message.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    /// Event of its first item.
    pub(super) start: u32,
    /// One past the event of its last item.
    pub(super) end: u32,
    /// One past the last event at which its sender, and the partner of a paired sender, is busy.
    pub(super) horizon: u32,
    natural: u32,
    sctl: u8,
    /// Who hears it, ascending, and how many of its items.
    receivers: Vec<(TileId, u32)>,
}

impl Message {
    /// Events by which it starts later than it could (o of §2.3).
    pub(super) fn shift(&self) -> u32 {
        self.start.saturating_sub(self.natural)
    }
}

/// Events from a natural start for which a sender is busy at least (§2.3).
const LEAST_BUSY: u32 = 6;

/// All messages of all tiles; `arrivals` by receiver.
pub(super) fn messages(rows: &[Decoded], arrivals: &[Vec<Arrival>]) -> Vec<Vec<Message>> {
    let mut all: Vec<Vec<Message>> = rows.iter().map(of_row).collect();
    for (tile, arrivals) in (0..).map(TileId).zip(arrivals) {
        for arrival in arrivals {
            let message = &mut all[usize::from(arrival.source.0)][arrival.message as usize];
            match message.receivers.last_mut().filter(|last| last.0 == tile) {
                Some(last) => last.1 += arrival.items,
                None => message.receivers.push((tile, arrival.items)),
            }
        }
    }
    for (source, messages) in (0..).map(TileId).zip(&mut all) {
        for message in messages {
            // Without a receiver nothing says when it could have started: nothing was shifted.
            let least = message.receivers.iter().map(|found| time_to_mux(source, found.0)).min();
            message.natural = least.map_or(message.start, |time| (-time).max(0) as u32);
            message.horizon = message.end.max(message.shift() + LEAST_BUSY);
        }
    }
    all
}

fn of_row(row: &Decoded) -> Vec<Message> {
    let mut messages: Vec<Message> = vec![];
    for send in &row.sends {
        let end = send.start + send.items;
        match messages.get_mut(send.message as usize) {
            Some(message) => message.end = end,
            None => messages.push(Message {
                start: send.start,
                end,
                sctl: send.sctl,
                ..Message::default()
            }),
        }
    }
    messages
}

impl Message {
    /// Whether items are 64 bits wide.
    pub(super) fn is_paired(&self) -> bool {
        self.sctl & 4 != 0
    }

    /// Directions and width for exactly these receivers (§1.3).
    fn wanted_sctl(&self, source: TileId) -> Option<u8> {
        let (first, _) = *self.receivers.first()?;
        let direction = route(source, first).direction as u8;
        if !self.is_paired() {
            return Some(if self.receivers.len() == 1 { direction } else { 3 });
        }
        let one_pair = self.receivers.iter().all(|(tile, _)| tile.0 / 2 == first.0 / 2);
        Some(if one_pair && first.0 / 2 != source.0 / 2 { direction | 4 } else { 7 })
    }

    fn goes_home_only(&self, source: TileId) -> bool {
        let home = |(tile, _): &(TileId, u32)| {
            *tile == source || (self.is_paired() && *tile == source.partner())
        };
        !self.receivers.is_empty() && self.receivers.iter().all(home)
    }

    /// Whether every receiver hears all of it, and there is one.
    fn is_heard(&self) -> bool {
        let items = self.end - self.start;
        !self.receivers.is_empty() && self.receivers.iter().all(|found| found.1 == items)
    }
}

/// Rules of the messages of one tile: their directions, that nothing of them is lost, T2 as far as it
/// asks for another receiver, that 64-bit ones have whole pairs, and S2.
pub(super) fn check(tile: TileId, messages: &[Vec<Message>], violations: &mut Violations) {
    let Some(own) = messages.get(usize::from(tile.0)) else { return };
    for message in own {
        let event = message.start;
        if let Some(expected) = message.wanted_sctl(tile).filter(|sctl| *sctl != message.sctl) {
            let found = message.sctl;
            violations.add(Violation::Direction { tile, event, found, expected });
        }
        if !message.is_heard() {
            violations.add(Violation::Unheard { tile, event });
        }
        if message.goes_home_only(tile) {
            violations.add(Violation::Loopback { tile, event });
        }
        let ends = || iter::once(tile).chain(message.receivers.iter().map(|found| found.0));
        let half = |tile: &TileId| usize::from(tile.partner().0) >= messages.len();
        if let Some(half) = ends().find(half).filter(|_| message.is_paired()) {
            violations.add(Violation::HalfPair { tile, event, half });
        }
    }
    let Some(partner) = messages.get(usize::from(tile.partner().0)) else { return };
    for lent in partner.iter().filter(|message| message.is_paired()) {
        let at = own.partition_point(|message| message.end <= lent.start);
        if let Some(message) = own.get(at).filter(|message| message.start < lent.horizon) {
            violations.add(Violation::LaneTaken { tile, event: message.start.max(lent.start) });
        }
    }
}

/// The event that a tile's row must reach for its own messages and those that borrow its lane.
pub(super) fn busy_until(tile: TileId, messages: &[Vec<Message>]) -> u32 {
    let of = |tile: TileId| messages.get(usize::from(tile.0)).into_iter().flatten();
    let lent = of(tile.partner()).filter(|message| message.is_paired());
    of(tile).chain(lent).map(|message| message.horizon).max().unwrap_or(0)
}
