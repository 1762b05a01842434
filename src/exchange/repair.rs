//! What is changed where a row has no place for two controls at once.

use super::jobs::Jobs;
use super::lanes::{Care, Mark};
use super::place::{Placed, marks, place_between};
use super::rows::RowError;

/// Repairs of one schedule, at most.
pub(super) const REPAIRS: usize = 40;

/// Keeps controls farther apart on the tiles that failed; whether any could be.
pub(super) fn farther(cares: &mut [Care], failed: &[RowError]) -> bool {
    let mut changed = false;
    for error in failed {
        let care = &mut cares[usize::from(error.tile.0)];
        changed |= *care != Care::Alone;
        *care = if *care == Care::Free { Care::Apart } else { Care::Alone };
    }
    changed
}

/// Places the jobs anew whose pointers meet another control where a row has no place for both.
pub(super) fn part_controls(jobs: &Jobs, placed: Placed, failed: &[RowError]) -> Placed {
    let mut kept: Vec<Option<u32>> = placed.events.iter().copied().map(Some).collect();
    for index in pointers_at(jobs, &placed.events, failed) {
        kept[index as usize] = None;
    }
    let before = |index: &u32| placed.events[*index as usize];
    place_between(jobs, &mut kept, |loose| loose.sort_by_key(before))
}

/// Jobs whose pointers take effect where something does that has no place in a row.
fn pointers_at(jobs: &Jobs, events: &[u32], errors: &[RowError]) -> Vec<u32> {
    let mut looked = vec![None; usize::from(jobs.tiles())];
    errors.iter().for_each(|error| looked[usize::from(error.tile.0)] = Some(error.event));
    let points = |(index, event): &(usize, &u32)| {
        let job = jobs.job(*index);
        jobs.ends_of(job).iter().any(|end| {
            let Some(failed) = looked[usize::from(end.tile.0)] else { return false };
            let window = event.wrapping_add_signed(end.window);
            !job.paired && marks(job, end, window).contains(&(failed, Mark::Pointer))
        })
    };
    let all = events.iter().enumerate();
    all.filter(points).map(|(index, _)| index as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::phase::Phase;
    use crate::exchange::place::{Rules, place, starts};
    use crate::exchange::rows;
    use crate::target::{Address, TileId};

    /// Messages of 1 to 8 words between all tiles, twice over.
    fn crowded() -> Phase {
        let mut phase = Phase::new(64);
        let mut number = 1_u32;
        for round in 0..2 {
            for (source, distance) in (0..64_u16).flat_map(|tile| (1..64).map(move |d| (tile, d))) {
                number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = |tile: u16| 4096 * round + 64 * u32::from(tile);
                let to = TileId((source + distance) % 64);
                let address = Address(0x90000 + at(source));
                let from = Address(0x60000 + at(distance));
                phase.add(TileId(source), from, &[(to, address)], 1 + (number >> 29)).unwrap();
            }
        }
        phase
    }

    #[test]
    fn rows_that_do_not_encode_are_repaired_by_the_jobs_that_are_at_fault() {
        let phase = crowded();
        let jobs = Jobs::new(&phase, |_| false);
        let order: Vec<u32> = (0..jobs.len() as u32).collect();
        let cares = vec![Care::Free; jobs.tiles().into()];
        let placed = place(&jobs, &order, Rules::All(&cares), u32::MAX, &|| false).unwrap();
        let first = placed.events.clone();
        let failed = |placed: &Placed| {
            rows::encodable(&phase, &starts(&jobs, &placed.events), &placed.doubled).err()
        };
        let (mut now, mut repairs) = (placed, 0);
        while let Some(errors) = failed(&now) {
            repairs += 1;
            assert!(repairs <= REPAIRS, "{} rows still fail", errors.len());
            now = part_controls(&jobs, now, &errors);
        }
        let moved = first.iter().zip(&now.events).filter(|(before, after)| before != after).count();
        assert!((1..jobs.len() / 10).contains(&moved), "{moved} of {} jobs moved", jobs.len());
    }
}
