//! What a phase's rows have to do, as the checker is told.

use ipu_tune::check::Wanted;
use ipu_tune::exchange::Phase;

/// Every word that a phase without loops delivers.
pub(crate) fn wanted(phase: &Phase) -> Vec<Wanted> {
    let mut wanted = vec![];
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        wanted.extend(transfer.destinations.iter().map(|(tile, to)| Wanted {
            tile: *tile,
            to: to.0,
            words: transfer.words,
            source: transfer.source,
            from: transfer.source_address.0,
        }));
    }
    wanted
}
