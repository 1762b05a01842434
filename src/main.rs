//! Arguments to [`ipu_tune::cli`], exit code to the shell; nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    ipu_tune::cli::run().into()
}
