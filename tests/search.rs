//! The search: the same on any number of threads, in any number of pieces, and never worse after a
//! kill; nothing but a validated candidate is ever best.
#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a helper that fails fails its test; exact zeros are meant"
)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{BLOCK, Fixture};
use ipu_tune::device::{Device, DeviceError, HostData, Identity, Measurement, SimulatedDevice};
use ipu_tune::model::{data, reference};
use ipu_tune::package::Application;
use ipu_tune::plan::{Recipe, RecipeHash};
use ipu_tune::search::journal::{CandidateRecord, Commit, Journal, JournalError};
use ipu_tune::search::state::State;
use ipu_tune::search::{Budget, Engine, Evaluator, Report, StopReason, Task};

/// A journal in memory that can refuse commits from some number on, as a killed process would.
#[derive(Default)]
struct Memory {
    state: Option<State>,
    candidates: Vec<CandidateRecord>,
    commits: usize,
    dies_after: Option<usize>,
}

impl Journal for Memory {
    fn load(&mut self) -> Result<Option<(State, Vec<RecipeHash>)>, JournalError> {
        let hashes = self.candidates.iter().map(|candidate| candidate.recipe.hash()).collect();
        // As stored: what serde skips is gone.
        let stored = self.state.as_ref().map(|state| serde_json::to_string(state).unwrap());
        Ok(stored.map(|text| (serde_json::from_str(&text).unwrap(), hashes)))
    }

    fn commit(&mut self, state: &State, commit: &Commit) -> Result<(), JournalError> {
        if self.dies_after.is_some_and(|commits| self.commits >= commits) {
            return Err(JournalError("killed".into()));
        }
        self.commits += 1;
        self.state = Some(state.clone());
        self.candidates.extend(commit.candidates.iter().cloned());
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "the engine wants to know when it was started")]
fn now() -> Instant {
    Instant::now()
}

fn search(
    fixture: &Fixture,
    device: &dyn Device,
    journal: &mut Memory,
    budget: Budget,
    threads: usize,
) -> Option<Report> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let values = data::generate(&fixture.graph, 5, data::Values::empty(&fixture.graph));
    let Fixture { graph, network, space, tiles, stop, .. } = fixture;
    let task = Task { graph, network, space, tiles: *tiles, seed: 5 };
    let interrupted = AtomicBool::new(false);
    pool.install(|| {
        let reference = reference::evaluate(graph, &values, stop).unwrap();
        let evaluator = Evaluator::new(task, values, reference, device, stop);
        Engine::new(&evaluator, journal, budget, stop, &interrupted, now(), &|_| {}).run().ok()
    })
}

fn trials(count: u64) -> Budget {
    Budget { trials: Some(count), measure_every: 8, ..Budget::default() }
}

/// What the sequence of incumbents was.
fn incumbents(state: &State) -> Vec<(u64, String, u64)> {
    let entry = |i: &ipu_tune::search::state::IncumbentRecord| {
        (i.trial, i.recipe.to_json(), i.measured_cycles)
    };
    state.incumbents.iter().map(entry).collect()
}

#[test]
fn threads_and_pieces_do_not_change_what_is_found() {
    let fixture = Fixture::new(BLOCK, 24);
    let device = SimulatedDevice::default();
    let whole = |threads| {
        let mut journal = Memory::default();
        let report = search(&fixture, &device, &mut journal, trials(41), threads).unwrap();
        (incumbents(&report.state), journal.candidates)
    };
    let (one, candidates) = whole(1);
    assert_eq!(one, whole(2).0);
    assert_eq!(candidates.len(), 41, "exactly the documented total");
    assert!(one.len() >= 2, "the search finds something: {one:?}");
    assert!(one.windows(2).all(|pair| pair[1].2 < pair[0].2), "strictly improving");
    let mut pieces = Memory::default();
    for limit in [1, 2, 7, 18, 19, 41, 41] {
        search(&fixture, &device, &mut pieces, trials(limit), 2).unwrap();
    }
    assert_eq!(incumbents(pieces.state.as_ref().unwrap()), one);
    assert_eq!(pieces.candidates, candidates);
}

#[test]
fn a_kill_at_any_commit_resumes_to_the_same_end() {
    let fixture = Fixture::new(BLOCK, 24);
    let device = SimulatedDevice::default();
    let mut whole = Memory::default();
    search(&fixture, &device, &mut whole, trials(25), 2).unwrap();
    let wanted = incumbents(whole.state.as_ref().unwrap());
    for dies_after in [0, 1, 2, 4, 6] {
        let mut journal = Memory { dies_after: Some(dies_after), ..Memory::default() };
        assert!(search(&fixture, &device, &mut journal, trials(25), 2).is_none(), "killed");
        let before = journal.state.as_ref().and_then(|s| s.incumbent().map(|i| i.measured_cycles));
        journal.dies_after = None;
        let report = search(&fixture, &device, &mut journal, trials(25), 2).unwrap();
        assert_eq!(incumbents(&report.state), wanted, "{dies_after}");
        let after = report.state.incumbent().unwrap().measured_cycles;
        assert!(before.is_none_or(|before| after <= before));
        let mut numbers: Vec<u64> = journal.candidates.iter().map(|c| c.trial).collect();
        numbers.dedup();
        assert_eq!(numbers, (1..=25).collect::<Vec<_>>(), "no trial twice, none lost");
    }
}

#[test]
fn no_candidate_is_tried_twice() {
    let fixture = Fixture::new(BLOCK, 24);
    let mut journal = Memory::default();
    search(&fixture, &SimulatedDevice::default(), &mut journal, trials(60), 2).unwrap();
    let mut hashes: Vec<_> = journal.candidates.iter().map(|c| c.recipe.hash()).collect();
    let count = hashes.len();
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
}

/// A device that lies in some way.
struct Liar(fn(Measurement) -> Result<Measurement, DeviceError>);

impl Device for Liar {
    fn identity(&self) -> Identity {
        Identity { name: "liar".to_owned(), simulated: true }
    }

    fn measure(
        &self,
        application: &Application,
        data: &HostData,
        stop: &AtomicBool,
    ) -> Result<Measurement, DeviceError> {
        self.0(SimulatedDevice::default().measure(application, data, stop)?)
    }
}

#[test]
fn wrong_numbers_are_never_best_however_fast() {
    let fixture = Fixture::new(BLOCK, 24);
    let liar = Liar(|mut measurement| {
        measurement.cycles = vec![1];
        measurement.outputs.reverse();
        Ok(measurement)
    });
    let report = search(&fixture, &liar, &mut Memory::default(), trials(6), 2).unwrap();
    assert!(report.incumbent.is_none());
    assert!(
        report
            .state
            .failures
            .keys()
            .all(|kind| ["wrong-numbers", "not-finite"].contains(&kind.as_str()))
    );
    assert!(report.state.last_failure.is_some());
}

#[test]
fn a_figure_of_zero_is_a_broken_device_not_infinite_speed() {
    let fixture = Fixture::new(BLOCK, 24);
    let liar = Liar(|measurement| Ok(Measurement { cycles: vec![0], ..measurement }));
    let report = search(&fixture, &liar, &mut Memory::default(), trials(6), 2).unwrap();
    assert!(report.incumbent.is_none());
    assert_eq!(report.stop, StopReason::DeviceLost);
}

#[test]
fn a_candidate_that_crashes_is_an_outcome() {
    let fixture = Fixture::new(BLOCK, 24);
    let liar = Liar(|_| Err(DeviceError::Fault { tile: 0, pc: 0, what: "trap".to_owned() }));
    let report = search(&fixture, &liar, &mut Memory::default(), trials(6), 2).unwrap();
    assert!(report.incumbent.is_none() && report.state.failures.contains_key("crashed"));
}

#[test]
fn an_incumbent_that_no_longer_validates_gives_way_to_the_one_before() {
    let fixture = Fixture::new(BLOCK, 24);
    let device = SimulatedDevice::default();
    let mut journal = Memory::default();
    search(&fixture, &device, &mut journal, trials(41), 2).unwrap();
    let state = journal.state.as_mut().unwrap();
    let before = state.incumbents.len();
    assert!(before >= 2);
    // A recipe that cannot be: more row parts than rows.
    let last = state.incumbents.last_mut().unwrap();
    last.recipe.tiles = 0;
    let report = search(&fixture, &device, &mut journal, trials(41), 2).unwrap();
    assert!(report.resuming);
    assert!(report.state.incumbents[before - 1].demoted.is_some());
    let incumbent = report.incumbent.unwrap();
    assert_eq!(incumbent.validated().recipe(), &report.state.incumbents[before - 2].recipe);
}

/// A device whose first measurements fail, then it is well.
struct Moody {
    failures: AtomicUsize,
    error: fn() -> DeviceError,
}

impl Moody {
    fn new(failures: usize, error: fn() -> DeviceError) -> Moody {
        Moody { failures: AtomicUsize::new(failures), error }
    }
}

impl Device for Moody {
    fn identity(&self) -> Identity {
        SimulatedDevice::default().identity()
    }

    fn measure(
        &self,
        application: &Application,
        data: &HostData,
        stop: &AtomicBool,
    ) -> Result<Measurement, DeviceError> {
        let less = |left: usize| left.checked_sub(1);
        match self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => Err((self.error)()),
            Err(_) => SimulatedDevice::default().measure(application, data, stop),
        }
    }
}

fn trap() -> DeviceError {
    DeviceError::Fault { tile: 0, pc: 0, what: "trap".to_owned() }
}

#[test]
fn a_lost_device_leaves_the_incumbent_what_it_is() {
    let fixture = Fixture::new(BLOCK, 24);
    let well = SimulatedDevice::default();
    let mut whole = Memory::default();
    search(&fixture, &well, &mut whole, trials(33), 2).unwrap();
    let mut pieces = Memory::default();
    search(&fixture, &well, &mut pieces, trials(20), 2).unwrap();
    let before = pieces.state.clone();
    let lost =
        Moody::new(1, || DeviceError::Lock { path: "card".to_owned(), what: "gone".to_owned() });
    let report = search(&fixture, &lost, &mut pieces, trials(33), 2).unwrap();
    assert_eq!(report.stop, StopReason::DeviceLost);
    assert!(report.incumbent.is_none() && report.state.incumbent().is_some());
    assert_eq!(pieces.state, before, "nothing was committed");
    search(&fixture, &well, &mut pieces, trials(33), 2).unwrap();
    assert_eq!(incumbents(pieces.state.as_ref().unwrap()), incumbents(&whole.state.unwrap()));
}

#[test]
fn a_first_plan_that_fails_gives_way_to_the_next_in_any_number_of_pieces() {
    let fixture = Fixture::new(BLOCK, 24);
    let mut whole = Memory::default();
    let report = search(&fixture, &Moody::new(2, trap), &mut whole, trials(12), 2).unwrap();
    assert_eq!(report.state.failures.get("crashed"), Some(&2));
    assert_eq!(report.state.incumbents[0].trial, 3, "the third plan is the first that is right");
    let (device, mut pieces) = (Moody::new(2, trap), Memory::default());
    for limit in [1, 2, 3, 12] {
        search(&fixture, &device, &mut pieces, trials(limit), 2).unwrap();
    }
    assert_eq!(pieces.state, whole.state);
}

#[test]
fn a_successor_tries_old_recipes_again_and_is_no_worse() {
    let fixture = Fixture::new(BLOCK, 24);
    let device = SimulatedDevice::default();
    let mut old = Memory::default();
    search(&fixture, &device, &mut old, trials(41), 2).unwrap();
    let old = old.state.unwrap();
    let successor = old.successor();
    assert_eq!(successor.warm[0], old.incumbent().unwrap().recipe);
    let count = successor.warm.len() as u64;
    let mut new = Memory { state: Some(successor), ..Memory::default() };
    let report = search(&fixture, &device, &mut new, trials(count + 1), 2).unwrap();
    let best = report.state.incumbent().unwrap().measured_cycles;
    assert_eq!(best, old.incumbent().unwrap().measured_cycles);
    assert_eq!(report.state.first_plan_measured, old.first_plan_measured);
    assert!(report.state.warm.is_empty());
}

#[test]
fn recipes_that_are_not_of_the_task_are_not_taken_over() {
    let fixture = Fixture::new(BLOCK, 24);
    let device = SimulatedDevice::default();
    let mut old = Memory::default();
    let other = Fixture::new(BLOCK, 20);
    search(&other, &device, &mut old, trials(1), 2).unwrap();
    let successor = old.state.unwrap().successor();
    assert_eq!(successor.warm.len(), 1);
    let mut new = Memory { state: Some(successor), ..Memory::default() };
    let report = search(&fixture, &device, &mut new, trials(2), 2).unwrap();
    assert_eq!(report.state.failures.get("illegal"), Some(&1));
    assert_eq!(report.state.incumbent().unwrap().recipe.tiles, 24);
}

#[test]
fn a_study_without_its_incumbents_finds_another() {
    let fixture = Fixture::new(BLOCK, 24);
    let mut journal = Memory::default();
    search(&fixture, &SimulatedDevice::default(), &mut journal, trials(41), 2).unwrap();
    let before = journal.state.clone().unwrap().incumbents;
    let report =
        search(&fixture, &Moody::new(before.len(), trap), &mut journal, trials(60), 2).unwrap();
    let state = report.state;
    assert!(state.incumbents[..before.len()].iter().all(|entry| entry.demoted.is_some()));
    let gone = |recipe: &Recipe| before.iter().any(|entry| entry.recipe == *recipe);
    assert!(state.population.iter().all(|member| !gone(&member.recipe)));
    assert!(!gone(report.incumbent.unwrap().validated().recipe()));
}

#[test]
fn other_ends_are_named() {
    let fixture = Fixture::new(BLOCK, 24);
    let device = SimulatedDevice::default();
    let run = |budget| search(&fixture, &device, &mut Memory::default(), budget, 2).unwrap();
    let none = Budget { measure_every: 0, ..Budget::default() };
    assert_eq!(run(Budget { target_cycles: Some(u64::MAX), ..none }).stop, StopReason::Target);
    assert_eq!(run(Budget { plateau: Some(4), ..none }).stop, StopReason::Plateau);
    assert_eq!(run(Budget { time: Some(Duration::ZERO), ..none }).stop, StopReason::Budget);
}
