//! Opening a database, and finding or making a study in it.

use std::fs::File;
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

/// How to go on with a database that has a study already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Go on with the newest study. If space, evaluator or device are others now, a new study takes
    /// over its recipes, and every figure is earned again.
    Resume,
    /// A new study that knows nothing of the old ones.
    Fresh,
    /// A new study that takes over the newest one's recipes, whatever has changed.
    WarmStart,
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
        if !path.exists() {
            refuse_leftovers(path)?;
            Store::create(path)?;
        }
        check_file(path)?;
        let wrap = |source| classify(path, source);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let db = Connection::open_with_flags(path, flags).map_err(wrap)?;
        let mut store = Store { db, path: path.to_owned() };
        store.prepare()?;
        Ok(store)
    }

    /// Makes a database aside and puts it in place whole: neither a kill nor another process ever
    /// finds half of one.
    fn create(path: &Path) -> Result<(), StoreError> {
        let refuse = |error: std::io::Error| StoreError::ReadOnly {
            path: path.to_owned(),
            what: error.to_string(),
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let aside = tempfile::Builder::new()
            .prefix(".tune.db-")
            .permissions(permissions())
            .tempfile_in(folder)
            .map_err(refuse)?;
        let db = Connection::open(aside.path()).map_err(|source| classify(path, source))?;
        let mut store = Store { db, path: path.to_owned() };
        store.prepare()?;
        // The last connection that closes takes the write-ahead log with it.
        store.db.close().map_err(|(_, source)| classify(path, source))?;
        aside.as_file().sync_all().map_err(refuse)?;
        match aside.persist_noclobber(path) {
            // The name itself must survive a power cut too.
            Ok(_) => File::open(folder).and_then(|folder| folder.sync_all()).map_err(refuse),
            // Another process was first.
            Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(refuse(error.error)),
        }
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
    /// If the newest study is of another model, seed or number of tiles, and `beginning` asks to
    /// resume.
    pub fn study(
        self,
        key: &StudyKey,
        beginning: Beginning,
    ) -> Result<(StudyJournal, StudyKey), StoreError> {
        let path = self.path.clone();
        let wrap = |source| classify(&path, source);
        // Under the write lock, so that no other process makes the same study meanwhile.
        self.db.execute_batch("BEGIN IMMEDIATE").map_err(wrap)?;
        let chosen = self.choose(key, beginning);
        let end = if chosen.is_ok() { "COMMIT" } else { "ROLLBACK" };
        self.db.execute_batch(end).map_err(wrap)?;
        let (id, key) = chosen?;
        Ok((StudyJournal::new(self, id), key))
    }

    /// The study of [`Store::study`], inside its transaction.
    fn choose(&self, key: &StudyKey, beginning: Beginning) -> Result<(i64, StudyKey), StoreError> {
        let newest = self.newest_study()?;
        let Some((old, found)) = newest.filter(|_| beginning != Beginning::Fresh) else {
            let key = StudyKey { seed: Some(key.seed.unwrap_or(0)), ..key.clone() };
            return Ok((self.insert_study(&key)?, key));
        };
        if beginning == Beginning::Resume {
            refuse_others(&self.path, &found, key)?;
        }
        let key = StudyKey { seed: key.seed.or(found.seed), ..key.clone() };
        let changed = changes(&found, &key);
        if beginning == Beginning::Resume && changed.is_empty() {
            return Ok((old, key));
        }
        let new = self.insert_study(&key)?;
        self.take_over(old, new, &changed.join(", "))?;
        Ok((new, key))
    }

    fn insert_study(&self, key: &StudyKey) -> Result<i64, StoreError> {
        let insert = "INSERT INTO study (model_hash, model_name, tiles, space_hash, evaluator,
             seed, device, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, datetime('now'))";
        let seed = key.seed.unwrap_or(0) as i64;
        let StudyKey { model_hash, model_name, tiles, space_hash, evaluator, device, .. } = key;
        let values = params![model_hash, model_name, tiles, space_hash, evaluator, seed, device];
        self.db.execute(insert, values).map_err(|error| self.wrap(error))?;
        Ok(self.db.last_insert_rowid())
    }
}

/// What a study cannot go on without.
fn refuse_others(path: &Path, found: &StudyKey, wanted: &StudyKey) -> Result<(), StoreError> {
    let seed = |key: &StudyKey| key.seed.unwrap_or(0).to_string();
    let fields = [
        ("model", found.model_hash.clone(), wanted.model_hash.clone()),
        ("number of tiles", found.tiles.to_string(), wanted.tiles.to_string()),
        ("seed", seed(found), wanted.seed.map_or(seed(found), |seed| seed.to_string())),
    ];
    for (what, found, wanted) in fields {
        if found != wanted {
            return Err(StoreError::OtherStudy { path: path.to_owned(), what, found, wanted });
        }
    }
    Ok(())
}

/// What changed that makes every figure worthless, but no recipe.
fn changes(found: &StudyKey, wanted: &StudyKey) -> Vec<&'static str> {
    let fields = [
        ("space", &found.space_hash, &wanted.space_hash),
        ("evaluator", &found.evaluator, &wanted.evaluator),
        ("device", &found.device, &wanted.device),
    ];
    fields.iter().filter(|(_, old, new)| old != new).map(|(what, _, _)| *what).collect()
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

/// A log that an earlier database left behind would be replayed into a new one.
fn refuse_leftovers(path: &Path) -> Result<(), StoreError> {
    for ending in ["-wal", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        let log = PathBuf::from(name);
        // Another process may have made the database, and then its log, a moment ago.
        if log.exists() && !path.exists() {
            return Err(StoreError::Leftover { path: path.to_owned(), log });
        }
    }
    Ok(())
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
    let read = File::open(path).and_then(|mut file| file.read(&mut head));
    match read {
        Err(error) => Err(StoreError::Path { path: path.to_owned(), what: error.to_string() }),
        Ok(0) => Err(foreign("it is empty")),
        Ok(_) if head.starts_with(b"SQLite format 3\0") => Ok(()),
        Ok(_) => Err(foreign("it is not an SQLite file")),
    }
}

/// What a new file may be used for, before the user's mask.
fn permissions() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    std::fs::Permissions::from_mode(0o666)
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
