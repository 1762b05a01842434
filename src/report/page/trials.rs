//! What the trials came to.

use super::html::{Cell, Markup, paragraph, section, table};
use crate::report::cycles;
use crate::report::figures::{FailureFigures, TrialFigures};

pub(super) fn section_of(trials: &TrialFigures) -> Markup {
    let ladder = trials.ladder;
    let rungs = [
        ("", "tried", trials.tried),
        ("F2", "placed and scheduled: their cycles are predicted", ladder.scheduled),
        ("F3, F4", "checked, run with the right numbers, and measured", ladder.measured),
        ("", "incumbents, for a time at least", ladder.incumbents),
    ];
    let row = |(fidelity, what, count): (&str, &str, u64)| {
        [Cell::Text(fidelity.to_owned()), Cell::Text(what.to_owned()), Cell::Number(cycles(count))]
    };
    let content = [
        paragraph("Proposals that were not taken to F2 are not kept, and not counted here."),
        table(["fidelity", "candidates", "number"], rungs.map(row).into()),
        Markup::plain("h3", "Failures"),
        failures(trials),
    ];
    section("trials", "What the trials came to", content.into_iter().collect())
}

fn failures(trials: &TrialFigures) -> Markup {
    let last = trials.last_failure.as_ref();
    let last = last.map(|reason| paragraph(format!("What stood in the way last: {reason}.")));
    if trials.failures.is_empty() {
        return std::iter::once(paragraph("No candidate failed.")).chain(last).collect();
    }
    let row = |failure: &FailureFigures| {
        [
            Cell::Text(failure.kind.clone()),
            Cell::Text(failure.fidelity.unwrap_or_default().to_owned()),
            Cell::Number(cycles(failure.count)),
            Cell::Text(failure.example.clone().unwrap_or_default()),
        ]
    };
    let header = ["kind", "not reached", "number", "for example"];
    let listing = table(header, trials.failures.iter().map(row).collect());
    std::iter::once(listing).chain(last).collect()
}
