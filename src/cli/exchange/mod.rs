//! `ipu-tune exchange FILE…`: schedules single phases and checks them.

mod places;
mod replay;

use std::path::Path;
use std::time::Instant;

use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;

use crate::exchange::instance::{self, Instance};
use crate::exchange::{Base, Effort, ExchangeError, Options, Row, Scheduled, n0, schedule};
use crate::package::{RowTable, save};
use crate::report;
use crate::target::Bytes;

use super::Exit;
use super::args::{ExchangeArgs, ExchangeEffort, ExchangeTiming};
use super::error::CliError;
use super::output::Output;
use super::paths::is_same;

/// Schedules and checks instances. All files are read first: what is no instance is told before
/// anything is scheduled. A phase that cannot be scheduled takes nothing from the others.
pub(super) fn exchange(args: &ExchangeArgs, output: &Output) -> Result<Exit, CliError> {
    refuse(args)?;
    let read = match args.timing {
        ExchangeTiming::Exact => instance::read,
        ExchangeTiming::N0 => instance::read_n0,
    };
    let mut files: Vec<(&Path, Instance)> = vec![];
    let mut failed = vec![];
    for path in &args.files {
        match read(path) {
            Ok(instance) => files.push((path, instance)),
            Err(error) => failed.push(CliError::from(error)),
        }
    }
    if !failed.is_empty() {
        return Ok(tell(&failed, output));
    }
    let threads = usize::from(args.threads);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let mut found = vec![];
    // As many at once as there are threads, in the order of the files.
    for files in files.chunks(threads) {
        let solve = |(path, instance): &(&Path, Instance)| solve(path, instance, args);
        let answers: Vec<_> = pool.install(|| files.par_iter().map(solve).collect());
        for answer in answers {
            match answer {
                Ok(figures) if output.json() => output.line(&figures)?,
                Ok(figures) => found.push(figures),
                Err(error) => failed.push(error),
            }
        }
    }
    if !found.is_empty() {
        output.text(&table(&found, args.timing))?;
    }
    Ok(tell(&failed, output))
}

/// Prints all errors; the first decides how the program ends.
fn tell(failed: &[CliError], output: &Output) -> Exit {
    failed.iter().for_each(|error| output.error(error));
    failed.first().map_or(Exit::Success, CliError::exit)
}

/// Refuses options that do not go together, and a file of rows in the place of the instance.
fn refuse(args: &ExchangeArgs) -> Result<(), CliError> {
    let rows = args.rows.is_some() || args.row_bytes.is_some();
    if args.rows.is_some() && args.files.len() > 1 {
        return Err(CliError::OneFile { option: "--rows", files: args.files.len() });
    }
    if rows && args.timing == ExchangeTiming::N0 {
        return Err(CliError::NoRows);
    }
    match &args.rows {
        Some(path) if args.files.iter().any(|file| is_same(file, path)) => {
            let (option, what, instead) = ("--rows", "instance", "rows");
            Err(CliError::Overwrites { option, path: path.clone(), what, instead })
        }
        _ => Ok(()),
    }
}

/// What is said of an instance; what a timing has not is null.
#[derive(Default, Serialize)]
struct Figures {
    format: &'static str,
    name: String,
    transfers: usize,
    lower_bound: u32,
    ordinary_horizon: Option<u32>,
    paired_horizon: Option<u32>,
    mixed_horizon: Option<u32>,
    horizon: Option<u32>,
    n0_horizon: Option<u32>,
    row_words_max: Option<u32>,
    row_words_total: Option<u32>,
    row_bytes_max: Option<u32>,
    row_bytes_total: Option<u32>,
    schedule_seconds: f64,
    checked: bool,
}

/// The figures for people.
fn table(found: &[Figures], timing: ExchangeTiming) -> String {
    let or_dash =
        |horizon: &Option<u32>| horizon.map_or("–".to_owned(), |found| found.to_string());
    let yes = |checked| if checked { "yes" } else { "–" }.to_owned();
    match timing {
        ExchangeTiming::Exact => {
            let header = [
                "name",
                "transfers",
                "bound",
                "ordinary",
                "paired",
                "mixed",
                "horizon",
                "seconds",
                "checked",
            ];
            let row = |figures: &Figures| {
                [
                    figures.name.clone(),
                    figures.transfers.to_string(),
                    figures.lower_bound.to_string(),
                    or_dash(&figures.ordinary_horizon),
                    or_dash(&figures.paired_horizon),
                    or_dash(&figures.mixed_horizon),
                    or_dash(&figures.horizon),
                    format!("{:.4}", figures.schedule_seconds),
                    yes(figures.checked),
                ]
            };
            report::table(header, found.iter().map(row).collect())
        }
        ExchangeTiming::N0 => {
            let header = ["name", "transfers", "bound", "n0 horizon", "seconds", "checked"];
            let row = |figures: &Figures| {
                [
                    figures.name.clone(),
                    figures.transfers.to_string(),
                    figures.lower_bound.to_string(),
                    or_dash(&figures.n0_horizon),
                    format!("{:.4}", figures.schedule_seconds),
                    yes(figures.checked),
                ]
            };
            report::table(header, found.iter().map(row).collect())
        }
    }
}

/// Schedules and checks one instance, and writes its rows if they are wanted.
fn solve(path: &Path, instance: &Instance, args: &ExchangeArgs) -> Result<Figures, CliError> {
    let effort = match args.effort {
        ExchangeEffort::Fast => Effort::Fast,
        ExchangeEffort::Trial => Effort::Trial,
        ExchangeEffort::Full => Effort::Full,
    };
    let options = Options { effort, row_limit: args.row_bytes.map(Bytes), ..Options::default() };
    if args.timing == ExchangeTiming::N0 {
        return without_latency(path, instance, &options);
    }
    let started = now();
    let scheduled = schedule(&instance.phase, &options).map_err(|error| failure(path, &error))?;
    let seconds = started.elapsed().as_secs_f64();
    let places = places::of(&instance.phase, &scheduled.rows).map_err(|found| {
        let (tile, bytes) = (found.tile.0, found.bytes.0);
        CliError::NoRowPlace { path: path.to_owned(), tile, bytes }
    })?;
    replay::check(&instance.phase, &scheduled, &places)
        .map_err(|what| CliError::Schedule { path: path.to_owned(), what })?;
    if let Some(rows) = &args.rows {
        save(rows, rows_file(&instance.name, &scheduled, &places).to_string().as_bytes())?;
    }
    let schedule = &scheduled.schedule;
    let words = || scheduled.rows.iter().map(|row| row.words.len() as u32);
    let bytes = || scheduled.rows.iter().map(stored);
    Ok(Figures {
        lower_bound: schedule.bound,
        ordinary_horizon: schedule.ordinary_horizon,
        paired_horizon: schedule.paired_horizon,
        mixed_horizon: schedule.mixed_horizon,
        horizon: Some(schedule.horizon),
        row_words_max: Some(words().max().unwrap_or(0)),
        row_words_total: Some(words().sum()),
        row_bytes_max: Some(bytes().max().unwrap_or(0)),
        row_bytes_total: Some(bytes().sum()),
        ..of(instance, seconds)
    })
}

/// Schedules and checks one instance under N0.
fn without_latency(
    path: &Path,
    instance: &Instance,
    options: &Options<'_>,
) -> Result<Figures, CliError> {
    let started = now();
    let found = n0::plan(&instance.phase, options).map_err(|error| failure(path, &error))?;
    let seconds = started.elapsed().as_secs_f64();
    let check = if instance.placed { n0::check } else { n0::check_lanes };
    check(&instance.phase, &found.starts)
        .map_err(|clash| CliError::Schedule { path: path.to_owned(), what: clash.to_string() })?;
    Ok(Figures {
        lower_bound: found.bound,
        n0_horizon: Some(found.horizon),
        ..of(instance, seconds)
    })
}

/// What is said of every instance that was scheduled and checked.
fn of(instance: &Instance, seconds: f64) -> Figures {
    Figures {
        format: "ipu-tune/exchange@1",
        name: instance.name.clone(),
        transfers: instance.transfers,
        schedule_seconds: seconds,
        checked: true,
        ..Figures::default()
    }
}

fn failure(path: &Path, error: &ExchangeError) -> CliError {
    let path = path.to_owned();
    match error {
        ExchangeError::RowTooLong { tile, bytes, limit } => {
            CliError::RowTooLong { path, tile: tile.0, bytes: *bytes, limit: *limit }
        }
        other => CliError::Schedule { path, what: other.to_string() },
    }
}

/// Bytes by which a row makes its tile's exchange table longer.
fn stored(row: &Row) -> u32 {
    let mut table = RowTable::default();
    table.place(&row.words);
    table.size().0 - RowTable::IDLE.0
}

/// The rows in the form in which they are written to a file, each with the address that it was checked
/// at.
fn rows_file(name: &str, scheduled: &Scheduled, places: &[u32]) -> serde_json::Value {
    let row = |(row, address): (&Row, &u32)| {
        let base = match row.base {
            Base::Zero => "zero",
            Base::Moving => "moving",
        };
        json!({
            "tile": row.tile,
            "address": address,
            "horizon": row.horizon,
            "base": base,
            "words": row.words,
        })
    };
    json!({
        "format": "ipu-tune/rows@1",
        "name": name,
        "horizon": scheduled.schedule.horizon,
        "rows": scheduled.rows.iter().zip(places).map(row).collect::<Vec<_>>(),
    })
}

#[expect(clippy::disallowed_methods, reason = "the time that scheduling takes is what is shown")]
fn now() -> Instant {
    Instant::now()
}
