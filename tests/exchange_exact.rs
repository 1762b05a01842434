//! Exchange schedules of tiny phases against the optimum under the chip's full timing, found by
//! trying all starts and, where they are free, all widths. The model here knows the rules of
//! `target/ipu21.md` §2.3, §2.5, §3.2 and §3.3 pair by pair and nothing of the engine. Controls that
//! are only left out next to another message are left out here, too: of ordinary messages the
//! release (R4), between two of one sender the select as well, and between 64-bit ones of one format
//! (R6). Two things are left to others. Whether a row encodes (C3) is not asked, so that the optimum
//! can be too good. And no two places in the memory of a tile that are read or written touch one
//! another, so that no pointer is left out (R5) and no messages become one send: the optimum of such
//! phases is not looked at.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper that fails fails its test; results name the counts that are printed"
)]

use ipu_tune::exchange::{Bounds, Options, Phase, Start, Transfer, Width, n0, schedule};
use ipu_tune::target::{Address, TileId, route, time_to_mux};

/// Repeatable numbers, good enough to make phases of.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.below(count) == 0
    }
}

/// Tiles that meet in one phase: near and far, early and late; and both members of some pairs.
const SINGLE: [u16; 5] = [0, 3, 46, 61, 92];
const PAIRS: [u16; 6] = [0, 1, 46, 47, 92, 93];

/// What is special about a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing: 32-bit messages from and to places of their own.
    Plain,
    /// Many messages go from or to whole pairs.
    Wide,
    /// Many messages pass on what another brought, or write over what another read.
    Waiting,
    /// Both.
    WideWaiting,
    /// 32-bit messages that mostly come back to their sender, too.
    Home,
}

impl Kind {
    fn wide(self) -> bool {
        matches!(self, Kind::Wide | Kind::WideWaiting)
    }

    fn waiting(self) -> bool {
        matches!(self, Kind::Waiting | Kind::WideWaiting)
    }
}

/// The longest way of words from tile to tile in one phase.
const PASSED_ON: u32 = 3;

/// What lies somewhere in a tile's memory.
#[derive(Clone, Copy)]
struct Block {
    tile: TileId,
    address: Address,
    words: u32,
    /// How often the words were passed on.
    passed: u32,
}

fn tiny(kind: Kind, seed: u64) -> Phase {
    let mut dice = Dice(seed);
    dice.below(7);
    let mut phase = Phase::new(96);
    let tiles = if kind.wide() { &PAIRS[..] } else { &SINGLE };
    // Where reads and writes meet in one memory element, they have to keep apart.
    let apart = if kind.waiting() { 0x68000 } else { 0x90000 };
    let meet = dice.one_in(3) && kind != Kind::Home;
    let mut written = vec![if meet { 0x61000 } else { apart }; 96];
    let mut read = vec![0x60000; 96];
    let (mut brought, mut overwritable): (Vec<Block>, Vec<Block>) = (vec![], vec![]);
    let (count, longest) = (2 + dice.below(9), [3, 8, 20][dice.below(3) as usize]);
    for _ in 0..count {
        let words = match kind.wide() && !dice.one_in(4) {
            true => 6 + 2 * dice.below(longest),
            false => 1 + dice.below(longest),
        };
        let source = TileId(tiles[dice.below(tiles.len() as u32) as usize]);
        let mut from = Block { tile: source, address: Address(read[at(source)]), words, passed: 0 };
        let passes = kind.waiting() && !brought.is_empty() && !dice.one_in(3);
        if passes {
            from = brought[dice.below(brought.len() as u32) as usize];
        }
        let mut destinations = vec![];
        let whole = kind.wide() && !dice.one_in(4);
        for tile in tiles.iter().map(|tile| TileId(*tile)) {
            let taken = match whole {
                true if tile.0 % 2 == 1 => destinations.iter().any(|(d, _)| *d == tile.partner()),
                true => dice.one_in(2) && from.tile != tile.partner(),
                false if tile == from.tile && kind == Kind::Home => !dice.one_in(3),
                false => dice.one_in(3),
            };
            if !taken || (tile == from.tile && kind != Kind::Home) {
                continue;
            }
            let over = overwritable.iter().position(|block: &Block| {
                (block.tile, block.words) == (tile, from.words) && kind.waiting()
            });
            let address = match over.filter(|_| dice.one_in(2)) {
                Some(over) => overwritable.swap_remove(over).address,
                None => {
                    let place = written[at(tile)];
                    written[at(tile)] += room_of(from.words);
                    Address(place)
                }
            };
            destinations.push((tile, address));
        }
        if destinations.iter().all(|(tile, _)| *tile == from.tile) {
            continue;
        }
        phase.add(from.tile, from.address, &destinations, from.words).unwrap();
        if !passes {
            read[at(from.tile)] += room_of(words);
            overwritable.push(from);
        }
        for (tile, address) in destinations {
            let passed = from.passed + 1;
            if passed < PASSED_ON {
                brought.push(Block { tile, address, words: from.words, passed });
            }
        }
    }
    phase.check_accesses().unwrap();
    phase
}

/// Bytes from one place to the next, which is a multiple of 8 and does not touch it.
fn room_of(words: u32) -> u32 {
    (4 * words).next_multiple_of(8) + 8
}

fn at(tile: TileId) -> usize {
    usize::from(tile.0)
}

/// A transfer at one width; all times relative to its start.
#[derive(Clone, Debug)]
struct Mode {
    wide: bool,
    source: TileId,
    items: i32,
    natural: i32,
    /// Lanes that it sends through, and until when.
    lanes: Vec<TileId>,
    busy: i32,
    /// End of the sender's row, of the last row, and of all reads and writes.
    sent: i32,
    horizon: i32,
    completion: i32,
    ends: Vec<End>,
}

/// A receiver.
#[derive(Clone, Copy, Debug)]
struct End {
    tile: TileId,
    address: Address,
    /// Source window, pointer, end of the row.
    window: i32,
    pointer: i32,
    horizon: i32,
    early: bool,
    /// Format of a 64-bit message.
    format: u32,
}

/// What a tile receives: the events of the source window and of the start, and the message.
type Received = (i32, i32, Mode, End);

/// A control of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    Select,
    Release,
    Pointer,
    WideSelect,
    WideRelease,
    FormatOn,
    WidePointer,
    FormatOff,
}

impl Mode {
    fn new(transfer: &Transfer<'_>, wide: bool) -> Mode {
        let source = transfer.source;
        let items = if wide { transfer.words / 2 } else { transfer.words } as i32;
        let times = transfer.destinations.iter().map(|(tile, _)| time_to_mux(source, *tile));
        let natural = times.map(|time| -time).max().unwrap().max(0);
        let end = |(tile, address): &(TileId, Address)| {
            let (tile, address) = (*tile, *address);
            let (time, other) = (time_to_mux(source, tile), time_to_mux(source, tile.partner()));
            let gap = 52 + 2 * tile.row() as i32;
            let (early, format) = (time < other, route(source, tile).direction as u32);
            if wide {
                let window = time.max(other);
                // The format is set for the two events before the pointer.
                let on = window + gap - 1;
                let (pointer, horizon) = (on + 2, on + items + 7);
                return End { tile, address, window, pointer, horizon, early, format };
            }
            let (window, guard) = (time + 1, if items == 52 { 6 } else { 5 });
            let pointer = window + gap;
            let horizon = pointer + items + guard;
            End { tile, address, window, pointer, horizon, early, format }
        };
        let ends: Vec<End> = transfer.destinations.iter().map(end).collect();
        let sent = items.max(6 - natural);
        Mode {
            wide,
            source,
            items,
            natural,
            lanes: if wide { vec![source, source.partner()] } else { vec![source] },
            busy: if wide { sent } else { items },
            sent,
            horizon: ends.iter().map(|end| end.horizon).max().unwrap().max(sent),
            completion: ends.iter().map(|end| end.pointer + items).max().unwrap().max(items),
            ends,
        }
    }

    fn controls(&self, end: &End) -> Vec<(i32, Control)> {
        let last = end.window + self.items;
        if !self.wide {
            return vec![
                (end.window, Control::Select),
                (last, Control::Release),
                (end.pointer, Control::Pointer),
            ];
        }
        let mut controls = vec![
            (end.pointer - 2, Control::FormatOn),
            (end.pointer, Control::WidePointer),
            (end.pointer - 2 + self.items, Control::FormatOff),
        ];
        if end.early {
            controls.extend([(end.window, Control::WideSelect), (last, Control::WideRelease)]);
        }
        controls
    }

    fn end_at(&self, tile: TileId) -> Option<&End> {
        self.ends.iter().find(|end| end.tile == tile)
    }
}

/// Whether a transfer may be 64-bit (§3.1).
fn eligible(transfer: &Transfer<'_>) -> bool {
    let receives = |tile: TileId| transfer.destinations.iter().any(|(other, _)| *other == tile);
    let items = transfer.words / 2;
    let ends = transfer.destinations.iter().all(|(tile, address)| {
        let coincide = [2, 51 + 2 * tile.row(), 53 + 2 * tile.row()].contains(&items);
        let own = *tile == transfer.source || *tile == transfer.source.partner();
        address.0.is_multiple_of(8) && receives(tile.partner()) && !coincide && !own
    });
    ends && transfer.words.is_multiple_of(2) && transfer.source_address.0.is_multiple_of(8)
}

/// Whether two controls of a tile that take effect at once are one too many (C1); a release is left
/// out where the next message is selected (R4).
fn clash(one: Control, two: Control) -> bool {
    use Control::{Pointer, Release, Select};
    let fits = |one, two| matches!((one, two), (Pointer, Select | Release) | (Select, Release));
    !fits(one, two) && !fits(two, one)
}

fn apart(s: i32, n: i32, t: i32, m: i32) -> bool {
    s + n <= t || t + m <= s
}

/// Whether two accesses share a memory element: all addresses here lie below 0x80000 in 16 KiB
/// elements, or far apart.
fn share(a: Address, n: i32, b: Address, m: i32) -> bool {
    let span = |at: Address, words: i32| (at.0 >> 14, (at.0 + 4 * words as u32 - 1) >> 14);
    let ((a, c), (b, d)) = (span(a, n), span(b, m));
    a <= d && b <= c
}

/// Whether two accesses share a word.
fn overlap(a: Address, n: u32, b: Address, m: u32) -> bool {
    a.0 < b.0 + 4 * m && b.0 < a.0 + 4 * n
}

/// A phase as the model sees it.
struct Model<'a> {
    phase: &'a Phase,
    /// The widths that each transfer may have.
    modes: Vec<Vec<Mode>>,
    /// Nodes of the search that are left.
    left: u32,
}

impl Model<'_> {
    fn new(phase: &Phase, width: Width) -> Model<'_> {
        let modes = |index: usize| {
            let transfer = phase.transfer(index);
            let widths: &[bool] = match width {
                _ if !eligible(&transfer) => &[false],
                Width::Ordinary => &[false],
                Width::Paired => &[true],
                Width::Automatic => &[false, true],
            };
            widths.iter().map(|wide| Mode::new(&transfer, *wide)).collect()
        };
        Model { phase, modes: (0..phase.len()).map(modes).collect(), left: 0 }
    }

    /// Whether the later of two transfers has to wait for the earlier (D1).
    fn waits(&self, one: usize, two: usize) -> bool {
        let (one, two) = (self.phase.transfer(one), self.phase.transfer(two));
        let writes = |from: &Transfer<'_>, to: &Transfer<'_>| {
            to.destinations.iter().any(|(tile, address)| {
                *tile == from.source && overlap(from.source_address, from.words, *address, to.words)
            })
        };
        writes(&one, &two) || writes(&two, &one)
    }

    /// Whether a control of a receiver may be left out next to another message.
    fn removable(&self, index: usize, end: &End, control: Control) -> bool {
        use Control as C;
        let other = |same: &dyn Fn(&Mode, &End) -> bool| {
            self.modes.iter().enumerate().filter(|(other, _)| *other != index).any(|(_, modes)| {
                modes.iter().any(|mode| mode.end_at(end.tile).is_some_and(|end| same(mode, end)))
            })
        };
        let source = self.modes[index][0].source;
        match control {
            C::Select | C::Release => other(&|mode, _| !mode.wide && mode.source == source),
            C::WideRelease | C::FormatOn | C::FormatOff => {
                other(&|mode, other| mode.wide && other.format == end.format)
            }
            C::Pointer | C::WideSelect | C::WidePointer => false,
        }
    }

    /// Whether two transfers may start so far from one another: every rule that a pair of them can
    /// break, but for controls that another message may remove.
    fn agree(&self, (i, one): (usize, &Mode), (j, two): (usize, &Mode), later: i32) -> bool {
        let shared_lane = one.lanes.iter().any(|lane| two.lanes.contains(lane));
        if shared_lane && !apart(0, one.busy, later, two.busy) {
            return false;
        }
        if i < j && self.waits(i, j) && later < two.natural + one.completion {
            return false;
        }
        if j < i && self.waits(i, j) && -later < one.natural + two.completion {
            return false;
        }
        for (sender, start, receiver, event) in
            [((i, one), 0, (j, two), later), ((j, two), later, (i, one), 0)]
        {
            let (sending, (index, receiving)) = (sender.1, receiver);
            let Some(end) = receiving.end_at(sending.source) else { continue };
            let hit = |(at, control): (i32, Control)| {
                let hit = event + at == start || event + at == start + 1;
                hit && !self.removable(index, end, control)
            };
            if receiving.controls(end).into_iter().any(hit) {
                return false;
            }
            let (from, to) = (self.phase.transfer(sender.0), self.phase.transfer(index));
            let written = event + end.pointer < start + sending.sent && start < event + end.horizon;
            let (words, other) = (from.words as i32, to.words as i32);
            if written && share(from.source_address, words, end.address, other) {
                return false;
            }
        }
        one.ends.iter().all(|end| {
            two.end_at(end.tile).is_none_or(|other| {
                let (mut first, mut second) = ((i, one, end, 0), (j, two, other, later));
                if first.2.window > second.2.window + later {
                    std::mem::swap(&mut first, &mut second);
                }
                self.follow(first, second)
            })
        })
    }

    /// Whether one tile may receive two messages one after the other.
    fn follow(
        &self,
        (i, one, end, start): (usize, &Mode, &End, i32),
        (j, two, other, later): (usize, &Mode, &End, i32),
    ) -> bool {
        let released = start + end.window + one.items <= later + other.window;
        let arrived = start + end.pointer + one.items;
        let pointed = arrived <= later + other.pointer;
        let formed = one.wide || !two.wide || arrived <= later + other.pointer - 2;
        let mut second = two.controls(other);
        second.retain(|(_, control)| !self.removable(j, other, *control));
        let meets = |(at, control): (i32, Control)| {
            !self.removable(i, end, control)
                && second
                    .iter()
                    .any(|(also, with)| start + at == later + also && clash(control, *with))
        };
        released && pointed && formed && !one.controls(end).into_iter().any(meets)
    }

    /// Whether the controls of all transfers, but for those that are left out next to another
    /// message, keep apart on every tile, and from the starts of its sends.
    fn controls_fit(&self, placed: &[(&Mode, i32)]) -> bool {
        (0..self.phase.tiles()).map(TileId).all(|tile| {
            let receive = |(mode, start): &(&Mode, i32)| {
                let (mode, start) = (mode.to_owned().clone(), *start);
                mode.end_at(tile).copied().map(|end| (start + end.window, start, mode, end))
            };
            let mut received: Vec<_> = placed.iter().filter_map(receive).collect();
            received.sort_by_key(|receive| receive.0);
            let mut controls = vec![];
            for (at, (window, start, mode, end)) in received.iter().enumerate() {
                let meets = |one: usize, two: usize| {
                    let (one, two) = (received.get(one)?, received.get(two)?);
                    let at_once = one.0 + one.2.items == two.0;
                    (at_once && one.2.wide == two.2.wide).then_some((one, two))
                };
                let same = |(one, two): (&Received, &Received)| {
                    if one.2.wide {
                        one.3.format == two.3.format
                    } else {
                        one.2.source == two.2.source
                    }
                };
                let before = at.checked_sub(1).and_then(|before| meets(before, at));
                let after = meets(at, at + 1);
                debug_assert_eq!(*window, start + end.window);
                for (event, control) in mode.controls(end) {
                    let left_out = match control {
                        Control::Select | Control::FormatOn => before.is_some_and(same),
                        Control::Release => after.is_some(),
                        Control::WideRelease | Control::FormatOff => after.is_some_and(same),
                        _ => false,
                    };
                    if !left_out {
                        controls.push((start + event, control));
                    }
                }
            }
            let apart = controls.iter().enumerate().all(|(at, (event, control))| {
                controls[..at].iter().all(|(other, with)| event != other || !clash(*control, *with))
            });
            let starts = placed.iter().filter(|(mode, _)| mode.source == tile).all(|(_, start)| {
                controls.iter().all(|(event, _)| event != start && *event != start + 1)
            });
            apart && starts
        })
    }
}

impl Model<'_> {
    /// The horizon of a schedule that breaks no rule.
    fn horizon(&self, starts: &[Start]) -> Option<u32> {
        let mode = |(modes, start): (&Vec<Mode>, &Start)| {
            let mode = modes.iter().find(|mode| mode.wide == start.paired)?.clone();
            Some((mode, start.event as i32))
        };
        let placed: Option<Vec<_>> = self.modes.iter().zip(starts).map(mode).collect();
        let placed = placed?;
        let placed: Vec<_> = placed.iter().map(|(mode, start)| (mode, *start)).collect();
        let agree = placed.iter().enumerate().all(|(i, one)| {
            placed[..i]
                .iter()
                .enumerate()
                .all(|(j, two)| self.agree((i, one.0), (j, two.0), two.1 - one.1))
        });
        let natural = placed.iter().all(|(mode, start)| *start >= mode.natural);
        let end = placed.iter().map(|(mode, start)| (start + mode.horizon) as u32).max()?;
        (agree && natural && self.controls_fit(&placed)).then_some(end)
    }
}

/// Most events of a schedule.
const MOST: usize = 1024;

/// A set of starts.
#[derive(Clone, Copy)]
struct Starts([u64; MOST / 64]);

impl Starts {
    fn range(first: i32, last: i32) -> Starts {
        let mut starts = Starts([0; MOST / 64]);
        (first..=last).for_each(|start| starts.0[start as usize / 64] |= 1 << (start % 64));
        starts
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn iter(self) -> impl DoubleEndedIterator<Item = i32> {
        (0..MOST as i32).filter(move |start| self.0[*start as usize / 64] >> (start % 64) & 1 != 0)
    }

    fn first(&self) -> Option<i32> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(64 * word as i32 + self.0[word].trailing_zeros() as i32)
    }

    fn last(&self) -> Option<i32> {
        let word = self.0.iter().rposition(|word| *word != 0)?;
        Some(64 * word as i32 + 63 - self.0[word].leading_zeros() as i32)
    }
}

/// The distances from one start at which another may be.
struct Distances(Vec<u64>);

impl Distances {
    /// Those that fit, of all that a schedule up to a horizon can have.
    fn new(horizon: u32, fits: impl Fn(i32) -> bool) -> Distances {
        let mut distances = vec![0_u64; 2 * MOST / 64 + 1];
        let (most, horizon) = (MOST as i32, horizon as i32);
        (-horizon..horizon).filter(|later| fits(*later)).for_each(|later| {
            let at = (later + most) as usize;
            distances[at / 64] |= 1 << (at % 64);
        });
        Distances(distances)
    }

    /// Of some starts, those that are so far from one.
    fn keep(&self, starts: &mut Starts, from: i32) {
        let at = MOST - from as usize;
        let (word, bit) = (at / 64, at % 64);
        for (index, starts) in starts.0.iter_mut().enumerate() {
            let low = self.0[word + index] >> bit;
            let high = if bit == 0 { 0 } else { self.0[word + index + 1] << (64 - bit) };
            *starts &= low | high;
        }
    }
}

/// What is left for a transfer: the starts of each of its widths.
type Left = Vec<Vec<Starts>>;

impl Model<'_> {
    /// The least horizon if it is below `found`, else `found`; none if that takes too many nodes.
    fn optimum(&mut self, found: u32) -> Option<u32> {
        self.left = 20_000;
        let fits: Vec<Vec<Vec<Vec<Distances>>>> = (0..self.modes.len())
            .map(|i| {
                let of = |one: &Mode, j: usize| {
                    let fits = |two: &Mode| {
                        Distances::new(found, |later| self.agree((i, one), (j, two), later))
                    };
                    self.modes[j].iter().map(fits).collect()
                };
                let all = |one: &Mode| (0..self.modes.len()).map(|j| of(one, j)).collect();
                self.modes[i].iter().map(all).collect()
            })
            .collect();
        let mut best = found as i32;
        loop {
            let left = |modes: &Vec<Mode>| {
                let starts = |mode: &Mode| Starts::range(mode.natural, best - 1 - mode.horizon);
                modes.iter().map(starts).collect()
            };
            let left: Left = self.modes.iter().map(left).collect();
            let mut placed = vec![None; self.modes.len()];
            match self.search(&fits, left, &mut placed)? {
                true => {
                    let end = |(modes, placed): (&Vec<Mode>, &Option<(usize, i32)>)| {
                        placed.map(|(mode, start)| start + modes[mode].horizon)
                    };
                    best = self.modes.iter().zip(&placed).filter_map(end).max().unwrap_or(0);
                }
                false => return Some(best as u32),
            }
        }
    }

    /// Whether the rest finds starts; none if that takes too many nodes.
    fn search(
        &mut self,
        fits: &[Vec<Vec<Vec<Distances>>>],
        left: Left,
        placed: &mut Vec<Option<(usize, i32)>>,
    ) -> Option<bool> {
        self.left = self.left.checked_sub(1)?;
        let open = (0..placed.len()).filter(|index| placed[*index].is_none());
        let count = |index: &usize| left[*index].iter().map(Starts::count).sum::<u32>();
        let Some(next) = open.min_by_key(count) else {
            let mode = |(modes, placed): (&Vec<Mode>, &Option<(usize, i32)>)| {
                placed.map(|(mode, start)| (modes[mode].clone(), start))
            };
            let all: Vec<_> = self.modes.iter().zip(placed.iter()).filter_map(mode).collect();
            let all: Vec<_> = all.iter().map(|(mode, start)| (mode, *start)).collect();
            return Some(self.controls_fit(&all));
        };
        if count(&next) == 0 || !self.lanes_suffice(&left) {
            return Some(false);
        }
        for mode in 0..self.modes[next].len() {
            for start in left[next][mode].iter() {
                let mut rest = left.clone();
                for (index, starts) in rest.iter_mut().enumerate() {
                    for (other, starts) in starts.iter_mut().enumerate() {
                        if index != next {
                            fits[next][mode][index][other].keep(starts, start);
                        } else {
                            *starts = Starts::range(start, if other == mode { start } else { -1 });
                        }
                    }
                }
                placed[next] = Some((mode, start));
                if self.search(fits, rest, placed)? {
                    return Some(true);
                }
                placed[next] = None;
            }
        }
        Some(false)
    }

    /// Whether no lane has more to pass in any time than fits into it.
    fn lanes_suffice(&self, left: &Left) -> bool {
        let tiles = PAIRS.iter().chain(&SINGLE).map(|tile| TileId(*tile));
        let tiles = tiles.flat_map(|tile| [tile, tile.partner()]);
        let lanes = tiles.flat_map(|tile| [(tile, false), (tile, true)]);
        lanes.into_iter().all(|(tile, receives)| {
            // Earliest start, latest end and length of each use of the lane.
            let used = |(modes, left): (&Vec<Mode>, &Vec<Starts>)| {
                let mut all: Option<(i32, i32, i32)> = None;
                for (mode, starts) in modes.iter().zip(left) {
                    let (Some(first), Some(last)) = (starts.first(), starts.last()) else {
                        continue;
                    };
                    let (from, length) = match receives {
                        true => (mode.end_at(tile)?.window, mode.items),
                        false if mode.lanes.contains(&tile) => (0, mode.busy),
                        false => return None,
                    };
                    let this = (first + from, last + from + length, length);
                    all = Some(all.map_or(this, |all| {
                        (all.0.min(this.0), all.1.max(this.1), all.2.min(this.2))
                    }));
                }
                all
            };
            let uses: Vec<_> = self.modes.iter().zip(left).filter_map(used).collect();
            uses.iter().all(|first| {
                uses.iter().all(|last| {
                    let inside = uses.iter().filter(|uses| uses.0 >= first.0 && uses.1 <= last.1);
                    let length: i32 = inside.map(|uses| uses.2).sum();
                    length == 0 || length <= last.1 - first.0
                })
            })
        })
    }
}

/// How many of some phases were solved, and what is known of these.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    solved: u32,
    /// Those whose schedule is as good.
    optimal: u32,
    /// Those whose schedule ends later by more than one part in twenty.
    far: u32,
    /// Those of more than six messages.
    large: u32,
    /// Those of them whose schedule is as good.
    large_optimal: u32,
    /// Those where a message waits, is 64-bit or comes home.
    special: u32,
}

/// Compares the schedules of some phases with the optimum, and prints how many reach it. The schedules break no rule of the model,
/// which therefore is not too strict, and no bound is above the optimum.
fn compare(kind: Kind, width: Width) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..300 {
        let phase = tiny(kind, seed);
        if phase.is_empty() {
            continue;
        }
        let options = Options { width, ..Options::default() };
        let found = schedule(&phase, &options).unwrap().schedule;
        let mut model = Model::new(&phase, width);
        assert_eq!(model.horizon(&found.starts), Some(found.horizon), "{kind:?}, seed {seed}");
        let Some(best) = model.optimum(found.horizon) else { continue };
        let bounds = Bounds::new(&phase);
        let bound = bounds.of_width(width);
        assert!(bound <= best, "{kind:?}, seed {seed}: bound {bound}, optimum {best}");
        let optimal = u32::from(found.horizon == best);
        let large = u32::from(phase.len() > 6);
        let waits = |j: usize| (0..j).any(|i| model.waits(i, j));
        let wide = model.modes.iter().flatten().any(|mode| mode.wide);
        tally.solved += 1;
        tally.optimal += optimal;
        tally.far += u32::from(20 * found.horizon > 21 * best);
        tally.large += large;
        tally.large_optimal += large * optimal;
        let home = (0..phase.len()).map(|i| phase.transfer(i));
        let home =
            home.filter(|t| t.destinations.iter().any(|(tile, _)| *tile == t.source)).count();
        tally.special += u32::from((0..phase.len()).any(waits) || wide || home > 0);
    }
    println!("{kind:?}, {width:?}: {tally:?}");
    tally
}

impl Tally {
    /// Whether at least so many of a hundred are optimal, and none is far from it.
    fn mostly_optimal(self, least: u32) -> bool {
        100 * self.optimal >= least * self.solved && self.far == 0
    }
}

#[test]
fn narrow_phases_are_scheduled_at_the_optimum() {
    let plain = compare(Kind::Plain, Width::Ordinary);
    assert!(plain.solved >= 280 && plain.large >= 50 && plain.special == 0, "{plain:?}");
    assert!(plain.mostly_optimal(100), "{plain:?}");
    let waiting = compare(Kind::Waiting, Width::Ordinary);
    assert!(waiting.solved >= 230 && waiting.large >= 40, "{waiting:?}");
    assert!(waiting.special >= 200, "{waiting:?}");
    assert!(waiting.mostly_optimal(100), "{waiting:?}");
    let home = compare(Kind::Home, Width::Ordinary);
    assert!(home.solved >= 250 && home.special >= 200, "{home:?}");
    assert!(home.mostly_optimal(98), "{home:?}");
}

#[test]
fn wide_phases_are_mostly_scheduled_at_the_optimum() {
    for width in [Width::Paired, Width::Automatic] {
        let wide = compare(Kind::Wide, width);
        assert!(wide.solved >= 250 && wide.special >= 240, "{width:?}: {wide:?}");
        assert!(wide.mostly_optimal(97), "{width:?}: {wide:?}");
    }
}

#[test]
fn wide_phases_that_wait_are_scheduled_at_the_optimum() {
    for width in [Width::Paired, Width::Automatic] {
        let wide = compare(Kind::WideWaiting, width);
        assert!(wide.solved >= 190 && wide.special >= 180, "{width:?}: {wide:?}");
        assert!(wide.mostly_optimal(99), "{width:?}: {wide:?}");
    }
}

#[test]
fn without_latency_schedules_are_checked_and_no_lane_is_used_twice() {
    for seed in 0..50 {
        let phase = tiny(Kind::Plain, seed);
        let found = n0::plan(&phase, &Options::default()).unwrap();
        assert_eq!(n0::check(&phase, &found.starts), Ok(found.horizon));
        assert!(found.bound <= found.horizon);
        let squeezed: Vec<u32> = found.starts.iter().map(|_| 0).collect();
        let crowded =
            found.horizon > (0..phase.len()).map(|i| phase.transfer(i).words).max().unwrap_or(0);
        assert!(!crowded || n0::check(&phase, &squeezed).is_err());
    }
}
