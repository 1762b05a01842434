//! Tables for people, as text.

use comfy_table::{Table, presets::UTF8_BORDERS_ONLY};

use crate::check::Report;
use crate::package::Application;
use crate::store::{HistoryEntry, StudySummary, current};

/// A table with a header.
pub fn table<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    table.to_string()
}

/// Cycles with a comma every three digits.
pub fn cycles(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What a figure is: a simulated one is never called anything else.
pub fn source(simulated: bool) -> &'static str {
    if simulated { "simulated" } else { "hardware" }
}

/// The incumbents of a study.
pub fn history(entries: &[HistoryEntry]) -> String {
    let row = |entry: &HistoryEntry| {
        [
            entry.trial.to_string(),
            entry.candidate.clone(),
            cycles(entry.predicted_cycles.round() as u64),
            cycles(entry.measured_cycles),
            format!("{} ({})", entry.device, source(entry.simulated)),
            format!("{:.1} s", entry.elapsed_ms as f64 / 1000.0),
            entry.demoted.clone().unwrap_or_default(),
        ]
    };
    let header =
        ["trial", "candidate", "predicted", "measured", "device", "found after", "demoted"];
    table(header, entries.iter().map(row).collect())
}

/// Where a study stands.
pub fn summary(summary: &StudySummary, history: &[HistoryEntry]) -> String {
    let mut lines = vec![
        format!("model        {} ({})", summary.model, summary.model_hash),
        format!("target       ipu21, {} tiles; device {}", summary.tiles, summary.device),
        format!("seed         {}", summary.seed),
        format!("progress     {} trials in {} rounds", summary.trials, summary.rounds),
        format!("calibrations {}", summary.calibrations),
    ];
    match current(history) {
        Some(best) => lines.push(format!(
            "incumbent    {}: {} cycles ({}), found at trial {}",
            best.candidate,
            cycles(best.measured_cycles),
            source(best.simulated),
            best.trial
        )),
        None => lines.push("incumbent    none yet".to_owned()),
    }
    for counts in summary.candidates.iter().filter(|counts| counts.kind != "ok") {
        let example = counts.example.as_deref().unwrap_or_default();
        lines.push(format!("failed       {} {}, e.g. {example}", counts.count, counts.kind));
    }
    lines.extend(summary.events.iter().map(|event| format!("event        {event}")));
    lines.join("\n")
}

/// What a package is.
pub fn inspect(application: &Application, bytes: usize) -> String {
    let origin = &application.origin;
    let image = |tile: &crate::package::TileImage| -> usize {
        tile.segments.iter().map(|segment| segment.data.len()).sum()
    };
    let largest = application.tiles.iter().map(image).max().unwrap_or(0);
    let steps = application.profile_tiles.first().map_or(0, |plan| plan.steps.len());
    let binding_bytes = |bindings: &[crate::package::Binding]| -> u64 {
        bindings.iter().flat_map(|binding| &binding.slices).map(|slice| slice.size).sum()
    };
    let measured = match origin.measured_cycles {
        0 => "not measured".to_owned(),
        found => format!(
            "{} cycles ({}, {})",
            cycles(found),
            source(origin.simulated),
            origin.measured_on
        ),
    };
    [
        format!("compiler     {}", application.compiler_version),
        format!(
            "size         {bytes} bytes, {} tile images, largest {largest} bytes",
            application.tiles.len()
        ),
        format!("kernels      {} ({} symbols)", origin.kernels, application.debug_symbols.len()),
        format!("steps        {steps}"),
        format!(
            "host data    {} bytes of weights, {} in, {} out",
            binding_bytes(&application.weights),
            binding_bytes(&application.inputs),
            binding_bytes(&application.outputs)
        ),
        format!(
            "predicted    {} cycles (calibration {})",
            cycles(origin.predicted_cycles),
            origin.calibration_version
        ),
        format!("measured     {measured}"),
        format!(
            "found        trial {}, seed {}, space {}",
            origin.trial, origin.seed, origin.space_hash
        ),
        "missing      tile programs for host transfer; kernel bodies (their ranges hold traps)"
            .to_owned(),
    ]
    .join("\n")
}

/// What a check found out.
pub fn checked(report: &Report) -> String {
    let words: u64 = report.phases.iter().map(|phase| phase.words).sum();
    let horizon: u64 = report.phases.iter().map(|phase| u64::from(phase.horizon)).sum();
    format!(
        "valid: {} steps, {} kernel calls, {} exchange phases with {} words in {} events; largest exchange table {} words",
        report.steps,
        report.calls,
        report.phases.len(),
        words,
        horizon,
        report.largest_table
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_grouped_in_threes() {
        assert_eq!(cycles(0), "0");
        assert_eq!(cycles(999), "999");
        assert_eq!(cycles(1000), "1,000");
        assert_eq!(cycles(12_345_678), "12,345,678");
    }
}
