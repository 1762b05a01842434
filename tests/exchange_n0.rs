//! Schedules under N0: legal, never below the bound, never worse than a shorter search's, and at the
//! optimum where that is known by construction.

use ipu_tune::exchange::{Effort, Options, Phase, n0};
use ipu_tune::target::{Address, TileId};

/// Numbers that look like chance, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, below: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(below)) as u32
    }
}

/// A message: source, destinations, words.
type Message = (u16, Vec<u16>, u32);

fn phase(tiles: u16, messages: &[Message]) -> Phase {
    let mut phase = Phase::new(tiles);
    for (number, (source, destinations, words)) in messages.iter().enumerate() {
        // Every message has words of its own on every tile: none waits for another.
        let at = Address(0x50000 + 0x800 * number as u32);
        let ends: Vec<_> = destinations.iter().map(|tile| (TileId(*tile), at)).collect();
        phase.add(TileId(*source), at, &ends, *words).expect("a legal transfer");
    }
    phase
}

/// Messages that keep every receive lane busy from 0 to `horizon`, in an order that does not tell how.
/// None if a receiver found no free sender on the way.
fn planted(tiles: u16, horizon: u32, seed: u64) -> Option<Vec<Message>> {
    let mut numbers = Numbers(seed);
    let mut messages = vec![];
    let (mut sends, mut receives) = (vec![0; tiles.into()], vec![0; tiles.into()]);
    while let Some(now) = receives.iter().copied().min().filter(|now| *now < horizon) {
        let ready: Vec<u16> = (0..tiles).filter(|t| receives[usize::from(*t)] == now).collect();
        let words = match 4 + numbers.below(6) {
            words if now + words + 4 > horizon => horizon - now,
            words => words,
        };
        let first = ready[numbers.below(ready.len() as u32) as usize];
        let mut ends = vec![first];
        if numbers.below(4) == 0 {
            ends.extend(ready.iter().copied().filter(|tile| *tile != first).take(2));
        }
        let free = |tile: &u16| sends[usize::from(*tile)] <= now && !ends.contains(tile);
        let free: Vec<u16> = (0..tiles).filter(free).collect();
        if free.is_empty() {
            return None;
        }
        let source = free[numbers.below(free.len() as u32) as usize];
        sends[usize::from(source)] = now + words;
        ends.iter().for_each(|tile| receives[usize::from(*tile)] = now + words);
        messages.push((source, ends, words));
    }
    for at in (1..messages.len()).rev() {
        messages.swap(at, numbers.below(at as u32 + 1) as usize);
    }
    Some(messages)
}

#[test]
fn planted_phases_end_within_eight_per_cent_of_their_optimum() {
    let seeds = (0..1000).filter_map(|seed| planted(8, 100, seed).map(|messages| (seed, messages)));
    let mut ends = vec![];
    for (seed, messages) in seeds.take(12) {
        let phase = phase(8, &messages);
        let found = n0::plan(&phase, &Options::default()).unwrap();
        assert_eq!(n0::check(&phase, &found.starts), Ok(found.horizon), "seed {seed}");
        assert_eq!(found.bound, 100);
        ends.push(found.horizon);
    }
    // What is reached today; none of these phases is solved, so this is not yet the aim of 1 %.
    assert!(ends.len() == 12 && ends.iter().all(|end| *end <= 108), "{ends:?}");
}

#[test]
fn more_effort_never_ends_later_and_never_below_the_bound() {
    let mut better = 0;
    for seed in 0..30 {
        let mut numbers = Numbers(seed);
        let messages: Vec<Message> = (0..20)
            .map(|_| {
                let (source, from) = (numbers.below(8) as u16, numbers.below(7) as u16 + 1);
                let many = 1 + numbers.below(3) as u16;
                let ends = (from..8.min(from + many)).map(|step| (source + step) % 8);
                (source, ends.collect(), 1 + numbers.below(40))
            })
            .collect();
        let phase = phase(8, &messages);
        let by = |effort| n0::plan(&phase, &Options { effort, ..Options::default() }).unwrap();
        let (fast, full) = (by(Effort::Fast), by(Effort::Full));
        assert_eq!(n0::check(&phase, &full.starts), Ok(full.horizon), "seed {seed}");
        assert!(full.bound <= full.horizon && full.horizon <= fast.horizon, "seed {seed}");
        assert_eq!(full, by(Effort::Full), "seed {seed}: not the same again");
        better += u32::from(full.horizon < fast.horizon);
    }
    assert!(better > 0, "no phase gained by more effort");
}

#[test]
fn a_grid_with_messages_of_two_lengths_needs_half_of_them_only_once() {
    let mut messages: Vec<Message> = vec![];
    for tile in 0..64_u16 {
        let row = (0..8).map(|column| tile / 8 * 8 + column);
        messages.push((tile, row.filter(|other| *other != tile).collect(), 256));
        let column = (0..8).map(|row| row * 8 + tile % 8);
        messages.push((tile, column.filter(|other| *other != tile).collect(), 512));
    }
    let phase = phase(64, &messages);
    let options = Options { effort: Effort::Trial, ..Options::default() };
    let found = n0::plan(&phase, &options).unwrap();
    assert_eq!(n0::check(&phase, &found.starts), Ok(found.horizon));
    // Eight rounds of columns with a row's message in each, and seven of rows.
    assert!(found.horizon <= 8 * 512 + 7 * 256, "{}", found.horizon);
}

/// Whoever writes a word waits for all who read it before, and those who read it later wait for it.
#[test]
fn starts_in_the_wrong_order_are_named() {
    let mut phase = Phase::new(8);
    let at = |word: u32| Address(0x50000 + 4 * word);
    for tile in [1, 2, 3] {
        phase.add(TileId(0), at(10), &[(TileId(tile), at(0x1000))], 8).unwrap();
    }
    phase.add(TileId(4), at(0), &[(TileId(0), at(12))], 2).unwrap();
    phase.add(TileId(0), at(8), &[(TileId(5), at(0x1000))], 5).unwrap();
    phase.add(TileId(0), at(14), &[(TileId(6), at(0x1000))], 4).unwrap();
    let check = |starts: [u32; 6]| n0::check(&phase, &starts);
    // The last reads none of what the fourth writes.
    assert_eq!(check([0, 8, 16, 24, 26, 31]), Ok(35));
    assert_eq!(check([4, 12, 20, 28, 30, 0]), Ok(35));
    assert_eq!(check([0, 8, 16, 23, 26, 31]), Err(n0::Clash::Order(2, 3)));
    assert_eq!(check([16, 8, 0, 16, 26, 31]), Err(n0::Clash::Order(0, 3)));
    assert_eq!(check([0, 8, 16, 24, 25, 31]), Err(n0::Clash::Order(3, 4)));
}
