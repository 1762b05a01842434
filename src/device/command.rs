//! An external runner: a command that loads a package on a real card and reports what happened.
//!
//! The command line is a template: `{package}`, `{weights}`, `{inputs}` and `{outputs}` become paths
//! of files in a fresh folder. The runner reads the first three, writes the output bindings' bytes
//! (without profile samples) to the fourth, and prints one line of JSON on standard output:
//!
//! ```json
//! {"cycles": [187842, 187836], "device": "c600-0"}
//! ```
//!
//! or `{"error": "what happened", "transient": true}`. It runs in a process group of its own under
//! an exclusive device lock; after the time limit the whole group is killed. Transient errors are
//! tried again.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use crate::package::{Application, write};

use super::lock::DeviceLock;
use super::{Device, DeviceError, HostData, Identity, Measurement};

/// Bytes of an answer that are read; more is no answer.
const MOST_ANSWER: u64 = 1 << 20;

/// A runner and how to use it.
#[derive(Clone, Debug)]
pub struct CommandDevice {
    /// Program and arguments with placeholders, separated by spaces.
    pub template: String,
    /// Limit of one run.
    pub timeout: Duration,
    /// How often a transient error is tried again.
    pub retries: u32,
    /// The lock file.
    pub lock: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    cycles: Option<Vec<u64>>,
    device: Option<String>,
    error: Option<String>,
    #[serde(default)]
    transient: bool,
}

impl CommandDevice {
    /// A runner with ten minutes a run and two retries.
    pub fn new(template: &str) -> CommandDevice {
        CommandDevice {
            template: template.to_owned(),
            timeout: Duration::from_secs(600),
            retries: 2,
            lock: super::lock::default_path(),
        }
    }

    fn once(&self, application: &Application, data: &HostData) -> Result<Measurement, DeviceError> {
        let runner = self.template.clone();
        let failed =
            |what: String| DeviceError::Failed { runner: runner.clone(), what, transient: false };
        let folder = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
        let file = |name: &str| folder.path().join(name);
        let inputs = [
            ("package.ipuexe", write(application)),
            ("weights.bin", data.weights.clone()),
            ("inputs.bin", data.inputs.clone()),
        ];
        for (name, bytes) in inputs {
            std::fs::write(file(name), bytes).map_err(|error| failed(error.to_string()))?;
        }
        let line = self.run(folder.path())?;
        let answer: Answer = serde_json::from_str(line.trim())
            .map_err(|error| self.senseless(format!("{error} in {line:.200?}")))?;
        if let Some(what) = answer.error {
            return Err(DeviceError::Failed { runner, what, transient: answer.transient });
        }
        let cycles = answer.cycles.unwrap_or_default();
        if cycles.is_empty() || cycles.iter().any(|c| *c == 0 || *c > 1 << 48) {
            return Err(self.senseless(format!("cycles {cycles:?}")));
        }
        let outputs = std::fs::read(file("outputs.bin"))
            .map_err(|error| self.senseless(format!("no outputs: {error}")))?;
        let name = format!("command:{}", answer.device.as_deref().unwrap_or(&self.template));
        let device = Identity { name, simulated: false };
        Ok(Measurement { cycles, outputs, steps: vec![], device })
    }

    fn senseless(&self, what: String) -> DeviceError {
        DeviceError::Answer { runner: self.template.clone(), what }
    }

    /// Runs the command in a folder and returns the first line that it printed.
    fn run(&self, folder: &Path) -> Result<String, DeviceError> {
        let path = |name: &str| folder.join(name).display().to_string();
        let filled = |word: &str| {
            word.replace("{package}", &path("package.ipuexe"))
                .replace("{weights}", &path("weights.bin"))
                .replace("{inputs}", &path("inputs.bin"))
                .replace("{outputs}", &path("outputs.bin"))
        };
        let words: Vec<String> = self.template.split_whitespace().map(filled).collect();
        let (program, arguments) = words
            .split_first()
            .ok_or_else(|| self.senseless("the runner's command line is empty".to_owned()))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|source| DeviceError::Start { runner: self.template.clone(), source })?;
        let reader = child.stdout.take().map(|out| {
            std::thread::spawn(move || {
                let mut bytes = vec![];
                let _ = out.take(MOST_ANSWER + 1).read_to_end(&mut bytes);
                bytes
            })
        });
        let status = self.wait(&mut child);
        // Whatever the runner started must not outlive it, nor keep its output open.
        kill_group(&child);
        let status = status?;
        let bytes = reader.and_then(|thread| thread.join().ok()).unwrap_or_default();
        if bytes.len() as u64 > MOST_ANSWER {
            return Err(self.senseless(format!("more than {MOST_ANSWER} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|_| self.senseless("not UTF-8".to_owned()))?;
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        match (status.success(), lines.as_slice()) {
            (_, [line]) => Ok((*line).to_owned()),
            (false, _) => Err(DeviceError::Failed {
                runner: self.template.clone(),
                what: format!("{status}"),
                transient: false,
            }),
            (true, lines) => Err(self.senseless(format!("{} lines, expected one", lines.len()))),
        }
    }

    fn wait(&self, child: &mut Child) -> Result<std::process::ExitStatus, DeviceError> {
        let pause = Duration::from_millis(10);
        let mut waited = Duration::ZERO;
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if waited >= self.timeout => {
                    kill_group(child);
                    let _ = child.wait();
                    let seconds = self.timeout.as_secs();
                    return Err(DeviceError::TimedOut { runner: self.template.clone(), seconds });
                }
                Ok(None) => std::thread::sleep(pause),
                Err(error) => return Err(self.senseless(error.to_string())),
            }
            waited += pause;
        }
    }
}

/// Kills the runner and everything in its process group.
fn kill_group(child: &Child) {
    if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
        // The group may be gone already, which is what is wanted.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

impl Device for CommandDevice {
    fn identity(&self) -> Identity {
        Identity { name: format!("command:{}", self.template), simulated: false }
    }

    fn measure(
        &self,
        application: &Application,
        data: &HostData,
    ) -> Result<Measurement, DeviceError> {
        let _lock = DeviceLock::take(&self.lock, self.timeout)?;
        let mut result = self.once(application, data);
        for _ in 0..self.retries {
            match &result {
                Err(error) if error.is_transient() => result = self.once(application, data),
                _ => break,
            }
        }
        result
    }
}
