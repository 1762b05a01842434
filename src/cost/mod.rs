//! What things cost: kernel prices, exchange estimates, calibrated coefficients, and bounds that no
//! program can beat.
//!
//! Prices come from `target/ipu21.md` §6; coefficients correct them by measurement. Nothing here
//! runs a scheduler: exact horizons come from outside.

pub mod bound;
pub mod coefficients;
pub mod estimate;
pub mod geometry;
pub mod kernels;

pub use bound::{bytes_over, hard_bound};
pub use coefficients::{CLASS_NAMES, Class, Coefficients, FEATURES};
pub use estimate::estimate_node;
pub use geometry::{
    Geometry, SegmentCost, StepCost, TileWork, TimedStep, geometry, predicted, step_ends,
};
pub use kernels::{Price, price};
