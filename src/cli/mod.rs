//! The command line: one file a command. All output, all reading of the environment and all exit
//! codes are here.

mod args;
mod check;
mod convert;
mod error;
mod exchange;
mod inspect;
mod logging;
mod origin;
mod output;
mod paths;
mod picture;
mod place;
mod report;
mod run;
mod schema;
mod status;
mod tune;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use error::CliError;
use output::Output;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A validated package was written, or the query answered.
    Success,
    /// A bug.
    Internal,
    /// Bad arguments or a bad input file.
    Usage,
    /// No feasible candidate within the budget.
    Infeasible,
    /// The device failed.
    Device,
    /// The study cannot be used.
    Study,
    /// Interrupted; state saved.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Success => 0,
            Exit::Internal => 1,
            Exit::Usage => 2,
            Exit::Infeasible => 3,
            Exit::Device => 4,
            Exit::Study => 5,
            Exit::Interrupted => 130,
        })
    }
}

/// Runs the program with the process's arguments.
pub fn run() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Clap's own messages: help and version go to standard output and are no errors.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Success };
        }
    };
    let output = Output::new(cli.json);
    let result = match cli.command {
        Some(Command::Status(args)) => status::status(&args, &output),
        Some(Command::History(args)) => status::history(&args, &output),
        Some(Command::Report(args)) => report::report(&args, &output),
        Some(Command::Inspect(args)) => inspect::inspect(&args, &output),
        Some(Command::Check(args)) => check::check(&args, &output),
        Some(Command::Run(args)) => run::run(&args, &output),
        Some(Command::Schema(args)) => schema::schema(&args, &output),
        Some(Command::Models) => schema::models(&output),
        Some(Command::Convert(args)) => convert::convert(&args, &output),
        Some(Command::Exchange(args)) => exchange::exchange(&args, &output),
        Some(Command::Place(args)) => place::place(&args, &output),
        None => tune::tune(&cli.tune, &output),
    };
    match result {
        Ok(exit) => exit,
        Err(CliError::ClosedPipe) => Exit::Success,
        Err(error) => {
            output.error(&error);
            error.exit()
        }
    }
}
