//! Generated problems that have a solution by construction: lanes in memory elements, each filled with
//! buffers one after the other in time.

use std::ops::Range;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::target::sram::{Element, STANDARD_ELEMENTS};

use super::problem::{Buffer, Problem, Region};

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
