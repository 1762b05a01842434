//! Everything that a report says, as data. The page shows it, and `report --json` prints it as one
//! object, `"format": "ipu-tune/report@1"`; fields are only ever added.
//!
//! Cycles are predicted where the name says so, else measured, by the device that stands beside
//! them. `package` is `{"state": "incumbent", …}` with what the package of the incumbent shows, or
//! `{"state": "left-out", "reason": …}`.

pub mod calibration;
pub mod memory;
pub mod package;
pub mod phases;
pub mod steps;
pub mod study;
pub mod trials;

use serde::Serialize;

pub use calibration::CalibrationFigures;
pub use memory::{MemoryFigures, TileFigures};
pub use package::{PackageFigures, PackagePart, Picture, Proven};
pub use phases::PhaseFigures;
pub use steps::{KernelFigures, StepFigures};
pub use study::{IncumbentFigures, StudyFigures};
pub use trials::{FailureFigures, TrialFigures};

/// Version of the JSON form.
pub const FORMAT: &str = "ipu-tune/report@1";

/// A whole report.
#[derive(Clone, Debug, Serialize)]
pub struct ReportFigures {
    /// [`FORMAT`].
    pub format: &'static str,
    /// What was searched, and how far.
    pub study: StudyFigures,
    /// All incumbents in the order found, those that count no longer too.
    pub incumbents: Vec<IncumbentFigures>,
    /// What became of the candidates.
    pub trials: TrialFigures,
    /// Every fit of the cost model, oldest first.
    pub calibrations: Vec<CalibrationFigures>,
    /// What the incumbent's package shows.
    pub package: PackagePart,
}
