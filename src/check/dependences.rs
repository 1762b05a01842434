//! Rule D1 (`target/ipu21.md` §2.5): where two messages touch one word of a tile and one of them
//! writes it, the later in program order starts, without its natural start, only after the earlier is
//! complete.

use crate::target::TileId;

use super::arrivals::Arrival;
use super::messages::Message;
use super::phase::Wanted;
use super::violation::{Violation, Violations};

/// A message: its sender, and its number in the sender's row.
type Name = (TileId, u32);

/// A word that one message reads and another writes.
#[derive(Clone, Copy, Debug)]
struct Meeting {
    tile: TileId,
    address: u32,
    reader: Name,
    writer: Name,
    /// Places in program order, of the word that is read and of the one that is written; `None` if
    /// nobody wants it.
    order: [Option<usize>; 2],
}

/// A phase's arrivals by receiver and messages by sender, and what is wanted in program order.
pub(super) struct Dependences<'a> {
    pub(super) arrived: &'a [Vec<Arrival>],
    pub(super) messages: &'a [Vec<Message>],
    /// Ascending, each with its place in program order; `None` if no word may be read and written.
    pub(super) wanted: Option<&'a [(Wanted, usize)]>,
}

impl Dependences<'_> {
    pub(super) fn check(&self, violations: &mut Violations) {
        let meetings = self.meetings();
        if meetings.is_empty() {
            return;
        }
        let completions = self.completions();
        let completion = |name: Name| completions[usize::from(name.0.0)][name.1 as usize];
        let shift = |name: Name| self.messages[usize::from(name.0.0)][name.1 as usize].shift();
        for Meeting { tile, address, reader, writer, order } in meetings {
            let kept = match order {
                [Some(read), Some(written)] if read < written => {
                    shift(writer) >= completion(reader)
                }
                [Some(read), Some(written)] if written < read => {
                    shift(reader) >= completion(writer)
                }
                _ => false,
            };
            if !kept {
                violations.add(Violation::Dependence { tile, address });
            }
        }
    }

    /// All words, one of a run, that are both sent and received.
    fn meetings(&self) -> Vec<Meeting> {
        let written: Vec<Vec<(u32, u32, Name)>> =
            self.arrived.iter().map(|arrivals| spans(arrivals)).collect();
        let mut meetings = vec![];
        for (receiver, arrivals) in (0..).map(TileId).zip(self.arrived) {
            for arrival in arrivals {
                let tile = arrival.source;
                let spans = &written[usize::from(tile.0)];
                let end = arrival.from.saturating_add(arrival.bytes());
                let first = spans.partition_point(|span| span.1 <= arrival.from);
                for span in spans[first..].iter().take_while(|span| span.0 < end) {
                    let address = span.0.max(arrival.from);
                    let to = arrival.to.saturating_add(address - arrival.from);
                    let order = [self.order(receiver, to), self.order(tile, address)];
                    let reader = (tile, arrival.message);
                    meetings.push(Meeting { tile, address, reader, writer: span.2, order });
                }
            }
        }
        meetings
    }

    /// Place in program order of the message that is to write a word.
    fn order(&self, tile: TileId, address: u32) -> Option<usize> {
        let wanted = self.wanted?;
        let end = wanted.partition_point(|(wanted, _)| (wanted.tile, wanted.to) <= (tile, address));
        let (wanted, order) = wanted[..end].last()?;
        let inside = address - wanted.to.min(address) < wanted.words.saturating_mul(4);
        (wanted.tile == tile && inside).then_some(*order)
    }

    /// Event at which every message is read and written to the end, by sender.
    fn completions(&self) -> Vec<Vec<u32>> {
        let sent = |messages: &Vec<Message>| messages.iter().map(|message| message.end).collect();
        let mut completions: Vec<Vec<u32>> = self.messages.iter().map(sent).collect();
        for arrival in self.arrived.iter().flatten() {
            let found = &mut completions[usize::from(arrival.source.0)][arrival.message as usize];
            *found = arrival.end().max(*found);
        }
        completions
    }
}

/// What is written on a tile, ascending: first byte, one past the last, and by which message.
fn spans(arrivals: &[Arrival]) -> Vec<(u32, u32, Name)> {
    let span = |arrival: &Arrival| {
        let end = arrival.to.saturating_add(arrival.bytes());
        (arrival.to, end, (arrival.source, arrival.message))
    };
    let mut spans: Vec<_> = arrivals.iter().map(span).collect();
    spans.sort_unstable();
    spans
}
