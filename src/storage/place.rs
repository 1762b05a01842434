//! Placing one tile's buffers: constructive orders, then the buffer that failed goes first and the
//! order is tried again.

use crate::target::sram::{INTERLEAVED_START, elements};
use crate::target::{Address, Bytes};

use super::problem::{Problem, Shortage};

/// What came of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An address for every buffer.
    Placed(Vec<u32>),
    /// Proved: nothing fits.
    Impossible(Shortage),
    /// Nothing found; the buffer that failed in the best attempt.
    Unknown {
        /// Its index.
        buffer: usize,
    },
}

/// How often a failed buffer is moved to the front of an order.
const PROMOTIONS: usize = 48;

/// Places all buffers of a checked problem.
pub fn place(problem: &Problem) -> Outcome {
    if let Some(shortage) = problem.shortage() {
        return Outcome::Impossible(shortage);
    }
    let apart = neighbours(problem);
    let mut failed = 0;
    for mut order in orders(problem) {
        for _ in 0..PROMOTIONS {
            match first_fit(problem, &apart, &order) {
                Ok(addresses) => return Outcome::Placed(addresses),
                Err(buffer) => {
                    failed = buffer;
                    let at = order.iter().position(|index| *index == buffer).unwrap_or(0);
                    if at == 0 {
                        break;
                    }
                    let moved = order.remove(at);
                    order.insert(0, moved);
                }
            }
        }
    }
    Outcome::Unknown { buffer: failed }
}

fn neighbours(problem: &Problem) -> Vec<Vec<usize>> {
    let mut apart = vec![vec![]; problem.buffers.len()];
    for &(a, b) in &problem.apart {
        apart[a].push(b);
        apart[b].push(a);
    }
    apart
}

/// Orders to try: the restricted class first, then by size, by area over time, by lifetime.
fn orders(problem: &Problem) -> Vec<Vec<usize>> {
    let buffers = &problem.buffers;
    let length = |index: usize| u64::from(buffers[index].live.end - buffers[index].live.start);
    let size = |index: usize| u64::from(buffers[index].size);
    let by = |key: &dyn Fn(usize) -> u64, class_first: bool| {
        let mut order: Vec<usize> = (0..buffers.len()).collect();
        order.sort_by_key(|&index| {
            (class_first && !buffers[index].interleaved, std::cmp::Reverse(key(index)), index)
        });
        order
    };
    vec![
        by(&size, true),
        by(&|index| size(index) * length(index), true),
        by(&length, true),
        by(&size, false),
        by(&|index| size(index) * length(index), false),
    ]
}

/// Every buffer in order at the lowest address where it fits, or the first that fits nowhere.
fn first_fit(problem: &Problem, apart: &[Vec<usize>], order: &[usize]) -> Result<Vec<u32>, usize> {
    let mut addresses: Vec<Option<u32>> = vec![None; problem.buffers.len()];
    let mut blocked: Vec<(u32, u32)> = vec![];
    for &index in order {
        let buffer = &problem.buffers[index];
        let together = |other: usize| {
            let live = &problem.buffers[other].live;
            live.start < buffer.live.end && buffer.live.start < live.end
        };
        blocked.clear();
        for (other, address) in addresses.iter().enumerate() {
            if let Some(start) = address
                && together(other)
            {
                blocked.push((*start, start + problem.buffers[other].size));
            }
        }
        for &other in &apart[index] {
            if let Some(start) = addresses[other]
                && together(other)
            {
                let size = Bytes(problem.buffers[other].size);
                blocked.extend(elements(Address(start), size).map(|e| (e.start().0, e.end().0)));
            }
        }
        blocked.sort_unstable();
        addresses[index] = Some(lowest(problem, index, &blocked).ok_or(index)?);
    }
    Ok(addresses.into_iter().flatten().collect())
}

/// The lowest address where a buffer fits between blocked spans.
fn lowest(problem: &Problem, index: usize, blocked: &[(u32, u32)]) -> Option<u32> {
    let buffer = &problem.buffers[index];
    let least = if buffer.interleaved { INTERLEAVED_START.0 } else { 0 };
    problem.free.iter().find_map(|range| {
        let mut at = range.start.max(least).next_multiple_of(buffer.alignment);
        for &(start, end) in blocked {
            if at + buffer.size <= start {
                break;
            }
            if end > at {
                at = end.next_multiple_of(buffer.alignment);
            }
        }
        (at + buffer.size <= range.end).then_some(at)
    })
}
