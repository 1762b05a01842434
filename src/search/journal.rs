//! What the engine asks of whoever keeps its results.

use serde::{Deserialize, Serialize};

use crate::plan::{Recipe, RecipeHash};

use super::outcome::Failure;
use super::state::{CalibrationRecord, IncumbentRecord, State};

/// A candidate that was scheduled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateRecord {
    /// Its number in the study.
    pub trial: u64,
    /// The recipe.
    pub recipe: Recipe,
    /// F1 or F2 cycles, if it has any.
    pub predicted_cycles: Option<f64>,
    /// Why it failed.
    pub failure: Option<Failure>,
}

/// A measurement: every repeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasurementRecord {
    /// Identity of the candidate.
    pub candidate: String,
    /// Name of the device.
    pub device: String,
    /// Whether it is a simulation.
    pub simulated: bool,
    /// Median of the repeats.
    pub cycles: u64,
    /// Predicted at the time.
    pub predicted_cycles: f64,
    /// Calibration at the time.
    pub calibration: u32,
}

/// An incumbent that no longer validates.
#[derive(Clone, Debug, PartialEq)]
pub struct Demotion {
    /// Identity of the candidate.
    pub candidate: RecipeHash,
    /// Why it does not.
    pub reason: String,
}

/// Everything that a committed piece of a round changed. The journal keeps all of it or nothing.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Candidates that were scheduled.
    pub candidates: Vec<CandidateRecord>,
    /// New incumbents.
    pub incumbents: Vec<IncumbentRecord>,
    /// An incumbent that counts no longer.
    pub demoted: Option<Demotion>,
    /// New measurements.
    pub measurements: Vec<MeasurementRecord>,
    /// A new calibration.
    pub calibration: Option<CalibrationRecord>,
    /// Things worth remembering, as name and text.
    pub events: Vec<(String, String)>,
}

/// Why a journal could not keep something.
#[derive(Debug, thiserror::Error)]
#[error("the results could not be kept")]
pub struct JournalError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Keeps rounds.
pub trait Journal {
    /// The last state and the hashes of all candidates, if there are any.
    ///
    /// # Errors
    /// If what was kept cannot be read.
    fn load(&mut self) -> Result<Option<(State, Vec<RecipeHash>)>, JournalError>;

    /// Keeps a state with what led to it, all or nothing.
    ///
    /// # Errors
    /// If it could not be kept; then nothing was.
    fn commit(&mut self, state: &State, commit: &Commit) -> Result<(), JournalError>;
}
