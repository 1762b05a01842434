//! Attacks on the checker of packages: a package that is consistently wrong, a field that says
//! something else, and bytes at random.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod common;

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use common::{BLOCK, Fixture};
use ipu_tune::check;
use ipu_tune::device::{Device, HostData, SimulatedDevice};
use ipu_tune::model::Graph;
use ipu_tune::package::{Application, StepKind, read, write};
use ipu_tune::plan::Network;
use ipu_tune::program::{self, program};
use ipu_tune::target::{Instruction, Pic, decode};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Tiles of the program; images come in batches of 64, so the others sit every phase out.
const TILES: u16 = 20;
/// A tile that sits out.
const IDLE: usize = 40;

fn good() -> &'static Application {
    static GOOD: OnceLock<Application> = OnceLock::new();
    GOOD.get_or_init(|| Fixture::new(BLOCK, TILES).package())
}

fn rejected(kind: &str, change: impl Fn(&mut Application)) {
    let mut bad = good().clone();
    change(&mut bad);
    assert_ne!(&bad, good(), "nothing was changed");
    let found = check::package(&write(&bad)).expect_err(kind);
    assert!(found.has(kind), "{kind}: {:?}", found.list().iter().take(3).collect::<Vec<_>>());
}

/// Changes words of one segment of an image; the last two are its program and its rows.
fn words(
    a: &mut Application,
    tile: usize,
    from_end: usize,
    change: impl Fn(Instruction) -> Option<Instruction>,
) {
    let segments = &mut a.tiles[tile].segments;
    let at = segments.len() - from_end;
    for word in segments[at].data.chunks_exact_mut(4) {
        let found = u32::from_le_bytes(word.try_into().unwrap());
        if let Some(new) = decode(&[found]).ok().and_then(|(found, _)| change(found)) {
            word.copy_from_slice(&new.encode().unwrap().as_slice()[0].to_le_bytes());
        }
    }
}

/// Moves cycle samples to another place, in every program and in the binding.
fn move_samples(a: &mut Application, tiles: std::ops::Range<usize>, to: u32) {
    let slices = &mut a.outputs.iter_mut().find(|b| b.name == "profile.cycles").unwrap().slices;
    let (from, bytes) = (slices[0].tile_address, slices[0].size as u32);
    tiles.clone().for_each(|tile| slices[tile].tile_address = to);
    for tile in tiles {
        words(a, tile, 2, |instruction| match instruction {
            Instruction::Setzi { register: 2, immediate }
                if (from..from + bytes).contains(&immediate) =>
            {
                Some(Instruction::Setzi { register: 2, immediate: immediate - from + to })
            }
            _ => None,
        });
    }
}

#[test]
fn samples_lie_in_one_place_where_nothing_else_is() {
    // A place that nobody uses: accepted, so what follows is refused for its place alone.
    let ends = good().debug_regions.iter().map(|region| region.address + region.size);
    let free = ends.max().unwrap().next_multiple_of(32) + 256;
    let mut moved = good().clone();
    move_samples(&mut moved, 0..64, free);
    assert_eq!(check::package(&write(&moved)).err(), None);
    rejected("binding", |a| move_samples(a, 3..4, free));
    let buffer = good().debug_regions.iter().find(|r| r.physical_tile == 0).unwrap().address;
    rejected("placement", |a| move_samples(a, 0..64, buffer));
    let code = good().tiles[0].segments.last().unwrap();
    let behind = (code.address + code.memory_size + 256) & !3;
    rejected("image", |a| move_samples(a, 0..64, behind));
    rejected("image", |a| move_samples(a, 0..64, 0x58100));
    rejected("unreadable", |a| move_samples(a, 0..64, 0xe7ffc));
}

#[test]
fn bindings_of_samples_are_exact() {
    let named =
        |a: &Application, name: &str| a.outputs.iter().position(|b| b.name == name).unwrap();
    for name in ["profile.start-cycle", "profile.cycles", "profile.end-cycle"] {
        rejected("binding", |a| {
            let at = named(a, name);
            a.outputs[at].dtype = "f32".to_owned();
        });
        rejected("binding", |a| {
            let at = named(a, name);
            a.outputs[at].slices.pop();
        });
        rejected("binding", |a| {
            let at = named(a, name);
            a.outputs[at].slices[5].size += 4;
        });
        rejected("binding", |a| {
            let at = named(a, name);
            a.outputs[at].slices[5].tile_address += 4;
        });
        rejected("binding", |a| {
            let at = named(a, name);
            drop(a.outputs.remove(at));
        });
    }
    // A name that only looks like one is a binding too many.
    rejected("binding", |a| {
        let copy = a.outputs[0].clone();
        a.outputs.push(ipu_tune::package::Binding { name: "profile.more".to_owned(), ..copy });
    });
    rejected("binding", |a| {
        let copy = a.inputs[0].clone();
        a.weights.push(ipu_tune::package::Binding { name: "profile.more".to_owned(), ..copy });
    });
}

#[test]
fn an_input_with_the_name_of_a_sample_is_refused_at_once() {
    let graph = |name: &str| {
        let text = BLOCK.replace("\"x\"", &format!("\"{name}\""));
        Graph::from_json(&text, Path::new("named.json")).unwrap()
    };
    let error = Network::from_graph(&graph("profile.cycles")).unwrap_err().to_string();
    assert!(error.contains("`profile.cycles`") && error.contains("another name"), "{error}");
    assert!(Network::from_graph(&graph("profile")).is_ok());
}

#[test]
fn fields_that_nobody_needs_are_what_the_program_implies() {
    rejected("image", |a| a.device_config_writes.push((4, 0)));
    rejected("image", |a| a.host_exchange.calls[1].phases += 1);
    rejected("image", |a| a.host_exchange.calls[0].inputs[0].size -= 4);
    rejected("image", |a| a.host_exchange.startup_mark += 1);
    rejected("image", |a| a.host_exchange.calls[1].command = 7);
    rejected("image", |a| a.entry_points[0].command = 9);
    rejected("image", |a| a.entry_points[1].external_syncs = 1);
    rejected("image", |a| a.tiles[3].command_address = 0x58000);
    rejected("image", |a| a.tiles[3].diagnostic_address = 0x58000);
    rejected("image", |a| a.tiles[3].segments[1].flags |= 2);
    rejected("image", |a| a.tiles[3].segments[1].data[0] ^= 2);
    rejected("image", |a| a.tiles[3].segments[0].data[0] = 1);
    rejected("image", |a| a.origin.kernels = "linked".to_owned());
    rejected("image", |a| a.profile_tiles[3].steps[1].operation.push('x'));
    rejected("image", |a| a.profile_tiles[3].steps[1].phase ^= 1);
    rejected("image", |a| a.profile_tiles[3].steps[1].epoch = 1);
    rejected("image", |a| a.profile_tiles.swap(0, 1));
    rejected("image", |a| {
        let steps = &mut a.profile_tiles[3].steps;
        let step = steps.iter_mut().find(|step| step.kind == StepKind::Exchange).unwrap();
        step.exchange_event_cycles += 1;
    });
}

#[test]
fn who_sits_out_does_nothing() {
    rejected("program", |a| {
        words(a, IDLE, 2, |i| match i {
            Instruction::Sans { .. } => Some(Instruction::Sans { selector: 1 }),
            _ => None,
        });
    });
    // The row that only returns now waits first.
    rejected("program", |a| {
        let rows = a.tiles[IDLE].segments.last_mut().unwrap();
        let wait = Instruction::Delay { events: 100 }.encode().unwrap().as_slice()[0];
        rows.data.copy_within(0..4, 4);
        rows.data[..4].copy_from_slice(&wait.to_le_bytes());
    });
    // A tile that exchanges says that it does not.
    rejected("program", |a| {
        words(a, 3, 2, |i| match i {
            Instruction::Sync { zone: 3 } => Some(Instruction::Sync { zone: 1 }),
            _ => None,
        });
    });
}

/// Moves a whole segment of every tile and every call of it.
fn move_segment(a: &mut Application, index: usize, to: u32) {
    let from = a.tiles[0].segments[index].address;
    for symbol in a.debug_symbols.iter_mut().filter(|symbol| symbol.address == from) {
        symbol.address = to;
    }
    let count = a.tiles[0].segments.len();
    for tile in 0..a.tiles.len() {
        a.tiles[tile].segments[index].address = to;
        for from_end in [2, count] {
            words(a, tile, from_end, |i| match i {
                Instruction::Call { register, target } if target == from => {
                    Some(Instruction::Call { register, target: to })
                }
                _ => None,
            });
        }
    }
}

#[test]
fn code_lies_where_it_can_be_executed() {
    let program = good().tiles[0].segments.len() - 2;
    // A sane new place is accepted: behind the rows, in their element.
    let rows = good().tiles.iter().map(|tile| tile.segments.last().unwrap());
    let behind = rows.map(|rows| rows.address + rows.memory_size).max().unwrap();
    let mut moved = good().clone();
    move_segment(&mut moved, 1, behind.next_multiple_of(8));
    assert_eq!(check::package(&write(&moved)).err(), None);
    for index in [1, program] {
        rejected("image", |a| move_segment(a, index, 0xe0000));
        rejected("image", |a| move_segment(a, index, 0x80000 - 4));
        rejected("image", |a| move_segment(a, index, 0x58400));
        rejected("image", |a| move_segment(a, index, 0x54000));
    }
    // A kernel that ends with an element is fetched from beyond it, where data lie.
    let element = 0x50000_u32..0x54000;
    let on_tile = good().debug_regions.iter().filter(|region| region.physical_tile == 0);
    assert!(on_tile.clone().any(|region| element.contains(&region.address)));
    let size = good().tiles[0].segments[1].memory_size;
    rejected("placement", |a| move_segment(a, 1, element.start - size));
}

#[test]
fn a_program_that_runs_in_circles_is_given_up_soon() {
    rejected("instruction", |a| {
        let target = a.tiles[3].segments[a.tiles[3].segments.len() - 2].address;
        words(a, 3, 2, |i| match i {
            Instruction::Bri { .. } => Some(Instruction::Bri { target }),
            _ => None,
        });
    });
    rejected("instruction", |a| {
        let stop = Instruction::Bri { target: 0x4c018 }.encode().unwrap().as_slice()[0];
        a.tiles[3].segments[0].data[8..12].copy_from_slice(&stop.to_le_bytes());
    });
}

/// Bytes of host data, all zero.
fn zeros(a: &Application) -> HostData {
    let size = |bindings: &[ipu_tune::package::Binding]| -> usize {
        let slices = bindings.iter().flat_map(|binding| &binding.slices);
        slices.map(|slice| slice.size as usize).sum()
    };
    HostData { weights: vec![0; size(&a.weights)], inputs: vec![0; size(&a.inputs)] }
}

/// The wait at the end of a tile's first row becomes a change of format, which the next row finds.
#[test]
fn a_format_left_behind_is_found_by_checker_and_simulator() {
    let leave = |a: &mut Application| {
        let rows = &mut a.tiles[3].segments.last_mut().unwrap().data;
        let word = |at: usize| u32::from_le_bytes(rows[4 * at..4 * at + 4].try_into().unwrap());
        let at = (1..rows.len() / 4 - 1).find_map(|at| match decode(&[word(at)]) {
            Ok((Instruction::Delay { events }, _)) if word(at + 1) == 0x43a0_0000 => {
                Some((at, events))
            }
            _ => None,
        });
        let (at, events) = at.unwrap();
        let pic = Pic { format: true, value: 1 };
        let new = Instruction::DelayPic { events, pic }.encode().unwrap().as_slice()[0];
        rows[4 * at..4 * at + 4].copy_from_slice(&new.to_le_bytes());
    };
    rejected("left-behind", leave);
    let device = SimulatedDevice::default();
    assert!(device.measure(good(), &zeros(good()), &AtomicBool::new(false)).is_ok());
    let mut bad = good().clone();
    leave(&mut bad);
    let error =
        device.measure(&bad, &zeros(&bad), &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(error.contains("format"), "{error}");
}

/// Without any one of its steps a program reads what nobody wrote, but for the last ones, which the
/// host reads.
#[test]
fn a_step_that_is_left_out_is_missed() {
    let fixture = Fixture::new(BLOCK, TILES);
    let recipe = fixture.first_plans().remove(0);
    let whole = program(&fixture.network, &recipe);
    assert_eq!(check::defined(&whole), Ok(()));
    let exchanges =
        (0..whole.steps.len()).filter(|step| whole.steps[*step].kind != program::StepKind::Compute);
    let mut missed = 0;
    for step in exchanges {
        let mut less = whole.clone();
        less.steps.remove(step);
        assert!(check::defined(&less).unwrap_err().has("undefined"), "step {step}");
        missed += 1;
    }
    assert!(missed > 3);
}

/// Whatever bytes are changed, reader, checker and simulator answer. Changes in the model and recipe
/// texts, in names, in code, in rows and in numbers all occur.
#[test]
fn random_changes_never_panic() {
    let bytes = write(good());
    let device = SimulatedDevice::default();
    let data = zeros(good());
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let model = bytes.windows(16).position(|w| w == &good().origin.model.as_bytes()[..16]).unwrap();
    let mut read_again = 0;
    for round in 0..300 {
        let mut bad = bytes.clone();
        for _ in 0..rng.random_range(1..4) {
            // Every other time among the texts at the end, which are few bytes of many.
            let first = if round % 2 == 0 { model.min(bytes.len() - 64) } else { 0 };
            let at = rng.random_range(first..bad.len());
            bad[at] = match rng.random_range(0..3) {
                0 => bad[at] ^ (1 << rng.random_range(0..8)),
                1 => b'0' + rng.random_range(0..10) as u8,
                _ => rng.random_range(0..=255) as u8,
            };
        }
        let _ = check::package(&bad);
        if let Ok(application) = read(&bad) {
            read_again += 1;
            if round % 4 == 1 {
                let _ = device.measure(&application, &data, &AtomicBool::new(false));
            }
        }
    }
    assert!(read_again > 100, "most changes get past the reader: {read_again}");
}

/// Numbers at the ends of their ranges, everywhere a package has numbers.
#[test]
fn extreme_numbers_never_panic() {
    let device = SimulatedDevice::default();
    for value in [0, 1, 0x4c000, 0x7fff_ffff, u32::MAX - 3, u32::MAX] {
        let changes: [&dyn Fn(&mut Application); 9] = [
            &|a| a.debug_regions[0].address = value,
            &|a| a.debug_regions[0].size = value,
            &|a| a.inputs[0].slices[0].tile_address = value,
            &|a| a.inputs[0].slices[0].size = value.into(),
            &|a| a.inputs[0].slices[0].file_offset = u64::from(value) << 32,
            &|a| a.tiles[3].entry_point = value,
            &|a| a.tiles[3].segments[2].address = value,
            &|a| a.tiles[3].segments[2].memory_size = value,
            &|a| a.debug_symbols[0].address = value,
        ];
        for change in changes {
            let mut bad = good().clone();
            change(&mut bad);
            let bytes = write(&bad);
            let _ = check::package(&bytes);
            if let Ok(application) = read(&bytes) {
                let _ = device.measure(&application, &HostData::default(), &AtomicBool::new(false));
            }
        }
    }
}
