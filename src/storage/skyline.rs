//! A search from the bottom up: which item lies next on a floor.
//!
//! A *slice* is the time between two steps at which something comes or goes. Each has a floor, the end of what is placed in it. Of the slices whose floor is lowest,
//! one is chosen in which the fewest things can happen next: one of its items lies on the floor, or
//! none does and the floor rises to where the first of them can lie.
//!
//! What is lost by that is nothing that is needed. Of all placements take the one with the least sum of
//! sizes times addresses, and of those the one whose addresses, by rank, are the least. In it every
//! item lies on another or at the start of a range, or it could sink; so an item that is not on
//! the floor lies on one that is not placed yet. None fits into a gap that stays below all others
//! ([`Skyline::gap_is_wasted`]), or it could be moved there. Twins, which differ in nothing but size,
//! lie on each other in the order of their ranks, and equal ones are placed in that order, or two of
//! them could be exchanged.
//!
//! It decides on slices where [`super::branch`] decides on items, and finds what that does not;
//! the reverse is as often so. Pairs that share no memory element are not for it: whether such an item
//! can sink depends on where others lie, not on floors alone.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::branch::{Found, Limits};
use super::items::{Item, Items, Neighbour};
use super::ranges::union;

/// Why a part is not placed.
enum End {
    Failed,
    OutOfBudget,
}

/// What is taken back when a decision is.
enum Change {
    Floor { slice: usize, before: u32 },
    Low { item: usize, before: u32 },
    Top { slice: usize, before: Option<usize> },
    Placed { item: usize },
}

/// Items, and the stretches of time between any two steps at which something comes or goes.
pub(super) struct Slices<'a> {
    items: &'a Items,
    /// The items of each, with their bytes.
    slices: Vec<Vec<(usize, u32)>>,
    /// The slices of every item, with its bytes.
    slices_of: Vec<Vec<(usize, u32)>>,
    /// The first and the last slice of every item, half-open.
    hulls: Vec<Range<usize>>,
    /// Items with one number differ in size alone.
    twins: Vec<usize>,
}

impl<'a> Slices<'a> {
    /// Slices time, unless some pair must share no memory element.
    pub(super) fn new(items: &'a Items) -> Option<Slices<'a>> {
        if items.neighbours.iter().flatten().any(|other| other.apart) {
            return None;
        }
        let spans = || items.items.iter().flat_map(|item| &item.spans);
        let mut steps: Vec<u32> = spans().flat_map(|(live, _)| [live.start, live.end]).collect();
        steps.sort_unstable();
        steps.dedup();
        let mut slices: Vec<Vec<(usize, u32)>> = vec![vec![]; steps.len()];
        let mut slices_of: Vec<Vec<(usize, u32)>> = vec![vec![]; items.len()];
        for (item, Item { spans, .. }) in items.items.iter().enumerate() {
            for (live, size) in spans {
                let place = |step: u32| steps.partition_point(|found| *found < step);
                let lived = place(live.start)..place(live.end);
                slices[lived.clone()].iter_mut().for_each(|slice| slice.push((item, *size)));
                slices_of[item].extend(lived.map(|slice| (slice, *size)));
            }
        }
        let hull = |slices: &Vec<(usize, u32)>| {
            let first = slices.first().map_or(0, |(first, _)| *first);
            first..slices.last().map_or(first, |(last, _)| last + 1)
        };
        let hulls = slices_of.iter().map(hull).collect();
        let twins = twins(items);
        Some(Slices { items, slices, slices_of, hulls, twins })
    }
}

/// The state of one search.
pub(super) struct Skyline<'a> {
    time: &'a Slices<'a>,
    /// Place in the order of preference.
    rank: &'a [u32],
    /// End of what is placed; where the next item can lie at the lowest.
    floor: Vec<u32>,
    /// The item that was placed last.
    top: Vec<Option<usize>>,
    /// Items that are not placed, and their bytes.
    count: Vec<u32>,
    bytes: Vec<u64>,
    /// Lowest possible address; the address itself of what is placed.
    low: Vec<u32>,
    placed: Vec<bool>,
    changes: Vec<Change>,
    /// Slices to look at again, each once.
    dirty: Vec<usize>,
    is_dirty: Vec<bool>,
    /// How often an item's slice was too small for what is left.
    trouble: Vec<u32>,
    nodes: u64,
    limits: Limits<'a>,
}

impl<'a> Skyline<'a> {
    pub(super) fn new(time: &'a Slices<'a>, rank: &'a [u32], limits: Limits<'a>) -> Skyline<'a> {
        let (items, slices) = (time.items.len(), time.slices.len());
        let bytes =
            |slice: &Vec<(usize, u32)>| slice.iter().map(|(_, size)| u64::from(*size)).sum();
        Skyline {
            time,
            rank,
            floor: vec![0; slices],
            top: vec![None; slices],
            count: time.slices.iter().map(|slice| slice.len() as u32).collect(),
            bytes: time.slices.iter().map(bytes).collect(),
            low: vec![0; items],
            placed: vec![false; items],
            changes: vec![],
            dirty: vec![],
            is_dirty: vec![false; slices],
            trouble: vec![0; items],
            nodes: 0,
            limits,
        }
    }

    /// Nodes that were visited.
    pub(super) fn nodes(&self) -> u64 {
        self.nodes
    }

    pub(super) fn run(&mut self) -> Found {
        let all = 0..self.time.slices.len();
        let rise = |skyline: &mut Skyline<'_>| {
            (0..skyline.time.items.len()).all(|item| skyline.raise(item, 0)) && skyline.settle()
        };
        all.clone().for_each(|slice| self.mark(slice));
        if !rise(self) {
            return Found::Nothing;
        }
        match self.parts(all) {
            Ok(()) => Found::Placed(self.low.clone()),
            Err(End::Failed) => Found::Nothing,
            Err(End::OutOfBudget) => {
                let worst = (0..self.time.items.len()).max_by_key(|item| self.trouble[*item]);
                Found::Unknown(worst.unwrap_or(0))
            }
        }
    }

    /// Solves the slices of a range part by part: no unplaced item lives in two parts.
    fn parts(&mut self, slices: Range<usize>) -> Result<(), End> {
        let mut parts = vec![];
        let mut start = slices.start;
        while start < slices.end {
            if self.count[start] == 0 {
                start += 1;
                continue;
            }
            let (mut at, mut end) = (start, start + 1);
            while at < end {
                let unplaced = self.unplaced(at);
                end = unplaced.map(|item| self.time.hulls[item].end).fold(end, usize::max);
                at += 1;
            }
            parts.push(start..end);
            start = end;
        }
        parts.sort_by_key(ExactSizeIterator::len);
        parts.into_iter().try_for_each(|part| self.part(part))
    }

    fn part(&mut self, part: Range<usize>) -> Result<(), End> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes || self.limits.stopped() {
            return Err(End::OutOfBudget);
        }
        let slice = self.choose(part.clone());
        let floor = self.floor[slice];
        let mut next: Vec<usize> = self.next_in(slice).collect();
        next.sort_by_key(|item| self.rank[*item]);
        for (at, &item) in next.iter().enumerate() {
            if self.is_twin_of_any(item, &next[..at]) || !self.is_in_order(item) {
                continue;
            }
            let mark = self.changes.len();
            self.put(item);
            if self.settle() {
                match self.parts(part.clone()) {
                    Err(End::Failed) => {}
                    end => return end,
                }
            }
            self.go_back(mark);
        }
        let mark = self.changes.len();
        if self.spare(slice) > 0
            && self.leave_gap(slice, &next)
            && !next.iter().any(|item| self.gap_is_wasted(*item, floor))
        {
            match self.part(part) {
                Err(End::Failed) => {}
                end => return end,
            }
        }
        self.go_back(mark);
        Err(End::Failed)
    }

    /// Of the slices with the lowest floor the one with the fewest things that can happen next, then
    /// the one with the most preferred item.
    fn choose(&self, part: Range<usize>) -> usize {
        let open = || part.clone().filter(|slice| self.count[*slice] > 0);
        let lowest = open().map(|slice| self.floor[slice]).min();
        let least = open().filter(|slice| Some(self.floor[*slice]) == lowest);
        let key = |slice: &usize| {
            let next = self.next_in(*slice).map(|item| self.rank[item]);
            let (count, rank) =
                next.fold((0, u32::MAX), |(count, least), rank| (count + 1, least.min(rank)));
            (count + u32::from(self.spare(*slice) > 0), rank)
        };
        least.min_by_key(key).unwrap_or(part.start)
    }

    fn unplaced(&self, slice: usize) -> impl Iterator<Item = usize> {
        let items = self.time.slices[slice].iter().map(|(item, _)| *item);
        items.filter(|item| !self.placed[*item])
    }

    /// The items that can lie on a slice's floor. There always is one: floors rise to it.
    fn next_in(&self, slice: usize) -> impl Iterator<Item = usize> {
        self.unplaced(slice).filter(move |item| self.low[*item] == self.floor[slice])
    }

    /// Bytes of a slice that may still be wasted.
    fn spare(&self, slice: usize) -> u64 {
        let room = self.time.items.room(self.floor[slice]..u32::MAX);
        room.saturating_sub(self.bytes[slice])
    }

    /// Whether the item equals another: that one is placed first.
    fn is_twin_of_any(&self, item: usize, others: &[usize]) -> bool {
        let equal = |other: &usize| {
            self.time.twins[*other] == self.time.twins[item]
                && self.time.items.sizes[*other] == self.time.items.sizes[item]
        };
        others.iter().any(equal)
    }

    /// Whether the item, on the floor, does not lie on a twin that comes after it.
    fn is_in_order(&self, item: usize) -> bool {
        let below = self.time.slices_of[item].first().and_then(|(slice, _)| self.top[*slice]);
        !below.is_some_and(|below| {
            self.time.twins[below] == self.time.twins[item]
                && self.low[below] + self.time.items.sizes[below] == self.low[item]
                && self.rank[below] > self.rank[item]
        })
    }

    /// Places an item at its lowest address.
    fn put(&mut self, item: usize) {
        let time = self.time;
        self.placed[item] = true;
        self.changes.push(Change::Placed { item });
        for &(slice, size) in &time.slices_of[item] {
            self.count[slice] -= 1;
            self.bytes[slice] -= u64::from(size);
            self.changes.push(Change::Floor { slice, before: self.floor[slice] });
            self.floor[slice] = self.low[item] + size;
            self.changes.push(Change::Top { slice, before: self.top[slice] });
            self.top[slice] = Some(item);
            self.mark(slice);
        }
    }

    /// None of the items lies on the slice's floor, which is the lowest: each lies on one that is not
    /// placed, or at the start of a range.
    fn leave_gap(&mut self, slice: usize, next: &[usize]) -> bool {
        let items = self.time.items;
        let floor = self.floor[slice];
        let lives_here =
            |other: usize| self.time.slices[slice].iter().any(|(item, _)| *item == other);
        for &item in next {
            let support = |other: &Neighbour| {
                let above_floor = if lives_here(other.item) { floor + 1 } else { 0 };
                other.over(self.low[other.item].max(above_floor)).max(floor + 1)
            };
            let unplaced = items.neighbours[item].iter().filter(|other| !self.placed[other.item]);
            let on_another = unplaced.map(support).min();
            let starts = items.items[item].ranges.iter().map(|range| range.start);
            let at_start = starts.filter(|start| *start > floor).min();
            let Some(from) = on_another.into_iter().chain(at_start).min() else { return false };
            if !self.raise(item, from) {
                return false;
            }
        }
        self.settle()
    }

    /// Whether an item that was kept off the floor would fit between the floor and all that is left.
    fn gap_is_wasted(&self, item: usize, floor: u32) -> bool {
        let items = self.time.items;
        let end = floor + items.sizes[item];
        let others = items.neighbours[item].iter().filter(|other| !self.placed[other.item]);
        others.into_iter().all(|other| self.low[other.item] >= end)
    }

    /// Draws conclusions until there are no more; whether the rest may still fit.
    fn settle(&mut self) -> bool {
        while let Some(slice) = self.dirty.pop() {
            self.is_dirty[slice] = false;
            let Some(lowest) = self.unplaced(slice).map(|item| self.low[item]).min() else {
                continue;
            };
            let before = self.floor[slice];
            if lowest > before {
                self.changes.push(Change::Floor { slice, before });
                self.floor[slice] = lowest;
            }
            if self.time.items.room(self.floor[slice]..u32::MAX) < self.bytes[slice] {
                self.blame(slice);
                return false;
            }
            if lowest < before {
                let time = self.time;
                let mut here = time.slices[slice].iter();
                if !here.all(|(item, _)| self.placed[*item] || self.raise(*item, before)) {
                    return false;
                }
            }
        }
        true
    }

    fn blame(&mut self, slice: usize) {
        let time = self.time;
        for (item, _) in &time.slices[slice] {
            self.trouble[*item] += u32::from(!self.placed[*item]);
        }
    }

    /// Keeps an unplaced item at or above an address.
    fn raise(&mut self, item: usize, from: u32) -> bool {
        let Some(low) = self.time.items.lowest(item, from) else {
            self.trouble[item] += 1;
            return false;
        };
        if low > self.low[item] {
            self.changes.push(Change::Low { item, before: self.low[item] });
            self.low[item] = low;
            let time = self.time;
            time.slices_of[item].iter().for_each(|(slice, _)| self.mark(*slice));
        }
        true
    }

    fn mark(&mut self, slice: usize) {
        if !self.is_dirty[slice] {
            self.is_dirty[slice] = true;
            self.dirty.push(slice);
        }
    }

    fn go_back(&mut self, mark: usize) {
        for slice in self.dirty.drain(..) {
            self.is_dirty[slice] = false;
        }
        for change in self.changes.drain(mark..).rev() {
            match change {
                Change::Floor { slice, before } => self.floor[slice] = before,
                Change::Low { item, before } => self.low[item] = before,
                Change::Top { slice, before } => self.top[slice] = before,
                Change::Placed { item } => {
                    self.placed[item] = false;
                    for &(slice, size) in &self.time.slices_of[item] {
                        self.count[slice] += 1;
                        self.bytes[slice] += u64::from(size);
                    }
                }
            }
        }
    }
}

/// For every item the first that differs from it in size alone; itself where exchanging two that lie on
/// each other could break a rule: sizes that change, several ranges, ends that are not aligned.
fn twins(items: &Items) -> Vec<usize> {
    let simple = |item: &Item| {
        let size = item.size();
        item.ranges.len() == 1
            && size.is_multiple_of(item.alignment)
            && item.spans.iter().all(|(_, found)| *found == size)
    };
    let mut firsts = FxHashMap::default();
    let first = |(number, item): (usize, &Item)| {
        if !simple(item) {
            return number;
        }
        let when = union(item.spans.iter().map(|(live, _)| live.clone()).collect());
        *firsts.entry((item.alignment, item.ranges.clone(), when)).or_insert(number)
    };
    items.items.iter().enumerate().map(first).collect()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::branch::{Rule, Search};
    use super::*;

    /// Items that hardly fit, if they do: several lifetimes, sizes that change, holes, alignments.
    fn tight(random: &mut ChaCha8Rng) -> Items {
        let end = random.random_range(12..40_u32);
        let hole = random.random_range(0..end);
        let free = vec![0..hole, hole + random.random_range(0..4)..end];
        let count = random.random_range(3..12);
        let mut item = |_| {
            let mut spans = vec![];
            let mut step = random.random_range(0..5_u32);
            let size = random.random_range(1..end / 2);
            for _ in 0..random.random_range(1..3) {
                let length = random.random_range(1..4_u32);
                let size = if random.random_bool(0.8) { size } else { random.random_range(1..9) };
                spans.push((step..step + length, size));
                step += length + random.random_range(0..3_u32);
            }
            let upper = random.random_bool(0.2);
            let ranges = if upper { vec![free[1].clone()] } else { free.clone() };
            let ranges = ranges.into_iter().filter(|range| !range.is_empty()).collect();
            Item { spans, alignment: 1 << random.random_range(0..3), ranges }
        };
        let items = (0..count).map(&mut item).collect();
        Items::new(items, free.clone(), &[])
    }

    fn is_legal(items: &Items, addresses: &[u32]) -> bool {
        let inside = |item: usize| items.lowest(item, addresses[item]) == Some(addresses[item]);
        let clear = |item: usize| {
            items.neighbours[item].iter().all(|other| {
                other.above(addresses[item]) <= addresses[other.item]
                    || other.over(addresses[other.item]) <= addresses[item]
            })
        };
        (0..items.len()).all(|item| inside(item) && clear(item))
    }

    #[test]
    fn it_decides_as_the_search_by_items_does() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let (mut placed, mut impossible) = (0, 0);
        let limits = Limits { nodes: 100_000, stop: None };
        for _ in 0..3000 {
            let items = tight(&mut random);
            let rank: Vec<u32> = (0..items.len() as u32).collect();
            let slices = Slices::new(&items).expect("no pairs");
            let found = Skyline::new(&slices, &rank, limits).run();
            let mut trouble = vec![1.0; items.len()];
            let other = Search::new(&items, (Rule::Lowest, &rank), &mut trouble, limits).run();
            match (found, other) {
                (Found::Placed(addresses), Found::Placed(_)) => {
                    assert!(is_legal(&items, &addresses), "{items:?} {addresses:?}");
                    placed += 1;
                }
                (Found::Nothing, Found::Nothing) => impossible += 1,
                (Found::Unknown(_), _) | (_, Found::Unknown(_)) => {}
                (found, other) => panic!("{items:?}: {found:?}, but {other:?}"),
            }
        }
        assert!(placed > 500 && impossible > 500, "{placed} {impossible}");
    }
}
