//! Search-driven autotuning of tile-processor programs for the Graphcore IPU21.

pub mod target;
