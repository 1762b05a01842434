//! Exchange schedules against the independent checker: random legal phases are accepted, and every
//! kind of damage to their rows is named.
#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a helper that fails fails its test; exact zeros are meant"
)]

use ipu_tune::check::{TileRow, Violations, phase as check_phase};
use ipu_tune::exchange::{
    Bounds, Effort, ExchangeError, Messages, Options, Phase, Schedule, Scheduled, Start, Taken,
    TransferError, Width, lower_bound, n0, relocate, rows::encode, schedule, shape,
};
use ipu_tune::target::{Address, Bytes, Control, Instruction, Pic, TileId, decode, route};
use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[path = "common/wanted.rs"]
mod wanted;
use wanted::wanted;

/// Where rows lie: an element without data.
const ROWS: u32 = 0x4c000;
/// Tiles of random phases.
const TILES: u16 = 24;

/// A wide message ends earlier than a narrow one, but its receivers need more controls.
#[test]
fn a_row_limit_goes_before_the_horizon() {
    let to = [(TileId(2), Address(0x90000)), (TileId(3), Address(0x90000))];
    let mut phase = Phase::new(4);
    phase.add(TileId(0), Address(0x60000), &to, 200).unwrap();
    let limited = |row_limit| schedule(&phase, &Options { row_limit, ..Options::default() });
    let free = limited(None).unwrap();
    assert_eq!(free.schedule.taken, Taken::Paired);
    let kept = limited(Some(Bytes(largest_row(&free) - 4))).unwrap();
    assert_eq!(kept.schedule.taken, Taken::Ordinary);
    assert!(kept.schedule.horizon > free.schedule.horizon);
    assert!(check(&phase, &rows(&kept), ROWS).is_ok());
    let (bytes, limit) = (largest_row(&kept), largest_row(&kept) - 4);
    let refused = limited(Some(Bytes(limit))).unwrap_err();
    let ExchangeError::RowTooLong { tile, bytes: found, limit: named } = refused else {
        panic!("{refused}");
    };
    assert_eq!((found, named), (bytes, limit));
    let longest = kept.rows.iter().find(|row| row.tile == tile).unwrap();
    assert_eq!((4 * longest.words.len() as u32).next_multiple_of(8), bytes);
}

/// Messages with the same receivers, back to back from addresses that go on, need one send.
#[test]
fn messages_that_continue_one_another_are_sent_as_one() {
    let two = |second: u32, words: u32| {
        let mut phase = Phase::new(4);
        for (from, to) in [(0x60000, 0x90000), (second, 0x98000)] {
            phase.add(TileId(0), Address(from), &[(TileId(2), Address(to))], words).unwrap();
        }
        let options = Options { width: Width::Ordinary, ..Options::default() };
        let scheduled = schedule(&phase, &options).unwrap();
        assert_eq!(check(&phase, &rows(&scheduled), ROWS).unwrap(), scheduled.schedule.horizon);
        let begins = |instruction: &Instruction| matches!(instruction, Instruction::Send { .. });
        decoded(&scheduled.rows[0].words).into_iter().filter(begins).count()
    };
    assert_eq!(two(0x60000 + 4 * 30, 30), 1);
    assert_eq!(two(0x60000 + 4 * 31, 30), 2, "the addresses do not go on");
    assert_eq!(two(0x60000 + 4 * 26, 26), 2, "one message of 52 words would need one more event");
}

/// Words that several transfers move side by side need no more controls than those of one.
#[test]
fn transfers_that_continue_one_another_are_one_message() {
    let horizon = |pieces: u32, gap: u32, width| {
        let mut phase = Phase::new(TILES);
        let words = 120 / pieces;
        for at in (0..pieces).rev() {
            let to = Address(0x90000 + 4 * at * (words + gap));
            let to: Vec<_> = [2, 3].iter().map(|tile| (TileId(*tile), to)).collect();
            phase.add(TileId(0), Address(0x60000 + 4 * at * words), &to, words).unwrap();
        }
        let options = Options { width, effort: Effort::Fast, ..Options::default() };
        let scheduled = schedule(&phase, &options).unwrap();
        assert_eq!(check(&phase, &rows(&scheduled), ROWS).unwrap(), scheduled.schedule.horizon);
        assert_eq!(scheduled.schedule.messages == Messages::Joined, pieces > 1 && gap == 0);
        assert_eq!(relocate(&phase, &scheduled.schedule).unwrap().rows, scheduled.rows);
        scheduled.schedule.horizon
    };
    for width in [Width::Ordinary, Width::Paired] {
        // One word cannot be 64-bit, but all of them together can.
        for pieces in [2, 3, 15, 30, 120] {
            assert_eq!(horizon(pieces, 0, width), horizon(1, 0, width), "{pieces} {width:?}");
        }
    }
    horizon(30, 2, Width::Ordinary);
}

/// What a phase takes does not grow with the events in which nothing but words move.
#[test]
fn few_very_long_messages_are_scheduled() {
    let mut phase = Phase::new(1472);
    for tile in 1..=300_u16 {
        let to = [(TileId(tile), Address(0x90000))];
        phase.add(TileId(0), Address(0x60000), &to, 40_000 - u32::from(tile % 2)).unwrap();
    }
    for effort in [Effort::Fast, Effort::Full] {
        let scheduled = schedule(&phase, &Options { effort, ..Options::default() }).unwrap();
        assert!(scheduled.schedule.horizon > 10_000_000);
        let checked = check(&phase, &rows(&scheduled), ROWS).unwrap();
        assert_eq!(checked, scheduled.schedule.horizon);
    }
}

/// Long messages to some tiles each, at one place more to the right on every tile.
fn crowd(seed: u64, right: u32) -> Phase {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut phase = Phase::new(32);
    for number in 0..48 {
        let mut tiles: Vec<u16> = (0..32).collect();
        tiles.shuffle(&mut random);
        let at = |start: u32| Address(start + 512 * number + 8 * right);
        let to: Vec<_> = tiles[1..4].iter().map(|tile| (TileId(*tile), at(0x90000))).collect();
        phase.add(TileId(tiles[0]), at(0x60000), &to, 128).unwrap();
    }
    phase
}

#[test]
fn long_messages_go_in_halves_where_that_ends_earlier() {
    let mut halved = 0;
    for seed in 0..12 {
        let phase = crowd(seed, 0);
        let with = |effort| schedule(&phase, &Options { effort, ..Options::default() }).unwrap();
        let full = with(Effort::Full);
        assert_eq!(check(&phase, &rows(&full), ROWS).unwrap(), full.schedule.horizon);
        if full.schedule.messages != Messages::Halves {
            continue;
        }
        halved += 1;
        assert!(full.schedule.horizon < with(Effort::Trial).schedule.horizon);
        assert!(full.schedule.starts.len() > phase.len());
        let elsewhere = crowd(seed, 1);
        let moved = relocate(&elsewhere, &full.schedule).unwrap();
        assert_eq!(check(&elsewhere, &rows(&moved), ROWS).unwrap(), full.schedule.horizon);
    }
    assert!(halved > 0);
}

/// Pairs of tiles between which goes what is read one behind the other and written `apart` bytes apart,
/// while the sender is sent one word by many.
fn scattered(seed: u64, apart: u32) -> Phase {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut phase = Phase::new(64);
    let mut tiles: Vec<u16> = (0..64).collect();
    for group in 0..random.random_range(1..4) {
        tiles.shuffle(&mut random);
        let (mut at, mut to) = (0x60000, 0x90000 + 0x2000 * group + apart);
        for _ in 0..random.random_range(2..40) {
            let words = random.random_range(1..6);
            let ends = |address: u32| {
                tiles[1..3].iter().map(move |tile| (TileId(*tile), Address(address)))
            };
            let (ends, again): (Vec<_>, bool) = (ends(to).collect(), random.random_bool(0.1));
            phase.add(TileId(tiles[0]), Address(at), &ends, words).unwrap();
            at += if again { 0 } else { 4 * words };
            to += 4 * words + apart * random.random_range(0..2);
        }
        for from in &tiles[3..random.random_range(4..50)] {
            let end =
                [(TileId(tiles[0]), Address(0xa0000 + 0x1000 * group + 4 * u32::from(*from)))];
            phase.add(TileId(*from), Address(0x60000 + at), &end, 1).ok();
        }
    }
    phase
}

#[test]
fn what_is_read_one_behind_the_other_goes_in_one_send() {
    // Two words at a time to places apart, while as many words come in: a start for each would leave no
    // events for the selections.
    let mut phase = Phase::new(64);
    for part in 0..40_u16 {
        let ends = [(TileId(1), Address(0x90000 + 16 * u32::from(part)))];
        phase.add(TileId(0), Address(0x60000 + 8 * u32::from(part)), &ends, 2).unwrap();
        let ends = [(TileId(0), Address(0x9c000 + 8 * u32::from(part)))];
        phase.add(TileId(2 + part), Address(0x60000), &ends, 1).unwrap();
    }
    let with = |effort| schedule(&phase, &Options { effort, ..Options::default() }).unwrap();
    let (full, trial) = (with(Effort::Full), with(Effort::Trial));
    assert_eq!(full.schedule.messages, Messages::Runs);
    let (horizon, apart) = (full.schedule.horizon, trial.schedule.horizon);
    assert!(lower_bound(&phase) <= horizon && horizon < apart - 30, "{horizon}, {apart} apart");
    assert_eq!(check(&phase, &rows(&full), ROWS).unwrap(), horizon);
}

#[test]
fn runs_hold_at_other_addresses_of_their_shape() {
    let (mut runs, mut moved) = (0, 0);
    for seed in 0..150 {
        let phase = scattered(seed, 8);
        for effort in [Effort::Fast, Effort::Trial, Effort::Full] {
            let found = schedule(&phase, &Options { effort, ..Options::default() }).unwrap();
            let Schedule { horizon, bound, messages, .. } = *found.schedule;
            assert_eq!(check(&phase, &rows(&found), ROWS).unwrap(), horizon, "seed {seed}");
            assert!(bound <= horizon && bound == lower_bound(&phase), "seed {seed}");
            runs += usize::from(messages == Messages::Runs);
            let other = scattered(seed, 24);
            if shape(&other) == shape(&phase) {
                let again = relocate(&other, &found.schedule).unwrap();
                assert_eq!(check(&other, &rows(&again), ROWS).unwrap(), horizon, "seed {seed}");
                moved += 1;
            }
        }
    }
    assert!(runs > 15 && moved > 400, "{runs} of runs, {moved} moved");
}

/// A tile hears its own message: its controls for that may come while it begins to send.
#[test]
fn a_message_comes_home_at_any_length() {
    let (mut split, mut narrow) = (0, vec![]);
    for (tile, words) in [0, 1, 5, 22].into_iter().flat_map(|tile| (1..160).map(move |n| (tile, n)))
    {
        let source = TileId(tile);
        let pairs = [source, source.partner(), TileId(12), TileId(13)];
        for to in [&pairs[..3], &pairs[..]] {
            let mut phase = Phase::new(TILES);
            let to: Vec<_> = to.iter().map(|tile| (*tile, Address(0x90000))).collect();
            phase.add(source, Address(0x60000), &to, words).unwrap();
            split += phase.len() - 1;
            let wide = (0..phase.len()).any(|index| phase.pairable(index));
            for width in [Width::Ordinary, Width::Paired] {
                let options = Options { width, ..Options::default() };
                let scheduled = schedule(&phase, &options).unwrap();
                let found = check(&phase, &rows(&scheduled), ROWS);
                assert_eq!(found.unwrap(), scheduled.schedule.horizon, "{tile}: {words} words");
                let taken = scheduled.schedule.taken == Taken::Paired;
                assert_eq!(taken, wide && width == Width::Paired);
            }
            narrow.extend((!wide && words % 2 == 0 && to.len() == 4).then_some((tile, words)));
            assert!(!wide || to.len() == 4);
        }
    }
    // Two lengths a tile, to three tiles and to four.
    assert_eq!(split, 16);
    // The release meets the start, or controls of tile 0 or 12 meet each other.
    let of = |tile: u16| narrow.iter().filter(move |found| found.0 == tile).map(|found| found.1);
    assert!(of(0).eq([4, 56, 58, 102, 106, 126, 130]));
    assert!(of(1).eq([4, 102, 106, 126, 130]), "its partner selects and releases");
}

/// What comes home 64-bit lies in other elements than what is sent, on the partner too.
#[test]
fn a_pair_of_its_own_needs_other_elements_and_another_pair() {
    let pairable = |own: u32, partner: u32, far: &[u16]| {
        let mut phase = Phase::new(4);
        let mut to = vec![(TileId(0), Address(own)), (TileId(1), Address(partner))];
        to.extend(far.iter().map(|tile| (TileId(*tile), Address(0x60000))));
        phase.add(TileId(0), Address(0x60000), &to, 64).unwrap();
        phase.pairable(0)
    };
    assert!(pairable(0x90000, 0x90000, &[2, 3]));
    assert!(!pairable(0x90000, 0x60000, &[2, 3]));
    assert!(!pairable(0x90000, 0x90000, &[2]));
    assert!(!pairable(0x90000, 0x90000, &[]));
}

/// One transfer before it has addresses.
#[derive(Clone, Debug)]
struct Wish {
    source: u16,
    destinations: Vec<u16>,
    words: u32,
}

fn wishes() -> impl Strategy<Value = Vec<Wish>> {
    let pairs = prop::collection::btree_set(0..TILES / 2, 1..4);
    let single =
        prop::collection::btree_set(0..TILES, 1..5).prop_map(|set| set.into_iter().collect());
    let whole = pairs.prop_map(|set| set.into_iter().flat_map(|p| [2 * p, 2 * p + 1]).collect());
    let destinations = prop_oneof![3 => single, 1 => whole];
    let words =
        prop_oneof![1..9_u32, 40..60_u32, Just(64), 100..200_u32, (1..80_u32).prop_map(|w| 2 * w)];
    let wish = (0..TILES, destinations, words).prop_map(
        |(source, mut destinations, words): (u16, Vec<u16>, u32)| {
            if destinations == [source] {
                destinations[0] = (source + 1) % TILES;
            }
            Wish { source, destinations, words }
        },
    );
    prop::collection::vec(wish, 1..40)
}

/// Gives wishes addresses: reads low, writes high; with `close`, in the same few elements.
fn place(wishes: &[Wish], close: bool) -> Phase {
    let mut phase = Phase::new(TILES);
    let mut read = [0x60000_u32; TILES as usize];
    let mut written = [if close { 0x68000 } else { 0x90000 }; TILES as usize];
    for wish in wishes {
        let bytes = (4 * wish.words).next_multiple_of(8);
        let from = &mut read[usize::from(wish.source)];
        let source = Address(*from);
        *from += bytes;
        let mut destinations = vec![];
        for tile in &wish.destinations {
            let to = &mut written[usize::from(*tile)];
            destinations.push((TileId(*tile), Address(*to)));
            *to += bytes;
        }
        phase.add(TileId(wish.source), source, &destinations, wish.words).unwrap();
    }
    phase.check_accesses().unwrap();
    phase
}

/// The same words in more transfers, in any order: from each message so many pieces of so many words
/// are cut off.
fn cut(phase: &Phase, cuts: &[(u32, u32)], seed: u64) -> Phase {
    let mut pieces = vec![];
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let (size, count) = cuts[index % cuts.len()];
        let mut done = 0;
        while done < transfer.words {
            let last = done / size == count;
            let words = if last { transfer.words - done } else { size.min(transfer.words - done) };
            pieces.push((index, done, words));
            done += words;
        }
    }
    pieces.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut parts = Phase::new(phase.tiles());
    for (index, done, words) in pieces {
        let transfer = phase.transfer(index);
        let shift = |address: Address| Address(address.0 + 4 * done);
        let to = transfer.destinations.iter().map(|(tile, to)| (*tile, shift(*to)));
        let from = shift(transfer.source_address);
        parts.add(transfer.source, from, &to.collect::<Vec<_>>(), words).unwrap();
    }
    parts
}

fn check(phase: &Phase, rows: &[(TileId, Vec<u32>)], at: u32) -> Result<u32, Violations> {
    let rows: Vec<TileRow<'_>> =
        rows.iter().map(|(tile, words)| TileRow { tile: *tile, address: at, words }).collect();
    check_phase(phase.tiles(), &rows, &wanted(phase)).map(|report| report.get().horizon)
}

fn rows(scheduled: &Scheduled) -> Vec<(TileId, Vec<u32>)> {
    scheduled.rows.iter().map(|row| (row.tile, row.words.clone())).collect()
}

/// Bytes of the largest row.
/// Bytes that the largest row takes in memory.
fn largest_row(scheduled: &Scheduled) -> u32 {
    let stored = |words: usize| (4 * words as u32).next_multiple_of(8);
    scheduled.rows.iter().map(|row| stored(row.words.len())).max().unwrap()
}

/// Schedules of every effort pass the checker, with an exact horizon that no bound exceeds.
fn passes(phase: &Phase, width: Width) -> Result<(), TestCaseError> {
    for effort in [Effort::Fast, Effort::Trial, Effort::Full] {
        let scheduled = schedule(phase, &Options { width, effort, ..Options::default() }).unwrap();
        let found = check(phase, &rows(&scheduled), ROWS);
        prop_assert!(found.is_ok(), "{:?}", found.unwrap_err().list().first());
        prop_assert_eq!(found.unwrap(), scheduled.schedule.horizon);
        let bounds = Bounds::new(phase);
        prop_assert!(bounds.any <= bounds.ordinary);
        prop_assert!(lower_bound(phase) <= scheduled.schedule.horizon);
        if let Some(ordinary) = scheduled.schedule.ordinary_horizon {
            prop_assert!(bounds.ordinary <= ordinary);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_schedule_passes_the_checker(wishes in wishes(), close: bool, width in 0..3) {
        let phase = place(&wishes, close);
        passes(&phase, [Width::Automatic, Width::Ordinary, Width::Paired][width as usize])?;
    }

    #[test]
    fn pieces_of_messages_are_delivered(
        wishes in wishes(),
        cuts in prop::collection::vec((1..40_u32, 0..4_u32), 40),
        seed: u64,
        width in 0..3,
    ) {
        let whole = place(&wishes, false);
        let phase = cut(&whole, &cuts, seed);
        passes(&phase, [Width::Automatic, Width::Ordinary, Width::Paired][width as usize])?;
    }

    #[test]
    fn more_effort_never_hurts(wishes in wishes()) {
        let phase = place(&wishes, false);
        let horizon = |effort| {
            schedule(&phase, &Options { effort, ..Options::default() }).unwrap().schedule.horizon
        };
        let trial = horizon(Effort::Trial);
        prop_assert!(horizon(Effort::Full) <= trial && trial <= horizon(Effort::Fast));
    }

    #[test]
    fn a_row_limit_is_kept_or_the_row_is_named(wishes in wishes(), part in 1..8_u32) {
        let phase = place(&wishes, false);
        let free = schedule(&phase, &Options::default()).unwrap();
        let limited = |limit| {
            schedule(&phase, &Options { row_limit: Some(Bytes(limit)), ..Options::default() })
        };
        let most = largest_row(&free);
        // What nothing exceeds changes nothing but the limit itself.
        let wide = limited(u32::MAX).unwrap();
        prop_assert_eq!(&wide.rows, &free.rows);
        for limit in [most - most / 8, most / 8 * part] {
            match limited(limit) {
                Ok(kept) => {
                    prop_assert!(largest_row(&kept) <= limit);
                    let found = check(&phase, &rows(&kept), ROWS);
                    prop_assert!(found.is_ok(), "{:?}", found.unwrap_err().list().first());
                    prop_assert_eq!(found.unwrap(), kept.schedule.horizon);
                }
                Err(ExchangeError::RowTooLong { tile, bytes, limit: named }) => {
                    prop_assert!(bytes > limit && named == limit);
                    let took_part = |tile: u16| wishes.iter().any(|wish| {
                        wish.source / 2 == tile / 2 || wish.destinations.contains(&tile)
                    });
                    prop_assert!(took_part(tile.0));
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }

    #[test]
    fn a_schedule_holds_wherever_the_shape_is_the_same(wishes in wishes(), shift in 1..64_u32) {
        let phase = place(&wishes, false);
        let scheduled = schedule(&phase, &Options::default()).unwrap();
        let mut moved = Phase::new(TILES);
        for index in 0..phase.len() {
            let transfer = phase.transfer(index);
            let to: Vec<_> = transfer.destinations.iter().map(|(t, a)| (*t, Address(a.0 + 16 * shift))).collect();
            let from = Address(transfer.source_address.0 + 8 * shift);
            moved.add(transfer.source, from, &to, transfer.words).unwrap();
        }
        if shape(&moved) != shape(&phase) {
            let refused = relocate(&moved, &scheduled.schedule);
            prop_assert_eq!(refused.unwrap_err(), ExchangeError::OtherShape);
            return Ok(());
        }
        let relocated = relocate(&moved, &scheduled.schedule).unwrap();
        prop_assert_eq!(check(&moved, &rows(&relocated), ROWS).unwrap(), scheduled.schedule.horizon);
    }

    /// Whatever single bit of a row is turned: if the checker still accepts, the chip would do the
    /// same (an unused field, or the length of an idle stretch).
    #[test]
    fn no_flipped_bit_goes_unnoticed(wishes in wishes(), row in any::<prop::sample::Index>(), word in any::<prop::sample::Index>(), bit in 0..32_u32) {
        let phase = place(&wishes, false);
        let mut made = rows(&schedule(&phase, &Options::default()).unwrap());
        let (row, before) = (row.index(made.len()), made.clone());
        let word = word.index(made[row].1.len());
        made[row].1[word] ^= 1 << bit;
        if check(&phase, &made, ROWS).is_ok() {
            // Accepted: every send and every control must be what and where it was.
            let (found, meant) = (decoded(&made[row].1), decoded(&before[row].1));
            prop_assert_eq!(sends(&found), sends(&meant));
            prop_assert_eq!(controls(&found), controls(&meant));
        }
    }
}

/// Event, items, address or delta, and directions of everything that sends.
fn sends(row: &[Instruction]) -> Vec<(u32, u32, u32, u8)> {
    let (mut now, mut sends) = (0, vec![]);
    for instruction in row {
        match *instruction {
            Instruction::Send { items, address, sctl }
            | Instruction::SendPicp { items, address, sctl: sctl @ 1.., .. } => {
                sends.push((now, items, address, sctl));
            }
            Instruction::SendOff { items, delta, sctl } => sends.push((now, items, delta, sctl)),
            Instruction::SendPic { items, .. } => sends.push((now, items, 0, 0)),
            _ => {}
        }
        now += instruction.events().unwrap_or(0);
    }
    sends
}

/// Every control and the event at which it takes effect.
fn controls(row: &[Instruction]) -> Vec<(u32, Control)> {
    let (mut now, mut controls) = (0, vec![]);
    for instruction in row {
        let end = now + instruction.events().unwrap_or(0);
        match *instruction {
            Instruction::DelayPic { pic, .. } => controls.push((end, Control::Pic(pic))),
            Instruction::DelayXpic { xpic, .. } => controls.push((end, Control::Xpic(xpic))),
            Instruction::SendPic { control, .. } => controls.push((now + 1, control)),
            Instruction::SendPicp { pic, xpic, .. } => {
                controls.extend([Control::Pic(pic), Control::Xpic(xpic)].map(|c| (now + 1, c)));
            }
            _ => {}
        }
        now = end;
    }
    controls
}

/// Instructions of a row.
fn decoded(words: &[u32]) -> Vec<Instruction> {
    let (mut at, mut all) = (0, vec![]);
    while at < words.len() {
        let (instruction, length) = decode(&words[at..]).unwrap();
        all.push(instruction);
        at += length;
    }
    all
}

fn encoded(instructions: &[Instruction]) -> Vec<u32> {
    instructions.iter().flat_map(|i| i.encode().unwrap().as_slice().to_vec()).collect()
}

/// Three messages to one tile that also sends: enough of everything to break.
fn sample(width: Width) -> (Phase, Vec<(TileId, Vec<u32>)>) {
    let wish = |source, destinations: &[u16], words| Wish {
        source,
        destinations: destinations.into(),
        words,
    };
    let wishes =
        [wish(4, &[0, 1], 128), wish(6, &[0, 1], 56), wish(8, &[0, 1], 96), wish(0, &[4, 5], 96)];
    let phase = place(&wishes, false);
    let options = Options { width, effort: Effort::Full, ..Options::default() };
    let made = rows(&schedule(&phase, &options).unwrap());
    assert!(check(&phase, &made, ROWS).is_ok());
    (phase, made)
}

/// Breaks the row of `tile` with `change` and asks for `kind` among what is found.
fn broken(width: Width, tile: u16, kind: &str, change: impl Fn(&mut Vec<Instruction>) -> bool) {
    let (phase, mut made) = sample(width);
    let row = made.iter_mut().find(|(found, _)| found.0 == tile).unwrap();
    let mut instructions = decoded(&row.1);
    assert!(change(&mut instructions), "nothing to change for {kind}");
    row.1 = encoded(&instructions);
    let found = check(&phase, &made, ROWS).expect_err(kind);
    assert!(found.has(kind), "{kind}: {:?}", found.list());
}

/// Changes the first instruction that `change` knows what to do with.
fn first(
    instructions: &mut [Instruction],
    change: impl Fn(Instruction) -> Option<Instruction>,
) -> bool {
    for instruction in instructions {
        if let Some(new) = change(*instruction) {
            *instruction = new;
            return true;
        }
    }
    false
}

fn pointer(instruction: Instruction, new: impl Fn(u32) -> u32) -> Option<Instruction> {
    let moved = |pic: Pic| Pic { value: new(pic.value), ..pic };
    match instruction {
        Instruction::DelayPic { events, pic } if !pic.format => {
            Some(Instruction::DelayPic { events, pic: moved(pic) })
        }
        Instruction::SendPic { items, control: Control::Pic(pic) } if !pic.format => {
            Some(Instruction::SendPic { items, control: Control::Pic(moved(pic)) })
        }
        Instruction::SendPicp { items, address, sctl, pic, xpic } => {
            Some(Instruction::SendPicp { items, address, sctl, pic: moved(pic), xpic })
        }
        _ => None,
    }
}

#[test]
fn a_moved_pointer_is_missing_and_stray() {
    for kind in ["missing", "stray"] {
        broken(Width::Ordinary, 0, kind, |row| first(row, |i| pointer(i, |value| value + 0x1000)));
    }
}

#[test]
fn a_repeated_pointer_writes_twice() {
    broken(Width::Ordinary, 0, "written-twice", |row| {
        row.iter_mut().fold(false, |changed, instruction| {
            match pointer(*instruction, |_| 0x90000 / 4) {
                Some(new) => {
                    *instruction = new;
                    true
                }
                None => changed,
            }
        })
    });
}

#[test]
fn a_wrong_source_address_is_a_wrong_word() {
    broken(Width::Ordinary, 4, "wrong-word", |row| {
        first(row, |i| match i {
            Instruction::Send { items, address, sctl } => {
                Some(Instruction::Send { items, address: address + 2, sctl })
            }
            _ => None,
        })
    });
}

#[test]
fn a_control_at_the_start_of_a_send_is_named() {
    broken(Width::Ordinary, 4, "control-at-start", |row| {
        let send = row.iter().position(|i| matches!(i, Instruction::Send { .. })).unwrap();
        let Instruction::Delay { events } = row[send - 1] else { return false };
        row[send - 1] =
            Instruction::DelayPic { events, pic: Pic { format: false, value: 0x90000 / 4 } };
        true
    });
}

#[test]
fn a_row_that_ends_early_is_named() {
    broken(Width::Ordinary, 0, "short-row", |row| {
        let last = row.len() - 2;
        let Instruction::Delay { events } = row[last] else { return false };
        row[last] = Instruction::Delay { events: events - 1 };
        true
    });
}

#[test]
fn a_word_that_is_no_instruction_is_named() {
    let (phase, mut made) = sample(Width::Ordinary);
    made[0].1[0] = 0xffff_0000;
    made[0].1[0] &= !0xf000_0000;
    assert!(check(&phase, &made, ROWS).unwrap_err().has("instruction"));
    let (phase, mut made) = sample(Width::Ordinary);
    made[0].1.pop();
    assert!(check(&phase, &made, ROWS).unwrap_err().has("instruction"), "a row without an end");
}

#[test]
fn a_receive_into_the_element_of_a_send_is_named() {
    // The send of tile 0 reads at 0x60000: same element, other words.
    broken(Width::Ordinary, 0, "element-conflict", |row| {
        first(row, |i| pointer(i, |_| 0x61000 / 4))
    });
}

#[test]
fn a_word_that_is_sent_and_received_is_named() {
    broken(Width::Ordinary, 0, "dependence", |row| first(row, |i| pointer(i, |_| 0x60000 / 4)));
}

#[test]
fn a_row_among_data_is_named() {
    let (phase, made) = sample(Width::Ordinary);
    assert!(check(&phase, &made, 0x61000).unwrap_err().has("row-element"));
    assert!(check(&phase, &made, ROWS + 4).unwrap_err().has("alignment"));
}

#[test]
fn a_missing_pointer_is_named() {
    broken(Width::Ordinary, 4, "no-pointer", |row| {
        first(row, |i| match i {
            Instruction::DelayPic { events, .. } => Some(Instruction::Delay { events }),
            // The stream goes on without the control.
            Instruction::SendPic { items, control: Control::Pic(_) } => {
                Some(Instruction::SendOff { items, delta: 0, sctl: 3 })
            }
            _ => None,
        })
    });
}

#[test]
fn a_missing_or_wrong_format_is_named() {
    broken(Width::Paired, 1, "format", |row| {
        first(row, |i| match i {
            Instruction::DelayPic { events, pic } if pic.format && pic.value != 0 => {
                Some(Instruction::DelayPic { events, pic: Pic { value: 3 - pic.value, ..pic } })
            }
            _ => None,
        })
    });
}

/// 64-bit messages to tiles 0 and 1, in the order in which they have to come.
fn run_of(sources: &[u16], words: u32) -> (Phase, Scheduled) {
    let mut phase = Phase::new(96);
    for (source, at) in sources.iter().zip(0..) {
        let to = Address(0x90000 + 8 * at * words);
        let to = [(TileId(0), to), (TileId(1), to)];
        phase.add(TileId(*source), Address(0x60000), &to, words).unwrap();
    }
    let options = Options { width: Width::Paired, ..Options::default() };
    let scheduled = schedule(&phase, &options).unwrap();
    assert_eq!(check(&phase, &rows(&scheduled), ROWS).unwrap(), scheduled.schedule.horizon);
    (phase, scheduled)
}

/// Formats that a tile sets, with their events.
fn formats(scheduled: &Scheduled, tile: u16) -> Vec<(u32, u32)> {
    let row = scheduled.rows.iter().find(|row| row.tile.0 == tile).unwrap();
    let format = |(event, control)| match control {
        Control::Pic(pic) if pic.format => Some((event, pic.value)),
        _ => None,
    };
    controls(&decoded(&row.words)).into_iter().filter_map(format).collect()
}

#[test]
fn wide_messages_of_one_format_follow_one_another_without_a_break() {
    let way = |source: u16| route(TileId(source), TileId(0)).direction;
    let (same, other): (Vec<u16>, Vec<u16>) =
        (2..96).step_by(2).partition(|source| way(*source) == way(4));
    let items = 40;
    let (_, one) = run_of(&same[..1], 2 * items);
    for count in [2, 3, 6] {
        let (_, many) = run_of(&same[..count], 2 * items);
        let passing = formats(&many, 0);
        assert_eq!(passing.len(), 2, "{passing:?}");
        assert_eq!(passing[1].0 - passing[0].0, count as u32 * items);
        assert!(many.schedule.horizon <= one.schedule.horizon + count as u32 * items);
    }
    // Two formats cannot be set at once.
    let (_, both) = run_of(&[same[0], other[0]], 2 * items);
    let passing = formats(&both, 0);
    assert_eq!(passing.len(), 4, "{passing:?}");
    assert_eq!(passing[2].0 - passing[1].0, 1);
}

#[test]
fn a_format_taken_back_between_wide_messages_is_named() {
    let (phase, scheduled) = run_of(&[4, 6, 8], 80);
    assert_eq!(formats(&scheduled, 1).len(), 2);
    let mut made = rows(&scheduled);
    let row = made.iter_mut().find(|(tile, _)| tile.0 == 1).unwrap();
    let mut instructions = decoded(&row.1);
    let off = Pic { format: true, value: 0 };
    let changed = instructions.iter_mut().rev().find_map(|instruction| match instruction {
        // In place of a pointer, so that all other events stay where they are.
        Instruction::DelayPic { pic, .. } if !pic.format => {
            *pic = off;
            Some(())
        }
        _ => None,
    });
    assert!(changed.is_some());
    row.1 = encoded(&instructions);
    assert!(check(&phase, &made, ROWS).unwrap_err().has("format"));
}

#[test]
fn a_misaligned_wide_pointer_is_named() {
    broken(Width::Paired, 1, "alignment", |row| first(row, |i| pointer(i, |value| value + 1)));
}

#[test]
fn a_send_over_a_lent_lane_is_named() {
    let (phase, mut made) = sample(Width::Paired);
    let partner = made.iter_mut().find(|(tile, _)| tile.0 == 9).unwrap();
    let items = 40;
    partner.1 = encoded(&[
        Instruction::Delay { events: 60 },
        Instruction::Send { items, address: 0x60000 / 4, sctl: 1 },
        Instruction::Delay { events: 400 },
        Instruction::Br { register: 10 },
    ]);
    assert!(check(&phase, &made, ROWS).unwrap_err().has("lane-taken"));
}

/// A row with a two-control instruction: 52-word messages to a row-0 tile, back to back.
fn with_pair() -> (Phase, Vec<(TileId, Vec<u32>)>) {
    let wish = |source| Wish { source, destinations: vec![0], words: 52 };
    let phase = place(&[wish(4), wish(6), wish(8)], false);
    let made = rows(&schedule(&phase, &Options::default()).unwrap());
    let row = decoded(&made.iter().find(|(tile, _)| tile.0 == 0).unwrap().1);
    assert!(row.iter().any(|i| matches!(i, Instruction::SendPicp { .. })), "{row:?}");
    (phase, made)
}

#[test]
fn a_pair_at_an_odd_word_is_named() {
    let (phase, mut made) = with_pair();
    let row = made.iter_mut().find(|(tile, _)| tile.0 == 0).unwrap();
    let mut instructions = decoded(&row.1);
    let long =
        instructions.iter().position(|i| matches!(i, Instruction::Delay { events } if *events > 1));
    let at = long.unwrap();
    let Instruction::Delay { events } = instructions[at] else { unreachable!() };
    instructions[at] = Instruction::Delay { events: events - 1 };
    instructions.insert(at, Instruction::Delay { events: 1 });
    row.1 = encoded(&instructions);
    assert!(check(&phase, &made, ROWS).unwrap_err().has("odd-pair"));
}

#[test]
fn controls_that_exclude_each_other_are_named() {
    let (phase, mut made) = with_pair();
    let row = made.iter_mut().find(|(tile, _)| tile.0 == 0).unwrap();
    let mut instructions = decoded(&row.1);
    assert!(first(&mut instructions, |i| match i {
        Instruction::SendPicp { items, address, sctl, xpic, .. } => {
            let pic = Pic { format: true, value: 0 };
            Some(Instruction::SendPicp { items, address, sctl, pic, xpic })
        }
        _ => None,
    }));
    row.1 = encoded(&instructions);
    assert!(check(&phase, &made, ROWS).unwrap_err().has("controls-meet"));
}

/// Messages that pass on what others brought: where each comes from is the number of an earlier one,
/// or a word of its own; some write over what an earlier one read.
fn chains() -> impl Strategy<Value = Vec<(Option<prop::sample::Index>, u16, u32, bool)>> {
    let from = prop::option::weighted(0.7, any::<prop::sample::Index>());
    prop::collection::vec((from, 0..TILES, 1..70_u32, any::<bool>()), 1..16)
}

fn chain(steps: &[(Option<prop::sample::Index>, u16, u32, bool)]) -> Phase {
    let mut phase = Phase::new(TILES);
    // Tile, address and words of what arrived; and of what was read and is still as it was.
    let (mut arrived, mut read) = (vec![], vec![]);
    for ((from, tile, words, over), number) in steps.iter().zip(0_u32..) {
        let (words, fresh) = (2 * words, Address(0x60000 + 0x400 * number));
        let picked = from.filter(|_| !arrived.is_empty()).map(|from| *from.get(&arrived));
        let (source, address, words) = picked.unwrap_or((TileId(number as u16), fresh, words));
        let other = |tile: TileId| tile != source;
        let over = |at: &(TileId, Address, u32)| *over && other(at.0) && at.2 >= words;
        let place = read.iter().position(over);
        let (to, at) = match place.map(|place| read.swap_remove(place)) {
            Some((tile, at, _)) => (tile, at),
            None => (
                TileId(if *tile == source.0 { (tile + 1) % TILES } else { *tile }),
                Address(0x90000 + 0x400 * number),
            ),
        };
        phase.add(source, address, &[(to, at)], words).unwrap();
        if picked.is_none() {
            read.push((source, address, words));
        }
        arrived.push((to, at, words));
    }
    phase.check_accesses().unwrap();
    phase
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn words_are_passed_on_in_the_order_of_the_messages(steps in chains(), width in 0..3) {
        let phase = chain(&steps);
        passes(&phase, [Width::Automatic, Width::Ordinary, Width::Paired][width as usize])?;
        let plain = n0::plan(&phase, &Options::default()).unwrap();
        prop_assert_eq!(n0::check(&phase, &plain.starts), Ok(plain.horizon));
    }
}

/// The reference's chain: six messages over four tiles.
fn relay() -> Phase {
    let mut phase = Phase::new(TILES);
    for step in 0..6_u32 {
        let tile = |step: u32| TileId((4 * (step % 4)) as u16);
        let at = |step: u32| Address(0x60000 + 0x4000 * step);
        phase.add(tile(step), at(step), &[(tile(step + 1), at(step + 1))], 512).unwrap();
    }
    phase
}

#[test]
fn a_relay_waits_for_each_word_and_no_other_order_is_accepted() {
    let phase = relay();
    let scheduled = schedule(&phase, &Options::default()).unwrap();
    assert!(check(&phase, &rows(&scheduled), ROWS).is_ok());
    assert!(scheduled.schedule.horizon > 6 * 256, "one after the other");
    // The same rows for messages that were meant the other way round.
    let mut wanted = wanted(&phase);
    wanted.reverse();
    let rows: Vec<TileRow<'_>> = scheduled
        .rows
        .iter()
        .map(|row| TileRow { tile: row.tile, address: ROWS, words: &row.words })
        .collect();
    assert!(check_phase(TILES, &rows, &wanted).unwrap_err().has("dependence"));
    // A schedule of messages that have nothing to do with each other is another one.
    let mut free = Phase::new(TILES);
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let from = Address(0x58000 + 0x4000 * (index as u32 % 2));
        free.add(transfer.source, from, transfer.destinations, transfer.words).unwrap();
    }
    assert_ne!(shape(&free), shape(&phase));
    let refused = relocate(&phase, &schedule(&free, &Options::default()).unwrap().schedule);
    assert_eq!(refused.unwrap_err(), ExchangeError::OtherShape);
}

/// Words handed on in place from tile to tile, `steps` times.
fn hand_overs(steps: u16, words: u32) -> Phase {
    let mut phase = Phase::new(4 * steps + 4);
    for step in 0..steps {
        let at = Address(0x60000);
        let to: Vec<_> = (0..2).map(|member| (TileId(4 * step + 4 + member), at)).collect();
        phase.add(TileId(4 * step), at, &to, words).unwrap();
    }
    phase
}

#[test]
fn a_chain_ends_no_later_than_its_bound() {
    for words in [1, 52, 64, 300] {
        let phase = hand_overs(50, words);
        for width in [Width::Ordinary, Width::Paired, Width::Automatic] {
            let found = schedule(&phase, &Options { width, ..Options::default() }).unwrap();
            let found = found.schedule;
            // With one width there is nothing to choose: each message starts as early as it can. The
            // bound has the better width of each.
            assert!(found.bound > 50 * words / 2 && found.bound <= found.horizon);
            if width != Width::Paired {
                assert_eq!(found.bound, found.horizon, "{words} words, {width:?}");
            }
        }
    }
}

/// What has to wait for a chain, or comes before it, adds its load to the chain.
#[test]
fn the_load_before_and_after_a_chain_is_bound_with_it() {
    let phase = |before: bool| {
        let mut phase = Phase::new(48);
        let block = |number: u16| Address(0x60000 + 0x400 * u32::from(number));
        let ends = |number: u16| (TileId(4), TileId(8 + 2 * number), block(number));
        if !before {
            phase.add(TileId(0), block(0), &[(TileId(4), block(0))], 200).unwrap();
        }
        for number in 0..16 {
            let (middle, other, at) = ends(number);
            match before {
                true => phase.add(other, at, &[(middle, at)], 12).unwrap(),
                false => phase.add(middle, block(0), &[(other, at)], 200).unwrap(),
            }
        }
        if before {
            phase.add(TileId(4), block(0), &[(TileId(0), block(0))], 4096).unwrap();
        }
        phase
    };
    let options = Options { width: Width::Ordinary, ..Options::default() };
    for (before, load) in [(false, 17 * 200), (true, 16 * 12 + 4096)] {
        let found = schedule(&phase(before), &options).unwrap().schedule;
        assert!(found.bound >= load, "{} of {load}", found.bound);
        assert!(found.bound <= found.horizon && found.horizon <= found.bound + 200);
    }
}

/// A message that is one event too early for what it passes on.
#[test]
fn a_message_that_passes_on_too_early_is_seen() {
    let phase = relay();
    let good = schedule(&phase, &Options { width: Width::Ordinary, ..Options::default() }).unwrap();
    assert!(check(&phase, &rows(&good), ROWS).is_ok());
    let mut starts = good.schedule.starts.clone();
    starts.iter_mut().skip(1).for_each(|start| start.event -= 1);
    let early = exchange_rows(&phase, &starts);
    assert!(check(&phase, &early, ROWS).unwrap_err().has("dependence"));
    // Without latency: the messages one after the other, but the last one first.
    let backward: Vec<u32> = (0..6).rev().map(|step| 512 * step).collect();
    assert_eq!(n0::check(&phase, &backward), Err(n0::Clash::Order(3, 4)));
}

fn exchange_rows(phase: &Phase, starts: &[Start]) -> Vec<(TileId, Vec<u32>)> {
    let rows = encode(phase, starts).unwrap();
    rows.into_iter().map(|row| (row.tile, row.words)).collect()
}

#[test]
fn bad_transfers_are_refused_with_their_reason() {
    let mut phase = Phase::new(8);
    let at = |tile, address| (TileId(tile), Address(address));
    let mut add = |source, from, to: &[(TileId, Address)], words| {
        phase.add(TileId(source), Address(from), to, words)
    };
    use TransferError as E;
    assert_eq!(add(9, 0x60000, &[at(1, 0x90000)], 4), Err(E::UnknownTile(TileId(9))));
    assert_eq!(add(0, 0x60000, &[at(8, 0x90000)], 4), Err(E::UnknownTile(TileId(8))));
    assert_eq!(add(0, 0x60000, &[at(1, 0x90000)], 0), Err(E::NoWords));
    assert_eq!(add(0, 0x60000, &[], 4), Err(E::NoDestination));
    assert_eq!(add(0, 0x60000, &[at(0, 0x90000)], 4), Err(E::OnlyToItself));
    assert_eq!(add(0, 0x60000, &[at(0, 0x60100), at(1, 0x60100)], 4), Err(E::LoopInElement));
    assert_eq!(add(0, 0x60002, &[at(1, 0x90000)], 4), Err(E::Misaligned(Address(0x60002))));
    assert_eq!(
        add(0, 0x60000, &[at(1, 0x90000), at(1, 0x91000)], 4),
        Err(E::DestinationTwice(TileId(1)))
    );
    let out = add(0, 0x60000, &[at(1, 0xe7ff8)], 4);
    assert_eq!(out, Err(E::OutOfRange { address: Address(0xe7ff8), words: 4 }));
    assert_eq!(add(0, 0x60000, &[at(1, 0x90000)], 4), Ok(()));
    assert_eq!(add(2, 0x60000, &[at(1, 0x90008)], 4), Ok(()));
    let twice = phase.check_accesses().unwrap_err().to_string();
    assert!(twice.contains("transfer 1") && twice.contains("0x90008"), "{twice}");
}

#[test]
fn a_schedule_is_refused_where_reads_and_writes_come_to_share_an_element() {
    let wish = |source, to| Wish { source, destinations: vec![to], words: 200 };
    let wishes = [wish(0, 2), wish(2, 4), wish(4, 0), wish(6, 2)];
    let phase = place(&wishes, false);
    let scheduled = schedule(&phase, &Options::default()).unwrap();
    let mut close = Phase::new(TILES);
    for index in 0..phase.len() {
        let transfer = phase.transfer(index);
        let moved = |(tile, at): &(TileId, Address)| (*tile, Address(at.0 - 0x90000 + 0x61000));
        let to: Vec<_> = transfer.destinations.iter().map(moved).collect();
        close.add(transfer.source, transfer.source_address, &to, transfer.words).unwrap();
    }
    let refused = relocate(&close, &scheduled.schedule).unwrap_err();
    assert_eq!(refused, ExchangeError::OtherShape);
    // At those addresses the same events would not do.
    let own = schedule(&close, &Options::default()).unwrap();
    assert!(check(&close, &rows(&own), ROWS).is_ok());
}

#[test]
fn a_schedule_is_refused_for_other_transfers() {
    let wish = |words| Wish { source: 0, destinations: vec![2], words };
    let scheduled = schedule(&place(&[wish(64)], false), &Options::default()).unwrap();
    let other = relocate(&place(&[wish(65)], false), &scheduled.schedule);
    assert_eq!(other.unwrap_err(), ExchangeError::OtherShape);
}

/// One pair is sent to by far too many, so 64-bit messages help it; in another pair one member sends
/// to a pair and the other to a single tile, so that a 64-bit message of the one takes the lane that
/// the other has no time to lend.
#[test]
fn a_mixture_of_widths_can_beat_both() {
    let wish = |source, destinations: &[u16], words| {
        let destinations = destinations.to_vec();
        Wish { source, destinations, words }
    };
    let mut wishes = vec![];
    for source in [4, 6, 8, 10, 12, 14] {
        wishes.push(wish(source, &[0, 1], 600));
    }
    // In turn, so that no message goes on where the sender's last one ends.
    for to in [18, 20, 22] {
        for _ in 0..16 {
            wishes.push(wish(16, &[to, to + 1], 60));
            wishes.push(wish(17, &[to - 16], 60));
        }
    }
    let phase = place(&wishes, false);
    let scheduled = schedule(&phase, &Options::default()).unwrap();
    let found = &scheduled.schedule;
    assert_eq!(found.taken, Taken::Mixed);
    assert!(
        Some(found.horizon) < found.ordinary_horizon && Some(found.horizon) < found.paired_horizon
    );
    assert!(scheduled.schedule.starts.iter().any(|start| start.paired));
    assert!(scheduled.schedule.starts.iter().any(|start| !start.paired));
    assert_eq!(check(&phase, &rows(&scheduled), ROWS).unwrap(), found.horizon);
}
