//! Orders in which transfers are placed.

use super::jobs::Jobs;
use super::{colours, waves};

/// A rule that orders the transfers of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderRule {
    /// Round after round, every sender's next transfer; each sender begins with its nearest
    /// receiver above and goes round, so that the first of a round go to different receivers.
    Rotation,
    /// The busiest endpoint's transfers first, longest first.
    Bottleneck,
    /// Rounds in which every tile sends and receives at most once: [`colours`].
    Colours,
    /// Lanes filled event by event: [`waves`].
    Waves,
    /// As they come.
    Given,
    /// The last first.
    Backward,
    /// The longest first, among equals the busiest endpoint's.
    Longest,
    /// Round after round as [`OrderRule::Rotation`], busiest senders first inside a round.
    LoadedRotation,
}

/// The rules worth trying, best bet first: fragmented point-to-point traffic in coloured rounds,
/// multicasts where they are tightest.
pub fn rules(jobs: &Jobs) -> &'static [OrderRule] {
    use OrderRule::*;
    const WIDE: &[OrderRule] =
        &[Bottleneck, Rotation, Waves, LoadedRotation, Given, Longest, Backward];
    const NARROW: &[OrderRule] =
        &[LoadedRotation, Longest, Given, Bottleneck, Waves, Rotation, Backward];
    const SINGLE: &[OrderRule] =
        &[Colours, LoadedRotation, Longest, Given, Bottleneck, Waves, Rotation, Backward];
    let receivers = jobs.work() - jobs.len();
    if receivers == jobs.len() {
        SINGLE
    } else if receivers >= 4 * jobs.len() {
        WIDE
    } else {
        NARROW
    }
}

impl OrderRule {
    /// Indices of all transfers, first to place first.
    pub fn order(self, jobs: &Jobs) -> Vec<u32> {
        let given = 0..jobs.len() as u32;
        match self {
            OrderRule::Given => given.collect(),
            OrderRule::Backward => given.rev().collect(),
            OrderRule::Colours => colours::rounds(jobs),
            OrderRule::Waves => waves::order(jobs, &OrderRule::Longest.order(jobs)),
            OrderRule::Bottleneck | OrderRule::Longest => self.by_load(jobs),
            OrderRule::Rotation | OrderRule::LoadedRotation => self.by_round(jobs),
        }
    }

    fn by_load(self, jobs: &Jobs) -> Vec<u32> {
        let (sent, received) = jobs.loads();
        let mut order: Vec<u32> = (0..jobs.len() as u32).collect();
        order.sort_by_cached_key(|index| {
            let job = jobs.job(*index as usize);
            let receivers = jobs.ends_of(job).iter();
            let most = receivers.map(|end| received[usize::from(end.tile.0)]).max();
            let load = most.unwrap_or(0).max(sent[usize::from(job.source.0)]);
            let items = job.items;
            let keys = if self == OrderRule::Longest { (items, load) } else { (load, items) };
            (std::cmp::Reverse(keys), *index)
        });
        order
    }

    fn by_round(self, jobs: &Jobs) -> Vec<u32> {
        let (sent, _) = jobs.loads();
        let tiles = u32::from(jobs.tiles());
        let distance = |index: u32| {
            let job = jobs.job(index as usize);
            let source = u32::from(job.source.0);
            let receivers = jobs.ends_of(job).iter();
            let nearest = receivers.map(|end| (u32::from(end.tile.0) + tiles - source) % tiles);
            nearest.min().unwrap_or(0)
        };
        // Numbers of three fields sort faster than tuples of them.
        let key = |field: u64, distance: u32, index: u32| {
            u128::from(field) << 64 | u128::from(distance) << 32 | u128::from(index)
        };
        let mut keyed: Vec<u128> = (0..jobs.len() as u32)
            .map(|index| {
                let source = jobs.job(index as usize).source;
                key(source.0.into(), distance(index), index)
            })
            .collect();
        keyed.sort_unstable();
        // Rank of every transfer among its sender's, weighted so that senders end together.
        let mut done = vec![0_u64; jobs.tiles().into()];
        for at in &mut keyed {
            let (distance, index) = ((*at >> 32) as u32, *at as u32);
            let job = jobs.job(index as usize);
            let source = usize::from(job.source.0);
            let (load, words) = match self {
                OrderRule::LoadedRotation => (sent[source].max(1), job.words()),
                _ => (1, 1),
            };
            *at = key(done[source] * 4096 / u64::from(load), distance, index);
            done[source] += u64::from(words);
        }
        keyed.sort_unstable();
        keyed.into_iter().map(|key| key as u32).collect()
    }
}
