//! Messages of one sender to the same receivers that are read one behind the other: sent without a gap
//! they are one send, with a pointer for each at its receivers.

use super::joins::admit;
use super::phase::{MOST_WORDS, Phase, Transfer};
use super::rows::GUARDED;

/// Numbers of the transfers that one send is made of, in the order in which they are sent.
pub(super) type Run = Vec<u32>;

/// Transfers up to which runs are looked for: no larger phase is scheduled by them.
const MANY: usize = 8_000;
/// Runs are worth while if they are fewer than the transfers by one in so many.
const FEWER: usize = 10;

/// All transfers of a phase as runs, by their first ones; none if there are hardly fewer of them, or if
/// the phase is large or in a loop. It depends on nothing but what goes on where and on memory elements.
pub(super) fn of(phase: &Phase) -> Option<Vec<Run>> {
    if phase.len() > MANY || phase.iterations() > 1 {
        return None;
    }
    let next = followers(phase);
    let mut follows = vec![false; phase.len()];
    next.iter().flatten().for_each(|later| follows[*later as usize] = true);
    let mut runs: Vec<Run> = vec![];
    for head in (0..phase.len() as u32).filter(|head| !follows[*head as usize]) {
        let chain = std::iter::successors(Some(head), |at| next[*at as usize]);
        let mut run = Run::new();
        let mut words = 0;
        for transfer in chain {
            let more = phase.transfer(transfer as usize).words;
            if words + more > MOST_WORDS {
                end(&mut runs, std::mem::take(&mut run), words);
                words = 0;
            }
            run.push(transfer);
            words += more;
        }
        end(&mut runs, run, words);
    }
    runs.sort_unstable();
    (FEWER * runs.len() <= (FEWER - 1) * phase.len()).then_some(runs)
}

/// Takes a run of so many words. None becomes of the length that asks for one more event at its
/// receivers.
fn end(runs: &mut Vec<Run>, mut run: Run, words: u32) {
    if words == GUARDED && run.len() > 1 {
        runs.extend(run.pop().map(|last| vec![last]));
    }
    runs.push(run);
}

/// The transfer that is read behind each one and goes to the same receivers; each is that of one.
fn followers(phase: &Phase) -> Vec<Option<u32>> {
    let begins = |index: u32| (place(&phase.transfer(index as usize), 0), index);
    let mut begun: Vec<(u64, u32)> = (0..phase.len() as u32).map(begins).collect();
    begun.sort_unstable();
    let mut taken = vec![false; phase.len()];
    let mut next = vec![None; phase.len()];
    for (_, index) in &begun {
        let transfer = phase.transfer(*index as usize);
        let end = place(&transfer, transfer.words);
        let from = begun.partition_point(|begun| begun.0 < end);
        let there = begun[from..].iter().take_while(|begun| begun.0 == end);
        let mut free = there.map(|begun| begun.1).filter(|later| !taken[*later as usize]);
        let found = free.find(|later| goes_on(phase, *index, *later));
        if let Some(later) = found {
            taken[later as usize] = true;
            next[*index as usize] = Some(later);
        }
    }
    next
}

/// Whether a transfer that is read behind another one can be sent with it: not where a tile hears itself,
/// which may have been split on purpose (rule T3), and no receiver may wait an event longer for one.
fn goes_on(phase: &Phase, first: u32, second: u32) -> bool {
    let plain = |index: u32| {
        let transfer = phase.transfer(index as usize);
        let home = transfer.destinations.iter().any(|(tile, _)| *tile == transfer.source);
        !home && transfer.words != GUARDED
    };
    plain(first) && plain(second) && admit(phase, first, second)
}

/// By tile, how many first and second events of sends there are at least, if every transfer that can goes
/// on in another's send; `first` says of a transfer how many it has by itself.
pub(super) fn first_events(phase: &Phase, first: impl Fn(usize) -> u32) -> Vec<u32> {
    let mut edges: Vec<Edge> = Vec::with_capacity(2 * phase.len());
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        edges.push(Edge { place: place(&transfer, 0), begins: first(index) });
        edges.push(Edge { place: place(&transfer, transfer.words), begins: 0 });
    }
    edges.sort_unstable();
    let mut events = vec![0; usize::from(phase.tiles())];
    for edges in edges.chunk_by(|one, other| one.place == other.place) {
        let ends = edges.partition_point(|edge| edge.begins == 0);
        // Each that ends here can go on in one that begins here; those with the fewest events cannot.
        let begins = &edges[ends..];
        let left = begins.len().saturating_sub(ends);
        let taken: u32 = begins[..left].iter().map(|edge| edge.begins).sum();
        events[(edges[0].place >> SENDER) as usize] += taken;
    }
    events
}

/// Where the words of a transfer begin or end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    place: u64,
    /// First and second events of a send that begins here; none where one ends.
    begins: u32,
}

/// Where the sender's number lies in a place.
const SENDER: u32 = 48;

/// The word so many behind the first of a transfer. Of the receivers only the first and their number tell
/// transfers apart, so that some count as going on that cannot: a bound is only lower for it.
fn place(transfer: &Transfer<'_>, words: u32) -> u64 {
    let at = u64::from(transfer.source_address.0 / 4 + words);
    let receivers = u64::from(transfer.destinations[0].0.0) << 12
        | u64::from(transfer.moves()) << 11
        | transfer.destinations.len() as u64;
    u64::from(transfer.source.0) << SENDER | receivers << 24 | at
}
