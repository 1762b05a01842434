//! Incumbents over trials.

use super::html::{Cell, Markup, figure, paragraph, section, table};
use super::plot::{Axis, Key, Plot, dot, label, line};
use crate::report::figures::{IncumbentFigures, StudyFigures};
use crate::report::{cycles, source};
use crate::store::HistoryEntry;

const MEASURED: &str = "#4477aa";
const PREDICTED: &str = "#cc6677";

pub(super) fn section_of(incumbents: &[IncumbentFigures], study: &StudyFigures) -> Markup {
    let content = if incumbents.is_empty() {
        paragraph("No candidate was validated yet.")
    } else {
        let caption = "Every step is a new incumbent, at the trial that made it the best; each is \
             predicted with the calibration of its time. The axis of cycles does not begin at 0. A \
             cross is an incumbent that counts no longer.";
        let drawing = figure(plot(incumbents, study.trials), caption);
        [drawing, listing(incumbents)].into_iter().collect()
    };
    section("incumbents", "Incumbents over trials", content)
}

fn listing(incumbents: &[IncumbentFigures]) -> Markup {
    let row = |incumbent: &IncumbentFigures| {
        let HistoryEntry { trial, round, predicted_cycles, measured_cycles, .. } = incumbent.entry;
        let HistoryEntry { candidate, device, simulated, elapsed_ms, demoted, .. } =
            &incumbent.entry;
        [
            Cell::Number(trial.to_string()),
            Cell::Number(incumbent.crowned_at.to_string()),
            Cell::Number(round.to_string()),
            Cell::Text(candidate.clone()),
            Cell::Number(cycles(predicted_cycles.round() as u64)),
            Cell::Number(cycles(measured_cycles)),
            Cell::Text(format!("{device} ({})", source(*simulated))),
            Cell::Number(format!("{:.1} s", *elapsed_ms as f64 / 1000.0)),
            Cell::Text(demoted.clone().unwrap_or_default()),
        ]
    };
    let header = [
        "trial",
        "best since trial",
        "round",
        "candidate",
        "predicted cycles",
        "measured cycles",
        "device",
        "found after",
        "demoted",
    ];
    table(header, incumbents.iter().map(row).collect())
}

fn plot(incumbents: &[IncumbentFigures], trials: u64) -> Markup {
    let predicted = |found: &IncumbentFigures| found.entry.predicted_cycles;
    let measured = |found: &IncumbentFigures| found.entry.measured_cycles as f64;
    let values = incumbents.iter().flat_map(|found| [predicted(found), measured(found)]);
    let (least, most) = values
        .fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
    let last = incumbents.iter().map(|found| found.crowned_at).max().unwrap_or(0).max(trials);
    let mut plot = Plot {
        x: Axis::exactly("trials", 0.0, last.max(1) as f64),
        y: Axis::around("cycles", least, most),
        marks: vec![],
        keys: vec![
            Key { colour: MEASURED, name: format!("measured ({})", sources(incumbents)) },
            Key { colour: PREDICTED, name: "predicted".to_owned() },
        ],
    };
    let lines = [
        steps(&plot, incumbents, last, predicted).map(|path| line(path, PREDICTED, "2", "6 4")),
        steps(&plot, incumbents, last, measured).map(|path| line(path, MEASURED, "2", "none")),
    ];
    let mark = |found: &IncumbentFigures| {
        let x = plot.across(found.crowned_at as f64);
        let (below, above) = (plot.down(predicted(found)), plot.down(measured(found)));
        if found.entry.demoted.is_some() {
            label(x, above + 4.0, "middle", "×")
        } else {
            [dot(x, below, PREDICTED), dot(x, above, MEASURED)].into_iter().collect()
        }
    };
    let marks: Vec<Markup> = incumbents.iter().map(mark).collect();
    plot.marks = lines.into_iter().flatten().chain(marks).collect();
    plot.draw()
}

/// Who measured, in one word or two.
fn sources(incumbents: &[IncumbentFigures]) -> String {
    let one = |simulated: bool| incumbents.iter().any(|found| found.entry.simulated == simulated);
    let found = [true, false].into_iter().filter(|simulated| one(*simulated)).map(source);
    found.collect::<Vec<_>>().join(" and ")
}

/// The path of what counted, from the first incumbent to the last trial; `None` without any.
fn steps(
    plot: &Plot,
    incumbents: &[IncumbentFigures],
    last: u64,
    value: impl Fn(&IncumbentFigures) -> f64,
) -> Option<String> {
    let mut path = String::new();
    for found in incumbents.iter().filter(|found| found.entry.demoted.is_none()) {
        let (x, y) = (plot.across(found.crowned_at as f64), plot.down(value(found)));
        if path.is_empty() {
            path = format!("M{x:.2} {y:.2}");
        } else {
            path.push_str(&format!("H{x:.2}V{y:.2}"));
        }
    }
    let end = plot.across(last as f64);
    (!path.is_empty()).then(|| format!("{path}H{end:.2}"))
}
