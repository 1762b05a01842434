//! Calibration versions and their errors on steps that they were not fitted to.

use super::html::{Cell, Markup, paragraph, section, table};
use crate::calibrate::{Quality, TOP};
use crate::report::figures::CalibrationFigures;

pub(super) fn section_of(calibrations: &[CalibrationFigures]) -> Markup {
    let content = if calibrations.is_empty() {
        paragraph("None yet: all predictions are those of the prior coefficients.")
    } else {
        let explanation = format!(
            "Errors of the predicted cycles of single steps, on steps that were held out of the \
             fit: before it → after it. MAPE is the mean absolute error, bias the mean signed one; \
             regret is how much longer the best of the {TOP} steps that are predicted shortest \
             takes than the shortest of all."
        );
        let rows = calibrations.iter().map(row).collect();
        let header = [
            "version",
            "steps fitted to",
            "held out",
            "MAPE",
            "bias",
            "rank correlation",
            "regret",
            "unidentified",
        ];
        [paragraph(explanation), table(header, rows)].into_iter().collect()
    };
    section("calibration", "Calibration", content)
}

fn row(calibration: &CalibrationFigures) -> [Cell; 8] {
    let change = |figure: fn(&Quality) -> String| match (&calibration.before, &calibration.after) {
        (Some(before), Some(after)) => {
            Cell::Number(format!("{} → {}", figure(before), figure(after)))
        }
        _ => Cell::Number("nothing held out".to_owned()),
    };
    [
        Cell::Number(calibration.version.to_string()),
        Cell::Number(calibration.fitted.to_string()),
        Cell::Number(calibration.held_out.to_string()),
        change(|quality| format!("{:.2} %", quality.mape)),
        change(|quality| format!("{:+.2} %", quality.bias)),
        change(|quality| format!("{:.4}", quality.rank_correlation)),
        change(|quality| format!("{:.2} %", quality.regret)),
        Cell::Text(calibration.unidentified.join(", ")),
    ]
}
