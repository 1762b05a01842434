//! The store: studies in SQLite.
//!
//! Invariants: a commit is one transaction under WAL with `synchronous=FULL`, so what was announced
//! survives any kill and a power cut; a database that is not ours, newer, corrupt or read-only is
//! refused and not changed; any number of processes may open a study at the same instant.

pub mod error;
pub mod journal;
pub mod open;
pub mod query;

pub use error::StoreError;
pub use journal::StudyJournal;
pub use open::{Beginning, Store, StudyKey};
pub use query::{CandidateCounts, HistoryEntry, LadderCounts, StudySummary, current};
