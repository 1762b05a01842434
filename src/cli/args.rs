//! What the user typed, and no more.

use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::storage::place::BUDGET;

/// Search-driven autotuning of tile-processor programs for the Graphcore IPU21
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Cli {
    /// What to do; without one, the model is tuned
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    /// Tuning
    #[command(flatten)]
    pub(super) tune: TuneArgs,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Where a study stands
    Status(StudyArgs),
    /// The incumbents of a study, in the order found
    History(StudyArgs),
    /// Write a page with what a study found, what its incumbent does and what it holds
    Report(ReportArgs),
    /// What a package holds
    Inspect(InspectArgs),
    /// Prove from a package's bytes that it does what its recipe means
    Check(PackageArgs),
    /// Run a package and compare its results with the host reference
    Run(RunArgs),
    /// Print the JSON Schema of a file format
    Schema(SchemaArgs),
    /// List the shipped models and whether they can be tuned
    Models,
    /// Convert a neutral operator graph to a model
    Convert(ConvertArgs),
    /// Schedule exchange instances, check them and print the figures
    Exchange(ExchangeArgs),
    /// Place buffers with sizes and lifetimes, check the offsets and print the figures
    Place(PlaceArgs),
}

#[derive(Debug, Args)]
pub(super) struct TuneArgs {
    /// The model to tune
    #[arg(value_name = "MODEL", required = true)]
    pub(super) model: Option<PathBuf>,
    /// Wall-clock limit of this invocation, e.g. `90s`, `2h`, `1h 30m` [default: 10m without --trials]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(super) budget: Option<Duration>,
    /// Stop when the study has had this many trials
    #[arg(long, value_name = "N")]
    pub(super) trials: Option<u64>,
    /// Stop when the incumbent has no more cycles than this
    #[arg(long, value_name = "N")]
    pub(super) target_cycles: Option<u64>,
    /// Stop after this many trials without a new incumbent
    #[arg(long, value_name = "N")]
    pub(super) plateau: Option<u64>,
    /// Seed of the search and of the data [default: that of the study, or 0]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Use only this many tiles
    #[arg(long, value_name = "N", default_value_t = 1472, value_parser = clap::value_parser!(u16).range(1..=1472))]
    pub(super) tiles: u16,
    /// Threads to use; the result does not depend on it [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) threads: Option<u16>,
    /// Database of the study [default: MODEL's name with `.tune.db`, beside it]
    #[arg(long, value_name = "PATH")]
    pub(super) db: Option<PathBuf>,
    /// The package to write [default: MODEL's name with `.ipuexe`, beside it]
    #[arg(long, value_name = "PATH")]
    pub(super) output: Option<PathBuf>,
    /// Start a new study even if the database has one
    #[arg(long)]
    pub(super) fresh: bool,
    /// Start a new study that tries the old one's best recipes again, whatever has changed
    #[arg(long, conflicts_with = "fresh")]
    pub(super) warm_start: bool,
    /// Space file: what may be decided
    #[arg(long, value_name = "PATH")]
    pub(super) space: Option<PathBuf>,
    /// Measure and recalibrate every so many trials; 0: never
    #[arg(long, value_name = "TRIALS", default_value_t = 64)]
    pub(super) measure_every: u64,
    /// What measures: `sim`, `sim:PROFILE.json`, or `command:RUNNER …`
    #[arg(long, value_name = "DEVICE", default_value = "sim")]
    pub(super) device: String,
    /// Form of log lines on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(super) log_format: LogFormat,
    /// More log lines
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    /// No progress and no log lines
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Debug, Args)]
pub(super) struct StudyArgs {
    /// The model, or the database
    pub(super) path: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The model, or the database
    #[arg(value_name = "STUDY")]
    pub(super) study: PathBuf,
    /// The incumbent's package [default: STUDY's name with `.ipuexe`, beside it]
    #[arg(long, value_name = "FILE")]
    pub(super) package: Option<PathBuf>,
    /// The tile to draw, by logical number [default: the one with the most bytes in buffers]
    #[arg(long)]
    pub(super) tile: Option<u16>,
    /// The page to write, one HTML file
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct PackageArgs {
    /// The package
    pub(super) package: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    /// The package
    pub(super) package: PathBuf,
    /// Draw what a tile holds over time
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// The tile to draw, by logical number [default: the one with the most bytes in buffers]
    #[arg(long, requires = "svg")]
    pub(super) tile: Option<u16>,
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The package
    pub(super) package: PathBuf,
    /// Where to run it: `sim`, `sim:PROFILE.json`, or `command:RUNNER …`
    #[arg(long, value_name = "DEVICE", default_value = "sim")]
    pub(super) device: String,
    /// Folder of the model's data file, if it names one [default: the package's]
    #[arg(long, value_name = "FOLDER")]
    pub(super) data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// The format
    #[arg(value_enum)]
    pub(super) format: SchemaFormat,
}

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SchemaFormat {
    /// Models
    Model,
    /// Search spaces
    Space,
    /// Problems of storage placement
    Placement,
}

#[derive(Debug, Args)]
pub(super) struct ConvertArgs {
    /// The neutral graph
    pub(super) graph: PathBuf,
    /// The model to write [default: standard output]
    #[arg(long, value_name = "PATH")]
    pub(super) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ExchangeArgs {
    /// Instances, `.json` or `.json.gz`; all are read before any is scheduled, and one that cannot be
    /// scheduled does not keep the others from being printed
    #[arg(required = true)]
    pub(super) files: Vec<PathBuf>,
    /// How long to look for a good schedule
    #[arg(long, value_enum, default_value_t = ExchangeEffort::Full)]
    pub(super) effort: ExchangeEffort,
    /// What a message takes: the chip's timing, or lanes alone (to compare schedulers)
    #[arg(long, value_enum, default_value_t = ExchangeTiming::Exact)]
    pub(super) timing: ExchangeTiming,
    /// Most bytes that a tile's row may take, four a word (exact timing): kept at the cost of a later
    /// end
    #[arg(long, value_name = "N")]
    pub(super) row_bytes: Option<u32>,
    /// Instances to schedule at once, one a thread; their order and schedules do not depend on it
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) threads: u16,
    /// Writes the rows of all tiles and where they can lie to a JSON file (one instance, exact timing)
    #[arg(long)]
    pub(super) rows: Option<PathBuf>,
}

/// Timing of exchange scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ExchangeTiming {
    /// Latencies, controls, memory elements and rows
    Exact,
    /// A message holds its lanes for its words, nothing else counts
    N0,
}

/// Effort of exchange scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ExchangeEffort {
    /// One order of transfers
    Fast,
    /// Several orders, as for every candidate of a search
    Trial,
    /// Beyond that, messages of small phases are moved about
    Full,
}

#[derive(Debug, Args)]
pub(super) struct PlaceArgs {
    /// CSV files with the columns `id`, `lower`, `upper` and `size` (lifetimes are half-open), or
    /// `.json` files with all rules of a tile
    #[arg(required = true)]
    pub(super) files: Vec<PathBuf>,
    /// Bytes to place rows of a CSV file into [default: N if the file is called `NAME.N.csv`]
    #[arg(long, value_name = "N", value_parser = capacity)]
    pub(super) capacity: Option<u32>,
    /// Nodes of all searches for a file before they give up, those for preferred ranges among them;
    /// one of a problem with very many buffers counts as several
    #[arg(long, value_name = "N", default_value_t = BUDGET)]
    pub(super) nodes: u64,
    /// Write the file again with an `offset` column, or with every buffer's `address`; one FILE only
    #[arg(long, value_name = "PATH")]
    pub(super) out: Option<PathBuf>,
    /// Draw the buffers over time; one FILE only
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
}

/// Bytes to place into.
fn capacity(text: &str) -> Result<u32, String> {
    let whole = |error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => format!("it is too large, {} is the most", u32::MAX),
        _ => format!("expected a whole number from 0 to {}", u32::MAX),
    };
    text.parse().map_err(whole)
}
