//! What was searched, how far it came, and every incumbent.

use serde::Serialize;

use crate::device::Numerics;
use crate::search::state::{IncumbentRecord, State};
use crate::store::{HistoryEntry, StudyKey, StudySummary, current};

/// A study in figures.
#[derive(Clone, Debug, Serialize)]
pub struct StudyFigures {
    /// Number of the study in its database.
    pub study: i64,
    /// Name of the model.
    pub model: String,
    /// Hash of the model.
    pub model_hash: String,
    /// Tiles.
    pub tiles: u16,
    /// Seed.
    pub seed: u64,
    /// Hash of the space.
    pub space_hash: String,
    /// Version of the evaluator.
    pub evaluator: String,
    /// Device that measures.
    pub device: String,
    /// Whether that is a simulation; `None` while it has measured nothing.
    pub simulated: Option<bool>,
    /// Rounds that are over.
    pub rounds: u64,
    /// Candidates taken to F2.
    pub trials: u64,
    /// Measured cycles of the first plan.
    pub first_plan_cycles: Option<u64>,
    /// Cycles that no program of the model can beat; `None` without the model.
    pub bound_cycles: Option<u64>,
    /// The incumbent that counts.
    pub incumbent: Option<HistoryEntry>,
    /// Cycles that the incumbent saves of the first plan's, in percent.
    pub saved_percent: Option<f64>,
    /// The incumbent's distance from the reference.
    pub numerics: Option<Numerics>,
    /// Events worth remembering.
    pub events: Vec<String>,
}

/// An incumbent, and when it became one.
#[derive(Clone, Debug, Serialize)]
pub struct IncumbentFigures {
    /// As in the history.
    #[serde(flatten)]
    pub entry: HistoryEntry,
    /// Trials of the study when it became the best: later than its own trial if only a measurement
    /// showed that it is.
    pub crowned_at: u64,
}

impl StudyFigures {
    /// Puts together what a database knows of a study, and the model's bound.
    pub fn new(
        summary: &StudySummary,
        key: &StudyKey,
        state: &State,
        history: &[HistoryEntry],
        bound: Option<u64>,
    ) -> StudyFigures {
        let incumbent = current(history).cloned();
        let first = state.first_plan_measured;
        let saved = |(best, first): (&HistoryEntry, u64)| {
            100.0 * (1.0 - best.measured_cycles as f64 / first as f64)
        };
        let simulated = incumbent.as_ref().or(history.last()).map(|entry| entry.simulated);
        StudyFigures {
            study: summary.study,
            model: summary.model.clone(),
            model_hash: summary.model_hash.clone(),
            tiles: summary.tiles,
            seed: summary.seed,
            space_hash: key.space_hash.clone(),
            evaluator: key.evaluator.clone(),
            device: summary.device.clone(),
            simulated,
            rounds: summary.rounds,
            trials: summary.trials,
            first_plan_cycles: first,
            bound_cycles: bound,
            saved_percent: incumbent.as_ref().zip(first.filter(|first| *first > 0)).map(saved),
            incumbent,
            numerics: state.incumbent().map(|record| record.numerics),
            events: summary.events.clone(),
        }
    }
}

impl IncumbentFigures {
    /// The history, each entry with when it became the best.
    pub fn of(history: &[HistoryEntry], state: &State) -> Vec<IncumbentFigures> {
        let figures = |(index, entry): (usize, &HistoryEntry)| {
            let same = |record: &&IncumbentRecord| record.trial == entry.trial;
            let crowned_at = state.incumbents.get(index).filter(same);
            let crowned_at = crowned_at.map_or(entry.trial, |record| record.crowned_at);
            IncumbentFigures { entry: entry.clone(), crowned_at }
        };
        history.iter().enumerate().map(figures).collect()
    }
}
