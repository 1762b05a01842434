//! The package: one application for the chip, in the wire form that tools for this chip share
//! (`target/ipu21.md` §7), with what made it in trailing fields that other readers skip.
//!
//! Invariants: writing is deterministic; [`read`] accepts only what obeys every reader check of
//! §7.1 and never panics on any bytes; a file appears under its name complete or not at all.

pub mod application;
pub mod checks;
pub mod decode;
pub mod encode;
pub mod file;
pub mod host;
pub mod image;

pub mod profile;
pub mod table;
pub mod wire;

pub use application::{
    Application, Binding, DebugRegion, DebugSymbol, EntryPoint, HostCall, HostExchange, HostPage,
    HostSlice, Origin, RegionSlice, Segment, Step, StepKind, TileImage, TileProfilePlan,
};
pub use decode::read;
pub use encode::write;
pub use file::{PackageError, load, replaceable, save, save_together};
pub use image::{Image, PhaseRow, Routine};
pub use profile::{CycleSample, Profile, TileProfile, read_profile, write_profile};
pub use table::RowTable;
