//! One lowered node: its own buffers and steps, with its input values as numbered slots.

use std::sync::Arc;

use crate::kernels::Kernel;
use crate::plan::Layout;
use crate::target::TileId;

use super::Fill;

/// A buffer of a segment: first its input values, then [`Segment::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferRef(pub u32);

/// Memory class that a buffer must lie in (`target/ipu21.md` §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Either region.
    Any,
    /// Region 1 only.
    Interleaved,
}

/// What a buffer is for, which decides its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A program input: written by the host before the first step.
    Input,
    /// A parameter: written once, live throughout.
    Parameter,
    /// Lives from its first write to its last read.
    Scratch,
    /// A program output: lives to the end.
    Output,
}

/// A buffer with one piece on each of some tiles.
#[derive(Clone, Debug)]
pub struct BufferSpec {
    /// What it holds, e.g. `left`, `weights`.
    pub label: &'static str,
    /// What it is for.
    pub role: Role,
    /// Memory class.
    pub class: Class,
    /// Alignment in bytes.
    pub alignment: u32,
    /// Bytes beyond the payload that a kernel may read (`target/ipu21.md` §5.3).
    pub tail: u32,
    /// Payload bytes on every tile that has a piece, ascending by tile.
    pub sizes: Arc<[(TileId, u32)]>,
    /// What the host writes into it, or reads from it.
    pub fill: Option<Fill>,
}

/// A place in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The buffer.
    pub buffer: BufferRef,
    /// Bytes from its start.
    pub offset: u32,
}

/// One kernel call on one tile.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Where it runs.
    pub tile: TileId,
    /// What runs.
    pub kernel: Kernel,
    /// Goes to `m2`.
    pub output: Place,
    /// Go to `m3` and on.
    pub inputs: Vec<Place>,
    /// Go to the registers after the inputs.
    pub scalars: Vec<u32>,
}

/// Words from one tile's piece of a buffer to the same offset in other tiles' pieces of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Sending tile.
    pub source: TileId,
    /// Receivers: index into [`Move::groups`].
    pub group: u32,
    /// Byte offset in the source piece.
    pub from: u32,
    /// Byte offset in every destination piece.
    pub to: u32,
    /// 32-bit words.
    pub words: u32,
}

/// All transfers from one buffer to another in one exchange step.
#[derive(Clone, Debug)]
pub struct Move {
    /// Read from.
    pub from: BufferRef,
    /// Written to.
    pub to: BufferRef,
    /// Receiver sets, each ascending.
    pub groups: Vec<Arc<[TileId]>>,
    /// The transfers.
    pub runs: Vec<Run>,
}

/// One step of a segment.
#[derive(Clone, Debug)]
pub enum SegmentStep {
    /// Words move.
    Exchange(Vec<Move>),
    /// Kernels run; calls of one tile in order.
    Compute(Vec<Call>),
}

/// Two buffers whose pieces on a tile must lie in different memory elements while both live
/// (`target/ipu21.md` §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart(pub BufferRef, pub BufferRef);

/// A lowered node.
#[derive(Clone, Debug)]
pub struct Segment {
    /// How many input slots precede [`Segment::buffers`].
    pub inputs: u32,
    /// Own buffers.
    pub buffers: Vec<BufferSpec>,
    /// Steps in order.
    pub steps: Vec<SegmentStep>,
    /// Buffer that holds the result: an own one, or an input slot when computed in place.
    pub output: BufferRef,
    /// Layout of the result.
    pub layout: Layout,
    /// Buffers to keep apart.
    pub apart: Vec<Apart>,
}

impl Segment {
    /// The own buffer behind a reference; `None` for an input slot.
    pub fn spec(&self, buffer: BufferRef) -> Option<&BufferSpec> {
        buffer.0.checked_sub(self.inputs).map(|index| &self.buffers[index as usize])
    }
}

impl Move {
    /// Number of transfers.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether nothing moves.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}
