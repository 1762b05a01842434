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
