//! Giving every transfer, in a given order, the earliest start that fits.

use std::collections::BTreeSet;

use crate::target::topology::paired_time;
use crate::target::{TileId, route, time_to_mux};

use super::lanes::{Accesses, Controls, Lane, Mark, element_mask};
use super::phase::Phase;

/// When a transfer's first item leaves, and how wide its items are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// S of `target/ipu21.md` §2.3.
    pub event: u32,
    /// 64-bit items.
    pub paired: bool,
    /// S0: the part of S that is not shift.
    pub natural: u32,
}

/// Everything placed on one tile.
#[derive(Clone, Debug, Default)]
struct Tile {
    transmit: Lane,
    receive: Lane,
    controls: Controls,
    reads: Accesses,
    writes: Accesses,
}

/// One receiver of the transfer being placed.
#[derive(Clone, Copy)]
struct Receiver {
    tile: TileId,
    row: u32,
    /// Source window's start, relative to S.
    window: i32,
    /// Whether it is a pair's early member (selects the source).
    early: bool,
    mask: u32,
}

/// Transfers placed between two looks at whether to stop.
const PATIENCE: usize = 1024;

/// Places all transfers; `strict` tiles get no coinciding controls. `None` if `stopped` says so on
/// the way.
pub fn place(
    phase: &Phase,
    paired: bool,
    order: &[u32],
    strict: &BTreeSet<TileId>,
    stopped: &dyn Fn() -> bool,
) -> Option<Vec<Start>> {
    let nothing = Start { event: 0, paired: false, natural: 0 };
    let mut starts = vec![nothing; phase.len()];
    let items = |index: usize| {
        let words = phase.transfer(index).words;
        if paired && phase.pairable(index) { words / 2 } else { words }
    };
    let shortest = (0..phase.len()).map(items).min().unwrap_or(1);
    let lane = Lane::new(shortest);
    let tile = Tile { transmit: lane.clone(), receive: lane, ..Tile::default() };
    let mut tiles = vec![tile; usize::from(phase.tiles())];
    let strict: Vec<bool> = (0..phase.tiles()).map(|tile| strict.contains(&TileId(tile))).collect();
    let mut receivers = vec![];
    for (count, &index) in order.iter().enumerate() {
        if count % PATIENCE == 0 && stopped() {
            return None;
        }
        let index = index as usize;
        let wide = paired && phase.pairable(index);
        let placement = Placement::new(phase, index, wide, &mut receivers);
        let event = placement.earliest(&tiles, &receivers, &strict);
        placement.occupy(&mut tiles, &receivers, event);
        starts[index] = Start { event, paired: wide, natural: placement.natural };
    }
    Some(starts)
}

struct Placement {
    source: TileId,
    items: u32,
    paired: bool,
    natural: u32,
    mask: u32,
}

impl Placement {
    fn new(phase: &Phase, index: usize, paired: bool, receivers: &mut Vec<Receiver>) -> Placement {
        let transfer = phase.transfer(index);
        let source = transfer.source;
        let mut least = 0;
        receivers.clear();
        for &(tile, address) in transfer.destinations {
            let mask = element_mask(address, transfer.words);
            let time = time_to_mux(source, tile);
            least = least.min(time);
            let window = if paired { paired_time(source, tile) } else { time + 1 };
            let early = paired && route(source, tile).destination_is_early;
            receivers.push(Receiver { tile, row: tile.row(), window, early, mask });
        }
        Placement {
            source,
            items: if paired { transfer.words / 2 } else { transfer.words },
            paired,
            natural: -least as u32,
            mask: element_mask(transfer.source_address, transfer.words),
        }
    }

    /// The earliest start that all lanes, controls and elements admit.
    fn earliest(&self, tiles: &[Tile], receivers: &[Receiver], strict: &[bool]) -> u32 {
        let mut event = self.natural;
        loop {
            let before = event;
            event = self.sender_earliest(tiles, event);
            for receiver in receivers {
                event = self.receiver_earliest(tiles, receiver, strict, event);
            }
            if event == before {
                return event;
            }
        }
    }

    fn sender_earliest(&self, tiles: &[Tile], from: u32) -> u32 {
        let tile = &tiles[usize::from(self.source.0)];
        let mut event = tile.transmit.earliest(from, self.busy(from));
        if self.paired {
            let partner = &tiles[usize::from(self.source.partner().0)];
            event = partner.transmit.earliest(event, self.busy(event));
        }
        if !tile.controls.admits_start(event) {
            return event + 1;
        }
        match tile.writes.conflict(event, self.sender_horizon(event), self.mask) {
            Some(end) => end,
            None => event,
        }
    }

    /// Events for which the transmit lane is taken: a paired send's at least six from the natural
    /// start.
    fn busy(&self, event: u32) -> u32 {
        if self.paired { self.sender_horizon(event) - event } else { self.items }
    }

    /// Until when the sender's memory, and the lane that a paired send borrows, are busy (§2.3).
    fn sender_horizon(&self, event: u32) -> u32 {
        (event + self.items).max(event - self.natural + 6)
    }

    fn receiver_earliest(
        &self,
        tiles: &[Tile],
        receiver: &Receiver,
        strict: &[bool],
        from: u32,
    ) -> u32 {
        let tile = &tiles[usize::from(receiver.tile.0)];
        let window = from.wrapping_add_signed(receiver.window);
        // A paired window keeps an event on both sides for its own controls.
        let (before, length) = if self.paired { (1, self.items + 2) } else { (0, self.items) };
        let found = tile.receive.earliest(window.saturating_sub(before), length) + before;
        let event = from + found.saturating_sub(window);
        let window = event.wrapping_add_signed(receiver.window);
        let alone = strict[usize::from(receiver.tile.0)];
        let fits = |(at, mark)| tile.controls.admits(at, mark, alone);
        if !self.marks(receiver, window).into_iter().flatten().all(fits) {
            return event + 1;
        }
        let (start, end) = self.write_span(receiver, window);
        match tile.reads.conflict(start, end, receiver.mask) {
            Some(free) => event + (free - start),
            None => event,
        }
    }

    /// Controls of a receiver whose source window starts at `window`.
    fn marks(&self, receiver: &Receiver, window: u32) -> [Option<(u32, Mark)>; 5] {
        let end = window + self.items;
        if !self.paired {
            let pointer = window + 52 + 2 * receiver.row;
            return [
                Some((window, Mark::Select)),
                Some((end, Mark::Release)),
                Some((pointer, Mark::Pointer)),
                None,
                None,
            ];
        }
        let format = window + 51 + 2 * receiver.row;
        let select = receiver.early.then_some((window, Mark::Paired));
        let release = receiver.early.then_some((end, Mark::Paired));
        [
            select,
            release,
            Some((format, Mark::Paired)),
            Some((format + 2, Mark::Paired)),
            Some((format + self.items, Mark::Paired)),
        ]
    }

    /// Events during which a receiver's memory is written, guard included.
    fn write_span(&self, receiver: &Receiver, window: u32) -> (u32, u32) {
        if self.paired {
            let format = window + 51 + 2 * receiver.row;
            return (format + 2, format + self.items + 9);
        }
        let pointer = window + 52 + 2 * receiver.row;
        (pointer, pointer + self.items + 6)
    }

    fn occupy(&self, tiles: &mut [Tile], receivers: &[Receiver], event: u32) {
        let end = self.sender_horizon(event);
        let sender = &mut tiles[usize::from(self.source.0)];
        sender.transmit.occupy(event, event + self.busy(event));
        sender.controls.add_start(event);
        sender.reads.add(event, end, self.mask);
        if self.paired {
            tiles[usize::from(self.source.partner().0)].transmit.occupy(event, end);
        }
        for receiver in receivers {
            let window = event.wrapping_add_signed(receiver.window);
            let tile = &mut tiles[usize::from(receiver.tile.0)];
            let side = u32::from(self.paired);
            tile.receive.occupy(window - side, window + self.items + side);
            for (at, mark) in self.marks(receiver, window).into_iter().flatten() {
                tile.controls.add(at, mark);
            }
            let (start, end) = self.write_span(receiver, window);
            tile.writes.add(start, end, receiver.mask);
        }
    }
}
