//! Fidelity F1: what a lowered program costs before anything is scheduled, and F2 once horizons are
//! known.

use std::sync::Arc;

use crate::plan::{Network, Recipe};
use crate::program::{Segment, SegmentStep, slots};
use crate::target::TileId;

use super::coefficients::{CLASSES, Coefficients, FEATURES};
use super::kernels::price;

/// Events of a phase that are not payload: selecting, the way, the last write and the guard, for
/// typical routes (`target/ipu21.md` §1.2, §2.3).
const LATENCY: f64 = 110.0;

/// Compute of one tile in a step, by class: constant parts, and growing parts.
#[derive(Clone, Debug, PartialEq)]
pub struct TileWork {
    /// The tile.
    pub tile: TileId,
    /// Growing parts of the calls' prices, by class.
    pub work: [f32; CLASSES],
    /// Constant parts, by class.
    pub overhead: [f32; CLASSES],
}

/// What one step of a segment asks of its tiles.
#[derive(Clone, Debug, PartialEq)]
pub enum StepCost {
    /// Items sent and received, and control slots, by tile.
    Exchange(Vec<(TileId, [u32; 3])>),
    /// Kernel work by tile.
    Compute(Vec<TileWork>),
}

/// Costs of all steps of a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentCost {
    /// By step.
    pub steps: Vec<StepCost>,
    /// Transfers of all exchange steps.
    pub transfers: u32,
}

/// What F1 says of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    /// Estimated cycles.
    pub cycles: f64,
    /// Cycles that no schedule of this geometry can beat.
    pub bound: f64,
    /// Transfers of all phases.
    pub transfers: u64,
}

impl SegmentCost {
    /// Adds up a segment.
    pub fn of(segment: &Segment, tiles: u16) -> SegmentCost {
        let mut transfers = 0;
        let steps = segment.steps.iter().map(|step| match step {
            SegmentStep::Exchange(moves) => {
                let mut loads = vec![[0_u32; 3]; tiles.into()];
                for exchange in moves {
                    transfers += exchange.runs.len() as u32;
                    for run in &exchange.runs {
                        let sender = &mut loads[usize::from(run.source.0)];
                        sender[0] += run.words;
                        sender[2] += 2;
                        for tile in exchange.groups[run.group as usize].iter() {
                            let receiver = &mut loads[usize::from(tile.0)];
                            receiver[1] += run.words;
                            receiver[2] += 2;
                        }
                    }
                }
                let busy = (0..).map(TileId).zip(loads).filter(|(_, load)| *load != [0; 3]);
                StepCost::Exchange(busy.collect())
            }
            SegmentStep::Compute(calls) => {
                let mut work: Vec<Option<TileWork>> = vec![None; tiles.into()];
                for call in calls {
                    let price = price(&call.kernel, call.inputs.len(), &call.scalars);
                    let tile = work[usize::from(call.tile.0)].get_or_insert(TileWork {
                        tile: call.tile,
                        work: [0.0; CLASSES],
                        overhead: [0.0; CLASSES],
                    });
                    tile.work[price.class as usize] += price.work as f32;
                    tile.overhead[price.class as usize] += price.overhead as f32;
                }
                StepCost::Compute(work.into_iter().flatten().collect())
            }
        });
        let steps = steps.collect();
        SegmentCost { steps, transfers }
    }
}

impl TileWork {
    /// Cycles of this tile.
    pub fn cycles(&self, coefficients: &Coefficients) -> f64 {
        (0..CLASSES)
            .map(|class| {
                f64::from(self.work[class]) * coefficients.slope[class]
                    + f64::from(self.overhead[class]) * coefficients.overhead[class]
            })
            .sum()
    }
}

/// One slot of the program being added up.
#[derive(Clone)]
struct Level {
    exchange: Vec<[u32; 3]>,
    compute: Vec<f64>,
    exchanges: bool,
}

/// F1 of a candidate from its segments' costs.
pub fn geometry(
    network: &Network,
    recipe: &Recipe,
    segments: &[(Arc<Segment>, Arc<SegmentCost>)],
    coefficients: &Coefficients,
) -> Geometry {
    let plain: Vec<Arc<Segment>> =
        segments.iter().map(|(segment, _)| Arc::clone(segment)).collect();
    let slots = slots(network, recipe, &plain);
    let tiles = usize::from(recipe.tiles);
    let empty = Level { exchange: vec![], compute: vec![], exchanges: false };
    let count = slots.iter().flatten().map(|slot| slot.0 + 1).max().unwrap_or(0);
    let mut levels = vec![empty; count as usize];
    let mut transfers = 0;
    for ((_, cost), slots) in segments.iter().zip(&slots) {
        transfers += u64::from(cost.transfers);
        for (step, slot) in cost.steps.iter().zip(slots) {
            let level = &mut levels[slot.0 as usize];
            match step {
                StepCost::Exchange(loads) => {
                    level.exchanges = true;
                    level.exchange.resize(tiles, [0; 3]);
                    for (tile, load) in loads {
                        let sum = &mut level.exchange[usize::from(tile.0)];
                        (0..3).for_each(|part| sum[part] += load[part]);
                    }
                }
                StepCost::Compute(work) => {
                    level.compute.resize(tiles, 0.0);
                    for tile in work {
                        level.compute[usize::from(tile.tile.0)] += tile.cycles(coefficients);
                    }
                }
            }
        }
    }
    let (mut cycles, mut bound) = (0.0, 0.0);
    for level in &levels {
        if level.exchanges {
            let loads = level.exchange.iter();
            let payload = loads.clone().map(|load| load[0].max(load[1])).max().unwrap_or(0);
            let controls = loads.map(|load| load[2]).max().unwrap_or(0);
            let events = f64::from(payload.max(controls)) + LATENCY;
            cycles += coefficients.exchange_overhead + events * coefficients.event;
            // 64-bit items may halve what a port carries.
            bound += coefficients.exchange_overhead + f64::from(payload / 2) * coefficients.event;
        }
        let slowest = level.compute.iter().copied().fold(0.0, f64::max);
        cycles += slowest;
        bound += slowest;
    }
    Geometry { cycles, bound, transfers }
}

/// One step with everything that its time depends on.
pub enum TimedStep<'a> {
    /// Horizon of every tile's row; 0 for tiles that sit it out.
    Exchange(&'a [u32]),
    /// Kernel work of all segments' shares.
    Compute(Vec<&'a [TileWork]>),
}

/// F2: cycles of a program whose horizons are known, and the features of the tile that each level
/// waits for: what the coefficients are multiplied with.
pub fn predicted(
    tiles: u16,
    steps: &[TimedStep<'_>],
    coefficients: &Coefficients,
) -> (f64, Vec<f64>) {
    let mut clocks = Clocks::new(tiles, coefficients);
    steps.iter().for_each(|step| clocks.advance(step));
    let last = clocks.latest();
    (clocks.cycles[last], clocks.features.swap_remove(last))
}

/// When the last tile ends every step, as [`predicted`] counts: the last of them are its cycles.
pub fn step_ends(tiles: u16, steps: &[TimedStep<'_>], coefficients: &Coefficients) -> Vec<f64> {
    let mut clocks = Clocks::new(tiles, coefficients);
    let end = |step: &TimedStep<'_>| {
        clocks.advance(step);
        clocks.cycles[clocks.latest()]
    };
    steps.iter().map(end).collect()
}

/// The clocks of all tiles, and what made them advance.
struct Clocks<'a> {
    coefficients: &'a Coefficients,
    cycles: Vec<f64>,
    features: Vec<Vec<f64>>,
}

impl Clocks<'_> {
    fn new(tiles: u16, coefficients: &Coefficients) -> Clocks<'_> {
        let tiles = usize::from(tiles);
        let features = vec![vec![0.0; FEATURES]; tiles];
        Clocks { coefficients, cycles: vec![0.0; tiles], features }
    }

    /// The tile that is last, the first of several.
    fn latest(&self) -> usize {
        let clock = &self.cycles;
        let most = (0..clock.len()).max_by(|a, b| clock[*a].total_cmp(&clock[*b]).then(b.cmp(a)));
        most.unwrap_or(0)
    }

    fn advance(&mut self, step: &TimedStep<'_>) {
        match step {
            TimedStep::Exchange(horizons) => self.exchange(horizons),
            TimedStep::Compute(parts) => {
                parts.iter().flat_map(|part| part.iter()).for_each(|work| self.compute(work));
            }
        }
    }

    /// All tiles wait for the last one.
    fn exchange(&mut self, horizons: &[u32]) {
        let Coefficients { exchange_overhead, event, .. } = *self.coefficients;
        let last = self.latest();
        let (start, base) = (self.cycles[last], self.features[last].clone());
        for (tile, horizon) in horizons.iter().enumerate() {
            let events = f64::from(*horizon);
            self.cycles[tile] = start + exchange_overhead + events * event;
            self.features[tile].clone_from(&base);
            self.features[tile][2 * CLASSES] += 1.0;
            self.features[tile][2 * CLASSES + 1] += events;
        }
    }

    fn compute(&mut self, work: &TileWork) {
        let tile = usize::from(work.tile.0);
        self.cycles[tile] += work.cycles(self.coefficients);
        for class in 0..CLASSES {
            self.features[tile][class] += f64::from(work.work[class]);
            self.features[tile][CLASSES + class] += f64::from(work.overhead[class]);
        }
    }
}
