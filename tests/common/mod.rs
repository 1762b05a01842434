//! A small model and everything needed to build it.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "every test file uses its own part")]

pub mod binary;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use ipu_tune::cost::Coefficients;
use ipu_tune::device::SimulatedDevice;
use ipu_tune::model::{Graph, data, reference};
use ipu_tune::package::Application;
use ipu_tune::plan::{Network, Recipe};
use ipu_tune::search::first::first_plans;
use ipu_tune::search::{Evaluator, Task};
use ipu_tune::space::Space;
use ipu_tune::space::candidates::{Planner, Shortlists};

/// One transformer block in miniature: norm, FP8 cast, products with and without activation, two
/// heads whose width is no multiple of 16, softmax over a length that is none, residual.
pub const BLOCK: &str = r#"{
  "format": "ipu-tune/model@1", "name": "block",
  "inputs": [{"name": "x", "shape": [21, 48], "dtype": "f16"}],
  "parameters": [
    {"name": "g", "shape": [48], "dtype": "f16"}, {"name": "b", "shape": [48], "dtype": "f16"},
    {"name": "wq", "shape": [48, 48], "dtype": "f16"}, {"name": "bq", "shape": [48], "dtype": "f16"},
    {"name": "wk", "shape": [48, 48], "dtype": "f16"},
    {"name": "wv", "shape": [48, 48], "dtype": "f16"},
    {"name": "wo", "shape": [48, 48], "dtype": "f8f143", "scale": -3},
    {"name": "w1", "shape": [48, 80], "dtype": "f16"}, {"name": "b1", "shape": [80], "dtype": "f16"}
  ],
  "operations": [
    {"name": "norm", "op": "layernorm", "inputs": ["x", "g", "b"], "outputs": [{"name": "n", "shape": [21, 48], "dtype": "f16"}]},
    {"name": "q", "op": "matmul", "inputs": ["n", "wq"], "outputs": [{"name": "q0", "shape": [21, 48], "dtype": "f16"}]},
    {"name": "qb", "op": "add", "inputs": ["q0", "bq"], "outputs": [{"name": "q1", "shape": [21, 48], "dtype": "f16"}]},
    {"name": "k", "op": "matmul", "inputs": ["n", "wk"], "outputs": [{"name": "k1", "shape": [21, 48], "dtype": "f16"}]},
    {"name": "v", "op": "matmul", "inputs": ["n", "wv"], "outputs": [{"name": "v1", "shape": [21, 48], "dtype": "f16"}]},
    {"name": "qs", "op": "split_heads", "inputs": ["q1"], "attributes": {"heads": 2}, "outputs": [{"name": "q2", "shape": [2, 21, 24], "dtype": "f16"}]},
    {"name": "ks", "op": "split_heads", "inputs": ["k1"], "attributes": {"heads": 2}, "outputs": [{"name": "k2", "shape": [2, 21, 24], "dtype": "f16"}]},
    {"name": "vs", "op": "split_heads", "inputs": ["v1"], "attributes": {"heads": 2}, "outputs": [{"name": "v2", "shape": [2, 21, 24], "dtype": "f16"}]},
    {"name": "s", "op": "attention_scores", "inputs": ["q2", "k2"], "attributes": {"scale": 0.204, "causal": true}, "outputs": [{"name": "s1", "shape": [2, 21, 21], "dtype": "f16"}]},
    {"name": "p", "op": "softmax", "inputs": ["s1"], "attributes": {"axis": -1}, "outputs": [{"name": "p1", "shape": [2, 21, 21], "dtype": "f16"}]},
    {"name": "a", "op": "attention_values", "inputs": ["p1", "v2"], "outputs": [{"name": "a1", "shape": [2, 21, 24], "dtype": "f16"}]},
    {"name": "m", "op": "merge_heads", "inputs": ["a1"], "outputs": [{"name": "m1", "shape": [21, 48], "dtype": "f16"}]},
    {"name": "c", "op": "cast", "inputs": ["m1"], "attributes": {"to": "f8f143"}, "outputs": [{"name": "c1", "shape": [21, 48], "dtype": "f8f143", "scale": -4}]},
    {"name": "o", "op": "matmul", "inputs": ["c1", "wo"], "outputs": [{"name": "o1", "shape": [21, 48], "dtype": "f16"}]},
    {"name": "r", "op": "add", "inputs": ["x", "o1"], "outputs": [{"name": "r1", "shape": [21, 48], "dtype": "f16"}]},
    {"name": "up", "op": "matmul", "inputs": ["r1", "w1"], "outputs": [{"name": "u0", "shape": [21, 80], "dtype": "f16"}]},
    {"name": "ub", "op": "add", "inputs": ["u0", "b1"], "outputs": [{"name": "u1", "shape": [21, 80], "dtype": "f16"}]},
    {"name": "act", "op": "gelu_tanh", "inputs": ["u1"], "outputs": [{"name": "y", "shape": [21, 80], "dtype": "f16"}]}
  ],
  "outputs": ["y", "r1"]
}"#;

/// A model and what is made of it once.
pub struct Fixture {
    pub graph: Graph,
    pub network: Network,
    pub space: Space,
    pub tiles: u16,
    pub device: SimulatedDevice,
    pub stop: AtomicBool,
}

impl Fixture {
    pub fn new(text: &str, tiles: u16) -> Fixture {
        let graph = Graph::from_json(text, Path::new("fixture.json")).expect("a legal model");
        let network = Network::from_graph(&graph).expect("a model that can be planned");
        let (space, device) = (Space::open(), SimulatedDevice::default());
        Fixture { graph, network, space, tiles, device, stop: AtomicBool::new(false) }
    }

    pub fn evaluator(&self, seed: u64) -> Evaluator<'_> {
        let Fixture { graph, network, space, tiles, device, stop } = self;
        let values = data::generate(graph, seed, data::Values::empty(graph));
        let reference = reference::evaluate(graph, &values, stop).expect("nobody stops it");
        let task = Task { graph, network, space, tiles: *tiles, seed };
        Evaluator::new(task, values, reference, device, stop)
    }

    pub fn first_plans(&self) -> Vec<Recipe> {
        let (coefficients, shortlists) = (Coefficients::default(), Shortlists::default());
        let planner = Planner {
            network: &self.network,
            space: &self.space,
            tiles: self.tiles,
            coefficients: &coefficients,
            shortlists: &shortlists,
        };
        first_plans(&planner).expect("a first plan")
    }

    /// The validated package of the first plan.
    pub fn package(&self) -> Application {
        let recipe = self.first_plans().remove(0);
        let validated = self.evaluator(7).validate(&recipe, 1, &Coefficients::default());
        validated.expect("a first plan that is right").application()
    }
}
