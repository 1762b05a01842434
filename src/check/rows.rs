//! What a row says: every send, every control, event by event.

use crate::target::instruction::special;
use crate::target::{Control, Instruction, Pic, TileId, Xpic, decode};

use super::violation::{Violation, Violations};

/// Consecutive items of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Event of the first item.
    pub start: u32,
    /// Items.
    pub items: u32,
    /// Byte address of the first item.
    pub address: u32,
    /// Directions and width.
    pub sctl: u8,
    /// Whether a message begins here.
    pub begins: bool,
    /// Number of its message in the row.
    pub message: u32,
}

impl Sent {
    /// Whether items are 64 bits wide.
    pub fn is_paired(&self) -> bool {
        self.sctl & 4 != 0
    }

    /// Bytes of an item.
    pub fn item_bytes(&self) -> u32 {
        if self.is_paired() { 8 } else { 4 }
    }
}

/// What a tile's send addresses count from (`target/ipu21.md` §2.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bases {
    /// The base in bytes when the row is entered.
    pub entered: u32,
    /// What the register of the moving base holds; `None` where rows may not write the base.
    pub moving: Option<u32>,
}

/// A decoded row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Sends in order.
    pub sends: Vec<Sent>,
    /// Source selections in order.
    pub selects: Vec<(u32, Xpic)>,
    /// Pointer and format controls in order.
    pub pics: Vec<(u32, Pic)>,
    /// Event at which the row ends.
    pub horizon: u32,
    /// Words up to and including the return.
    pub length: usize,
    /// What send addresses count from at the end.
    pub base: u32,
}

/// Events that a write of the base takes, by a measurement of the hardware (`target/ipu21.md` §2.7).
const BASE_WRITE: u32 = 13;

/// Longest row that is looked at, in events: far above any real one, and far from where sums of
/// events could overflow.
const MOST_EVENTS: u32 = 1 << 28;

/// Decodes a row that begins at `address`; `words` may go on behind its return.
pub fn decode_row(
    tile: TileId,
    address: u32,
    words: &[u32],
    bases: Bases,
    violations: &mut Violations,
) -> Decoded {
    let mut row = Decoded { base: bases.entered, ..Decoded::default() };
    if !address.is_multiple_of(8) {
        violations.add(Violation::Alignment { tile, address });
    }
    while let Some(rest) = words.get(row.length..).filter(|rest| !rest.is_empty()) {
        let place = address + 4 * row.length as u32;
        let wrong = |what: String| Violation::Instruction { tile, address: place, what };
        let (instruction, length) = match decode(rest) {
            Ok(found) => found,
            Err(error) => {
                violations.add(wrong(error.to_string()));
                return row;
            }
        };
        let word = row.length;
        row.length += length;
        if instruction == (Instruction::Br { register: 10 }) {
            return row;
        }
        if length == 2 && !word.is_multiple_of(2) {
            violations.add(Violation::OddPair { tile, word });
        }
        if let Err(what) = row.apply(instruction, bases.moving) {
            violations.add(wrong(what));
            return row;
        }
    }
    let what = "the row has no end".to_owned();
    violations.add(Violation::Instruction { tile, address, what });
    row
}

impl Decoded {
    fn apply(&mut self, instruction: Instruction, moving: Option<u32>) -> Result<(), String> {
        let now = self.horizon;
        match instruction {
            Instruction::Delay { events } => self.horizon += events,
            Instruction::DelayPic { events, pic } => {
                self.horizon += events;
                self.pics.push((self.horizon, pic));
            }
            Instruction::DelayXpic { events, xpic } => {
                self.horizon += events;
                self.selects.push((self.horizon, xpic));
            }
            Instruction::Send { items, address, sctl } => {
                self.send(items, self.bytes(address, sctl)?, sctl, true);
            }
            Instruction::SendOff { items, delta, sctl } => {
                let (next, last) = self.continued()?;
                if sctl != last.sctl {
                    return Err(format!("a running message goes on with sctl {sctl}"));
                }
                let next = next.saturating_add(delta * last.item_bytes());
                self.send(items, next, sctl, false);
            }
            Instruction::SendPic { items, control } => {
                let (next, last) = self.continued()?;
                self.send(items, next, last.sctl, false);
                match control {
                    Control::Pic(pic) => self.pics.push((now + 1, pic)),
                    Control::Xpic(xpic) => self.selects.push((now + 1, xpic)),
                }
            }
            Instruction::SendPicp { items, address, sctl, pic, xpic } => {
                if sctl == 0 && address == 0 {
                    self.horizon += items;
                } else {
                    // It restarts the stream. In the middle of a message, at the item that is next,
                    // that changes nothing; anywhere else it begins a message (§4.5).
                    let address = self.bytes(address, sctl)?;
                    let goes_on = self
                        .continued()
                        .is_ok_and(|(next, last)| next == address && last.sctl == sctl);
                    self.send(items, address, sctl, !goes_on);
                }
                self.pics.push((now + 1, pic));
                self.selects.push((now + 1, xpic));
            }
            Instruction::Put { register, special: special::OUTGOING_BASE } if moving.is_some() => {
                self.base = match (register, moving) {
                    (15, _) => 0,
                    (6, Some(moving)) => moving,
                    _ => return Err(format!("m{register} holds no base")),
                };
                self.horizon += BASE_WRITE;
            }
            other => return Err(format!("{other:?} does not belong into a row")),
        }
        if self.horizon > MOST_EVENTS {
            return Err(format!("the row takes more than {MOST_EVENTS} events"));
        }
        Ok(())
    }

    /// Address after the last item, and the last send; only while a message runs on.
    fn continued(&self) -> Result<(u32, Sent), String> {
        let last = self.sends.last().filter(|last| last.start + last.items == self.horizon);
        let last = last.ok_or("a send continues nothing")?;
        Ok((last.address.saturating_add(last.items * last.item_bytes()), *last))
    }

    /// Byte address of an item.
    fn bytes(&self, address: u32, sctl: u8) -> Result<u32, String> {
        if sctl & 3 == 0 {
            return Err(format!("a send with sctl {sctl} has no direction"));
        }
        let item_bytes = if sctl & 4 == 0 { 4 } else { 8 };
        if !self.base.is_multiple_of(item_bytes) {
            return Err(format!("a base of {} under items of {item_bytes} bytes", self.base));
        }
        Ok((address * item_bytes).saturating_add(self.base))
    }

    fn send(&mut self, items: u32, address: u32, sctl: u8, begins: bool) {
        let last = self.sends.last().map(|last| last.message);
        let message = last.map_or(0, |last| last + u32::from(begins));
        self.sends.push(Sent { start: self.horizon, items, address, sctl, begins, message });
        self.horizon += items;
    }
}
