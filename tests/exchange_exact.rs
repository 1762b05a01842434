//! Exchange schedules of tiny phases against the optimum under the chip's full timing, found by
//! trying all starts. The model here knows the rules of `target/ipu21.md` §2.3 and §2.5 pair by pair
//! and nothing of the engine; it leaves out whether a row encodes, so it can only be too good.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use ipu_tune::exchange::{Bounds, Options, Phase, Width, n0, schedule};
use ipu_tune::target::{Address, TileId, time_to_mux};

/// Repeatable numbers, good enough to make phases of.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

/// Tiles that meet in one phase: near and far, early and late.
const TILES: [u16; 5] = [0, 3, 46, 61, 92];

fn tiny(seed: u64) -> Phase {
    let mut dice = Dice(seed);
    dice.below(7);
    let mut phase = Phase::new(96);
    let close = dice.below(3) == 0;
    let mut written = [if close { 0x61000 } else { 0x90000 }; TILES.len()];
    let mut read = [0x60000; TILES.len()];
    let (count, longest) = (2 + dice.below(4), [3, 8, 20][dice.below(3) as usize]);
    for _ in 0..count {
        let source = dice.below(TILES.len() as u32) as usize;
        let words = 1 + dice.below(longest);
        let mut destinations = vec![];
        for (at, tile) in TILES.iter().enumerate() {
            if at != source && dice.below(3) == 0 {
                destinations.push((TileId(*tile), Address(written[at])));
                written[at] += 4 * words;
            }
        }
        if destinations.is_empty() {
            continue;
        }
        phase.add(TileId(TILES[source]), Address(read[source]), &destinations, words).unwrap();
        read[source] += 4 * words;
    }
    phase
}

/// Whether two transfers may start at these events: every rule that a pair of them can break.
fn agree(phase: &Phase, a: (usize, u32), b: (usize, u32)) -> bool {
    let (one, two) = (phase.transfer(a.0), phase.transfer(b.0));
    let apart = |s: u32, n: u32, t: u32, m: u32| s + n <= t || t + m <= s;
    if one.source == two.source && !apart(a.1, one.words, b.1, two.words) {
        return false;
    }
    for (receiver, start, sender) in [((one, a.1), b.1, two), ((two, b.1), a.1, one)] {
        let (transfer, event) = receiver;
        let Some(to) = transfer.destinations.iter().find(|d| d.0 == sender.source) else {
            continue;
        };
        let (e, p) = window(transfer.source, to.0, event);
        let hit = |control: u32| control == start || control == start + 1;
        let replaced = [e, e + transfer.words, p];
        if replaced.into_iter().any(hit) {
            return false;
        }
        let guard = if transfer.words == 52 { 6 } else { 5 };
        let natural = natural(&sender);
        let read_end = (start + sender.words).max((start + 6).saturating_sub(natural));
        let overlap = p < read_end && start < p + transfer.words + guard;
        if overlap && share(sender.source_address, sender.words, to.1, transfer.words) {
            return false;
        }
    }
    for (tile, _) in one.destinations {
        if !two.destinations.iter().any(|(other, _)| other == tile) {
            continue;
        }
        let ((e, p), (f, q)) = (window(one.source, *tile, a.1), window(two.source, *tile, b.1));
        if !apart(e, one.words, f, two.words) || p == q {
            return false;
        }
    }
    true
}

/// Source select and pointer.
fn window(source: TileId, tile: TileId, start: u32) -> (u32, u32) {
    let e = start.checked_add_signed(time_to_mux(source, tile) + 1).unwrap();
    (e, e + 52 + 2 * tile.row())
}

fn share(a: Address, n: u32, b: Address, m: u32) -> bool {
    // All addresses here lie below 0x80000 in 16 KiB elements, or far apart.
    let span = |at: Address, words: u32| (at.0 >> 14, (at.0 + 4 * words - 1) >> 14);
    let ((a, c), (b, d)) = (span(a, n), span(b, m));
    a <= d && b <= c
}

fn natural(transfer: &ipu_tune::exchange::Transfer<'_>) -> u32 {
    let times = transfer.destinations.iter().map(|(tile, _)| time_to_mux(transfer.source, *tile));
    times.map(|time| -time).max().unwrap().max(0) as u32
}

/// Events from the start of a transfer to the end of the last row.
fn tail(phase: &Phase, index: usize) -> u32 {
    let transfer = phase.transfer(index);
    let guard = if transfer.words == 52 { 6 } else { 5 };
    let start = natural(&transfer);
    let last =
        transfer.destinations.iter().map(|(tile, _)| window(transfer.source, *tile, start).1);
    last.max().unwrap() + transfer.words + guard - start
}

/// Whether the transfers from `next` on find starts that end by `horizon`.
fn fits(phase: &Phase, horizon: u32, placed: &mut Vec<u32>, tries: &mut u64) -> Option<bool> {
    let next = placed.len();
    if next == phase.len() {
        return Some(true);
    }
    let latest = horizon.saturating_sub(tail(phase, next));
    for start in natural(&phase.transfer(next))..=latest {
        *tries = tries.checked_sub(1)?;
        let with = |(index, event): (usize, &u32)| agree(phase, (index, *event), (next, start));
        if placed.iter().enumerate().all(with) {
            placed.push(start);
            if fits(phase, horizon, placed, tries)? {
                return Some(true);
            }
            placed.pop();
        }
    }
    Some(false)
}

/// The least horizon; none if that takes too many tries.
fn optimum(phase: &Phase, at_most: u32) -> Option<u32> {
    let mut tries = 400_000;
    let least = (0..phase.len()).map(|index| natural(&phase.transfer(index)) + tail(phase, index));
    for horizon in least.max()?..=at_most {
        if fits(phase, horizon, &mut vec![], &mut tries)? {
            return Some(horizon);
        }
    }
    Some(at_most + 1)
}

#[test]
fn tiny_phases_are_scheduled_at_or_near_the_optimum() {
    let (mut solved, mut optimal) = (0, 0);
    for seed in 0..400 {
        let phase = tiny(seed);
        if phase.is_empty() {
            continue;
        }
        let options = Options { width: Width::Ordinary, ..Options::default() };
        let found = schedule(&phase, &options).unwrap().schedule.horizon;
        let Some(best) = optimum(&phase, found) else { continue };
        assert!(best <= found, "seed {seed}: {found} where the model finds nothing up to it");
        let bound = Bounds::new(&phase).ordinary;
        assert!(bound <= best, "seed {seed}: bound {bound}, optimum {best}");
        assert!(20 * found <= 21 * best, "seed {seed}: {found}, optimum {best}");
        solved += 1;
        optimal += u32::from(found == best);
    }
    assert!(solved >= 200, "only {solved} phases were solved");
    assert!(20 * optimal >= 19 * solved, "{optimal} of {solved} are optimal");
}

#[test]
fn without_latency_schedules_are_checked_and_no_lane_is_used_twice() {
    for seed in 0..50 {
        let phase = tiny(seed);
        let found = n0::plan(&phase, &Options::default()).unwrap();
        assert_eq!(n0::check(&phase, &found.starts), Ok(found.horizon));
        assert!(found.bound <= found.horizon);
        let squeezed: Vec<u32> = found.starts.iter().map(|_| 0).collect();
        let crowded =
            found.horizon > (0..phase.len()).map(|i| phase.transfer(i).words).max().unwrap_or(0);
        assert!(!crowded || n0::check(&phase, &squeezed).is_err());
    }
}
