//! What became of the candidates.

use serde::Serialize;

use crate::search::Failure;
use crate::search::state::State;
use crate::store::{CandidateCounts, LadderCounts, StudySummary};

/// Candidates by how far they came, and by why they failed.
#[derive(Clone, Debug, Serialize)]
pub struct TrialFigures {
    /// Candidates taken to F2, whatever became of them.
    pub tried: u64,
    /// How far they came.
    #[serde(flatten)]
    pub ladder: LadderCounts,
    /// Failed ones by kind.
    pub failures: Vec<FailureFigures>,
    /// The last failure in words: what stands in the way where nothing is feasible.
    pub last_failure: Option<String>,
}

/// Failed candidates of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct FailureFigures {
    /// The kind.
    pub kind: String,
    /// The fidelity at which such candidates fail; `None` for kinds of another version.
    pub fidelity: Option<&'static str>,
    /// How many.
    pub count: u64,
    /// One of them, in words.
    pub example: Option<String>,
}

impl TrialFigures {
    /// Counts that a database has.
    pub fn new(summary: &StudySummary, ladder: LadderCounts, state: &State) -> TrialFigures {
        let failed = summary.candidates.iter().filter(|counts| counts.kind != "ok");
        TrialFigures {
            tried: summary.trials,
            ladder,
            failures: failed.map(FailureFigures::of).collect(),
            last_failure: state.last_failure.clone(),
        }
    }
}

impl FailureFigures {
    fn of(counts: &CandidateCounts) -> FailureFigures {
        let text = counts.example.as_deref();
        let failure = text.and_then(|text| serde_json::from_str::<Failure>(text).ok());
        let words = failure.as_ref().map(ToString::to_string);
        FailureFigures {
            kind: counts.kind.clone(),
            fidelity: failure.as_ref().and_then(Failure::fidelity),
            count: counts.count,
            example: words.or_else(|| counts.example.clone()),
        }
    }
}
