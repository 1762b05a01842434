//! Memory accesses of one tile in one phase: rules M1, M2, M3 and T2 (`target/ipu21.md` §2.5).

use std::collections::BTreeMap;

use crate::target::sram::{LOOK_AHEAD, MEMORY_END, MEMORY_START, elements};
use crate::target::{Address, Bytes, TileId};

use super::arrivals::Arrival;
use super::messages::Message;
use super::rows::Decoded;
use super::violation::{Violation, Violations};

/// Bytes that are touched during some events.
#[derive(Clone, Copy, Debug)]
struct Access {
    start: u32,
    end: u32,
    address: u32,
    bytes: u32,
}

impl Access {
    fn elements(&self) -> impl Iterator<Item = u8> + use<> {
        elements(Address(self.address), Bytes(self.bytes)).map(|element| element.0)
    }

    fn is_inside(&self) -> bool {
        let end = u64::from(self.address) + u64::from(self.bytes);
        self.address >= MEMORY_START.0 && end <= u64::from(MEMORY_END.0)
    }
}

/// Events that a receiver's memory is busy after its last item is written (§2.3, §3.2): the
/// reference knows one length of ordinary messages that needs one more.
const GUARD: u32 = 5;
const GUARD_OF_52: u32 = 6;

/// First event, one past the last with the guard, for every message that a tile hears.
#[derive(Clone, Debug, Default)]
pub(super) struct Receives(BTreeMap<(TileId, u32), (u32, u32)>);

impl Receives {
    /// Of these arrivals.
    pub(super) fn new(arrivals: &[Arrival]) -> Receives {
        let mut found: BTreeMap<(TileId, u32), (u32, u32, u32)> = BTreeMap::new();
        for arrival in arrivals {
            let key = (arrival.source, arrival.message);
            let (start, end, items) =
                found.entry(key).or_insert((arrival.written, arrival.end(), 0));
            *start = arrival.written.min(*start);
            *end = arrival.end().max(*end);
            // Wide items never count as 52.
            *items += if arrival.item_bytes == 8 { 53 } else { arrival.items };
        }
        let guarded = found.into_iter().map(|(key, (start, end, items))| {
            let guard = if items == 52 { GUARD_OF_52 } else { GUARD };
            (key, (start, end + guard))
        });
        Receives(guarded.collect())
    }

    /// The receiver horizon.
    pub(super) fn horizon(&self) -> u32 {
        self.0.values().map(|span| span.1).max().unwrap_or(0)
    }

    fn span(&self, arrival: &Arrival) -> (u32, u32) {
        let found = self.0.get(&(arrival.source, arrival.message)).copied();
        found.unwrap_or((arrival.written, arrival.end() + GUARD))
    }
}

/// One tile's part in a phase.
pub(super) struct Tile<'a> {
    pub(super) tile: TileId,
    pub(super) row: &'a Decoded,
    pub(super) messages: &'a [Message],
    /// Where the row lies.
    pub(super) place: Option<u32>,
    pub(super) arrivals: &'a [Arrival],
    pub(super) receives: &'a Receives,
}

impl Tile<'_> {
    pub(super) fn check(&self, violations: &mut Violations) {
        let (reads, writes) = (self.reads(), self.writes());
        for access in reads.iter().chain(&writes).filter(|access| !access.is_inside()) {
            let (tile, address) = (self.tile, access.address);
            violations.add(Violation::OutOfMemory { tile, address });
        }
        self.conflicts(&by_element(&reads), &by_element(&writes), violations);
        self.alignment(violations);
        self.loopback(violations);
    }

    /// What sends read, until their sender's horizon.
    fn reads(&self) -> Vec<Access> {
        let access = |send: &super::rows::Sent| {
            let message = self.messages.get(send.message as usize);
            let own = (send.start, send.start + send.items);
            let (start, end) = message.map_or(own, |message| (message.start, message.horizon));
            let bytes = send.items * send.item_bytes();
            Access { start, end, address: send.address, bytes }
        };
        self.row.sends.iter().map(access).collect()
    }

    /// What receives write, until their receiver's horizon.
    fn writes(&self) -> Vec<Access> {
        let access = |arrival: &Arrival| {
            let (start, end) = self.receives.span(arrival);
            Access { start, end, address: arrival.to, bytes: arrival.bytes() }
        };
        self.arrivals.iter().map(access).collect()
    }

    /// Rules M1 and M2.
    fn conflicts(
        &self,
        read: &[(u8, u32, u32)],
        written: &[(u8, u32, u32)],
        violations: &mut Violations,
    ) {
        let tile = self.tile;
        for (element, start, end) in read {
            let first = written.partition_point(|span| span.0 < *element);
            let of_element = written[first..].iter().take_while(|span| span.0 == *element);
            let mut before = of_element.take_while(|span| span.1 < *end);
            if let Some(span) = before.find(|span| span.2 > *start) {
                let (element, event) = (*element, span.1.max(*start));
                violations.add(Violation::ElementConflict { tile, element, event });
            }
        }
        let Some(row) = self.place else { return };
        let bytes = Bytes(4 * self.row.length as u32 + LOOK_AHEAD.0);
        for element in elements(Address(row), bytes).map(|element| element.0) {
            let holds = |spans: &[(u8, u32, u32)]| {
                spans.binary_search_by_key(&element, |span| span.0).is_ok()
            };
            if holds(read) || holds(written) {
                violations.add(Violation::RowElement { tile, row, element });
            }
        }
    }

    /// Rule M3.
    fn alignment(&self, violations: &mut Violations) {
        let reads = self.row.sends.iter().map(|send| (send.address, send.item_bytes()));
        let writes = self.arrivals.iter().map(|arrival| (arrival.to, arrival.item_bytes));
        for (address, bytes) in reads.chain(writes) {
            if !address.is_multiple_of(bytes) {
                violations.add(Violation::Alignment { tile: self.tile, address });
            }
        }
    }

    /// Rule T2: what a tile sends to itself goes to another element, whenever it arrives.
    fn loopback(&self, violations: &mut Violations) {
        for arrival in self.arrivals.iter().filter(|arrival| arrival.source == self.tile) {
            let touched = |address| elements(Address(address), Bytes(arrival.bytes()));
            let shared = touched(arrival.from).any(|from| touched(arrival.to).any(|to| to == from));
            if shared {
                violations.add(Violation::Loopback { tile: self.tile, event: arrival.written });
            }
        }
    }
}

/// Element, first event, one past the last; ascending, each once.
fn by_element(accesses: &[Access]) -> Vec<(u8, u32, u32)> {
    let spans = |access: &Access| {
        let (start, end) = (access.start, access.end);
        access.elements().map(move |element| (element, start, end))
    };
    let mut all: Vec<_> = accesses.iter().flat_map(spans).collect();
    all.sort_unstable();
    all.dedup();
    all
}
