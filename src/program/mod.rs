//! What a recipe becomes: buffers, exchange steps and compute steps, before any address or cycle
//! is known.
//!
//! Every node is lowered on its own into a [`Segment`], memoized by what it depends on; [`link()`]
//! puts segments together: steps of independent nodes share a *level* (an exchange, then compute
//! that needs no further synchronization), adjacent compute steps join.
//!
//! Invariants: every word of an operand is written by exactly one transfer, copy or kernel before
//! it is read; a transfer never names its source among its destinations (what stays on a tile is
//! copied by a kernel).

pub mod code;
pub mod data;
pub mod gather;
pub mod gemm;
pub mod link;
pub mod lower;
pub mod pointwise;
pub mod rows;
pub mod segment;

pub use data::{Fill, host_bytes, outputs};
pub use link::{
    Addresses, Buffer, BufferId, Part, Program, Slot, Step, StepKind, TransferView, link, slots,
};
pub use lower::{layout_of_input, layout_of_node, lower_node, program};
pub use segment::{
    Apart, BufferRef, BufferSpec, Call, Class, Move, Place, Role, Run, Segment, SegmentStep,
};
