//! The ladder of fidelities for one model, and the gate in front of the incumbent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use crate::calibrate::Point;
use crate::check::{self, Checked};
use crate::cost::{Coefficients, Geometry, estimate_node, geometry};
use crate::device::{Device, DeviceError, HostData, Numerics, Output, Summary, Tolerance, compare};
use crate::model::{Graph, TensorId, Values};
use crate::package::application::KERNELS_RESERVED;
use crate::package::{Application, Origin, write};
use crate::plan::{Layout, Network, NodeId, NodePlan, Recipe};
use crate::program::{Role, host_bytes, layout_of_input, layout_of_node, outputs};
use crate::space::Space;
use crate::space::candidates::{Planner, Shortlists};
use crate::target::DataType;

use super::build::{Built, build, segments};
use super::memo::Memo;
use super::outcome::Failure;
use super::usage::SupportUsage;

/// Version of everything that decides a figure; part of a study's identity.
pub const EVALUATOR_VERSION: &str = "9";

/// What is searched: a model on some tiles.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    /// The model.
    pub graph: &'a Graph,
    /// The model as it is planned.
    pub network: &'a Network,
    /// What may be decided.
    pub space: &'a Space,
    /// Tiles to use.
    pub tiles: u16,
    /// Seed of the data, where the model names none, and of the search.
    pub seed: u64,
}

/// Evaluates candidates of one task.
pub struct Evaluator<'a> {
    /// The model.
    pub graph: &'a Graph,
    /// The model as it is planned.
    pub network: &'a Network,
    /// What may be decided.
    pub space: &'a Space,
    /// Tiles to use.
    pub tiles: u16,
    /// Seed of the data, where the model names none, and of the search.
    pub seed: u64,
    device: &'a dyn Device,
    values: Values,
    reference: Values,
    memo: Memo,
    estimates: Mutex<Estimates>,
    shortlists: Shortlists,
    stop: &'a AtomicBool,
}

/// F0 prices, with layouts as numbers.
#[derive(Default)]
struct Estimates {
    layouts: Vec<Layout>,
    numbers: FxHashMap<Layout, u32>,
    priced: FxHashMap<(NodeId, NodePlan, [u32; 2]), (f64, u32)>,
    inputs: FxHashMap<(u32, crate::plan::PointwisePlan), u32>,
    version: u32,
}

/// Entries after which F0 prices are forgotten.
const MOST_ESTIMATES: usize = 400_000;

impl Estimates {
    fn number(&mut self, layout: Layout) -> u32 {
        let next = self.layouts.len() as u32;
        let number = *self.numbers.entry(layout.clone()).or_insert(next);
        if number == next {
            self.layouts.push(layout);
        }
        number
    }
}

/// A candidate that passed every check and ran with the right numbers.
#[derive(Clone, Debug)]
pub struct Validated {
    recipe: Recipe,
    predicted: f64,
    features: Vec<f64>,
    measured: Summary,
    device: crate::device::Identity,
    numerics: Numerics,
    points: Vec<Point>,
    application: Arc<Checked<check::Report>>,
}

/// The best candidate that was validated. Made of a [`Validated`] and nothing else.
#[derive(Clone, Debug)]
pub struct Incumbent {
    validated: Validated,
    trial: u64,
}

impl Incumbent {
    /// The new incumbent.
    pub fn new(validated: Validated, trial: u64) -> Incumbent {
        Incumbent { validated, trial }
    }

    /// What was validated.
    pub fn validated(&self) -> &Validated {
        &self.validated
    }

    /// The trial that found it.
    pub fn trial(&self) -> u64 {
        self.trial
    }
}

impl Validated {
    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Cycles predicted under the calibration of the time.
    pub fn predicted(&self) -> f64 {
        self.predicted
    }

    /// Features of the whole program.
    pub fn features(&self) -> &[f64] {
        &self.features
    }

    /// Measured cycles.
    pub fn measured(&self) -> &Summary {
        &self.measured
    }

    /// Who measured.
    pub fn device(&self) -> &crate::device::Identity {
        &self.device
    }

    /// Distance from the reference.
    pub fn numerics(&self) -> &Numerics {
        &self.numerics
    }

    /// Measured steps, for calibration.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// What the checker accepted, with the measurement written into its origin.
    pub fn application(&self) -> Application {
        let mut application = self.application.get().application.clone();
        application.origin.measured_cycles = self.measured.median;
        application.origin.measured_on.clone_from(&self.device.name);
        application.origin.simulated = self.device.simulated;
        application
    }
}

impl<'a> Evaluator<'a> {
    /// An evaluator with its data and the reference's numbers for them. All work that can take long
    /// gives up when `stop` is set.
    pub fn new(
        task: Task<'a>,
        values: Values,
        reference: Values,
        device: &'a dyn Device,
        stop: &'a AtomicBool,
    ) -> Evaluator<'a> {
        let Task { graph, network, space, tiles, seed } = task;
        Evaluator {
            graph,
            network,
            space,
            tiles,
            seed,
            device,
            values,
            reference,
            memo: Memo::default(),
            estimates: Mutex::new(Estimates::default()),
            shortlists: Shortlists::default(),
            stop,
        }
    }

    /// Whether work was asked to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The planner under some coefficients.
    pub fn planner<'b>(&'b self, coefficients: &'b Coefficients) -> Planner<'b> {
        Planner {
            network: self.network,
            space: self.space,
            tiles: self.tiles,
            coefficients,
            shortlists: &self.shortlists,
        }
    }

    /// F0: the sum of node prices.
    pub fn estimate(&self, recipe: &Recipe, coefficients: &Coefficients) -> f64 {
        let mut estimates =
            self.estimates.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if estimates.version != coefficients.version || estimates.priced.len() > MOST_ESTIMATES {
            *estimates = Estimates { version: coefficients.version, ..Estimates::default() };
        }
        let mut numbers = vec![0_u32; self.network.values.len()];
        for (id, plan) in self.network.inputs.iter().zip(&recipe.inputs) {
            let number = match estimates.inputs.get(&(id.0, *plan)) {
                Some(number) => *number,
                None => {
                    let layout = layout_of_input(self.network.value(*id), plan, recipe.tiles);
                    let number = estimates.number(layout);
                    estimates.inputs.insert((id.0, *plan), number);
                    number
                }
            };
            numbers[id.0 as usize] = number;
        }
        let mut sum = 0.0;
        for id in self.network.node_ids() {
            let node = self.network.node(id);
            let plan = recipe.nodes[id.0 as usize];
            let input = |index: usize| node.inputs.get(index).map_or(0, |v| numbers[v.0 as usize]);
            let key = (id, plan, [input(0), input(1)]);
            let (cycles, number) = match estimates.priced.get(&key) {
                Some(found) => *found,
                None => {
                    let layouts: Vec<Layout> = (0..node.inputs.len())
                        .map(|index| estimates.layouts[key.2[index] as usize].clone())
                        .collect();
                    let result = layout_of_node(self.network, id, &plan, &layouts, recipe.tiles);
                    let cycles = estimate_node(
                        self.network,
                        id,
                        &plan,
                        &layouts,
                        recipe.tiles,
                        coefficients,
                    );
                    let entry = (cycles, estimates.number(result));
                    estimates.priced.insert(key, entry);
                    entry
                }
            };
            sum += cycles;
            numbers[node.output.0 as usize] = number;
        }
        sum
    }

    /// F1: lowered, not yet placed or scheduled.
    ///
    /// # Errors
    /// If the recipe is not legal.
    pub fn geometry(
        &self,
        recipe: &Recipe,
        coefficients: &Coefficients,
    ) -> Result<Geometry, Failure> {
        let lowered = segments(self.network, recipe, &self.memo)?;
        Ok(geometry(self.network, recipe, &lowered, coefficients))
    }

    /// Whether a recipe from elsewhere is one of this task's: for its tiles, and in its space.
    ///
    /// # Errors
    /// What speaks against it.
    pub fn admit(&self, recipe: &Recipe) -> Result<(), Failure> {
        let illegal = |what: String| Err(Failure::Illegal { what });
        if recipe.tiles != self.tiles {
            return illegal(format!("it is for {} tiles", recipe.tiles));
        }
        let mut plans = self.network.nodes.iter().zip(&recipe.nodes);
        match plans.find(|(node, plan)| !self.space.allows(&node.name, plan)) {
            Some((node, _)) => {
                illegal(format!("the space does not allow its plan of `{}`", node.name))
            }
            None => Ok(()),
        }
    }

    /// F2: placed and scheduled.
    ///
    /// # Errors
    /// Why it cannot be a program.
    pub fn schedule(&self, recipe: &Recipe, coefficients: &Coefficients) -> Result<Built, Failure> {
        build(self.network, recipe, &self.memo, coefficients, self.stop)
    }

    /// F3 and F4: checked from its bytes, run, compared with the reference, and timed.
    ///
    /// # Errors
    /// Why it is not right, or [`Failure::DeviceLost`].
    pub fn validate(
        &self,
        recipe: &Recipe,
        trial: u64,
        coefficients: &Coefficients,
    ) -> Result<Validated, Failure> {
        let built = self.schedule(recipe, coefficients)?;
        tracing::debug!(
            final_cycles = built.cycles.round() as u64,
            final_exchange = built.exchange_cycles.round() as u64,
            "costed final placed program"
        );
        let origin = Origin {
            model: self.graph.to_json(),
            recipe: recipe.to_json(),
            space_hash: self.space.hash(),
            seed: self.seed,
            trial,
            evaluator_version: EVALUATOR_VERSION.to_owned(),
            calibration_version: coefficients.version,
            kernels: KERNELS_RESERVED.to_owned(),
            predicted_cycles: built.cycles.round() as u64,
            ..Origin::default()
        };
        let application = built.application(self.graph, self.network, origin);
        SupportUsage::of(&application, &built.support).log();
        let bytes = write(&application);
        let checked = check::package(&bytes).map_err(|violations| Failure::Rejected {
            count: violations.count(),
            first: violations.list().first().map(ToString::to_string).unwrap_or_default(),
        })?;
        if self.stopped() {
            return Err(Failure::Stopped);
        }
        let data = self.host_data(&built);
        let measurement = self
            .device
            .measure(&checked.get().application, &data, self.stop)
            .map_err(|error| device_failure(&error))?;
        let numerics = self.compare(&built, &measurement.outputs);
        if numerics.non_finite > 0 {
            return Err(Failure::NotFinite { count: numerics.non_finite });
        }
        if !numerics.pass {
            let (cosine, error) = (numerics.minimum_cosine, numerics.maximum_absolute_error);
            return Err(Failure::WrongNumbers { cosine, error });
        }
        let measured = Summary::of(&measurement.cycles)
            .ok_or_else(|| Failure::DeviceLost { what: "no usable cycle count".to_owned() })?;
        let (steps, wanted) = (measurement.steps.len(), built.step_features.len());
        if steps != 0 && steps != wanted {
            let what = format!("a profile of {steps} steps for a program of {wanted}");
            return Err(Failure::DeviceLost { what });
        }
        let points = built
            .step_features
            .iter()
            .zip(&measurement.steps)
            .map(|(features, step)| Point {
                features: features.clone(),
                cycles: step.end.saturating_sub(step.arrival) as f64,
            })
            .collect();
        Ok(Validated {
            recipe: recipe.clone(),
            predicted: built.cycles,
            features: built.features,
            measured,
            device: measurement.device,
            numerics,
            points,
            application: Arc::new(checked),
        })
    }

    fn host_data(&self, built: &Built) -> HostData {
        let bytes = |role| host_bytes(self.graph, self.network, &built.program, role, &self.values);
        HostData { weights: bytes(Role::Parameter), inputs: bytes(Role::Input) }
    }

    fn compare(&self, built: &Built, bytes: &[u8]) -> Numerics {
        let found = outputs(self.graph, self.network, &built.program, bytes);
        compare_outputs(self.graph, &self.reference, &found)
    }
}

/// Compares returned tensors with the reference. Those that FP8 operands went into get more room.
pub fn compare_outputs(
    graph: &Graph,
    reference: &Values,
    found: &[(TensorId, Vec<f32>)],
) -> Numerics {
    let narrow = of_narrow(graph);
    let outputs: Vec<Output<'_>> = found
        .iter()
        .map(|(id, numbers)| {
            let width = graph.tensor(*id).shape.last().copied().unwrap_or(1) as usize;
            let tolerance = if narrow[id.0 as usize] { Tolerance::F8 } else { Tolerance::F16 };
            Output { found: numbers, wanted: reference.get(*id), width, tolerance }
        })
        .collect();
    compare(&outputs)
}

/// For every tensor, whether it is FP8 or was computed from one that is.
fn of_narrow(graph: &Graph) -> Vec<bool> {
    let mut narrow: Vec<bool> =
        graph.tensors().iter().map(|tensor| tensor.dtype == DataType::F8).collect();
    for operation in graph.operations() {
        if operation.inputs.iter().any(|input| narrow[input.0 as usize]) {
            operation.outputs.iter().for_each(|output| narrow[output.0 as usize] = true);
        }
    }
    narrow
}

fn device_failure(error: &DeviceError) -> Failure {
    let what = error.to_string();
    match error {
        DeviceError::Stopped => Failure::Stopped,
        DeviceError::TimedOut { .. } => Failure::TimedOut { what },
        error if error.is_candidate_fault() => Failure::Crashed { what },
        _ => Failure::DeviceLost { what },
    }
}
