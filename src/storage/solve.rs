//! Solving what a problem asks for beyond placing: repeats, and preferences.
//!
//! A preferred range is a wish. All wishes together are tried first; if that fails the problem is
//! placed without them, and then they are granted one by one, in the order of the buffers, as long as
//! a placement is found.

use crate::target::sram::{MEMORY_END, MEMORY_START};

use super::place::{self, BUDGET, Outcome, Proof};
use super::problem::{Buffer, Problem};
use super::repeats::Joined;
use super::strides;

/// Most nodes of a search with wishes: what they cost stays bounded.
const WISH_BUDGET: u64 = 20_000;

/// The part of the budget for repeats without gaps, where that is not all there is to try.
const JOINED: u64 = 4;

/// The part of the budget to prove that not even blocks that lie anywhere fit.
const ANYWHERE: u64 = 8;

/// Places all buffers of a checked problem.
pub fn place(problem: &Problem) -> Outcome {
    place_within(problem, BUDGET)
}

/// The same with a budget of search nodes, and a smaller one for every attempt with wishes; 0:
/// constructive orders only, and repeats without gaps.
///
/// Repeats are joined first, one buffer for all blocks of each. If that places nothing and proves
/// nothing, their blocks anywhere may prove that nothing fits; else bases and strides are searched for.
pub fn place_within(problem: &Problem, budget: u64) -> Outcome {
    if problem.repeats.is_empty() {
        return with_wishes(problem, budget, &place::place_within);
    }
    let joined = Joined::of(problem);
    let share = if joined.exact { budget } else { budget / JOINED };
    let outcome = with_wishes(&joined.problem, share, &place::place_within);
    match outcome {
        Outcome::Placed(addresses) => return Outcome::Placed(joined.apply(&addresses)),
        Outcome::Impossible(Proof::Alone { .. }) if joined.exact => {
            return Outcome::Impossible(Proof::Exhausted { nodes: 0 });
        }
        Outcome::Impossible(proof) if joined.exact => return Outcome::Impossible(proof),
        _ => {}
    }
    let anywhere = Problem { repeats: vec![], ..problem.clone() };
    let of_anywhere = place::place_within(&anywhere, budget / ANYWHERE);
    let before = outcome.nodes() + of_anywhere.nodes();
    match of_anywhere {
        Outcome::Impossible(proof) => Outcome::Impossible(proof),
        _ if budget == 0 || joined.exact => {
            Outcome::Unknown { buffer: in_the_way(&joined, &outcome), nodes: before }
        }
        _ => match with_wishes(problem, budget - share - budget / ANYWHERE, &strides::place_within)
        {
            Outcome::Unknown { buffer, nodes } => {
                Outcome::Unknown { buffer, nodes: before + nodes }
            }
            outcome => outcome,
        },
    }
}

/// A buffer that was in the way of joined blocks.
fn in_the_way(joined: &Joined, outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Unknown { buffer, .. }
        | Outcome::Impossible(Proof::Alone { buffer, .. } | Proof::NoAddress { buffer }) => {
            joined.first(*buffer)
        }
        _ => 0,
    }
}

/// Places a problem by one kind of search, with as many wishes granted as it finds room for.
fn with_wishes(
    problem: &Problem,
    budget: u64,
    search: &dyn Fn(&Problem, u64) -> Outcome,
) -> Outcome {
    let wishes = problem.buffers.iter().enumerate().filter(|(_, b)| !b.preferred.is_empty());
    let wishes: Vec<usize> = wishes.map(|(index, _)| index).collect();
    let attempt = |granted: &[usize]| {
        let mut problem = problem.clone();
        for index in granted {
            bind(&mut problem.buffers[*index]);
        }
        match search(&problem, budget.min(WISH_BUDGET)) {
            Outcome::Placed(addresses) => Some(addresses),
            _ => None,
        }
    };
    if !wishes.is_empty()
        && let Some(addresses) = attempt(&wishes)
    {
        return Outcome::Placed(addresses);
    }
    let outcome = search(problem, budget);
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
