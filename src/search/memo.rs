//! What was lowered, placed or scheduled before: segments by what they depend on, tiles by their
//! problem, schedules by the shape of their phase.
//!
//! A hit and a miss give the same value, so threads may share a memo and its state never reaches a
//! result. Entries are dropped all at once when there are too many.

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use crate::cost::SegmentCost;
use crate::exchange::Schedule;
use crate::plan::{Layout, Network, NodeId, NodePlan};
use crate::program::{Segment, lower_node};
use crate::storage::Answers;

/// Transfers that all kept segments may have together: bounds the memo to a few hundred megabytes.
const MOST_TRANSFERS: usize = 8_000_000;
/// Transfers that all kept schedules may have together.
const MOST_STARTS: usize = 24_000_000;

type SegmentKey = (NodeId, NodePlan, Vec<Layout>, u16);
/// A lowered node and what it costs.
pub type SegmentEntry = (Arc<Segment>, Arc<SegmentCost>);
/// Entries and their weight together.
type Kept<K, V> = (FxHashMap<K, V>, usize);

/// Shared results.
#[derive(Default)]
pub struct Memo {
    segments: Mutex<Kept<SegmentKey, SegmentEntry>>,
    phases: Mutex<Kept<[u8; 32], Arc<Schedule>>>,
    /// Placed tiles.
    pub answers: Answers,
}

/// A lock whose holder panicked is as good as any: entries are inserted whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Memo {
    /// A lowered node and its cost.
    pub fn segment(
        &self,
        network: &Network,
        id: NodeId,
        plan: &NodePlan,
        inputs: &[Layout],
        tiles: u16,
    ) -> SegmentEntry {
        // Width and levels do not change what is lowered.
        let plan = NodePlan { exchange: Default::default(), alone: false, late: false, ..*plan };
        let key = (id, plan, inputs.to_vec(), tiles);
        if let Some(found) = lock(&self.segments).0.get(&key) {
            return found.clone();
        }
        let segment = lower_node(network, id, &plan, inputs, tiles);
        let cost = SegmentCost::of(&segment, tiles);
        let weight = cost.transfers as usize + 2000;
        let entry = (Arc::new(segment), Arc::new(cost));
        let mut kept = lock(&self.segments);
        if kept.1 + weight > MOST_TRANSFERS {
            *kept = Default::default();
        }
        kept.1 += weight;
        kept.0.insert(key, entry.clone());
        entry
    }

    /// The schedule of a phase's shape.
    pub fn phase(&self, key: &[u8; 32]) -> Option<Arc<Schedule>> {
        lock(&self.phases).0.get(key).cloned()
    }

    /// Keeps a schedule.
    pub fn keep_phase(&self, key: [u8; 32], schedule: &Arc<Schedule>) {
        let weight = schedule.starts.len() + 16;
        let mut kept = lock(&self.phases);
        if kept.1 + weight > MOST_STARTS {
            *kept = Default::default();
        }
        kept.1 += weight;
        kept.0.insert(key, Arc::clone(schedule));
    }
}
