//! Decides from a package alone whether the chip would do what its recipe means.
//!
//! The model and the recipe inside the package are lowered again: that says what must arrive where
//! and which kernels must run. Everything else is decoded from the bytes. No code of the schedulers
//! or of the placer is used, and none of the simulator.
//!
//! [`Checked`] can be made here only, so whoever holds one holds something that passed.
//!
//! Rules: `target/ipu21.md` §2.4, §2.5, §3, §5, §7.1. Words are called by the place they left:
//! equal values could hide a swap, names cannot.

mod arrivals;
mod bindings;
pub mod code;
pub mod definitions;
pub mod delivery;
mod dependences;
mod images;
mod memory;
mod messages;
pub mod operands;
pub mod package;
pub mod phase;
pub mod placement;
pub mod rows;
pub mod violation;

pub use definitions::defined;
pub use package::{Report, package};
pub use phase::{PhaseReport, TileRow, Wanted, iteration, phase};
pub use rows::Bases;
pub use violation::{Violation, Violations};

/// Something that passed its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked<T>(T);

impl<T> Checked<T> {
    /// What passed.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// What passed, without the proof.
    pub fn into_inner(self) -> T {
        self.0
    }
}
