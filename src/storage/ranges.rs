//! Sets of bytes, or of steps, as ranges.

use std::ops::Range;

/// The same members as disjoint ascending ranges, none of which touch.
pub(super) fn union(mut ranges: Vec<Range<u32>>) -> Vec<Range<u32>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut found: Vec<Range<u32>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match found.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => found.push(range),
        }
    }
    found
}

/// Ranges less a hole.
pub(super) fn without(ranges: &[Range<u32>], hole: &Range<u32>) -> Vec<Range<u32>> {
    let parts = ranges.iter().flat_map(|range| {
        [range.start..range.end.min(hole.start), range.start.max(hole.end)..range.end]
    });
    parts.filter(|range| !range.is_empty()).collect()
}

/// Whether some member is in both, if those of each are ascending, disjoint ranges.
pub(super) fn meet(mut a: &[Range<u32>], mut b: &[Range<u32>]) -> bool {
    while let ([first, rest_a @ ..], [second, rest_b @ ..]) = (a, b) {
        if first.start < second.end && second.start < first.end {
            return true;
        }
        if first.end <= second.end {
            a = rest_a;
        } else {
            b = rest_b;
        }
    }
    false
}

/// Addresses at which so many bytes may begin if one of the ranges has to hold them all.
pub(super) fn starts(ranges: &[Range<u32>], size: u32) -> Vec<Range<u32>> {
    let begin = |range: &Range<u32>| range.start..(range.end + 1).saturating_sub(size);
    union(ranges.iter().map(begin).filter(|range| !range.is_empty()).collect())
}

/// The reverse: ranges one of which has to hold so many bytes if they may begin at some addresses, which
/// ascend and do not touch. The ranges ascend by starts and by ends, but may overlap.
pub(super) fn ranges_at(starts: &[Range<u32>], size: u32) -> Vec<Range<u32>> {
    starts.iter().map(|range| range.start..range.end - 1 + size).collect()
}

/// Members of both, if those of each are ascending ranges.
pub(super) fn intersection(a: &[Range<u32>], b: &[Range<u32>]) -> Vec<Range<u32>> {
    let both = |a: &Range<u32>, b: &Range<u32>| a.start.max(b.start)..a.end.min(b.end);
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| both(a, b)));
    pairs.filter(|range| !range.is_empty()).collect()
}
