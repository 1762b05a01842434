//! Phases inside a loop: words that come from elsewhere in each iteration, and bases that are written
//! inside a row (`target/ipu21.md` §2.7).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::AtomicBool;

use ipu_tune::check::{Bases, TileRow, Violations, Wanted, iteration};
use ipu_tune::device::sim::SimulatedDevice;
use ipu_tune::device::{Device, HostData};
use ipu_tune::exchange::{
    Base, Effort, ExchangeError, Options, Phase, Scheduled, TransferError, Width, n0, relocate,
    schedule,
};
use ipu_tune::package::{Application, Binding, RegionSlice, Segment, TileImage};
use ipu_tune::target::instruction::{LINK_REGISTER, ZERO_REGISTER, special};
use ipu_tune::target::{Address, Instruction, TileId, decode};
use proptest::prelude::*;

const TILES: u16 = 12;
/// Where rows lie: away from all data.
const ROWS: u32 = 0x5_8000;
const ITERATIONS: u32 = 3;

/// Source, receiver (or its pair), words, and whether the words come from elsewhere each time.
type Wish = (u16, u16, bool, u32, bool);

fn wishes() -> impl Strategy<Value = Vec<Wish>> {
    let words = prop_oneof![1..9_u32, 40..60_u32, Just(64), (1..80_u32).prop_map(|w| 2 * w)];
    let wish = (0..TILES, 0..TILES, any::<bool>(), words, any::<bool>());
    prop::collection::vec(wish, 1..24)
}

/// Bytes by which a tile's moving sources go on with each iteration.
fn stride(tile: u16) -> u32 {
    0x1000 + 8 * u32::from(tile)
}

/// With `close`, words are received into the elements that they are sent from.
fn phase(wishes: &[Wish], close: bool) -> Phase {
    let mut phase = Phase::new(TILES);
    let mut read = [0x6_0000_u32; TILES as usize];
    let mut written = [if close { 0x6_4800 } else { 0x9_0000 }; TILES as usize];
    for (source, to, pair, words, moves) in wishes {
        let mut tiles = if *pair { vec![to & !1, to | 1] } else { vec![*to] };
        if tiles.contains(source) {
            if close {
                continue;
            }
            // What comes home goes to another tile or pair, too.
            let away = (source + 2 + 2 * (to % 5)) % TILES;
            tiles.extend(if *pair { vec![away & !1, away | 1] } else { vec![away] });
        }
        let first = &mut read[usize::from(*source)];
        let count = if *moves { ITERATIONS } else { 1 };
        let sources: Vec<Address> =
            (0..count).map(|number| Address(*first + number * stride(*source))).collect();
        let bytes = (4 * words).next_multiple_of(8);
        *first += bytes;
        let mut destinations = vec![];
        for tile in tiles {
            let place = &mut written[usize::from(tile)];
            destinations.push((TileId(tile), Address(*place)));
            *place += bytes;
        }
        phase.add_moving(TileId(*source), &sources, &destinations, *words).unwrap();
    }
    phase
}

/// Replays one iteration.
fn replay(phase: &Phase, scheduled: &Scheduled, number: usize) -> Result<u32, Violations> {
    let rows: Vec<TileRow<'_>> = scheduled
        .rows
        .iter()
        .map(|row| TileRow { tile: row.tile, address: ROWS, words: &row.words })
        .collect();
    let mut bases = vec![Bases::default(); TILES.into()];
    for row in &scheduled.rows {
        if let Some(offsets) = phase.base(row.tile) {
            let moving = offsets[number];
            let entered = if row.base == Base::Moving { moving } else { 0 };
            bases[usize::from(row.tile.0)] = Bases { entered, moving: Some(moving) };
        }
    }
    let mut wanted = vec![];
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let sources: Vec<Address> = transfer.sources().collect();
        wanted.extend(transfer.destinations.iter().map(|(tile, to)| Wanted {
            tile: *tile,
            to: to.0,
            words: transfer.words,
            source: transfer.source,
            from: sources[number % sources.len()].0,
        }));
    }
    iteration(TILES, &rows, &bases, &wanted).map(|report| report.get().horizon)
}

/// Writes of the base in the rows.
fn base_writes(scheduled: &Scheduled) -> usize {
    let count = |words: &[u32]| {
        let (mut at, mut count) = (0, 0);
        while at < words.len() {
            let (instruction, length) = decode(&words[at..]).unwrap();
            let put = Instruction::Put { register: 6, special: special::OUTGOING_BASE };
            let zero = Instruction::Put { register: 15, special: special::OUTGOING_BASE };
            count += usize::from(instruction == put || instruction == zero);
            at += length;
        }
        count
    };
    scheduled.rows.iter().map(|row| count(&row.words)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_iteration_of_a_schedule_passes_the_checker(
        wishes in wishes(), close: bool, width in 0..3_usize, effort in 0..3_usize
    ) {
        let phase = phase(&wishes, close);
        let options = Options {
            width: [Width::Automatic, Width::Ordinary, Width::Paired][width],
            effort: [Effort::Fast, Effort::Trial, Effort::Full][effort],
            ..Options::default()
        };
        let scheduled = schedule(&phase, &options).unwrap();
        for number in 0..phase.iterations() {
            let found = replay(&phase, &scheduled, number);
            prop_assert!(found.is_ok(), "{number}: {:?}", found.unwrap_err().list().first());
            prop_assert_eq!(found.unwrap(), scheduled.schedule.horizon);
        }
        prop_assert!(scheduled.schedule.bound <= scheduled.schedule.horizon);
        prop_assert_eq!(relocate(&phase, &scheduled.schedule).unwrap(), scheduled);
    }
}

#[test]
fn a_base_is_written_before_what_comes_home_is_selected() {
    for words in 1..80 {
        for tile in 0..TILES {
            let mut phase = Phase::new(TILES);
            let moving = [0, 1, 2].map(|number| Address(0x6_0000 + number * 0x400));
            let to =
                |first: u32| [tile, (tile + 4) % TILES].map(|tile| (TileId(tile), Address(first)));
            phase.add_moving(TileId(tile), &moving, &to(0x9_0000), words).unwrap();
            phase.add(TileId(tile), Address(0x6_2000), &to(0x9_2000), words).unwrap();
            let options = Options { width: Width::Ordinary, ..Options::default() };
            let scheduled = schedule(&phase, &options).unwrap();
            assert_eq!(base_writes(&scheduled), 1, "{words} words of tile {tile}");
            for number in 0..phase.iterations() {
                let found = replay(&phase, &scheduled, number).unwrap();
                assert_eq!(found, scheduled.schedule.horizon);
            }
        }
    }
}

/// Where the loops of the simulated tiles lie.
const CODE: u32 = 0x5_0000;
/// Where tiles send from, and how many bytes are loaded there.
const SENT: std::ops::Range<u32> = 0x6_0000..0x6_8000;
/// Where tiles receive, all iterations together.
const RECEIVED: std::ops::Range<u32> = 0x9_0000..0x9_c000;
/// Bytes by which what is received goes on with each iteration.
const RECEIVED_STRIDE: u32 = 0x4000;

fn words(instructions: &[Instruction]) -> Vec<u8> {
    let encoded = instructions.iter().map(|instruction| instruction.encode().unwrap());
    encoded.flat_map(|words| words.as_slice()[0].to_le_bytes()).collect()
}

/// A tile's loop around its row, with both bases going on, what it sends by `moving` bytes.
fn looped(moving: u32, base: Option<Base>) -> Vec<u8> {
    let entered = if base == Some(Base::Moving) { 6 } else { ZERO_REGISTER };
    let next = CODE + 4 * 3;
    let mut code = vec![
        Instruction::Setzi { register: 5, immediate: 0 },
        Instruction::Setzi { register: 6, immediate: 0 },
        Instruction::Setzi { register: 7, immediate: ITERATIONS },
        Instruction::Put { register: 5, special: special::INCOMING_BASE },
        Instruction::Put { register: entered, special: special::OUTGOING_BASE },
    ];
    match base {
        Some(_) => code.extend([
            Instruction::Sync { zone: 3 },
            Instruction::Call { register: LINK_REGISTER, target: ROWS },
        ]),
        None => code.extend([Instruction::Sans { selector: 0 }, Instruction::Sync { zone: 1 }]),
    }
    let add = |register, immediate| Instruction::Add { register, source: register, immediate };
    code.extend([
        add(5, RECEIVED_STRIDE as i16),
        add(6, moving as i16),
        add(7, -1),
        Instruction::Brz { register: 7, target: CODE + 4 * (code.len() as u32 + 5) },
        Instruction::Bri { target: next },
        Instruction::Trap { immediate: 0 },
    ]);
    words(&code)
}

/// The word that a tile holds at an address before the run.
fn held(tile: TileId, address: u32) -> u32 {
    u32::from(tile.0) << 24 | address
}

/// What the simulated device finds in `RECEIVED` on every tile after all iterations.
fn received(phase: &Phase, scheduled: &Scheduled) -> Vec<u8> {
    let segment = |address, data: Vec<u8>| Segment {
        address,
        memory_size: data.len() as u32,
        data,
        flags: 7,
    };
    let image = |tile: TileId| {
        let row = scheduled.rows.iter().find(|row| row.tile == tile);
        let sent = SENT.step_by(4).flat_map(|address| held(tile, address).to_le_bytes());
        let moving = phase.base(tile).map_or(0, |offsets| offsets[1]);
        let mut segments = vec![
            segment(CODE, looped(moving, row.map(|row| row.base))),
            segment(SENT.start, sent.collect()),
        ];
        let bytes = row.map(|row| row.words.iter().flat_map(|word| word.to_le_bytes()).collect());
        segments.extend(bytes.map(|bytes| segment(ROWS, bytes)));
        TileImage {
            physical_tile: tile.physical().0.into(),
            entry_point: CODE,
            segments,
            ..TileImage::default()
        }
    };
    let size = u64::from(RECEIVED.end - RECEIVED.start);
    let slice = |tile: TileId| RegionSlice {
        tile: tile.physical().0.into(),
        tile_address: RECEIVED.start,
        file_offset: u64::from(tile.0) * size,
        size,
    };
    let slices = (0..TILES).map(TileId).map(slice).collect();
    let application = Application {
        tiles: (0..TILES).map(TileId).map(image).collect(),
        outputs: vec![Binding { slices, ..Binding::default() }],
        ..Application::default()
    };
    let data = HostData::default();
    SimulatedDevice::default()
        .measure(&application, &data, &AtomicBool::new(false))
        .unwrap()
        .outputs
}

/// What `received` has to find.
fn sent_to(phase: &Phase) -> Vec<u8> {
    let bytes = RECEIVED.end - RECEIVED.start;
    let mut wanted = vec![0; usize::from(TILES) * bytes as usize];
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let sources: Vec<Address> = transfer.sources().collect();
        for (tile, to) in transfer.destinations {
            for number in 0..ITERATIONS {
                let from = sources[number as usize % sources.len()].0;
                let to = to.0 - RECEIVED.start + number * RECEIVED_STRIDE;
                let first = u32::from(tile.0) * bytes + to;
                for word in 0..transfer.words {
                    let at = (first + 4 * word) as usize;
                    let held = held(transfer.source, from + 4 * word);
                    wanted[at..at + 4].copy_from_slice(&held.to_le_bytes());
                }
            }
        }
    }
    wanted
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_simulated_device_runs_the_rows_of_a_loop(wishes in wishes(), width in 0..3_usize) {
        let phase = phase(&wishes, false);
        let options = Options {
            width: [Width::Automatic, Width::Ordinary, Width::Paired][width],
            ..Options::default()
        };
        prop_assert!(received(&phase, &schedule(&phase, &options).unwrap()) == sent_to(&phase));
    }
}

/// One tile sends from a fixed place and from a moving one.
fn both() -> Phase {
    let mut phase = Phase::new(TILES);
    let moving: Vec<Address> = (0..3).map(|number| Address(0x6_1000 + 0x400 * number)).collect();
    phase.add_moving(TileId(0), &moving, &[(TileId(4), Address(0x9_0000))], 60).unwrap();
    phase.add(TileId(0), Address(0x6_0000), &[(TileId(6), Address(0x9_0000))], 60).unwrap();
    phase.add_moving(TileId(0), &moving, &[(TileId(8), Address(0x9_0000))], 60).unwrap();
    phase
}

#[test]
fn the_simulated_device_writes_a_base_inside_a_row() {
    let phase = both();
    let scheduled = schedule(&phase, &Options::default()).unwrap();
    assert_eq!(base_writes(&scheduled), 1);
    assert!(received(&phase, &scheduled) == sent_to(&phase));
    assert!(received(&phase, &swapped(&scheduled)) != sent_to(&phase), "the other base");
}

#[test]
fn a_base_is_written_once_between_sends_that_differ_in_it() {
    let phase = both();
    let scheduled = schedule(&phase, &Options::default()).unwrap();
    assert_eq!(base_writes(&scheduled), 1);
    for number in 0..3 {
        assert_eq!(replay(&phase, &scheduled, number), Ok(scheduled.schedule.horizon));
    }
}

#[test]
fn a_tile_whose_sends_all_move_writes_no_base() {
    let mut phase = Phase::new(TILES);
    let moving = [Address(0x6_0000), Address(0x6_0100)];
    phase.add_moving(TileId(0), &moving, &[(TileId(4), Address(0x9_0000))], 16).unwrap();
    phase.add(TileId(2), Address(0x6_0000), &[(TileId(6), Address(0x9_0000))], 16).unwrap();
    let scheduled = schedule(&phase, &Options::default()).unwrap();
    assert_eq!(base_writes(&scheduled), 0);
    let base = |tile| scheduled.rows.iter().find(|row| row.tile == TileId(tile)).unwrap().base;
    assert_eq!((base(0), base(2)), (Base::Moving, Base::Zero));
}

/// Rows whose base writes read the other register.
fn swapped(scheduled: &Scheduled) -> Scheduled {
    let mut changed = scheduled.clone();
    for word in changed.rows.iter_mut().flat_map(|row| &mut row.words) {
        let put = |register| {
            let put = Instruction::Put { register, special: special::OUTGOING_BASE };
            put.encode().unwrap().as_slice()[0]
        };
        *word = match *word {
            found if found == put(6) => put(15),
            found if found == put(15) => put(6),
            other => other,
        };
    }
    changed
}

#[test]
fn a_wrong_base_is_a_wrong_word() {
    let phase = both();
    let scheduled = schedule(&phase, &Options::default()).unwrap();
    let changed = swapped(&scheduled);
    assert_ne!(changed, scheduled);
    // With an offset of 0 both bases are the same.
    assert!(replay(&phase, &changed, 0).is_ok());
    assert!(replay(&phase, &changed, 1).is_err());
}

#[test]
fn a_row_that_writes_a_base_is_refused_outside_loops() {
    let phase = both();
    let scheduled = schedule(&phase, &Options::default()).unwrap();
    let rows: Vec<TileRow<'_>> = scheduled
        .rows
        .iter()
        .map(|row| TileRow { tile: row.tile, address: ROWS, words: &row.words })
        .collect();
    let found = iteration(TILES, &rows, &[], &[]).unwrap_err();
    assert!(found.list().iter().any(|violation| violation.to_string().contains("does not belong")));
}

#[test]
fn sources_that_no_one_base_can_follow_are_refused() {
    let to = [(TileId(4), Address(0x9_0000))];
    let mut phase = both();
    let sources = |stride: u32, count: u32| -> Vec<Address> {
        (0..count).map(|number| Address(0x7_0000 + stride * number)).collect()
    };
    assert_eq!(
        phase.add_moving(TileId(0), &sources(0x800, 3), &to, 4),
        Err(TransferError::OtherBase(0))
    );
    assert_eq!(
        phase.add_moving(TileId(2), &sources(0x800, 4), &to, 4),
        Err(TransferError::Iterations { found: 4, expected: 3, other: 0 })
    );
    // Addresses that are all the same are no base to follow, but count.
    assert_eq!(
        phase.add_moving(TileId(2), &sources(0, 2), &to, 4),
        Err(TransferError::Iterations { found: 2, expected: 3, other: 0 })
    );
    assert_eq!(
        phase.add_moving(TileId(2), &sources(0x802, 3), &to, 4),
        Err(TransferError::Misaligned(Address(0x7_0802)))
    );
    assert_eq!(phase.len(), 3);
}

#[test]
fn without_latency_no_base_is_written() {
    let phase = both();
    let found = n0::plan(&phase, &Options::default()).unwrap();
    assert_eq!(found.horizon, 3 * 60);
    assert_eq!(n0::check(&phase, &found.starts), Ok(found.horizon));
}

#[test]
fn words_are_kept_in_order_in_every_iteration() {
    let mut phase = Phase::new(TILES);
    // What arrives is sent on in the last iteration alone.
    phase.add(TileId(2), Address(0x6_0000), &[(TileId(0), Address(0x6_8000))], 16).unwrap();
    let sources: Vec<Address> = (0..3).map(|number| Address(0x6_0000 + 0x4000 * number)).collect();
    phase.add_moving(TileId(0), &sources, &[(TileId(4), Address(0x9_0000))], 16).unwrap();
    let scheduled = schedule(&phase, &Options::default()).unwrap();
    let starts = &scheduled.schedule.starts;
    assert!(starts[1].event > starts[0].event + 16);
    for number in 0..3 {
        assert_eq!(replay(&phase, &scheduled, number), Ok(scheduled.schedule.horizon));
    }
    let other = both();
    assert_eq!(relocate(&other, &scheduled.schedule), Err(ExchangeError::OtherShape));
}
