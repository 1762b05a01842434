//! Solving what a problem asks for beyond placing: repeats, and preferences.
//!
//! A preferred range is a wish. All wishes together are tried first; if that fails the problem is
//! placed without them, and then they are granted one by one, in the order of the buffers, as long as
//! a placement is found. All of that takes no more nodes than placing may.

use super::branch::Limits;
use super::place::{self, BUDGET, Outcome, Proof};
use super::problem::{Held, Problem};
use super::repeats::Joined;
use super::strides;

/// The part of the budget that one attempt with wishes takes at most: what is left is for placing
/// without them, and then in equal shares for the wishes that are tried one by one.
const WISH: u64 = 10;

/// The part of the budget for repeats without gaps, where that is not all there is to try.
const JOINED: u64 = 4;

/// The part of the budget to prove that not even blocks that lie anywhere fit.
const ANYWHERE: u64 = 8;

/// Places all buffers of a checked problem.
pub fn place(problem: &Problem) -> Outcome {
    place_within(problem, BUDGET)
}

/// The same with a budget of search nodes for all attempts together; 0: constructive orders only, and
/// repeats without gaps.
///
/// Repeats are joined first, one buffer for all blocks of each. If that places nothing and proves
/// nothing, their blocks anywhere may prove that nothing fits; else bases and strides are searched for.
pub fn place_within(problem: &Problem, budget: u64) -> Outcome {
    let wishes: Vec<Held> = problem
        .buffers
        .iter()
        .enumerate()
        .filter(|(_, buffer)| !buffer.preferred.is_empty())
        .map(|(index, buffer)| (index, buffer.wish()))
        .collect();
    if problem.repeats.is_empty() {
        return with_wishes(problem, &wishes, budget, anywhere).0;
    }
    let joined = Joined::of(problem);
    let share = if joined.exact { budget } else { budget / JOINED };
    let (outcome, spent) = with_wishes(&joined.problem, &joined.wishes(problem), share, anywhere);
    let in_the_way = match outcome {
        Outcome::Placed(addresses) => return Outcome::Placed(joined.apply(&addresses)),
        Outcome::Impossible(proof) if joined.exact => {
            return Outcome::Impossible(joined.proof(proof));
        }
        Outcome::Unknown { buffer, .. }
        | Outcome::Impossible(Proof::Alone { buffer, .. } | Proof::NoAddress { buffer }) => {
            joined.first(buffer)
        }
        Outcome::Impossible(_) => 0,
    };
    let without_repeats = Problem { repeats: vec![], ..problem.clone() };
    let (outcome, of_blocks) = anywhere(&without_repeats, &[], budget / ANYWHERE);
    let spent = spent + of_blocks;
    if matches!(outcome, Outcome::Impossible(_)) {
        return outcome;
    }
    if budget == 0 || joined.exact {
        return Outcome::Unknown { buffer: in_the_way, nodes: spent };
    }
    let left = budget - share - budget / ANYWHERE;
    match with_wishes(problem, &wishes, left, strides::place_held).0 {
        Outcome::Unknown { buffer, nodes } => Outcome::Unknown { buffer, nodes: spent + nodes },
        outcome => outcome,
    }
}

/// Places all buffers, some held to a few addresses, as if there were no repeats.
fn anywhere(problem: &Problem, held: &[Held], nodes: u64) -> (Outcome, u64) {
    place::place_held(problem, held, Limits { nodes, stop: None })
}

/// Places a problem by one kind of search, with as many wishes granted as it finds room for; with the
/// nodes that it took.
fn with_wishes(
    problem: &Problem,
    wishes: &[Held],
    budget: u64,
    search: impl Fn(&Problem, &[Held], u64) -> (Outcome, u64),
) -> (Outcome, u64) {
    let most = budget / WISH;
    let mut spent = 0;
    let mut attempt = |granted: &[Held], parts: Option<usize>| {
        let left = budget - spent;
        let share = parts.map_or(left, |parts| most.min(left / parts as u64));
        let (outcome, nodes) = search(problem, granted, share);
        spent += nodes.min(share);
        (outcome, spent)
    };
    if !wishes.is_empty()
        && let (Outcome::Placed(addresses), spent) = attempt(wishes, Some(1))
    {
        return (Outcome::Placed(addresses), spent);
    }
    let (mut addresses, mut spent) = match attempt(&[], None) {
        (Outcome::Placed(addresses), spent) => (addresses, spent),
        (Outcome::Unknown { buffer, .. }, nodes) => {
            return (Outcome::Unknown { buffer, nodes }, nodes);
        }
        outcome => return outcome,
    };
    let mut granted = vec![];
    for (at, wish) in wishes.iter().enumerate() {
        granted.push(wish.clone());
        let (outcome, nodes) = attempt(&granted, Some(wishes.len() - at));
        spent = nodes;
        match outcome {
            Outcome::Placed(found) => addresses = found,
            _ => granted.truncate(granted.len() - 1),
        }
    }
    (Outcome::Placed(addresses), spent)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Every attempt takes all nodes that it may; placed is only what nobody wishes anything of.
    #[test]
    fn all_attempts_with_wishes_share_the_budget() {
        for count in [1_usize, 3, 200] {
            let wishes: Vec<Held> = (0..count).map(|buffer| (buffer, vec![])).collect();
            let given = RefCell::new(vec![]);
            let search = |_: &Problem, held: &[Held], nodes| {
                given.borrow_mut().push(nodes);
                let placed = Outcome::Placed(vec![]);
                let unknown = Outcome::Unknown { buffer: 0, nodes };
                if held.is_empty() { (placed, nodes / 2) } else { (unknown, nodes) }
            };
            let (outcome, spent) = with_wishes(&Problem::default(), &wishes, 1000, search);
            assert_eq!(outcome, Outcome::Placed(vec![]));
            let given = given.into_inner();
            assert_eq!((given[0], given[1], given.len()), (100, 900, count + 2));
            assert!(given[2..].iter().all(|nodes| *nodes <= 100));
            assert_eq!(spent, 100 + 450 + given[2..].iter().sum::<u64>());
            assert!(spent <= 1000 && given[2..].iter().any(|nodes| *nodes > 0));
        }
    }
}
