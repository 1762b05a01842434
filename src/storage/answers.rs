//! Answers of problems, each found once.
//!
//! An answer is a function of its question alone, so threads and candidates may share the memo and its
//! state never reaches a result. Entries are dropped all at once when there are too many.
//!
//! So a candidate takes an earlier one's answer only for a question that is exactly the same: one that
//! changes few buffers finds the answers of all tiles that hold none of them here. To begin a
//! near-identical problem with an earlier candidate's addresses would make its answer depend on which
//! candidates came before, in which order, and, as several are built at a time, on which thread was
//! first. Not even the candidate that it was made from will do: a recipe can be reached from several
//! others, and an incumbent is placed again from its recipe alone when a study is resumed, and has to
//! come out the same. Within one program there is a neighbour that depends on nothing else, its fullest
//! tile: that one's addresses are part of the questions of the others (`hint`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::branch::Limits;
use super::compact::{compact, follow, tighten};
use super::place::{Outcome, place_until};
use super::problem::Problem;

/// Buffers that all kept problems may have together: bounds the memo to some ten megabytes.
const MOST_BUFFERS: usize = 200_000;

/// What an answer depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    /// What is to be placed.
    pub(super) problem: Problem,
    /// Where buffers of a similar problem lie, `None` for those that it has not; empty if there is
    /// none.
    pub(super) hint: Vec<Option<u32>>,
    /// Nodes of the search.
    pub(super) nodes: u64,
}

/// Entries, and their buffers together.
type Kept = (FxHashMap<Question, Arc<Outcome>>, usize);

/// Shared answers.
#[derive(Default)]
pub struct Answers {
    kept: Mutex<Kept>,
}

impl Answers {
    /// The answer of a question, and whether it was known; `None` if the stop came first.
    pub(super) fn of(&self, question: Question, stop: &AtomicBool) -> Option<(Arc<Outcome>, bool)> {
        if let Some(found) = self.lock().0.get(&question) {
            return Some((Arc::clone(found), true));
        }
        let outcome = Arc::new(question.solve(stop));
        // What would have been found without the stop stays open: an answer does not depend on the
        // time.
        if matches!(*outcome, Outcome::Unknown { .. }) && stop.load(Ordering::Relaxed) {
            return None;
        }
        let weight = question.problem.buffers.len() + 8;
        let mut kept = self.lock();
        if kept.1 + weight > MOST_BUFFERS {
            *kept = Kept::default();
        }
        kept.1 += weight;
        kept.0.insert(question, Arc::clone(&outcome));
        Some((outcome, false))
    }

    /// A lock whose holder panicked is as good as any: entries are inserted whole.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question {
    /// A placement near the hint, else one in few bytes, else any that the searches find.
    fn solve(&self, stop: &AtomicBool) -> Outcome {
        let (items, item_of) = self.problem.items();
        let mut hint = vec![None; items.len()];
        for (item, address) in item_of.iter().zip(&self.hint) {
            hint[*item] = hint[*item].or(*address);
        }
        let near = (!self.hint.is_empty()).then(|| follow(&items, &hint)).flatten();
        if let Some(found) = near.or_else(|| compact(&items)) {
            return Outcome::Placed(item_of.iter().map(|item| found[*item]).collect());
        }
        let outcome = place_until(&self.problem, Limits { nodes: self.nodes, stop: Some(stop) });
        let Outcome::Placed(addresses) = outcome else { return outcome };
        let mut of_items = vec![0; items.len()];
        item_of.iter().zip(&addresses).for_each(|(item, address)| of_items[*item] = *address);
        let tight = tighten(&items, &of_items);
        Outcome::Placed(item_of.iter().map(|item| tight[*item]).collect())
    }
}
