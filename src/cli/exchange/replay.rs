//! Replays the rows of a stand-alone phase: everything must arrive, by every rule.

use crate::check::{Bases, TileRow, Wanted, iteration};
use crate::exchange::{Base, Phase, Row, Scheduled};

/// Replays rows, each at its byte address in `places`, in every iteration of the enclosing loop.
/// Otherwise says how many rules are broken, and the first.
pub(super) fn check(phase: &Phase, scheduled: &Scheduled, places: &[u32]) -> Result<(), String> {
    let placed = scheduled.rows.iter().zip(places);
    let rows: Vec<TileRow<'_>> = placed
        .map(|(row, address)| TileRow { tile: row.tile, address: *address, words: &row.words })
        .collect();
    for number in 0..phase.iterations() {
        let bases = bases(phase, &scheduled.rows, number);
        let wanted = wanted(phase, number);
        iteration(phase.tiles(), &rows, &bases, &wanted).map_err(|violations| {
            let first = violations.list().first().map(ToString::to_string).unwrap_or_default();
            format!("{} violations, first: {first}", violations.count())
        })?;
    }
    Ok(())
}

/// What an iteration of a phase has to bring where.
fn wanted(phase: &Phase, number: usize) -> Vec<Wanted> {
    let mut wanted = vec![];
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
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
fn bases(phase: &Phase, rows: &[Row], number: usize) -> Vec<Bases> {
    let mut bases = vec![Bases::default(); phase.tiles().into()];
    for row in rows {
        let Some(offsets) = phase.base(row.tile) else { continue };
        let moving = offsets[number];
        let entered = if row.base == Base::Moving { moving } else { 0 };
        bases[usize::from(row.tile.0)] = Bases { entered, moving: Some(moving) };
    }
    bases
}
