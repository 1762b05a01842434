//! Rounds: proposals in parallel, screening, commits in slot order.
//!
//! A round draws a fixed number of slots, every slot from its own random stream; each proposes a few
//! neighbours and keeps the best by F0; the best of all slots by F1 become pending, are scheduled in
//! parallel, and are committed one by one in order. A trial limit may cut a round between two
//! candidates: the pending ones wait in the state, so the sequence stays the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::calibrate::fit;
use crate::cost::Coefficients;
use crate::plan::Recipe;
use crate::space::{Move, SpaceError, propose};

use super::evaluate::{Evaluator, Incumbent, Validated};
use super::journal::{CandidateRecord, Commit, Journal, JournalError, MeasurementRecord};
use super::outcome::Failure;
use super::state::{CalibrationRecord, IncumbentRecord, Member, Pending, State};

/// Slots of a round.
const SLOTS: u32 = 24;
/// Proposals of a slot that F0 chooses from.
const DRAWS: u32 = 6;
/// Candidates of a round that are scheduled.
const SCHEDULED: usize = 4;
/// Members of the population.
const POPULATION: usize = 10;
/// Barren rounds after which the space counts as exhausted.
const BARREN: u32 = 12;
/// Worst ratio to the parent's F1 estimate that is still scheduled.
const WORST_F1: f64 = 1.10;
/// Steps kept for the next fit.
const POINTS: usize = 2000;

/// When to stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// Wall clock of this invocation.
    pub time: Option<Duration>,
    /// Trials of the whole study.
    pub trials: Option<u64>,
    /// Good enough.
    pub target_cycles: Option<u64>,
    /// Trials without a new incumbent.
    pub plateau: Option<u64>,
    /// Measure and recalibrate every so many trials.
    pub measure_every: u64,
}

/// Why a search stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The time is over.
    Budget,
    /// The trials are done.
    Trials,
    /// The target is reached.
    Target,
    /// Nothing better for long.
    Plateau,
    /// Nothing new is left to try.
    Exhausted,
    /// Somebody asked.
    Interrupted,
    /// The device does not answer.
    DeviceLost,
}

/// What a caller is told after every commit.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Rounds that are over.
    pub round: u64,
    /// Trials of the study.
    pub trials: u64,
    /// Trials of this invocation.
    pub new_trials: u64,
    /// Since the invocation began.
    pub elapsed: Duration,
    /// Measured cycles of the incumbent.
    pub incumbent: Option<u64>,
    /// Trials of the study when the incumbent became the best.
    pub crowned_at: Option<u64>,
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    /// Why it stopped.
    pub stop: StopReason,
    /// The best validated candidate.
    pub incumbent: Option<Incumbent>,
    /// The state at the end.
    pub state: State,
    /// Whether there was a study to go on with.
    pub resuming: bool,
}

/// Why a search cannot be made at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Nothing legal is left.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// Results cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What random numbers are drawn for; stored studies depend on these numbers.
#[derive(Clone, Copy)]
enum Purpose {
    Propose = 1,
    Accept = 2,
}

/// The stream of one slot of one round: a function of its arguments alone.
fn stream(seed: u64, purpose: Purpose, round: u64, slot: u32) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&round.to_le_bytes());
    key[16] = purpose as u8;
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(u64::from(slot));
    rng
}

/// A search in progress.
pub struct Engine<'a> {
    pub(super) evaluator: &'a Evaluator<'a>,
    pub(super) journal: &'a mut dyn Journal,
    budget: Budget,
    stop: &'a AtomicBool,
    interrupted: &'a AtomicBool,
    progress: &'a (dyn Fn(&Progress) + Sync),
    started: Instant,
    pub(super) state: State,
    pub(super) incumbent: Option<Incumbent>,
    pub(super) trials_before: u64,
}

impl<'a> Engine<'a> {
    /// A search that goes on with what the journal has. `stop` makes work give up (the clock and
    /// signals set it), `interrupted` says that it was a signal.
    pub fn new(
        evaluator: &'a Evaluator<'a>,
        journal: &'a mut dyn Journal,
        budget: Budget,
        stop: &'a AtomicBool,
        interrupted: &'a AtomicBool,
        started: Instant,
        progress: &'a (dyn Fn(&Progress) + Sync),
    ) -> Engine<'a> {
        let (state, incumbent) = (State::default(), None);
        Engine {
            evaluator,
            journal,
            budget,
            stop,
            interrupted,
            progress,
            started,
            state,
            incumbent,
            trials_before: 0,
        }
    }

    /// Searches until something ends it.
    ///
    /// # Errors
    /// If nothing legal exists, or results cannot be kept.
    pub fn run(mut self) -> Result<Report, EngineError> {
        let resuming = self.load()?;
        let stop = match self.revalidate().and_then(|()| self.search()) {
            Ok(stop) => stop,
            Err(Halt::Stop(stop)) => stop,
            Err(Halt::Error(error)) => return Err(error),
        };
        Ok(Report { stop, incumbent: self.incumbent, state: self.state, resuming })
    }

    pub(super) fn validate(&self, recipe: &Recipe, trial: u64) -> Result<Validated, Failure> {
        self.evaluator.validate(recipe, trial, &self.state.coefficients)
    }

    fn search(&mut self) -> Result<StopReason, Halt> {
        self.begin()?;
        loop {
            if let Some(stop) = self.over() {
                return Ok(stop);
            }
            if self.state.pending.is_empty() {
                self.propose()?;
            }
            self.schedule()?;
        }
    }

    /// Whether something ends the search now.
    fn over(&self) -> Option<StopReason> {
        let since = self.state.incumbent().map_or(0, |incumbent| incumbent.crowned_at);
        if let Some(stop) = self.stopped() {
            Some(stop)
        } else if self.budget.trials.is_some_and(|trials| self.state.trials >= trials) {
            Some(StopReason::Trials)
        } else if self.target_reached() {
            Some(StopReason::Target)
        } else if self.budget.plateau.is_some_and(|trials| self.state.trials >= since + trials) {
            Some(StopReason::Plateau)
        } else if self.state.barren >= BARREN {
            Some(StopReason::Exhausted)
        } else {
            None
        }
    }

    fn target_reached(&self) -> bool {
        let best = self.incumbent.as_ref().map(|best| best.validated().measured().median);
        matches!((best, self.budget.target_cycles), (Some(best), Some(target)) if best <= target)
    }

    fn stopped(&self) -> Option<StopReason> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Some(StopReason::Interrupted);
        }
        let late = self.budget.time.is_some_and(|time| self.started.elapsed() >= time);
        (late || self.stop.load(Ordering::Relaxed)).then_some(StopReason::Budget)
    }

    pub(super) fn halt(&self) -> Halt {
        Halt::Stop(self.stopped().unwrap_or(StopReason::Budget))
    }

    pub(super) fn trials_left(&self) -> bool {
        self.budget.trials.is_none_or(|trials| self.state.trials < trials)
    }

    pub(super) fn keep(&mut self, commit: &Commit) -> Result<(), Halt> {
        self.journal.commit(&self.state, commit).map_err(|error| Halt::Error(error.into()))?;
        // Not before: a batch that is stopped half-way is discarded, its incumbents with it.
        for incumbent in &commit.incumbents {
            tracing::info!(
                cycles = incumbent.measured_cycles,
                resuming = false,
                trial = incumbent.trial,
                "validated search incumbent"
            );
        }
        let incumbent = self.state.incumbent();
        (self.progress)(&Progress {
            round: self.state.round,
            trials: self.state.trials,
            new_trials: self.state.trials - self.trials_before,
            elapsed: self.started.elapsed(),
            incumbent: incumbent.map(|incumbent| incumbent.measured_cycles),
            crowned_at: incumbent.map(|incumbent| incumbent.crowned_at),
        });
        Ok(())
    }

    /// Proposals of all slots, screened by F0 and F1.
    fn propose(&mut self) -> Result<(), Halt> {
        let state = &self.state;
        let evaluator = self.evaluator;
        let slots: Vec<Option<(f64, Pending)>> = (0..SLOTS)
            .into_par_iter()
            .map(|slot| {
                if self.stop.load(Ordering::Relaxed) {
                    return None;
                }
                slot_proposal(evaluator, state, slot)
            })
            .collect();
        if let Some(stop) = self.stopped() {
            return Err(Halt::Stop(stop));
        }
        let mut found: Vec<(f64, Pending)> = vec![];
        for (cycles, pending) in slots.into_iter().flatten() {
            if found.iter().all(|(_, other)| other.recipe != pending.recipe) {
                found.push((cycles, pending));
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.slot.cmp(&b.1.slot)));
        found.truncate(SCHEDULED);
        self.state.barren = if found.is_empty() { self.state.barren + 1 } else { 0 };
        self.state.pending = found.into_iter().map(|(_, pending)| pending).collect();
        Ok(())
    }

    /// Schedules the pending candidates and commits as many as the trial limit allows, the fastest
    /// first: so a round validates its best, and others only where that one turns out wrong. All are
    /// scheduled even if few may be committed, or the limit would change the order.
    fn schedule(&mut self) -> Result<(), Halt> {
        let coefficients = self.state.coefficients.clone();
        let outcomes: Vec<Scheduled> = self
            .state
            .pending
            .par_iter()
            .map(|pending| {
                let built = self.evaluator.schedule(&pending.recipe, &coefficients)?;
                Ok((built.cycles, built.features, built.transfers))
            })
            .collect();
        if outcomes.iter().any(|outcome| matches!(outcome, Err(Failure::Stopped))) {
            return Err(self.halt());
        }
        // A validation that is stopped half-way discards the whole batch.
        let before = (self.state.clone(), self.incumbent.clone());
        let mut batch: Vec<(Pending, Scheduled)> =
            std::mem::take(&mut self.state.pending).into_iter().zip(outcomes).collect();
        let cycles = |outcome: &Scheduled| outcome.as_ref().map_or(f64::INFINITY, |found| found.0);
        batch.sort_by(|a, b| cycles(&a.1).total_cmp(&cycles(&b.1)));
        match self.commit_batch(batch) {
            Ok(commit) => self.keep(&commit),
            Err(halt) => {
                (self.state, self.incumbent) = before;
                Err(halt)
            }
        }
    }

    /// Commits scheduled candidates in order until a limit is reached; the others stay pending. The
    /// last one closes the round: a kill finds either both done or neither.
    fn commit_batch(&mut self, batch: Vec<(Pending, Scheduled)>) -> Result<Commit, Halt> {
        let mut commit = Commit::default();
        for (pending, outcome) in batch {
            if !self.trials_left() {
                self.state.pending.push(pending);
                continue;
            }
            let transfers = outcome.as_ref().map_or(0, |(_, _, transfers)| *transfers);
            let outcome = outcome.map(|(cycles, features, _)| (cycles, features));
            self.credit(&pending, outcome.as_ref().ok().map(|(cycles, _)| *cycles), transfers);
            self.commit_candidate(&pending.recipe, outcome, Some(pending.parent), &mut commit)?;
        }
        if self.state.pending.is_empty() {
            self.end_round(&mut commit)?;
        }
        Ok(commit)
    }

    fn credit(&mut self, pending: &Pending, cycles: Option<f64>, transfers: u64) {
        let credit = self.state.credits.entry(pending.arm).or_default();
        credit.work += 1.0 + transfers as f64 / 1000.0 / 100.0;
        if let Some(cycles) = cycles {
            credit.gain += ((pending.parent - cycles) / pending.parent).max(0.0);
        }
    }

    /// One scheduled candidate: counted, accepted or not, and validated if it may be the best.
    pub(super) fn commit_candidate(
        &mut self,
        recipe: &Recipe,
        outcome: Result<(f64, Vec<f64>), Failure>,
        parent: Option<f64>,
        commit: &mut Commit,
    ) -> Result<(), Halt> {
        if matches!(outcome, Err(Failure::Stopped)) {
            return Err(self.halt());
        }
        self.state.trials += 1;
        self.state.tried.insert(recipe.hash());
        let trial = self.state.trials;
        let mut record = CandidateRecord {
            trial,
            recipe: recipe.clone(),
            predicted_cycles: outcome.as_ref().ok().map(|(cycles, _)| *cycles),
            failure: outcome.as_ref().err().cloned(),
        };
        if let Ok((cycles, features)) = outcome {
            let best = self.state.population.first().map_or(f64::INFINITY, |best| best.cycles);
            let member = Member { recipe: recipe.clone(), cycles, features, measured: None, trial };
            if self.accepts(cycles, parent, trial) {
                self.insert(member);
            }
            // What nothing was derived from is validated for its own sake: a first plan is the
            // yardstick, an old recipe has its figures to earn again. Without an incumbent
            // anything that is right is welcome.
            if cycles < best || parent.is_none() || self.incumbent.is_none() {
                record.failure = self.challenge(recipe, trial, commit)?;
            }
        }
        if let Some(failure) = &record.failure {
            self.count(failure);
        }
        commit.candidates.push(record);
        Ok(())
    }

    pub(super) fn count(&mut self, failure: &Failure) {
        *self.state.failures.entry(failure.kind().to_owned()).or_insert(0) += 1;
        self.state.last_failure = Some(failure.to_string());
    }

    /// Annealed: better than the parent always, worse ones ever more rarely.
    fn accepts(&self, cycles: f64, parent: Option<f64>, trial: u64) -> bool {
        let Some(parent) = parent else { return true };
        if cycles <= parent || self.state.population.len() < POPULATION {
            return true;
        }
        let temperature = (0.03 * 0.997_f64.powf(trial as f64)).max(0.002);
        let chance = (-(cycles - parent) / parent / temperature).exp();
        stream(self.evaluator.seed, Purpose::Accept, trial, 0).random::<f64>() < chance
    }

    /// Puts a member in order; the worst leaves. One that costs exactly what another does differs in
    /// nothing that matters: it would only crowd the population.
    fn insert(&mut self, member: Member) {
        let population = &mut self.state.population;
        if population.iter().any(|other| other.features == member.features) {
            return;
        }
        let at = population.partition_point(|other| other.cycles <= member.cycles);
        population.insert(at, member);
        population.truncate(POPULATION);
    }

    /// Validates a candidate that is predicted to be the best; returns why it is not right, if so.
    fn challenge(
        &mut self,
        recipe: &Recipe,
        trial: u64,
        commit: &mut Commit,
    ) -> Result<Option<Failure>, Halt> {
        match self.validate(recipe, trial) {
            Ok(validated) => {
                self.measured(&validated, commit);
                let better = self
                    .incumbent
                    .as_ref()
                    .is_none_or(|best| validated.measured().beats(best.validated().measured()));
                if better {
                    self.crown(validated, trial, commit);
                }
                Ok(None)
            }
            Err(Failure::Stopped) => Err(self.halt()),
            Err(Failure::DeviceLost { what }) => Err(Halt::device_lost(&what)),
            Err(failure) => {
                tracing::warn!(trial, %failure, "a candidate failed its validation");
                self.state.population.retain(|member| member.recipe != *recipe);
                Ok(Some(failure))
            }
        }
    }

    /// Remembers a measurement for the population and the next fit.
    fn measured(&mut self, validated: &Validated, commit: &mut Commit) {
        let cycles = validated.measured().median;
        for member in &mut self.state.population {
            if member.recipe == *validated.recipe() {
                member.measured = Some(cycles);
            }
        }
        self.state.points.extend_from_slice(validated.points());
        let surplus = self.state.points.len().saturating_sub(POINTS);
        self.state.points.drain(..surplus);
        commit.measurements.push(MeasurementRecord {
            candidate: validated.recipe().hash().to_string(),
            device: validated.device().name.clone(),
            simulated: validated.device().simulated,
            cycles,
            predicted_cycles: validated.predicted(),
            calibration: self.state.coefficients.version,
        });
    }

    fn crown(&mut self, validated: Validated, trial: u64, commit: &mut Commit) {
        let record = IncumbentRecord {
            trial,
            crowned_at: self.state.trials,
            round: self.state.round,
            recipe: validated.recipe().clone(),
            predicted_cycles: validated.predicted(),
            measured_cycles: validated.measured().median,
            device: validated.device().clone(),
            numerics: *validated.numerics(),
            calibration: self.state.coefficients.version,
            demoted: None,
        };
        commit.incumbents.push(record.clone());
        self.state.incumbents.push(record);
        self.incumbent = Some(Incumbent::new(validated, trial));
    }

    /// Closes a round; measures and recalibrates where that is due.
    fn end_round(&mut self, commit: &mut Commit) -> Result<(), Halt> {
        self.state.round += 1;
        let every = self.budget.measure_every;
        if every > 0 && self.state.trials >= self.state.measured_at + every {
            self.state.measured_at = self.state.trials;
            self.measure(commit)?;
        }
        Ok(())
    }

    /// Measures the best and the most informative unmeasured members, refits the coefficients, and
    /// prices everything again.
    fn measure(&mut self, commit: &mut Commit) -> Result<(), Halt> {
        let unmeasured: Vec<Member> = self
            .state
            .population
            .iter()
            .filter(|member| member.measured.is_none())
            .cloned()
            .collect();
        let mut chosen: Vec<Member> = unmeasured.iter().take(2).cloned().collect();
        // The member that is least like the best one says most about the coefficients.
        let distance = |member: &Member| {
            let best =
                self.state.population.first().map_or(&member.features, |best| &best.features);
            let parts = member.features.iter().zip(best);
            parts.map(|(a, b)| (a - b).abs() / (a.abs() + b.abs() + 1.0)).sum::<f64>()
        };
        let informative = unmeasured
            .iter()
            .skip(2)
            .max_by(|a, b| distance(a).total_cmp(&distance(b)).then(b.trial.cmp(&a.trial)));
        chosen.extend(informative.cloned());
        for member in chosen {
            if let Some(failure) = self.challenge(&member.recipe, member.trial, commit)? {
                self.count(&failure);
            }
        }
        let current = self.state.coefficients.to_vector();
        let prior = Coefficients::default().to_vector();
        let fit = fit(&self.state.points, &prior, &current);
        let coefficients = self.state.coefficients.next(&fit.coefficients);
        for member in &mut self.state.population {
            let terms = member.features.iter().zip(&fit.coefficients);
            member.cycles = terms.map(|(feature, coefficient)| feature * coefficient).sum();
        }
        self.state
            .population
            .sort_by(|a, b| a.cycles.total_cmp(&b.cycles).then(a.trial.cmp(&b.trial)));
        self.state.coefficients = coefficients.clone();
        let version = coefficients.version;
        commit.calibration = Some(CalibrationRecord { version, coefficients, fit });
        Ok(())
    }
}

/// Cycles, features and transfers of a scheduled candidate, or why it failed.
type Scheduled = Result<(f64, Vec<f64>, u64), Failure>;

/// Why rounds end early.
pub(super) enum Halt {
    Stop(StopReason),
    Error(EngineError),
}

impl Halt {
    pub(super) fn device_lost(what: &str) -> Halt {
        tracing::error!(what, "the device was lost");
        Halt::Stop(StopReason::DeviceLost)
    }
}

/// The best of a slot's draws by F0, with its F1 cycles; `None` if nothing new was drawn or F1 says
/// that it is much worse than its parent.
fn slot_proposal(evaluator: &Evaluator<'_>, state: &State, slot: u32) -> Option<(f64, Pending)> {
    let mut rng = stream(evaluator.seed, Purpose::Propose, state.round, slot);
    let planner = evaluator.planner(&state.coefficients);
    let parent = parent(state, &mut rng)?;
    let mut best: Option<(f64, Pending)> = None;
    for _ in 0..DRAWS {
        let arm = arm(&state.credits, &mut rng);
        let Some(recipe) = propose(&planner, &parent.recipe, arm, &mut rng) else { continue };
        if state.tried.contains(&recipe.hash()) {
            continue;
        }
        let estimate = evaluator.estimate(&recipe, &state.coefficients);
        if best.as_ref().is_none_or(|(least, _)| estimate < *least) {
            best = Some((estimate, Pending { slot, arm, parent: parent.cycles, recipe }));
        }
    }
    let (_, pending) = best?;
    let geometry = |recipe| evaluator.geometry(recipe, &state.coefficients).ok();
    let (new, old) = (geometry(&pending.recipe)?, geometry(&parent.recipe)?);
    (new.cycles <= old.cycles * WORST_F1)
        .then_some((new.cycles * parent.cycles / old.cycles, pending))
}

/// A member, good ones more often.
fn parent<'s>(state: &'s State, rng: &mut ChaCha8Rng) -> Option<&'s Member> {
    let count = state.population.len();
    if count == 0 {
        return None;
    }
    let (a, b) = (rng.random_range(0..count), rng.random_range(0..count));
    state.population.get(a.min(b))
}

/// A move, in proportion to what it gained per work.
fn arm(credits: &BTreeMap<Move, super::state::Credit>, rng: &mut ChaCha8Rng) -> Move {
    const OPTIMISM: f64 = 0.02;
    let weight = |arm: &Move| {
        let credit = credits.get(arm).copied().unwrap_or_default();
        (credit.gain + OPTIMISM) / (credit.work + 4.0)
    };
    let total: f64 = Move::ALL.iter().map(weight).sum();
    // A fifth of all draws is uniform, so that no move dies out.
    if rng.random::<f64>() < 0.2 {
        return Move::ALL[rng.random_range(0..Move::ALL.len())];
    }
    let mut at = rng.random::<f64>() * total;
    for arm in Move::ALL {
        at -= weight(&arm);
        if at <= 0.0 {
            return arm;
        }
    }
    Move::ALL[0]
}
