//! The exclusive lock around every use of a device (`target/ipu21.md` §7.3, step 1).

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::DeviceError;

/// A held lock; released when dropped, or when its process dies.
#[derive(Debug)]
pub struct DeviceLock {
    _file: File,
}

/// The lock file that all users of one card agree on.
pub fn default_path() -> PathBuf {
    std::env::temp_dir().join("ipu-stack-device.lock")
}

impl DeviceLock {
    /// Takes the lock, waiting up to `patience` for another holder, or until `stop` is set.
    ///
    /// # Errors
    /// If the file cannot be opened, or somebody else keeps it; says who, if they wrote it down.
    pub fn take(
        path: &Path,
        patience: Duration,
        stop: &AtomicBool,
    ) -> Result<DeviceLock, DeviceError> {
        let failed = |what: String| DeviceError::Lock { path: path.display().to_string(), what };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(|error| failed(error.to_string()))?;
        let pause = Duration::from_millis(50);
        let mut waited = Duration::ZERO;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(failed(error.to_string())),
                Err(TryLockError::WouldBlock) if stop.load(Ordering::Relaxed) => {
                    return Err(DeviceError::Stopped);
                }
                Err(TryLockError::WouldBlock) if waited >= patience => {
                    let mut owner = String::new();
                    let _ = file.read_to_string(&mut owner);
                    return Err(failed(format!("held by process {}", owner.trim())));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(pause),
            }
            waited += pause;
        }
        // Who holds it is a courtesy to others: not being able to say so is no failure.
        let _ = file.set_len(0);
        let _ = file.rewind();
        let _ = writeln!(file, "{}", std::process::id());
        Ok(DeviceLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_holds_the_lock_and_the_other_is_told_who() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device.lock");
        let held = DeviceLock::take(&path, Duration::ZERO, &AtomicBool::new(false)).unwrap();
        let refused = DeviceLock::take(&path, Duration::ZERO, &AtomicBool::new(false))
            .unwrap_err()
            .to_string();
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        drop(held);
        DeviceLock::take(&path, Duration::ZERO, &AtomicBool::new(false)).unwrap();
    }
}
