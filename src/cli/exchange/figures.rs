//! What is said of instances.

use serde::Serialize;

use crate::exchange::instance::Instance;
use crate::report;

use super::super::args::ExchangeTiming;

/// What is said of an instance; what a timing has not is null.
#[derive(Default, Serialize)]
pub(super) struct Figures {
    pub(super) format: &'static str,
    pub(super) name: String,
    pub(super) transfers: usize,
    pub(super) lower_bound: u32,
    pub(super) ordinary_horizon: Option<u32>,
    pub(super) paired_horizon: Option<u32>,
    pub(super) mixed_horizon: Option<u32>,
    pub(super) horizon: Option<u32>,
    pub(super) n0_horizon: Option<u32>,
    pub(super) row_words_max: Option<u32>,
    pub(super) row_words_total: Option<u32>,
    pub(super) row_bytes_max: Option<u32>,
    pub(super) row_bytes_total: Option<u32>,
    pub(super) schedule_seconds: f64,
    pub(super) checked: bool,
}

impl Figures {
    /// What is said of every instance that was scheduled and checked.
    pub(super) fn of(instance: &Instance, seconds: f64) -> Figures {
        Figures {
            format: "ipu-tune/exchange@1",
            name: instance.name.clone(),
            transfers: instance.transfers,
            schedule_seconds: seconds,
            checked: true,
            ..Figures::default()
        }
    }
}

/// The figures of all instances for people.
pub(super) fn table(found: &[Figures], timing: ExchangeTiming) -> String {
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
