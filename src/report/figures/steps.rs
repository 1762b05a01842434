//! Predicted cycles of every step of a program.
//!
//! The cost model's, with the horizons that the package's rows have: the profile plan in a package
//! says what its samples mean, not how long anything took. What a step adds is how much later the
//! last tile ends it than the step before; all of them add up to the predicted cycles.

use serde::Serialize;

use crate::check::PhaseReport;
use crate::cost::{
    CLASS_NAMES, Coefficients, SegmentCost, StepCost, TileWork, TimedStep, predicted, step_ends,
};
use crate::plan::Network;
use crate::program::{Program, Step, StepKind};

/// What a step adds to the predicted cycles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepFigures {
    /// Its number.
    pub step: usize,
    /// Whether words move; else kernels run.
    pub exchange: bool,
    /// Operations that take part.
    pub operations: Vec<String>,
    /// Kernels.
    pub compute_cycles: f64,
    /// Cycles by kernel class on the tile whose kernels take longest in this step alone; what the
    /// step adds is less if that tile had come early.
    pub kernels: Vec<KernelFigures>,
    /// Events of the exchange.
    pub exchange_cycles: f64,
    /// What an exchange takes beyond its events: synchronization and launch.
    pub synchronization_cycles: f64,
}

/// Kernels of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelFigures {
    /// The class.
    pub class: &'static str,
    /// Their cycles.
    pub cycles: f64,
}

impl StepFigures {
    /// All that it adds.
    pub fn cycles(&self) -> f64 {
        self.compute_cycles + self.exchange_cycles + self.synchronization_cycles
    }

    /// The steps of a program, with its replayed exchange phases in order.
    pub fn of(
        network: &Network,
        program: &Program,
        phases: &[PhaseReport],
        coefficients: &Coefficients,
    ) -> Vec<StepFigures> {
        let costs: Vec<Vec<SegmentCost>> =
            program.steps.iter().map(|step| costs(step, program.tiles)).collect();
        let timed = timed(program, &costs, phases);
        let ends = step_ends(program.tiles, &timed, coefficients);
        let starts = std::iter::once(0.0).chain(ends.iter().copied());
        let added = ends.iter().zip(starts).map(|(end, start)| end - start);
        let steps = program.steps.iter().zip(&timed).zip(added).enumerate();
        let figures = steps.map(|(index, ((step, timed), cycles))| {
            let exchange = step.kind != StepKind::Compute;
            let overhead = if exchange { coefficients.exchange_overhead } else { 0.0 };
            StepFigures {
                step: index,
                exchange,
                operations: operations(network, step),
                compute_cycles: if exchange { 0.0 } else { cycles },
                kernels: kernels(timed, program.tiles, coefficients),
                exchange_cycles: if exchange { cycles - overhead } else { 0.0 },
                synchronization_cycles: overhead,
            }
        });
        figures.collect()
    }
}

/// Names of the nodes that take part, each once.
fn operations(network: &Network, step: &Step) -> Vec<String> {
    let mut names: Vec<String> = vec![];
    for part in &step.parts {
        let name = &network.node(part.node).name;
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Every step with what its time depends on.
fn timed<'a>(
    program: &Program,
    costs: &'a [Vec<SegmentCost>],
    phases: &'a [PhaseReport],
) -> Vec<TimedStep<'a>> {
    let mut phases = phases.iter();
    let steps = program.steps.iter().zip(costs).map(|(step, costs)| match step.kind {
        StepKind::Compute => TimedStep::Compute(work(step, costs)),
        StepKind::Exchange(_) => {
            // Tiles beyond the program's are loaded in its last batch, but wait for nobody.
            let ends = phases.next().map_or(&[][..], |phase| &phase.ends);
            TimedStep::Exchange(&ends[..ends.len().min(program.tiles.into())])
        }
    });
    steps.collect()
}

/// The kernel classes of a step's longest tile, those that take most first.
fn kernels(step: &TimedStep<'_>, tiles: u16, coefficients: &Coefficients) -> Vec<KernelFigures> {
    let (_, features) = predicted(tiles, std::slice::from_ref(step), coefficients);
    let classes = CLASS_NAMES.into_iter().zip(coefficients.class_cycles(&features));
    let figures = classes.map(|(class, cycles)| KernelFigures { class, cycles });
    let mut kernels: Vec<KernelFigures> = figures.filter(|found| found.cycles > 0.0).collect();
    kernels.sort_by(|a, b| b.cycles.total_cmp(&a.cycles));
    kernels
}

/// What the segments of a compute step cost; nothing of an exchange, whose horizons are known.
fn costs(step: &Step, tiles: u16) -> Vec<SegmentCost> {
    let parts = step.parts.iter().filter(|_| step.kind == StepKind::Compute);
    parts.map(|part| SegmentCost::of(&part.segment, tiles)).collect()
}

fn work<'a>(step: &Step, costs: &'a [SegmentCost]) -> Vec<&'a [TileWork]> {
    let parts = step.parts.iter().zip(costs);
    let work = parts.filter_map(|(part, cost)| match &cost.steps[part.step] {
        StepCost::Compute(work) => Some(work.as_slice()),
        StepCost::Exchange(_) => None,
    });
    work.collect()
}
