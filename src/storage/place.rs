//! Placing one tile's buffers: bounds, then constructive orders, then searches with restarts.
//!
//! The searches differ in what they decide on first; each gets a small budget of nodes, because an
//! unlucky first decision costs more than a new start. Some learn: items that were often in the way
//! are decided on sooner in their next attempt. In later rounds budgets grow. Nodes are counted, there
//! is no clock.

use std::cmp::Reverse;
use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::bounds::{is_overfull, shortage};
use super::branch::{Found, Limits, Rule, Search};
use super::items::{Items, largest};
use super::problem::{Buffer, Held, Problem, Shortage};
use super::skyline::{Skyline, Slices};

/// What came of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An address for every buffer.
    Placed(Vec<u32>),
    /// Proved: nothing fits.
    Impossible(Proof),
    /// Nothing found within the budget; a buffer that was in the way.
    Unknown {
        /// Its index.
        buffer: usize,
        /// Nodes of all searches together.
        nodes: u64,
    },
}

/// Why nothing fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// More bytes live than there are.
    Bytes(Shortage),
    /// A buffer does not fit even alone.
    Alone {
        /// Its index.
        buffer: usize,
        /// Bytes beyond the largest place that it could have.
        bytes_over: u32,
    },
    /// Blocks that can lie in one range only do not fit even alone.
    Repeat {
        /// Its index.
        repeat: usize,
        /// Bytes from its first block's start to its last one's end.
        bytes: u32,
        /// Bytes beyond the largest place that it could have.
        bytes_over: u32,
    },
    /// Each of the buffers with one address has a place alone, but no address is legal for all.
    NoAddress {
        /// The first of them.
        buffer: usize,
    },
    /// Every placement was ruled out.
    Exhausted {
        /// Nodes of the search.
        nodes: u64,
    },
}

/// Nodes of all searches together, unless told otherwise. So that a budget bounds the time, too, a node
/// of a very large problem counts for several.
pub const BUDGET: u64 = 200_000;

/// How often a failed item is moved to the front of an order.
const PROMOTIONS: u64 = 12;

/// Items up to which their number alone makes no node dearer.
const MANY: usize = 1000;

/// Neighbours and members of sections that a node may have to look at for the price of one.
const WORK: usize = 1 << 16;

/// The dearest node at which constructive orders still have all their attempts.
const DEAR: u64 = 64;

/// Items times levels of a search, which keeps a list of items at every level: bounds what the lists
/// take to half a gigabyte, and the depth of the stack.
const DEEPEST: usize = 1 << 26;

/// A search with a small budget.
#[derive(Clone, Copy)]
enum Turn {
    /// From the bottom up, preferring size; shaken by up to a fifth in all but the first: what it finds
    /// depends much on few decisions. Only where there are floors.
    Skyline(u64),
    /// Item by item.
    Branch(Rule, Preference),
}

/// Searches of a round, in turn.
fn turns() -> impl Iterator<Item = Turn> {
    let branches = [
        (Rule::LowestRoughly, Preference::Crowd),
        (Rule::LowestRoughly, Preference::Area),
        (Rule::Sum, Preference::Length),
        (Rule::Lowest, Preference::Crowd),
        (Rule::Sum, Preference::Area),
        (Rule::Tightest, Preference::Length),
        (Rule::Lowest, Preference::Length),
    ];
    let branches = branches.map(|(rule, preference)| Turn::Branch(rule, preference));
    [Turn::Skyline(0)].into_iter().chain(branches).chain((1..SKYLINES).map(Turn::Skyline))
}

/// Searches from the bottom up in a round.
const SKYLINES: u64 = 12;

/// A search that learns what is in the way, in many short attempts.
struct Learner {
    preference: Preference,
    /// Nodes of one attempt of the first round.
    nodes: u64,
    /// How much of what it learned it keeps for the next attempt.
    keep: f64,
}

/// The learners of a round, in turn.
const LEARNERS: [Learner; 2] = [
    Learner { preference: Preference::Crowd, nodes: 300, keep: 0.9 },
    Learner { preference: Preference::Area, nodes: 1000, keep: 1.0 },
];

/// Nodes of one search of the first round: enough for a few hundred items if hardly a decision has to
/// be taken back. Those that succeed mostly do so at once.
const TURN: u64 = 800;

/// Attempts of a learner in one round.
const RESTARTS: u32 = 24;

/// What comes first.
#[derive(Clone, Copy)]
enum Preference {
    /// Most bytes beside it, then length.
    Crowd,
    /// Bytes times steps.
    Area,
    /// Steps.
    Length,
    /// Bytes.
    Size,
}

/// Places all buffers of a checked problem, repeats and preferences apart ([`super::solve`]); a search
/// that is asked to stop leaves the outcome unknown.
pub(super) fn place_until(problem: &Problem, limits: Limits<'_>) -> Outcome {
    place_held(problem, &[], limits).0
}

/// The same with some buffers held to a few addresses, of which proofs say nothing; with the nodes that
/// it took.
pub(super) fn place_held(problem: &Problem, held: &[Held], limits: Limits<'_>) -> (Outcome, u64) {
    let (items, item_of) = problem.items_held(held);
    let first = |item: usize| item_of.iter().position(|found| *found == item).unwrap_or(0);
    if let Some(item) = homeless(&items) {
        let members = (0..item_of.len()).filter(|buffer| item_of[*buffer] == item);
        return (Outcome::Impossible(alone(problem, &members.collect::<Vec<_>>())), 0);
    }
    if let Some(shortage) = shortage(&items) {
        return (Outcome::Impossible(Proof::Bytes(shortage)), 0);
    }
    if is_crowded(&items, held, &item_of) {
        return (Outcome::Unknown { buffer: 0, nodes: 0 }, 0);
    }
    let (found, nodes) = solve(&items, limits);
    let outcome = match found {
        Found::Placed(found) => Outcome::Placed(item_of.iter().map(|item| found[*item]).collect()),
        Found::Nothing if exact(problem) => Outcome::Impossible(Proof::Exhausted { nodes }),
        Found::Nothing => Outcome::Unknown { buffer: 0, nodes },
        Found::Unknown(item) => Outcome::Unknown { buffer: first(item), nodes },
    };
    (outcome, nodes)
}

/// Whether what is held to a few addresses is too much for them: bytes tell sooner than a search.
fn is_crowded(items: &Items, held: &[Held], item_of: &[usize]) -> bool {
    let around = |(buffer, _): &Held| {
        let ranges = &items.items[item_of[*buffer]].ranges;
        Some(ranges.first()?.start..ranges.last()?.end)
    };
    let mut around: Vec<Range<u32>> = held.iter().filter_map(around).collect();
    around.sort_unstable_by_key(|range| (range.start, range.end));
    around.dedup();
    around.iter().any(|range| is_overfull(items, range))
}

/// Why buffers with one address have none even alone: the largest that has no place, or, if each has
/// one, that they have none in common.
fn alone(problem: &Problem, members: &[usize]) -> Proof {
    let missing = |&buffer: &usize| {
        let Buffer { size, alignment, .. } = problem.buffers[buffer];
        let bytes_over =
            size.saturating_sub(largest(&problem.ranges_of(&problem.buffers[buffer]), alignment));
        (bytes_over > 0).then_some((size, buffer, bytes_over))
    };
    let largest = members.iter().filter_map(missing).max_by_key(|(size, ..)| *size);
    match largest {
        Some((_, buffer, bytes_over)) => Proof::Alone { buffer, bytes_over },
        None => Proof::NoAddress { buffer: members[0] },
    }
}

/// An item that has no legal address even alone.
fn homeless(items: &Items) -> Option<usize> {
    (0..items.len()).find(|item| items.lowest(*item, 0).is_none())
}

/// Places items or rules them out, by bounds too; with the nodes that it took.
pub(super) fn decide(items: &Items, limits: Limits<'_>) -> (Found, u64) {
    if homeless(items).is_some() || shortage(items).is_some() {
        return (Found::Nothing, 0);
    }
    solve(items, limits)
}

/// Whether a search that finds nothing proves something. If one of several buffers with one address
/// must lie apart from another buffer, all of them are kept apart, which is more than need be. Bounds
/// prove something even then: they do not look at pairs.
pub(super) fn exact(problem: &Problem) -> bool {
    let aliased = |buffer| problem.aliases.iter().any(|(a, b)| buffer == *a || buffer == *b);
    !problem.apart.iter().any(|(a, b)| aliased(*a) || aliased(*b))
}

/// Places items; with the nodes that it took.
pub(super) fn solve(items: &Items, limits: Limits<'_>) -> (Found, u64) {
    let price = price(items);
    let failed = match construct(items, attempts(price)) {
        Ok(found) => return (Found::Placed(found), 0),
        Err(item) => item,
    };
    let mut found = Found::Unknown(failed);
    if limits.nodes == 0 {
        return (found, 0);
    }
    let mut spent = 0;
    let deepest = deepest(items);
    let mut attempt = |nodes: u64, search: &mut dyn FnMut(Limits<'_>) -> (Found, u64)| {
        let left = (limits.nodes - spent) / price;
        let (end, visited) = search(Limits { nodes: nodes.min(left).min(deepest), ..limits });
        spent += visited.min(left) * price;
        found = end;
        let over = limits.nodes - spent < price || limits.stopped();
        (over || !matches!(found, Found::Unknown(_))).then(|| (found.clone(), spent))
    };
    let branch = |rule, rank: &[u32], trouble: &mut [f64], part: Limits<'_>| {
        let mut search = Search::new(items, (rule, rank), trouble, part);
        (search.run(), search.nodes())
    };
    let slices = Slices::new(items);
    let mut learners = LEARNERS.map(|learner| (learner, vec![1.0; items.len()]));
    for round in 0_u64.. {
        let grown = |nodes: u64| nodes << (2 * round).min(32);
        for turn in turns() {
            let end = match (turn, &slices) {
                (Turn::Skyline(shake), Some(slices)) => {
                    let rank = shaken(items, round << 32 | shake);
                    attempt(grown(TURN), &mut |part| {
                        let mut search = Skyline::new(slices, &rank, part);
                        (search.run(), search.nodes())
                    })
                }
                (Turn::Branch(rule, preference), _) => {
                    let mut trouble = vec![1.0; items.len()];
                    let rank = ranks(items, preference);
                    attempt(grown(TURN), &mut |part| branch(rule, &rank, &mut trouble, part))
                }
                (Turn::Skyline(_), None) => None,
            };
            if let Some(end) = end {
                return end;
            }
        }
        for (learner, trouble) in &mut learners {
            let rank = ranks(items, learner.preference);
            for _ in 0..RESTARTS {
                let end = attempt(grown(learner.nodes), &mut |part| {
                    branch(Rule::Troubled, &rank, trouble, part)
                });
                if let Some(end) = end {
                    return end;
                }
                let keep = learner.keep;
                trouble.iter_mut().for_each(|trouble| *trouble = keep * *trouble + (1.0 - keep));
            }
        }
    }
    (found, spent)
}

/// Nodes that one node counts for: it takes time in proportion to what meets in the problem, and of very
/// many items it looks at each, in memory that gets slower; and what is counted has to bound the time.
fn price(items: &Items) -> u64 {
    let neighbours: usize = items.neighbours.iter().map(Vec::len).sum();
    let members: usize = items.sections.iter().map(|section| section.items.len()).sum();
    let many = (items.len() / MANY).pow(2);
    ((neighbours + members) / WORK).max(many).max(1) as u64
}

/// Attempts with every constructive order, each of which takes about as long as a node.
fn attempts(price: u64) -> u64 {
    (PROMOTIONS * DEAR / price).clamp(1, PROMOTIONS)
}

/// Nodes of one attempt where every item could be a level of its search.
fn deepest(items: &Items) -> u64 {
    let most = DEEPEST / items.len().max(1);
    if most < items.len() { most as u64 } else { u64::MAX }
}

/// Items by shaken size, the largest with rank 0.
fn shaken(items: &Items, seed: u64) -> Vec<u32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut key = |item: usize| {
        let shake = if seed == 0 { 0 } else { random.random_range(0..=1000_u64) };
        u64::from(items.sizes[item]) * (5000 - shake)
    };
    let mut keyed: Vec<(Reverse<u64>, usize)> =
        (0..items.len()).map(|item| (Reverse(key(item)), item)).collect();
    keyed.sort_unstable();
    let mut rank = vec![0; items.len()];
    for (place, (_, item)) in (0..).zip(keyed) {
        rank[item] = place;
    }
    rank
}

/// Items by preference, the first with rank 0.
fn ranks(items: &Items, preference: Preference) -> Vec<u32> {
    let mut rank = vec![0; items.len()];
    for (place, item) in (0..).zip(order(items, preference)) {
        rank[item] = place;
    }
    rank
}

fn order(items: &Items, preference: Preference) -> Vec<usize> {
    let length = |item: usize| -> u64 {
        items.items[item].spans.iter().map(|(live, _)| u64::from(live.end - live.start)).sum()
    };
    let size = |item: usize| u64::from(items.sizes[item]);
    let crowds: Vec<u64> = items
        .sections
        .iter()
        .map(|section| section.items.iter().map(|(_, size)| u64::from(*size)).sum())
        .collect();
    let crowd = |item: usize| {
        items.sections_of[item].iter().map(|section| crowds[*section]).max().unwrap_or(0)
    };
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_cached_key(|&item| {
        let area = length(item) * size(item);
        let key = match preference {
            Preference::Crowd => (crowd(item), length(item), area),
            Preference::Area => (area, 0, 0),
            Preference::Length => (length(item), area, 0),
            Preference::Size => (size(item), 0, 0),
        };
        (Reverse(key), item)
    });
    order
}

/// First fit in several orders; the item that failed goes first and the order is tried again.
fn construct(items: &Items, attempts: u64) -> Result<Vec<u32>, usize> {
    let mut failed = 0;
    for preference in [Preference::Size, Preference::Area, Preference::Length, Preference::Crowd] {
        let mut order = order(items, preference);
        // What has the least choice goes first.
        order.sort_by_key(|item| items.room_of(*item));
        for _ in 0..attempts {
            match first_fit(items, &order) {
                Ok(addresses) => return Ok(addresses),
                Err(item) => {
                    failed = item;
                    let at = order.iter().position(|found| *found == item).unwrap_or(0);
                    if at == 0 {
                        break;
                    }
                    order[..=at].rotate_right(1);
                }
            }
        }
    }
    Err(failed)
}

/// Every item in order at the lowest address where it fits, or the first that fits nowhere.
fn first_fit(items: &Items, order: &[usize]) -> Result<Vec<u32>, usize> {
    let mut addresses: Vec<Option<u32>> = vec![None; items.len()];
    let mut blocked: Vec<Range<u32>> = vec![];
    for &item in order {
        blocked.clear();
        for other in &items.neighbours[item] {
            if let Some(address) = addresses[other.item] {
                blocked.push(other.lowest_below(address)..other.over(address));
            }
        }
        blocked.sort_unstable_by_key(|range| (range.start, range.end));
        let mut at = items.lowest(item, 0).ok_or(item)?;
        for range in &blocked {
            if at + items.sizes[item] <= range.start {
                break;
            }
            if at < range.end {
                at = items.lowest(item, range.end).ok_or(item)?;
            }
        }
        addresses[item] = Some(at);
    }
    Ok(addresses.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::generate::banks;
    use super::*;

    #[test]
    fn a_search_that_is_asked_to_stop_ends_unknown() {
        let problem = banks(0, false);
        let placed = |stop: bool| {
            let stop = AtomicBool::new(stop);
            place_until(&problem, Limits { nodes: BUDGET, stop: Some(&stop) })
        };
        assert!(matches!(placed(false), Outcome::Placed(_)));
        assert!(matches!(placed(true), Outcome::Unknown { .. }));
    }
}
