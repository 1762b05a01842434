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
    /// Commits of the study when it was last read or written here; `None`: it had no state.
    commits: Option<i64>,
}

impl StudyJournal {
    pub(super) fn new(store: Store, study: i64) -> StudyJournal {
        StudyJournal { store, study, started: None, commits: None }
    }

    /// From when on times are counted in the history.
    pub fn count_from(&mut self, started: Instant) {
        self.started = Some(started);
    }

    fn read(&mut self) -> Result<Option<(State, Vec<RecipeHash>)>, StoreError> {
        let Some((state, commits)) = self.store.state(self.study)? else { return Ok(None) };
        self.commits = Some(commits);
        let wrap = |error| self.store.wrap(error);
        let db = &self.store.db;
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
        let query = "SELECT commits FROM round WHERE study = ?1";
        let found: Option<i64> =
            transaction.query_row(query, [study], |row| row.get(0)).optional().map_err(wrap)?;
        if found != self.commits {
            return Err(StoreError::Overtaken { path });
        }
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
        if let Some(demotion) = &commit.demoted {
            let update = "UPDATE incumbent SET demoted = ?3
                 WHERE study = ?1 AND hash = ?2 AND demoted IS NULL";
            let values = params![study, demotion.candidate.0, demotion.reason];
            transaction.execute(update, values).map_err(wrap)?;
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
        let commits = self.commits.map_or(0, |commits| commits + 1);
        let replace = "INSERT OR REPLACE INTO round (study, number, trials, state, commits)
             VALUES (?1, ?2, ?3, ?4, ?5)";
        let values = params![study, state.round as i64, state.trials as i64, text, commits];
        transaction.execute(replace, values).map_err(wrap)?;
        transaction.commit().map_err(wrap)?;
        self.commits = Some(commits);
        Ok(())
    }
}

impl Store {
    /// The state of a study and how often it was committed.
    pub(super) fn state(&self, study: i64) -> Result<Option<(State, i64)>, StoreError> {
        let query = "SELECT state, commits FROM round WHERE study = ?1";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
        let found = self.db.query_row(query, [study], row).optional();
        let Some((text, commits)) = found.map_err(|error| self.wrap(error))? else {
            return Ok(None);
        };
        let path = self.path.clone();
        let state = serde_json::from_str(&text).map_err(|source| StoreError::Record {
            path,
            what: "search state",
            source,
        })?;
        Ok(Some((state, commits)))
    }

    /// Gives the recipes of one study to a new one.
    pub(super) fn take_over(&self, old: i64, new: i64, why: &str) -> Result<(), StoreError> {
        let Some((state, _)) = self.state(old)? else { return Ok(()) };
        let state = state.successor();
        let text = serde_json::to_string(&state).map_err(|source| StoreError::Record {
            path: self.path.clone(),
            what: "search state",
            source,
        })?;
        let wrap = |error| self.wrap(error);
        let insert =
            "INSERT INTO round (study, number, trials, state, commits) VALUES (?1, 0, 0, ?2, 0)";
        self.db.execute(insert, params![new, text]).map_err(wrap)?;
        let count = state.warm.len();
        let text = format!("{count} recipes of study {old} to validate again; changed: {why}");
        let insert = "INSERT INTO event (study, name, text, happened)
             VALUES (?1, 'recipes taken over', ?2, datetime('now'))";
        self.db.execute(insert, params![new, text]).map_err(wrap)?;
        tracing::info!(recipes = count, changed = why, "validating recipes of the earlier study");
        Ok(())
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
