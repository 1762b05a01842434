//! Images: that they are those of the program's tiles and hold what a program needs, where it may
//! lie (`target/ipu21.md` §5.1, §5.2, §5.4, §7.1).

use std::collections::BTreeSet;

use crate::package::application::{Application, KERNELS_RESERVED, Segment, TileImage};
use crate::package::{Step, StepKind as ProfileKind};
use crate::plan::Network;
use crate::program::{Program, StepKind};
use crate::target::sram::{
    EXECUTABLE_END, HOST_WINDOW, LOAD_START, LOOK_AHEAD, MEMORY_END, MEMORY_START, RUNTIME_STATE,
    elements,
};
use crate::target::{Address, Bytes, TILES, TileId};

use super::code::Image;
use super::violation::{Violation, Violations};

/// Read and execute.
const CODE: u32 = 1 | 4;
/// What reserved code ranges hold: `trap 1`.
const RESERVED: [u8; 4] = 0x4180_1001_u32.to_le_bytes();
/// Bytes of the launch slot, the entry, the stop and a filler.
const LAUNCH_BYTES: u32 = 16;

fn wrong(what: String) -> Violation {
    Violation::Image { what }
}

/// One image for each of the logical tiles in whole batches of 64.
pub(super) fn images<'a>(
    application: &'a Application,
    program: &Program,
    violations: &mut Violations,
) -> Vec<Image<'a>> {
    let mut images: Vec<Image<'_>> = application.tiles.iter().map(Image::new).collect();
    images.sort_by_key(|image| image.tile);
    let wanted = usize::from(program.tiles.next_multiple_of(64).min(TILES));
    let expected =
        images.len() == wanted && (0..).map(TileId).zip(&images).all(|(t, i)| t == i.tile);
    if !expected {
        let what = format!("{} images, expected those of tiles 0 to {}", images.len(), wanted - 1);
        violations.add(wrong(what));
    }
    if !application.device_config_writes.is_empty() {
        violations.add(wrong("the program needs no configuration writes".to_owned()));
    }
    if application.origin.kernels != KERNELS_RESERVED {
        violations.add(wrong(format!("kernels are `{}`", application.origin.kernels)));
    }
    images
}

/// Segments of every image: launch words, one range for each routine, one program, one table of
/// rows, all of them code, and the samples in elements of their own.
pub(super) fn segments(
    application: &Application,
    routines: &BTreeSet<u32>,
    samples: Option<(u32, u32)>,
    violations: &mut Violations,
) {
    let samples = samples.and_then(|(address, bytes)| {
        let end = u64::from(address) + u64::from(bytes);
        let inside = address >= MEMORY_START.0 && end <= u64::from(MEMORY_END.0);
        let aside = !meets(address, bytes, RUNTIME_STATE);
        if inside && aside && address.is_multiple_of(4) {
            return Some((address, bytes));
        }
        violations.add(wrong(format!("cycle samples at {address:#x} have no place there")));
        None
    });
    for image in &application.tiles {
        let tile = image.physical_tile;
        let count = image.segments.len();
        if count != routines.len() + 3
            || image.command_address != 0
            || image.diagnostic_address != 0
        {
            let what = format!("tile {tile}: {count} segments, or a command that nobody reads");
            violations.add(wrong(what));
        }
        for segment in &image.segments {
            let at = segment.address;
            if segment.flags != CODE || !is_executable(segment) {
                let what = format!("tile {tile}: the segment at {at:#x} cannot be executed there");
                violations.add(wrong(what));
            }
            if routines.contains(&at) && segment.data != RESERVED {
                let what = format!("tile {tile}: the reserved range at {at:#x} holds no trap");
                violations.add(wrong(what));
            }
        }
        if !launches(image) {
            violations
                .add(wrong(format!("tile {tile}: the launch words are not those of a start")));
        }
        let Some((address, bytes)) = samples else { continue };
        let held: Vec<_> = elements(Address(address), Bytes(bytes)).collect();
        let shared = image.segments.iter().any(|found| fetched(found).any(|e| held.contains(&e)));
        if shared {
            violations.add(wrong(format!("tile {tile}: samples share an element with code")));
        }
    }
}

/// Elements that instructions of a segment are fetched from, with what is looked ahead.
pub(super) fn fetched(
    segment: &Segment,
) -> impl Iterator<Item = crate::target::sram::Element> + use<> {
    let end = segment.address.saturating_add(segment.memory_size).saturating_add(LOOK_AHEAD.0);
    let bytes = end.min(MEMORY_END.0).saturating_sub(segment.address);
    elements(Address(segment.address), Bytes(bytes))
}

fn meets(address: u32, bytes: u32, range: (Address, Address)) -> bool {
    address < range.1.0 && u64::from(address) + u64::from(bytes) > u64::from(range.0.0)
}

fn is_executable(segment: &Segment) -> bool {
    let end = u64::from(segment.address) + u64::from(segment.memory_size);
    end <= u64::from(EXECUTABLE_END.0)
        && !meets(segment.address, segment.memory_size, RUNTIME_STATE)
        && !meets(segment.address, segment.memory_size, HOST_WINDOW)
}

/// The slot that the loader writes and the filler are empty; what is between, the walk finds.
fn launches(image: &TileImage) -> bool {
    let first = image.segments.iter().find(|segment| segment.address == LOAD_START.0);
    first.is_some_and(|segment| {
        segment.memory_size == LAUNCH_BYTES
            && segment.data.len() == LAUNCH_BYTES as usize
            && segment.data[..4] == [0; 4]
            && segment.data[12..] == [0; 4]
    })
}

/// The plans that say what every sample means: the program's steps with their replayed horizons.
pub(super) fn plans(
    application: &Application,
    network: &Network,
    program: &Program,
    horizons: &[u32],
    violations: &mut Violations,
) {
    let steps: Vec<Step> = (0..)
        .zip(program.steps.iter().zip(horizons))
        .map(|(index, (step, horizon))| {
            let names = step.parts.iter().map(|part| network.node(part.node).name.as_str());
            let exchange = step.kind != StepKind::Compute;
            Step {
                local_index: index,
                phase: if exchange { 0x8000_0000 | index } else { index },
                operation: names.collect::<Vec<_>>().join("+"),
                kind: if exchange { ProfileKind::Exchange } else { ProfileKind::Compute },
                exchange_event_cycles: *horizon,
                ..Step::default()
            }
        })
        .collect();
    let plans = &application.profile_tiles;
    let complete = plans.len() == application.tiles.len()
        && (0..)
            .map(TileId)
            .zip(plans)
            .all(|(tile, plan)| plan.physical_tile == u32::from(tile.physical().0));
    if !complete || plans.iter().any(|plan| plan.steps != steps) {
        let what = "profile plans are not the program's steps on every tile".to_owned();
        violations.add(wrong(what));
    }
}
