//! Packages: what is written is read again, random recipes are proved and compute the right
//! numbers, and damage is rejected.
#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a helper that fails fails its test; exact zeros are meant"
)]

mod common;

use common::{BLOCK, Fixture};
use ipu_tune::check;
use ipu_tune::cost::Coefficients;
use ipu_tune::package::{Application, PackageError, RowTable, read, write};
use ipu_tune::space::candidates::{Planner, Shortlists};
use ipu_tune::space::{Move, propose};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

#[test]
fn a_package_survives_its_bytes_and_is_written_the_same_twice() {
    let application = Fixture::new(BLOCK, 20).package();
    let bytes = write(&application);
    assert_eq!(bytes, write(&application));
    assert_eq!(read(&bytes).unwrap(), application);
    assert_eq!(application.tiles.len(), 64, "whole batches of 64 images");
    assert!(check::package(&bytes).is_ok());
}

/// Every row lies where the table says, at a multiple of 8 bytes, and equal rows lie in one place.
#[test]
fn a_table_holds_every_row_once() {
    let rows: [&[u32]; 6] = [&[1, 2, 9], &[3, 9], &[1, 2, 9], &[1, 2, 3, 9], &[3, 9], &[2, 9]];
    let mut table = RowTable::default();
    let places: Vec<_> = rows.iter().map(|row| table.place(row)).collect();
    let words = table.words(7);
    assert_eq!(words[..2], [7, 0]);
    for (row, place) in rows.iter().zip(&places) {
        assert!(place.0.is_multiple_of(8));
        assert_eq!(&words[place.0 as usize / 4..][..row.len()], *row);
    }
    assert_eq!((places[0], places[1]), (places[2], places[4]));
    assert_eq!(words.len(), 2 + 4 + 2 + 4 + 2, "each of the four different rows once, in pairs");
    assert_eq!(table.size().0, 4 * words.len() as u32);
}

/// The root struct's fields, found by hand in the unpacked framing: where target/ipu21.md §7.1's
/// ordinals put them.
#[test]
fn fields_lie_where_the_ordinals_put_them() {
    let application = Fixture::new(BLOCK, 20).package();
    let bytes = write(&application);
    let word = |at: usize| u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap());
    let segments = (word(0) & 0xffff_ffff) as usize + 1;
    assert_eq!(segments, 1, "one segment");
    let content = 1; // one word of header: count and one size
    let root = word(content);
    assert_eq!(root & 3, 0, "a struct pointer");
    let data = content + 1 + (root as u32 as i32 >> 2) as usize;
    let data_words = (root >> 32 & 0xffff) as usize;
    // @0, @3, @4 are the first three 32-bit fields.
    assert_eq!(word(data) & 0xffff_ffff, 5);
    assert_eq!(word(data) >> 32, 0x4c000);
    assert_eq!(word(data + 1) & 0xffff_ffff, 0x9c000);
    // Pointer fields in order: @1, @2, @5.
    let text = |pointer: usize| -> String {
        let at = data + data_words + pointer;
        let found = word(at);
        assert_eq!(found & 3, 1, "a list pointer");
        let start = 8 * (at + 1 + (found as u32 as i32 >> 2) as usize);
        let length = (found >> 35) as usize;
        String::from_utf8(bytes[start..start + length - 1].to_vec()).unwrap()
    };
    assert_eq!(text(0), application.compiler_version);
    assert_eq!(text(1), "ipu21");
}

#[test]
fn readers_reject_what_the_reference_says() {
    let good = Fixture::new(BLOCK, 20).package();
    let refused = |change: &dyn Fn(&mut Application), word: &str| {
        let mut bad = good.clone();
        change(&mut bad);
        match read(&write(&bad)) {
            Err(PackageError::Rule(what)) => assert!(what.contains(word), "{what} / {word}"),
            other => panic!("{word}: {:?}", other.map(|_| "accepted")),
        }
    };
    refused(&|a| a.tiles.clear(), "no tiles");
    refused(&|a| a.tiles[1].physical_tile = a.tiles[0].physical_tile, "two images");
    refused(&|a| drop(a.tiles.pop()), "multiple of 64");
    refused(&|a| a.tiles[0].segments[0].address += 4, "does not begin");
    refused(&|a| a.tiles[0].segments[1].address = 0xe8000, "leaves tile memory");
    refused(&|a| a.tiles[0].segments[1].memory_size = 2, "more data than memory");
    refused(&|a| a.tiles[0].segments[2].address = a.tiles[0].segments[1].address, "overlap");
    refused(&|a| a.inputs[0].name.clear(), "without a name");
    refused(&|a| a.inputs[0].name = a.weights[0].name.clone(), "are named");
    refused(&|a| a.inputs[0].slices[0].tile = 1400, "absent tile");
    refused(&|a| a.inputs[0].slices[0].size = 1 << 40, "leaves tile memory");
    refused(&|a| a.profile_tiles[0].steps[1].local_index = 7, "not numbered");
    refused(&|a| a.profile_tiles[1].physical_tile = a.profile_tiles[0].physical_tile, "repeated");
    refused(&|a| a.debug_regions[0].size = 0, "empty");
    refused(&|a| a.device_config_writes.push((2, 0)), "misaligned");
    refused(&|a| a.host_exchange.pages[1].index = 0, "repeated");
    refused(&|a| a.host_exchange.attach_order.push(9), "absent page");
    refused(&|a| a.host_exchange.command_offset = 4094, "beyond its page");
    refused(&|a| a.host_exchange.calls[0].invocations = 0, "0 times");
    refused(&|a| a.host_exchange.calls[1].input_batch_ends = vec![1, 1], "not increasing");
    refused(&|a| a.host_exchange.calls[1].inputs[0].page_offset = 1 << 30, "beyond its page");
}

#[test]
fn damage_to_a_package_is_rejected_and_named() {
    let good = Fixture::new(BLOCK, 20).package();
    let rejected = |change: &dyn Fn(&mut Application), kind: &str| {
        let mut bad = good.clone();
        change(&mut bad);
        let found = check::package(&write(&bad)).expect_err(kind);
        assert!(found.has(kind), "{kind}: {:?}", found.list().iter().take(3).collect::<Vec<_>>());
    };
    // The last two segments of an image are its program and its rows.
    let segment = |a: &mut Application, from_end: usize| {
        let segments = &mut a.tiles[3].segments;
        let at = segments.len() - from_end;
        std::mem::take(&mut segments[at].data)
    };
    let put = |a: &mut Application, from_end: usize, data: Vec<u8>| {
        let segments = &mut a.tiles[3].segments;
        let at = segments.len() - from_end;
        segments[at].data = data;
    };
    let edit = |a: &mut Application, from_end: usize, word: usize, bits: u32| {
        let mut data = segment(a, from_end);
        for (byte, flip) in data[4 * word..4 * word + 4].iter_mut().zip(bits.to_le_bytes()) {
            *byte ^= flip;
        }
        put(a, from_end, data);
    };
    rejected(&|a| edit(a, 2, 0, 1 << 30), "instruction");
    rejected(&|a| edit(a, 2, 4, 8), "program");
    rejected(&|a| a.tiles[3].entry_point += 4, "instruction");
    rejected(&|a| a.origin.recipe = "{}".to_owned(), "unreadable");
    rejected(&|a| a.origin.model = "{}".to_owned(), "unreadable");
    rejected(&|a| a.debug_regions[0].address += 32, "program");
    rejected(&|a| a.debug_regions[0].size += 32, "placement");
    rejected(&|a| drop(a.debug_regions.remove(0)), "placement");
    rejected(&|a| a.debug_regions[0].name = "stranger".to_owned(), "placement");
    rejected(&|a| a.inputs[0].slices[0].tile_address += 32, "binding");
    rejected(&|a| a.weights[0].shape[0] += 1, "binding");
    rejected(&|a| a.outputs.swap(0, 1), "binding");
    rejected(&|a| a.weights[0].dtype = "f32".to_owned(), "binding");
    rejected(&|a| drop(a.profile_tiles.pop()), "image");
    rejected(&|a| a.debug_symbols[2].name = "no-such-kernel".to_owned(), "image");
    rejected(&|a| a.tiles[3].segments[2].memory_size -= 8, "image");
}

#[test]
fn buffers_that_overlap_or_share_elements_are_named() {
    let good = Fixture::new(BLOCK, 20).package();
    // Two pieces on one tile that live at the same time: a parameter lives throughout.
    let on = |a: &Application, name: &str| {
        a.debug_regions.iter().position(|r| r.name.starts_with(name) && r.physical_tile == 0)
    };
    let mut bad = good.clone();
    let (gain, bias) = (on(&bad, "norm.gain").unwrap(), on(&bad, "norm.bias").unwrap());
    bad.debug_regions[gain].address = bad.debug_regions[bias].address;
    let found = check::package(&write(&bad)).unwrap_err();
    assert!(found.has("overlap"), "{:?}", found.list());
    let (left, result) = (on(&good, "q.left"), on(&good, "q.result").or(on(&good, "q.partial")));
    if let (Some(left), Some(result)) = (left, result) {
        let mut bad = good.clone();
        let end = bad.debug_regions[left].address + bad.debug_regions[left].size;
        bad.debug_regions[result].address = end.next_multiple_of(32) + 32;
        assert!(check::package(&write(&bad)).unwrap_err().has("not-apart"));
    }
}

#[test]
fn random_recipes_are_legal_proved_and_right() {
    let fixture = Fixture::new(BLOCK, 24);
    let evaluator = fixture.evaluator(3);
    let (coefficients, shortlists) = (Coefficients::default(), Shortlists::default());
    let planner = Planner {
        network: &fixture.network,
        space: &fixture.space,
        tiles: fixture.tiles,
        coefficients: &coefficients,
        shortlists: &shortlists,
    };
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut recipe = fixture.first_plans().remove(0);
    let mut validated = 0;
    for step in 0..60 {
        let kind = Move::ALL[step % Move::ALL.len()];
        let Some(next) = propose(&planner, &recipe, kind, &mut rng) else { continue };
        let geometry = evaluator.geometry(&next, &coefficients).unwrap();
        match evaluator.validate(&next, 1, &coefficients) {
            Ok(found) => {
                validated += 1;
                // F1 bounds F2.
                assert!(
                    geometry.bound <= found.predicted() * 1.000_001,
                    "{} {}",
                    geometry.bound,
                    found.predicted()
                );
                assert!(found.numerics().minimum_cosine > 0.99);
            }
            Err(failure) => panic!("{failure}\n{}", next.to_json()),
        }
        recipe = next;
    }
    assert!(validated >= 40, "{validated}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any bytes: an error, never a panic.
    #[test]
    fn damaged_bytes_never_panic(cut in any::<prop::sample::Index>(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), truncate: bool) {
        static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let mut bytes = BYTES.get_or_init(|| write(&Fixture::new(BLOCK, 4).package())).clone();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
        if truncate {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = check::package(&bytes);
    }
}
