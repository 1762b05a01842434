//! Addresses that shorten exchange: buffers that a tile reads and writes in one phase are moved apart
//! where that gains something, and what comes of it is right.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod common;

use common::{BLOCK, Fixture};
use ipu_tune::cost::Coefficients;
use ipu_tune::model::shipped;
use ipu_tune::plan::{Recipe, StoragePlan};
use ipu_tune::search::memo::Memo;
use ipu_tune::search::{Built, build};

fn built(fixture: &Fixture, recipe: &Recipe, memo: &Memo, storage: StoragePlan) -> Built {
    let recipe = Recipe { storage, ..recipe.clone() };
    build(&fixture.network, &recipe, memo, &Coefficients::default(), &fixture.stop).unwrap()
}

fn events(built: &Built) -> u64 {
    built.phases.values().map(|phase| u64::from(phase.schedule.horizon)).sum()
}

#[test]
fn buffers_that_hold_a_phase_up_are_moved_apart() {
    let name = "typed-attention-f8-64t";
    let (_, text) = shipped::MODELS.iter().find(|(found, _)| *found == name).unwrap();
    let fixture = Fixture::new(text, 64);
    let recipe = fixture.first_plans().remove(0);
    let moved = built(&fixture, &recipe, &Memo::default(), StoragePlan::Automatic);
    let apart = built(&fixture, &recipe, &Memo::default(), StoragePlan::Apart);
    // All buffers apart from the start: nothing is left to move, and nothing is faster.
    assert_eq!(apart.saved_events, 0);
    assert!(10 * moved.saved_events > events(&moved), "{}", moved.saved_events);
    assert!(events(&moved) <= events(&apart) * 21 / 20, "{} {}", events(&moved), events(&apart));
}

#[test]
fn what_was_moved_is_right_and_the_same_with_any_memory_and_threads() {
    let fixture = Fixture::new(BLOCK, 24);
    let mut saved = 0;
    let shared = Memo::default();
    for recipe in fixture.first_plans().into_iter().take(4) {
        let alone = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let storage = StoragePlan::Automatic;
            pool.install(|| built(&fixture, &recipe, &Memo::default(), storage))
        };
        let (one, two) = (alone(1), alone(2));
        let other = built(&fixture, &recipe, &shared, StoragePlan::Automatic);
        for again in [two, other] {
            assert_eq!(one.addresses, again.addresses);
            assert_eq!(one.saved_events, again.saved_events);
            assert_eq!(events(&one), events(&again));
        }
        saved += one.saved_events;
        let automatic = Recipe { storage: StoragePlan::Automatic, ..recipe };
        let validated = fixture.evaluator(7).validate(&automatic, 1, &Coefficients::default());
        validated.expect("a plan whose package is right");
    }
    assert!(saved > 0, "some phase of these is held up");
}
