//! Walking a tile's program word by word: what it calls, in which order, with what in its registers.

use std::collections::BTreeMap;

use crate::kernels::Kernel;
use crate::package::{Application, TileImage};
use crate::target::instruction::special;
use crate::target::sram::{END_CYCLE, ENTRY, EXECUTABLE_END, LOAD_START, START_CYCLE};
use crate::target::{Instruction, NO_SOURCE, PhysicalTile, TileId, decode};

use super::violation::{Violation, Violations};

/// What a program does that can be seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Stores the cycle counter.
    Sample(u32),
    /// Waits for workers.
    Barrier,
    /// Calls a kernel with these registers, `m2` and on.
    Kernel(Kernel, Vec<u32>),
    /// Synchronizes.
    Sync(u8),
    /// Sits the next synchronization out.
    Sans(u8),
    /// Writes a special register.
    Put(u8, u32),
    /// Calls what is no routine: a row.
    Row(u32),
}

impl Action {
    /// Whether this is the wanted action. Registers behind a call's own operands do not matter.
    pub(super) fn does(&self, wanted: &Action) -> bool {
        match (self, wanted) {
            (Action::Kernel(kernel, registers), Action::Kernel(called, operands)) => {
                kernel == called && registers.starts_with(operands)
            }
            _ => self == wanted,
        }
    }
}

/// Memory of one image, word by word.
pub(super) struct Image<'a> {
    pub(super) tile: TileId,
    segments: Vec<(u32, &'a [u8])>,
    entry: u32,
}

impl<'a> Image<'a> {
    pub(super) fn new(image: &'a TileImage) -> Image<'a> {
        let mut segments: Vec<_> = image
            .segments
            .iter()
            .map(|segment| (segment.address, segment.data.as_slice()))
            .collect();
        segments.sort_unstable_by_key(|segment| segment.0);
        let tile = PhysicalTile(image.physical_tile as u16).logical();
        Image { tile, segments, entry: image.entry_point }
    }

    /// The loaded word at an address.
    pub(super) fn word(&self, address: u32) -> Option<u32> {
        let at = self.segments.partition_point(|segment| segment.0 <= address).checked_sub(1)?;
        let (start, data) = self.segments[at];
        let bytes = data.get((address - start) as usize..)?.get(..4)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// The loaded words from an address to its segment's end.
    pub(super) fn words(&self, address: u32) -> Vec<u32> {
        let Some(at) = self.segments.partition_point(|segment| segment.0 <= address).checked_sub(1)
        else {
            return vec![];
        };
        let (start, data) = self.segments[at];
        let rest = data.get((address - start) as usize..).unwrap_or_default();
        rest.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect()
    }
}

/// A called routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Routine {
    Barrier,
    Sample,
    Kernel(Kernel),
}

/// Routines by entry, and that their ranges are reserved on every tile.
pub(super) fn routines(
    application: &Application,
    violations: &mut Violations,
) -> BTreeMap<u32, Routine> {
    let mut routines = BTreeMap::new();
    for symbol in &application.debug_symbols {
        let routine = match symbol.name.as_str() {
            "runtime.barrier" => Some(Routine::Barrier),
            "runtime.sample" => Some(Routine::Sample),
            name => Kernel::from_symbol(name).map(Routine::Kernel),
        };
        let known = routine.map(|routine| routines.insert(symbol.address, routine).is_none());
        if known != Some(true) {
            let what = format!("symbol `{}` is unknown, or shares its address", symbol.name);
            violations.add(Violation::Image { what });
        }
    }
    let bytes = |routine: &Routine| match routine {
        Routine::Kernel(kernel) => kernel.code_bytes(),
        _ => crate::program::code::ROUTINE_BYTES,
    };
    for image in &application.tiles {
        let reserved: BTreeMap<u32, u32> =
            image.segments.iter().map(|segment| (segment.address, segment.memory_size)).collect();
        let missing = routines
            .iter()
            .find(|(address, routine)| reserved.get(*address) != Some(&bytes(routine)));
        if let Some((address, _)) = missing {
            let tile = image.physical_tile;
            let what = format!("tile {tile}: no code range is reserved at {address:#x}");
            violations.add(Violation::Image { what });
        }
    }
    routines
}

/// The word behind the entry, where a program stops.
const STOP: u32 = ENTRY.0 + 4;
/// Most instructions of a program: every word that can be executed, once.
const MOST_INSTRUCTIONS: u32 = (EXECUTABLE_END.0 - LOAD_START.0) / 4;

/// What an image's program does, from its entry to its stop, or until it has done more than `most`
/// things: a program that does more is wrong whatever follows.
pub(super) fn actions(
    image: &Image<'_>,
    routines: &BTreeMap<u32, Routine>,
    most: usize,
    violations: &mut Violations,
) -> Vec<Action> {
    let mut actions = vec![];
    let mut m = [0_u32; 16];
    let mut pc = image.entry;
    if pc != ENTRY.0 {
        let what = "execution does not start at the entry".to_owned();
        violations.add(Violation::Instruction { tile: image.tile, address: pc, what });
    }
    for _ in 0..MOST_INSTRUCTIONS {
        let mut wrong = |what: String| {
            violations.add(Violation::Instruction { tile: image.tile, address: pc, what });
        };
        if actions.len() > most {
            return actions;
        }
        let Some(word) = image.word(pc) else {
            wrong("nothing is loaded here".to_owned());
            return actions;
        };
        let instruction = match decode(&[word]) {
            Ok((instruction, _)) => instruction,
            Err(error) => {
                wrong(error.to_string());
                return actions;
            }
        };
        let next = pc + 4;
        match instruction {
            Instruction::Setzi { register, immediate } if register < 15 => {
                m[usize::from(register)] = immediate;
            }
            Instruction::Shl { register, source, immediate } if register < 15 && immediate < 32 => {
                m[usize::from(register)] = m[usize::from(source)] << immediate;
            }
            Instruction::Add { register, source, immediate } if register < 15 => {
                m[usize::from(register)] =
                    m[usize::from(source)].wrapping_add_signed(immediate.into());
            }
            Instruction::Put { register, special } => {
                actions.push(Action::Put(special, m[usize::from(register)]));
            }
            Instruction::Sync { zone } => actions.push(Action::Sync(zone)),
            Instruction::Sans { selector } => actions.push(Action::Sans(selector)),
            Instruction::Call { register: 10, target } => match routines.get(&target) {
                Some(Routine::Barrier) => actions.push(Action::Barrier),
                Some(Routine::Sample) => actions.push(Action::Sample(m[2])),
                Some(Routine::Kernel(kernel)) => {
                    actions.push(Action::Kernel(*kernel, m[2..10].to_vec()));
                }
                // The first call from the entry goes into the program.
                None if pc == ENTRY.0 => {
                    pc = target;
                    continue;
                }
                None => actions.push(Action::Row(target)),
            },
            // Generated programs have no loops: the only jump is to the stop.
            Instruction::Bri { target: STOP } => {
                pc = STOP;
                continue;
            }
            Instruction::Trap { immediate: 0 } if pc == STOP => return actions,
            other => {
                wrong(format!("{other:?} does not belong into a tile program"));
                return actions;
            }
        }
        pc = next;
    }
    let what = "the program has no end".to_owned();
    violations.add(Violation::Instruction { tile: image.tile, address: pc, what });
    actions
}

/// What every program does before its first step.
pub(super) fn prologue() -> Vec<Action> {
    vec![
        Action::Sync(3),
        Action::Put(special::INCOMING_MUX, NO_SOURCE.into()),
        Action::Put(special::OUTGOING_BASE, 0),
        Action::Sample(START_CYCLE.0),
    ]
}

/// What every program does after its last step; `sample` is the address of the last sample.
pub(super) fn epilogue(sample: u32) -> Vec<Action> {
    vec![Action::Sample(sample), Action::Sample(END_CYCLE.0)]
}

/// What surrounds a row: for a tile that takes part, and for one that sits the phase out.
pub(super) fn around_row(active: bool) -> Vec<Action> {
    if !active {
        return vec![Action::Sans(0), Action::Sync(1)];
    }
    vec![
        Action::Put(special::INCOMING_BASE, 0),
        Action::Put(special::OUTGOING_BASE, 0),
        Action::Barrier,
        Action::Put(special::INCOMING_DCOUNT, 1),
        Action::Sync(3),
    ]
}
