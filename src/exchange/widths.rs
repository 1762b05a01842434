//! Which eligible transfers are worth being 64-bit, if neither all nor none are.
//!
//! A 64-bit message is through in half the time but takes its sender's partner along and needs
//! controls that meet nothing (`target/ipu21.md` §3.4). So only those are paired that an endpoint
//! with too much to do needs.

use super::jobs::Jobs;
use super::phase::Phase;

/// Loads from which on an endpoint has too much to do, in eighths of the bound.
const TOO_MUCH: [u32; 3] = [8, 6, 5];
/// Fewest words that gain anything: shorter messages are all controls.
const FEWEST: u32 = 16;

/// Width choices to try beside all and none, none of them twice.
pub fn mixtures(phase: &Phase, bound: u32) -> Vec<Vec<bool>> {
    let (sent, received) = Jobs::new(phase, |_| false).loads();
    let load = |index: usize| {
        let transfer = phase.transfer(index);
        let receivers = transfer.destinations.iter().map(|(tile, _)| received[usize::from(tile.0)]);
        receivers.max().unwrap_or(0).max(sent[usize::from(transfer.source.0)])
    };
    let eligible: Vec<bool> = (0..phase.len()).map(|index| phase.pairable(index)).collect();
    let mut choices: Vec<Vec<bool>> = vec![];
    for eighths in TOO_MUCH {
        let limit = bound / 8 * eighths;
        let worth = |index: usize| phase.transfer(index).words >= FEWEST && load(index) > limit;
        let wide: Vec<bool> =
            eligible.iter().enumerate().map(|(index, may)| *may && worth(index)).collect();
        let some = wide.contains(&true) && wide != eligible;
        if some && !choices.contains(&wide) {
            choices.push(wide);
        }
    }
    choices
}
