//! Devices: what runs a package and says how long it took and what it computed.
//!
//! Two kinds: the simulated IPU21 ([`sim`]), which executes the package's bytes, and an external
//! runner ([`command`]) for a real card. Figures carry their device's identity everywhere; a
//! simulated figure is never shown as hardware.
//!
//! Absent on purpose: anything of `cost`; a simulator that shared the cost model's prices would
//! prove nothing.

pub mod command;
pub mod lock;
pub mod numerics;
pub mod sim;
pub mod statistics;

pub use command::CommandDevice;
pub use numerics::{Numerics, Output, Tolerance, compare};
pub use sim::SimulatedDevice;
pub use statistics::Summary;

use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::package::Application;

/// Who measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Name, e.g. `sim:c600`.
    pub name: String,
    /// Whether it is a simulation.
    pub simulated: bool,
}

/// Byte strings of the bindings, concatenated in the package's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostData {
    /// For `initialize`.
    pub weights: Vec<u8>,
    /// For `run`.
    pub inputs: Vec<u8>,
}

/// Time of one step: from the last tile's arrival to the last tile's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCycles {
    /// When the last tile began the step, from the program's start.
    pub arrival: u64,
    /// When the last tile ended it.
    pub end: u64,
}

/// What a device found.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Cycles of every repeat.
    pub cycles: Vec<u64>,
    /// Output bindings without profile samples, concatenated.
    pub outputs: Vec<u8>,
    /// Steps in order, of the first repeat.
    pub steps: Vec<StepCycles>,
    /// Who measured.
    pub device: Identity,
}

/// Why a device gave no measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum DeviceError {
    /// The program did what the chip would stop for.
    #[error("tile {tile} at {pc:#x}: {what}")]
    Fault { tile: u16, pc: u32, what: String },
    /// The package and the data do not belong together.
    #[error("{0}")]
    Data(String),
    /// The runner could not be started.
    #[error("cannot start the runner `{runner}`")]
    Start { runner: String, source: std::io::Error },
    /// The runner took too long.
    #[error("the runner `{runner}` was stopped after {seconds} seconds")]
    TimedOut { runner: String, seconds: u64 },
    /// The runner failed.
    #[error("the runner `{runner}` failed: {what}")]
    Failed { runner: String, what: String, transient: bool },
    /// The runner's answer makes no sense.
    #[error("the runner `{runner}` gave no usable answer: {what}")]
    Answer { runner: String, what: String },
    /// The caller wanted no measurement any more.
    #[error("the measurement was stopped")]
    Stopped,
    /// Somebody else holds the device.
    #[error("cannot lock the device with `{path}`: {what}")]
    Lock { path: String, what: String },
}

impl DeviceError {
    /// Whether trying again may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Failed { transient: true, .. })
    }

    /// Whether the candidate is to blame, not the device.
    pub fn is_candidate_fault(&self) -> bool {
        matches!(self, Self::Fault { .. } | Self::Data(_))
    }
}

/// Something that runs packages.
pub trait Device: Sync {
    /// Who it is.
    fn identity(&self) -> Identity;

    /// Runs a package on this data; gives up soon after `stop` was set.
    ///
    /// # Errors
    /// If the device gave no measurement; a missing or senseless figure is an error, never a value.
    fn measure(
        &self,
        application: &Application,
        data: &HostData,
        stop: &AtomicBool,
    ) -> Result<Measurement, DeviceError>;
}

/// Places of a call's byte string on tiles: for every slice the physical tile, address, and range
/// in the concatenated string. Cycle samples are no part of it.
pub fn placements(bindings: &[crate::package::Binding]) -> Vec<(u32, u32, std::ops::Range<usize>)> {
    let mut places = vec![];
    let mut base = 0;
    for binding in bindings.iter().filter(|binding| !binding.is_profile()) {
        let mut end = 0;
        for slice in &binding.slices {
            let start = base + slice.file_offset as usize;
            let range = start..start + slice.size as usize;
            end = end.max((slice.file_offset + slice.size) as usize);
            places.push((slice.tile, slice.tile_address, range));
        }
        base += end;
    }
    places
}
