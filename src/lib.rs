//! Search-driven autotuning of tile-processor programs for the Graphcore IPU21.
//!
//! ```text
//! model.json ──► model::Graph ──► plan::Network ─┐          search-spaces/*.json ─► space::Space
//!                                                ▼                     │
//!   store (SQLite) ◄── Journal ──► search::Engine ──► plan::Recipe ◄───┘   (decisions only)
//!                                     ▲                   │ program: lower and link
//!                                     │                   ▼
//!                                     │        storage::place   exchange::schedule
//!                                     │                   ▼
//!                                     └── cost ◄── search::Built ──► package ──► check  (from bytes)
//!                                     └── calibrate ◄── device (simulated, or an external runner)
//! ```
//!
//! Data flows one way; `tests/architecture.rs` holds which module may use which. The library never
//! prints, never reads the environment and never exits: [`cli`] does.

pub mod calibrate;
pub mod check;
pub mod cli;
pub mod cost;
pub mod device;
pub mod exchange;
mod json;
pub mod kernels;
pub mod model;
pub mod package;
pub mod plan;
pub mod program;
pub mod report;
pub mod search;
pub mod space;
pub mod storage;
pub mod store;
pub mod target;
