//! What the package of the incumbent shows.

use serde::Serialize;

use crate::check::{Checked, Report};
use crate::cost::Coefficients;
use crate::plan::Network;
use crate::program::Program;
use crate::search::usage::{SupportUsage, TileUsage};

use super::memory::MemoryFigures;
use super::phases::PhaseFigures;
use super::steps::StepFigures;

/// What a package shows, or why no package is shown.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum PackagePart {
    /// It is the incumbent's, and it was checked.
    Incumbent(Box<PackageFigures>),
    /// There is nothing to show.
    LeftOut {
        /// Why.
        reason: String,
    },
}

/// A package in figures.
#[derive(Clone, Debug, Serialize)]
pub struct PackageFigures {
    /// Its size.
    pub bytes: usize,
    /// BLAKE3 hash of its bytes.
    pub hash: String,
    /// Identity of its candidate.
    pub candidate: String,
    /// Predicted cycles, by its own account.
    pub predicted_cycles: u64,
    /// Measured cycles, by its own account; 0 if it was not measured.
    pub measured_cycles: u64,
    /// Who measured.
    pub device: String,
    /// Whether that is a simulation.
    pub simulated: bool,
    /// What stands where kernels are to be: `reserved`, or how they were linked.
    pub kernels: String,
    /// Calibration behind the prediction.
    pub calibration_version: u32,
    /// Calibration that steps are priced with: another one only if the database has lost that one.
    pub steps_calibration_version: u32,
    /// Predicted cycles by step.
    pub steps: Vec<StepFigures>,
    /// Exchange phases.
    pub phases: Vec<PhaseFigures>,
    /// Bytes of every tile.
    pub memory: MemoryFigures,
    /// The tile that is drawn.
    pub drawn_tile: u16,
    /// What it holds over time, as SVG.
    #[serde(skip)]
    pub drawing: String,
}

/// One tile over time.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its logical number.
    pub tile: u16,
    /// The drawing.
    pub svg: String,
}

/// A package that was checked, and what its recipe means.
#[derive(Clone, Copy)]
pub struct Proven<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// What they mean.
    pub report: &'a Checked<Report>,
    /// Its model as it is planned.
    pub network: &'a Network,
    /// Its recipe, lowered.
    pub program: &'a Program,
    /// What its images hold in the places of support memory.
    pub support: &'a SupportUsage,
    /// The same for every image.
    pub usage: &'a [TileUsage],
}

impl PackageFigures {
    /// The figures of a package, its steps priced with these coefficients.
    pub fn of(
        proven: Proven<'_>,
        candidate: &str,
        coefficients: &Coefficients,
        picture: Picture,
    ) -> PackageFigures {
        let Proven { bytes, report, network, program, support, usage } = proven;
        let Report { application, phases, .. } = report.get();
        let origin = &application.origin;
        PackageFigures {
            bytes: bytes.len(),
            hash: blake3::hash(bytes).to_hex().to_string(),
            candidate: candidate.to_owned(),
            predicted_cycles: origin.predicted_cycles,
            measured_cycles: origin.measured_cycles,
            device: origin.measured_on.clone(),
            simulated: origin.simulated,
            kernels: origin.kernels.clone(),
            calibration_version: origin.calibration_version,
            steps_calibration_version: coefficients.version,
            steps: StepFigures::of(network, program, phases, coefficients),
            phases: PhaseFigures::of(program, phases),
            memory: MemoryFigures::of(application, program, support, usage),
            drawn_tile: picture.tile,
            drawing: picture.svg,
        }
    }
}
