//! Storage of whole programs: every tile's addresses obey the rules of its own problem, tiles that are
//! alike share an answer, and nothing is placed twice.
#![allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    reason = "a helper that fails fails its test; a tile may have one free range"
)]

mod common;
#[path = "../benches/first_fit/mod.rs"]
mod first_fit;
#[path = "../benches/scaled/mod.rs"]
mod scaled;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use common::{BLOCK, Fixture};
use ipu_tune::model::shipped;
use ipu_tune::program::segment::Role;
use ipu_tune::program::{Addresses, Buffer, BufferId, Class, Program, program};
use ipu_tune::search::support::{estimated_row_bytes, lay_out};
use ipu_tune::storage::{
    Answers, Load, PlaceOptions, PlacedProgram, Problem, Region, StorageFailure,
    exchanged_together, place_program, tile_problem,
};
use ipu_tune::target::sram::elements;
use ipu_tune::target::{Address, Bytes, TileId};
use proptest::prelude::*;

const FREE: [Range<u32>; 2] = [0x50000..0x58000, 0x64000..0xe7bb0];

fn place(
    program: &Program,
    free: &[Range<u32>],
    separate: bool,
    answers: &Answers,
) -> Result<PlacedProgram, StorageFailure> {
    let stop = AtomicBool::new(false);
    let wishes = if separate { exchanged_together(program) } else { vec![] };
    place_program(program, &PlaceOptions { free, wishes: &wishes, answers, stop: &stop })
}

/// A tile's addresses, in the order of its buffers.
fn on_tile(program: &Program, addresses: &Addresses, tile: TileId) -> Vec<u32> {
    let ids = (0..program.buffers.len() as u32).map(BufferId);
    ids.filter_map(|id| addresses.get(id, tile)).map(|address| address.0).collect()
}

/// The first broken rule of a tile, by rules written down here again.
fn violation(problem: &Problem, addresses: &[u32]) -> Option<String> {
    if addresses.len() != problem.buffers.len() {
        return Some("a buffer has no address".to_owned());
    }
    let span = |index: usize| addresses[index]..addresses[index] + problem.buffers[index].size;
    let touched = |index: usize| -> BTreeSet<_> {
        elements(Address(addresses[index]), Bytes(problem.buffers[index].size)).collect()
    };
    for (index, buffer) in problem.buffers.iter().enumerate() {
        let here = span(index);
        let inside = |free: &Range<u32>| free.start <= here.start && here.end <= free.end;
        if !problem.free.iter().any(inside) || !here.start.is_multiple_of(buffer.alignment) {
            return Some(format!("{index} lies at {here:x?}"));
        }
        if buffer.region == Region::Interleaved && here.start < 0x80000 {
            return Some(format!("{index} is not interleaved"));
        }
        for other in 0..index {
            let (a, b) = (&buffer.live[0], &problem.buffers[other].live[0]);
            let (there, at_once) = (span(other), a.start < b.end && b.start < a.end);
            if at_once && there.start < here.end && here.start < there.end {
                return Some(format!("{index} and {other} overlap"));
            }
            let apart =
                problem.apart.contains(&(other, index)) || problem.apart.contains(&(index, other));
            if at_once && apart && !touched(index).is_disjoint(&touched(other)) {
                return Some(format!("{index} and {other} share an element"));
            }
        }
    }
    None
}

/// A buffer with pieces of some sizes on tiles from 0 on; no piece where the size is 0.
fn buffer(sizes: &[u32], live: Range<u32>, class: Class) -> Buffer {
    let pieces = (0..).map(TileId).zip(sizes.iter().copied()).filter(|(_, bytes)| *bytes > 0);
    Buffer {
        name: "b".to_owned(),
        role: Role::Scratch,
        class,
        alignment: 32,
        tail: 16,
        sizes: pieces.collect(),
        live,
        fill: None,
    }
}

fn of_buffers(tiles: u16, buffers: Vec<Buffer>, apart: Vec<(BufferId, BufferId)>) -> Program {
    Program { tiles, buffers, steps: vec![], apart, inputs: vec![], outputs: vec![] }
}

/// Programs with tiles of many kinds.
fn programs() -> impl Strategy<Value = Program> {
    let class = prop::sample::select(vec![Class::Any, Class::Any, Class::Interleaved]);
    let sizes = prop::collection::vec(prop_oneof![Just(0), 1..2000_u32, Just(30_000)], 6);
    let buffer = (sizes, 0..8_u32, 1..5_u32, class)
        .prop_map(|(sizes, from, length, class)| buffer(&sizes, from..from + length, class));
    (prop::collection::vec(buffer, 2..16), prop::collection::vec((0..16_u32, 0..16_u32), 0..6))
        .prop_map(|(buffers, pairs)| {
            let count = buffers.len() as u32;
            let pairs = pairs.into_iter().map(|(a, b)| (BufferId(a % count), BufferId(b % count)));
            of_buffers(6, buffers, pairs.filter(|(a, b)| a != b).collect())
        })
}

proptest! {
    #[test]
    fn every_tile_obeys_its_rules_and_nothing_is_placed_twice(program in programs()) {
        let answers = Answers::default();
        let placed = place(&program, &FREE, false, &answers);
        prop_assume!(placed.is_ok());
        let placed = placed.unwrap();
        for tile in (0..program.tiles).map(TileId) {
            let problem = tile_problem(&program, tile, &FREE);
            let addresses = on_tile(&program, &placed.addresses, tile);
            prop_assert_eq!(violation(&problem, &addresses), None, "tile {}", tile);
        }
        prop_assert!(placed.stats.live_bytes <= placed.stats.peak_bytes);
        prop_assert!(placed.stats.problems <= placed.stats.kinds);
        prop_assert_eq!(placed.stats.known, 0);
        let again = place(&program, &FREE, false, &answers).unwrap();
        prop_assert_eq!(again.stats.known, again.stats.problems);
        prop_assert_eq!(again.addresses, placed.addresses);
    }
}

#[test]
fn a_real_plan_needs_one_problem_and_hardly_more_than_what_lives() {
    let fixture = Fixture::new(BLOCK, 24);
    for recipe in fixture.first_plans() {
        let program = program(&fixture.network, &recipe);
        for separate in [false, true] {
            let placed = place(&program, &FREE, separate, &Answers::default()).unwrap();
            for tile in (0..program.tiles).map(TileId) {
                let problem = tile_problem(&program, tile, &FREE);
                let addresses = on_tile(&program, &placed.addresses, tile);
                assert_eq!(violation(&problem, &addresses), None, "tile {tile}");
            }
            let stats = placed.stats;
            assert!(stats.kinds > stats.problems, "{stats:?}");
            assert!(stats.peak_bytes * 100 <= stats.live_bytes * 115, "{stats:?}");
        }
    }
}

/// Tile 1 has all but the second buffer, and smaller: it takes tile 0's answer, in which the third lies
/// above the second, and moves it down.
#[test]
fn a_tile_with_less_moves_into_the_room_it_has() {
    let first = buffer(&[10_000, 4_000], 0..2, Class::Any);
    let second = buffer(&[6_000, 0], 2..4, Class::Any);
    let third = buffer(&[3_968, 3_968], 2..4, Class::Any);
    let program = of_buffers(2, vec![first, second, third], vec![]);
    let placed = place(&program, &FREE, false, &Answers::default()).unwrap();
    assert_eq!((placed.stats.kinds, placed.stats.problems), (2, 1));
    assert_ne!(
        placed.addresses.get(BufferId(2), TileId(0)),
        placed.addresses.get(BufferId(2), TileId(1))
    );
    for tile in [0, 1].map(TileId) {
        let problem = tile_problem(&program, tile, &FREE);
        let taken = problem.taken(&on_tile(&program, &placed.addresses, tile));
        assert!(taken * 100 <= problem.fullest().1 * 101, "tile {tile}: {taken}");
    }
}

/// What lies apart on the tile that was placed lies apart on those that moved, too.
#[test]
fn what_moves_keeps_its_wishes() {
    let fixture = Fixture::new(BLOCK, 24);
    let program = program(&fixture.network, &fixture.first_plans()[0]);
    let wishes = exchanged_together(&program);
    let placed = place(&program, &FREE, true, &Answers::default()).unwrap();
    assert_eq!((placed.stats.granted, placed.stats.problems), (1, 1), "all wishes, one answer");
    let lies_elsewhere = |index: usize| {
        let at = |tile| placed.addresses.get(BufferId(index as u32), TileId(tile));
        (0..program.tiles).filter_map(at).collect::<BTreeSet<_>>().len() > 1
    };
    assert!((0..program.buffers.len()).any(lies_elsewhere), "no tile moved anything");
    let mut seen = 0;
    for tile in (0..program.tiles).map(TileId) {
        for (a, b) in &wishes {
            let touched = |id: &BufferId| -> Option<BTreeSet<_>> {
                let buffer = &program.buffers[id.0 as usize];
                let at = placed.addresses.get(*id, tile)?;
                let (_, bytes) = buffer.sizes.iter().find(|(found, _)| *found == tile)?;
                Some(elements(at, Bytes(*bytes)).collect())
            };
            let live = |id: &BufferId| program.buffers[id.0 as usize].live.clone();
            if a == b || live(a).start >= live(b).end || live(b).start >= live(a).end {
                continue;
            }
            if let (Some(one), Some(other)) = (touched(a), touched(b)) {
                assert!(one.is_disjoint(&other), "tile {tile}: {a:?} {b:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 0);
}

#[test]
fn a_change_on_one_tile_is_one_new_problem() {
    let tiles = |last: u32| {
        // No tile covers another: each has the largest piece of one buffer.
        let sizes = |large: usize| -> Vec<u32> {
            (0..4).map(|tile| if tile == large { 8000 + 32 * large as u32 } else { 64 }).collect()
        };
        let mut buffers: Vec<_> =
            (0..4).map(|large| buffer(&sizes(large), 0..2, Class::Any)).collect();
        buffers.push(buffer(&[32, 32, last, 32], 1..3, Class::Any));
        of_buffers(4, buffers, vec![])
    };
    let answers = Answers::default();
    let first = place(&tiles(48), &FREE, false, &answers).unwrap().stats;
    assert_eq!((first.problems, first.known), (4, 0));
    let second = place(&tiles(40), &FREE, false, &answers).unwrap().stats;
    assert_eq!((second.problems, second.known), (4, 3));
}

#[test]
fn threads_and_memory_of_others_change_no_address() {
    let fixture = Fixture::new(BLOCK, 24);
    let plans = fixture.first_plans();
    let programs: Vec<Program> =
        plans.iter().map(|recipe| program(&fixture.network, recipe)).collect();
    let all = |threads, order: Vec<usize>| {
        let answers = Answers::default();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut found: Vec<(usize, PlacedProgram)> = pool.install(|| {
            order
                .iter()
                .map(|at| (*at, place(&programs[*at], &FREE, true, &answers).unwrap()))
                .collect()
        });
        found.sort_by_key(|(at, _)| *at);
        found.into_iter().map(|(_, placed)| placed.addresses).collect::<Vec<_>>()
    };
    let forwards = all(1, (0..programs.len()).collect());
    assert_eq!(forwards, all(2, (0..programs.len()).rev().collect()));
}

#[test]
fn what_does_not_fit_names_the_tile_and_the_bytes() {
    let sizes = [100_000, 400_000, 100_000];
    let buffers = (0..2).map(|_| buffer(&sizes, 3..5, Class::Any)).collect();
    let failure = place(&of_buffers(3, buffers, vec![]), &FREE, false, &Answers::default());
    let room = FREE.iter().map(|range| range.end - range.start).sum::<u32>();
    assert_eq!(
        failure.unwrap_err(),
        StorageFailure::Over {
            tile: TileId(1),
            region: Region::Either,
            bytes_over: 2 * 400_016 - room,
            step: 3
        }
    );
}

/// A piece that is larger than every free range is proved not to fit, and the proof is told as one.
#[test]
fn what_fits_not_even_alone_names_the_buffer_and_the_bytes() {
    let larger = 0xe7bb0 - 0x64000;
    let cases =
        [(Class::Any, Region::Either, larger), (Class::Interleaved, Region::Interleaved, 0x67bb0)];
    for (class, region, room) in cases {
        let buffers = vec![buffer(&[8, 8], 0..9, Class::Any), buffer(&[8, room], 3..5, class)];
        let failure = place(&of_buffers(2, buffers, vec![]), &FREE, false, &Answers::default());
        let failure = failure.unwrap_err();
        let words = format!(
            "tile 1: `b` of step 3 is 16 bytes larger than its largest place in {} memory",
            region.name()
        );
        assert_eq!(failure.to_string(), words);
        let buffer = "b".to_owned();
        let alone =
            StorageFailure::Alone { tile: TileId(1), buffer, region, bytes_over: 16, step: 3 };
        assert_eq!(failure, alone);
    }
}

#[test]
fn what_fits_in_no_way_names_where_memory_is_tightest() {
    // Both fit only in the larger range, and only one does.
    let buffers = (0..2).map(|_| buffer(&[8, 275_000], 3..5, Class::Any)).collect();
    let failure = place(&of_buffers(2, buffers, vec![]), &FREE, false, &Answers::default());
    let room_bytes = FREE.iter().map(|range| u64::from(range.end - range.start)).sum::<u64>();
    let tightest = Load { region: Region::Either, step: 3, live_bytes: 2 * 275_016, room_bytes };
    let failure = failure.unwrap_err();
    assert_eq!(failure, StorageFailure::Proved { tile: TileId(1), tightest });
    let words = "of 572336 bytes in all memory 22304 are to spare at step 3";
    assert!(failure.to_string().contains(words), "{failure}");
}

#[test]
fn a_plan_that_first_fit_cannot_place_is_placed() {
    let (_, text) = shipped::MODELS.iter().find(|(name, _)| *name == "mlp2-256").unwrap();
    let fixture = Fixture::new(&scaled::with_rows(text, 3072), 1472);
    let program = program(&fixture.network, &fixture.first_plans()[0]);
    let (_, support) = lay_out(&program, estimated_row_bytes(&program)).unwrap();
    let placed = place(&program, &support.free, false, &Answers::default()).unwrap();
    let problems = (0..program.tiles).map(TileId).map(|tile| {
        let problem = tile_problem(&program, tile, &support.free);
        assert_eq!(violation(&problem, &on_tile(&program, &placed.addresses, tile)), None);
        problem
    });
    let fullest = problems.max_by_key(|problem| problem.fullest().1).unwrap();
    for bound_first in [false, true] {
        assert!(first_fit::unplaced(&fullest, bound_first).is_some(), "{bound_first}");
    }
}
