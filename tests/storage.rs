//! Storage placement: answers obey every rule, "impossible" is a proof, bad problems are refused.
#![allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    reason = "a helper that fails fails its test; a problem may have one free range"
)]

use ipu_tune::storage::file::PlacementFile;
use ipu_tune::storage::generate::banks;
use ipu_tune::storage::rectangles::{Rectangle, RectangleError, RectangleOutcome, Rectangles};
use ipu_tune::storage::{
    Buffer, Outcome, Problem, ProblemError, Proof, Region, Support, SupportSizes, place,
    place_within,
};
use ipu_tune::target::sram::elements;
use ipu_tune::target::{Address, Bytes};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// What is wrong with a placement, by rules written down here again.
fn violation(problem: &Problem, addresses: &[u32]) -> Option<String> {
    let span = |index: usize| (addresses[index], addresses[index] + problem.buffers[index].size);
    let together = |a: usize, b: usize| {
        let (a, b) = (&problem.buffers[a], &problem.buffers[b]);
        a.live.iter().any(|a| b.live.iter().any(|b| a.start < b.end && b.start < a.end))
    };
    for &(a, b) in &problem.aliases {
        if addresses[a] != addresses[b] {
            return Some(format!("{a} and {b} have two addresses"));
        }
    }
    let groups = groups(problem);
    for (index, buffer) in problem.buffers.iter().enumerate() {
        let (start, end) = span(index);
        if !start.is_multiple_of(buffer.alignment) {
            return Some(format!("{index} is misaligned"));
        }
        if !problem.free.iter().any(|range| range.start <= start && end <= range.end) {
            return Some(format!("{index} is not inside a free range"));
        }
        let wrong = match buffer.region {
            Region::Either => false,
            Region::Standard => end > 0x80000,
            Region::Interleaved => start < 0x80000,
        };
        if wrong || buffer.forbidden.iter().any(|range| range.start < end && start < range.end) {
            return Some(format!("{index} lies where it must not"));
        }
        for other in 0..index {
            let (from, to) = span(other);
            let alone = buffer.untouched || problem.buffers[other].untouched;
            let one_place = groups[index] == groups[other];
            if !one_place && (alone || together(index, other)) && from < end && start < to {
                return Some(format!("{index} and {other} overlap"));
            }
        }
    }
    for &(a, b) in &problem.apart {
        let touched = |index: usize| -> Vec<_> {
            elements(Address(addresses[index]), Bytes(problem.buffers[index].size)).collect()
        };
        if together(a, b) && touched(a).iter().any(|element| touched(b).contains(element)) {
            return Some(format!("{a} and {b} share an element"));
        }
    }
    None
}

fn regions() -> impl Strategy<Value = Region> {
    prop::sample::select(vec![Region::Either, Region::Standard, Region::Interleaved])
}

/// One or two stretches of time.
fn lifetimes() -> impl Strategy<Value = Vec<Range<u32>>> {
    (0..10_u32, 1..6_u32, 0..4_u32, 1..5_u32, any::<bool>()).prop_map(
        |(start, length, gap, more, twice)| {
            let first = start..start + length;
            let second = first.end + gap..first.end + gap + more;
            if twice { vec![first, second] } else { vec![first] }
        },
    )
}

fn problems(count: usize, size: Range<u32>) -> impl Strategy<Value = Problem> {
    let buffer = (size, 2..7_u32, regions(), lifetimes(), 0..12_u32).prop_map(
        |(size, alignment, region, live, special)| Buffer {
            size,
            alignment: 1 << alignment,
            region,
            live,
            forbidden: if special == 0 { vec![0x76000..0x84000] } else { vec![] },
            preferred: vec![],
            untouched: special == 1,
        },
    );
    let pairs = || prop::collection::vec((0..count, 0..count), 0..5);
    (prop::collection::vec(buffer, 1..count), 0x2000..0x60000_u32, pairs(), pairs()).prop_map(
        |(buffers, room, apart, aliases)| {
            let count = buffers.len();
            let pairs = |pairs: Vec<(usize, usize)>| {
                let pairs = pairs.into_iter().map(|(a, b)| (a % count, b % count));
                pairs.filter(|(a, b)| a != b).collect()
            };
            let free = vec![0x50000..0x58000, 0x70000..0x80000 + room];
            let mut problem = Problem {
                free,
                apart: pairs(apart),
                aliases: pairs(aliases),
                buffers,
                repeats: vec![],
            };
            if problem.check().is_err() {
                problem.apart.clear();
            }
            problem
        },
    )
}

/// A few buffers in a few words of memory around the middle of tile memory, with every rule of a
/// buffer: several lifetimes, tails of odd bytes, holes, aliases, some that are untouched.
fn tiny() -> impl Strategy<Value = Problem> {
    let hole = prop::option::weighted(0.3, (0..40_u32, 1..24_u32));
    let rules = (0..6_u32, 0..4_u32, hole, prop::bool::weighted(0.15));
    let live = (0..4_u32, 1..4_u32, prop::option::weighted(0.3, (0..2_u32, 1..3_u32)));
    let buffer = (1..5_u32, prop_oneof![3 => Just(0), 1 => 1..4_u32], 2..4_u32, rules, live);
    let buffer =
        buffer.prop_map(|(words, tail, alignment, (region, tight, hole, untouched), live)| {
            let (start, length, again) = live;
            let first = start..start + length;
            let again = again.map(|(gap, more)| first.end + gap..first.end + gap + more);
            let begin = 0x80000 - 16;
            Buffer {
                size: if tight == 0 { 4 * words + tail } else { 4 * words },
                alignment: 1 << alignment,
                region: match region {
                    0 => Region::Standard,
                    1 => Region::Interleaved,
                    _ => Region::Either,
                },
                live: std::iter::once(first).chain(again).collect(),
                forbidden: hole.iter().map(|(at, bytes)| begin + at..begin + at + bytes).collect(),
                preferred: vec![],
                untouched,
            }
        });
    let pairs = || prop::collection::vec((0..6_usize, 0..6_usize), 0..3);
    let aliases = prop_oneof![Just(vec![]), pairs()];
    (prop::collection::vec(buffer, 2..7), 0..4_u32, 3..7_u32, pairs(), aliases).prop_map(
        |(buffers, below, above, apart, aliases)| {
            let count = buffers.len();
            let pairs = |pairs: Vec<(usize, usize)>| {
                let pairs = pairs.into_iter().map(|(a, b)| (a % count, b % count));
                pairs.filter(|(a, b)| a != b).collect()
            };
            let mut problem = Problem {
                free: vec![0x80000 - 4 * below - 4..0x80000 + 4 * above],
                apart: pairs(apart),
                aliases: pairs(aliases),
                repeats: vec![],
                buffers,
            };
            if problem.check().is_err() {
                problem.apart.clear();
            }
            problem
        },
    )
}

/// For every buffer the first that aliases lead to.
fn groups(problem: &Problem) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..problem.buffers.len()).collect();
    for _ in 0..problem.buffers.len() {
        for &(a, b) in &problem.aliases {
            let first = groups[a].min(groups[b]);
            (groups[a], groups[b]) = (first, first);
        }
    }
    groups
}

/// Whether any placement exists, by trying every address of every buffer in turn.
fn exists(problem: &Problem, addresses: &mut Vec<u32>) -> bool {
    let index = addresses.len();
    let Some(buffer) = problem.buffers.get(index) else { return true };
    let range = &problem.free[0];
    let groups = groups(problem);
    (range.start..range.end).step_by(4).any(|address| {
        if !address.is_multiple_of(buffer.alignment) || address + buffer.size > range.end {
            return false;
        }
        addresses.push(address);
        let buffers = problem.buffers[..=index].to_vec();
        let apart = problem.apart.iter().copied().filter(|(a, b)| *a.max(b) <= index).collect();
        // Those that have one address are linked through ones that are not there yet, too.
        let aliases =
            (0..=index).filter(|other| groups[*other] != *other && groups[*other] <= index);
        let part = Problem {
            free: problem.free.clone(),
            buffers,
            apart,
            aliases: aliases.map(|other| (groups[other], other)).collect(),
            repeats: vec![],
        };
        let found = violation(&part, addresses).is_none() && exists(problem, addresses);
        addresses.pop();
        found
    })
}

/// Whether a buffer of so many bytes may begin at an address if no other is there.
fn may_begin(problem: &Problem, buffer: &Buffer, size: u32, at: u32) -> bool {
    let (region, end) = (bytes_of(buffer.region), at + size);
    at.is_multiple_of(buffer.alignment)
        && region.start <= at
        && end <= region.end
        && problem.free.iter().any(|free| free.start <= at && end <= free.end)
        && buffer.forbidden.iter().all(|hole| end <= hole.start || hole.end <= at)
}

/// All addresses of a buffer that is there alone.
fn addresses_of<'a>(
    problem: &'a Problem,
    buffer: &'a Buffer,
    size: u32,
) -> impl Iterator<Item = u32> + 'a {
    let everywhere = problem.free.iter().flat_map(|free| {
        let first = free.start.next_multiple_of(buffer.alignment);
        (first..free.end).step_by(buffer.alignment as usize)
    });
    everywhere.filter(move |at| may_begin(problem, buffer, size, *at))
}

fn bytes_of(region: Region) -> Range<u32> {
    match region {
        Region::Either => 0..u32::MAX,
        Region::Standard => 0..0x80000,
        Region::Interleaved => 0x80000..u32::MAX,
    }
}

/// What is wrong with a proof, by an own count of what it names.
fn unproved(problem: &Problem, proof: &Proof) -> Option<String> {
    let groups = groups(problem);
    let members =
        |group: usize| (0..groups.len()).filter(|b| groups[*b] == group).collect::<Vec<_>>();
    let of = |buffer: usize| &problem.buffers[buffer];
    let shared = |group: usize| -> Vec<u32> {
        let found = addresses_of(problem, of(group), of(group).size);
        let allows = |at: u32, b: usize| may_begin(problem, of(b), of(b).size, at);
        found.filter(|at| members(group).into_iter().all(|b| allows(*at, b))).collect()
    };
    let has_place = |buffer: usize, less: u32| {
        addresses_of(problem, of(buffer), of(buffer).size - less).next().is_some()
    };
    match proof {
        Proof::Bytes(found) => {
            let region = bytes_of(found.region);
            // Of what the region has to hold, and of what it has to hold because it says so.
            let (mut live, mut named) = (0, 0);
            for group in (0..groups.len()).filter(|group| groups[*group] == *group) {
                let all = members(group);
                let most = all.iter().map(|b| of(*b).size).max().unwrap_or(0);
                let inside = |at: &u32| region.start <= *at && at + most <= region.end;
                let here = all.iter().map(|b| of(*b)).filter(|buffer| {
                    buffer.untouched || buffer.live.iter().any(|live| live.contains(&found.step))
                });
                let bytes = here.map(|buffer| u64::from(buffer.size)).max().unwrap_or(0);
                let everywhere = found.region == Region::Either;
                if everywhere || shared(group).iter().all(inside) {
                    live += bytes;
                }
                if everywhere || all.len() == 1 && of(group).region == found.region {
                    named += bytes;
                }
            }
            let inside =
                |r: &Range<u32>| r.end.min(region.end).saturating_sub(r.start.max(region.start));
            let room: u64 = problem.free.iter().map(inside).map(u64::from).sum();
            let told = room + u64::from(found.bytes_over);
            let wrong = found.bytes_over == 0 || told > live || told < named;
            wrong.then(|| format!("{named} to {live} bytes in {room}, not {told}"))
        }
        Proof::Alone { buffer, bytes_over } => {
            let fits_with_less = |less| less == of(*buffer).size || has_place(*buffer, less);
            let right = *bytes_over > 0
                && fits_with_less(*bytes_over)
                && !has_place(*buffer, bytes_over - 1);
            (!right).then(|| format!("not {bytes_over} bytes"))
        }
        Proof::NoAddress { buffer } => {
            let group = groups[*buffer];
            let all = members(group);
            let right =
                all.len() > 1 && all.iter().all(|b| has_place(*b, 0)) && shared(group).is_empty();
            (!right).then(|| "there is an address".to_owned())
        }
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn placements_obey_every_rule(problem in problems(30, 1..40_000)) {
        problem.check().unwrap();
        match place_within(&problem, 3000) {
            Outcome::Placed(addresses) => {
                prop_assert_eq!(addresses.len(), problem.buffers.len());
                prop_assert_eq!(violation(&problem, &addresses), None);
            }
            Outcome::Impossible(proof) => {
                prop_assert_eq!(unproved(&problem, &proof), None, "{:?}", proof);
            }
            Outcome::Unknown { buffer, .. } => prop_assert!(buffer < problem.buffers.len()),
        }
    }

    /// Disjoint lifetimes share one place.
    #[test]
    fn what_never_meets_shares_its_place(sizes in prop::collection::vec(1..30_000_u32, 1..20)) {
        let largest = sizes.iter().copied().max().unwrap();
        let buffers = (0..).zip(&sizes).map(|(step, size)| Buffer { size: *size, live: vec![step..step + 1], ..plain() });
        let problem = Problem { free: vec![0x80000..0x80000 + largest], buffers: buffers.collect(), ..Problem::default() };
        prop_assert!(matches!(place(&problem), Outcome::Placed(_)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Both answers against all placements there are: neither "placed" nor "impossible" is a guess,
    /// and so few buffers are never "unknown", but if one with an alias must lie apart from another.
    #[test]
    fn tiny_problems_are_decided_as_by_trying_everything(problem in tiny()) {
        let exists = exists(&problem, &mut vec![]);
        match place(&problem) {
            Outcome::Placed(addresses) => prop_assert_eq!(violation(&problem, &addresses), None),
            Outcome::Impossible(proof) => {
                prop_assert!(!exists, "{:?}", proof);
                prop_assert_eq!(unproved(&problem, &proof), None, "{:?}", proof);
            }
            Outcome::Unknown { .. } => {
                let groups = groups(&problem);
                let has_alias = |buffer: &usize| groups.iter().filter(|g| **g == groups[*buffer]).count() > 1;
                prop_assert!(problem.apart.iter().any(|(a, b)| has_alias(a) || has_alias(b)), "undecided");
            }
        }
    }
}

fn plain() -> Buffer {
    Buffer {
        size: 64,
        alignment: 8,
        region: Region::Either,
        live: vec![0..2],
        forbidden: vec![],
        preferred: vec![],
        untouched: false,
    }
}

#[test]
fn bad_problems_are_refused() {
    let one = |buffer: Buffer| Problem {
        free: vec![0x80000..0x90000],
        buffers: vec![buffer],
        ..Problem::default()
    };
    let two = || Problem { buffers: vec![plain(), plain()], ..one(plain()) };
    assert_eq!(one(plain()).check(), Ok(()));
    let refused = |problem: Problem, wanted: &str| {
        let error = problem.check().unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
    };
    refused(one(Buffer { size: 0, ..plain() }), "0 bytes");
    refused(one(Buffer { size: u32::MAX, ..plain() }), "bytes");
    refused(one(Buffer { alignment: 24, ..plain() }), "alignment 24");
    #[expect(clippy::reversed_empty_ranges, reason = "a lifetime that ends before it starts")]
    refused(one(Buffer { live: vec![3..2], ..plain() }), "from step 3 to step 2");
    refused(one(Buffer { live: vec![], ..plain() }), "lifetimes that ascend");
    refused(one(Buffer { live: vec![0..4, 3..5], ..plain() }), "lifetimes that ascend");
    refused(one(Buffer { forbidden: vec![0..4], ..plain() }), "forbidden range 0x0 to 0x4");
    refused(
        Problem { free: vec![0x80000..0x90000, 0x88000..0x98000], ..Problem::default() },
        "overlaps",
    );
    refused(Problem { free: vec![0x40000..0x90000], ..Problem::default() }, "leaves tile memory");
    let twice = Problem { apart: vec![(0, 0)], ..one(plain()) };
    assert_eq!(twice.check(), Err(ProblemError::Apart(0, 0)));
    let beyond = Problem { aliases: vec![(0, 2)], ..two() };
    assert_eq!(beyond.check(), Err(ProblemError::Alias(0, 2)));
    let both = Problem { aliases: vec![(0, 1)], apart: vec![(0, 1)], ..two() };
    assert_eq!(both.check(), Err(ProblemError::Contradiction(0, 1)));
}

#[test]
fn an_impossible_problem_says_where_and_by_how_much() {
    let buffer =
        |region, live: Range<u32>| Buffer { size: 4096, region, live: vec![live], ..plain() };
    let problem = |buffers| Problem { free: vec![0x7f000..0x81000], buffers, ..Problem::default() };
    let outcome = place(&problem(vec![
        buffer(Region::Interleaved, 0..4),
        buffer(Region::Interleaved, 3..5),
        buffer(Region::Standard, 0..9),
    ]));
    let Outcome::Impossible(Proof::Bytes(found)) = outcome else { panic!("{outcome:?}") };
    assert_eq!((found.region, found.step, found.bytes_over), (Region::Interleaved, 3, 4096));
    let large = Buffer { size: 0x3000, ..plain() };
    let alone = place(&problem(vec![plain(), large]));
    assert_eq!(alone, Outcome::Impossible(Proof::Alone { buffer: 1, bytes_over: 0x1000 }));
}

/// Buffers with one address in 64 free bytes from 0x58000 on, at all of two steps.
fn sharing(buffers: Vec<Buffer>, aliases: Vec<(usize, usize)>) -> Problem {
    let live = |buffer| Buffer { live: vec![0..2], alignment: 1, ..buffer };
    Problem {
        free: vec![0x58000..0x58040],
        buffers: buffers.into_iter().map(live).collect(),
        aliases,
        ..Problem::default()
    }
}

#[test]
fn bytes_that_are_too_many_are_a_proof_with_aliases_too() {
    let small = Buffer { size: 8, region: Region::Standard, ..plain() };
    let problem = sharing(vec![small, plain(), plain()], vec![(0, 1)]);
    let outcome = place(&problem);
    let Outcome::Impossible(Proof::Bytes(found)) = outcome else { panic!("{outcome:?}") };
    assert_eq!((found.region, found.step, found.bytes_over), (Region::Standard, 0, 64));
}

#[test]
fn a_rule_of_an_alias_holds_for_its_own_bytes_alone() {
    let hole = |range: Range<u32>, size| Buffer { size, forbidden: vec![range], ..plain() };
    let solvable = sharing(vec![hole(0x58020..0x58040, 8), plain()], vec![(0, 1)]);
    assert_eq!(place(&solvable), Outcome::Placed(vec![0x58000; 2]));
    // The hole ends where the last address is at which the larger fits.
    let last =
        sharing(vec![hole(0x58000..0x58020, 8), Buffer { size: 32, ..plain() }], vec![(1, 0)]);
    assert_eq!(place(&last), Outcome::Placed(vec![0x58020; 2]));
    let regions = Problem {
        free: vec![0x7fff0..0x80010],
        ..sharing(
            vec![
                Buffer { size: 8, region: Region::Standard, ..plain() },
                Buffer { size: 24, ..plain() },
            ],
            vec![(0, 1)],
        )
    };
    assert!(matches!(place(&regions), Outcome::Placed(_)));
}

#[test]
fn buffers_with_one_address_that_have_none_are_impossible() {
    let forbidden = |range| Buffer { size: 8, forbidden: vec![range], ..plain() };
    let nowhere = sharing(vec![forbidden(0x4c000..0xe8000), plain()], vec![(0, 1)]);
    assert_eq!(place(&nowhere), Outcome::Impossible(Proof::Alone { buffer: 0, bytes_over: 8 }));
    let halves = [0x58000..0x58020, 0x58020..0x58040].map(forbidden).to_vec();
    let apart = place(&sharing(halves, vec![(0, 1)]));
    assert_eq!(apart, Outcome::Impossible(Proof::NoAddress { buffer: 0 }));
}

#[test]
fn of_buffers_with_one_address_the_largest_without_a_place_is_named() {
    let sized = |size| Buffer { size, ..plain() };
    let problem = sharing([8, 100, 200, 150].map(sized).to_vec(), vec![(0, 1), (1, 2), (3, 0)]);
    let outcome = place(&problem);
    assert_eq!(outcome, Outcome::Impossible(Proof::Alone { buffer: 2, bytes_over: 136 }));
}

#[test]
fn an_unknown_outcome_counts_the_nodes_that_were_spent() {
    let problem = banks(0, false);
    let spent = [0, 5].map(|nodes| match place_within(&problem, nodes) {
        Outcome::Unknown { nodes, .. } => nodes,
        other => panic!("{other:?}"),
    });
    assert_eq!(spent, [0, 5]);
}

/// They have a solution by construction.
#[test]
fn planted_problems_are_never_called_impossible() {
    for (seed, spare) in (0..10).flat_map(|seed| [(seed, true), (seed, false)]) {
        let problem = banks(seed, spare);
        problem.check().unwrap();
        match place_within(&problem, 500) {
            Outcome::Placed(addresses) => assert_eq!(violation(&problem, &addresses), None),
            Outcome::Impossible(proof) => panic!("seed {seed}: {proof:?}"),
            Outcome::Unknown { .. } => {}
        }
    }
}

/// A block cut into pieces, by time and by address: it is full, and can be filled again.
fn cut(seed: u64, pieces: usize) -> Rectangles {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut whole = vec![(0..4096_u32, 0..4096_u32)];
    while whole.len() < pieces {
        let at = random.random_range(0..whole.len());
        let (live, space) = whole.swap_remove(at);
        let side = if random.random() { &live } else { &space };
        let middle = random.random_range(side.start..=side.end);
        let halves = if side == &live {
            [(live.start..middle, space.clone()), (middle..live.end, space.clone())]
        } else {
            [(live.clone(), space.start..middle), (live.clone(), middle..space.end)]
        };
        whole.extend(
            halves.into_iter().filter(|(live, space)| !live.is_empty() && !space.is_empty()),
        );
    }
    let buffers = whole.into_iter().enumerate().map(|(index, (live, space))| Rectangle {
        id: index.to_string(),
        lower: live.start,
        upper: live.end,
        size: space.end - space.start,
    });
    Rectangles { buffers: buffers.collect() }
}

#[test]
fn full_blocks_are_never_called_impossible() {
    for seed in 0..20 {
        let rectangles = cut(seed, 24);
        assert_eq!(rectangles.bound(), 4096);
        match rectangles.place(4096, 5000) {
            RectangleOutcome::Placed(offsets) => {
                assert_eq!(rectangles.violation(4096, &offsets), None);
                assert_eq!(rectangles.height(&offsets), 4096);
            }
            RectangleOutcome::Impossible => panic!("seed {seed}"),
            RectangleOutcome::Unknown { .. } => {}
        }
        assert_eq!(rectangles.place(4095, 5000), RectangleOutcome::Impossible);
    }
}

#[test]
fn rectangles_are_read_and_written() {
    let text = "id,lower,upper,size\na,0,3,4\nb,3,9,4\n";
    let rectangles = Rectangles::from_csv(text).unwrap();
    assert_eq!(rectangles.to_csv(&[0, 8]), "id,lower,upper,size,offset\na,0,3,4,0\nb,3,9,4,8\n");
    assert!(rectangles.violation(8, &[0, 8]).unwrap().contains("ends at 12"));
    let refused = |text: &str| Rectangles::from_csv(text).unwrap_err();
    assert_eq!(refused("id,lower,size\n"), RectangleError::Column { column: "upper" });
    assert!(refused("id,lower,upper,size\na,0,3,-4\n").to_string().contains("`-4` is no size"));
    assert!(refused("id,lower,upper,size\na,5,3,4\n").to_string().contains("from 5 to 3"));
    assert!(refused("id,lower,upper,size\na,0,3,4\na,0,3,4\n").to_string().contains("twice"));
    let wide = Rectangles::from_csv("id,lower,upper,size\na,0,2,6\nb,1,3,6\n").unwrap();
    assert!(wide.violation(12, &[0, 5]).unwrap().contains("overlap"));
}

#[test]
fn support_keeps_code_and_data_apart() {
    for count in [1, 12, 40, 70] {
        let routines: Vec<u32> = (0..count).map(|index| 256 + 36 * (index % 40)).collect();
        let sizes = SupportSizes { routines, program: 9000, rows: 21_000, profile: 300 };
        let support = Support::new(&sizes).unwrap();
        let mut code = vec![&support.launch, &support.program, &support.rows];
        code.extend(&support.routines);
        for (index, a) in code.iter().enumerate() {
            assert!(a.end <= 0x80000, "executable");
            for b in &code[..index] {
                assert!(a.end <= b.start || b.end <= a.start);
            }
        }
        let touched = |range: &std::ops::Range<u32>| -> Vec<_> {
            elements(Address(range.start), Bytes(range.end - range.start)).collect()
        };
        for free in support.free.iter().chain([&support.profile]) {
            let data = touched(free);
            assert!(code.iter().all(|range| touched(range).iter().all(|e| !data.contains(e))));
            assert!(free.end <= 0x58000 || free.start >= 0x5c000, "the runtime keeps its state");
        }
        assert!(support.profile.end <= support.free[0].start);
        assert_eq!(support.rows.start % 0x4000, 0);
    }
    let sizes =
        SupportSizes { routines: vec![1000; 90], program: 9000, rows: 100_000, profile: 300 };
    assert!(Support::new(&sizes).unwrap_err().bytes_over > 0);
}

/// A legal answer, and what is said when one thing of it is broken: that, and nothing else.
#[test]
fn every_rule_of_a_placement_file_is_checked() {
    let text = r#"{"format": "ipu-tune/placement@1", "free": [[491520, 589824]], "buffers": [
        {"name": "code", "size": 64, "executable": true, "persistent": true},
        {"name": "a", "size": 56, "tail": 8, "alignment": 8, "live": [[0, 2]]},
        {"name": "b", "size": 64, "alignment": 8, "live": [[1, 3]], "forbidden": [[560000, 560064]]},
        {"name": "c", "size": 64, "live": [[5, 6]], "untouched": true},
        {"name": "d", "size": 64, "region": "interleaved", "live": [[1, 2]]},
        {"name": "view", "size": 32, "live": [[1, 2]]}],
        "apart": [["b", "d"]], "aliases": [["view", "a"]]}"#;
    let (file, problem) = PlacementFile::from_json(text).unwrap();
    assert_eq!(problem.buffers[1].size, 64);
    let good = [491_520, 491_584, 491_648, 491_712, 524_288, 491_584];
    assert_eq!(file.misplaced(&good), []);
    let broken = |changes: &[(usize, u32)]| {
        let mut addresses = good;
        changes.iter().for_each(|(buffer, address)| addresses[*buffer] = *address);
        file.misplaced(&addresses).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(broken(&[(2, 491_788)]), ["`b` lies at 491788, no multiple of 8"]);
    assert_eq!(
        broken(&[(3, 491_456)]),
        ["`c` takes 491456 to 491520, which is inside no free range"]
    );
    assert_eq!(
        broken(&[(3, 589_761)]),
        ["`c` takes 589761 to 589825, which is inside no free range"]
    );
    assert_eq!(broken(&[(4, 510_000)]), ["`d` takes 510000 to 510064, which is not in its region"]);
    assert_eq!(
        broken(&[(0, 524_225)]),
        ["`code` takes 524225 to 524289, which is not in its region", "`code` and `d` overlap"]
    );
    assert_eq!(broken(&[(2, 560_000)]), ["`b` touches 560000 to 560064, which is forbidden to it"]);
    // The tail of `a` is taken too, while it lives.
    assert_eq!(broken(&[(2, 491_640)]), ["`a` and `b` overlap"]);
    // What is untouched meets nothing at any step; what is persistent meets all.
    assert_eq!(broken(&[(3, 491_648)]), ["`b` and `c` overlap"]);
    assert_eq!(broken(&[(0, 491_700)]), ["`code` and `b` overlap", "`code` and `c` overlap"]);
    assert_eq!(broken(&[(2, 530_000)]), ["`b` and `d` share a memory element"]);
    assert_eq!(broken(&[(5, 500_000)]), ["`a` and `view` have two addresses"]);
    assert_eq!(file.misplaced(&good[1..])[0].to_string(), "5 addresses for 6 buffers");
}

/// Every buffer in one place, linked as a tree: the checker follows the links once, not for every pair.
#[test]
fn many_aliases_are_one_place_to_the_checker_too() {
    let count = 1500;
    let buffer = |index: usize| format!(r#"{{"name": "{index}", "size": 64, "live": [[0, 2]]}}"#);
    let list = |items: Vec<String>| items.join(", ");
    let text = format!(
        r#"{{"format": "ipu-tune/placement@1", "free": [[491520, 491584]], "buffers": [{}], "aliases": [{}]}}"#,
        list((0..count).map(buffer).collect()),
        list((1..count).map(|index| format!(r#"["{}", "{index}"]"#, index / 2)).collect()),
    );
    let (file, problem) = PlacementFile::from_json(&text).unwrap();
    assert_eq!(place(&problem), Outcome::Placed(vec![491_520; count]));
    assert_eq!(file.misplaced(&vec![491_520; count]), []);
    let mut moved = vec![491_520; count];
    moved[count - 1] = 491_521;
    assert_eq!(file.misplaced(&moved).len(), 2, "outside free memory, and a second address");
}
