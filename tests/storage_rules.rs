//! Repeats and preferences: what is placed lies at one stride, what is called impossible has no
//! placement, and wishes that can be granted together are.
#![allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    reason = "a helper that fails fails its test; a problem may have one free range"
)]

use std::ops::Range;

use ipu_tune::storage::file::PlacementFile;
use ipu_tune::storage::generate::turns;
use ipu_tune::storage::verify::Misplaced;
use ipu_tune::storage::{
    Buffer, Outcome, Problem, ProblemError, Region, Repeat, RepeatRule, place, place_within,
};
use proptest::prelude::*;

fn buffer(words: u32, start: u32, length: u32) -> Buffer {
    Buffer {
        size: 4 * words,
        alignment: 4,
        region: Region::Either,
        live: vec![start..start + length],
        forbidden: vec![],
        preferred: vec![],
        untouched: false,
    }
}

/// A few words of memory, some buffers, of which the first two or three are blocks of one size.
fn tiny() -> impl Strategy<Value = Problem> {
    let buffers = prop::collection::vec((1..4_u32, 0..3_u32, 1..3_u32, 0..8_u32), 3..6);
    (buffers, 4..9_u32, 0..4_usize, prop::option::of(0..3_u32), any::<bool>()).prop_map(
        |(buffers, room, blocks, more, one_time)| {
            let (words, start, length, _) = buffers[0];
            let mut made: Vec<Buffer> = vec![];
            for (index, (own, from, steps, wish)) in buffers.into_iter().enumerate() {
                let mut buffer = match index < blocks {
                    true if one_time => buffer(words, start, length),
                    true => buffer(words, from, steps),
                    false => buffer(own, from, steps),
                };
                if index >= blocks && wish < 3 {
                    let at = 0x60000 + 8 * wish;
                    buffer.preferred = vec![at..at + 8];
                }
                made.push(buffer);
            }
            let stride = more.map(|more| 4 * (words + more));
            let repeat = Repeat { blocks: (0..blocks).collect(), stride };
            Problem {
                free: vec![0x60000..0x60000 + 4 * room],
                buffers: made,
                repeats: if blocks < 2 { vec![] } else { vec![repeat] },
                ..Problem::default()
            }
        },
    )
}

fn granted(buffer: &Buffer, at: u32) -> bool {
    buffer.preferred.is_empty()
        || buffer.preferred.iter().any(|range| range.start <= at && at + buffer.size <= range.end)
}

/// Whether the addresses of the first buffers break no rule.
fn legal(problem: &Problem, addresses: &[u32], wishes: bool) -> bool {
    let here = |index: usize| addresses[index]..addresses[index] + problem.buffers[index].size;
    let at_once = |a: usize, b: usize| {
        let (a, b) = (&problem.buffers[a].live[0], &problem.buffers[b].live[0]);
        a.start < b.end && b.start < a.end
    };
    let meet = |a: Range<u32>, b: Range<u32>| a.start < b.end && b.start < a.end;
    let inside =
        |span: &Range<u32>, free: &Range<u32>| free.start <= span.start && span.end <= free.end;
    let alone = (0..addresses.len()).all(|index| {
        let span = here(index);
        let Buffer { alignment, forbidden, .. } = &problem.buffers[index];
        problem.free.iter().any(|free| inside(&span, free))
            && span.start.is_multiple_of(*alignment)
            && !forbidden.iter().any(|hole| meet(span.clone(), hole.clone()))
            && (!wishes || granted(&problem.buffers[index], span.start))
            && (0..index).all(|other| !at_once(index, other) || !meet(here(index), here(other)))
    });
    let strides = problem.repeats.iter().all(|repeat| {
        let placed: Vec<u32> =
            repeat.blocks.iter().filter_map(|block| addresses.get(*block).copied()).collect();
        let stride = placed.get(1).map_or(0, |second| i64::from(*second) - i64::from(placed[0]));
        let size = i64::from(problem.buffers[repeat.blocks[0]].size);
        placed.len() < 2
            || (stride >= size && repeat.stride.is_none_or(|wanted| i64::from(wanted) == stride))
                && placed.windows(2).all(|p| i64::from(p[1]) - i64::from(p[0]) == stride)
    });
    // Memory elements of 16 KiB.
    let elements = |index: usize| here(index).start >> 14..=(here(index).end - 1) >> 14;
    let apart = problem.apart.iter().all(|&(a, b)| {
        let placed = a.max(b) < addresses.len();
        !placed
            || !at_once(a, b)
            || elements(a).end() < elements(b).start()
            || elements(b).end() < elements(a).start()
    });
    alone && strides && apart
}

/// Whether any placement exists, by trying every address of every buffer in turn.
fn exists(problem: &Problem, addresses: &mut Vec<u32>, wishes: bool) -> bool {
    if addresses.len() == problem.buffers.len() {
        return true;
    }
    let mut everywhere = problem.free.iter().flat_map(|free| free.clone().step_by(4));
    everywhere.any(|address| {
        addresses.push(address);
        let found = legal(problem, addresses, wishes) && exists(problem, addresses, wishes);
        addresses.pop();
        found
    })
}

/// Whether an outcome says nothing wrong: addresses are legal, and what is impossible cannot be found by
/// trying everything.
fn is_right(problem: &Problem, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Placed(addresses) => legal(problem, addresses, false),
        Outcome::Impossible(_) => !exists(problem, &mut vec![], false),
        Outcome::Unknown { .. } => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn tiny_problems_agree_with_trying_everything(problem in tiny()) {
        problem.check().unwrap();
        let outcome = place(&problem);
        prop_assert!(!matches!(outcome, Outcome::Unknown { .. }), "undecided");
        prop_assert!(is_right(&problem, &outcome), "{outcome:x?}");
        // Wishes of blocks are tried without gaps first, so beside them not all are granted.
        if let Outcome::Placed(addresses) = outcome
            && problem.repeats.is_empty()
            && exists(&problem, &mut vec![], true)
        {
            prop_assert!(legal(&problem, &addresses, true), "{addresses:x?}");
        }
    }
}

/// One or two repeats of two or three blocks, and up to two buffers, in a few words that may be cut in
/// two, or lie on both sides of an element's end; some hold a block where it is, or two apart.
fn tiny_repeats() -> impl Strategy<Value = Problem> {
    let repeat = (2..4_usize, 1..3_u32, prop::option::of(0..4_u32), any::<bool>(), 0..3_u32);
    let other = (1..4_u32, 0..3_u32, 1..3_u32, any::<bool>());
    let hole = prop::option::of((0..8_usize, 0..12_u32, 1..4_u32));
    let pair = prop::option::weighted(0.3, (0..2_usize, 0..2_usize));
    let memory = (5..13_u32, 0..4_u32, prop::option::of(3..8_u32));
    let (repeats, others) =
        (prop::collection::vec(repeat, 1..3), prop::collection::vec(other, 0..3));
    (repeats, others, hole, pair, memory).prop_map(|(repeats, others, hole, pair, memory)| {
        let (words, below, cut) = memory;
        let start = 0x60000 - 8 * below;
        let mut problem = Problem { free: vec![start..start + 4 * words], ..Problem::default() };
        if let Some(cut) = cut.filter(|cut| *cut + 1 < words) {
            let at = start + 4 * cut;
            problem.free = vec![start..at, at + 4..start + 4 * words];
        }
        for (blocks, words, more, wide, from) in repeats {
            let first = problem.buffers.len();
            let alignment = if wide { 8 } else { 4 };
            let stride =
                more.map(|more| (4 * words).next_multiple_of(alignment) + alignment * more);
            problem.repeats.push(Repeat { blocks: (first..first + blocks).collect(), stride });
            let block = Buffer { alignment, ..buffer(words, from, 2) };
            problem.buffers.resize(first + blocks, block);
        }
        let blocks = problem.buffers.len();
        for (words, from, steps, wide) in others {
            let alignment = if wide { 8 } else { 4 };
            problem.buffers.push(Buffer { alignment, ..buffer(words, from, steps) });
        }
        if let Some((index, at, words)) = hole {
            let index = index % problem.buffers.len();
            problem.buffers[index].forbidden = vec![start + 4 * at..start + 4 * (at + words)];
        }
        if let Some((block, other)) =
            pair.filter(|(_, other)| blocks + other < problem.buffers.len())
        {
            problem.apart = vec![(block, blocks + other)];
        }
        problem
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn tiny_repeats_agree_with_trying_everything(problem in tiny_repeats()) {
        problem.check().unwrap();
        let outcome = place(&problem);
        prop_assert!(!matches!(outcome, Outcome::Unknown { .. }), "undecided");
        prop_assert!(is_right(&problem, &outcome), "{outcome:x?}");
    }

    #[test]
    fn with_few_nodes_nothing_solvable_is_called_impossible(problem in tiny_repeats(), nodes in 0..60_u64) {
        let outcome = place_within(&problem, nodes);
        prop_assert!(is_right(&problem, &outcome), "{outcome:x?}");
    }
}

fn two(repeat: Repeat) -> Problem {
    Problem {
        free: vec![0x60000..0x60040],
        buffers: vec![buffer(4, 0, 2), buffer(4, 0, 2), buffer(4, 0, 2)],
        repeats: vec![repeat],
        ..Problem::default()
    }
}

#[test]
fn blocks_lie_around_what_is_in_the_middle_if_the_stride_allows() {
    let repeat = |stride| Repeat { blocks: vec![0, 1], stride };
    let around = |stride| {
        let mut problem = two(repeat(stride));
        // The third lies in the middle of 64 bytes: no two blocks fit beside each other.
        problem.buffers[2].forbidden = vec![0x60000..0x60014, 0x6002c..0x60040];
        problem.free = vec![0x60000..0x60038];
        place(&problem)
    };
    assert!(matches!(around(Some(16)), Outcome::Impossible(_)));
    assert!(matches!(around(Some(28)), Outcome::Impossible(_)));
    assert!(matches!(around(Some(44)), Outcome::Impossible(_)));
    for stride in [Some(32), Some(36), Some(40), None] {
        let Outcome::Placed(addresses) = around(stride) else { panic!("there is room") };
        let found = addresses[1] - addresses[0];
        assert!(matches!(found, 32 | 36 | 40) && stride.is_none_or(|stride| stride == found));
    }
}

#[test]
fn wishes_that_exclude_each_other_are_granted_in_order() {
    let mut problem = two(Repeat { blocks: vec![0, 1], stride: None });
    problem.repeats.clear();
    problem.buffers.iter_mut().for_each(|buffer| buffer.preferred = vec![0x60020..0x60040]);
    for nodes in [0, 1000] {
        let Outcome::Placed(addresses) = place_within(&problem, nodes) else {
            panic!("there is room")
        };
        let found: Vec<bool> =
            problem.buffers.iter().zip(&addresses).map(|(b, at)| granted(b, *at)).collect();
        assert_eq!(found, [true, true, false]);
    }
}

#[test]
fn wishes_of_blocks_are_granted_where_they_lie_without_gaps() {
    let mut problem = two(Repeat { blocks: vec![0, 1], stride: None });
    problem.free = vec![0x60000..0x68000];
    problem.buffers[0].preferred = vec![0x60400..0x60410];
    let granted_all = |problem: &Problem| {
        let Outcome::Placed(addresses) = place(problem) else { panic!("there is room") };
        assert!(legal(problem, &addresses, true), "{addresses:x?}");
        addresses
    };
    assert_eq!(granted_all(&problem)[..2], [0x60400, 0x60410]);
    problem.repeats[0].stride = Some(128);
    assert_eq!(granted_all(&problem)[..2], [0x60400, 0x60480]);
    // The wish of a later block says where the first one lies.
    problem.buffers[0].preferred = vec![];
    problem.buffers[1].preferred = vec![0x60800..0x60810];
    assert_eq!(granted_all(&problem)[..2], [0x60780, 0x60800]);
    problem.buffers[0].preferred = vec![0x60700..0x60800];
    assert_eq!(granted_all(&problem)[..2], [0x60780, 0x60800]);
}

#[test]
fn bad_repeats_and_wishes_are_refused() {
    let refused = |problem: Problem, wanted: RepeatRule| {
        assert_eq!(problem.check(), Err(ProblemError::Repeat { repeat: 0, rule: wanted }));
    };
    let of = |blocks: &[usize], stride| two(Repeat { blocks: blocks.to_vec(), stride });
    refused(of(&[0], None), RepeatRule::Few(1));
    refused(of(&[0, 7], None), RepeatRule::Block(7));
    refused(of(&[0, 0], None), RepeatRule::Block(0));
    let stride = |stride| RepeatRule::Stride { stride, multiple: 4, size: 16 };
    refused(of(&[0, 1], Some(12)), stride(12));
    refused(of(&[0, 1], Some(18)), stride(18));
    refused(of(&[0, 1], Some(638_964)), RepeatRule::Large { blocks: 2, stride: 638_964 });
    refused(of(&[0, 1], Some(u32::MAX - 3)), RepeatRule::Large { blocks: 2, stride: u32::MAX - 3 });
    let mut changed = of(&[0, 1], None);
    changed.buffers[1].size = 20;
    refused(changed, RepeatRule::Sizes(16, 20));
    let mut changed = of(&[0, 1], None);
    (changed.buffers[0].region, changed.buffers[1].region) =
        (Region::Standard, Region::Interleaved);
    refused(changed, RepeatRule::Regions);
    refused(Problem { aliases: vec![(2, 1)], ..of(&[0, 1], None) }, RepeatRule::Alias(1));
    refused(Problem { apart: vec![(1, 0)], ..of(&[0, 1], None) }, RepeatRule::Apart(1, 0));
    let mut changed = of(&[0, 1], None);
    changed.buffers[2].preferred = vec![4..8];
    assert_eq!(changed.check(), Err(ProblemError::Preferred { buffer: 2, start: 4, end: 8 }));
}

#[test]
fn strides_and_wishes_of_a_file_are_checked_by_its_own_rules() {
    let text = r#"{"format": "ipu-tune/placement@1", "free": [[491520, 524288]], "buffers": [
        {"name": "a", "size": 30, "tail": 2, "persistent": true},
        {"name": "b", "size": 30, "tail": 2, "persistent": true},
        {"name": "c", "size": 30, "tail": 2, "persistent": true, "preferred": [[500000, 510000]]}],
        "repeats": [{"blocks": ["a", "b", "c"]}]}"#;
    let (file, _) = PlacementFile::from_json(text).unwrap();
    let broken = |addresses: [u32; 3]| -> Vec<String> {
        file.misplaced(&addresses).iter().map(ToString::to_string).collect()
    };
    assert_eq!(broken([491_520, 491_552, 491_584]), [""; 0]);
    assert_eq!(broken([491_520, 491_620, 491_720]), [""; 0]);
    assert_eq!(
        broken([491_520, 491_552, 491_588]),
        ["block `c` lies at 491588, not 32 bytes above the block before it"]
    );
    assert_eq!(
        broken([491_584, 491_552, 491_520]),
        ["blocks from `a` on lie -32 bytes apart, expected a multiple of 4 from 32 on"]
    );
    assert_eq!(
        broken([491_520, 491_553, 491_586]),
        ["blocks from `a` on lie 33 bytes apart, expected a multiple of 4 from 32 on"]
    );
    let given = text.replace(r#""c"]}"#, r#""c"], "stride": 48}"#);
    let (given, _) = PlacementFile::from_json(&given).unwrap();
    assert!(given.misplaced(&[491_520, 491_568, 491_616]).is_empty());
    assert_eq!(given.misplaced(&[491_520, 491_552, 491_584]).len(), 2);
    let wish = |at| file.buffers[2].is_granted(at);
    assert_eq!(
        (wish(500_000), wish(509_968), wish(509_969)),
        (Some(true), Some(true), Some(false))
    );
    assert_eq!(file.buffers[0].is_granted(500_000), None);
}

#[test]
fn a_stride_is_a_multiple_of_every_blocks_alignment() {
    let text = r#"{"format": "ipu-tune/placement@1", "free": [[491520, 524288]], "buffers": [
        {"name": "a", "size": 36, "alignment": 64, "persistent": true},
        {"name": "b", "size": 36, "persistent": true}],
        "repeats": [{"blocks": ["a", "b"]}]}"#;
    let (file, problem) = PlacementFile::from_json(text).unwrap();
    let broken = |addresses: [u32; 2]| -> Vec<String> {
        file.misplaced(&addresses).iter().map(ToString::to_string).collect()
    };
    // Both lie at multiples of their own alignment, and whole words apart.
    assert_eq!(
        broken([491_520, 491_560]),
        ["blocks from `a` on lie 40 bytes apart, expected a multiple of 64 from 36 on"]
    );
    assert_eq!(broken([491_520, 491_648]), [""; 0]);
    let Outcome::Placed(addresses) = place(&problem) else { panic!("there is room") };
    assert!(file.misplaced(&addresses).is_empty(), "{addresses:?}");
    let given = text.replace(r#""b"]}"#, r#""b"], "stride": 40}"#);
    let refused = PlacementFile::from_json(&given).unwrap_err().to_string();
    assert_eq!(refused, "`repeats[0]`: stride 40, expected a multiple of 64 and at least 36");
}

#[test]
fn a_wish_that_no_address_grants_is_refused() {
    let read = |rules: &str| {
        let text = format!(
            r#"{{"format": "ipu-tune/placement@1", "free": [[491520, 491584], [507904, 540672]],
                "buffers": [{{"name": "a", "size": 60, "tail": 4, "live": [[0, 2]], {rules}}}]}}"#
        );
        PlacementFile::from_json(&text)
    };
    let refused = |rules: &str, why: &str| {
        let error = read(rules).unwrap_err();
        let words = format!("buffer `a` can lie in none of its preferred ranges: {why}");
        assert!(error.to_string().contains(&words), "{error}");
        assert!(error.hint().contains("`preferred`"));
    };
    refused(r#""preferred": [[508000, 508063]]"#, "all are shorter");
    refused(r#""preferred": [[491521, 507967]]"#, "none has room for it inside one of the `free`");
    refused(
        r#""preferred": [[524225, 530000]], "region": "standard""#,
        "none has room for it in its region",
    );
    refused(
        r#""preferred": [[508000, 508100]], "forbidden": [[508040, 508041]]"#,
        "none has room for it beside what is `forbidden`",
    );
    refused(
        r#""preferred": [[508033, 508127]], "alignment": 64"#,
        "none has room for it at a multiple of its `alignment`",
    );
    for granted in [
        r#""preferred": [[508000, 508064]]"#,
        r#""preferred": [[508032, 508064], [508000, 508032]]"#,
        r#""preferred": [[500000, 500001], [491520, 491584]], "alignment": 64"#,
        r#""preferred": [[524224, 530000]], "region": "standard""#,
    ] {
        read(granted).unwrap();
    }
    // A buffer without any place says so, not that its wish is to blame.
    read(r#""preferred": [[508000, 508001]], "forbidden": [[311296, 950272]]"#).unwrap();
}

/// Bytes of all repeats without gaps used: each from its first block's start to its last one's end.
fn joined_bytes(problem: &Problem) -> u32 {
    let length = |repeat: &Repeat| {
        let block = &problem.buffers[repeat.blocks[0]];
        let stride = repeat.stride.unwrap_or_else(|| block.size.next_multiple_of(block.alignment));
        (repeat.blocks.len() as u32 - 1) * stride + block.size
    };
    problem.repeats.iter().map(length).sum()
}

#[test]
fn planted_turns_that_fit_only_into_each_other_are_placed() {
    for (seed, full) in [(0, false), (1, false), (3, false), (0, true), (1, true), (2, true)] {
        let problem = turns(seed, full);
        problem.check().unwrap();
        assert!(u64::from(joined_bytes(&problem)) > problem.capacity(), "seed {seed}");
        assert!(problem.fullest().1 * 10 >= problem.capacity() * 9, "seed {seed}");
        assert!(matches!(place_within(&problem, 0), Outcome::Unknown { .. }), "seed {seed}");
        let outcome = place(&problem);
        assert_eq!(outcome, place(&problem), "seed {seed}");
        let Outcome::Placed(addresses) = outcome else { panic!("seed {seed} has a solution") };
        assert!(legal(&problem, &addresses, false), "seed {seed}");
    }
}

#[test]
fn wishes_of_buffers_in_gaps_are_granted() {
    let free = vec![0x60000..0x60060];
    let repeats = vec![Repeat { blocks: vec![0, 1, 2], stride: Some(32) }];
    let mut buffers = vec![buffer(4, 0, 2); 6];
    buffers[4].preferred = vec![0x60050..0x60060, 0x60040..0x60050];
    let problem = Problem { free, buffers, repeats, ..Problem::default() };
    let Outcome::Placed(addresses) = place(&problem) else { panic!("it fills memory") };
    assert!(legal(&problem, &addresses, true), "{addresses:x?}");
}

#[test]
fn a_block_that_is_moved_out_of_its_turn_is_named() {
    let names = ["a0", "b0", "a1", "b1", "a2", "b2"];
    let block = |name: &&str| {
        format!(r#"{{"name": "{name}", "size": 64, "alignment": 32, "persistent": true}}"#)
    };
    let blocks: Vec<String> = names.iter().map(block).collect();
    let text = format!(
        r#"{{"format": "ipu-tune/placement@1", "free": [[491520, 491968]], "buffers": [{},
        {{"name": "gap", "size": 20, "persistent": true}}], "repeats": [
        {{"blocks": ["a0", "a1", "a2"], "stride": 160}}, {{"blocks": ["b0", "b1", "b2"]}}]}}"#,
        blocks.join(", ")
    );
    let (file, problem) = PlacementFile::from_json(&text).unwrap();
    let Outcome::Placed(addresses) = place(&problem) else { panic!("b0 fits between a0 and a1") };
    assert!(file.misplaced(&addresses).is_empty());
    for (index, name) in names.iter().enumerate() {
        for moved in [addresses[index] - 32, addresses[index] + 32] {
            let mut addresses = addresses.clone();
            addresses[index] = moved;
            let found = file.misplaced(&addresses);
            let of_a_stride = |what: &Misplaced| match what {
                Misplaced::Stride { .. } => true,
                Misplaced::Step { name: first, .. } => name.starts_with(&first[..1]),
                _ => false,
            };
            assert!(found.iter().any(of_a_stride), "{name} at {moved}: {found:?}");
        }
    }
}
