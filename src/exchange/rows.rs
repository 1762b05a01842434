//! From placed transfers to rows: the supervisor instructions of every tile (`target/ipu21.md`
//! §4.7).
//!
//! Two controls at one event need a two-word instruction at an even place. Where the place comes
//! out odd, the nearest instruction before it that can be split in two is split.

use crate::target::instruction::{BASE_WRITE, Encoded, MOVING_REGISTER, ZERO_REGISTER, special};
use crate::target::topology::{direction, paired_selector, paired_time};
use crate::target::{
    Bytes, Control, Instruction, NO_SOURCE, Pic, TileId, Xpic, route, time_to_mux,
};

use super::joins;
use super::phase::{Phase, Transfer};
use super::place::Start;

/// What is added to a tile's send addresses (`target/ipu21.md` §2.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Base {
    /// Nothing: addresses are absolute.
    #[default]
    Zero,
    /// The offset of the loop's iteration.
    Moving,
}

/// The exchange program of one tile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The tile.
    pub tile: TileId,
    /// Instruction words; the first lies at a multiple of 8 bytes, the last returns.
    pub words: Vec<u32>,
    /// Event at which the row ends.
    pub horizon: u32,
    /// What the base must hold when the row is entered.
    pub base: Base,
}

/// Something that no place in a row can be found for: two controls that would come to lie at an odd
/// word, or a write of the base that does not fit between two sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tile {tile}: there is no place in the row for what takes effect at event {event}")]
pub struct RowError {
    /// Where.
    pub tile: TileId,
    /// When.
    pub event: u32,
}

/// The row that only returns: `br m10`.
pub const RETURN: Instruction = Instruction::Br { register: 10 };

/// A send of one tile.
#[derive(Clone, Copy, Debug, Default)]
struct Send {
    start: u32,
    items: u32,
    /// Address in items.
    address: u32,
    sctl: u8,
    base: Base,
    /// Which transfer it is.
    transfer: u32,
    /// Goes on in the send before it.
    follows: bool,
}

/// Items of an ordinary message that ask for one more event at its receivers (§2.3): two messages do
/// not become one of these.
pub(super) const GUARDED: u32 = 52;

impl Send {
    /// Whether `next` goes on where and when this one ends.
    fn continues(&self, next: &Send) -> bool {
        (self.start + self.items, self.address + self.items) == (next.start, next.address)
            && (self.sctl, self.base) == (next.sctl, next.base)
            && self.items + next.items != GUARDED
    }
}

/// A receive of one tile.
#[derive(Clone, Copy, Debug, Default)]
struct Receive {
    /// Start of the source window.
    window: u32,
    items: u32,
    source: TileId,
    /// Byte address.
    address: u32,
    paired: bool,
}

/// What a tile does in a phase, in time order.
#[derive(Clone, Copy, Debug)]
struct Plan<'a> {
    tile: TileId,
    sends: &'a [Send],
    receives: &'a [Receive],
    horizon: u32,
}

/// Rows of all tiles that send, receive or lend a lane, ascending by tile. There is a start for every
/// transfer, late enough for its receivers to select it.
///
/// # Errors
/// All tiles whose rows have no encoding, as two of their controls or sends meet.
pub fn encode(phase: &Phase, starts: &[Start]) -> Result<Vec<Row>, Vec<RowError>> {
    let mut plans = Plans::new(phase, starts);
    let mut writer = Writer::default();
    let (mut rows, mut failed) = (vec![], vec![]);
    for tile in (0..phase.tiles()).map(TileId) {
        let Some(plan) = plans.of(tile) else { continue };
        match writer.shorter(&plan, phase) {
            Ok(()) => {
                let base = plan.sends.first().map(|send| send.base).unwrap_or_default();
                rows.push(Row { tile, words: writer.finish(), horizon: plan.horizon, base });
            }
            Err(error) => failed.push(error),
        }
    }
    if failed.is_empty() { Ok(rows) } else { Err(failed) }
}

/// Whether the rows of `tiles` can be encoded at any addresses: with a pointer for every receive,
/// whether or not it would continue the one before.
///
/// # Errors
/// All tiles whose rows have no encoding.
pub fn encodable(phase: &Phase, starts: &[Start], tiles: &[TileId]) -> Result<(), Vec<RowError>> {
    if tiles.is_empty() {
        return Ok(());
    }
    let mut plans = Plans::new(phase, starts);
    let mut writer = Writer::default();
    let plan = |tile: &TileId| plans.of(*tile).and_then(|plan| writer.write(&plan, None).err());
    let failed: Vec<RowError> = tiles.iter().filter_map(plan).collect();
    if failed.is_empty() { Ok(()) } else { Err(failed) }
}

/// Bytes of a phase's rows. The smaller comes first: a package keeps as much room on every tile as its
/// largest table takes, so the largest row counts before all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowBytes {
    /// Those of the largest row.
    pub largest: Bytes,
    /// Those of all rows.
    pub total: Bytes,
}

/// Bytes of the rows at the phase's addresses, as [`encode`] makes them, and the first tile whose row
/// is the largest; a row without an encoding counts nothing.
pub fn bytes(phase: &Phase, starts: &[Start]) -> (RowBytes, TileId) {
    let mut plans = Plans::new(phase, starts);
    let mut writer = Writer::default();
    let mut found = (RowBytes::default(), TileId(0));
    for tile in (0..phase.tiles()).map(TileId) {
        let Some(plan) = plans.of(tile) else { continue };
        if writer.shorter(&plan, phase).is_err() {
            continue;
        }
        // The last word returns; the next row begins at a multiple of 8 bytes.
        let bytes = Bytes((4 * (writer.words.len() as u32 + 1)).next_multiple_of(8));
        found.0.total += bytes;
        if bytes > found.0.largest {
            (found.0.largest, found.1) = (bytes, tile);
        }
    }
    found
}

/// What all tiles do in a phase.
struct Plans {
    /// By sender.
    sends: Vec<Send>,
    /// By receiver.
    receives: Vec<Receive>,
    /// Where a tile's sends and receives end.
    ends: Vec<(u32, u32)>,
    horizons: Vec<u32>,
    /// One tile's in time order.
    sorted: Sorted,
}

/// What one tile does in time order, kept for its memory.
#[derive(Default)]
struct Sorted {
    keys: Vec<u64>,
    sends: Vec<Send>,
    receives: Vec<Receive>,
}

/// Sorts by event. Events with places are sorted instead of what lies there: that is less to move, and
/// without a branch.
fn sort<T: Copy>(items: &[T], event: impl Fn(&T) -> u32, keys: &mut Vec<u64>, into: &mut Vec<T>) {
    keys.clear();
    keys.extend(items.iter().zip(0..).map(|(item, at)| u64::from(event(item)) << 32 | at));
    keys.sort_unstable();
    into.clear();
    into.extend(keys.iter().map(|key| items[*key as u32 as usize]));
}

impl Plans {
    fn new(phase: &Phase, starts: &[Start]) -> Plans {
        let tiles = usize::from(phase.tiles());
        let mut ends = vec![(0, 0); tiles];
        for index in 0..phase.len() {
            let transfer = phase.transfer(index);
            ends[usize::from(transfer.source.0)].0 += 1;
            transfer.destinations.iter().for_each(|(tile, _)| ends[usize::from(tile.0)].1 += 1);
        }
        // Where each tile's begin; filling moves them to the ends.
        let (mut sends, mut receives) = (0, 0);
        for end in &mut ends {
            let counts = std::mem::replace(end, (sends, receives));
            (sends, receives) = (sends + counts.0, receives + counts.1);
        }
        let mut plans = Plans {
            sends: vec![Send::default(); sends as usize],
            receives: vec![Receive::default(); receives as usize],
            ends,
            horizons: vec![0; tiles],
            sorted: Sorted::default(),
        };
        for (index, start) in starts.iter().enumerate() {
            plans.add(index as u32, &phase.transfer(index), *start);
        }
        plans
    }

    fn add(&mut self, index: u32, transfer: &Transfer<'_>, start: Start) {
        let source = transfer.source;
        let items = if start.paired { transfer.words / 2 } else { transfer.words };
        let end = (start.event + items).max(start.event.saturating_sub(start.natural) + 6);
        let at = &mut self.ends[usize::from(source.0)].0;
        self.sends[*at as usize] = Send {
            start: start.event,
            items,
            address: transfer.source_address.0 / if start.paired { 8 } else { 4 },
            sctl: sctl(transfer, start.paired),
            base: if transfer.moves() { Base::Moving } else { Base::Zero },
            transfer: index,
            follows: start.follows,
        };
        *at += 1;
        self.ends_at(source, end);
        if start.paired {
            self.ends_at(source.partner(), end);
        }
        for &(tile, address) in transfer.destinations {
            let time = if start.paired {
                paired_time(source, tile)
            } else {
                time_to_mux(source, tile) + 1
            };
            let window = start.event.wrapping_add_signed(time);
            let receive =
                Receive { window, items, source, address: address.0, paired: start.paired };
            self.ends_at(tile, receive.horizon(tile));
            let at = &mut self.ends[usize::from(tile.0)].1;
            self.receives[*at as usize] = receive;
            *at += 1;
        }
    }

    fn ends_at(&mut self, tile: TileId, event: u32) {
        let horizon = &mut self.horizons[usize::from(tile.0)];
        *horizon = event.max(*horizon);
    }

    /// What one tile does; `None` if nothing.
    fn of(&mut self, tile: TileId) -> Option<Plan<'_>> {
        let at = usize::from(tile.0);
        let horizon = self.horizons[at];
        let first = at.checked_sub(1).map_or((0, 0), |before| self.ends[before]);
        let end = self.ends[at];
        if horizon == 0 {
            return None;
        }
        let Sorted { keys, sends, receives } = &mut self.sorted;
        sort(&self.sends[first.0 as usize..end.0 as usize], |send| send.start, keys, sends);
        let received = &self.receives[first.1 as usize..end.1 as usize];
        sort(received, |receive| receive.window, keys, receives);
        Some(Plan { tile, sends, receives, horizon })
    }
}

/// Directions and width of a send (`target/ipu21.md` §1.3).
fn sctl(transfer: &Transfer<'_>, paired: bool) -> u8 {
    let (first, _) = transfer.destinations[0];
    let direction = direction(transfer.source, first) as u8;
    match (paired, transfer.destinations.len()) {
        (false, 1) => direction,
        (false, _) => 3,
        (true, 2) => direction | 4,
        (true, _) => 7,
    }
}

impl Receive {
    fn gap(tile: TileId) -> u32 {
        52 + 2 * tile.row()
    }

    /// End of the tile's row after this receive (`target/ipu21.md` §2.3, §3.2).
    fn horizon(&self, tile: TileId) -> u32 {
        let gap = Receive::gap(tile);
        if self.paired {
            return self.window + gap - 1 + self.items + 7;
        }
        let guard = if self.items == 52 { 6 } else { 5 };
        self.window + gap + self.items + guard
    }
}

/// One or two controls that take effect at one event.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    event: u32,
    pic: Option<Pic>,
    xpic: Option<Xpic>,
}

impl Receive {
    /// Whether `next` is 64-bit as this one is and follows at once in the same format: then neither the
    /// format nor the source is taken back in between (rule R6).
    fn runs_into(&self, next: &Receive, tile: TileId) -> bool {
        self.paired
            && next.paired
            && self.window + self.items == next.window
            && direction(self.source, tile) == direction(next.source, tile)
    }

    /// Selects and releases.
    fn sources(
        &self,
        tile: TileId,
        [before, after]: [Option<&Receive>; 2],
        controls: &mut Vec<(u32, Xpic)>,
    ) {
        let end = self.window + self.items;
        let select = |paired, source| Xpic { paired, source };
        if self.paired {
            if route(self.source, tile).destination_is_early {
                let selector = paired_selector(self.source, tile);
                controls.push((self.window, select(true, selector)));
                if after.is_none_or(|next| !self.runs_into(next, tile)) {
                    controls.push((end, select(true, NO_SOURCE)));
                }
            }
            return;
        }
        // The source before stays selected where this one follows at once.
        let selected = before.is_some_and(|last| {
            !last.paired && last.source == self.source && last.window + last.items == self.window
        });
        if !selected {
            controls.push((self.window, select(false, self.source.physical().0)));
        }
        // A direct cut-over needs no release (rule R4).
        if after.is_none_or(|next| next.paired || next.window != end) {
            controls.push((end, select(false, NO_SOURCE)));
        }
    }

    /// Pointers and formats; with `continuing`, pointers that continue are left out (rule R5).
    fn pics(
        &self,
        tile: TileId,
        [before, after]: [Option<&Receive>; 2],
        continuing: bool,
        controls: &mut Vec<(u32, Pic)>,
    ) {
        let arrival = self.window + Receive::gap(tile);
        let pointer = Pic { format: false, value: self.address / 4 };
        if self.paired {
            let format = |value| Pic { format: true, value };
            if before.is_none_or(|last| !last.runs_into(self, tile)) {
                controls.push((arrival - 1, format(direction(self.source, tile) as u32)));
            }
            controls.push((arrival + 1, pointer));
            if after.is_none_or(|next| !self.runs_into(next, tile)) {
                controls.push((arrival - 1 + self.items, format(0)));
            }
            return;
        }
        let continues = before
            .is_some_and(|last| !last.paired && last.address + 4 * last.items == self.address);
        if !(continuing && continues) {
            controls.push((arrival, pointer));
        }
    }
}

/// A row so far. One writer writes all rows of a phase, to keep its memory.
#[derive(Default)]
struct Writer {
    xpics: Vec<(u32, Xpic)>,
    pics: Vec<(u32, Pic)>,
    groups: Vec<Group>,
    sends: Vec<Send>,
    words: Vec<u32>,
    /// Events of all instructions so far.
    cursor: u32,
    /// Direction of the last send.
    sctl: u8,
    /// The last instruction that can be split in two and has no pair after it.
    splittable: Option<Splittable>,
}

/// An instruction that can be split in two.
struct Splittable {
    instruction: Instruction,
    /// Its first word.
    at: usize,
    /// Direction of the send that it is or continues.
    sctl: u8,
}

/// Longest plain delay, and delays before a pointer and a source control (§2.4).
const LONGEST_DELAY: u32 = 1 << 19;
const LONGEST_PIC: u32 = 128;
const LONGEST_XPIC: u32 = 4096;
/// Most items of a first, a continued and a controlled send (§2.4).
const FIRST_ITEMS: u32 = 64;
const MORE_ITEMS: u32 = 4096;

impl Writer {
    /// Writes the row that these addresses allow, or else the longer one that fits all addresses: that
    /// one is known to have an encoding.
    fn shorter(&mut self, plan: &Plan<'_>, phase: &Phase) -> Result<(), RowError> {
        self.write(plan, Some(phase)).or_else(|_| self.write(plan, None))
    }

    /// Begins anew with a tile's row; knowing the phase's addresses, pointers that continue are left out
    /// (rule R5), and messages that continue one another become one.
    fn write(&mut self, plan: &Plan<'_>, phase: Option<&Phase>) -> Result<(), RowError> {
        self.words.clear();
        (self.cursor, self.sctl, self.splittable) = (0, 0, None);
        self.group(plan, phase.is_some());
        self.join(plan.sends, phase);
        let groups = std::mem::take(&mut self.groups);
        let sends = std::mem::take(&mut self.sends);
        let written = self.sends_and_gaps(&Plan { sends: &sends, ..*plan }, &groups);
        (self.groups, self.sends) = (groups, sends);
        written.map_err(|event| RowError { tile: plan.tile, event })
    }

    /// Sends that go on in the one before it are part of it. So are others that happen to, where the
    /// schedule has none by itself: those are of no certain length.
    fn join(&mut self, sends: &[Send], phase: Option<&Phase>) {
        let phase = phase.filter(|_| !sends.iter().any(|send| send.follows));
        self.sends.clear();
        for send in sends {
            let last = self.sends.last_mut().filter(|last| {
                let admits = |phase| joins::admit(phase, last.transfer, send.transfer);
                send.follows || (last.continues(send) && phase.is_some_and(admits))
            });
            match last {
                Some(last) => last.items += send.items,
                None => self.sends.push(*send),
            }
        }
    }

    fn sends_and_gaps(&mut self, plan: &Plan<'_>, groups: &[Group]) -> Result<(), u32> {
        let mut next = 0;
        let until = |next: usize, event: u32| {
            let before = groups[next..].iter().take_while(|group| group.event <= event);
            next + before.count()
        };
        let mut base = plan.sends.first().map(|send| send.base).unwrap_or_default();
        for send in plan.sends {
            let start = until(next, send.start);
            if std::mem::replace(&mut base, send.base) == send.base {
                self.gap(&groups[next..start], send.start)?;
            } else {
                let before = base_written(&groups[next..start], send.start);
                let written = until(next, before);
                let begin = before.checked_sub(BASE_WRITE).ok_or(send.start)?;
                self.gap(&groups[next..written], begin)?;
                self.write_base(base, before)?;
                self.gap(&groups[written..start], send.start)?;
            }
            next = until(start, send.start + send.items);
            self.send(send, &groups[start..next])?;
        }
        self.gap(&groups[next..], plan.horizon)
    }

    /// All controls, grouped by event.
    fn group(&mut self, plan: &Plan<'_>, continuing: bool) {
        self.xpics.clear();
        self.pics.clear();
        for (index, receive) in plan.receives.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| &plan.receives[before]);
            let beside = [before, plan.receives.get(index + 1)];
            receive.sources(plan.tile, beside, &mut self.xpics);
            receive.pics(plan.tile, beside, continuing, &mut self.pics);
        }
        // Sorted already but for 64-bit messages.
        self.xpics.sort_by_key(|xpic| xpic.0);
        self.pics.sort_by_key(|pic| pic.0);
        self.groups.clear();
        let (mut xpics, mut pics) = (self.xpics.iter().peekable(), self.pics.iter().peekable());
        while let Some(event) =
            xpics.peek().into_iter().map(|xpic| xpic.0).chain(pics.peek().map(|pic| pic.0)).min()
        {
            let xpic = xpics.next_if(|xpic| xpic.0 == event).map(|xpic| xpic.1);
            let pic = pics.next_if(|pic| pic.0 == event).map(|pic| pic.1);
            self.groups.push(Group { event, pic, xpic });
        }
    }

    // Where it is used the kind of instruction is known, so that little of this is left.
    #[inline(always)]
    fn push(&mut self, instruction: Instruction) {
        use Instruction as I;
        if let I::Send { sctl, .. } | I::SendOff { sctl, .. } | I::SendPicp { sctl, .. } =
            instruction
        {
            self.sctl = sctl;
        }
        let events = instruction.events().unwrap_or(0);
        if events >= 2 && !matches!(instruction, I::Put { .. }) {
            let (at, sctl) = (self.words.len(), self.sctl);
            self.splittable = Some(Splittable { instruction, at, sctl });
        } else if matches!(instruction, I::SendPicp { .. }) {
            self.splittable = None;
        }
        self.cursor += events;
        encoded(instruction).as_slice().iter().for_each(|word| self.words.push(*word));
    }

    /// A two-control instruction: makes sure that it lies at an even word.
    fn push_pair(&mut self, instruction: Instruction, event: u32) -> Result<(), u32> {
        if !self.words.len().is_multiple_of(2) {
            let Splittable { instruction, at, sctl } = self.splittable.take().ok_or(event)?;
            let (first, rest) = split(instruction, sctl);
            let (first, rest) = (encoded(first), encoded(rest));
            let end = at + first.as_slice().len();
            self.words[at..end].copy_from_slice(first.as_slice());
            self.words.splice(end..end, rest.as_slice().iter().copied());
        }
        // Whatever stands before the pair must keep its place from now on.
        self.splittable = None;
        self.push(instruction);
        Ok(())
    }

    /// A write of the base that ends at `event`.
    fn write_base(&mut self, base: Base, event: u32) -> Result<(), u32> {
        if self.cursor + BASE_WRITE != event {
            return Err(event);
        }
        let register = match base {
            Base::Zero => ZERO_REGISTER,
            Base::Moving => MOVING_REGISTER,
        };
        self.push(Instruction::Put { register, special: special::OUTGOING_BASE });
        Ok(())
    }

    fn delay_to(&mut self, event: u32) {
        while self.cursor < event {
            let events = (event - self.cursor).min(LONGEST_DELAY);
            self.push(Instruction::Delay { events });
        }
    }

    /// Controls between sends, then whatever is left up to `boundary`.
    fn gap(&mut self, groups: &[Group], boundary: u32) -> Result<(), u32> {
        for (index, group) in groups.iter().enumerate() {
            let event = group.event;
            if event <= self.cursor {
                return Err(event);
            }
            let next = groups.get(index + 1).map_or(boundary, |next| next.event.saturating_sub(1));
            match (group.pic, group.xpic) {
                (Some(pic), Some(xpic)) => {
                    self.delay_to(event - 1);
                    let items = next.saturating_sub(event - 1).clamp(1, FIRST_ITEMS);
                    self.push_pair(
                        Instruction::SendPicp { items, address: 0, sctl: 0, pic, xpic },
                        event,
                    )?;
                }
                (Some(pic), None) => {
                    self.delay_to((event.saturating_sub(LONGEST_PIC)).max(self.cursor));
                    self.push(Instruction::DelayPic { events: event - self.cursor, pic });
                }
                (None, Some(xpic)) => {
                    self.delay_to((event.saturating_sub(LONGEST_XPIC)).max(self.cursor));
                    self.push(Instruction::DelayXpic { events: event - self.cursor, xpic });
                }
                (None, None) => {}
            }
        }
        self.delay_to(boundary);
        if self.cursor == boundary { Ok(()) } else { Err(boundary) }
    }

    /// Sends up to `event` without controls.
    fn send_to(&mut self, send: &Send, event: u32) {
        if self.cursor == send.start && event > send.start {
            let items = (event - self.cursor).min(FIRST_ITEMS);
            self.push(Instruction::Send { items, address: send.address, sctl: send.sctl });
        }
        while self.cursor < event {
            let items = (event - self.cursor).min(MORE_ITEMS);
            self.push(Instruction::SendOff { items, delta: 0, sctl: send.sctl });
        }
    }

    /// A send with the controls that take effect inside it.
    fn send(&mut self, send: &Send, groups: &[Group]) -> Result<(), u32> {
        let end = send.start + send.items;
        for (index, group) in groups.iter().enumerate() {
            self.send_to(send, group.event.saturating_sub(1));
            if self.cursor + 1 != group.event {
                return Err(group.event);
            }
            let next = groups.get(index + 1).map_or(end, |next| next.event.saturating_sub(1));
            let items = next.min(end).saturating_sub(self.cursor).clamp(1, FIRST_ITEMS);
            match (group.pic, group.xpic) {
                (Some(pic), Some(xpic)) => {
                    let (address, sctl) = (send.address + self.cursor - send.start, send.sctl);
                    let pair = Instruction::SendPicp { items, address, sctl, pic, xpic };
                    self.push_pair(pair, group.event)?;
                }
                (Some(pic), None) => {
                    self.push(Instruction::SendPic { items, control: Control::Pic(pic) });
                }
                (None, Some(xpic)) => {
                    self.push(Instruction::SendPic { items, control: Control::Xpic(xpic) });
                }
                (None, None) => {}
            }
        }
        self.send_to(send, end);
        Ok(())
    }

    fn finish(&mut self) -> Vec<u32> {
        self.push(RETURN);
        self.words.clone()
    }
}

/// The last event up to `start` at which a write of the base can end: no control takes effect during
/// it.
fn base_written(groups: &[Group], start: u32) -> u32 {
    groups.iter().rev().fold(start, |end, group| {
        let during = group.event + BASE_WRITE > end;
        if during { group.event.saturating_sub(1) } else { end }
    })
}

#[inline(always)]
fn encoded(instruction: Instruction) -> Encoded {
    instruction.encode().expect("every field was kept inside its range")
}

/// The same events in two instructions; the instruction has at least two. A controlled send does
/// not carry the direction that its second half needs: `sctl`.
fn split(instruction: Instruction, sctl: u8) -> (Instruction, Instruction) {
    use Instruction as I;
    match instruction {
        I::Delay { events } => (I::Delay { events: 1 }, I::Delay { events: events - 1 }),
        I::DelayPic { events, pic } => {
            (I::Delay { events: events - 1 }, I::DelayPic { events: 1, pic })
        }
        I::DelayXpic { events, xpic } => {
            (I::Delay { events: events - 1 }, I::DelayXpic { events: 1, xpic })
        }
        I::Send { items, address, sctl } => {
            (I::Send { items: 1, address, sctl }, I::SendOff { items: items - 1, delta: 0, sctl })
        }
        I::SendPic { items, control } => {
            (I::SendPic { items: 1, control }, I::SendOff { items: items - 1, delta: 0, sctl })
        }
        I::SendOff { items, delta, sctl } => {
            (I::SendOff { items: 1, delta, sctl }, I::SendOff { items: items - 1, delta: 0, sctl })
        }
        I::SendPicp { items, address, sctl: 0, pic, xpic } => {
            (I::SendPicp { items: 1, address, sctl: 0, pic, xpic }, I::Delay { events: items - 1 })
        }
        I::SendPicp { items, address, sctl, pic, xpic } => (
            I::SendPicp { items: 1, address, sctl, pic, xpic },
            I::SendOff { items: items - 1, delta: 0, sctl },
        ),
        other => unreachable!("{other:?} has no events to split"),
    }
}
