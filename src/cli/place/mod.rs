//! `ipu-tune place FILE…`: places rectangles or a tile's buffers and checks the addresses.

mod task;

use std::path::Path;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::package::save_together;
use crate::report;

use super::Exit;
use super::args::PlaceArgs;
use super::error::CliError;
use super::output::Output;
use super::paths::is_same;
use task::{Bytes, Shortage, Task, Verdict};

/// What came of a file.
struct Answer {
    verdict: Verdict,
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
        args.files.iter().map(|path| Task::read(path, args.capacity)).collect::<Result<_, _>>()?;
    refuse_overwriting(args)?;
    let mut rows = vec![];
    let mut unplaced = vec![];
    for task in &tasks {
        let answer = solve(task, args.nodes)?;
        if let Verdict::Placed(addresses) = &answer.verdict {
            write(task, addresses, args)?;
        }
        if output.json() {
            line(task, &answer, output)?;
        }
        rows.push(row(task, &answer));
        unplaced.extend(failure(task, &answer));
    }
    if !output.json() {
        let header = ["name", "outcome", "height", "capacity", "bound", "seconds", "checked"];
        output.text(&report::table(header, rows))?;
    }
    unplaced.iter().for_each(|error| output.error(error));
    Ok(unplaced.first().map_or(Exit::Success, CliError::exit))
}

/// What is written must not take the place of what was read, nor of each other.
fn refuse_overwriting(args: &PlaceArgs) -> Result<(), CliError> {
    let targets = [("--out", &args.out, "answer"), ("--svg", &args.svg, "picture")];
    for (option, path, instead) in targets {
        let Some(path) = path.clone() else { continue };
        if args.files.iter().any(|file| is_same(file, &path)) {
            return Err(CliError::Overwrites { option, path, what: "input", instead });
        }
        if option == "--svg" && args.out.as_deref().is_some_and(|out| is_same(out, &path)) {
            return Err(CliError::Overwrites { option, path, what: "file of `--out`", instead });
        }
    }
    Ok(())
}

/// Places a problem; an answer with addresses has been checked.
fn solve(task: &Task, nodes: u64) -> Result<Answer, CliError> {
    let started = now();
    let verdict = task.solve(nodes);
    let seconds = started.elapsed().as_secs_f64();
    if let Verdict::Placed(addresses) = &verdict
        && let Some(what) = task.violation(addresses)
    {
        return Err(CliError::WrongPlacement { path: task.path.clone(), what });
    }
    Ok(Answer { verdict, seconds })
}

/// Writes what is asked for: all of it, or nothing.
fn write(task: &Task, addresses: &[u32], args: &PlaceArgs) -> Result<(), CliError> {
    let out = args.out.as_deref().map(|path| (path, task.answer(addresses)));
    let svg = args.svg.as_deref().map(|path| (path, task.to_svg(addresses)));
    let texts: Vec<(&Path, String)> = out.into_iter().chain(svg).collect();
    let files: Vec<(&Path, &[u8])> =
        texts.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    Ok(save_together(&files)?)
}

impl Answer {
    fn name(&self) -> &'static str {
        match self.verdict {
            Verdict::Placed(_) => "placed",
            Verdict::Impossible(_) => "impossible",
            Verdict::Unknown { .. } => "unknown",
        }
    }

    fn height(&self, task: &Task) -> Option<u64> {
        match &self.verdict {
            Verdict::Placed(addresses) => Some(task.height(addresses)),
            Verdict::Impossible(_) | Verdict::Unknown { .. } => None,
        }
    }
}

fn line(task: &Task, answer: &Answer, output: &Output) -> Result<(), CliError> {
    let height = answer.height(task);
    let mut fields: Map<String, Value> = task.details(&answer.verdict);
    let figures = [
        ("format", json!("ipu-tune/place@1")),
        ("name", json!(task.name)),
        ("outcome", json!(answer.name())),
        ("height", json!(height)),
        ("capacity", json!(task.capacity())),
        ("bound", json!(task.fullest().1)),
        ("seconds", json!(answer.seconds)),
        ("checked", json!(height.is_some())),
    ];
    fields.extend(figures.map(|(name, value)| (name.to_owned(), value)));
    output.line(&fields)
}

fn row(task: &Task, answer: &Answer) -> [String; 7] {
    let height = answer.height(task);
    [
        task.name.clone(),
        answer.name().to_owned(),
        height.map_or("–".to_owned(), |height| height.to_string()),
        task.capacity().to_string(),
        task.fullest().1.to_string(),
        format!("{:.4}", answer.seconds),
        if height.is_some() { "yes" } else { "–" }.to_owned(),
    ]
}

/// Why there are no addresses.
fn failure(task: &Task, answer: &Answer) -> Option<CliError> {
    let capacity = task.capacity();
    let (fullest, live) = task.fullest();
    let memory = task.more_memory();
    let (what, hint) = match &answer.verdict {
        Verdict::Placed(_) => return None,
        Verdict::Impossible(shortage) => {
            (format!("impossible, {}", missing(shortage, capacity)), remedy(shortage, memory))
        }
        Verdict::Unknown { nodes } => (
            format!(
                "unknown, {nodes} nodes neither found nor ruled out a placement within {capacity} \
                 bytes, of which {live} live at step {fullest}"
            ),
            format!("more `--nodes`, or {memory}"),
        ),
    };
    Some(CliError::Unplaced { path: task.path.clone(), what, hint })
}

/// What would make the impossible possible.
fn remedy(shortage: &Shortage, memory: &str) -> String {
    let words = match shortage {
        Shortage { bytes: Bytes::Enough, .. } => "less in their `forbidden`, or fewer `aliases`",
        Shortage { blocks: Some(_), .. } => "fewer or smaller blocks, or a larger range for them",
        Shortage { buffer: Some(_), .. } => "a smaller buffer, or a larger range for it",
        Shortage { apart: Some(_), .. } => {
            "fewer pairs in `apart`, or `free` ranges in more memory elements"
        }
        _ => return format!("fewer or smaller buffers, or {memory}"),
    };
    words.to_owned()
}

/// Which bytes are missing where, or where the fewest are to spare.
fn missing(shortage: &Shortage, capacity: u64) -> String {
    let Shortage { step, region, bytes, buffer, blocks, apart } = shortage;
    let region = region.name();
    let buffer = buffer.as_deref().unwrap_or_default();
    match (bytes, blocks, apart) {
        (Bytes::Over(over), Some((count, bytes)), _) => format!(
            "the repeat of `{buffer}` takes {bytes} bytes from the first of its {count} blocks to the \
             last, {over} more than its largest place in {region} memory"
        ),
        (Bytes::Over(over), None, _) if !buffer.is_empty() => format!(
            "buffer `{buffer}` of step {step} is {over} bytes larger than its largest place in \
             {region} memory"
        ),
        (Bytes::Over(over), None, _) => {
            format!("{over} bytes more live in {region} memory at step {step} than it has free")
        }
        (Bytes::Enough, ..) => {
            format!("no address is legal for all buffers that have the one of `{buffer}`")
        }
        (Bytes::Spare(_), _, Some(Some([a, b]))) => format!(
            "`{a}` and `{b}` may share no memory element, and have no places in different ones within \
             {capacity} bytes"
        ),
        (Bytes::Spare(spare), _, Some(None)) => format!(
            "every placement within {capacity} bytes is ruled out by pairs that may share no memory \
             element: without `apart` there is one, and {spare} bytes are to spare in {region} memory \
             at step {step}"
        ),
        (Bytes::Spare(spare), _, None) => format!(
            "every placement within {capacity} bytes is ruled out, though none are missing: \
             {spare} are to spare in {region} memory at step {step}, and no fewer elsewhere"
        ),
    }
}

#[expect(clippy::disallowed_methods, reason = "the time that placing takes is what is shown")]
fn now() -> Instant {
    Instant::now()
}
