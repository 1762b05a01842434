//! Opening a database, and finding or making a study in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};

use super::error::StoreError;
use super::journal::StudyJournal;

/// Schema steps, oldest first; a database of version `n` has had the first `n`. Append only.
const STEPS: &[&str] = &[include_str!("schema/1.sql")];
/// Marks our databases: "IPUT".
const APPLICATION: i64 = 0x4950_5554;
/// How long a writer waits for another.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a study is a study of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyKey {
    /// Hash of the model.
    pub model_hash: String,
    /// Its name.
    pub model_name: String,
    /// Tiles.
    pub tiles: u16,
    /// Hash of the space.
    pub space_hash: String,
    /// Version of the evaluator.
    pub evaluator: String,
    /// Name of the device.
    pub device: String,
    /// Seed; `None`: that of the study, 0 for a new one.
    pub seed: Option<u64>,
}

/// An open database.
#[derive(Debug)]
pub struct Store {
    pub(super) db: Connection,
    pub(super) path: PathBuf,
}

impl Store {
    /// Opens a database to write, making it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be used; then it was not changed.
    pub fn create_or_open(path: &Path) -> Result<Store, StoreError> {
        check_place(path)?;
        if path.exists() {
            check_file(path)?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let wrap = |source| classify(path, source);
        let db = Connection::open_with_flags(path, flags).map_err(wrap)?;
        let mut store = Store { db, path: path.to_owned() };
        store.prepare()?;
        Ok(store)
    }

    /// Opens an existing database to read.
    ///
    /// # Errors
    /// If there is none, or it cannot be used.
    pub fn open_read_only(path: &Path) -> Result<Store, StoreError> {
        if !path.exists() {
            return Err(StoreError::Absent { path: path.to_owned() });
        }
        check_place(path)?;
        check_file(path)?;
        let wrap = |source| classify(path, source);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let db = Connection::open_with_flags(path, flags).map_err(wrap)?;
        db.busy_timeout(PATIENCE).map_err(wrap)?;
        let store = Store { db, path: path.to_owned() };
        store.check_version()?;
        Ok(store)
    }

    pub(super) fn wrap(&self, source: rusqlite::Error) -> StoreError {
        classify(&self.path, source)
    }

    fn pragma(&self, name: &str) -> Result<i64, StoreError> {
        self.db.pragma_query_value(None, name, |row| row.get(0)).map_err(|error| self.wrap(error))
    }

    /// Schema version found; 0 for an empty database.
    fn check_version(&self) -> Result<u32, StoreError> {
        let path = self.path.clone();
        let (application, found) =
            (self.pragma("application_id")?, self.pragma("user_version")? as u32);
        let known = STEPS.len() as u32;
        let tables: i64 = self
            .db
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(|error| self.wrap(error))?;
        if application != APPLICATION && tables > 0 {
            return Err(StoreError::Foreign {
                path,
                what: "its tables are another program's".to_owned(),
            });
        }
        if found > known {
            return Err(StoreError::Newer { path, found, known });
        }
        Ok(found)
    }

    /// Brings the schema up to date, wholly or not at all.
    fn prepare(&mut self) -> Result<(), StoreError> {
        let path = self.path.clone();
        let wrap = |source| classify(&path, source);
        self.db.busy_timeout(PATIENCE).map_err(wrap)?;
        // Before anything is written: a foreign or newer database stays as it is.
        let found = self.check_version()?;
        self.db.pragma_update(None, "foreign_keys", true).map_err(wrap)?;
        self.set_wal()?;
        self.db.pragma_update(None, "synchronous", "FULL").map_err(wrap)?;
        if found == STEPS.len() as u32 {
            return self.check_integrity();
        }
        let transaction =
            self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(wrap)?;
        // Another process may have been here first.
        let found: u32 =
            transaction.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(wrap)?;
        for step in &STEPS[found as usize..] {
            transaction.execute_batch(step).map_err(wrap)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION).map_err(wrap)?;
        transaction.pragma_update(None, "user_version", STEPS.len() as u32).map_err(wrap)?;
        transaction.commit().map_err(wrap)
    }

    /// Switching to WAL ignores the busy timeout where another process switches too: ask again.
    fn set_wal(&self) -> Result<(), StoreError> {
        let mut waited = Duration::ZERO;
        loop {
            match self.db.pragma_update(None, "journal_mode", "WAL") {
                Ok(()) => return Ok(()),
                Err(error) if waited < PATIENCE && is_busy(&error) => {
                    std::thread::sleep(Duration::from_millis(20));
                    waited += Duration::from_millis(20);
                }
                Err(error) => return Err(self.wrap(error)),
            }
        }
    }

    fn check_integrity(&self) -> Result<(), StoreError> {
        let answer: String = self
            .db
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| self.wrap(error))?;
        if answer == "ok" {
            return Ok(());
        }
        Err(StoreError::Corrupt { path: self.path.clone(), what: answer })
    }

    /// The newest study, if there is one: its id and key.
    pub(super) fn newest_study(&self) -> Result<Option<(i64, StudyKey)>, StoreError> {
        let query = "SELECT id, model_hash, model_name, tiles, space_hash, evaluator, device, seed
             FROM study ORDER BY id DESC LIMIT 1";
        let row = |row: &rusqlite::Row<'_>| {
            let key = StudyKey {
                model_hash: row.get(1)?,
                model_name: row.get(2)?,
                tiles: row.get(3)?,
                space_hash: row.get(4)?,
                evaluator: row.get(5)?,
                device: row.get(6)?,
                seed: Some(row.get::<_, i64>(7)? as u64),
            };
            Ok((row.get(0)?, key))
        };
        self.db.query_row(query, [], row).optional().map_err(|error| self.wrap(error))
    }

    /// The study to go on with, or a new one; the key with its seed decided.
    ///
    /// # Errors
    /// If the newest study is of something else and `fresh` does not ask for a new one.
    pub fn study(
        mut self,
        key: &StudyKey,
        fresh: bool,
    ) -> Result<(StudyJournal, StudyKey), StoreError> {
        let path = self.path.clone();
        let wrap = |source| classify(&path, source);
        let newest = self.newest_study()?;
        if let Some((id, found)) = newest.filter(|_| !fresh) {
            compare(&path, &found, key)?;
            let seed = found.seed;
            return Ok((StudyJournal::new(self, id), StudyKey { seed, ..key.clone() }));
        }
        let seed = key.seed.unwrap_or(0);
        let transaction =
            self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(wrap)?;
        // Another process may have made the same study a moment ago.
        let same: Option<i64> = if fresh {
            None
        } else {
            let query =
                "SELECT id FROM study WHERE model_hash = ?1 AND tiles = ?2 AND space_hash = ?3
                 AND evaluator = ?4 AND seed = ?5 ORDER BY id DESC LIMIT 1";
            let values =
                params![key.model_hash, key.tiles, key.space_hash, key.evaluator, seed as i64];
            transaction.query_row(query, values, |row| row.get(0)).optional().map_err(wrap)?
        };
        let id = match same {
            Some(id) => id,
            None => {
                let insert =
                    "INSERT INTO study (model_hash, model_name, tiles, space_hash, evaluator,
                     seed, device, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, datetime('now'))";
                let values = params![
                    key.model_hash,
                    key.model_name,
                    key.tiles,
                    key.space_hash,
                    key.evaluator,
                    seed as i64,
                    key.device
                ];
                transaction.execute(insert, values).map_err(wrap)?;
                transaction.last_insert_rowid()
            }
        };
        transaction.commit().map_err(wrap)?;
        Ok((StudyJournal::new(self, id), StudyKey { seed: Some(seed), ..key.clone() }))
    }
}

fn compare(path: &Path, found: &StudyKey, wanted: &StudyKey) -> Result<(), StoreError> {
    let seed = |key: &StudyKey| key.seed.unwrap_or(0).to_string();
    let fields = [
        ("model", found.model_hash.clone(), wanted.model_hash.clone()),
        ("number of tiles", found.tiles.to_string(), wanted.tiles.to_string()),
        ("space", found.space_hash.clone(), wanted.space_hash.clone()),
        ("evaluator version", found.evaluator.clone(), wanted.evaluator.clone()),
        ("device", found.device.clone(), wanted.device.clone()),
        ("seed", seed(found), wanted.seed.map_or(seed(found), |seed| seed.to_string())),
    ];
    for (what, found, wanted) in fields {
        if found != wanted {
            return Err(StoreError::OtherStudy { path: path.to_owned(), what, found, wanted });
        }
    }
    Ok(())
}

/// A place where a database can be.
fn check_place(path: &Path) -> Result<(), StoreError> {
    let refuse =
        |what: &str| Err(StoreError::Path { path: path.to_owned(), what: what.to_owned() });
    if path.is_dir() {
        return refuse("it is a folder");
    }
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            refuse("its folder does not exist")
        }
        _ => Ok(()),
    }
}

/// A file that SQLite may touch: an empty or foreign one stays untouched.
fn check_file(path: &Path) -> Result<(), StoreError> {
    use std::io::Read;
    let foreign = |what: &str| StoreError::Foreign { path: path.to_owned(), what: what.to_owned() };
    let metadata = std::fs::metadata(path)
        .map_err(|error| StoreError::Path { path: path.to_owned(), what: error.to_string() })?;
    if !metadata.is_file() {
        return Err(foreign("it is not a regular file"));
    }
    let mut head = [0; 16];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut head));
    match read {
        Err(error) => Err(StoreError::Path { path: path.to_owned(), what: error.to_string() }),
        // Empty while another process is creating it: its lock and the schema check decide.
        Ok(0) if has_journal(path) => Ok(()),
        Ok(0) => Err(foreign("it is empty")),
        Ok(_) if head.starts_with(b"SQLite format 3\0") => Ok(()),
        Ok(_) => Err(foreign("it is not an SQLite file")),
    }
}

/// Whether SQLite's files lie beside an empty one: somebody is making the database right now.
fn has_journal(path: &Path) -> bool {
    ["-wal", "-journal", "-shm"].iter().any(|ending| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        Path::new(&name).exists()
    })
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// SQLite's errors in our words.
pub(super) fn classify(path: &Path, source: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let what = source.to_string();
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { path },
        Some(
            ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::DiskFull,
        ) => StoreError::ReadOnly { path, what },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { path, what },
        Some(ErrorCode::NotADatabase) => StoreError::Foreign { path, what },
        _ => StoreError::Sqlite { path, source },
    }
}
