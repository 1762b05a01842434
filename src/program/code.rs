//! Generated tile programs: the supervisor instructions that every tile runs around rows and
//! kernels (`target/ipu21.md` §2.8, §4.6).
//!
//! A program takes a cycle sample before every step and after the last one, synchronizes before
//! every exchange whether it takes part or not, and ends at [`STOP`].

use std::collections::BTreeMap;

use crate::kernels::Kernel;
use crate::target::instruction::{LINK_REGISTER, ZERO_REGISTER, special};
use crate::target::sram::{END_CYCLE, ENTRY, START_CYCLE};
use crate::target::{Address, Bytes, Instruction, NO_SOURCE, TileId};

use super::link::{Addresses, BufferId, Program, StepKind};
use super::segment::{Call, Place};

/// Symbol of the routine that waits until all workers are idle. `m10` return address.
pub const BARRIER: &str = "runtime.barrier";
/// Symbol of the routine that stores the cycle counter at the address in `m2`.
pub const SAMPLE: &str = "runtime.sample";
/// Bytes reserved for each runtime routine.
pub const ROUTINE_BYTES: u32 = 32;
/// Where a program stops: the word after the entry.
pub const STOP: Address = Address(ENTRY.0 + 4);

/// Where everything lies that a tile program refers to.
#[derive(Clone, Debug, Default)]
pub struct Linkage {
    /// Entry of [`BARRIER`].
    pub barrier: u32,
    /// Entry of [`SAMPLE`].
    pub sample: u32,
    /// Entries of all kernels.
    pub kernels: BTreeMap<Kernel, Address>,
    /// First cycle sample.
    pub profile: u32,
}

/// Calls of one tile in one step, with the buffers that their places mean.
pub type TileCalls<'a> = Vec<(&'a [BufferId], &'a Call)>;

/// Calls of every tile in every step: `[step][tile]`.
pub fn calls_by_tile(program: &Program) -> Vec<Vec<TileCalls<'_>>> {
    program.steps.iter().map(|step| calls_of_step(program.tiles, step)).collect()
}

fn calls_of_step(tiles: u16, step: &super::Step) -> Vec<TileCalls<'_>> {
    let mut calls: Vec<TileCalls<'_>> = vec![vec![]; tiles.into()];
    for (part, call) in step.calls() {
        calls[usize::from(call.tile.0)].push((&part.buffers, call));
    }
    calls
}

/// All kernels that a program calls, ascending.
pub fn kernels(program: &Program) -> Vec<Kernel> {
    let mut kernels: Vec<Kernel> =
        program.steps.iter().flat_map(|step| step.calls().map(|(_, call)| call.kernel)).collect();
    kernels.sort_unstable();
    kernels.dedup();
    kernels
}

/// The words at the entry: call the program, then stop.
pub fn entry_words(program: Address) -> [u32; 2] {
    let call = Instruction::Call { register: LINK_REGISTER, target: program.0 };
    [word(call), word(Instruction::Trap { immediate: 0 })]
}

/// Builds one tile's program.
#[derive(Default)]
struct Code {
    words: Vec<u32>,
}

fn word(instruction: Instruction) -> u32 {
    let encoded =
        instruction.encode().expect("operands are addresses, registers and 20-bit constants");
    encoded.as_slice()[0]
}

impl Code {
    fn push(&mut self, instruction: Instruction) {
        self.words.push(word(instruction));
    }

    /// A constant; one instruction up to 20 bits, three above.
    fn set(&mut self, register: u8, value: u32) {
        if value < 1 << 20 {
            self.push(Instruction::Setzi { register, immediate: value });
            return;
        }
        self.push(Instruction::Setzi { register, immediate: value >> 12 });
        self.push(Instruction::Shl { register, source: register, immediate: 12 });
        let low = (value & 0xfff) as i16;
        self.push(Instruction::Add { register, source: register, immediate: low });
    }

    fn call(&mut self, target: u32) {
        self.push(Instruction::Call { register: LINK_REGISTER, target });
    }

    fn sample(&mut self, linkage: &Linkage, address: u32) {
        self.set(2, address);
        self.call(linkage.sample);
    }

    fn put(&mut self, register: u8, special: u8) {
        self.push(Instruction::Put { register, special });
    }

    fn exchange(&mut self, linkage: &Linkage, row: Option<Address>, idle_row: u32) {
        let Some(row) = row else {
            self.push(Instruction::Sans { selector: 0 });
            self.push(Instruction::Sync { zone: 1 });
            self.call(idle_row);
            return;
        };
        self.set(8, 0);
        self.put(8, special::INCOMING_BASE);
        self.put(ZERO_REGISTER, special::OUTGOING_BASE);
        self.call(linkage.barrier);
        self.set(8, 1);
        self.put(8, special::INCOMING_DCOUNT);
        self.push(Instruction::Sync { zone: 3 });
        self.call(row.0);
    }
}

/// A tile's rows: the address of its row in every exchange step it takes part in, by step.
pub type RowAddresses = BTreeMap<usize, Address>;

/// The words of one tile's program. `calls` has one entry a step (none for tiles outside the
/// program); `idle_row` is the address of a row that only returns.
pub fn tile_program(
    program: &Program,
    tile: TileId,
    calls: &[&[(&[BufferId], &Call)]],
    addresses: &Addresses,
    linkage: &Linkage,
    rows: &RowAddresses,
    idle_row: u32,
) -> Vec<u32> {
    let mut code = Code::default();
    code.push(Instruction::Sync { zone: 3 });
    code.set(8, NO_SOURCE.into());
    code.put(8, special::INCOMING_MUX);
    code.put(ZERO_REGISTER, special::OUTGOING_BASE);
    code.sample(linkage, START_CYCLE.0);
    for (index, step) in program.steps.iter().enumerate() {
        code.sample(linkage, linkage.profile + 4 * index as u32);
        match step.kind {
            StepKind::Exchange(_) => code.exchange(linkage, rows.get(&index).copied(), idle_row),
            StepKind::Compute => {
                for (buffers, call) in calls.get(index).copied().unwrap_or_default() {
                    kernel_call(&mut code, tile, buffers, call, addresses, linkage);
                }
            }
        }
    }
    code.sample(linkage, linkage.profile + 4 * program.steps.len() as u32);
    code.sample(linkage, END_CYCLE.0);
    code.push(Instruction::Bri { target: STOP.0 });
    code.words
}

fn kernel_call(
    code: &mut Code,
    tile: TileId,
    buffers: &[BufferId],
    call: &Call,
    addresses: &Addresses,
    linkage: &Linkage,
) {
    let place = |place: &Place| {
        let start = addresses.get(buffers[place.buffer.0 as usize], tile);
        let start = start.unwrap_or(Address(0));
        (start + Bytes(place.offset)).0
    };
    let values = std::iter::once(place(&call.output))
        .chain(call.inputs.iter().map(place))
        .chain(call.scalars.iter().copied());
    for (register, value) in (2..).zip(values) {
        code.set(register, value);
    }
    let kernel = linkage.kernels.get(&call.kernel).copied();
    code.call(kernel.unwrap_or(Address(0)).0);
}
