//! The rows of a phase: what they take, and the file that they are written to.

use serde_json::json;

use crate::exchange::{Base, Row, Scheduled};
use crate::package::RowTable;

/// Bytes by which a row makes its tile's exchange table longer.
pub(super) fn stored(row: &Row) -> u32 {
    let mut table = RowTable::default();
    table.place(&row.words);
    table.size().0 - RowTable::IDLE.0
}

/// The rows in the form in which they are written to a file, each with the address that it was checked
/// at.
pub(super) fn file(name: &str, scheduled: &Scheduled, places: &[u32]) -> serde_json::Value {
    let row = |(row, address): (&Row, &u32)| {
        let base = match row.base {
            Base::Zero => "zero",
            Base::Moving => "moving",
        };
        json!({
            "tile": row.tile,
            "address": address,
            "horizon": row.horizon,
            "base": base,
            "words": row.words,
        })
    };
    json!({
        "format": "ipu-tune/rows@1",
        "name": name,
        "horizon": scheduled.schedule.horizon,
        "rows": scheduled.rows.iter().zip(places).map(row).collect::<Vec<_>>(),
    })
}
