//! The machine: quantities, topology, memory geometry, instruction words and number formats.
#![doc = include_str!("ipu21.md")]

pub mod units;

pub use units::{Address, Bytes, Cycles, Event, PhysicalTile, TileId, Words};
