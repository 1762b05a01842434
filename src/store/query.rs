//! Questions about a study that do not change it.

use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use crate::search::state::{CalibrationRecord, State};

use super::error::StoreError;
use super::open::{Store, StudyKey};

/// An incumbent in the order found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryEntry {
    /// Trials when it was found.
    pub trial: u64,
    /// Round.
    pub round: u64,
    /// Identity of the candidate.
    pub candidate: String,
    /// Predicted cycles.
    pub predicted_cycles: f64,
    /// Measured cycles.
    pub measured_cycles: u64,
    /// Who measured.
    pub device: String,
    /// Whether that is a simulation.
    pub simulated: bool,
    /// Milliseconds since its invocation began.
    pub elapsed_ms: u64,
    /// Why it counts no longer; `None`: it does.
    pub demoted: Option<String>,
}

/// Failed candidates of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CandidateCounts {
    /// The kind; `ok` for those that did not fail.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// One of them, in words.
    pub example: Option<String>,
}

/// Where a study stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudySummary {
    /// Number of the study in its database.
    pub study: i64,
    /// Name of the model.
    pub model: String,
    /// Hash of the model.
    pub model_hash: String,
    /// Tiles.
    pub tiles: u16,
    /// Seed.
    pub seed: u64,
    /// Device.
    pub device: String,
    /// Rounds that are over.
    pub rounds: u64,
    /// Candidates taken to F2.
    pub trials: u64,
    /// Calibrations.
    pub calibrations: u64,
    /// Candidates by what became of them.
    pub candidates: Vec<CandidateCounts>,
    /// Events worth remembering.
    pub events: Vec<String>,
}

/// How far the candidates of a study came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LadderCounts {
    /// Placed and scheduled, so that their cycles are predicted (F2).
    pub scheduled: u64,
    /// Validated and measured (F3 and F4).
    pub measured: u64,
    /// Incumbents for a time.
    pub incumbents: u64,
}

/// The incumbent that counts.
pub fn current(history: &[HistoryEntry]) -> Option<&HistoryEntry> {
    history.iter().rev().find(|entry| entry.demoted.is_none())
}

impl Store {
    fn newest(&self) -> Result<(i64, StudyKey), StoreError> {
        let path = self.path.clone();
        self.newest_study()?.ok_or(StoreError::Absent { path })
    }

    /// All answers from here on are of one moment, whatever other processes commit meanwhile.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn hold_still(&self) -> Result<(), StoreError> {
        self.db.execute_batch("BEGIN").map_err(|error| self.wrap(error))
    }

    /// What the newest study is a study of.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn key(&self) -> Result<StudyKey, StoreError> {
        Ok(self.newest()?.1)
    }

    /// The search state of the newest study; none before its first round.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn newest_state(&self) -> Result<Option<State>, StoreError> {
        let (study, _) = self.newest()?;
        Ok(self.state(study)?.map(|(state, _)| state))
    }

    /// The calibrations of the newest study, oldest first.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn calibrations(&self) -> Result<Vec<CalibrationRecord>, StoreError> {
        let wrap = |error| self.wrap(error);
        let (study, _) = self.newest()?;
        let query = "SELECT record FROM calibration WHERE study = ?1 ORDER BY version";
        let mut statement = self.db.prepare(query).map_err(wrap)?;
        let rows = statement.query_map([study], |row| row.get::<_, String>(0)).map_err(wrap)?;
        let record = |text: Result<String, _>| {
            let (path, what) = (self.path.clone(), "calibration");
            serde_json::from_str(&text.map_err(wrap)?).map_err(|source| StoreError::Record {
                path,
                what,
                source,
            })
        };
        rows.map(record).collect()
    }

    /// How far the candidates of the newest study came.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn ladder(&self) -> Result<LadderCounts, StoreError> {
        let (study, _) = self.newest()?;
        let query = "SELECT
             (SELECT count(*) FROM candidate WHERE study = ?1 AND predicted_cycles IS NOT NULL),
             (SELECT count(DISTINCT candidate) FROM measurement WHERE study = ?1),
             (SELECT count(*) FROM incumbent WHERE study = ?1)";
        let counts = |row: &rusqlite::Row<'_>| {
            Ok(LadderCounts {
                scheduled: row.get::<_, i64>(0)? as u64,
                measured: row.get::<_, i64>(1)? as u64,
                incumbents: row.get::<_, i64>(2)? as u64,
            })
        };
        self.db.query_row(query, [study], counts).map_err(|error| self.wrap(error))
    }

    /// The incumbents of the newest study.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn history(&self) -> Result<Vec<HistoryEntry>, StoreError> {
        let wrap = |error| self.wrap(error);
        let (study, _) = self.newest()?;
        let query =
            "SELECT trial, round, hash, predicted_cycles, measured_cycles, device, simulated,
             elapsed_ms, demoted FROM incumbent WHERE study = ?1 ORDER BY rowid";
        let mut statement = self.db.prepare(query).map_err(wrap)?;
        let entry = |row: &rusqlite::Row<'_>| {
            let hash: [u8; 32] = row.get(2)?;
            Ok(HistoryEntry {
                trial: row.get::<_, i64>(0)? as u64,
                round: row.get::<_, i64>(1)? as u64,
                candidate: crate::plan::RecipeHash(hash).to_string(),
                predicted_cycles: row.get(3)?,
                measured_cycles: row.get::<_, i64>(4)? as u64,
                device: row.get(5)?,
                simulated: row.get(6)?,
                elapsed_ms: row.get::<_, i64>(7)? as u64,
                demoted: row.get(8)?,
            })
        };
        let rows = statement.query_map([study], entry).map_err(wrap)?;
        rows.collect::<Result<_, _>>().map_err(wrap)
    }

    /// Where the newest study stands.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn summary(&self) -> Result<StudySummary, StoreError> {
        let wrap = |error| self.wrap(error);
        let (study, key) = self.newest()?;
        let counts = "SELECT number, trials FROM round WHERE study = ?1";
        let pair = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        let (rounds, trials) =
            self.db.query_row(counts, [study], pair).optional().map_err(wrap)?.unwrap_or((0, 0));
        let calibrations: i64 = self
            .db
            .query_row("SELECT count(*) FROM calibration WHERE study = ?1", [study], |row| {
                row.get(0)
            })
            .map_err(wrap)?;
        let query = "SELECT coalesce(failure_kind, 'ok'), count(*), min(failure) FROM candidate
             WHERE study = ?1 GROUP BY failure_kind ORDER BY failure_kind";
        let mut statement = self.db.prepare(query).map_err(wrap)?;
        let count = |row: &rusqlite::Row<'_>| {
            Ok(CandidateCounts {
                kind: row.get(0)?,
                count: row.get::<_, i64>(1)? as u64,
                example: row.get(2)?,
            })
        };
        let candidates = statement.query_map(params![study], count).map_err(wrap)?;
        let candidates = candidates.collect::<Result<_, _>>().map_err(wrap)?;
        let query = "SELECT happened || ' ' || name || ': ' || text FROM event WHERE study = ?1";
        let mut statement = self.db.prepare(query).map_err(wrap)?;
        let events = statement.query_map([study], |row| row.get(0)).map_err(wrap)?;
        let events = events.collect::<Result<_, _>>().map_err(wrap)?;
        Ok(StudySummary {
            study,
            model: key.model_name,
            model_hash: key.model_hash,
            tiles: key.tiles,
            seed: key.seed.unwrap_or(0),
            device: key.device,
            rounds: rounds as u64,
            trials: trials as u64,
            calibrations: calibrations as u64,
            candidates,
            events,
        })
    }
}
