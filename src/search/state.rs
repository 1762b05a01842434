//! The engine's state: everything that the next round depends on. It is stored whole with every
//! round, so that a resumed search goes on as if it had never stopped.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::calibrate::{Fit, Point};
use crate::cost::Coefficients;
use crate::device::{Identity, Numerics};
use crate::plan::{Recipe, RecipeHash};
use crate::space::Move;

/// A candidate that reached F2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The recipe.
    pub recipe: Recipe,
    /// Predicted cycles under the current calibration.
    pub cycles: f64,
    /// Features, to predict again under another one.
    pub features: Vec<f64>,
    /// Measured cycles, if it was measured.
    pub measured: Option<u64>,
    /// The trial that found it.
    pub trial: u64,
}

/// A candidate of the running round that is not scheduled yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The slot that proposed it.
    pub slot: u32,
    /// The move that made it.
    pub arm: Move,
    /// Cycles of the parent.
    pub parent: f64,
    /// The recipe.
    pub recipe: Recipe,
}

/// What a move brought for how much counted work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Credit {
    /// Relative improvements, added up.
    pub gain: f64,
    /// Work, in thousands of scheduled transfers and one a candidate.
    pub work: f64,
}

/// An entry of the incumbent history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncumbentRecord {
    /// The trial that found it.
    pub trial: u64,
    /// Trials of the study when it became the best: later than `trial` if a measurement crowned it.
    pub crowned_at: u64,
    /// Round.
    pub round: u64,
    /// The recipe.
    pub recipe: Recipe,
    /// Predicted cycles.
    pub predicted_cycles: f64,
    /// Measured cycles.
    pub measured_cycles: u64,
    /// Who measured.
    pub device: Identity,
    /// Distance from the reference.
    pub numerics: Numerics,
    /// Calibration version of the prediction.
    pub calibration: u32,
    /// Why it no longer counts; `None`: it does.
    pub demoted: Option<String>,
}

/// The state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Rounds that are over.
    pub round: u64,
    /// Candidates taken to F2, failures included.
    pub trials: u64,
    /// Best members first.
    pub population: Vec<Member>,
    /// Credits of the moves.
    pub credits: BTreeMap<Move, Credit>,
    /// Candidates of the running round that are still to be scheduled.
    pub pending: Vec<Pending>,
    /// Current coefficients.
    pub coefficients: Coefficients,
    /// Measured steps that the next fit uses.
    pub points: Vec<Point>,
    /// Trials at the last measurement round.
    pub measured_at: u64,
    /// Incumbents in the order found.
    pub incumbents: Vec<IncumbentRecord>,
    /// Recipes of an earlier study that have their figures to earn again, best first.
    pub warm: Vec<Recipe>,
    /// Predicted cycles of the first plan.
    pub first_plan: Option<f64>,
    /// Measured cycles of the first plan.
    pub first_plan_measured: Option<u64>,
    /// Rounds in a row that proposed nothing new.
    pub barren: u32,
    /// Failed candidates by kind.
    pub failures: BTreeMap<String, u64>,
    /// The last failure's words, for when nothing is feasible.
    pub last_failure: Option<String>,
    /// Hashes of all candidates that were ever scheduled; kept by the journal as candidates.
    #[serde(skip)]
    pub tried: BTreeSet<RecipeHash>,
}

/// Most recipes that a new study takes over.
const MOST_WARM: usize = 8;

impl State {
    /// The state of a new study that takes over the recipes of this one and nothing else: the
    /// incumbents that count, newest first, then the population.
    pub fn successor(&self) -> State {
        let incumbents = self.incumbents.iter().rev().filter(|entry| entry.demoted.is_none());
        let members = self.population.iter().map(|member| &member.recipe);
        let mut warm: Vec<Recipe> = vec![];
        for recipe in incumbents.map(|entry| &entry.recipe).chain(members).chain(&self.warm) {
            if warm.len() < MOST_WARM && !warm.contains(recipe) {
                warm.push(recipe.clone());
            }
        }
        State { warm, ..State::default() }
    }

    /// The incumbent that counts.
    pub fn incumbent(&self) -> Option<&IncumbentRecord> {
        self.incumbents.iter().rev().find(|incumbent| incumbent.demoted.is_none())
    }
}

/// What a fit did, for the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationRecord {
    /// The coefficients' version.
    pub version: u32,
    /// The coefficients.
    pub coefficients: Coefficients,
    /// How good they are.
    pub fit: Fit,
}
