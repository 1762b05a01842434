//! Storage placement: buffers with lifetimes and bank rules to addresses, on every tile.
//!
//! Invariants of an answer: live buffers never overlap, tails included; every buffer lies inside one
//! free range, aligned, in its class's region; pairs that must lie apart share no memory element.
//! An answer "impossible" is a proof, an answer "unknown" is not.
//!
//! Absent on purpose: what is in the buffers, and when exactly inside a step they are used.

mod answers;
mod apart;
mod bounds;
mod branch;
mod compact;
pub mod file;
pub mod generate;
mod items;
mod picture;
pub mod place;
pub mod problem;
pub mod program;
mod ranges;
pub mod rectangles;
mod repeats;
mod skyline;
mod solve;
mod stack;
mod strides;
pub mod support;
mod tailor;
mod tiles;
pub mod verify;

pub use answers::Answers;
pub use apart::Crowded;
pub use bounds::Load;
pub use picture::tile_to_svg;
pub use place::{Outcome, Proof};
pub use problem::{Buffer, Problem, ProblemError, Region, Shortage};
pub use program::{
    PlaceOptions, PlaceStats, PlacedProgram, StorageFailure, exchanged_in, exchanged_together,
    place_program, tile_problem,
};
pub use repeats::{Repeat, RepeatRule};
pub use solve::{place, place_within};
pub use support::{Support, SupportError, SupportSizes};
