//! Exchange phases of the incumbent.

use super::html::{Cell, Markup, paragraph, section, table};
use crate::plan::ExchangeMode;
use crate::report::cycles;
use crate::report::figures::PhaseFigures;

pub(super) fn section_of(phases: &[PhaseFigures]) -> Markup {
    let content = if phases.is_empty() {
        paragraph("The incumbent exchanges nothing.")
    } else {
        let events: u64 = phases.iter().map(|phase| u64::from(phase.horizon)).sum();
        let explanation = format!(
            "Replayed from the package's rows by the checker: {} events in {} phases. Ordinary rows \
             send items of 32 bits, paired ones of 64 bits, mixed ones both. The busiest tile sends \
             or receives so many words; ordinary items take an event a word.",
            cycles(events),
            phases.len()
        );
        [paragraph(explanation), listing(phases)].into_iter().collect()
    };
    section("exchange", "Exchange phases of the incumbent", content)
}

fn listing(phases: &[PhaseFigures]) -> Markup {
    let row = |phase: &PhaseFigures| {
        [
            Cell::Number(phase.step.to_string()),
            Cell::Number(cycles(phase.horizon.into())),
            Cell::Text(phase.widths.name().to_owned()),
            Cell::Text(decided(phase.mode).to_owned()),
            Cell::Number(cycles(phase.busiest_words)),
            Cell::Number(cycles(phase.words)),
            Cell::Number(cycles(phase.transfers as u64)),
            Cell::Number(cycles(phase.longest_row_words as u64)),
        ]
    };
    let header = [
        "step",
        "horizon (events)",
        "sent as",
        "recipe",
        "words of the busiest tile",
        "words that arrive",
        "transfers",
        "longest row (words)",
    ];
    table(header, phases.iter().map(row).collect())
}

fn decided(mode: ExchangeMode) -> &'static str {
    match mode {
        ExchangeMode::Automatic => "automatic",
        ExchangeMode::Ordinary => "ordinary",
        ExchangeMode::Paired => "paired",
    }
}
