//! Generated problems that have a solution by construction: lanes in memory elements, each filled with
//! buffers one after the other in time ([`banks`]); and blocks at one stride in turn, with such lanes in
//! the gaps ([`turns`]).

use std::ops::Range;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::target::sram::{Element, STANDARD_ELEMENTS};

use super::problem::{Buffer, Problem, Region};
use super::repeats::Repeat;

/// Elements of each region in use: four of 16 KiB, four pairs of 32 KiB.
const OF_EACH: u8 = 4;
/// Steps of a program.
const STEPS: u32 = 48;

/// A lane: a part of one element, which one buffer has at a time.
struct Lane {
    element: Element,
    range: Range<u32>,
}

/// A problem on eight elements, with one more element of region 1 if `spare`.
pub fn banks(seed: u64, spare: bool) -> Problem {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let standard = (STANDARD_ELEMENTS - OF_EACH)..STANDARD_ELEMENTS;
    let elements = standard.chain(STANDARD_ELEMENTS..STANDARD_ELEMENTS + OF_EACH).map(Element);
    let lanes: Vec<Lane> = elements.flat_map(|element| lanes(element, &mut random)).collect();
    let mut planted: Vec<(Element, Buffer)> = vec![];
    for lane in &lanes {
        let mut step = 0;
        while step < STEPS {
            let end = (step + random.random_range(3..=16)).min(STEPS);
            planted.push((lane.element, buffer(lane, step..end, &mut random)));
            step = end;
        }
    }
    planted.shuffle(&mut random);
    let mut apart = vec![];
    for _ in 0..planted.len() / 2 {
        let (a, b) = (random.random_range(0..planted.len()), random.random_range(0..planted.len()));
        let ((place_a, buffer_a), (place_b, buffer_b)) = (&planted[a], &planted[b]);
        if place_a != place_b && buffer_a.meets(buffer_b) {
            apart.push((a.min(b), a.max(b)));
        }
    }
    apart.sort_unstable();
    apart.dedup();
    let start = Element(STANDARD_ELEMENTS - OF_EACH).start().0;
    let last = STANDARD_ELEMENTS + OF_EACH - u8::from(!spare);
    let free = std::iter::once(start..Element(last).end().0).collect();
    let buffers = planted.into_iter().map(|(_, buffer)| buffer).collect();
    Problem { free, buffers, apart, aliases: vec![], repeats: vec![] }
}

/// One to three lanes that fill an element.
fn lanes(element: Element, random: &mut ChaCha8Rng) -> Vec<Lane> {
    let (start, end) = (element.start().0, element.end().0);
    let unit = (end - start) / 16;
    let mut cuts: Vec<u32> = (0..random.random_range(0..=2))
        .map(|_| start + unit * random.random_range(3..=13))
        .collect();
    cuts.extend([start, end]);
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|pair| Lane { element, range: pair[0]..pair[1] }).collect()
}

/// A buffer of 75 to 100 % of a lane.
fn buffer(lane: &Lane, live: Range<u32>, random: &mut ChaCha8Rng) -> Buffer {
    let room = lane.range.end - lane.range.start;
    let region = match (random.random_range(0..3), lane.element.is_interleaved()) {
        (0, _) => Region::Either,
        (_, true) => Region::Interleaved,
        (_, false) => Region::Standard,
    };
    Buffer {
        size: random.random_range(room.div_ceil(4) * 3..=room),
        alignment: [8, 32, 64][random.random_range(0..3)],
        region,
        live: vec![live],
        forbidden: vec![],
        preferred: vec![],
        untouched: false,
    }
}

/// Two or three repeats of 8 to 32 blocks that lie in turn, with a gap after each turn that buffers share
/// over time, side by side or alone. The first repeat has a given stride, the others may have. Buffers in
/// gaps have 90 to 100 % of their lane, and memory is up to 4 % larger than need be; if `full`, nothing
/// is left over.
pub fn turns(seed: u64, full: bool) -> Problem {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let blocks = random.random_range(8..=32);
    let alignment = [8, 16, 32][random.random_range(0..3)];
    let sizes: Vec<u32> = (0..random.random_range(2..=3))
        .map(|_| alignment * (random.random_range(256..=4800) / alignment))
        .collect();
    let gap = alignment * (random.random_range(320..=2400) / alignment);
    let stride = sizes.iter().sum::<u32>() + gap;
    let mut buffers = vec![];
    let mut planted = |size: u32, alignment: u32, live: Range<u32>| {
        buffers.push(Buffer {
            size,
            alignment,
            region: Region::Either,
            live: vec![live],
            forbidden: vec![],
            preferred: vec![],
            untouched: false,
        });
    };
    for size in &sizes {
        (0..blocks).for_each(|_| planted(*size, alignment, 0..STEPS));
    }
    for _ in 0..blocks {
        // One lane, or two.
        let cut = 4 * random.random_range(0..=gap / 12);
        let lanes = if cut < gap / 6 { vec![gap] } else { vec![cut, gap - cut] };
        for lane in lanes {
            let mut step = 0;
            while step < STEPS {
                let end = (step + random.random_range(8..=24)).min(STEPS);
                let least = if full { lane } else { lane / 10 * 9 };
                planted(random.random_range(least..=lane), 4, step..end);
                step = end;
            }
        }
    }
    let mut order: Vec<usize> = (0..buffers.len()).collect();
    order.shuffle(&mut random);
    let repeats = (0..sizes.len()).map(|repeat| {
        let number = |block: usize| order.iter().position(|from| *from == block).unwrap_or(0);
        let blocks = (0..blocks).map(|block| number(repeat * blocks + block));
        let given = repeat == 0 || random.random_range(0..2) == 0;
        Repeat { blocks: blocks.collect(), stride: given.then_some(stride) }
    });
    let repeats = repeats.collect();
    let start = Element(STANDARD_ELEMENTS - OF_EACH).start().0;
    let most = if full { 0 } else { stride * blocks as u32 / 25 };
    let end = start + stride * blocks as u32 + random.random_range(0..=most);
    let buffers = order.iter().map(|from| buffers[*from].clone()).collect();
    let free = std::iter::once(start..end).collect();
    Problem { free, buffers, apart: vec![], aliases: vec![], repeats }
}
