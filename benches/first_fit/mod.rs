//! The baseline of storage placement, first fit in order of size, and what makes an address legal,
//! stated without the placer.

use std::cmp::Reverse;

use ipu_tune::storage::{Buffer, Problem, Region};
use ipu_tune::target::sram::{INTERLEAVED_START, elements};
use ipu_tune::target::{Address, Bytes};

fn meet(a: &Buffer, b: &Buffer) -> bool {
    a.live.iter().any(|a| b.live.iter().any(|b| a.start < b.end && b.start < a.end))
}

fn share_an_element(a: (u32, u32), b: (u32, u32)) -> bool {
    let touched = |(start, size)| elements(Address(start), Bytes(size));
    touched(a).any(|element| touched(b).any(|other| other == element))
}

/// Whether a buffer may lie at an address beside those that have one.
pub(crate) fn is_legal(
    problem: &Problem,
    addresses: &[Option<u32>],
    index: usize,
    at: u32,
) -> bool {
    let buffer = &problem.buffers[index];
    let end = at + buffer.size;
    let region = match buffer.region {
        Region::Either => true,
        Region::Standard => end <= INTERLEAVED_START.0,
        Region::Interleaved => at >= INTERLEAVED_START.0,
    };
    let pair =
        |other| problem.apart.contains(&(index, other)) || problem.apart.contains(&(other, index));
    region
        && problem.free.iter().any(|range| range.start <= at && end <= range.end)
        && (0..addresses.len()).all(|other| {
            let Some(from) = addresses[other] else { return true };
            let beside = &problem.buffers[other];
            let overlap = from < end && at < from + beside.size;
            let apart = pair(other) && share_an_element((at, buffer.size), (from, beside.size));
            other == index || !meet(buffer, beside) || !(overlap || apart)
        })
}

/// First fit in order of size: the first buffer that finds no place, or `None`. With `bound_first`,
/// buffers that only one region may hold come before all others.
pub(crate) fn unplaced(problem: &Problem, bound_first: bool) -> Option<usize> {
    let count = problem.buffers.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|index| {
        let buffer = &problem.buffers[*index];
        (bound_first && buffer.region == Region::Either, Reverse(buffer.size))
    });
    let mut addresses: Vec<Option<u32>> = vec![None; count];
    for index in order {
        // The lowest legal address is where a range, an element or another buffer's end is.
        let mut starts: Vec<u32> = problem.free.iter().map(|range| range.start).collect();
        for range in &problem.free {
            let touched = elements(Address(range.start), Bytes(range.end - range.start));
            starts.extend(touched.map(|element| element.start().0));
        }
        let placed = addresses.iter().zip(&problem.buffers);
        starts.extend(placed.filter_map(|(at, buffer)| Some((*at)? + buffer.size)));
        let alignment = problem.buffers[index].alignment;
        starts.iter_mut().for_each(|at| *at = at.next_multiple_of(alignment));
        starts.sort_unstable();
        let legal = starts.into_iter().find(|at| is_legal(problem, &addresses, index, *at));
        if legal.is_none() {
            return Some(index);
        }
        addresses[index] = legal;
    }
    None
}
