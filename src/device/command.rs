//! An external runner: a command that loads a package on a real card and reports what happened.
//!
//! The command line is a template of words separated by spaces; `'…'` and `"…"` keep spaces in a
//! word. `{package}`, `{weights}`, `{inputs}`, `{outputs}` and `{profile}` become paths of files in a
//! fresh folder. The runner reads the first three, writes the output bindings' bytes (without
//! profile samples) to the fourth, may write a profile (`target/ipu21.md` §7.2) of the first repeat to
//! the fifth, and prints one line of JSON on standard output:
//!
//! ```json
//! {"cycles": [187842, 187836], "device": "c600-0"}
//! ```
//!
//! or `{"error": "what happened", "transient": true}`. Anything else is one clear failure: another
//! status than 0 without an `error`, no line or several, a line over a mebibyte, figures that are not
//! positive integers, outputs of another size than the package's.
//!
//! It runs in a process group of its own under an exclusive device lock; after the time limit, and
//! after its end, the whole group is killed. Transient errors are tried again.

use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::package::{Application, StepKind, TileProfile, read_profile, write};

use super::lock::DeviceLock;
use super::{Device, DeviceError, HostData, Identity, Measurement, StepCycles, placements};

/// Bytes of an answer that are read; more is no answer.
const MOST_ANSWER: u64 = 1 << 20;
/// Bytes of complaints on standard error that are kept for the message.
const MOST_COMPLAINTS: usize = 500;
/// Bytes of a profile that are read.
const MOST_PROFILE: u64 = 1 << 30;
/// Repeats that an answer may have.
const MOST_REPEATS: usize = 100_000;
/// How long output may stay open after the runner's group was killed.
const PATIENCE: Duration = Duration::from_secs(2);

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

    fn once(
        &self,
        application: &Application,
        data: &HostData,
        stop: &AtomicBool,
    ) -> Result<Measurement, DeviceError> {
        let failed = |error: std::io::Error| self.failed(error.to_string(), false);
        let folder = tempfile::tempdir().map_err(failed)?;
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("package.ipuexe"), write(application)).map_err(failed)?;
        std::fs::write(file("weights.bin"), &data.weights).map_err(failed)?;
        std::fs::write(file("inputs.bin"), &data.inputs).map_err(failed)?;
        let (cycles, device) = self.answer(&self.run(folder.path(), stop)?)?;
        let places = placements(&application.outputs);
        let size = places.iter().map(|(_, _, range)| range.end as u64).max().unwrap_or(0);
        let outputs = self.outputs(&file("outputs.bin"), size)?;
        let steps = self.steps(&file("profile.bin"))?;
        let name = format!("command:{}", device.as_deref().unwrap_or(&self.template));
        Ok(Measurement { cycles, outputs, steps, device: Identity { name, simulated: false } })
    }

    /// Cycles and device of a line that the runner printed.
    fn answer(&self, line: &str) -> Result<(Vec<u64>, Option<String>), DeviceError> {
        let answer: Answer = serde_json::from_str(line.trim()).map_err(|error| {
            let shown: String = line.chars().take(200).collect();
            self.senseless(format!("{error} in {shown:?}"))
        })?;
        if let Some(what) = answer.error {
            return Err(self.failed(what, answer.transient));
        }
        let cycles = answer.cycles.unwrap_or_default();
        if cycles.is_empty() || cycles.len() > MOST_REPEATS {
            return Err(self.senseless(format!("{} cycle counts", cycles.len())));
        }
        match cycles.iter().find(|count| **count == 0 || **count > 1 << 48) {
            Some(count) => Err(self.senseless(format!("a run of {count} cycles"))),
            None => Ok((cycles, answer.device)),
        }
    }

    fn outputs(&self, path: &Path, size: u64) -> Result<Vec<u8>, DeviceError> {
        // One byte more tells a file that is too long without reading all of it.
        let bytes = read_at_most(path, size + 1)
            .map_err(|error| self.senseless(format!("no outputs: {error}")))?;
        if bytes.len() as u64 == size {
            return Ok(bytes);
        }
        let found = if bytes.len() as u64 > size { "more" } else { "fewer" };
        Err(self.senseless(format!("{found} output bytes than {size}")))
    }

    /// Steps of the profile, if the runner wrote one.
    fn steps(&self, path: &Path) -> Result<Vec<StepCycles>, DeviceError> {
        if !path.exists() {
            return Ok(vec![]);
        }
        let broken = |what: String| self.senseless(format!("the profile: {what}"));
        let bytes = read_at_most(path, MOST_PROFILE).map_err(|error| broken(error.to_string()))?;
        let profile = read_profile(&bytes).map_err(|error| broken(error.to_string()))?;
        steps_of(&profile.tiles)
            .ok_or_else(|| broken("the tiles have not the same steps".to_owned()))
    }

    fn senseless(&self, what: String) -> DeviceError {
        DeviceError::Answer { runner: self.template.clone(), what }
    }

    fn failed(&self, what: String, transient: bool) -> DeviceError {
        DeviceError::Failed { runner: self.template.clone(), what, transient }
    }

    /// The command line for a folder.
    fn words(&self, folder: &Path) -> Result<Vec<String>, DeviceError> {
        let words = split(&self.template).ok_or_else(|| {
            self.senseless("the runner's command line has an open quote".to_owned())
        })?;
        let files = [
            ("{package}", "package.ipuexe"),
            ("{weights}", "weights.bin"),
            ("{inputs}", "inputs.bin"),
            ("{outputs}", "outputs.bin"),
            ("{profile}", "profile.bin"),
        ];
        let filled = |word: String| {
            files.iter().fold(word, |word, (mark, file)| {
                word.replace(mark, &folder.join(file).display().to_string())
            })
        };
        Ok(words.into_iter().map(filled).collect())
    }

    /// Runs the command in a folder and returns the line that it printed.
    fn run(&self, folder: &Path, stop: &AtomicBool) -> Result<String, DeviceError> {
        let words = self.words(folder)?;
        let (program, arguments) = words
            .split_first()
            .ok_or_else(|| self.senseless("the runner's command line is empty".to_owned()))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| DeviceError::Start { runner: self.template.clone(), source })?;
        let answer = child.stdout.take().map(|out| collect(out, MOST_ANSWER as usize + 1));
        let complaints = child.stderr.take().map(|out| collect(out, MOST_COMPLAINTS));
        let status = self.wait(&mut child, stop);
        // Whatever the runner started must not outlive it, nor keep its output open.
        kill_group(&child);
        let status = status?;
        // A process that left the group may still hold the output: no answer is waited for long.
        let bytes =
            answer.and_then(|bytes| bytes.recv_timeout(PATIENCE).ok()).ok_or_else(|| {
                self.senseless("something that it started keeps its output open".to_owned())
            })?;
        if bytes.len() as u64 > MOST_ANSWER {
            return Err(self.senseless(format!("more than {MOST_ANSWER} bytes")));
        }
        let complaints = complaints.and_then(|bytes| bytes.recv_timeout(PATIENCE).ok());
        let complaints = String::from_utf8_lossy(&complaints.unwrap_or_default()).trim().to_owned();
        let text = String::from_utf8(bytes).map_err(|_| self.senseless("not UTF-8".to_owned()))?;
        self.line(&text, status, &complaints)
    }

    /// The only line of an answer. A runner that fails may say why in its line, but not measure.
    fn line(
        &self,
        text: &str,
        status: ExitStatus,
        complaints: &str,
    ) -> Result<String, DeviceError> {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let said = if complaints.is_empty() { String::new() } else { format!(": {complaints}") };
        match lines.as_slice() {
            [line] if status.success() || says_error(line) => Ok((*line).to_owned()),
            _ if !status.success() => Err(self.failed(format!("{status}{said}"), false)),
            lines => Err(self.senseless(format!("{} lines, expected one{said}", lines.len()))),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a time limit is about the wall's time")]
    fn wait(&self, child: &mut Child, stop: &AtomicBool) -> Result<ExitStatus, DeviceError> {
        let begun = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if stop.load(Ordering::Relaxed) => {
                    kill_group(child);
                    let _ = child.wait();
                    return Err(DeviceError::Stopped);
                }
                Ok(None) if begun.elapsed() >= self.timeout => {
                    kill_group(child);
                    let _ = child.wait();
                    let seconds = self.timeout.as_secs();
                    return Err(DeviceError::TimedOut { runner: self.template.clone(), seconds });
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                Err(error) => {
                    kill_group(child);
                    return Err(self.failed(error.to_string(), false));
                }
            }
        }
    }
}

fn says_error(line: &str) -> bool {
    serde_json::from_str::<Answer>(line.trim()).is_ok_and(|answer| answer.error.is_some())
}

fn read_at_most(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![];
    std::fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a pipe to its end in a thread of its own, so that the writer never waits, and hands over
/// its first bytes.
fn collect(mut pipe: impl Read + Send + 'static, most: usize) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (mut kept, mut buffer) = (vec![], [0; 8192]);
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            let wanted = count.min(most - kept.len());
            kept.extend_from_slice(&buffer[..wanted]);
        }
        // Nobody listens any more if the runner took too long.
        let _ = sender.send(kept);
    });
    receiver
}

/// Words of a command line; `None` if a quote stays open.
fn split(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (vec![], None::<String>, None);
    for c in line.chars() {
        let step = match (quote, c) {
            (Some(open), c) if c == open => ControlFlow::Break(None),
            (None, '\'' | '"') => ControlFlow::Break(Some(c)),
            (None, c) if c.is_whitespace() => {
                words.extend(word.take());
                continue;
            }
            _ => ControlFlow::Continue(()),
        };
        let word = word.get_or_insert_default();
        match step {
            ControlFlow::Break(now) => quote = now,
            ControlFlow::Continue(()) => word.push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// Time of every step from the tiles' samples: from the last tile's begin to the last one's end.
/// Counters are 32 bits and wrap; `None` if tiles differ in their steps.
fn steps_of(tiles: &[TileProfile]) -> Option<Vec<StepCycles>> {
    let Some(first) = tiles.first() else {
        return Some(vec![]);
    };
    let origins = tiles.iter().filter_map(|tile| tile.samples.first()).map(|s| s.start_cycle);
    let Some(reference) = origins.clone().next() else {
        return Some(vec![]);
    };
    // Tiles begin within far less than half a turn of the counter.
    let before = |cycle: u32| (reference.wrapping_sub(cycle)) as i32;
    let origin = origins.max_by_key(|cycle| before(*cycle))?;
    let timed = |kind: StepKind| matches!(kind, StepKind::Exchange | StepKind::Compute);
    let indices = (0..first.samples.len()).filter(|at| timed(first.samples[*at].step.kind));
    if tiles.iter().any(|tile| tile.samples.len() != first.samples.len()) {
        return None;
    }
    let latest = |cycles: &dyn Fn(&TileProfile) -> u32| {
        tiles.iter().map(|tile| u64::from(cycles(tile).wrapping_sub(origin))).max().unwrap_or(0)
    };
    let step = |at: usize| StepCycles {
        arrival: latest(&|tile| tile.samples[at].start_cycle),
        end: latest(&|tile| tile.samples[at].end_cycle),
    };
    Some(indices.map(step).collect())
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
        stop: &AtomicBool,
    ) -> Result<Measurement, DeviceError> {
        let _lock = DeviceLock::take(&self.lock, self.timeout, stop)?;
        let mut result = self.once(application, data, stop);
        for _ in 0..self.retries {
            match &result {
                Err(error) if error.is_transient() => result = self.once(application, data, stop),
                _ => break,
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::package::{CycleSample, Step};

    use super::*;

    #[test]
    fn quotes_keep_spaces() {
        assert_eq!(split("run  --to {outputs}").unwrap(), ["run", "--to", "{outputs}"]);
        assert_eq!(split("'my runner' \"it's\" a''b ''").unwrap(), ["my runner", "it's", "ab", ""]);
        assert_eq!(split(" ").unwrap(), Vec::<String>::new());
        assert_eq!(split("run 'open"), None);
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(words in prop::collection::vec("[^']{0,9}", 0..5)) {
            let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(split(&line), Some(words));
        }

        /// Where the counters stand when a program begins changes nothing.
        #[test]
        fn step_times_do_not_know_the_counter(base: u32, gaps in prop::collection::vec(1u32..9000, 3)) {
            let sample = |start: u32, end: u32| CycleSample {
                step: Step { kind: StepKind::Compute, ..Step::default() },
                start_cycle: base.wrapping_add(start),
                end_cycle: base.wrapping_add(end),
            };
            let (a, b, c) = (gaps[0], gaps[0] + gaps[1], gaps[0] + gaps[1] + gaps[2]);
            let tiles = [
                TileProfile { physical_tile: 0, samples: vec![sample(0, a), sample(a, c)] },
                TileProfile { physical_tile: 1, samples: vec![sample(1, b), sample(b, b)] },
            ];
            let found = steps_of(&tiles).unwrap();
            let wanted = [(1, b), (b, c)];
            let wanted: Vec<StepCycles> = wanted
                .iter()
                .map(|(arrival, end)| StepCycles { arrival: (*arrival).into(), end: (*end).into() })
                .collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
