//! From a placed program to an application: tile images, bindings, names and plans.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::model::Graph;
use crate::plan::Network;
use crate::program::code::{self, Linkage, RowAddresses};
use crate::program::{Addresses, Buffer, BufferId, Program, Role, StepKind};
use crate::target::sram::{END_CYCLE, ENTRY, LOAD_START, START_CYCLE};
use crate::target::{Address, Instruction, TILES, TileId};

use super::application::{
    Application, Binding, DebugRegion, DebugSymbol, EntryPoint, Origin, PROFILE_BINDINGS,
    RegionSlice, Segment, Step, StepKind as ProfileKind, TileImage, TileProfilePlan,
};
use super::host;
use super::table::RowTable;

/// Segment flags: read and execute.
const CODE: u32 = 1 | 4;

/// A routine of the runtime or a kernel: a name, its entry and the bytes reserved for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routine {
    /// Its symbol.
    pub name: String,
    /// Its entry, the same on all tiles.
    pub address: Address,
    /// Bytes of its code range.
    pub bytes: u32,
}

/// One tile's row of one exchange step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseRow {
    /// The tile.
    pub tile: TileId,
    /// Instruction words.
    pub words: Vec<u32>,
}

/// Everything that an application is made of.
pub struct Image<'a> {
    /// The model.
    pub graph: &'a Graph,
    /// The model as it is planned.
    pub network: &'a Network,
    /// What happens.
    pub program: &'a Program,
    /// Where buffers lie.
    pub addresses: &'a Addresses,
    /// Runtime routines and kernels.
    pub routines: &'a [Routine],
    /// First byte of every tile's program.
    pub code: Address,
    /// First byte of every tile's exchange table.
    pub rows_start: Address,
    /// First cycle sample.
    pub profile: Address,
    /// For every exchange step, by number: its rows and its horizon.
    pub rows: &'a BTreeMap<usize, (Vec<PhaseRow>, u32)>,
    /// What made it.
    pub origin: Origin,
}

impl Image<'_> {
    /// Number of images: tiles are loaded in batches of 64 (`target/ipu21.md` §7.1).
    fn images(&self) -> u16 {
        self.program.tiles.next_multiple_of(64).min(TILES)
    }

    /// The application.
    pub fn assemble(&self) -> Application {
        let rows_of_tile = self.rows_by_tile();
        let calls = code::calls_by_tile(self.program);
        let linkage = self.linkage();
        let tiles: Vec<TileImage> = (0..self.images())
            .into_par_iter()
            .map(|tile| {
                let calls: Vec<&[_]> = calls
                    .iter()
                    .filter_map(|step| step.get(usize::from(tile)))
                    .map(Vec::as_slice)
                    .collect();
                self.tile(TileId(tile), &calls, &rows_of_tile[usize::from(tile)], &linkage)
            })
            .collect();
        let [inputs, mut outputs, weights] =
            [Role::Input, Role::Output, Role::Parameter].map(|role| self.bindings(role));
        let host_exchange = host::host_exchange(tiles.len(), &inputs, &outputs, &weights);
        outputs.extend(self.profile_bindings());
        Application {
            compiler_version: format!("ipu-tune {}", env!("CARGO_PKG_VERSION")),
            tiles,
            inputs,
            outputs,
            weights,
            host_exchange,
            entry_points: vec![
                EntryPoint {
                    name: "initialize".to_owned(),
                    command: host::INITIALIZE,
                    external_syncs: 0,
                },
                EntryPoint { name: "run".to_owned(), command: host::RUN, external_syncs: 0 },
            ],
            device_config_writes: vec![],
            profile_tiles: self.profile_plans(),
            debug_symbols: self.symbols(),
            debug_regions: self.regions(),
            origin: self.origin.clone(),
        }
    }

    fn linkage(&self) -> Linkage {
        let entry = |name: &str| {
            let found = self.routines.iter().find(|routine| routine.name == name);
            found.map_or(Address(0), |routine| routine.address)
        };
        let kernels = code::kernels(self.program).into_iter();
        Linkage {
            barrier: entry(code::BARRIER).0,
            sample: entry(code::SAMPLE).0,
            kernels: kernels.map(|kernel| (kernel, entry(&kernel.symbol()))).collect(),
            profile: self.profile.0,
        }
    }

    /// Every tile's rows: step and words.
    fn rows_by_tile(&self) -> Vec<Vec<(usize, &[u32])>> {
        let mut rows = vec![vec![]; self.images().into()];
        for (step, (phase, _)) in self.rows {
            for row in phase {
                rows[usize::from(row.tile.0)].push((*step, row.words.as_slice()));
            }
        }
        rows
    }

    fn tile(
        &self,
        tile: TileId,
        calls: &[&[(&[BufferId], &crate::program::Call)]],
        rows: &[(usize, &[u32])],
        linkage: &Linkage,
    ) -> TileImage {
        let mut places = RowAddresses::new();
        let mut table = RowTable::default();
        for (step, words) in rows {
            places.insert(*step, self.rows_start + table.place(words));
        }
        let idle = self.rows_start.0;
        let words =
            code::tile_program(self.program, tile, calls, self.addresses, linkage, &places, idle);
        let [call, stop] = code::entry_words(self.code);
        let mut segments = vec![segment(LOAD_START, &[0, call, stop, 0])];
        let trap = trap_word();
        for routine in self.routines {
            let reserved = segment(routine.address, &[trap]);
            segments.push(Segment { memory_size: routine.bytes, ..reserved });
        }
        segments.push(segment(self.code, &words));
        segments.push(segment(self.rows_start, &table.words(return_word())));
        TileImage {
            physical_tile: tile.physical().0.into(),
            entry_point: ENTRY.0,
            segments,
            command_address: 0,
            diagnostic_address: 0,
        }
    }

    fn buffers(&self) -> impl Iterator<Item = (BufferId, &Buffer)> {
        (0..).map(BufferId).zip(&self.program.buffers)
    }

    fn bindings(&self, role: Role) -> Vec<Binding> {
        let wanted = self.buffers().filter(|(_, buffer)| buffer.role == role);
        wanted.filter_map(|(id, buffer)| self.binding(id, buffer)).collect()
    }

    fn binding(&self, id: BufferId, buffer: &Buffer) -> Option<Binding> {
        let tensor = self.graph.tensor(buffer.fill.as_ref()?.tensor(self.network)?);
        let mut slices = vec![];
        let mut file_offset = 0;
        for &(tile, size) in buffer.sizes.iter() {
            let tile_address = self.addresses.get(id, tile)?.0;
            let (tile, size) = (u32::from(tile.physical().0), u64::from(size));
            slices.push(RegionSlice { tile, tile_address, file_offset, size });
            file_offset += size;
        }
        Some(Binding {
            name: buffer.name.clone(),
            dtype: tensor.dtype.name().to_owned(),
            shape: tensor.shape.clone(),
            slices,
        })
    }

    /// Cycle samples as outputs (`target/ipu21.md` §7.2).
    fn profile_bindings(&self) -> Vec<Binding> {
        let samples = self.program.steps.len() as u32 + 1;
        let places = [(START_CYCLE.0, 1), (self.profile.0, samples), (END_CYCLE.0, 1)];
        let binding = |(name, (address, count)): (&str, (u32, u32))| Binding {
            name: name.to_owned(),
            dtype: "u32".to_owned(),
            shape: vec![self.images().into(), count],
            slices: (0..self.images())
                .map(|tile| RegionSlice {
                    tile: TileId(tile).physical().0.into(),
                    tile_address: address,
                    file_offset: u64::from(tile) * 4 * u64::from(count),
                    size: 4 * u64::from(count),
                })
                .collect(),
        };
        PROFILE_BINDINGS.into_iter().zip(places).map(binding).collect()
    }

    fn profile_plans(&self) -> Vec<TileProfilePlan> {
        let steps: Vec<Step> = self
            .program
            .steps
            .iter()
            .enumerate()
            .map(|(index, step)| {
                let names: Vec<&str> = step
                    .parts
                    .iter()
                    .map(|part| self.network.node(part.node).name.as_str())
                    .collect();
                let exchange = step.kind != StepKind::Compute;
                let horizon = self.rows.get(&index).map_or(0, |(_, horizon)| *horizon);
                Step {
                    local_index: index as u32,
                    phase: if exchange { 0x8000_0000 | index as u32 } else { index as u32 },
                    epoch: 0,
                    operation: names.join("+"),
                    kind: if exchange { ProfileKind::Exchange } else { ProfileKind::Compute },
                    exchange_event_cycles: horizon,
                    ..Step::default()
                }
            })
            .collect();
        let plan = |tile| TileProfilePlan {
            physical_tile: TileId(tile).physical().0.into(),
            steps: steps.clone(),
        };
        (0..self.images()).map(plan).collect()
    }

    fn symbols(&self) -> Vec<DebugSymbol> {
        let symbol = |routine: &Routine| DebugSymbol {
            name: routine.name.clone(),
            address: routine.address.0,
        };
        self.routines.iter().map(symbol).collect()
    }

    /// Every piece of every buffer, named.
    fn regions(&self) -> Vec<DebugRegion> {
        let pieces = self.buffers().flat_map(|(id, buffer)| {
            buffer.sizes.iter().filter_map(move |&(tile, size)| {
                let address = self.addresses.get(id, tile)?.0;
                let physical_tile = tile.physical().0.into();
                Some(DebugRegion { physical_tile, address, size, name: buffer.name.clone() })
            })
        });
        pieces.collect()
    }
}

fn word(instruction: Instruction) -> u32 {
    instruction.encode().expect("constant operands fit").as_slice()[0]
}

/// What fills reserved code.
fn trap_word() -> u32 {
    word(Instruction::Trap { immediate: 1 })
}

fn return_word() -> u32 {
    word(Instruction::Br { register: crate::target::instruction::LINK_REGISTER })
}

fn segment(address: Address, words: &[u32]) -> Segment {
    let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Segment { address: address.0, memory_size: data.len() as u32, data, flags: CODE }
}
