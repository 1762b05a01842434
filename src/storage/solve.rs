//! Solving what a problem asks for beyond placing: repeats, and preferences.
//!
//! A preferred range is a wish. All wishes together are tried first; if that fails the problem is
//! placed without them, and then they are granted one by one, in the order of the buffers, as long as
//! a placement is found.

use crate::target::sram::{MEMORY_END, MEMORY_START};

use super::place::{self, BUDGET, Outcome, Proof};
use super::problem::{Buffer, Problem};
use super::repeats::Joined;

/// Most nodes of a search with wishes: what they cost stays bounded.
const WISH_BUDGET: u64 = 20_000;

/// Places all buffers of a checked problem.
pub fn place(problem: &Problem) -> Outcome {
    place_within(problem, BUDGET)
}

/// The same with a budget of search nodes, and a smaller one for every attempt with wishes; 0:
/// constructive orders only.
pub fn place_within(problem: &Problem, budget: u64) -> Outcome {
    if problem.repeats.is_empty() {
        return with_wishes(problem, budget);
    }
    let joined = Joined::of(problem);
    match with_wishes(&joined.problem, budget) {
        Outcome::Placed(addresses) => Outcome::Placed(joined.apply(&addresses)),
        Outcome::Impossible(Proof::Alone { .. }) if joined.exact => {
            Outcome::Impossible(Proof::Exhausted { nodes: 0 })
        }
        Outcome::Impossible(proof) if joined.exact => Outcome::Impossible(proof),
        // Blocks anywhere: where not even their bytes fit, none fit at a stride.
        other => {
            let anywhere = Problem { repeats: vec![], ..problem.clone() };
            match place::place_within(&anywhere, 0) {
                Outcome::Impossible(proof) => Outcome::Impossible(proof),
                _ => Outcome::Unknown { buffer: in_the_way(&joined, &other) },
            }
        }
    }
}

fn in_the_way(joined: &Joined, outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Unknown { buffer } | Outcome::Impossible(Proof::Alone { buffer, .. }) => {
            joined.first(*buffer)
        }
        _ => 0,
    }
}

fn with_wishes(problem: &Problem, budget: u64) -> Outcome {
    let wishes = problem.buffers.iter().enumerate().filter(|(_, b)| !b.preferred.is_empty());
    let wishes: Vec<usize> = wishes.map(|(index, _)| index).collect();
    let attempt = |granted: &[usize]| {
        let mut problem = problem.clone();
        for index in granted {
            bind(&mut problem.buffers[*index]);
        }
        match place::place_within(&problem, budget.min(WISH_BUDGET)) {
            Outcome::Placed(addresses) => Some(addresses),
            _ => None,
        }
    };
    if !wishes.is_empty()
        && let Some(addresses) = attempt(&wishes)
    {
        return Outcome::Placed(addresses);
    }
    let outcome = place::place_within(problem, budget);
    let Outcome::Placed(mut addresses) = outcome else { return outcome };
    let mut granted = vec![];
    for wish in wishes {
        granted.push(wish);
        match attempt(&granted) {
            Some(found) => addresses = found,
            None => granted.truncate(granted.len() - 1),
        }
    }
    Outcome::Placed(addresses)
}

/// Forbids a buffer all that is not inside its preferred ranges.
fn bind(buffer: &mut Buffer) {
    let mut ranges = buffer.preferred.clone();
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut end = MEMORY_START.0;
    for range in ranges {
        if end < range.start {
            buffer.forbidden.push(end..range.start);
        }
        end = end.max(range.end);
    }
    if end < MEMORY_END.0 {
        buffer.forbidden.push(end..MEMORY_END.0);
    }
}
