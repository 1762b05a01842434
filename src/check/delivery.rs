//! What arrived against what was wanted, word by word and by name.

use crate::target::TileId;

use super::phase::Wanted;
use super::violation::{Violation, Violations};

/// Runs that continue each other are one run.
fn joined(mut runs: Vec<Wanted>) -> Vec<Wanted> {
    runs.sort_unstable_by_key(|run| (run.to, run.source, run.from));
    let mut all: Vec<Wanted> = Vec::with_capacity(runs.len());
    for run in runs {
        if let Some(last) = all.last_mut()
            && last.to.checked_add(4 * last.words) == Some(run.to)
            && last.from.checked_add(4 * last.words) == Some(run.from)
            && last.source == run.source
        {
            last.words += run.words;
        } else {
            all.push(run);
        }
    }
    all
}

/// Words above which arrivals are not looked at one by one: more than a tile's memory has.
const MOST_WORDS: u64 = 1 << 18;

/// Compares the arrivals of one tile with what it wants.
pub(super) fn compare(
    tile: TileId,
    arrived: Vec<Wanted>,
    wanted: Vec<Wanted>,
    violations: &mut Violations,
) {
    let (arrived, wanted) = (joined(arrived), joined(wanted));
    if arrived == wanted
        && arrived.windows(2).all(|pair| pair[0].to.saturating_add(4 * pair[0].words) <= pair[1].to)
    {
        return;
    }
    let total: u64 = arrived.iter().map(|run| u64::from(run.words)).sum();
    if total > MOST_WORDS {
        violations.add(Violation::Stray { tile, address: arrived[0].to });
        return;
    }
    // Something is wrong: now word by word, so that every word is named.
    let words = |runs: &[Wanted]| -> Vec<(u32, TileId, u32)> {
        let mut words: Vec<_> = runs
            .iter()
            .flat_map(|run| {
                (0..run.words).map(|word| {
                    (run.to.saturating_add(4 * word), run.source, run.from.saturating_add(4 * word))
                })
            })
            .collect();
        words.sort_unstable();
        words
    };
    let (arrived, wanted) = (words(&arrived), words(&wanted));
    for pair in arrived.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        violations.add(Violation::WrittenTwice { tile, address: pair[0].0 });
    }
    let find = |words: &[(u32, TileId, u32)], address: u32| {
        words.binary_search_by_key(&address, |word| word.0).ok().map(|at| words[at])
    };
    for &(address, wanted_tile, source) in &wanted {
        match find(&arrived, address) {
            None => violations.add(Violation::Missing { tile, address }),
            Some((_, from_tile, from)) if (from_tile, from) != (wanted_tile, source) => {
                let wanted = source;
                violations.add(Violation::WrongWord {
                    tile,
                    address,
                    from_tile,
                    from,
                    wanted_tile,
                    wanted,
                });
            }
            Some(_) => {}
        }
    }
    for &(address, ..) in &arrived {
        if find(&wanted, address).is_none() {
            violations.add(Violation::Stray { tile, address });
        }
    }
}
