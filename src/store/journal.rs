//! A study as the engine's journal.

use std::time::Instant;

use rusqlite::{OptionalExtension, TransactionBehavior, params};

use crate::plan::RecipeHash;
use crate::search::journal::{Commit, Journal, JournalError};
use crate::search::state::State;

use super::error::StoreError;
use super::open::{Store, classify};

/// One study, open to write.
#[derive(Debug)]
pub struct StudyJournal {
    store: Store,
    study: i64,
    started: Option<Instant>,
}

impl StudyJournal {
    pub(super) fn new(store: Store, study: i64) -> StudyJournal {
        StudyJournal { store, study, started: None }
    }

    /// From when on times are counted in the history.
    pub fn count_from(&mut self, started: Instant) {
        self.started = Some(started);
    }

    fn read(&self) -> Result<Option<(State, Vec<RecipeHash>)>, StoreError> {
        let wrap = |error| self.store.wrap(error);
        let db = &self.store.db;
        let query = "SELECT state FROM round WHERE study = ?1";
        let text: Option<String> =
            db.query_row(query, [self.study], |row| row.get(0)).optional().map_err(wrap)?;
        let Some(text) = text else { return Ok(None) };
        let state = serde_json::from_str(&text).map_err(|source| StoreError::Record {
            path: self.store.path.clone(),
            what: "search state",
            source,
        })?;
        let mut statement = db
            .prepare("SELECT hash FROM candidate WHERE study = ?1 ORDER BY trial")
            .map_err(wrap)?;
        let hashes =
            statement.query_map([self.study], |row| row.get::<_, [u8; 32]>(0)).map_err(wrap)?;
        let hashes: Result<Vec<RecipeHash>, _> = hashes.map(|hash| hash.map(RecipeHash)).collect();
        Ok(Some((state, hashes.map_err(wrap)?)))
    }

    fn write(&mut self, state: &State, commit: &Commit) -> Result<(), StoreError> {
        let path = self.store.path.clone();
        let wrap = |source| classify(&path, source);
        let record = |what| {
            let path = path.clone();
            move |source| StoreError::Record { path, what, source }
        };
        let (study, elapsed) =
            (self.study, self.started.map_or(0, |s| s.elapsed().as_millis() as i64));
        let db = &mut self.store.db;
        let transaction =
            db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(wrap)?;
        for candidate in &commit.candidates {
            let failure = candidate.failure.as_ref();
            let text = failure.map(serde_json::to_string).transpose().map_err(record("failure"))?;
            let insert = "INSERT INTO candidate (study, trial, hash, recipe, predicted_cycles,
                 failure_kind, failure) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let values = params![
                study,
                candidate.trial as i64,
                candidate.recipe.hash().0,
                candidate.recipe.to_json(),
                candidate.predicted_cycles,
                failure.map(|failure| failure.kind()),
                text
            ];
            transaction.execute(insert, values).map_err(wrap)?;
        }
        for incumbent in &commit.incumbents {
            let insert = "INSERT INTO incumbent (study, trial, round, hash, predicted_cycles,
                 measured_cycles, device, simulated, minimum_cosine, elapsed_ms, found)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, datetime('now'))";
            let values = params![
                study,
                incumbent.trial as i64,
                incumbent.round as i64,
                incumbent.recipe.hash().0,
                incumbent.predicted_cycles,
                incumbent.measured_cycles as i64,
                incumbent.device.name,
                incumbent.device.simulated,
                incumbent.numerics.minimum_cosine,
                elapsed
            ];
            transaction.execute(insert, values).map_err(wrap)?;
        }
        for measurement in &commit.measurements {
            let insert = "INSERT INTO measurement (study, candidate, device, simulated, cycles,
                 predicted_cycles, calibration, taken)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, datetime('now'))";
            let values = params![
                study,
                measurement.candidate,
                measurement.device,
                measurement.simulated,
                measurement.cycles as i64,
                measurement.predicted_cycles,
                measurement.calibration
            ];
            transaction.execute(insert, values).map_err(wrap)?;
        }
        if let Some(calibration) = &commit.calibration {
            let text = serde_json::to_string(calibration).map_err(record("calibration"))?;
            let insert = "INSERT INTO calibration (study, version, record) VALUES (?1, ?2, ?3)";
            transaction.execute(insert, params![study, calibration.version, text]).map_err(wrap)?;
        }
        for (name, text) in &commit.events {
            let insert = "INSERT INTO event (study, name, text, happened) VALUES (?1, ?2, ?3, datetime('now'))";
            transaction.execute(insert, params![study, name, text]).map_err(wrap)?;
        }
        let text = serde_json::to_string(state).map_err(record("search state"))?;
        let replace = "INSERT INTO round (study, number, trials, state) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (study) DO UPDATE SET number = ?2, trials = ?3, state = ?4";
        let values = params![study, state.round as i64, state.trials as i64, text];
        transaction.execute(replace, values).map_err(wrap)?;
        transaction.commit().map_err(wrap)
    }
}

impl Journal for StudyJournal {
    fn load(&mut self) -> Result<Option<(State, Vec<RecipeHash>)>, JournalError> {
        self.read().map_err(|error| JournalError(Box::new(error)))
    }

    fn commit(&mut self, state: &State, commit: &Commit) -> Result<(), JournalError> {
        self.write(state, commit).map_err(|error| JournalError(Box::new(error)))
    }
}
