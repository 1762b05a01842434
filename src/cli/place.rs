//! `ipu-tune place FILE…`: places rectangles and checks the offsets.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use crate::package::save;
use crate::report;
use crate::storage::rectangles::{RectangleOutcome, Rectangles};

use super::Exit;
use super::args::PlaceArgs;
use super::error::CliError;
use super::output::Output;

/// A file's problem.
struct Task {
    path: PathBuf,
    name: String,
    capacity: u32,
    rectangles: Rectangles,
}

/// What came of it.
struct Answer {
    outcome: RectangleOutcome,
    seconds: f64,
}

/// Places, checks and writes.
pub(super) fn place(args: &PlaceArgs, output: &Output) -> Result<Exit, CliError> {
    for (option, given) in [("--out", &args.out), ("--svg", &args.svg)] {
        if given.is_some() && args.files.len() > 1 {
            return Err(CliError::OneFile { option, files: args.files.len() });
        }
    }
    let tasks: Vec<Task> =
        args.files.iter().map(|path| read(path, args.capacity)).collect::<Result<_, _>>()?;
    let mut rows = vec![];
    let mut unplaced = vec![];
    for task in &tasks {
        let answer = solve(task, args.nodes)?;
        if let RectangleOutcome::Placed(offsets) = &answer.outcome {
            write(task, offsets, args)?;
        }
        if output.json() {
            line(task, &answer, output)?;
        }
        rows.push(row(task, &answer));
        unplaced.extend(failure(task, &answer, args.nodes));
    }
    if !output.json() {
        let header = ["name", "outcome", "height", "capacity", "bound", "seconds", "checked"];
        output.text(&report::table(header, rows))?;
    }
    unplaced.iter().for_each(|error| output.error(error));
    Ok(unplaced.first().map_or(Exit::Success, CliError::exit))
}

fn read(path: &Path, capacity: Option<u32>) -> Result<Task, CliError> {
    let path = path.to_owned();
    let text = std::fs::read_to_string(&path)
        .map_err(|source| CliError::Unreadable { path: path.clone(), source })?;
    let rectangles = Rectangles::from_csv(&text)
        .map_err(|what| CliError::Rectangles { path: path.clone(), what })?;
    let (name, named) = named(&path);
    match capacity.or(named) {
        Some(capacity) => Ok(Task { path, name, capacity, rectangles }),
        None => Err(CliError::NoCapacity { path }),
    }
}

/// An instance's name, and its capacity if the file is called `NAME.CAPACITY.csv`.
fn named(path: &Path) -> (String, Option<u32>) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let parts = stem
        .rsplit_once('.')
        .and_then(|(name, number)| Some((name.to_owned(), number.parse::<u32>().ok()?)));
    match parts {
        Some((name, capacity)) => (name, Some(capacity)),
        None => (stem, None),
    }
}

/// Places a problem; an answer with offsets has been checked.
fn solve(task: &Task, nodes: u64) -> Result<Answer, CliError> {
    let started = now();
    let outcome = task.rectangles.place(task.capacity, nodes);
    let seconds = started.elapsed().as_secs_f64();
    if let RectangleOutcome::Placed(offsets) = &outcome
        && let Some(what) = task.rectangles.violation(task.capacity, offsets)
    {
        return Err(CliError::WrongPlacement { path: task.path.clone(), what });
    }
    Ok(Answer { outcome, seconds })
}

fn write(task: &Task, offsets: &[u32], args: &PlaceArgs) -> Result<(), CliError> {
    if let Some(path) = &args.out {
        save(path, task.rectangles.to_csv(offsets).as_bytes())?;
    }
    if let Some(path) = &args.svg {
        save(path, task.rectangles.to_svg(task.capacity, offsets).as_bytes())?;
    }
    Ok(())
}

impl Answer {
    fn name(&self) -> &'static str {
        match self.outcome {
            RectangleOutcome::Placed(_) => "placed",
            RectangleOutcome::Impossible => "impossible",
            RectangleOutcome::Unknown => "unknown",
        }
    }

    fn height(&self, task: &Task) -> Option<u64> {
        match &self.outcome {
            RectangleOutcome::Placed(offsets) => Some(task.rectangles.height(offsets)),
            RectangleOutcome::Impossible | RectangleOutcome::Unknown => None,
        }
    }
}

fn line(task: &Task, answer: &Answer, output: &Output) -> Result<(), CliError> {
    let height = answer.height(task);
    output.line(&json!({
        "format": "ipu-tune/place@1",
        "name": task.name,
        "outcome": answer.name(),
        "height": height,
        "capacity": task.capacity,
        "bound": task.rectangles.bound(),
        "seconds": answer.seconds,
        "checked": height.is_some(),
    }))
}

fn row(task: &Task, answer: &Answer) -> [String; 7] {
    let height = answer.height(task);
    [
        task.name.clone(),
        answer.name().to_owned(),
        height.map_or("–".to_owned(), |height| height.to_string()),
        task.capacity.to_string(),
        task.rectangles.bound().to_string(),
        format!("{:.4}", answer.seconds),
        if height.is_some() { "yes" } else { "–" }.to_owned(),
    ]
}

/// Why there are no offsets.
fn failure(task: &Task, answer: &Answer, nodes: u64) -> Option<CliError> {
    let capacity = task.capacity;
    let (step, live) = task.rectangles.fullest();
    let (what, hint) = match answer.outcome {
        RectangleOutcome::Placed(_) => return None,
        RectangleOutcome::Impossible if live > u64::from(capacity) => {
            let over = live - u64::from(capacity);
            (
                format!(
                    "impossible, {live} bytes live at step {step}, {over} more than {capacity}"
                ),
                "a larger `--capacity`, or smaller buffers at that step",
            )
        }
        RectangleOutcome::Impossible => (
            format!("impossible, every placement within {capacity} bytes is ruled out"),
            "a larger `--capacity`",
        ),
        RectangleOutcome::Unknown => (
            format!(
                "unknown, {nodes} nodes neither found nor ruled out a placement within {capacity} \
                 bytes, of which {live} live at step {step}"
            ),
            "more `--nodes`, or a larger `--capacity`",
        ),
    };
    Some(CliError::Unplaced { path: task.path.clone(), what, hint })
}

#[expect(clippy::disallowed_methods, reason = "the time that placing takes is what is shown")]
fn now() -> Instant {
    Instant::now()
}
