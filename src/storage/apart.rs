//! Whether pairs that must lie apart are to blame: a tile can have bytes enough and too few memory
//! elements.

use super::place::{Outcome, Proof};
use super::problem::Problem;
use super::solve::place_within;

/// Pairs that are looked at one by one.
const MOST_PAIRS: usize = 1000;

/// Nodes for one pair, and for a problem without its pairs: what is said in passing costs little.
const PAIR: u64 = 1_000;
const WITHOUT: u64 = 20_000;

/// Why elements are short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowded {
    /// These two have no places in different elements, though each fits beside the other.
    Pair(usize, usize),
    /// There is a placement if no pair has to lie apart.
    Pairs,
}

impl Problem {
    /// Why elements are short in a problem that has no placement; `None` if they were not found to be.
    pub fn crowded(&self) -> Option<Crowded> {
        let alone = |a: usize, b: usize| {
            let buffers = [a, b].map(|index| self.buffers[index].clone()).to_vec();
            Problem { free: self.free.clone(), buffers, ..Problem::default() }
        };
        let is_placed =
            |problem: &Problem, nodes| matches!(place_within(problem, nodes), Outcome::Placed(_));
        let is_short = |&&(a, b): &&(usize, usize)| {
            let free = alone(a, b);
            let apart = Problem { apart: vec![(0, 1)], ..free.clone() };
            let outcome = place_within(&apart, PAIR);
            matches!(outcome, Outcome::Impossible(Proof::Exhausted { .. }))
                && is_placed(&free, PAIR)
        };
        if let Some((a, b)) = self.apart.iter().take(MOST_PAIRS).find(is_short) {
            return Some(Crowded::Pair(*a, *b));
        }
        let without = Problem { apart: vec![], ..self.clone() };
        (!self.apart.is_empty() && is_placed(&without, WITHOUT)).then_some(Crowded::Pairs)
    }
}
