//! Cutting a range into parts of nearly equal size.
//!
//! A cut is the list of its boundaries: `parts + 1` numbers from 0 to the whole. Every part is a
//! half-open interval and none is empty.

use std::ops::Range;

/// Cuts `whole` into `parts` parts whose sizes differ by one at most, larger ones first.
///
/// `parts` must lie in `1..=whole`; `space` makes no other.
pub fn balanced(whole: u32, parts: u32) -> Vec<u32> {
    debug_assert!(parts >= 1 && parts <= whole, "cannot cut {whole} into {parts}");
    let (size, larger) = (whole / parts, whole % parts);
    (0..=parts).map(|part| part * size + part.min(larger)).collect()
}

/// As [`balanced`], with boundaries only at multiples of `unit` (and at the end).
pub fn in_units(whole: u32, unit: u32, parts: u32) -> Vec<u32> {
    let mut cut = balanced(whole.div_ceil(unit), parts);
    cut.iter_mut().for_each(|boundary| *boundary = (*boundary * unit).min(whole));
    cut
}

/// Cuts `blocks` blocks of `size` each. Up to one part a block, whole blocks go together; with more
/// parts, `parts` must be a multiple of `blocks` and every block is cut alike, in `unit`s.
pub fn blocked(blocks: u32, size: u32, unit: u32, parts: u32) -> Vec<u32> {
    if parts <= blocks {
        return balanced(blocks, parts).into_iter().map(|block| block * size).collect();
    }
    debug_assert!(parts.is_multiple_of(blocks), "{parts} parts of {blocks} blocks");
    let inside = in_units(size, unit, parts / blocks);
    let starts = (0..blocks).flat_map(|block| {
        inside[..inside.len() - 1].iter().map(move |boundary| block * size + boundary)
    });
    starts.chain([blocks * size]).collect()
}

/// Cuts every part of `outer` again into `parts`.
pub fn nested(outer: &[u32], parts: u32) -> Vec<u32> {
    let mut cut = vec![0];
    for part in ranges(outer) {
        cut.extend(balanced(part.end - part.start, parts)[1..].iter().map(|end| part.start + end));
    }
    cut
}

/// The parts of a cut.
pub fn ranges(cut: &[u32]) -> impl Iterator<Item = Range<u32>> + '_ {
    cut.windows(2).map(|pair| pair[0]..pair[1])
}

/// The smallest part's size.
pub fn smallest(cut: &[u32]) -> u32 {
    ranges(cut).map(|part| part.end - part.start).min().unwrap_or(0)
}

/// The largest part's size.
pub fn largest(cut: &[u32]) -> u32 {
    ranges(cut).map(|part| part.end - part.start).max().unwrap_or(0)
}

/// Indices of the parts of `cut` that meet `range`.
pub fn overlapping(cut: &[u32], range: &Range<u32>) -> Range<usize> {
    let first = cut.partition_point(|&boundary| boundary <= range.start) - 1;
    let end = cut.partition_point(|&boundary| boundary < range.end);
    first..end.min(cut.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balanced_parts_differ_by_one() {
        for whole in 1..60 {
            for parts in 1..=whole {
                let cut = balanced(whole, parts);
                assert_eq!((cut[0], cut[parts as usize]), (0, whole));
                assert!(largest(&cut) - smallest(&cut) <= 1 && smallest(&cut) >= 1);
            }
        }
    }

    #[test]
    fn blocks_are_never_torn_by_whole_block_parts() {
        let cut = blocked(12, 5, 1, 5);
        assert!(cut.iter().all(|boundary| boundary % 5 == 0));
        assert_eq!(blocked(3, 5, 2, 6), [0, 4, 5, 9, 10, 14, 15]);
    }

    #[test]
    fn overlapping_finds_exactly_the_parts_that_meet() {
        let cut = [0, 3, 7, 8];
        assert_eq!(overlapping(&cut, &(0..3)), 0..1);
        assert_eq!(overlapping(&cut, &(2..4)), 0..2);
        assert_eq!(overlapping(&cut, &(3..8)), 1..3);
        assert_eq!(overlapping(&cut, &(7..8)), 2..3);
    }

    #[test]
    fn nested_cuts_refine_the_outer_one() {
        let outer = balanced(20, 3);
        let inner = nested(&outer, 2);
        assert_eq!(inner, [0, 4, 7, 11, 14, 17, 20]);
        assert!(outer.iter().all(|boundary| inner.contains(boundary)));
    }
}
