//! Every row of the reference vectors in `tests/data` (`src/target/ipu21.md` §10).
#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a helper that fails fails its test; exact zeros are meant"
)]

use std::collections::BTreeMap;

use ipu_tune::exchange::jobs::Jobs;
use ipu_tune::exchange::lanes::Care;
use ipu_tune::exchange::place::{Rules, place, starts};
use ipu_tune::exchange::{Phase, Start, rows};
use ipu_tune::target::instruction::{Instruction, decode};
use ipu_tune::target::topology::{paired_selector, route};
use ipu_tune::target::{Address, Control, DataType, ElementOrder, TileId, f8};

/// Rows of a CSV file by column name. Quoted fields may hold commas.
fn table(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines().map(fields);
    let header = lines.next().expect("a header");
    lines.map(|line| header.iter().cloned().zip(line).collect()).collect()
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().expect("never empty").push(other),
        }
    }
    fields
}

#[test]
fn routes() {
    let rows = table(include_str!("data/routes.csv"));
    assert_eq!(rows.len(), 4096);
    for row in rows {
        let number =
            |name: &str| row[name].parse::<i64>().unwrap_or_else(|_| panic!("{name}: {row:?}"));
        let tile = |name: &str| TileId(number(name) as u16);
        let (s, d) = (tile("src_logical"), tile("dst_logical"));
        let (ps, pd) = (s.physical(), d.physical());
        let way = route(s, d);
        let direction = way.direction as i64;
        let found = [
            ("src_physical", i64::from(ps.0)),
            ("dst_physical", i64::from(pd.0)),
            ("src_row", ps.row().into()),
            ("src_col", ps.group().into()),
            ("src_lane", ps.lane().into()),
            ("src_side", ps.side().into()),
            ("dst_row", pd.row().into()),
            ("dst_col", pd.group().into()),
            ("dst_lane", pd.lane().into()),
            ("dst_side", pd.side().into()),
            ("hops", way.hops.into()),
            ("displacement", way.displacement.into()),
            ("direction", direction),
            ("time_to_mux", way.time_to_mux.into()),
            ("write_latency", way.write_latency.into()),
            ("dst_partner", d.partner().physical().0.into()),
            ("partner_time", route(s, d.partner()).time_to_mux.into()),
            ("paired_time", way.paired_time.into()),
            ("dst_is_early", way.destination_is_early.into()),
            ("paired_xpic_source", paired_selector(s, d).into()),
            ("incoming_muxpair", i64::from(ps.0 ^ 2)),
            ("sctl_ordinary", direction),
            ("sctl_paired", direction | 4),
        ];
        for (name, found) in found {
            assert_eq!(found, number(name), "{name} of {s} → {d}");
        }
    }
}

#[test]
fn f8f143() {
    let rows = table(include_str!("data/f8f143.csv"));
    assert_eq!(rows.len(), 256);
    for row in rows {
        let code = u8::from_str_radix(row["code"].trim_start_matches("0x"), 16).unwrap();
        match row["value"].parse::<f32>() {
            Ok(value) if !value.is_nan() => {
                assert_eq!(f8::to_f32(code).to_bits(), value.to_bits(), "{code:#x}");
                assert_eq!(f8::from_f32(value), code);
            }
            _ => assert!(code == f8::NAN && f8::to_f32(code).is_nan()),
        }
    }
}

#[test]
fn element_orders() {
    let rows = table(include_str!("data/element-orders.csv"));
    assert_eq!(rows.len(), 1296);
    for row in rows {
        let number = |name: &str| row[name].parse::<usize>().unwrap();
        let block = || (number("row_block"), number("column_block"));
        let order = match row["order"].as_str() {
            "row_major" => ElementOrder::RowMajor,
            "amp_left" => ElementOrder::AmpLeft,
            "amp_right" => ElementOrder::AmpRight,
            "amp_output" => ElementOrder::AmpOutput,
            "block_major" => ElementOrder::BlockMajor(block().0, block().1),
            "amp_transposed_left" => ElementOrder::TransposedLeft,
            "amp_transposed_right" => ElementOrder::TransposedRight,
            "amp_transposed_output" => ElementOrder::TransposedOutput,
            "block_major_transposed" => ElementOrder::TransposedBlockMajor(block().0, block().1),
            other => panic!("unknown order {other}"),
        };
        let dtype = match row["dtype"].as_str() {
            "f8f143" => DataType::F8,
            "f16" => DataType::F16,
            _ => DataType::F32,
        };
        let [rows, columns, r, c] = ["rows", "columns", "row", "column"].map(number);
        assert_eq!(order.index(dtype, rows, columns, r, c), Some(number("index")), "{row:?}");
    }
}

fn encodings() -> Vec<BTreeMap<String, String>> {
    table(include_str!("data/encodings.csv"))
}

fn words(row: &BTreeMap<String, String>) -> Vec<u32> {
    let word = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    row["words"].split(' ').map(word).collect()
}

/// The fields of a vector that an instruction has, as the vector writes them.
fn described(instruction: &Instruction) -> (&'static str, Vec<(&'static str, i64)>) {
    use Instruction as I;
    match *instruction {
        I::Delay { events } => ("delay", vec![("n", events.into())]),
        I::DelayPic { events, pic } => (
            "delaypic",
            vec![
                ("n", events.into()),
                ("selector", pic.format.into()),
                ("value", pic.value.into()),
            ],
        ),
        I::DelayXpic { events, xpic } => (
            "delayxpic",
            vec![
                ("n", events.into()),
                ("selector", xpic.paired.into()),
                ("value", xpic.source.into()),
            ],
        ),
        I::Send { items, address, sctl } => {
            ("send", vec![("n", items.into()), ("address", address.into()), ("sctl", sctl.into())])
        }
        I::SendOff { items, delta, sctl } => {
            ("sendoff", vec![("n", items.into()), ("delta", delta.into()), ("sctl", sctl.into())])
        }
        I::SendPic { items, control } => {
            let value = match control {
                Control::Pic(pic) => pic.value,
                Control::Xpic(xpic) => xpic.source.into(),
            };
            ("sendpic", vec![("n", items.into()), ("value", value.into())])
        }
        I::SendPicp { items, address, sctl, pic, xpic } => (
            "sendpicp",
            vec![
                ("n", items.into()),
                ("address", address.into()),
                ("sctl", sctl.into()),
                ("pic_selector", pic.format.into()),
                ("xpic", i64::from(xpic.source) | i64::from(xpic.paired) << 13),
                ("pic", pic.value.into()),
            ],
        ),
        I::Sync { zone } => ("sync", vec![("zone", zone.into())]),
        I::Sans { selector } => ("sans", vec![("selector", selector.into())]),
        I::Br { register } => ("br", vec![("m", register.into())]),
        I::Bri { target } => ("bri", vec![("target", target.into())]),
        I::Call { register, target } => {
            ("call", vec![("return", register.into()), ("target", target.into())])
        }
        I::Setzi { register, immediate } => {
            ("setzi", vec![("m", register.into()), ("immediate", immediate.into())])
        }
        I::Put { register, special } => {
            ("put", vec![("m", register.into()), ("register", special.into())])
        }
        I::Get { register, special } => {
            ("get", vec![("m", register.into()), ("register", special.into())])
        }
        I::Ld32 { register, base, delta, offset } => {
            ("ld32", memory(register, base, delta, offset))
        }
        I::St32 { register, base, delta, offset } => {
            ("st32", memory(register, base, delta, offset))
        }
        I::Add { register, source, immediate } => {
            ("add", arithmetic(register, source, immediate.into()))
        }
        I::And { register, source, immediate } => {
            ("and", arithmetic(register, source, immediate.into()))
        }
        I::Shl { register, source, immediate } => {
            ("shl", arithmetic(register, source, immediate.into()))
        }
        I::Brz { register, target } => {
            ("brz", vec![("m", register.into()), ("target", target.into())])
        }
        I::Trap { immediate } => ("trap", vec![("immediate", immediate.into())]),
        I::Nop => ("nop", vec![]),
    }
}

fn memory(m: u8, base: u8, delta: u8, offset: u16) -> Vec<(&'static str, i64)> {
    vec![
        ("base", base.into()),
        ("m", m.into()),
        ("delta", delta.into()),
        ("word_offset", offset.into()),
    ]
}

fn arithmetic(m: u8, source: u8, immediate: i64) -> Vec<(&'static str, i64)> {
    vec![("m", m.into()), ("source", source.into()), ("immediate", immediate)]
}

fn number(text: &str) -> i64 {
    match text.strip_prefix("0x") {
        Some(hexadecimal) => i64::from_str_radix(hexadecimal, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

#[test]
fn single_instructions() {
    let mut seen = 0;
    for row in encodings() {
        if !["exchange", "supervisor"].contains(&row["kind"].as_str()) {
            continue;
        }
        seen += 1;
        let words = words(&row);
        let (instruction, length) = decode(&words).unwrap();
        assert_eq!(length, words.len());
        assert_eq!(instruction.encode().unwrap().as_slice(), words, "{row:?}");
        let (name, fields) = described(&instruction);
        assert_eq!(name, row["mnemonic"]);
        let given: BTreeMap<&str, i64> = row["fields"]
            .split([';', ' '])
            .filter_map(|field| field.trim_matches(',').split_once('='))
            .filter(|(name, _)| *name != "control" && *name != "kind")
            .map(|(name, value)| (name, number(value)))
            .collect();
        for (name, found) in fields {
            if let Some(wanted) = given.get(name) {
                assert_eq!(found, *wanted, "{name} of {row:?}");
            }
        }
        if let Ok(events) = row["events"].parse::<u32>() {
            assert_eq!(instruction.events(), Some(events));
        }
    }
    assert_eq!(seen, 81 + 34);
}

/// Decodes a row; returns its events. Every instruction encodes to the same words again.
fn row_events(words: &[u32]) -> u32 {
    let (mut at, mut events) = (0, 0);
    while at < words.len() {
        let (instruction, length) = decode(&words[at..]).unwrap();
        assert_eq!(instruction.encode().unwrap().as_slice(), &words[at..at + length]);
        assert!(length == 1 || at % 2 == 0, "a two-word instruction at an odd word");
        events += instruction.events().unwrap_or(0);
        at += length;
    }
    assert_eq!(words.last(), Some(&0x43a0_0000));
    events
}

#[test]
fn whole_rows_decode_to_their_events() {
    let rows: Vec<_> = encodings().into_iter().filter(|row| row["kind"].ends_with("row")).collect();
    assert_eq!(rows.len(), 60 + 47);
    for row in rows {
        assert_eq!(row_events(&words(&row)), row["events"].parse::<u32>().unwrap(), "{row:?}");
    }
}

/// `key=value` fields separated by semicolons.
fn field<'a>(row: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    row["fields"].split(';').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
}

/// Every transfer, in the order given, as early as the rules allow.
fn appended(phase: &Phase, paired: bool) -> Vec<Start> {
    let jobs = Jobs::new(phase, |index| paired && phase.pairable(index));
    let order: Vec<u32> = (0..phase.len() as u32).collect();
    let cares = vec![Care::Free; phase.tiles().into()];
    let placed = place(&jobs, &order, Rules::All(&cares), u32::MAX, &|| false).unwrap();
    starts(&jobs, &placed.events)
}

#[test]
fn one_transfer_phases_come_out_word_for_word() {
    let mut seen = 0;
    for row in encodings() {
        let form = field(&row, "form").unwrap_or_default();
        let paired = form.starts_with("paired");
        // The base-relative form starts later and is never needed (§2.3): it is not made here.
        if row["kind"] != "row" || !(paired || form.starts_with("ordinary (absolute")) {
            continue;
        }
        let get = |name: &str| number(field(&row, name).unwrap()) as u32;
        let source = TileId(get("source") as u16);
        let destinations: Vec<(TileId, Address)> = field(&row, "destinations")
            .unwrap()
            .split('+')
            .map(|tile| (TileId(number(tile) as u16), Address(get("destination_address"))))
            .collect();
        let mut phase = Phase::new(1472);
        let words_of_item = if paired { 2 } else { 1 };
        let count = get("items") * words_of_item;
        phase.add(source, Address(get("source_address")), &destinations, count).unwrap();
        // Which sender's own pair receives is more than this scheduler makes 64-bit.
        if paired && !phase.pairable(0) {
            continue;
        }
        let starts = appended(&phase, paired);
        let made = rows::encode(&phase, &starts).unwrap();
        let (role, tile) = field(&row, "row_of").unwrap().split_once(' ').unwrap();
        assert!(role == "source" || role == "destination");
        let made_row = made.iter().find(|made| made.tile.0 == number(tile) as u16).unwrap();
        assert_eq!(made_row.words, words(&row), "{row:?}");
        let horizon = made.iter().map(|made| made.horizon).max().unwrap();
        assert_eq!(horizon, get("phase_horizon"));
        seen += 1;
    }
    assert_eq!(seen, 27 + 23);
}

/// One transfer of a multi-transfer vector: `0->2@0x90000+3@… 64w from 0x50000 32-bit`.
fn parse_transfer(text: &str) -> (TileId, Address, Vec<(TileId, Address)>, u32, bool) {
    let (source, rest) = text.split_once("->").unwrap();
    let mut parts = rest.split(' ');
    let destinations = parts.next().unwrap().split('+').map(|end| {
        let (tile, address) = end.split_once('@').unwrap();
        (TileId(number(tile) as u16), Address(number(address) as u32))
    });
    let destinations = destinations.collect();
    let words = number(parts.next().unwrap().trim_end_matches('w')) as u32;
    assert_eq!(parts.next(), Some("from"));
    let from = Address(number(parts.next().unwrap()) as u32);
    (
        TileId(number(source.trim()) as u16),
        from,
        destinations,
        words,
        parts.next() == Some("64-bit"),
    )
}

#[test]
fn ordinary_phases_appended_in_order_come_out_word_for_word() {
    let mut seen = 0;
    for row in encodings() {
        if row["kind"] != "phase-row" {
            continue;
        }
        let transfers: Vec<_> =
            field(&row, "transfers").unwrap().split(" & ").map(parse_transfer).collect();
        if transfers.iter().any(|transfer| transfer.4) {
            continue;
        }
        let mut phase = Phase::new(1472);
        for (source, from, destinations, words, _) in &transfers {
            phase.add(*source, *from, destinations, *words).unwrap();
        }
        let starts = appended(&phase, false);
        let made = rows::encode(&phase, &starts).unwrap();
        let tile = number(field(&row, "tile").unwrap()) as u16;
        let made_row = made.iter().find(|made| made.tile.0 == tile).unwrap();
        assert_eq!(made_row.words, words(&row), "{row:?}");
        let horizon = made.iter().map(|made| made.horizon).max().unwrap();
        assert_eq!(horizon, number(field(&row, "phase_horizon").unwrap()) as u32);
        seen += 1;
    }
    assert_eq!(seen, 35);
}
