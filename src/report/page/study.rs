//! The study: what was searched, and what came of it.

use super::html::{Markup, facts, paragraph, section};
use super::with_source;
use crate::report::figures::StudyFigures;
use crate::report::{cycles, source};

pub(super) fn section_of(study: &StudyFigures) -> Markup {
    let device = match study.simulated {
        Some(simulated) => format!("{} ({})", study.device, source(simulated)),
        None => study.device.clone(),
    };
    let mut lines = vec![
        ("model", format!("{} ({})", study.model, study.model_hash)),
        ("target", format!("ipu21, {} tiles", study.tiles)),
        ("seed", study.seed.to_string()),
        ("space", study.space_hash.clone()),
        ("evaluator", format!("version {}", study.evaluator)),
        ("device", device),
        ("progress", format!("{} trials in {} rounds", study.trials, study.rounds)),
    ];
    lines.extend(outcome(study));
    lines.extend(study.events.iter().map(|event| ("event", event.clone())));
    let content = [paragraph(provenance(study.simulated)), facts(&lines)];
    section("study", "Study", content.into_iter().collect())
}

/// What the cycles on the page are.
fn provenance(simulated: Option<bool>) -> &'static str {
    match simulated {
        Some(true) => {
            "All measured cycles are simulated: a simulated device executed the packages. Nothing \
             on this page was measured on hardware."
        }
        Some(false) => "Measured cycles are hardware's where they are called so.",
        None => "Nothing was measured yet.",
    }
}

/// First plan, bound, incumbent and how they compare.
fn outcome(study: &StudyFigures) -> Vec<(&'static str, String)> {
    let mut lines = vec![];
    if let (Some(first), Some(simulated)) = (study.first_plan_cycles, study.simulated) {
        lines.push(("first plan", with_source(first, simulated, &study.device)));
    }
    let bound = study
        .bound_cycles
        .map_or("not known without the model or its package".to_owned(), |bound| {
            format!("{} cycles, which no program of the model can beat", cycles(bound))
        });
    lines.push(("bound", bound));
    let Some(best) = &study.incumbent else {
        lines.push(("incumbent", "none yet".to_owned()));
        return lines;
    };
    let measured = with_source(best.measured_cycles, best.simulated, &best.device);
    let found = format!("{measured}: candidate {}, trial {}", best.candidate, best.trial);
    lines.push(("incumbent", found));
    lines.push(("predicted", format!("{} cycles", cycles(best.predicted_cycles.round() as u64))));
    if let Some(saved) = study.saved_percent {
        lines.push(("saved", format!("{saved:.1} % of the first plan")));
    }
    if let Some(bound) = study.bound_cycles.filter(|bound| *bound > 0) {
        let ratio = best.measured_cycles as f64 / bound as f64;
        lines.push(("above bound", format!("{ratio:.2} × the bound")));
    }
    if let Some(numerics) = &study.numerics {
        let (cosine, error) = (numerics.minimum_cosine, numerics.maximum_absolute_error);
        lines.push(("numbers", format!("cosine {cosine:.7}, largest error {error:.5}")));
    }
    lines
}
