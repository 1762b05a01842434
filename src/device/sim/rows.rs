//! Reading a row out of a tile's memory: what it sends and which controls take effect when.

use crate::target::instruction::special;
use crate::target::{Control, Instruction, Pic, Xpic, decode};

/// Items that leave a tile one an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// Event of the first item.
    pub start: u32,
    /// Number of items.
    pub items: u32,
    /// Byte address of the first item.
    pub address: u32,
    /// Directions and width.
    pub sctl: u8,
}

/// What a row finds in its tile's registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Byte address that receive pointers count from.
    pub incoming_base: u32,
    /// Byte address that send addresses count from.
    pub outgoing_base: u32,
    /// The supervisor's registers, which a row may write into the outgoing base.
    pub m: [u32; 16],
}

/// A row on its event clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowEvents {
    /// Sends by start.
    pub sends: Vec<Send>,
    /// Source selections by event.
    pub selects: Vec<(u32, Xpic)>,
    /// Pointer and format controls by event.
    pub pics: Vec<(u32, Pic)>,
    /// Event at which the row returns.
    pub horizon: u32,
    /// Byte address that receive pointers count from.
    pub incoming_base: u32,
    /// Byte address that send addresses count from after the row.
    pub outgoing_base: u32,
}

/// Where the next item of the running message lies, and how it is sent.
#[derive(Clone, Copy)]
struct Stream {
    address: u32,
    sctl: u8,
}

impl Stream {
    fn item_bytes(&self) -> u32 {
        if self.sctl & 4 == 0 { 4 } else { 8 }
    }
}

/// Events after which a row is given up: a tenth of a second, and far from where sums could overflow.
const MOST_EVENTS: u32 = 1 << 27;

/// Events that a write of a base takes (`target/ipu21.md` §2.7).
const BASE_WRITE: u32 = 13;

/// Reads the row whose words are given, up to its return.
///
/// # Errors
/// The word that does not belong into a row.
pub fn read(words: &[u32], address: u32, registers: &Registers) -> Result<RowEvents, String> {
    let Registers { incoming_base, outgoing_base, .. } = *registers;
    let mut row = RowEvents { incoming_base, outgoing_base, ..RowEvents::default() };
    let mut stream: Option<Stream> = None;
    let mut at = 0;
    loop {
        let rest = words.get(at..).unwrap_or_default();
        let (instruction, length) =
            decode(rest).map_err(|error| format!("word {at} of a row: {error}"))?;
        let now = row.horizon;
        match instruction {
            Instruction::Br { register: 10 } => return Ok(row),
            Instruction::Delay { events } => row.horizon += events,
            Instruction::DelayPic { events, pic } => {
                row.horizon += events;
                row.pics.push((row.horizon, pic));
            }
            Instruction::DelayXpic { events, xpic } => {
                row.horizon += events;
                row.selects.push((row.horizon, xpic));
            }
            Instruction::Send { items, address, sctl } => {
                stream = Some(row.send(row.begins(address, sctl)?, items));
            }
            Instruction::SendOff { items, delta, sctl } => {
                let last = stream.ok_or("a send continues nothing")?;
                let address = last.address.wrapping_add(delta * last.item_bytes());
                stream = Some(row.send(Stream { address, sctl }, items));
            }
            Instruction::SendPic { items, control } => {
                let last = stream.ok_or("a controlled send continues nothing")?;
                stream = Some(row.send(last, items));
                match control {
                    Control::Pic(pic) => row.pics.push((now + 1, pic)),
                    Control::Xpic(xpic) => row.selects.push((now + 1, xpic)),
                }
            }
            Instruction::SendPicp { items, address: place, sctl, pic, xpic } => {
                if !(address / 4 + at as u32).is_multiple_of(2) {
                    return Err(format!(
                        "word {at} of a row: a two-word instruction at an odd word"
                    ));
                }
                if sctl == 0 {
                    row.horizon += items;
                } else {
                    stream = Some(row.send(row.begins(place, sctl)?, items));
                }
                row.pics.push((now + 1, pic));
                row.selects.push((now + 1, xpic));
            }
            Instruction::Put { register, special: special::OUTGOING_BASE } => {
                // No message goes on over it: its next word would count from the other base.
                stream = None;
                row.outgoing_base = registers.m[usize::from(register)];
                row.horizon += BASE_WRITE;
            }
            other => {
                return Err(format!("word {at} of a row: {other:?} is no exchange instruction"));
            }
        }
        if row.horizon > MOST_EVENTS {
            return Err(format!("word {at} of a row: more than {MOST_EVENTS} events"));
        }
        at += length;
    }
}

fn item_bytes(sctl: u8) -> u32 {
    if sctl & 4 == 0 { 4 } else { 8 }
}

impl RowEvents {
    /// The stream of a message whose first item has this address, which counts items from the base.
    fn begins(&self, address: u32, sctl: u8) -> Result<Stream, String> {
        let (base, bytes) = (self.outgoing_base, item_bytes(sctl));
        if !base.is_multiple_of(bytes) {
            return Err(format!("items of {bytes} bytes are sent from a base of {base:#x}"));
        }
        Ok(Stream { address: (address * bytes).wrapping_add(base), sctl })
    }

    /// Sends items and returns the stream after them; what continues in the same direction and
    /// place is one send.
    fn send(&mut self, stream: Stream, items: u32) -> Stream {
        let bytes = stream.item_bytes();
        let joined = self.sends.last_mut().filter(|last| {
            last.start + last.items == self.horizon
                && last.address.wrapping_add(last.items * bytes) == stream.address
                && last.sctl == stream.sctl
        });
        match joined {
            Some(last) => last.items += items,
            None => {
                let Stream { address, sctl } = stream;
                self.sends.push(Send { start: self.horizon, items, address, sctl });
            }
        }
        self.horizon += items;
        Stream { address: stream.address.wrapping_add(items * bytes), ..stream }
    }
}
