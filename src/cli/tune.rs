//! `ipu-tune MODEL`: searches, keeps the study, writes the best package.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;

use crate::cost::{bytes_over, hard_bound};
use crate::device::{CommandDevice, Device, SimulatedDevice};
use crate::model::{Graph, data, reference};
use crate::package::{replaceable, save, write};
use crate::plan::Network;
use crate::report;
use crate::search::evaluate::EVALUATOR_VERSION;
use crate::search::{Budget, Engine, Evaluator, Progress, Report, StopReason, Task};
use crate::space::Space;
use crate::store::{Beginning, Store, StudyKey};

use super::Exit;
use super::args::TuneArgs;
use super::error::CliError;
use super::logging;
use super::output::Output;

/// Budget without `--budget` and `--trials`.
const DEFAULT_BUDGET: Duration = Duration::from_secs(600);
/// Time kept back for discarding a round and writing the package.
const KEPT_BACK: Duration = Duration::from_millis(1500);

/// Everything that a run needs, checked.
struct Options {
    model: PathBuf,
    database: PathBuf,
    package: PathBuf,
    budget: Budget,
    tiles: u16,
    seed: Option<u64>,
    beginning: Beginning,
}

/// The versioned result.
#[derive(Serialize)]
struct Result_ {
    format: &'static str,
    study: String,
    resuming: bool,
    trials: u64,
    stop_reason: StopReason,
    first_plan_cycles: Option<u64>,
    bound_cycles: u64,
    incumbent: Option<serde_json::Value>,
    package: Option<String>,
    database: String,
}

/// Tunes a model.
pub(super) fn tune(args: &TuneArgs, output: &Output) -> Result<Exit, CliError> {
    let started = now();
    let options = options(args)?;
    let graph = crate::model::read(&options.model)?;
    let network = Network::from_graph(&graph)?;
    let space = match &args.space {
        Some(path) => Space::read(path, &network)?,
        None => Space::open(),
    };
    let over = bytes_over(&graph, options.tiles);
    if over > 0 {
        return Err(CliError::TooLarge { path: options.model, tiles: options.tiles, over });
    }
    let folder = options.model.parent().unwrap_or(Path::new("."));
    let real = data::real(&graph, folder)?;
    let device = device(&args.device)?;
    check_writable(&options.package)?;
    let bar = output.shows_progress() && !args.quiet && args.verbose == 0;
    logging::start(args.log_format, args.verbose, args.quiet, bar);
    let key = StudyKey {
        model_hash: graph.hash().to_string(),
        model_name: graph.name().to_owned(),
        tiles: options.tiles,
        space_hash: space.hash(),
        evaluator: EVALUATOR_VERSION.to_owned(),
        device: device.identity().name,
        seed: options.seed,
    };
    let store = Store::create_or_open(&options.database)?;
    let (mut journal, key) = store.study(&key, options.beginning)?;
    journal.count_from(started);
    let seed = key.seed.unwrap_or(0);
    let mut pool = rayon::ThreadPoolBuilder::new();
    if let Some(threads) = args.threads {
        pool = pool.num_threads(threads.into());
    }
    let pool = pool.build()?;
    let flags =
        Flags::listen(options.budget.time.map(|time| started + time.saturating_sub(KEPT_BACK)))?;
    let bound = hard_bound(&graph, options.tiles).0;
    let bar = bar.then(|| progress_bar(options.budget.time));
    let show = |progress: &Progress| {
        if let Some(bar) = &bar {
            bar.set_position(progress.elapsed.as_secs());
            bar.set_message(describe(progress, options.budget.time, bound));
        }
    };
    let report = pool.install(|| {
        let values = data::generate(&graph, seed, real);
        let Some(reference) = reference::evaluate(&graph, &values, &flags.stop) else {
            return Ok(None);
        };
        let task =
            Task { graph: &graph, network: &network, space: &space, tiles: options.tiles, seed };
        let evaluator = Evaluator::new(task, values, reference, device.as_ref(), &flags.stop);
        let engine = Engine::new(
            &evaluator,
            &mut journal,
            Budget {
                time: options.budget.time.map(|t| t.saturating_sub(KEPT_BACK)),
                ..options.budget
            },
            &flags.stop,
            &flags.interrupted,
            started,
            &show,
        );
        engine.run().map(Some)
    });
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let Some(report) = report? else {
        let interrupted = flags.interrupted.load(Ordering::Relaxed);
        return if interrupted { Ok(Exit::Interrupted) } else { Err(CliError::NoTime) };
    };
    finish(&options, &graph, &report, bound, &key, output)
}

/// Writes the package and the result.
fn finish(
    options: &Options,
    graph: &Graph,
    report: &Report,
    bound: u64,
    key: &StudyKey,
    output: &Output,
) -> Result<Exit, CliError> {
    let mut package = None;
    if let Some(incumbent) = &report.incumbent {
        let application = incumbent.validated().application();
        tracing::info!(tiles = application.tiles.len(), "writing application package");
        let begun = now();
        let saved = save(&options.package, &write(&application));
        tracing::debug!(
            phase = "write_package",
            elapsed_ms = begun.elapsed().as_millis() as u64,
            success = saved.is_ok(),
            "package build phase finished"
        );
        saved?;
        package = Some(options.package.display().to_string());
    }
    let incumbent = report.incumbent.as_ref().map(|incumbent| {
        let validated = incumbent.validated();
        json!({
            "candidate": validated.recipe().hash().to_string(),
            "trial": incumbent.trial(),
            "predicted_cycles": validated.predicted().round() as u64,
            "measured_cycles": validated.measured().median,
            "device": validated.device().name,
            "simulated": validated.device().simulated,
            "numerics": validated.numerics(),
        })
    });
    let result = Result_ {
        format: "ipu-tune/tune@1",
        study: key.model_hash.clone(),
        resuming: report.resuming,
        trials: report.state.trials,
        stop_reason: report.stop,
        first_plan_cycles: report.state.first_plan_measured,
        bound_cycles: bound,
        incumbent,
        package,
        database: options.database.display().to_string(),
    };
    output.result(&result, || text(graph, report, bound, options))?;
    Ok(match (report.stop, &report.incumbent) {
        (StopReason::Interrupted, _) => Exit::Interrupted,
        (StopReason::DeviceLost, _) => Exit::Device,
        (_, Some(_)) => Exit::Success,
        (_, None) => return Err(without_incumbent(report)),
    })
}

/// Why a search that came to its end has nothing to show.
fn without_incumbent(report: &Report) -> CliError {
    if let Some(kept) = report.state.incumbent() {
        return CliError::NotRevalidated { trial: kept.trial, cycles: kept.measured_cycles };
    }
    match &report.state.last_failure {
        Some(reason) => CliError::Infeasible { reason: reason.clone() },
        None => CliError::NoTime,
    }
}

/// The result for people.
fn text(graph: &Graph, report: &Report, bound: u64, options: &Options) -> String {
    let state = &report.state;
    let mut lines = vec![format!(
        "{}: {} trials in {} rounds, stopped by {}{}",
        graph.name(),
        state.trials,
        state.round,
        stop_name(report.stop),
        if report.resuming { " (resumed)" } else { "" }
    )];
    if let Some(incumbent) = &report.incumbent {
        let validated = incumbent.validated();
        let measured = validated.measured().median;
        let source = report::source(validated.device().simulated);
        lines.push(format!(
            "best: {} cycles ({source}, {}), {:.2} × the bound of {}; trial {}",
            report::cycles(measured),
            validated.device().name,
            measured as f64 / bound.max(1) as f64,
            report::cycles(bound),
            incumbent.trial()
        ));
        if let Some(first) = state.first_plan_measured {
            let saved = 100.0 * (1.0 - measured as f64 / first as f64);
            lines.push(if measured < first {
                format!(
                    "first plan: {} cycles; the search saved {saved:.1} %",
                    report::cycles(first)
                )
            } else {
                format!("first plan: {} cycles; no improvement found", report::cycles(first))
            });
        }
        let numerics = validated.numerics();
        lines.push(format!(
            "numbers: cosine {:.7}, largest error {:.5}",
            numerics.minimum_cosine, numerics.maximum_absolute_error
        ));
        lines.push(format!("package: {}", options.package.display()));
    }
    for (kind, count) in &state.failures {
        lines.push(format!("failed candidates: {count} {kind}"));
    }
    lines.push(format!("study: {} (the same command resumes it)", options.database.display()));
    lines.join("\n")
}

fn stop_name(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Budget => "the budget",
        StopReason::Trials => "the trial limit",
        StopReason::Target => "the target",
        StopReason::Plateau => "a plateau",
        StopReason::Exhausted => "an exhausted space",
        StopReason::Interrupted => "a signal",
        StopReason::DeviceLost => "a lost device",
    }
}

fn options(args: &TuneArgs) -> Result<Options, CliError> {
    let model = args.model.clone().ok_or(CliError::NoName { path: PathBuf::new() })?;
    let beside = |ending: &str| -> Result<PathBuf, CliError> {
        let name = model.file_stem().ok_or_else(|| CliError::NoName { path: model.clone() })?;
        let mut name = name.to_owned();
        name.push(ending);
        Ok(model.with_file_name(name))
    };
    let database = args.db.clone().map_or_else(|| beside(".tune.db"), Ok)?;
    let package = args.output.clone().map_or_else(|| beside(".ipuexe"), Ok)?;
    let time = args.budget.or(if args.trials.is_none() { Some(DEFAULT_BUDGET) } else { None });
    let budget = Budget {
        time,
        trials: args.trials,
        target_cycles: args.target_cycles,
        plateau: args.plateau,
        measure_every: args.measure_every,
    };
    let beginning = match (args.fresh, args.warm_start) {
        (true, _) => Beginning::Fresh,
        (_, true) => Beginning::WarmStart,
        _ => Beginning::Resume,
    };
    let (tiles, seed) = (args.tiles, args.seed);
    Ok(Options { model, database, package, budget, tiles, seed, beginning })
}

/// The device that the user named.
pub(super) fn device(given: &str) -> Result<Box<dyn Device>, CliError> {
    let wrong = |what: String| CliError::DeviceChoice { given: given.to_owned(), what };
    match given.split_once(':') {
        None if given == "sim" => Ok(Box::new(SimulatedDevice::default())),
        Some(("sim", path)) => {
            let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            let device = SimulatedDevice::with_profile(&text);
            Ok(Box::new(device.map_err(|error| wrong(error.to_string()))?))
        }
        Some(("command", template)) if !template.trim().is_empty() => {
            Ok(Box::new(CommandDevice::new(template)))
        }
        _ => Err(wrong("no such device".to_owned())),
    }
}

/// Finds out before a long search that its result cannot be written.
fn check_writable(path: &Path) -> Result<(), CliError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let wrap = |source| CliError::Unwritable { path: path.to_owned(), source };
    replaceable(path).map_err(wrap)?;
    tempfile::tempfile_in(folder).map(|_| ()).map_err(wrap)
}

/// What ends a search from outside.
struct Flags {
    stop: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

impl Flags {
    /// Listens for signals and watches the clock. The first signal asks, the second leaves at once.
    fn listen(deadline: Option<Instant>) -> Result<Flags, CliError> {
        let stop = Arc::new(AtomicBool::new(false));
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // The shutdown first: it must see the flag of an earlier signal, not of this one.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&interrupted))
                .map_err(CliError::Signals)?;
            signal_hook::flag::register(signal, Arc::clone(&interrupted))
                .map_err(CliError::Signals)?;
        }
        let (watched, asked) = (Arc::clone(&stop), Arc::clone(&interrupted));
        std::thread::spawn(move || {
            loop {
                let late = deadline.is_some_and(|deadline| now() >= deadline);
                if late || asked.load(Ordering::Relaxed) {
                    watched.store(true, Ordering::Relaxed);
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Ok(Flags { stop, interrupted })
    }
}

/// The monotonic clock, which decides nothing but when to stop.
#[expect(clippy::disallowed_methods, reason = "the budget is wall-clock time")]
fn now() -> Instant {
    Instant::now()
}

fn progress_bar(budget: Option<Duration>) -> ProgressBar {
    let bar = match budget {
        Some(time) => ProgressBar::new(time.as_secs()),
        None => ProgressBar::new_spinner(),
    };
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
        bar.set_style(style);
    }
    bar
}

/// One line: time left, trials a second, incumbent, distance to the bound, last improvement.
fn describe(progress: &Progress, budget: Option<Duration>, bound: u64) -> String {
    let left = budget.map_or("no limit".to_owned(), |time| {
        let left = time.saturating_sub(progress.elapsed).as_secs();
        format!("{} left", humantime::format_duration(Duration::from_secs(left)))
    });
    let rate = progress.new_trials as f64 / progress.elapsed.as_secs_f64().max(0.001);
    let best = progress.incumbent.map_or("no incumbent yet".to_owned(), |cycles| {
        let ratio = cycles as f64 / bound.max(1) as f64;
        format!("{} cycles, {ratio:.2} × bound", report::cycles(cycles))
    });
    let since = progress.crowned_at.map_or(String::new(), |trial| {
        format!(", improved {} trials ago", progress.trials - trial.min(progress.trials))
    });
    format!("{left}, {} trials ({rate:.1}/s), {best}{since}", progress.trials)
}
