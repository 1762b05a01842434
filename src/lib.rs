//! Search-driven autotuning of tile-processor programs for the Graphcore IPU21.

pub mod exchange;
pub mod kernels;
pub mod model;
pub mod package;
pub mod plan;
pub mod program;
pub mod storage;
pub mod target;
