//! Which of two schedules is the better one.

use crate::target::Bytes;

use super::phase::Phase;
use super::place::Start;
use super::rows::{self, RowBytes};
use super::{Effort, Options};

/// Bytes above the limit of rows, then the horizon; the smaller comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// Bytes by which the largest row exceeds the limit.
    pub(super) over: Bytes,
    /// Event at which the last tile's row ends.
    pub(super) horizon: u32,
}

impl Rank {
    /// That of a schedule that ends then and keeps the limit.
    pub(super) fn within(horizon: u32) -> Rank {
        Rank { over: Bytes(0), horizon }
    }

    /// That of a schedule of a phase. Its rows are looked at only where there is a limit: writing them
    /// takes as long as placing.
    pub(super) fn of(phase: &Phase, options: &Options<'_>, horizon: u32, starts: &[Start]) -> Rank {
        let Some(limit) = options.row_limit else { return Rank::within(horizon) };
        let largest = rows::bytes(phase, starts).0.largest;
        Rank { over: Bytes(largest.0.saturating_sub(limit.0)), horizon }
    }
}

/// Bytes of the rows of a schedule, where they decide between equals: with full effort. With less, which
/// one is taken must not depend on the phase's addresses, for it is kept for all phases of the shape,
/// and which of them comes first is chance.
pub(super) fn bytes(phase: &Phase, options: &Options<'_>, starts: &[Start]) -> RowBytes {
    match options.effort {
        Effort::Full => rows::bytes(phase, starts).0,
        Effort::Fast | Effort::Trial => RowBytes::default(),
    }
}

/// The best of some schedules: the one of least rank; among equals the one with the least rows, `bytes`;
/// among equals of these, the first.
pub(super) fn first<T>(
    found: Vec<T>,
    rank: impl Fn(&T) -> Rank,
    bytes: impl Fn(&T) -> RowBytes,
) -> Option<T> {
    let least = found.iter().map(&rank).min()?;
    let mut equals: Vec<T> = found.into_iter().filter(|found| rank(found) == least).collect();
    if equals.len() == 1 {
        return equals.pop();
    }
    equals.into_iter().min_by_key(bytes)
}
