//! Placing in few bytes: what a tile's buffers take together, at all steps, is to be hardly more than
//! what lives at its fullest step.
//!
//! Items are taken in an order, each goes where it takes the fewest bytes that no other takes at any
//! time; then items are moved one by one as long as that saves bytes. It is a constructive method:
//! where memory is short it fails sooner than the searches of [`super::place`], which find no
//! placement better than another.

use std::cmp::Reverse;
use std::ops::Range;

use super::items::Items;
use super::ranges::union;

/// Rounds of moving items: most gain nothing after two.
const ROUNDS: usize = 4;

/// What an order sorts by, from an item's size and number of steps; the most first.
type Key = fn(u64, u64) -> (u64, u64);

/// Orders in turn.
const ORDERS: [Key; 3] = [
    |size, length| (size, length),
    |size, length| (size * length, size),
    |size, length| (length, size),
];

/// The placement that takes the fewest bytes of those found; `None` if some item found no place in
/// any order.
pub(super) fn compact(items: &Items) -> Option<Vec<u32>> {
    let live = most_live(items);
    let mut best: Option<(u64, Vec<u32>)> = None;
    for key in ORDERS {
        let Some(mut addresses) = construct(items, &sorted(items, key)) else { continue };
        tighten(items, &mut addresses);
        let bytes = taken(items, &addresses);
        if best.as_ref().is_none_or(|(least, _)| bytes < *least) {
            best = Some((bytes, addresses));
        }
        if bytes <= live {
            break;
        }
    }
    best.map(|(_, addresses)| addresses)
}

/// The placement nearest to a similar one's addresses: what can stays where it is there, in the order
/// of those addresses, and all else goes where it takes few bytes.
pub(super) fn follow(items: &Items, hint: &[Option<u32>]) -> Option<Vec<u32>> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|item| (hint[*item].is_none(), hint[*item], items.room_of(*item)));
    let mut placed = vec![None; items.len()];
    for item in order {
        let blocked = Blocked::of(items, &placed, item);
        let stays = |at: &u32| {
            items.lowest(item, *at) == Some(*at) && !blocked.meets(*at..*at + items.sizes[item])
        };
        placed[item] = Some(match hint[item].filter(stays) {
            Some(at) => at,
            None => cheapest(items, &placed, &Taken::of(items, &placed), item)?,
        });
    }
    placed.into_iter().collect()
}

/// Moves items while that saves bytes.
pub(super) fn tighten(items: &Items, addresses: &mut [u32]) {
    let mut placed: Vec<Option<u32>> = addresses.iter().copied().map(Some).collect();
    for _ in 0..ROUNDS {
        let mut highest: Vec<usize> = (0..items.len()).collect();
        highest.sort_by_key(|item| Reverse((placed[*item], *item)));
        let mut moved = false;
        for item in highest {
            let was = placed[item].take();
            let taken = Taken::of(items, &placed);
            let now =
                |at: u32| u64::from(items.sizes[item]) - taken.within(at..at + items.sizes[item]);
            let found = cheapest(items, &placed, &taken, item);
            let better = found.filter(|at| was.is_none_or(|was| now(*at) < now(was)));
            moved |= better.is_some();
            placed[item] = better.or(was);
        }
        if !moved {
            break;
        }
    }
    for (address, placed) in addresses.iter_mut().zip(placed) {
        *address = placed.unwrap_or(*address);
    }
}

/// Bytes that some item takes at some time.
pub(super) fn taken(items: &Items, addresses: &[u32]) -> u64 {
    let placed: Vec<Option<u32>> = addresses.iter().copied().map(Some).collect();
    Taken::of(items, &placed).within(0..u32::MAX)
}

/// Bytes of the fullest section.
fn most_live(items: &Items) -> u64 {
    let bytes = |section: &super::items::Section| -> u64 {
        section.items.iter().map(|(_, size)| u64::from(*size)).sum()
    };
    items.sections.iter().map(bytes).max().unwrap_or(0)
}

/// What has little choice comes first, then what has the largest key.
fn sorted(items: &Items, key: Key) -> Vec<usize> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_cached_key(|&item| {
        let steps =
            items.items[item].spans.iter().map(|(live, _)| u64::from(live.end - live.start));
        (items.room_of(item), Reverse(key(u64::from(items.sizes[item]), steps.sum())), item)
    });
    order
}

fn construct(items: &Items, order: &[usize]) -> Option<Vec<u32>> {
    let mut placed = vec![None; items.len()];
    for &item in order {
        let taken = Taken::of(items, &placed);
        placed[item] = Some(cheapest(items, &placed, &taken, item)?);
    }
    placed.into_iter().collect()
}

/// The legal address at which an item takes the fewest bytes that no other takes; the lowest of
/// equals.
fn cheapest(items: &Items, placed: &[Option<u32>], taken: &Taken, item: usize) -> Option<u32> {
    let size = items.sizes[item];
    let blocked = Blocked::of(items, placed, item);
    let mut starts = vec![0];
    for range in &blocked.ranges {
        starts.push(range.end);
    }
    for range in &taken.ranges {
        starts.extend([range.start, range.end, range.end.saturating_sub(size)]);
    }
    for (other, at) in placed.iter().enumerate() {
        starts.extend(at.iter().flat_map(|at| [*at, *at + items.sizes[other]]));
    }
    let legal = starts.into_iter().filter_map(|start| {
        let down = start / items.items[item].alignment * items.items[item].alignment;
        [items.lowest(item, start), items.lowest(item, down)]
            .into_iter()
            .flatten()
            .find(|at| !blocked.meets(*at..*at + size))
    });
    legal.min_by_key(|at| (u64::from(size) - taken.within(*at..*at + size), *at))
}

/// Ranges where an item cannot lie, disjoint and ascending.
struct Blocked {
    ranges: Vec<Range<u32>>,
}

impl Blocked {
    fn of(items: &Items, placed: &[Option<u32>], item: usize) -> Blocked {
        let near = items.neighbours[item].iter();
        let ranges = near.filter_map(|other| {
            let at = placed[other.item]?;
            Some(other.lowest_below(at)..other.over(at))
        });
        Blocked { ranges: union(ranges.collect()) }
    }

    fn meets(&self, range: Range<u32>) -> bool {
        let next = self.ranges.partition_point(|blocked| blocked.end <= range.start);
        self.ranges.get(next).is_some_and(|blocked| blocked.start < range.end)
    }
}

/// Bytes that items take at any time.
struct Taken {
    /// Disjoint and ascending.
    ranges: Vec<Range<u32>>,
    /// Bytes of the ranges before each.
    before: Vec<u64>,
}

impl Taken {
    fn of(items: &Items, placed: &[Option<u32>]) -> Taken {
        let ranges = placed.iter().zip(&items.sizes);
        let ranges = union(ranges.filter_map(|(at, size)| at.map(|at| at..at + size)).collect());
        let mut bytes = 0;
        let before = ranges.iter().map(|range| {
            let before = bytes;
            bytes += u64::from(range.end - range.start);
            before
        });
        Taken { before: before.collect(), ranges }
    }

    /// Taken bytes below an address.
    fn below(&self, address: u32) -> u64 {
        let next = self.ranges.partition_point(|range| range.start < address);
        next.checked_sub(1).map_or(0, |last| {
            let range = &self.ranges[last];
            self.before[last] + u64::from(range.end.min(address) - range.start)
        })
    }

    fn within(&self, range: Range<u32>) -> u64 {
        self.below(range.end) - self.below(range.start)
    }
}
