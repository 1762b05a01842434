//! `ipu-tune exchange FILE…`: schedules single phases and checks them.

use std::path::Path;
use std::time::Instant;

use rayon::prelude::*;
use serde_json::json;

use crate::check::{Bases, TileRow, Wanted, iteration};
use crate::exchange::{Base, Effort, Options, Phase, Row, Scheduled, instance, n0, schedule};
use crate::package::save;
use crate::report;
use crate::target::Bytes;

use super::Exit;
use super::args::{ExchangeArgs, ExchangeEffort, ExchangeTiming};
use super::error::CliError;
use super::output::Output;

/// Where rows lie for checking: executable, and away from the instances' data.
const ROWS: u32 = 0x4c000;

/// Schedules and checks instances.
pub(super) fn exchange(args: &ExchangeArgs, output: &Output) -> Result<Exit, CliError> {
    let effort = match args.effort {
        ExchangeEffort::Fast => Effort::Fast,
        ExchangeEffort::Trial => Effort::Trial,
        ExchangeEffort::Full => Effort::Full,
    };
    if args.rows.is_some() && args.files.len() > 1 {
        return Err(CliError::OneFile { option: "--rows", files: args.files.len() });
    }
    if args.timing == ExchangeTiming::N0 {
        if args.rows.is_some() || args.row_bytes.is_some() {
            return Err(CliError::NoRows);
        }
        return without_latency(args, effort, output);
    }
    let row_limit = args.row_bytes.map(Bytes);
    let options = Options { effort, row_limit, ..Options::default() };
    let rows = of_all(args, output, |file| {
        let (answer, scheduled) = one(file, &options)?;
        if let Some(path) = &args.rows {
            save(path, rows_file(&answer.row[0], &scheduled).to_string().as_bytes())?;
        }
        Ok(answer)
    })?;
    if !output.json() {
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
        output.text(&report::table(header, rows))?;
    }
    Ok(Exit::Success)
}

/// What is said of one instance.
struct Answer<const N: usize> {
    /// As JSON.
    figures: serde_json::Value,
    /// As a row of the table.
    row: [String; N],
}

/// Answers for all files in their order, as many at once as there are threads; prints the figures if
/// they are wanted as JSON, and returns the rows of the table.
fn of_all<const N: usize>(
    args: &ExchangeArgs,
    output: &Output,
    answer: impl Fn(&Path) -> Result<Answer<N>, CliError> + Sync,
) -> Result<Vec<[String; N]>, CliError> {
    let threads = usize::from(args.threads);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let mut table = vec![];
    for files in args.files.chunks(threads) {
        let answers: Vec<_> = pool.install(|| files.par_iter().map(|file| answer(file)).collect());
        for answer in answers {
            let Answer { figures, row } = answer?;
            if output.json() {
                output.line(&figures)?;
            }
            table.push(row);
        }
    }
    Ok(table)
}

/// Schedules instances under N0.
fn without_latency(args: &ExchangeArgs, effort: Effort, output: &Output) -> Result<Exit, CliError> {
    let options = Options { effort, ..Options::default() };
    let rows = of_all(args, output, |file| {
        let instance = instance::read(file)?;
        let fail = |what| CliError::Schedule { name: instance.name.clone(), what };
        let started = now();
        let found = n0::plan(&instance.phase, &options).map_err(|error| fail(error.to_string()))?;
        let seconds = started.elapsed().as_secs_f64();
        n0::check(&instance.phase, &found.starts).map_err(|error| fail(error.to_string()))?;
        let figures = json!({
            "format": "ipu-tune/exchange@1",
            "name": instance.name,
            "transfers": instance.transfers,
            "lower_bound": found.bound,
            "n0_horizon": found.horizon,
            "schedule_seconds": seconds,
            "checked": true,
        });
        let row = [
            instance.name.clone(),
            instance.transfers.to_string(),
            found.bound.to_string(),
            found.horizon.to_string(),
            format!("{seconds:.4}"),
            "yes".to_owned(),
        ];
        Ok(Answer { figures, row })
    })?;
    if !output.json() {
        let header = ["name", "transfers", "bound", "n0 horizon", "seconds", "checked"];
        output.text(&report::table(header, rows))?;
    }
    Ok(Exit::Success)
}

/// The rows in the form in which they are written to a file.
fn rows_file(name: &str, scheduled: &Scheduled) -> serde_json::Value {
    let row = |row: &Row| {
        let base = match row.base {
            Base::Zero => "zero",
            Base::Moving => "moving",
        };
        json!({ "tile": row.tile, "horizon": row.horizon, "base": base, "words": row.words })
    };
    json!({
        "format": "ipu-tune/rows@1",
        "name": name,
        "horizon": scheduled.schedule.horizon,
        "rows": scheduled.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

/// Schedules and checks one instance.
fn one(file: &Path, options: &Options<'_>) -> Result<(Answer<9>, Scheduled), CliError> {
    let instance = instance::read(file)?;
    let started = now();
    let scheduled = schedule(&instance.phase, options).map_err(|error| CliError::Schedule {
        name: instance.name.clone(),
        what: error.to_string(),
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let checked = check(&instance.phase, &scheduled);
    if let Err(what) = &checked {
        return Err(CliError::Schedule { name: instance.name, what: what.clone() });
    }
    let found = &scheduled.schedule;
    let words = || scheduled.rows.iter().map(|row| row.words.len());
    let figures = json!({
        "format": "ipu-tune/exchange@1",
        "name": instance.name,
        "transfers": instance.transfers,
        "lower_bound": found.bound,
        "ordinary_horizon": found.ordinary_horizon,
        "paired_horizon": found.paired_horizon,
        "mixed_horizon": found.mixed_horizon,
        "horizon": found.horizon,
        "row_words_max": words().max(),
        "row_words_total": words().sum::<usize>(),
        "schedule_seconds": seconds,
        "checked": true,
    });
    let or_dash =
        |horizon: Option<u32>| horizon.map_or("–".to_owned(), |horizon| horizon.to_string());
    let row = [
        instance.name,
        instance.transfers.to_string(),
        found.bound.to_string(),
        or_dash(found.ordinary_horizon),
        or_dash(found.paired_horizon),
        or_dash(found.mixed_horizon),
        found.horizon.to_string(),
        format!("{seconds:.4}"),
        "yes".to_owned(),
    ];
    Ok((Answer { figures, row }, scheduled))
}

/// Replays the rows in every iteration: everything must arrive, by every rule.
fn check(instance: &Phase, scheduled: &Scheduled) -> Result<(), String> {
    let rows: Vec<TileRow<'_>> = scheduled
        .rows
        .iter()
        .map(|row| TileRow { tile: row.tile, address: ROWS, words: &row.words })
        .collect();
    for number in 0..instance.iterations() {
        let bases = bases(instance, &scheduled.rows, number);
        let wanted = wanted(instance, number);
        iteration(instance.tiles(), &rows, &bases, &wanted).map_err(|violations| {
            let first = violations.list().first().map(ToString::to_string).unwrap_or_default();
            format!("{} violations, first: {first}", violations.count())
        })?;
    }
    Ok(())
}

/// What an iteration of a phase has to bring where.
fn wanted(instance: &Phase, number: usize) -> Vec<Wanted> {
    let mut wanted = vec![];
    for index in 0..instance.len() {
        let transfer = instance.transfer(index);
        let offset = if transfer.moves() { transfer.offsets[number] } else { 0 };
        wanted.extend(transfer.destinations.iter().map(|(tile, to)| Wanted {
            tile: *tile,
            to: to.0,
            words: transfer.words,
            source: transfer.source,
            from: transfer.source_address.0 + offset,
        }));
    }
    wanted
}

/// What every tile's send addresses count from in an iteration.
fn bases(instance: &Phase, rows: &[Row], number: usize) -> Vec<Bases> {
    let mut bases = vec![Bases::default(); instance.tiles().into()];
    for row in rows {
        let Some(offsets) = instance.base(row.tile) else { continue };
        let moving = offsets[number];
        let entered = if row.base == Base::Moving { moving } else { 0 };
        bases[usize::from(row.tile.0)] = Bases { entered, moving: Some(moving) };
    }
    bases
}

#[expect(clippy::disallowed_methods, reason = "the time that scheduling takes is what is shown")]
fn now() -> Instant {
    Instant::now()
}
