//! Every fit of the cost model.

use serde::Serialize;

use crate::calibrate::Quality;
use crate::cost::Coefficients;
use crate::search::state::CalibrationRecord;

/// A fit, judged on points that it was not fitted to.
#[derive(Clone, Debug, Serialize)]
pub struct CalibrationFigures {
    /// Version of the coefficients.
    pub version: u32,
    /// Measured steps that it was fitted to.
    pub fitted: usize,
    /// Measured steps that it was judged on.
    pub held_out: usize,
    /// Errors on those with the coefficients of before; `None` without any.
    pub before: Option<Quality>,
    /// Errors on those with the new ones; `None` without any.
    pub after: Option<Quality>,
    /// Coefficients that the measured steps say next to nothing about.
    pub unidentified: Vec<String>,
}

impl CalibrationFigures {
    /// A stored fit.
    pub fn of(record: &CalibrationRecord) -> CalibrationFigures {
        let fit = &record.fit;
        let judged = fit.held_out > 0;
        let names = fit.unidentified.iter();
        CalibrationFigures {
            version: record.version,
            fitted: fit.fitted,
            held_out: fit.held_out,
            before: judged.then_some(fit.before),
            after: judged.then_some(fit.after),
            unidentified: names.map(|index| Coefficients::feature_name(*index)).collect(),
        }
    }
}
