//! Exchange phases: what was replayed from the rows in a package, and what moves.

use serde::Serialize;

use crate::check::PhaseReport;
use crate::plan::ExchangeMode;
use crate::program::{Program, Step, StepKind};

/// Items that a phase sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Widths {
    /// None at all.
    Nothing,
    /// 32-bit ones.
    Ordinary,
    /// 64-bit ones.
    Paired,
    /// Both.
    Mixed,
}

/// An exchange phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseFigures {
    /// Its step.
    pub step: usize,
    /// What the recipe decided about widths.
    pub mode: ExchangeMode,
    /// What its rows send.
    pub widths: Widths,
    /// Events until the last row ends.
    pub horizon: u32,
    /// Words that the busiest tile sends or receives.
    pub busiest_words: u64,
    /// Words that arrive, every receiver counted.
    pub words: u64,
    /// Transfers.
    pub transfers: usize,
    /// Instruction words of the longest row.
    pub longest_row_words: usize,
}

impl PhaseFigures {
    /// The exchange phases of a program, with what was replayed of each.
    pub fn of(program: &Program, phases: &[PhaseReport]) -> Vec<PhaseFigures> {
        let exchanges =
            program.steps.iter().enumerate().filter_map(|(index, step)| match step.kind {
                StepKind::Exchange(mode) => Some((index, step, mode)),
                StepKind::Compute => None,
            });
        let figures = exchanges.zip(phases).map(|((index, step, mode), replayed)| PhaseFigures {
            step: index,
            mode,
            widths: Widths::of(replayed.items),
            horizon: replayed.horizon,
            busiest_words: busiest(step, program.tiles),
            words: replayed.words,
            transfers: step.transfer_count(),
            longest_row_words: replayed.row_words.0,
        });
        figures.collect()
    }
}

impl Widths {
    fn of([ordinary, paired]: [u64; 2]) -> Widths {
        match (ordinary > 0, paired > 0) {
            (false, false) => Widths::Nothing,
            (true, false) => Widths::Ordinary,
            (false, true) => Widths::Paired,
            (true, true) => Widths::Mixed,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Widths::Nothing => "nothing",
            Widths::Ordinary => "ordinary",
            Widths::Paired => "paired",
            Widths::Mixed => "mixed",
        }
    }
}

/// The most words that one tile sends, or that one tile receives.
fn busiest(step: &Step, tiles: u16) -> u64 {
    let (mut sent, mut received) = (vec![0_u64; tiles.into()], vec![0_u64; tiles.into()]);
    for transfer in step.transfers() {
        sent[usize::from(transfer.source.0)] += u64::from(transfer.words);
        for tile in transfer.destinations {
            received[usize::from(tile.0)] += u64::from(transfer.words);
        }
    }
    sent.into_iter().chain(received).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_mixed_if_it_sends_both() {
        let names = [[0, 0], [7, 0], [0, 7], [1, 7]].map(|items| Widths::of(items).name());
        assert_eq!(names, ["nothing", "ordinary", "paired", "mixed"]);
    }
}
