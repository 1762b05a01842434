//! Placing in few bytes: what a tile's buffers take together, at all steps, is to be hardly more than
//! what lives at its fullest step.
//!
//! Items are taken in an order, each goes where it takes the fewest bytes that no other takes at any
//! time; then items are moved one by one as long as that saves bytes. It is a constructive method:
//! where memory is short it fails sooner than the searches of [`super::place`], which find no
//! placement better than another.

use std::cmp::Reverse;

use super::items::Items;
use super::stack::{Rules, Stack};

/// Rounds of moving items: most gain nothing after two.
pub(super) const ROUNDS: usize = 4;

/// What an order sorts by, from an item's size and number of steps; the most first.
pub(super) type Key = fn(u64, u64) -> (u64, u64);

/// Orders in turn.
pub(super) const ORDERS: [Key; 3] = [
    |size, length| (size, length),
    |size, length| (size * length, size),
    |size, length| (length, size),
];

/// The placement that takes the fewest bytes of those found; `None` if some item found no place in
/// any order.
pub(super) fn compact(items: &Items) -> Option<Vec<u32>> {
    let rules = Rules::of(items);
    let live = most_live(items);
    let mut best: Option<(u64, Vec<u32>)> = None;
    for key in ORDERS {
        let mut stack = Stack::new(&rules, &items.sizes);
        if !construct(&mut stack, 0..items.len(), key) {
            continue;
        }
        stack.tighten(live, ROUNDS);
        let bytes = stack.bytes();
        if best.as_ref().is_none_or(|(least, _)| bytes < *least) {
            best = Some((bytes, stack.into_addresses()));
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
    let rules = Rules::of(items);
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|item| (hint[*item].is_none(), hint[*item], items.room_of(*item)));
    let mut stack = Stack::new(&rules, &items.sizes);
    for item in order {
        let at = match hint[item].filter(|at| stack.allows(item, *at)) {
            Some(at) => at,
            None => stack.cheapest(item)?.0,
        };
        stack.put(item, at);
    }
    Some(stack.into_addresses())
}

/// Moves items while that saves bytes.
pub(super) fn tighten(items: &Items, addresses: &[u32]) -> Vec<u32> {
    let rules = Rules::of(items);
    let mut stack = Stack::new(&rules, &items.sizes);
    stack.fill(addresses.iter().copied().enumerate());
    stack.tighten(most_live(items), ROUNDS);
    stack.into_addresses()
}

/// Bytes of the fullest section.
fn most_live(items: &Items) -> u64 {
    let bytes = |section: &super::items::Section| -> u64 {
        section.items.iter().map(|(_, size)| u64::from(*size)).sum()
    };
    items.sections.iter().map(bytes).max().unwrap_or(0)
}

/// Places items anew in an order by a key, those with little choice first, each where it takes the
/// fewest bytes; whether all found a place.
pub(super) fn construct(
    stack: &mut Stack<'_>,
    items: impl Iterator<Item = usize>,
    key: Key,
) -> bool {
    let mut order: Vec<usize> = items.collect();
    order.sort_by_cached_key(|&item| {
        let spans = &stack.items().items[item].spans;
        let steps = spans.iter().map(|(live, _)| u64::from(live.end - live.start)).sum();
        (stack.items().room_of(item), Reverse(key(u64::from(stack.size(item)), steps)), item)
    });
    order.into_iter().all(|item| {
        let found = stack.cheapest(item);
        found.inspect(|(at, _)| stack.put(item, *at)).is_some()
    })
}
