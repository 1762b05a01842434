//! Cycles of the incumbent's steps.

use super::html::{Cell, Markup, figure, paragraph, section, table};
use super::plot::{Axis, Key, Layer, Plot};
use crate::report::cycles;
use crate::report::figures::{KernelFigures, PackageFigures, StepFigures};

pub(super) fn section_of(package: &PackageFigures) -> Markup {
    let explanation = format!(
        "Predicted by the cost model with calibration {}, from the horizons that the package's rows \
         have; a package holds no measured cycles of single steps. A step's cycles are how much \
         later the last tile ends it than the step before. Together {} cycles.",
        package.steps_calibration_version,
        cycles(sum(package.steps.iter()))
    );
    let caption = "Predicted cycles by step.";
    let content = [
        paragraph(explanation),
        shares(&package.steps),
        figure(plot(&package.steps), caption),
        listing(&package.steps),
    ];
    section("steps", "Steps of the incumbent", content.into_iter().collect())
}

fn sum<'a>(steps: impl Iterator<Item = &'a StepFigures>) -> u64 {
    steps.map(StepFigures::cycles).sum::<f64>().round() as u64
}

/// The three parts that cycles of steps have, with their names and colours.
type Part = (&'static str, &'static str, fn(&StepFigures) -> f64);

const PARTS: [Part; 3] = [
    ("compute", "#4477aa", |step| step.compute_cycles),
    ("exchange events", "#cc6677", |step| step.exchange_cycles),
    ("synchronization and launch", "#ddaa33", |step| step.synchronization_cycles),
];

/// How much of all cycles every part takes.
fn shares(steps: &[StepFigures]) -> Markup {
    let all: f64 = steps.iter().map(StepFigures::cycles).sum();
    let row = |(name, _, value): &Part| {
        let part: f64 = steps.iter().map(value).sum();
        let share = format!("{:.1} %", 100.0 * part / all.max(1.0));
        [
            Cell::Text((*name).to_owned()),
            Cell::Number(cycles(part.round() as u64)),
            Cell::Number(share),
        ]
    };
    table(["part", "predicted cycles", "share"], PARTS.iter().map(row).collect())
}

fn plot(steps: &[StepFigures]) -> Markup {
    let most = steps.iter().map(StepFigures::cycles).fold(1.0, f64::max);
    let mut plot = Plot {
        x: Axis::exactly("step", 0.0, steps.len().max(1) as f64),
        y: Axis::around("predicted cycles", 0.0, most),
        marks: vec![],
        keys: vec![],
    };
    let layer = |(name, colour, value): &Part| Layer {
        key: Key { colour, name: (*name).to_owned() },
        values: steps.iter().map(value).collect(),
    };
    plot.stack(PARTS.iter().map(layer).collect());
    plot.draw()
}

fn listing(steps: &[StepFigures]) -> Markup {
    let all: f64 = steps.iter().map(StepFigures::cycles).sum();
    let row = |step: &StepFigures| {
        [
            Cell::Number(step.step.to_string()),
            Cell::Text(if step.exchange { "exchange" } else { "compute" }.to_owned()),
            Cell::Number(cycles(step.cycles().round() as u64)),
            Cell::Number(format!("{:.1} %", 100.0 * step.cycles() / all.max(1.0))),
            Cell::Text(step.operations.join(", ")),
            Cell::Text(step.kernels.iter().map(kernel).collect::<Vec<_>>().join(", ")),
        ]
    };
    let header =
        ["step", "kind", "predicted cycles", "share", "operations", "kernels of the longest tile"];
    table(header, steps.iter().map(row).collect())
}

fn kernel(kernel: &KernelFigures) -> String {
    format!("{} {}", kernel.class, cycles(kernel.cycles.round() as u64))
}
