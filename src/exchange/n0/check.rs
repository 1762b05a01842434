//! Whether starts are a schedule under N0: shares nothing with what finds them.

use crate::exchange::Phase;

/// Whether `starts` is a schedule of `phase`, and when it ends. Shares nothing with
/// [`plan`](super::plan).
///
/// # Errors
/// Two transfers that use one lane at once, or touch a word in the wrong order.
///
/// # Panics
/// If there is not one start for every transfer.
pub fn check(phase: &Phase, starts: &[u32]) -> Result<u32, Clash> {
    let end = check_lanes(phase, starts)?;
    let mut touched: Vec<Access> = vec![];
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let bytes = |address: u32| (address, address + 4 * transfer.words);
        touched.extend(transfer.sources().map(|address| {
            let (from, to) = bytes(address.0);
            (transfer.source.0, from, to, false, index)
        }));
        touched.extend(transfer.destinations.iter().map(|(tile, address)| {
            let (from, to) = bytes(address.0);
            (tile.0, from, to, true, index)
        }));
    }
    touched.sort_unstable();
    // What is touched before the next one and not only below it. Reads are not compared with reads: a
    // word may have very many.
    let (mut tile, mut reads, mut writes) = (0, vec![], vec![]);
    for next in &touched {
        if next.0 != tile {
            tile = next.0;
            reads.clear();
            writes.clear();
        }
        keep_order(phase, starts, &mut writes, next)?;
        if next.3 {
            keep_order(phase, starts, &mut reads, next)?;
        }
        if next.3 { &mut writes } else { &mut reads }.push(*next);
    }
    Ok(end)
}

/// Tile, first byte, end, whether it is written, and the transfer that does so.
type Access = (u16, u32, u32, bool, usize);

/// Of some accesses that begin no later than the `next` one of their tile, drops those that end before
/// it, and compares the others with it.
fn keep_order(
    phase: &Phase,
    starts: &[u32],
    open: &mut Vec<Access>,
    next: &Access,
) -> Result<(), Clash> {
    open.retain(|access| access.2 > next.1);
    for other in open.iter().filter(|other| other.4 != next.4) {
        let (first, second) = (next.4.min(other.4), next.4.max(other.4));
        if starts[second] < starts[first] + phase.transfer(first).words {
            return Err(Clash::Order(first, second));
        }
    }
    Ok(())
}

/// The same for a phase whose addresses mean nothing.
///
/// # Errors
/// Two transfers that use one lane at once.
///
/// # Panics
/// If there is not one start for every transfer.
pub fn check_lanes(phase: &Phase, starts: &[u32]) -> Result<u32, Clash> {
    assert_eq!(starts.len(), phase.len(), "one start for every transfer");
    let mut uses: Vec<(u16, bool, u32, u32, usize)> = vec![];
    for (index, start) in starts.iter().enumerate() {
        let transfer = phase.transfer(index);
        let end = start + transfer.words;
        uses.push((transfer.source.0, true, *start, end, index));
        uses.extend(transfer.destinations.iter().map(|(d, _)| (d.0, false, *start, end, index)));
    }
    uses.sort_unstable();
    for pair in uses.windows(2) {
        if (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1) && pair[1].2 < pair[0].3 {
            return Err(Clash::Lane(pair[0].4, pair[1].4));
        }
    }
    Ok(uses.iter().map(|lane| lane.3).max().unwrap_or(0))
}

/// What two transfers of a schedule do to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Clash {
    /// They use one lane at once.
    #[error("transfers {0} and {1} use one lane at once")]
    Lane(usize, usize),
    /// The second touches a word of the first before that is through.
    #[error("transfer {1} does not wait for transfer {0}, with which it shares a word")]
    Order(usize, usize),
}
