//! Supervisor instruction words (`target/ipu21.md` §4): 32 bits each, SENDPICP two.

/// Register that reads as zero (§4.6).
pub const ZERO_REGISTER: u8 = 15;
/// Register of return addresses (§4.6).
pub const LINK_REGISTER: u8 = 10;
/// Register of the moving base of a loop's parameters (§2.7).
pub const MOVING_REGISTER: u8 = 6;
/// Events that a write of a base takes inside a row (§2.7).
pub const BASE_WRITE: u32 = 13;
/// Special registers (§4.6).
pub mod special {
    /// Ordinary source selector.
    pub const INCOMING_MUX: u8 = 0xa0;
    /// Byte address added to receive pointers.
    pub const INCOMING_BASE: u8 = 0xa4;
    /// Expected host words.
    pub const INCOMING_DCOUNT: u8 = 0xa6;
    /// Byte address added to send addresses.
    pub const OUTGOING_BASE: u8 = 0xa7;
}

/// A pointer or format control (§2.1, §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pic {
    /// Sets the incoming format instead of the pointer.
    pub format: bool,
    /// Word address of the pointer, or the format; 18 bits.
    pub value: u32,
}

/// A source selection (§2.1, §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xpic {
    /// Selects in the paired stream.
    pub paired: bool,
    /// Tile number or [`NO_SOURCE`](super::topology::NO_SOURCE); 13 bits.
    pub source: u16,
}

/// Either control, as SENDPIC carries it (§4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Control {
    /// Pointer or format.
    Pic(Pic),
    /// Source.
    Xpic(Xpic),
}

/// One supervisor instruction. Item counts and events are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the fields are the operands of §4, named as there")]
pub enum Instruction {
    /// Advances (§4.1).
    Delay { events: u32 },
    /// Advances, then sets pointer or format (§4.2).
    DelayPic { events: u32, pic: Pic },
    /// Advances, then selects a source (§4.2).
    DelayXpic { events: u32, xpic: Xpic },
    /// Begins a message (§4.3); `address` in items.
    Send { items: u32, address: u32, sctl: u8 },
    /// Continues a message (§4.3); `delta` in items, 0 to continue.
    SendOff { items: u32, delta: u32, sctl: u8 },
    /// Continues a message with a control after its first item (§4.4).
    SendPic { items: u32, control: Control },
    /// Two controls after the first item (§4.5); with `sctl` 0 nothing is sent.
    SendPicp { items: u32, address: u32, sctl: u8, pic: Pic, xpic: Xpic },
    /// Waits for other tiles (§2.8).
    Sync { zone: u8 },
    /// Sits the next synchronization out (§2.8).
    Sans { selector: u8 },
    /// Jumps to a register.
    Br { register: u8 },
    /// Jumps to an address.
    Bri { target: u32 },
    /// Calls; the return address goes to `register`.
    Call { register: u8, target: u32 },
    /// Sets a register to a 20-bit constant.
    Setzi { register: u8, immediate: u32 },
    /// Writes a special register.
    Put { register: u8, special: u8 },
    /// Reads a special register.
    Get { register: u8, special: u8 },
    /// Loads a word; `delta` is a register, 15 for none; `offset` in words.
    Ld32 { register: u8, base: u8, delta: u8, offset: u16 },
    /// Stores a word.
    St32 { register: u8, base: u8, delta: u8, offset: u16 },
    /// Adds a signed 16-bit constant.
    Add { register: u8, source: u8, immediate: i16 },
    /// Masks with a 12-bit constant.
    And { register: u8, source: u8, immediate: u16 },
    /// Shifts left.
    Shl { register: u8, source: u8, immediate: u16 },
    /// Jumps if a register is zero.
    Brz { register: u8, target: u32 },
    /// Stops.
    Trap { immediate: u16 },
    /// Nothing.
    Nop,
}

/// Why an instruction has no encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {value}, allowed is {least} to {most}")]
pub struct EncodeError {
    /// The operand.
    pub field: &'static str,
    /// What it was.
    pub value: u64,
    /// Smallest encodable value.
    pub least: u64,
    /// Largest encodable value.
    pub most: u64,
}

/// Why words are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No instruction has this word.
    #[error("{0:#010x} is no supervisor instruction")]
    Unknown(u32),
    /// A two-word instruction is cut off.
    #[error("the words end inside an instruction")]
    Truncated,
}

/// The words of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    words: [u32; 2],
    length: usize,
}

impl Encoded {
    /// The words.
    pub fn as_slice(&self) -> &[u32] {
        &self.words[..self.length]
    }

    fn one(word: u32) -> Encoded {
        Encoded { words: [word, 0], length: 1 }
    }
}

fn field(name: &'static str, value: u32, least: u32, most: u32) -> Result<u32, EncodeError> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    let [value, least, most] = [value, least, most].map(u64::from);
    Err(EncodeError { field: name, value, least, most })
}

fn register(value: u8) -> Result<u32, EncodeError> {
    field("register", value.into(), 0, 15)
}

fn code_target(value: u32) -> Result<u32, EncodeError> {
    field("target", value / 4, 0, (1 << 19) - 1).and_then(|word| {
        if value.is_multiple_of(4) { Ok(word) } else { field("target", value, 0, 0) }
    })
}

fn pic_bits(pic: Pic) -> Result<u32, EncodeError> {
    Ok(u32::from(pic.format) << 18 | field("pointer", pic.value, 0, 0x3_ffff)?)
}

fn xpic_bits(xpic: Xpic) -> Result<u32, EncodeError> {
    Ok(u32::from(xpic.paired) << 13 | field("source", xpic.source.into(), 0, 0x1fff)?)
}

impl Instruction {
    /// Number of words.
    pub fn words(&self) -> usize {
        if matches!(self, Instruction::SendPicp { .. }) { 2 } else { 1 }
    }

    /// Events by which a row's clock advances; `None` for what does not belong into a row.
    #[inline]
    pub fn events(&self) -> Option<u32> {
        match *self {
            Instruction::Delay { events }
            | Instruction::DelayPic { events, .. }
            | Instruction::DelayXpic { events, .. } => Some(events),
            Instruction::Send { items, .. }
            | Instruction::SendOff { items, .. }
            | Instruction::SendPic { items, .. }
            | Instruction::SendPicp { items, .. } => Some(items),
            Instruction::Put { special: special::OUTGOING_BASE, .. } => Some(BASE_WRITE),
            _ => None,
        }
    }

    /// The words of this instruction.
    ///
    /// # Errors
    /// If an operand does not fit its field.
    #[inline(always)]
    pub fn encode(&self) -> Result<Encoded, EncodeError> {
        use Instruction as I;
        let word = match *self {
            I::Delay { events } => 0x40a0_0000 | (field("events", events, 1, 1 << 19)? - 1),
            I::DelayPic { events, pic } => {
                0x6000_0000 | (field("events", events, 1, 128)? - 1) << 19 | pic_bits(pic)?
            }
            I::DelayXpic { events, xpic } => {
                0x6400_0000 | (field("events", events, 1, 4096)? - 1) << 14 | xpic_bits(xpic)?
            }
            I::Send { items, address, sctl } => {
                0x7800_0000
                    | (field("items", items, 1, 64)? - 1) << 21
                    | field("address", address, 0, 0x3_ffff)? << 3
                    | field("sctl", sctl.into(), 0, 7)?
            }
            I::SendOff { items, delta, sctl } => {
                let n = field("items", items, 1, 4096)? - 1;
                0x7000_0000
                    | (n % 64) << 21
                    | (n / 64) << 14
                    | field("delta", delta, 0, 0x7ff)? << 3
                    | field("sctl", sctl.into(), 0, 7)?
            }
            I::SendPic { items, control } => {
                let (kind, value) = match control {
                    Control::Xpic(xpic) => (u32::from(xpic.paired), xpic_bits(xpic)? & 0x1fff),
                    Control::Pic(pic) => (2 + u32::from(pic.format), pic_bits(pic)? & 0x3_ffff),
                };
                0x7010_0000 | (field("items", items, 1, 64)? - 1) << 21 | kind << 18 | value
            }
            I::SendPicp { items, address, sctl, pic, xpic } => {
                let pic_bits = pic_bits(pic)?;
                let first = 0xf000_0000
                    | (pic_bits >> 18) << 27
                    | (field("items", items, 1, 64)? - 1) << 21
                    | field("address", address, 0, 0x3_ffff)? << 3
                    | field("sctl", sctl.into(), 0, 7)?;
                let second = xpic_bits(xpic)? << 18 | (pic_bits & 0x3_ffff);
                return Ok(Encoded { words: [first, second], length: 2 });
            }
            other => return other.encode_plain(),
        };
        Ok(Encoded::one(word))
    }

    fn encode_plain(&self) -> Result<Encoded, EncodeError> {
        use Instruction as I;
        let memory = |m: u8, base: u8, delta: u8, offset: u16| -> Result<u32, EncodeError> {
            let offset = field("offset", offset.into(), 0, 0xfff)?;
            Ok(register(base)? << 20 | register(m)? << 16 | register(delta)? << 12 | offset)
        };
        let immediate = |m: u8, source: u8, value: u32| -> Result<u32, EncodeError> {
            Ok(register(source)? << 20 | register(m)? << 16 | value)
        };
        let word = match *self {
            I::Sync { zone } => 0x4180_0000 | u32::from(zone),
            I::Sans { selector } => 0x40c0_0000 | u32::from(selector),
            I::Br { register: m } => 0x4300_0000 | register(m)? << 20,
            I::Bri { target } => 0x4080_0000 | code_target(target)?,
            I::Call { register: m, target } => {
                0x1800_0000 | register(m)? << 20 | code_target(target)?
            }
            I::Setzi { register: m, immediate } => {
                0x1900_0000 | register(m)? << 20 | field("immediate", immediate, 0, 0xf_ffff)?
            }
            I::Put { register: m, special } => {
                0x4300_8000 | register(m)? << 20 | u32::from(special)
            }
            I::Get { register: m, special } => {
                0x4100_0000 | register(m)? << 16 | u32::from(special)
            }
            I::Ld32 { register, base, delta, offset } => {
                0x0100_0000 | memory(register, base, delta, offset)?
            }
            I::St32 { register, base, delta, offset } => {
                0x4f00_0000 | memory(register, base, delta, offset)?
            }
            I::Add { register, source, immediate: value } => {
                0x2200_0000 | immediate(register, source, u32::from(value as u16))?
            }
            I::And { register, source, immediate: value } => {
                0x4200_0000
                    | immediate(register, source, field("immediate", value.into(), 0, 0xfff)?)?
            }
            I::Shl { register, source, immediate: value } => {
                0x4200_a000
                    | immediate(register, source, field("immediate", value.into(), 0, 0xfff)?)?
            }
            I::Brz { register: m, target } => {
                0x1300_0000 | register(m)? << 20 | code_target(target)?
            }
            I::Trap { immediate } => 0x4180_1000 | field("immediate", immediate.into(), 0, 0xfff)?,
            I::Nop => 0x19e0_0000,
            _ => unreachable!("exchange instructions are encoded by `encode`"),
        };
        Ok(Encoded::one(word))
    }
}

/// The instruction at the front of `words`, and how many words it has.
///
/// # Errors
/// If the front is no supervisor instruction.
pub fn decode(words: &[u32]) -> Result<(Instruction, usize), DecodeError> {
    use Instruction as I;
    let &word = words.first().ok_or(DecodeError::Truncated)?;
    let bits = |high: u32, low: u32| word >> low & ((1 << (high - low + 1)) - 1);
    let instruction = match word >> 26 {
        0b01_1000 => {
            let pic = Pic { format: bits(18, 18) == 1, value: bits(17, 0) };
            I::DelayPic { events: bits(25, 19) + 1, pic }
        }
        0b01_1001 => {
            let xpic = Xpic { paired: bits(13, 13) == 1, source: bits(12, 0) as u16 };
            I::DelayXpic { events: bits(25, 14) + 1, xpic }
        }
        0b01_1110 | 0b01_1111 => {
            I::Send { items: bits(26, 21) + 1, address: bits(20, 3), sctl: bits(2, 0) as u8 }
        }
        0b01_1100 | 0b01_1101 if bits(20, 20) == 0 => {
            let items = bits(19, 14) * 64 + bits(26, 21) + 1;
            I::SendOff { items, delta: bits(13, 3), sctl: bits(2, 0) as u8 }
        }
        0b01_1100 | 0b01_1101 => I::SendPic { items: bits(26, 21) + 1, control: control(word)? },
        0b11_1100..=0b11_1111 => {
            let &second = words.get(1).ok_or(DecodeError::Truncated)?;
            let pic = Pic { format: bits(27, 27) == 1, value: second & 0x3_ffff };
            let xpic = Xpic { paired: second >> 31 == 1, source: (second >> 18 & 0x1fff) as u16 };
            let (address, sctl) = (bits(20, 3), bits(2, 0) as u8);
            return Ok((I::SendPicp { items: bits(26, 21) + 1, address, sctl, pic, xpic }, 2));
        }
        _ => decode_plain(word)?,
    };
    Ok((instruction, 1))
}

fn control(word: u32) -> Result<Control, DecodeError> {
    let value = word & 0x3_ffff;
    match word >> 18 & 3 {
        kind @ (0 | 1) if value < 0x2000 => {
            Ok(Control::Xpic(Xpic { paired: kind == 1, source: value as u16 }))
        }
        0 | 1 => Err(DecodeError::Unknown(word)),
        kind => Ok(Control::Pic(Pic { format: kind == 3, value })),
    }
}

fn decode_plain(word: u32) -> Result<Instruction, DecodeError> {
    use Instruction as I;
    let m20 = (word >> 20 & 0xf) as u8;
    let m16 = (word >> 16 & 0xf) as u8;
    let target = (word & 0x7_ffff) * 4;
    let memory = (m16, m20, (word >> 12 & 0xf) as u8, (word & 0xfff) as u16);
    let found = match word >> 24 {
        0x40 if word & 0xfff8_0000 == 0x40a0_0000 => I::Delay { events: (word & 0x7_ffff) + 1 },
        0x40 if word & 0xfff8_0000 == 0x4080_0000 => I::Bri { target },
        0x40 if word & 0xffff_ff00 == 0x40c0_0000 => I::Sans { selector: word as u8 },
        0x41 if word & 0xffff_ff00 == 0x4180_0000 => I::Sync { zone: word as u8 },
        0x41 if word & 0xffff_f000 == 0x4180_1000 => I::Trap { immediate: (word & 0xfff) as u16 },
        0x41 if word & 0xfff0_ff00 == 0x4100_0000 => I::Get { register: m16, special: word as u8 },
        0x43 if word & 0xff0f_ffff == 0x4300_0000 => I::Br { register: m20 },
        0x43 if word & 0xff0f_ff00 == 0x4300_8000 => I::Put { register: m20, special: word as u8 },
        0x18 if word & 0x0008_0000 == 0 => I::Call { register: m20, target },
        0x13 if word & 0x0008_0000 == 0 => I::Brz { register: m20, target },
        0x19 if word == 0x19e0_0000 => I::Nop,
        0x19 => I::Setzi { register: m20, immediate: word & 0xf_ffff },
        0x01 => I::Ld32 { register: memory.0, base: memory.1, delta: memory.2, offset: memory.3 },
        0x4f => I::St32 { register: memory.0, base: memory.1, delta: memory.2, offset: memory.3 },
        0x22 => I::Add { register: m16, source: m20, immediate: word as u16 as i16 },
        0x42 if word & 0xf000 == 0 => {
            I::And { register: m16, source: m20, immediate: (word & 0xfff) as u16 }
        }
        0x42 if word & 0xf000 == 0xa000 => {
            I::Shl { register: m16, source: m20, immediate: (word & 0xfff) as u16 }
        }
        _ => return Err(DecodeError::Unknown(word)),
    };
    Ok(found)
}
