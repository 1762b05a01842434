//! Search-driven autotuning of tile-processor programs for the Graphcore IPU21.

pub mod exchange;
pub mod kernels;
pub mod model;
pub mod plan;
pub mod program;
pub mod target;
