//! How a search begins: with what the journal has, with old recipes, or with the first plans.

use crate::plan::Recipe;

use super::engine::{Engine, EngineError, Halt};
use super::evaluate::Incumbent;
use super::first::first_plans;
use super::journal::{Commit, Demotion};
use super::outcome::Failure;
use super::state::IncumbentRecord;

/// First plans that are tried until one is validated.
const FIRST_PLANS: usize = 12;

impl Engine<'_> {
    /// Takes over the state that the journal has; whether there was one.
    pub(super) fn load(&mut self) -> Result<bool, EngineError> {
        let Some((state, tried)) = self.journal.load()? else { return Ok(false) };
        self.state = state;
        self.state.tried = tried.into_iter().collect();
        self.trials_before = self.state.trials;
        Ok(true)
    }

    /// Earns the incumbent again before anything else. Only a candidate's own failure demotes it:
    /// after a stop, with a lost device, or if what ran in time before does not now, the search ends
    /// here, and the incumbent stays what it is.
    pub(super) fn revalidate(&mut self) -> Result<(), Halt> {
        while let Some(record) = self.state.incumbent().cloned() {
            match self.validate(&record.recipe, record.trial) {
                Ok(validated) => {
                    tracing::info!(
                        cycles = validated.measured().median,
                        resuming = true,
                        "validated search incumbent"
                    );
                    self.incumbent = Some(Incumbent::new(validated, record.trial));
                    break;
                }
                Err(Failure::Stopped) => return Err(self.halt()),
                Err(Failure::DeviceLost { what } | Failure::TimedOut { what }) => {
                    return Err(Halt::device_lost(&what));
                }
                Err(failure) => self.demote(&record, &failure)?,
            }
        }
        Ok(())
    }

    fn demote(&mut self, record: &IncumbentRecord, failure: &Failure) -> Result<(), Halt> {
        let reason = failure.to_string();
        tracing::warn!(trial = record.trial, %reason, "the incumbent no longer validates");
        let entry = self.state.incumbents.iter_mut().rev().find(|entry| entry.demoted.is_none());
        if let Some(entry) = entry {
            entry.demoted = Some(reason.clone());
        }
        self.state.population.retain(|member| member.recipe != record.recipe);
        self.count(failure);
        let candidate = record.recipe.hash();
        let demoted = Some(Demotion { candidate, reason: reason.clone() });
        let events = vec![("incumbent demoted".to_owned(), reason)];
        self.keep(&Commit { demoted, events, ..Commit::default() })
    }

    /// Candidates that no proposal makes: recipes of an earlier study, each to earn its figures
    /// again, and the first plans, until one is validated.
    pub(super) fn begin(&mut self) -> Result<(), Halt> {
        while let Some(recipe) = self.state.warm.first().cloned() {
            if !self.trials_left() {
                return Ok(());
            }
            let commit = self.start_with(&recipe)?;
            self.state.warm.remove(0);
            self.keep(&commit)?;
        }
        if self.state.first_plan.is_some() {
            return Ok(());
        }
        let coefficients = self.state.coefficients.clone();
        let planner = self.evaluator.planner(&coefficients);
        let plans = first_plans(&planner).map_err(|error| Halt::Error(error.into()))?;
        for recipe in plans.into_iter().take(FIRST_PLANS) {
            if !self.trials_left() {
                return Ok(());
            }
            if self.state.tried.contains(&recipe.hash()) {
                // An old recipe that was taken over may be the first plan.
                let member = self.state.population.iter().find(|m| m.recipe == recipe);
                let found = member.and_then(|member| Some((member.cycles, member.measured?)));
                if let Some((cycles, measured)) = found {
                    self.note_first_plan(cycles, measured);
                    return self.keep(&Commit::default());
                }
                continue;
            }
            let commit = self.start_with(&recipe)?;
            let found = commit.measurements.last();
            let found = found.map(|found| (found.predicted_cycles, found.cycles));
            if let Some((cycles, measured)) = found {
                self.note_first_plan(cycles, measured);
            }
            self.keep(&commit)?;
            if found.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// The first plan is the first of them that was validated.
    fn note_first_plan(&mut self, predicted: f64, measured: u64) {
        self.state.first_plan = Some(predicted);
        self.state.first_plan_measured = Some(measured);
    }

    fn start_with(&mut self, recipe: &Recipe) -> Result<Commit, Halt> {
        let mut commit = Commit::default();
        let before = self.state.clone();
        let admitted = self.evaluator.admit(recipe);
        let built =
            admitted.and_then(|()| self.evaluator.schedule(recipe, &self.state.coefficients));
        let priced = built.map(|built| (built.cycles, built.features));
        match self.commit_candidate(recipe, priced, None, &mut commit) {
            Ok(()) => Ok(commit),
            Err(halt) => {
                self.state = before;
                Err(halt)
            }
        }
    }
}
