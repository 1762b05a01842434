//! Schedules of phases of which few transfers changed, or that are others on other tiles, against the independent checker and against
//! schedules of the whole phases.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper that fails fails its test; figures are printed"
)]

use ipu_tune::exchange::{Effort, Options, Phase, Width, reschedule, retarget, schedule};
use ipu_tune::target::{Address, TileId};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[path = "common/changed.rs"]
mod changed;
use changed::{changed, checked, renamed};

const TILES: u16 = 32;

fn seeded(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// 500 messages to single tiles and to pairs of tiles, read from `sources` on.
fn traffic(random: &mut ChaCha8Rng, sources: u32) -> Phase {
    let mut phase = Phase::new(TILES);
    let mut free = [0x80000; TILES as usize];
    for _ in 0..500 {
        let source = random.random_range(0..TILES);
        let first = random.random_range(0..TILES);
        let words = 4 + 2 * random.random_range(0..20_u32);
        let pair = random.random_range(0..3) == 0;
        let tiles = if pair { vec![first & !1, first | 1] } else { vec![first] };
        if tiles.contains(&source) {
            continue;
        }
        let place = |tile: &u16| {
            let free = &mut free[usize::from(*tile)];
            let at = Address(*free);
            *free += 4 * words;
            (TileId(*tile), at)
        };
        let to: Vec<(TileId, Address)> = tiles.iter().map(place).collect();
        phase.add(TileId(source), Address(sources), &to, words).unwrap();
    }
    phase
}

#[test]
fn few_changes_lead_to_checked_schedules_that_end_hardly_later() {
    let options = Options { effort: Effort::Trial, ..Options::default() };
    let (mut found, mut tried, mut ratios) = (0, 0, 0.0);
    for seed in 0..12 {
        let mut random = seeded(seed);
        // Far from all that is written, or in the same memory element.
        let sources = [0x60000, 0x83000][seed as usize % 2];
        let phase = traffic(&mut random, sources);
        assert_eq!(phase.contends(), sources == 0x83000);
        let previous = schedule(&phase, &options).unwrap().schedule;
        for thousandths in [10, 30, 50] {
            let new = changed(&phase, thousandths, &mut random);
            tried += 1;
            let Some(again) = reschedule(&new, &phase, &previous, &options).unwrap() else {
                continue;
            };
            found += 1;
            assert_eq!(checked(&new, &again), again.schedule.horizon);
            let whole = schedule(&new, &options).unwrap().schedule;
            assert_eq!((again.schedule.bound, again.schedule.shape), (whole.bound, whole.shape));
            ratios += f64::from(again.schedule.horizon) / f64::from(whole.horizon);
        }
    }
    // The others would end late, or a longer message reads what another writes and waits for it.
    assert!(2 * found > tried, "{found} of {tried}");
    let mean = ratios / f64::from(found);
    assert!(mean < 1.05, "{mean}");
}

#[test]
fn what_did_not_change_keeps_its_events() {
    let phase = traffic(&mut seeded(7), 0x60000);
    let previous = schedule(&phase, &Options::default()).unwrap().schedule;
    let same = reschedule(&phase, &phase, &previous, &Options::default()).unwrap().unwrap();
    assert_eq!(same.schedule.starts, previous.starts);
    // Another transfer in front of all others, between tiles that have little to do.
    let mut longer = Phase::new(TILES);
    longer.add(TileId(0), Address(0x60000), &[(TileId(9), Address(0x90000))], 4).unwrap();
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let to = transfer.destinations;
        longer.add(transfer.source, transfer.source_address, to, transfer.words).unwrap();
    }
    let more = reschedule(&longer, &phase, &previous, &Options::default()).unwrap().unwrap();
    assert_eq!(more.schedule.starts[1..], previous.starts);
    assert_eq!(checked(&longer, &more), more.schedule.horizon);
}

#[test]
fn a_schedule_of_another_phase_or_width_is_not_taken_over() {
    let (one, other) = (traffic(&mut seeded(3), 0x60000), traffic(&mut seeded(4), 0x60000));
    let paired = Options { width: Width::Paired, ..Options::default() };
    let ordinary = Options { width: Width::Ordinary, ..Options::default() };
    let previous = schedule(&one, &paired).unwrap().schedule;
    assert!(previous.starts.iter().any(|start| start.paired));
    assert_eq!(reschedule(&one, &other, &previous, &paired), Ok(None));
    let again = reschedule(&one, &one, &previous, &paired).unwrap().unwrap();
    assert_eq!(again.schedule.starts, previous.starts);
    if let Some(again) = reschedule(&one, &one, &previous, &ordinary).unwrap() {
        assert!(again.schedule.starts.iter().all(|start| !start.paired));
    }
}

#[test]
fn a_phase_that_is_another_is_scheduled_as_a_whole() {
    let (one, other) = (traffic(&mut seeded(1), 0x60000), traffic(&mut seeded(2), 0x60000));
    let previous = schedule(&one, &Options::default()).unwrap().schedule;
    assert_eq!(reschedule(&other, &one, &previous, &Options::default()), Ok(None));
    // A message that passes on what another one brings has to wait for it.
    let mut chain = Phase::new(TILES);
    let to = |tile: u16, at: u32| [(TileId(tile), Address(at))];
    chain.add(TileId(0), Address(0x60000), &to(2, 0x90000), 16).unwrap();
    chain.add(TileId(2), Address(0x90000), &to(4, 0xa0000), 16).unwrap();
    let previous = schedule(&chain, &Options::default()).unwrap().schedule;
    assert_eq!(reschedule(&chain, &chain, &previous, &Options::default()), Ok(None));
}

#[test]
fn on_other_tiles_the_order_leads_to_checked_schedules_that_end_hardly_later() {
    let options = Options { effort: Effort::Trial, ..Options::default() };
    let (mut found, mut tried, mut ratios) = (0, 0, 0.0);
    for seed in 0..12 {
        let mut random = seeded(seed);
        let sources = [0x60000, 0x83000][seed as usize % 2];
        let phase = traffic(&mut random, sources);
        let previous = schedule(&phase, &options).unwrap().schedule;
        // Pairs stay pairs: anywhere on the chip, or all tiles a few columns on.
        let mut pairs: Vec<u16> = (0..736).collect();
        pairs.shuffle(&mut random);
        let by_chance = |tile: TileId| TileId(2 * pairs[usize::from(tile.0 / 2)] + tile.0 % 2);
        let farther = |tile: TileId| TileId(tile.0 + 92 * (1 + seed as u16));
        for new in [renamed(&phase, 1472, by_chance), renamed(&phase, 1472, farther)] {
            tried += 1;
            let Some(again) = retarget(&new, &phase, &previous, &options).unwrap() else {
                continue;
            };
            found += 1;
            assert_eq!(checked(&new, &again), again.schedule.horizon);
            let whole = schedule(&new, &options).unwrap().schedule;
            assert_eq!((again.schedule.bound, again.schedule.shape), (whole.bound, whole.shape));
            ratios += f64::from(again.schedule.horizon) / f64::from(whole.horizon);
        }
    }
    let mean = ratios / f64::from(found);
    println!("{found} of {tried}, {mean:.4} times as long");
    assert!(4 * found > 3 * tried, "{found} of {tried}");
    assert!(mean < 1.05, "{mean}");
}

#[test]
fn a_schedule_is_not_taken_over_by_other_transfers_or_where_pairs_are_no_pairs() {
    let paired = Options { width: Width::Paired, ..Options::default() };
    let phase = traffic(&mut seeded(3), 0x60000);
    let previous = schedule(&phase, &paired).unwrap().schedule;
    assert!(previous.starts.iter().any(|start| start.paired));
    let farther = |tile: TileId| TileId(tile.0 + 92);
    let again = |new: &Phase| retarget(new, &phase, &previous, &paired).unwrap();
    assert!(again(&renamed(&phase, 1472, farther)).is_some());
    let other = changed(&phase, 10, &mut seeded(3));
    assert_eq!(again(&renamed(&other, 1472, farther)), None);
    let apart = |tile: TileId| TileId(tile.0 + 92 * (tile.0 % 2));
    assert_eq!(again(&renamed(&phase, 1472, apart)), None);
    // Two tiles become one.
    let mut merged = Phase::new(TILES);
    let mut from = Phase::new(TILES);
    for (source, to) in [(0, 8), (2, 10)] {
        let to = [(TileId(to), Address(0x90000))];
        from.add(TileId(source), Address(0x60000), &to, 8).unwrap();
        merged.add(TileId(0), Address(0x60000), &to, 8).unwrap();
    }
    let previous = schedule(&from, &paired).unwrap().schedule;
    assert_eq!(retarget(&merged, &from, &previous, &paired), Ok(None));
    assert!(retarget(&from, &from, &previous, &paired).unwrap().is_some());
    assert_eq!(retarget(&from, &merged, &previous, &paired), Ok(None));
}

#[test]
fn a_chain_is_taken_over_on_other_tiles() {
    let chain = |tiles: [u16; 3]| {
        let mut chain = Phase::new(1472);
        let to = |tile: u16, at: u32| [(TileId(tile), Address(at))];
        let add = |chain: &mut Phase, from: u16, at: u32, to: &[(TileId, Address)]| {
            chain.add(TileId(from), Address(at), to, 16).unwrap();
        };
        add(&mut chain, tiles[0], 0x60000, &to(tiles[1], 0x90000));
        add(&mut chain, tiles[1], 0x90000, &to(tiles[2], 0xa0000));
        add(&mut chain, tiles[2], 0xa0000, &to(tiles[0], 0x90000));
        chain
    };
    let (from, new) = (chain([0, 2, 4]), chain([800, 33, 1470]));
    let previous = schedule(&from, &Options::default()).unwrap().schedule;
    let again = retarget(&new, &from, &previous, &Options::default()).unwrap().unwrap();
    assert_eq!(checked(&new, &again), again.schedule.horizon);
    let whole = schedule(&new, &Options::default()).unwrap().schedule;
    assert_eq!(again.schedule.horizon, whole.horizon);
}
