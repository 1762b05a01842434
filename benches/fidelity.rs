//! How many candidates a second the first two fidelities look at, beside doing the same without
//! remembering anything. Candidates are neighbours of the first plan, as a search proposes them.
//!
//! Outcome: `results/fidelity.md`.
#![expect(clippy::unwrap_used, reason = "a bench that fails may stop")]

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use criterion::{Criterion, Throughput};
use ipu_tune::cost::{Coefficients, SegmentCost, estimate_node};
use ipu_tune::device::SimulatedDevice;
use ipu_tune::model::{Graph, data, reference, shipped};
use ipu_tune::plan::{Network, Recipe};
use ipu_tune::program::lower_node;
use ipu_tune::search::first::first_plans;
use ipu_tune::search::{Evaluator, Task};
use ipu_tune::space::{Move, Space, check_recipe, propose};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Candidates of one measurement.
const CANDIDATES: usize = 256;

fn main() {
    let text = shipped::MODELS.iter().find(|(name, _)| *name == "bert-base-128").unwrap().1;
    let graph = Graph::from_json(text, Path::new("bert-base-128")).unwrap();
    let network = Network::from_graph(&graph).unwrap();
    let (space, device, stop) = (Space::open(), SimulatedDevice::default(), AtomicBool::new(false));
    let values = data::generate(&graph, 0, data::Values::empty(&graph));
    let task = Task { graph: &graph, network: &network, space: &space, tiles: 1472, seed: 0 };
    let reference = reference::evaluate(&graph, &values, &stop).unwrap();
    let evaluator = Evaluator::new(task, values.clone(), reference.clone(), &device, &stop);
    let coefficients = Coefficients::default();
    let planner = evaluator.planner(&coefficients);
    let first = first_plans(&planner).unwrap().remove(0);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut candidates: Vec<Recipe> = vec![];
    while candidates.len() < CANDIDATES {
        let kind = Move::ALL[candidates.len() % Move::ALL.len()];
        candidates.extend(propose(&planner, &first, kind, &mut rng));
    }
    let layouts = |recipe: &Recipe| check_recipe(&network, recipe).unwrap();
    let inputs = |layouts: &[ipu_tune::plan::Layout], id| -> Vec<_> {
        network.node(id).inputs.iter().map(|value| layouts[value.0 as usize].clone()).collect()
    };
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mut group = criterion.benchmark_group("F0 estimates, bert-base-128");
    group.throughput(Throughput::Elements(CANDIDATES as u64));
    group.bench_function("without memory", |bench| {
        bench.iter(|| {
            let price = |recipe: &Recipe| -> f64 {
                let layouts = layouts(recipe);
                let node = |id: ipu_tune::plan::NodeId| {
                    let plan = &recipe.nodes[id.0 as usize];
                    estimate_node(&network, id, plan, &inputs(&layouts, id), 1472, &coefficients)
                };
                network.node_ids().map(node).sum()
            };
            candidates.par_iter().map(|recipe| black_box(price(recipe))).collect::<Vec<_>>()
        });
    });
    group.bench_function("estimate", |bench| {
        bench.iter(|| {
            candidates
                .par_iter()
                .map(|recipe| black_box(evaluator.estimate(recipe, &coefficients)))
                .collect::<Vec<_>>()
        });
    });
    group.finish();
    let mut group = criterion.benchmark_group("F1 geometry, bert-base-128");
    group.throughput(Throughput::Elements(CANDIDATES as u64));
    group.bench_function("lowering everything", |bench| {
        bench.iter(|| {
            let lower = |recipe: &Recipe| {
                let layouts = layouts(recipe);
                for id in network.node_ids() {
                    let plan = &recipe.nodes[id.0 as usize];
                    let segment = lower_node(&network, id, plan, &inputs(&layouts, id), 1472);
                    black_box(SegmentCost::of(&segment, 1472));
                }
            };
            candidates.par_iter().for_each(lower);
        });
    });
    // Every round of the bench sees the changed segments for the first time.
    group.bench_function("geometry, changed segments new", |bench| {
        bench.iter_with_setup(
            || {
                let (values, reference) = (values.clone(), reference.clone());
                let evaluator = Evaluator::new(task, values, reference, &device, &stop);
                evaluator.geometry(&first, &coefficients).unwrap();
                evaluator
            },
            |evaluator| {
                candidates.par_iter().for_each(|recipe| {
                    black_box(evaluator.geometry(recipe, &coefficients).unwrap());
                });
            },
        );
    });
    group.finish();
    criterion.final_summary();
}
