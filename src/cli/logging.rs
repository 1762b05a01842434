//! Log lines on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::SubscriberBuilder;

use super::args::LogFormat;

/// Starts logging. On a terminal, where the bar is, only warnings are logged unless asked.
pub(super) fn start(format: LogFormat, verbose: u8, quiet: bool, bar: bool) {
    let level = match (quiet, verbose, bar) {
        (true, ..) => "off",
        (_, 0, true) => "warn",
        (_, 0, false) => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let builder: SubscriberBuilder<_, _, _, _> = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour);
    // Starting twice in one process (tests) keeps the first.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
