//! `ipu-tune exchange FILE…`: schedules single phases and checks them.

mod figures;
mod places;
mod replay;
mod rows;

use std::path::Path;
use std::time::Instant;

use rayon::prelude::*;

use crate::exchange::instance::{self, Instance};
use crate::exchange::{Effort, ExchangeError, Options, n0, schedule};
use crate::package::save;
use crate::target::Bytes;

use super::Exit;
use super::args::{ExchangeArgs, ExchangeEffort, ExchangeTiming};
use super::error::CliError;
use super::output::Output;
use super::paths::is_same;
use figures::{Figures, table};

/// Schedules and checks instances. All files are read first: what is no instance is told before
/// anything is scheduled. A phase that cannot be scheduled takes nothing from the others.
pub(super) fn exchange(args: &ExchangeArgs, output: &Output) -> Result<Exit, CliError> {
    refuse(args)?;
    let files = match read(args) {
        Ok(files) => files,
        Err(failed) => return Ok(tell(&failed, output)),
    };
    let threads = usize::from(args.threads).min(files.len());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let (mut found, mut failed) = (vec![], vec![]);
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

/// Reads all files, or says what is wrong with each that is no instance.
fn read(args: &ExchangeArgs) -> Result<Vec<(&Path, Instance)>, Vec<CliError>> {
    let read = match args.timing {
        ExchangeTiming::Exact => instance::read,
        ExchangeTiming::N0 => instance::read_n0,
    };
    let (mut files, mut failed) = (vec![], vec![]);
    for path in &args.files {
        match read(path) {
            Ok(instance) => files.push((path.as_path(), instance)),
            Err(error) => failed.push(error.into()),
        }
    }
    if failed.is_empty() { Ok(files) } else { Err(failed) }
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
    if let Some(to) = &args.rows {
        save(to, rows::file(&instance.name, &scheduled, &places).to_string().as_bytes())?;
    }
    let schedule = &scheduled.schedule;
    let words = || scheduled.rows.iter().map(|row| row.words.len() as u32);
    let bytes = || scheduled.rows.iter().map(rows::stored);
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
        ..Figures::of(instance, seconds)
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
        ..Figures::of(instance, seconds)
    })
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

#[expect(clippy::disallowed_methods, reason = "the time that scheduling takes is what is shown")]
fn now() -> Instant {
    Instant::now()
}
