//! Orders in which transfers are placed.

use super::phase::Phase;

/// A rule that orders the transfers of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderRule {
    /// Round after round, every sender's next transfer; each sender begins with its nearest
    /// receiver above and goes round, so that the first of a round go to different receivers.
    Rotation,
    /// The busiest endpoint's transfers first, longest first.
    Bottleneck,
    /// Round after round as [`OrderRule::Rotation`], busiest senders first inside a round.
    LoadedRotation,
}

/// Receivers of all transfers together up to which every rule is tried.
const ALL_RULES: usize = 250_000;

/// The rules worth trying for a phase, best bet first; one of them unless `full`. Multicasts to many
/// tiles are best placed where they are tightest; fragmented traffic in rounds.
pub fn rules(phase: &Phase, full: bool) -> &'static [OrderRule] {
    const WIDE: &[OrderRule] =
        &[OrderRule::Bottleneck, OrderRule::Rotation, OrderRule::LoadedRotation];
    const NARROW: &[OrderRule] =
        &[OrderRule::LoadedRotation, OrderRule::Rotation, OrderRule::Bottleneck];
    let receivers: usize =
        (0..phase.len()).map(|index| phase.transfer(index).destinations.len()).sum();
    let rules = if receivers >= 4 * phase.len() { WIDE } else { NARROW };
    if full && receivers <= ALL_RULES { rules } else { &rules[..1] }
}

/// Words that every tile sends and receives, and the larger for each transfer.
fn loads(phase: &Phase, paired: bool) -> (Vec<u32>, Vec<u32>) {
    let tiles = usize::from(phase.tiles());
    let (mut sent, mut received) = (vec![0_u32; tiles], vec![0_u32; tiles]);
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let items =
            if paired && phase.pairable(index) { transfer.words / 2 } else { transfer.words };
        sent[usize::from(transfer.source.0)] += items;
        for (tile, _) in transfer.destinations {
            received[usize::from(tile.0)] += items;
        }
    }
    (sent, received)
}

impl OrderRule {
    /// Indices of all transfers, first to place first.
    pub fn order(self, phase: &Phase, paired: bool) -> Vec<u32> {
        let (sent, received) = loads(phase, paired);
        let mut order: Vec<u32> = (0..phase.len() as u32).collect();
        if self == OrderRule::Bottleneck {
            let key = |index: &u32| {
                let transfer = phase.transfer(*index as usize);
                let receivers = transfer.destinations.iter();
                let most = receivers.map(|(tile, _)| received[usize::from(tile.0)]).max();
                let load = most.unwrap_or(0).max(sent[usize::from(transfer.source.0)]);
                (std::cmp::Reverse(load), std::cmp::Reverse(transfer.words), *index)
            };
            order.sort_by_cached_key(key);
            return order;
        }
        let tiles = u32::from(phase.tiles());
        let distance = |index: u32| {
            let transfer = phase.transfer(index as usize);
            let source = u32::from(transfer.source.0);
            let nearest = transfer
                .destinations
                .iter()
                .map(|(tile, _)| (u32::from(tile.0) + tiles - source) % tiles);
            nearest.min().unwrap_or(0)
        };
        order.sort_by_cached_key(|index| {
            (phase.transfer(*index as usize).source, distance(*index), *index)
        });
        // Rank of every transfer among its sender's, weighted so that senders end together.
        let mut keyed: Vec<(u64, u32, u32)> = Vec::with_capacity(order.len());
        let mut done = vec![0_u64; phase.tiles().into()];
        for &index in &order {
            let transfer = phase.transfer(index as usize);
            let source = usize::from(transfer.source.0);
            let load = if self == OrderRule::LoadedRotation { sent[source].max(1) } else { 1 };
            keyed.push((done[source] * 4096 / u64::from(load), distance(index), index));
            done[source] +=
                if self == OrderRule::LoadedRotation { u64::from(transfer.words) } else { 1 };
        }
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, _, index)| index).collect()
    }
}
