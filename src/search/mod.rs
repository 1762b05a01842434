//! The search: from the first good plan to a validated incumbent, round after round.
//!
//! [`mod@build`] turns a recipe into a placed and scheduled program, [`first`] makes the first plan,
//! [`evaluate`] climbs the ladder of fidelities and owns the gate: an [`Incumbent`] can only be made
//! of what `check` and the numerics accepted. [`engine`] drives; it knows its journal only as a
//! trait.
//!
//! Invariant: what is committed is a function of model, space, seed and trial count alone. The clock
//! may end a round, by discarding it, and nothing else.

pub mod build;
pub mod engine;
pub mod evaluate;
pub mod first;
pub mod journal;
pub mod memo;
pub mod outcome;
mod placing;
mod start;
pub mod state;
pub mod support;
pub mod usage;

pub use build::{Built, build};
pub use engine::{Budget, Engine, EngineError, Progress, Report, StopReason};
pub use evaluate::{Evaluator, Incumbent, Task, Validated};
pub use journal::{Journal, JournalError};
pub use outcome::Failure;
