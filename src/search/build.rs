//! From a recipe to a placed and scheduled program: fidelity F2.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::cost::{Coefficients, StepCost, TimedStep, predicted};
use crate::exchange::Scheduled;
use crate::model::Graph;
use crate::package::{Application, Image, Origin, PhaseRow, Routine, RowTable};
use crate::plan::{Network, Recipe};
use crate::program::{Addresses, Program, Segment, layout_of_input, link};
use crate::space::check_recipe;
use crate::storage::Support;
use crate::target::Address;

use super::memo::{Memo, SegmentEntry};
use super::outcome::Failure;
use super::placing::{Placed, Placing};
use super::support::{estimated_row_bytes, lay_out};

/// How often the exchange table may turn out larger than what was kept for it.
const ATTEMPTS: usize = 4;

/// A placed and scheduled program.
pub struct Built {
    /// The lowered program.
    pub program: Program,
    /// Where buffers lie.
    pub addresses: Addresses,
    /// Where code and rows lie.
    pub support: Support,
    /// Runtime routines and kernels.
    pub routines: Vec<Routine>,
    /// Schedules of all exchange steps, by number.
    pub phases: BTreeMap<usize, Arc<Scheduled>>,
    /// Predicted cycles under the given coefficients.
    pub cycles: f64,
    /// What the coefficients were multiplied with.
    pub features: Vec<f64>,
    /// The same for every step alone, of the tile that takes longest in it.
    pub step_features: Vec<Vec<f64>>,
    /// Cycles of exchange alone.
    pub exchange_cycles: f64,
    /// Events of exchange that moving buffers saved.
    pub saved_events: u64,
    /// Counted work: transfers that were scheduled.
    pub transfers: u64,
}

/// The lowered nodes of a recipe, from the memo.
///
/// # Errors
/// If the recipe is not legal.
pub fn segments(
    network: &Network,
    recipe: &Recipe,
    memo: &Memo,
) -> Result<Vec<SegmentEntry>, Failure> {
    let layouts = check_recipe(network, recipe)
        .map_err(|illegal| Failure::Illegal { what: illegal.to_string() })?;
    let lowered = network.node_ids().map(|id| {
        let inputs: Vec<_> =
            network.node(id).inputs.iter().map(|value| layouts[value.0 as usize].clone()).collect();
        memo.segment(network, id, &recipe.nodes[id.0 as usize], &inputs, recipe.tiles)
    });
    Ok(lowered.collect())
}

/// Builds a recipe.
///
/// # Errors
/// Why it cannot be a program.
pub fn build(
    network: &Network,
    recipe: &Recipe,
    memo: &Memo,
    coefficients: &Coefficients,
    stop: &AtomicBool,
) -> Result<Built, Failure> {
    let lowered = segments(network, recipe, memo)?;
    let inputs: Vec<_> = (network.inputs.iter().zip(&recipe.inputs))
        .map(|(value, plan)| layout_of_input(network.value(*value), plan, recipe.tiles))
        .collect();
    let plain: Vec<Arc<Segment>> = lowered.iter().map(|(segment, _)| Arc::clone(segment)).collect();
    let program = link(network, recipe, &inputs, &plain);
    let mut row_budget = estimated_row_bytes(&program);
    for _ in 0..ATTEMPTS {
        let (routines, support) = lay_out(&program, row_budget)?;
        let placing = Placing { program: &program, free: &support.free, memo, stop };
        let Placed { addresses, phases, saved_events } = placing.place(recipe.storage)?;
        let needed = table_bytes(&program, &phases);
        if needed > row_budget {
            row_budget = needed;
            continue;
        }
        let Priced { cycles, features, step_features, exchange_cycles } =
            price(&program, &lowered, &phases, coefficients);
        let transfers = program.steps.iter().map(|step| step.transfer_count() as u64).sum();
        return Ok(Built {
            program,
            addresses,
            support,
            routines,
            phases,
            cycles,
            features,
            step_features,
            exchange_cycles,
            saved_events,
            transfers,
        });
    }
    Err(Failure::RowsTooLong { bytes_over: 0 })
}

/// Size of the largest exchange table.
fn table_bytes(program: &Program, phases: &BTreeMap<usize, Arc<Scheduled>>) -> u32 {
    let mut tables = vec![RowTable::default(); program.tiles.into()];
    for row in phases.values().flat_map(|scheduled| &scheduled.rows) {
        tables[usize::from(row.tile.0)].place(&row.words);
    }
    tables.iter().map(|table| table.size().0).max().unwrap_or(0)
}

/// What a built program costs.
struct Priced {
    cycles: f64,
    features: Vec<f64>,
    step_features: Vec<Vec<f64>>,
    exchange_cycles: f64,
}

fn price(
    program: &Program,
    lowered: &[SegmentEntry],
    phases: &BTreeMap<usize, Arc<Scheduled>>,
    coefficients: &Coefficients,
) -> Priced {
    let horizons: BTreeMap<usize, Vec<u32>> = phases
        .iter()
        .map(|(step, scheduled)| {
            let mut horizons = vec![0; program.tiles.into()];
            for row in &scheduled.rows {
                horizons[usize::from(row.tile.0)] = row.horizon;
            }
            (*step, horizons)
        })
        .collect();
    let exchange_cycles: f64 = phases
        .values()
        .map(|scheduled| {
            coefficients.exchange_overhead
                + f64::from(scheduled.schedule.horizon) * coefficients.event
        })
        .sum();
    let steps: Vec<TimedStep<'_>> = program
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| match horizons.get(&index) {
            Some(horizons) => TimedStep::Exchange(horizons),
            None => TimedStep::Compute(
                step.parts
                    .iter()
                    .filter_map(|part| match &lowered[part.node.0 as usize].1.steps[part.step] {
                        StepCost::Compute(work) => Some(work.as_slice()),
                        StepCost::Exchange(_) => None,
                    })
                    .collect(),
            ),
        })
        .collect();
    let (cycles, features) = predicted(program.tiles, &steps, coefficients);
    let alone =
        |step: &TimedStep<'_>| predicted(program.tiles, std::slice::from_ref(step), coefficients).1;
    let step_features = steps.iter().map(alone).collect();
    Priced { cycles, features, step_features, exchange_cycles }
}

impl Built {
    /// The package.
    pub fn application(&self, graph: &Graph, network: &Network, origin: Origin) -> Application {
        let rows: BTreeMap<usize, (Vec<PhaseRow>, u32)> = self
            .phases
            .iter()
            .map(|(step, scheduled)| {
                let rows = scheduled.rows.iter();
                let rows = rows.map(|row| PhaseRow { tile: row.tile, words: row.words.clone() });
                (*step, (rows.collect(), scheduled.schedule.horizon))
            })
            .collect();
        let image = Image {
            graph,
            network,
            program: &self.program,
            addresses: &self.addresses,
            routines: &self.routines,
            code: Address(self.support.program.start),
            rows_start: Address(self.support.rows.start),
            profile: Address(self.support.profile.start),
            rows: &rows,
            origin,
        };
        image.assemble()
    }
}
