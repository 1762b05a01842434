//! The simulated fabric against the worked transfers of `target/ipu21.md` §2.3, against random
//! phases, and against rows whose timing is wrong by one event.

use std::collections::BTreeMap;

use ipu_tune::device::sim::exchange::{Arrival, arrivals, lanes};
use ipu_tune::device::sim::rows::{Registers, RowEvents, read};
use ipu_tune::exchange::{Effort, Options, Phase, Scheduled, Width, schedule};
use ipu_tune::target::{Address, NO_SOURCE, TILES, TileId};
use proptest::prelude::*;

/// Where rows lie in these tests: even, as two-word instructions want it.
const ROW: u32 = 0x5_9000;
/// Where data are sent from.
const FROM: u32 = 0x8_0000;
/// Where data are written.
const TO: u32 = 0xb_0000;

/// Rows of all tiles of a scheduled phase, as the chip reads them.
fn rows(scheduled: &Scheduled) -> Vec<RowEvents> {
    let mut rows = vec![RowEvents::default(); usize::from(TILES)];
    for row in &scheduled.rows {
        rows[usize::from(row.tile.0)] =
            read(&row.words, ROW, &Registers::default()).expect("a row");
    }
    rows
}

fn scheduled(phase: &Phase, width: Width) -> Scheduled {
    schedule(phase, &Options { width, effort: Effort::Fast, ..Options::default() })
        .expect("a schedule")
}

/// Source of every word that is delivered, by receiver and address; an error if the chip stops.
type Delivery = BTreeMap<(u16, u32), (u16, u32)>;

fn deliver(rows: &[RowEvents], tiles: u16) -> Result<Delivery, String> {
    lanes(rows).map_err(|(tile, what)| format!("{tile:?}: {what}"))?;
    let mut delivery = Delivery::new();
    for tile in (0..tiles).map(TileId) {
        for arrival in arrivals(tile, rows)? {
            let Arrival { source, from, to, items, item_bytes, .. } = arrival;
            for shift in (0..items * item_bytes).step_by(4) {
                let old = delivery.insert((tile.0, to + shift), (source.0, from + shift));
                if old.is_some() {
                    return Err(format!("tile {} gets {:#x} twice", tile.0, to + shift));
                }
            }
        }
    }
    Ok(delivery)
}

/// Source, paired, items, first event of the send, phase horizon; and of every destination the tile,
/// the event of its first word, the event after its last, and its row's horizon.
type Worked = (u16, bool, u32, u32, u32, &'static [(u16, u32, u32, u32)]);

/// `target/ipu21.md` §2.3, the worked transfers.
const WORKED: &[Worked] = &[
    (0, false, 64, 31, 124, &[(2, 55, 119, 124)]),
    (0, false, 64, 31, 125, &[(2, 55, 119, 124), (3, 56, 120, 125)]),
    (0, false, 128, 31, 189, &[(2, 55, 183, 188), (3, 56, 184, 189)]),
    (736, false, 51, 0, 166, &[(100, 110, 161, 166)]),
    (736, false, 52, 0, 168, &[(100, 110, 162, 168)]),
    (736, false, 53, 0, 168, &[(100, 110, 163, 168)]),
    (1286, false, 65, 14, 123, &[(1471, 53, 118, 123)]),
    (0, false, 3, 23, 61, &[(274, 53, 56, 61), (1286, 53, 56, 61)]),
    (5, false, 1, 29, 63, &[(4, 57, 58, 63)]),
    (
        1471,
        false,
        4148,
        15,
        4209,
        &[(0, 55, 4203, 4208), (1, 56, 4204, 4209), (2, 55, 4203, 4208), (3, 56, 4204, 4209)],
    ),
    (46, false, 300, 28, 413, &[(47, 97, 397, 402), (48, 96, 396, 401), (900, 108, 408, 413)]),
    (0, true, 64, 31, 125, &[(2, 56, 120, 125), (3, 56, 120, 125)]),
    (2, true, 64, 27, 123, &[(0, 54, 118, 123), (1, 54, 118, 123)]),
    (0, true, 64, 70, 167, &[(46, 98, 162, 167), (47, 98, 162, 167)]),
    (736, true, 200, 0, 315, &[(100, 110, 310, 315), (101, 110, 310, 315)]),
    (
        1286,
        true,
        1000,
        5,
        1070,
        &[(0, 65, 1065, 1070), (1, 65, 1065, 1070), (734, 54, 1054, 1059), (735, 54, 1054, 1059)],
    ),
    (46, true, 70, 0, 156, &[(900, 81, 151, 156), (901, 81, 151, 156)]),
];

fn worked(row: &Worked) -> (Phase, Width) {
    let (source, paired, items, _, _, destinations) = *row;
    let mut phase = Phase::new(TILES);
    let destinations: Vec<_> = destinations.iter().map(|d| (TileId(d.0), Address(TO))).collect();
    let words = if paired { 2 * items } else { items };
    phase.add(TileId(source), Address(FROM), &destinations, words).expect("a legal transfer");
    (phase, if paired { Width::Paired } else { Width::Ordinary })
}

#[test]
fn the_worked_transfers_arrive_at_their_events() {
    for row in WORKED {
        let (source, paired, items, send, horizon, destinations) = *row;
        let (phase, width) = worked(row);
        let rows = rows(&scheduled(&phase, width));
        let sends = &rows[usize::from(source)].sends;
        assert_eq!((sends.len(), sends[0].start, sends[0].items), (1, send, items), "{row:?}");
        assert_eq!(rows.iter().map(|row| row.horizon).max(), Some(horizon), "{row:?}");
        for (tile, first, end, horizon) in destinations {
            let found = arrivals(TileId(*tile), &rows).unwrap();
            let wanted = Arrival {
                sent: send,
                written: *first,
                source: TileId(source),
                from: FROM,
                to: TO,
                items,
                item_bytes: if paired { 8 } else { 4 },
            };
            assert_eq!(found, [wanted], "{row:?}");
            assert_eq!(found[0].written + items, *end, "{row:?}");
            assert_eq!(rows[usize::from(*tile)].horizon, *horizon, "{row:?}");
        }
    }
}

/// A tile hears its own message, alone or with its partner: whichever length, every word arrives.
#[test]
fn a_message_comes_home() {
    let own = |tile: u16| [tile, tile ^ 1, 12, 13];
    let cases = [0, 1, 735, 1286].into_iter().flat_map(|tile| (1..130).map(move |n| (tile, n)));
    for (tile, words) in cases {
        let mut phase = Phase::new(TILES);
        let to: Vec<_> = own(tile).iter().map(|tile| (TileId(*tile), Address(TO))).collect();
        phase.add(TileId(tile), Address(FROM), &to, words).unwrap();
        for width in [Width::Ordinary, Width::Paired] {
            let delivery = deliver(&rows(&scheduled(&phase, width)), TILES).unwrap();
            let word = |at: u16, shift: u32| delivery.get(&(at, TO + shift)).copied();
            let arrives = |at: &u16| {
                (0..4 * words)
                    .step_by(4)
                    .all(|shift| word(*at, shift) == Some((tile, FROM + shift)))
            };
            assert!(own(tile).iter().all(arrives), "{tile}: {words} words, {width:?}");
        }
    }
}

#[test]
fn bases_move_what_is_received() {
    let mut rows = rows(&scheduled(&worked(&WORKED[0]).0, Width::Ordinary));
    rows[2].incoming_base = 0x40;
    let found = arrivals(TileId(2), &rows).unwrap();
    assert_eq!(found[0].to, TO + 0x40);
}

#[test]
fn a_wrong_selection_loses_words_and_a_wrong_format_stops_the_chip() {
    for row in WORKED {
        let (phase, width) = worked(row);
        let (source, paired, items, ..) = *row;
        let good = rows(&scheduled(&phase, width));
        for (tile, ..) in row.5 {
            let tile = usize::from(*tile);
            if let Some(at) = good[tile].selects.iter().position(|s| s.1.source != NO_SOURCE) {
                let mut bad = good.clone();
                bad[tile].selects[at].1.source = NO_SOURCE;
                assert_eq!(arrivals(TileId(tile as u16), &bad).unwrap(), [], "{row:?}");
            }
            let mut bad = good.clone();
            bad[usize::from(source)].sends[0].sctl ^= 3;
            assert_eq!(arrivals(TileId(tile as u16), &bad).unwrap(), [], "the other direction");
            if paired {
                let at = good[tile].pics.iter().position(|p| p.1.format && p.1.value > 0).unwrap();
                let mut bad = good.clone();
                bad[tile].pics[at].1.value ^= 3;
                assert!(arrivals(TileId(tile as u16), &bad).is_err(), "{row:?}");
            } else if items > 1 {
                let mut bad = good.clone();
                let middle = bad[tile].pics[0].0 + 1;
                let format = ipu_tune::target::Pic { format: true, value: 0 };
                bad[tile].pics.push((middle, format));
                assert!(arrivals(TileId(tile as u16), &bad).is_err(), "{row:?}");
            }
        }
    }
}

#[test]
fn a_lent_lane_cannot_send() {
    let (phase, width) = worked(&WORKED[11]);
    let mut rows = rows(&scheduled(&phase, width));
    assert_eq!(lanes(&rows), Ok(()));
    let mut send = rows[0].sends[0];
    send.start += 5;
    send.sctl &= 3;
    rows[1].sends.push(send);
    assert_eq!(lanes(&rows).unwrap_err().0, TileId(1));
}

/// Messages of one source that follow each other at a receiver share one selection.
#[test]
fn a_source_that_stays_is_selected_once() {
    let (phase, wanted) = phase(&[(5, 2, false, 40), (5, 2, false, 40)]);
    let rows = rows(&scheduled(&phase, Width::Ordinary));
    let selects: Vec<u16> = rows[8].selects.iter().map(|select| select.1.source).collect();
    assert_eq!(selects, [TileId(5).physical().0, NO_SOURCE]);
    assert_eq!(deliver(&rows, SMALL), Ok(wanted));
}

const SMALL: u16 = 64;

/// Transfers that do not touch what others touch: source, first destination pair, whole pair or
/// one tile, words. Destinations are never the sender's pair.
fn transfers() -> impl Strategy<Value = Vec<(u16, u16, bool, u32)>> {
    let one = (0..SMALL, 1..SMALL / 2, any::<bool>(), 1u32..120);
    prop::collection::vec(one, 1..14)
}

fn phase(transfers: &[(u16, u16, bool, u32)]) -> (Phase, Delivery) {
    let (mut phase, mut wanted) = (Phase::new(SMALL), Delivery::new());
    for ((source, distance, whole, words), index) in transfers.iter().zip(0..) {
        let first = ((source & !1) + 2 * distance) % SMALL;
        let words = if *whole { words * 2 } else { *words };
        let (from, to) = (FROM + index * 0x400, TO + index * 0x400);
        let destinations: Vec<_> = (first..first + 1 + u16::from(*whole))
            .map(|tile| (TileId(tile), Address(to)))
            .collect();
        phase.add(TileId(*source), Address(from), &destinations, words).expect("a legal transfer");
        for (tile, _) in destinations {
            for shift in (0..words * 4).step_by(4) {
                wanted.insert((tile.0, to + shift), (*source, from + shift));
            }
        }
    }
    (phase, wanted)
}

fn width() -> impl Strategy<Value = Width> {
    prop_oneof![Just(Width::Ordinary), Just(Width::Paired), Just(Width::Automatic)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_word_of_a_phase_arrives_once(transfers in transfers(), width in width()) {
        let (phase, wanted) = phase(&transfers);
        let scheduled = scheduled(&phase, width);
        let rows = rows(&scheduled);
        prop_assert_eq!(deliver(&rows, SMALL), Ok(wanted));
        prop_assert_eq!(rows.iter().map(|row| row.horizon).max(), Some(scheduled.schedule.horizon));
    }

    /// A selection or pointer one event late is noticed: words are lost or misplaced, or the
    /// chip stops.
    #[test]
    fn a_control_that_is_late_by_one_event_is_seen(
        transfers in transfers(), width in width(), pick in any::<prop::sample::Index>(), pointer: bool,
    ) {
        let (phase, wanted) = phase(&transfers);
        let mut rows = rows(&scheduled(&phase, width));
        let mut late = vec![];
        for (tile, row) in rows.iter().enumerate() {
            if pointer {
                let set = row.pics.iter().enumerate().filter(|(_, pic)| !pic.1.format);
                late.extend(set.map(|(at, _)| (tile, at)));
            } else {
                let set = row.selects.iter().enumerate().filter(|(_, s)| s.1.source != NO_SOURCE);
                late.extend(set.map(|(at, _)| (tile, at)));
            }
        }
        let (tile, at) = late[pick.index(late.len())];
        if pointer {
            rows[tile].pics[at].0 += 1;
        } else {
            rows[tile].selects[at].0 += 1;
        }
        prop_assert_ne!(deliver(&rows, SMALL), Ok(wanted));
    }
}
