//! Rows written by hand against the checker of phases: for every rule one phase that obeys it and
//! the same phase with one event, field or control changed. None of these needs a scheduler.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use ipu_tune::check::{TileRow, Violation, Violations, Wanted, phase};
use ipu_tune::target::topology::{paired_selector, paired_time};
use ipu_tune::target::{Instruction, NO_SOURCE, Pic, TileId, Xpic, route};

/// Where rows lie: an element without data.
const ROWS: u32 = 0x4c000;
/// Where words are read and written: different elements.
const FROM: u32 = 0x60000;
const TO: u32 = 0x90000;
/// Tiles of every phase: all that have a natural start of 0 in the reference's examples.
const TILES: u16 = 740;
/// A sender whose way to [`FAR`] takes so long that it could start at event 0, and its partner.
const SENDER: TileId = TileId(736);
/// A receiver of [`SENDER`], and its partner.
const FAR: TileId = TileId(100);
const END: Instruction = Instruction::Br { register: 10 };

fn delay(events: u32) -> Instruction {
    Instruction::Delay { events }
}

fn select(events: u32, paired: bool, source: u16) -> Instruction {
    Instruction::DelayXpic { events, xpic: Xpic { paired, source } }
}

fn pic(events: u32, format: bool, value: u32) -> Instruction {
    Instruction::DelayPic { events, pic: Pic { format, value } }
}

fn sctl(from: TileId, to: TileId) -> u8 {
    route(from, to).direction as u8
}

/// `items` from `start` on, in one instruction.
fn send(start: u32, items: u32, sctl: u8) -> Vec<Instruction> {
    let bytes = if sctl & 4 == 0 { 4 } else { 8 };
    vec![delay(start), Instruction::Send { items, address: FROM / bytes, sctl }, delay(8), END]
}

/// The receiver's side of an ordinary message of fewer than 52 words.
fn receive(source: TileId, tile: TileId, start: u32, items: u32, to: u32) -> Vec<Instruction> {
    let window = (start as i32 + route(source, tile).time_to_mux + 1) as u32;
    vec![
        select(window, false, source.physical().0),
        select(items, false, NO_SOURCE),
        pic(52 + 2 * tile.row() - items, false, to / 4),
        delay(items + 5),
        END,
    ]
}

fn wanted(source: TileId, tile: TileId, words: u32) -> Wanted {
    Wanted { tile, to: TO, words, source, from: FROM }
}

type Rows = Vec<(TileId, Vec<Instruction>)>;

fn check(rows: &Rows, wanted: &[Wanted]) -> Result<u32, Violations> {
    check_on(TILES, rows, wanted)
}

fn check_on(tiles: u16, rows: &Rows, wanted: &[Wanted]) -> Result<u32, Violations> {
    let words = |row: &[Instruction]| -> Vec<u32> {
        row.iter().flat_map(|i| i.encode().unwrap().as_slice().to_vec()).collect()
    };
    let words: Vec<(TileId, Vec<u32>)> =
        rows.iter().map(|(tile, row)| (*tile, words(row))).collect();
    let rows: Vec<TileRow<'_>> =
        words.iter().map(|(tile, words)| TileRow { tile: *tile, address: ROWS, words }).collect();
    phase(tiles, &rows, wanted).map(|report| report.get().horizon)
}

fn accepted(rows: &Rows, wanted: &[Wanted]) {
    let found = check(rows, wanted);
    assert!(found.is_ok(), "{:?}", found.unwrap_err().list());
}

/// Refused for this reason and no other.
fn refused(rows: &Rows, wanted: &[Wanted], kind: &str) {
    let found = check(rows, wanted).expect_err(kind);
    assert!(found.list().iter().all(|v| v.kind() == kind), "{kind}: {:?}", found.list());
}

/// One ordinary message of `items` words.
fn one(items: u32) -> (Rows, [Wanted; 1]) {
    let rows = vec![
        (SENDER, send(100, items, sctl(SENDER, FAR))),
        (FAR, receive(SENDER, FAR, 100, items, TO)),
    ];
    (rows, [wanted(SENDER, FAR, items)])
}

/// One paired message of `items` items to a pair, and the event at which it is written.
fn paired(items: u32) -> (Rows, [Wanted; 2], u32) {
    let time = paired_time(SENDER, FAR);
    let window = (100 + time) as u32;
    let format = window + 51 + 2 * FAR.row();
    let row = |tile: TileId| {
        let way = route(SENDER, tile);
        let mut row = vec![];
        let mut now = 0;
        if way.destination_is_early {
            row.push(select(window, true, paired_selector(SENDER, tile)));
            row.push(select(items, true, NO_SOURCE));
            now = window + items;
        }
        let gap = format - now;
        row.extend((gap > 100).then(|| delay(gap - 100)));
        row.push(pic(gap.min(100), true, way.direction as u32));
        row.push(pic(2, false, TO / 4));
        row.push(pic(items - 2, true, 0));
        row.push(delay(7));
        row.push(END);
        row
    };
    let partner = FAR.partner();
    let rows = vec![
        (SENDER, send(100, items, sctl(SENDER, FAR) | 4)),
        (SENDER.partner(), vec![delay(200), END]),
        (FAR, row(FAR)),
        (partner, row(partner)),
    ];
    let wanted = [wanted(SENDER, FAR, 2 * items), wanted(SENDER, partner, 2 * items)];
    (rows, wanted, format + 2)
}

#[test]
fn rows_by_the_book_are_accepted() {
    let (rows, wanted) = one(20);
    accepted(&rows, &wanted);
    let (rows, wanted, _) = paired(20);
    accepted(&rows, &wanted);
}

#[test]
fn what_a_row_leaves_behind_is_named() {
    let (mut rows, wanted) = one(20);
    rows[1].1[1] = delay(20);
    refused(&rows, &wanted, "left-behind");
    // Late is not behind, but longer than anything is heard.
    let (mut rows, wanted) = one(20);
    rows[1].1.splice(1..2, [delay(20)]);
    rows[1].1.insert(4, select(1, false, NO_SOURCE));
    refused(&rows, &wanted, "nothing-heard");
    let (rows, wanted, _) = paired(20);
    for tile in [2, 3] {
        let mut rows = rows.clone();
        let row = &mut rows[tile].1;
        let last = row.len() - 3;
        assert_eq!(row[last], pic(18, true, 0));
        row[last] = delay(18);
        refused(&rows, &wanted, "left-behind");
    }
    let early = if route(SENDER, FAR).destination_is_early { 2 } else { 3 };
    let mut rows = rows;
    rows[early].1[1] = delay(20);
    refused(&rows, &wanted, "left-behind");
}

#[test]
fn the_format_waits_for_the_last_ordinary_word() {
    let (rows, wanted) = one(20);
    let with = |event: u32| {
        let mut rows = rows.clone();
        let row = &mut rows[1].1;
        let end = row.len() - 2;
        row.splice(end..=end, [pic(event, true, 1), pic(3, true, 0), delay(25)]);
        rows
    };
    let written = 100 + route(SENDER, FAR).write_latency;
    let late = |event| {
        let found = check(&with(event), &wanted).expect_err("a format that nothing arrives in");
        found.list().contains(&Violation::Format { tile: FAR, event: written })
    };
    assert!(late(19), "while the last word is written");
    assert!(!late(20), "after it");
}

/// What a row does, at which event, in time order.
enum Timed {
    Select(bool, u16),
    Pic(bool, u32),
}

fn timed(controls: &[(u32, Timed)], end: u32) -> Vec<Instruction> {
    let (mut row, mut now) = (vec![], 0);
    for (event, control) in controls {
        row.extend((event - now > 1).then(|| delay(event - now - 1)));
        row.push(match control {
            Timed::Select(paired, source) => select(1, *paired, *source),
            Timed::Pic(format, value) => pic(1, *format, *value),
        });
        now = *event;
    }
    row.extend([delay(end - now), END]);
    row
}

#[test]
fn another_format_is_set_only_after_the_first_is_taken_back() {
    const ITEMS: u32 = 20;
    let other = TileId(4);
    let [first, second] = [SENDER, other].map(|source| route(source, FAR).direction as u32);
    assert_ne!(first, second);
    let window = (200 + paired_time(SENDER, FAR)) as u32;
    let with = |gap: u32, taken_back: bool| {
        let next = window + ITEMS + gap;
        let member = |tile: TileId| {
            let format = |window: u32| window + 51 + 2 * tile.row();
            let mut controls = vec![
                (format(window), Timed::Pic(true, first)),
                (format(window) + 2, Timed::Pic(false, TO / 4)),
                (format(next), Timed::Pic(true, second)),
                (format(next) + 2, Timed::Pic(false, TO / 4 + 100)),
                (format(next) + ITEMS, Timed::Pic(true, 0)),
            ];
            if taken_back {
                controls.push((format(window) + ITEMS, Timed::Pic(true, 0)));
            }
            for (source, window) in [(SENDER, window), (other, next)] {
                if route(source, tile).destination_is_early {
                    let selector = paired_selector(source, tile);
                    controls.push((window, Timed::Select(true, selector)));
                    controls.push((window + ITEMS, Timed::Select(true, NO_SOURCE)));
                }
            }
            controls.sort_by_key(|control| control.0);
            timed(&controls, format(next) + ITEMS + 7)
        };
        let start = (next as i32 - paired_time(other, FAR)) as u32;
        let lend = |until: u32| vec![delay(until), END];
        let rows = vec![
            (SENDER, send(200, ITEMS, sctl(SENDER, FAR) | 4)),
            (SENDER.partner(), lend(228)),
            (other, send(start, ITEMS, sctl(other, FAR) | 4)),
            (other.partner(), lend(start + 28)),
            (FAR, member(FAR)),
            (FAR.partner(), member(FAR.partner())),
        ];
        let both = [FAR, FAR.partner()];
        let to = |to: u32| move |wanted: Wanted| Wanted { to, ..wanted };
        let a = both.map(|tile| wanted(SENDER, tile, 2 * ITEMS));
        let b = both.map(|tile| wanted(other, tile, 2 * ITEMS)).map(to(TO + 400));
        (rows, [a, b].concat())
    };
    let (rows, wanted) = with(1, true);
    accepted(&rows, &wanted);
    let (rows, wanted) = with(0, false);
    refused(&rows, &wanted, "format");
}

#[test]
fn a_wide_message_needs_whole_pairs() {
    let (mut rows, wanted, _) = paired(20);
    rows.remove(1);
    // The sender is the last tile of an odd number of tiles.
    let found = check_on(SENDER.0 + 1, &rows, &wanted).expect_err("half a pair");
    let half = |violation: &Violation| {
        matches!(violation, Violation::HalfPair { tile: SENDER, half: SENDER, .. })
    };
    assert!(found.list().iter().all(half), "{:?}", found.list());
}

#[test]
fn a_wide_pointer_has_its_event_to_itself() {
    let late = if route(SENDER, FAR).destination_is_early { 3 } else { 2 };
    let with = |source: Option<u16>| {
        let (mut rows, wanted, _) = paired(20);
        let row = &mut rows[late].1;
        let at = row.iter().position(|i| *i == pic(2, false, TO / 4)).unwrap();
        let pointer = Pic { format: false, value: TO / 4 };
        let xpic = source.map(|source| Xpic { paired: false, source });
        let both =
            |xpic| Instruction::SendPicp { items: 1, address: 0, sctl: 0, pic: pointer, xpic };
        row.splice(at..=at, [delay(1), xpic.map_or(pic(1, false, TO / 4), both)]);
        // Two controls lie at an even word.
        let odd =
            row[..=at].iter().map(|i| i.encode().unwrap().as_slice().len()).sum::<usize>() % 2;
        if odd == 1 {
            let Instruction::Delay { events } = row[0] else { unreachable!() };
            row.splice(0..1, [delay(1), delay(events - 1)]);
        }
        (rows, wanted)
    };
    let (rows, wanted) = with(None);
    accepted(&rows, &wanted);
    let (rows, wanted) = with(Some(NO_SOURCE));
    refused(&rows, &wanted, "controls-meet");
}

#[test]
fn a_source_that_sends_nothing_is_not_selected() {
    let (mut rows, wanted) = one(20);
    let row = &mut rows[1].1;
    let Instruction::DelayPic { events, pic: pointer } = row[2] else { unreachable!() };
    row.splice(
        2..=2,
        [select(1, false, 8), select(1, false, NO_SOURCE), pic(events - 2, false, pointer.value)],
    );
    refused(&rows, &wanted, "nothing-heard");
}

#[test]
fn two_items_at_one_event_are_named() {
    // An ordinary message from elsewhere arrives while the paired one is written.
    let (mut rows, wanted, written) = paired(20);
    let other = TileId(4);
    let late = if route(SENDER, FAR.partner()).destination_is_early { FAR } else { FAR.partner() };
    let start = written + 5 - route(other, late).write_latency;
    rows.push((other, send(start, 4, sctl(other, late))));
    let index = if late == FAR { 2 } else { 3 };
    let window = (start as i32 + route(other, late).time_to_mux + 1) as u32;
    // The row selects the other source before its own format control.
    let row = &mut rows[index].1;
    let at = row.iter().position(|i| matches!(i, Instruction::Delay { .. })).unwrap();
    let before: u32 = row[..at].iter().map(|i| i.events().unwrap()).sum();
    let Instruction::Delay { events } = row[at] else { unreachable!() };
    assert!(window > before && window + 4 <= before + events + 100, "{window} {before} {events}");
    let Instruction::DelayPic { pic: format, .. } = row[at + 1] else { unreachable!() };
    let rest = before + events + 100 - window - 4;
    row.splice(
        at..=at + 1,
        [
            select(window - before, false, other.physical().0),
            select(4, false, NO_SOURCE),
            pic(rest, format.format, format.value),
        ],
    );
    assert!(check(&rows, &wanted).unwrap_err().has("items-meet"));
}

#[test]
fn a_message_does_not_begin_with_two_controls() {
    // Tile SENDER sends again from within a two-control instruction, with nothing running.
    let (mut rows, wanted) = one(20);
    rows[0].1 = vec![
        delay(50),
        delay(50),
        Instruction::SendPicp {
            items: 20,
            address: FROM / 4,
            sctl: sctl(SENDER, FAR),
            pic: Pic { format: false, value: TO / 4 },
            xpic: Xpic { paired: false, source: NO_SOURCE },
        },
        delay(8),
        END,
    ];
    assert!(check(&rows, &wanted).unwrap_err().has("control-at-start"));
    // In the middle of a message it changes nothing.
    rows[0].1.splice(
        1..2,
        [delay(40), Instruction::Send { items: 10, address: FROM / 4, sctl: sctl(SENDER, FAR) }],
    );
    let Instruction::SendPicp { items, address, .. } = &mut rows[0].1[3] else { unreachable!() };
    (*items, *address) = (10, FROM / 4 + 10);
    rows[0].1.insert(1, delay(10));
    let found = check(&rows, &wanted).unwrap_err();
    assert!(!found.has("control-at-start"), "{:?}", found.list());
}

#[test]
fn a_running_message_keeps_its_directions() {
    let (mut rows, wanted) = one(20);
    let direction = sctl(SENDER, FAR);
    let continued = |sctl| {
        vec![
            delay(100),
            Instruction::Send { items: 10, address: FROM / 4, sctl: direction },
            Instruction::SendOff { items: 10, delta: 0, sctl },
            delay(8),
            END,
        ]
    };
    rows[0].1 = continued(direction);
    accepted(&rows, &wanted);
    rows[0].1 = continued(3);
    assert!(check(&rows, &wanted).unwrap_err().has("instruction"));
    rows[0].1 = continued(0);
    assert!(check(&rows, &wanted).unwrap_err().has("instruction"));
}

#[test]
fn directions_are_exactly_those_of_the_receivers() {
    let (mut rows, wanted) = one(20);
    rows[0].1 = send(100, 20, 3);
    refused(&rows, &wanted, "direction");
    let (mut rows, wanted, _) = paired(20);
    rows[0].1 = send(100, 20, 7);
    refused(&rows, &wanted, "direction");
}

#[test]
fn fifty_two_words_need_one_more_event() {
    for (items, guard) in [(51, 5), (52, 6), (53, 5)] {
        let window = (100 + route(SENDER, FAR).time_to_mux + 1) as u32;
        let row = |guard| {
            vec![
                select(window, false, SENDER.physical().0),
                select(items, false, NO_SOURCE),
                pic(52 + 2 * FAR.row() - items, false, TO / 4),
                delay(items + guard),
                END,
            ]
        };
        let (mut rows, wanted) = one(20);
        let wanted = wanted.map(|wanted| Wanted { words: items, ..wanted });
        rows[0].1 = send(100, items, sctl(SENDER, FAR));
        rows[1].1 = row(guard);
        accepted(&rows, &wanted);
        rows[1].1 = row(guard - 1);
        refused(&rows, &wanted, "short-row");
    }
}

#[test]
fn a_short_send_keeps_its_memory_and_lane_for_six_events() {
    // One word leaves at 200; the sender's natural start is 0, so it is busy until 206.
    let other = TileId(738);
    let busy = |written: u32| -> (Rows, [Wanted; 2]) {
        let start = written - route(other, SENDER).write_latency;
        let mut row = receive(other, SENDER, start, 1, FROM + 64);
        let window: u32 = row[..1].iter().map(|i| i.events().unwrap()).sum();
        let pointer = window + 52 + 2 * SENDER.row();
        assert_eq!(pointer, written);
        // The send at 200 splits the gap between release and pointer, or the one after it.
        let word = Instruction::Send { items: 1, address: FROM / 4, sctl: sctl(SENDER, FAR) };
        let value = (FROM + 64) / 4;
        row.splice(
            2..,
            [delay(200 - window - 1), word, pic(written - 201, false, value), delay(6), END],
        );
        let rows = vec![
            (SENDER, row),
            (other, send(start, 1, sctl(other, SENDER))),
            (FAR, receive(SENDER, FAR, 200, 1, TO)),
        ];
        let own = Wanted { tile: SENDER, to: FROM + 64, words: 1, source: other, from: FROM };
        (rows, [wanted(SENDER, FAR, 1), own])
    };
    let (rows, wanted) = busy(204);
    refused(&rows, &wanted, "element-conflict");
    let (rows, wanted) = busy(206);
    accepted(&rows, &wanted);
}

#[test]
fn a_borrowed_lane_is_busy_for_six_events() {
    let target = TileId(102);
    let with = |start: u32| {
        let (mut rows, wanted, _) = paired(3);
        let partner = SENDER.partner();
        rows[1].1 = send(start, 1, sctl(partner, target));
        rows.push((target, receive(partner, target, start, 1, TO)));
        let mut all = wanted.to_vec();
        all.push(Wanted { tile: target, to: TO, words: 1, source: partner, from: FROM });
        (rows, all)
    };
    let (rows, wanted) = with(104);
    refused(&rows, &wanted, "lane-taken");
    let (rows, wanted) = with(106);
    accepted(&rows, &wanted);
}

#[test]
fn nobody_sends_to_itself_alone() {
    let way = route(SENDER, SENDER);
    let (start, items) = (100, 4);
    let window = (start as i32 + way.time_to_mux + 1) as u32;
    assert!(window + items < start, "the select comes first");
    let row = vec![
        select(window, false, SENDER.physical().0),
        select(items, false, NO_SOURCE),
        delay(start - window - items),
        Instruction::Send { items, address: FROM / 4, sctl: way.direction as u8 },
        pic(window + 52 + 2 * SENDER.row() - start - items, false, TO / 4),
        delay(items + 5),
        END,
    ];
    refused(&vec![(SENDER, row)], &[wanted(SENDER, SENDER, items)], "loopback");
}

#[test]
fn a_pointer_is_set_for_something() {
    let (mut rows, wanted) = one(20);
    let end = rows[1].1.len() - 2;
    rows[1].1.splice(end..=end, [pic(22, false, TO / 4), delay(3)]);
    refused(&rows, &wanted, "idle-pointer");
}

#[test]
fn a_message_is_heard_to_its_end() {
    let (mut rows, wanted) = one(20);
    rows[0].1 = send(100, 21, sctl(SENDER, FAR));
    refused(&rows, &wanted, "unheard");
    rows.push((TileId(8), send(10, 1, 1)));
    rows[0].1 = send(100, 20, sctl(SENDER, FAR));
    refused(&rows, &wanted, "unheard");
}

#[test]
fn endless_rows_are_refused_and_not_counted() {
    let rows = vec![(SENDER, [vec![delay(1 << 19); 20_000], vec![END]].concat())];
    assert!(check(&rows, &[]).unwrap_err().has("instruction"));
}

#[test]
fn words_outside_memory_are_named() {
    let (mut rows, _) = one(20);
    let Instruction::DelayPic { pic, .. } = &mut rows[1].1[2] else { unreachable!() };
    pic.value = 0;
    let wanted = [Wanted { tile: FAR, to: 0, words: 20, source: SENDER, from: FROM }];
    assert!(check(&rows, &wanted).unwrap_err().has("out-of-memory"));
}
