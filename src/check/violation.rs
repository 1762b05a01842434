//! Violations, with the numbers that show them.

use std::collections::BTreeMap;

use crate::target::TileId;

/// One way in which a package is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum Violation {
    /// The package cannot be read, or its model or recipe cannot.
    #[error("{what}")]
    Unreadable { what: String },
    /// Not an instruction, or not one that belongs there.
    #[error("tile {tile}: word at {address:#x}: {what}")]
    Instruction { tile: TileId, address: u32, what: String },
    /// The tile program does something else than the step wants.
    #[error("tile {tile}, step {step}: found {found}, expected {expected}")]
    Program { tile: TileId, step: usize, found: String, expected: String },
    /// A two-word instruction at an odd word (rule C3).
    #[error("tile {tile}: a two-word instruction at odd word {word} of a row")]
    OddPair { tile: TileId, word: usize },
    /// Controls that must not share an event (rule C1).
    #[error("tile {tile}: controls that exclude each other at event {event}")]
    ControlsMeet { tile: TileId, event: u32 },
    /// A control in the first two events of a send (rule S3).
    #[error("tile {tile}: a control at event {event}, where a send begins at {start}")]
    ControlAtStart { tile: TileId, event: u32, start: u32 },
    /// A tile sends while its lane is lent to its partner (rule S2).
    #[error("tile {tile}: sends at event {event} while its partner uses its lane")]
    LaneTaken { tile: TileId, event: u32 },
    /// Items arrive in a format that they are not sent in (rule R3).
    #[error("tile {tile}: an item is written at event {event} in the wrong format")]
    Format { tile: TileId, event: u32 },
    /// Two items arrive at once (rules R1, R2).
    #[error("tile {tile}: two items are written at event {event}")]
    ItemsMeet { tile: TileId, event: u32 },
    /// A row ends and leaves its receiver listening, or in another format.
    #[error("tile {tile}: the row leaves {what} selected behind")]
    LeftBehind { tile: TileId, what: &'static str },
    /// A source is selected while it sends nothing, or for longer than it sends (rule R4).
    #[error(
        "tile {tile}: source {selector:#x}, selected at event {event}, is not heard all the time"
    )]
    NothingHeard { tile: TileId, event: u32, selector: u16 },
    /// A pointer that no item is written through.
    #[error("tile {tile}: nothing is written through the pointer set at event {event}")]
    IdlePointer { tile: TileId, event: u32 },
    /// Items that nobody selects: the fabric loses them silently, and nothing here means to.
    #[error("tile {tile}: nobody hears all of the message at event {event}")]
    Unheard { tile: TileId, event: u32 },
    /// A message is sent in other directions than its receivers need (§1.3).
    #[error("tile {tile}: the message at event {event} has sctl {found}, expected {expected}")]
    Direction { tile: TileId, event: u32, found: u8, expected: u8 },
    /// A 64-bit message of or to half a pair: the other tile is none of the program's (§3.1).
    #[error("tile {tile}: the 64-bit message at event {event} needs the partner of tile {half}")]
    HalfPair { tile: TileId, event: u32, half: TileId },
    /// A tile sends to nobody but itself, or inside one element (rule T2).
    #[error(
        "tile {tile}: what is looped back around event {event} has no other receiver or element"
    )]
    Loopback { tile: TileId, event: u32 },
    /// A send reads, or a receive writes, what is not tile memory.
    #[error("tile {tile}: words at {address:#x} leave tile memory")]
    OutOfMemory { tile: TileId, address: u32 },
    /// Items arrive and no pointer was ever set.
    #[error("tile {tile}: an item arrives at event {event} before a pointer is set")]
    NoPointer { tile: TileId, event: u32 },
    /// A send reads an element that a receive writes (rule M1).
    #[error("tile {tile}: element {element} is read and written around event {event}")]
    ElementConflict { tile: TileId, element: u8, event: u32 },
    /// A row shares an element with data of its phase (rule M2).
    #[error("tile {tile}: the row at {row:#x} shares element {element} with data")]
    RowElement { tile: TileId, row: u32, element: u8 },
    /// Not aligned for its width (rule M3).
    #[error("tile {tile}: address {address:#x} is not aligned for its transfer")]
    Alignment { tile: TileId, address: u32 },
    /// A word is sent and received in the same phase, and not the later after the earlier (rule D1).
    #[error("tile {tile}: the word at {address:#x} is sent and received, not one after the other")]
    Dependence { tile: TileId, address: u32 },
    /// A row ends before its last word is in memory.
    #[error("tile {tile}: the row ends at event {horizon}, its words need until {needed}")]
    ShortRow { tile: TileId, horizon: u32, needed: u32 },
    /// Two words arrive at one place.
    #[error("tile {tile}: the word at {address:#x} is written twice")]
    WrittenTwice { tile: TileId, address: u32 },
    /// A word does not arrive.
    #[error("tile {tile}: nothing arrives at {address:#x}")]
    Missing { tile: TileId, address: u32 },
    /// A word arrives that nobody wants.
    #[error("tile {tile}: a stray word arrives at {address:#x}")]
    Stray { tile: TileId, address: u32 },
    /// Another word than the wanted one arrives.
    #[error(
        "tile {tile}: the word at {address:#x} comes from tile {from_tile} {from:#x}, expected tile {wanted_tile} {wanted:#x}"
    )]
    WrongWord {
        tile: TileId,
        address: u32,
        from_tile: TileId,
        from: u32,
        wanted_tile: TileId,
        wanted: u32,
    },
    /// A buffer has no place, or one of another size.
    #[error("tile {tile}: buffer `{buffer}`: {what}")]
    Placement { tile: TileId, buffer: String, what: String },
    /// Two live buffers overlap.
    #[error("tile {tile}: `{first}` and `{second}` overlap while both live")]
    Overlap { tile: TileId, first: String, second: String },
    /// Two buffers that must lie apart share an element.
    #[error("tile {tile}: `{first}` and `{second}` share an element")]
    NotApart { tile: TileId, first: String, second: String },
    /// A kernel's operand leaves its buffer.
    #[error("tile {tile}, step {step}: an operand of {kernel} leaves its buffer")]
    Operand { tile: TileId, step: usize, kernel: String },
    /// A word is read that nobody wrote.
    #[error("tile {tile}, step {step}: `{buffer}` is read at {offset} where nobody wrote it")]
    Undefined { tile: TileId, step: usize, buffer: String, offset: u32 },
    /// A binding is not what the program needs.
    #[error("binding `{name}`: {what}")]
    Binding { name: String, what: String },
    /// Images, symbols or plans are not what the program needs.
    #[error("{what}")]
    Image { what: String },
}

impl Violation {
    /// Name of the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Violation::Unreadable { .. } => "unreadable",
            Violation::Instruction { .. } => "instruction",
            Violation::Program { .. } => "program",
            Violation::OddPair { .. } => "odd-pair",
            Violation::ControlsMeet { .. } => "controls-meet",
            Violation::ControlAtStart { .. } => "control-at-start",
            Violation::LaneTaken { .. } => "lane-taken",
            Violation::Format { .. } => "format",
            Violation::ItemsMeet { .. } => "items-meet",
            Violation::LeftBehind { .. } => "left-behind",
            Violation::NothingHeard { .. } => "nothing-heard",
            Violation::IdlePointer { .. } => "idle-pointer",
            Violation::Unheard { .. } => "unheard",
            Violation::Direction { .. } => "direction",
            Violation::HalfPair { .. } => "half-pair",
            Violation::Loopback { .. } => "loopback",
            Violation::OutOfMemory { .. } => "out-of-memory",
            Violation::NoPointer { .. } => "no-pointer",
            Violation::ElementConflict { .. } => "element-conflict",
            Violation::RowElement { .. } => "row-element",
            Violation::Alignment { .. } => "alignment",
            Violation::Dependence { .. } => "dependence",
            Violation::ShortRow { .. } => "short-row",
            Violation::WrittenTwice { .. } => "written-twice",
            Violation::Missing { .. } => "missing",
            Violation::Stray { .. } => "stray",
            Violation::WrongWord { .. } => "wrong-word",
            Violation::Placement { .. } => "placement",
            Violation::Overlap { .. } => "overlap",
            Violation::NotApart { .. } => "not-apart",
            Violation::Operand { .. } => "operand",
            Violation::Undefined { .. } => "undefined",
            Violation::Binding { .. } => "binding",
            Violation::Image { .. } => "image",
        }
    }
}

/// Violations kept of one kind; all are counted.
const KEPT: usize = 20;

/// Everything that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    kept: Vec<Violation>,
    counts: BTreeMap<&'static str, usize>,
}

impl Violations {
    /// Adds one.
    pub fn add(&mut self, violation: Violation) {
        let count = self.counts.entry(violation.kind()).or_insert(0);
        *count += 1;
        if *count <= KEPT {
            self.kept.push(violation);
        }
    }

    /// Adds all of another list.
    pub fn merge(&mut self, other: Violations) {
        let mut counts = other.counts;
        for violation in other.kept {
            if let Some(count) = counts.get_mut(violation.kind()) {
                *count -= 1;
            }
            self.add(violation);
        }
        for (kind, count) in counts {
            *self.counts.entry(kind).or_insert(0) += count;
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many there are, those that were not kept included.
    pub fn count(&self) -> usize {
        self.counts.values().sum()
    }

    /// Up to twenty of every kind.
    pub fn list(&self) -> &[Violation] {
        &self.kept
    }

    /// Whether one of this kind was found.
    pub fn has(&self, kind: &str) -> bool {
        self.counts.contains_key(kind)
    }
}
