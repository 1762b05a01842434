//! The machine: quantities, topology, memory geometry, instruction words and number formats.
//!
//! What follows is the hardware reference that every constant of this crate cites.
#![doc = include_str!("ipu21.md")]

pub mod f8;
pub mod instruction;
pub mod order;
pub mod sram;
pub mod topology;
pub mod units;

pub use instruction::{Control, Instruction, Pic, Xpic, decode};
pub use order::{DataType, ElementOrder};
pub use topology::{NO_SOURCE, Route, TILES, route, time_to_mux};
pub use units::{Address, Bytes, Cycles, Event, PhysicalTile, TileId, Words};
