//! Search-driven autotuning of tile-processor programs for the Graphcore IPU21.

pub mod check;
pub mod cost;
pub mod device;
pub mod exchange;
pub mod kernels;
pub mod model;
pub mod package;
pub mod plan;
pub mod program;
pub mod search;
pub mod space;
pub mod storage;
pub mod target;
