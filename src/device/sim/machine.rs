//! Tiles that run supervisor programs, and the synchronizations between them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::device::{DeviceError, StepCycles};
use crate::kernels::{Kernel, Memory, execute};
use crate::package::{Application, TileImage};
use crate::target::instruction::{LINK_REGISTER, ZERO_REGISTER, special};
use crate::target::sram::{EXECUTABLE_END, MEMORY_END, MEMORY_START};
use crate::target::{Instruction, NO_SOURCE, PhysicalTile, Pic, TileId, Xpic, decode};

use super::exchange::{Arrival, arrivals, lanes};
use super::rows::{self, Registers, RowEvents};
use super::silicon::Silicon;
use super::transport::payloads;

/// What a call can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routine {
    /// Waits for workers.
    Barrier,
    /// Stores the cycle counter.
    Sample,
    /// A kernel.
    Kernel(Kernel),
}

/// Why a tile stopped running for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// At a synchronization of this zone.
    Sync(u8),
    /// For good.
    Stop,
}

/// Zone of a tile that exchanges (`target/ipu21.md` §2.8).
const ZONE_EXCHANGE: u8 = 3;
/// Zone of a tile that sits a phase out.
const ZONE_IDLE: u8 = 1;

/// The special registers that exchange depends on.
#[derive(Clone, Copy, Debug)]
struct Specials {
    incoming_base: u32,
    outgoing_base: u32,
    incoming_mux: u32,
    incoming_dcount: u32,
    /// What the last row left selected in the paired stream.
    paired_source: u16,
    /// The format that the last row left.
    format: u32,
}

impl Specials {
    fn find(&mut self, number: u8) -> Option<&mut u32> {
        match number {
            special::INCOMING_BASE => Some(&mut self.incoming_base),
            special::OUTGOING_BASE => Some(&mut self.outgoing_base),
            special::INCOMING_MUX => Some(&mut self.incoming_mux),
            special::INCOMING_DCOUNT => Some(&mut self.incoming_dcount),
            _ => None,
        }
    }
}

struct Tile {
    id: TileId,
    memory: Vec<u8>,
    pc: u32,
    m: [u32; 16],
    specials: Specials,
    clock: u64,
    samples: Vec<u64>,
    pause: Pause,
}

/// A finished run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// From the first sample of the earliest tile to the end of the last.
    pub cycles: u64,
    /// Steps between samples.
    pub steps: Vec<StepCycles>,
}

/// The loaded chip.
pub struct Machine<'a> {
    silicon: &'a Silicon,
    routines: BTreeMap<u32, Routine>,
    tiles: Vec<Tile>,
}

/// Instructions that a tile may run between two synchronizations: far above any real program.
const MOST_INSTRUCTIONS: u64 = 50_000_000;

impl<'a> Machine<'a> {
    /// Loads a package.
    ///
    /// # Errors
    /// If the images are not those of the logical tiles `0..n`.
    pub fn load(
        application: &Application,
        silicon: &'a Silicon,
        routines: BTreeMap<u32, Routine>,
    ) -> Result<Machine<'a>, DeviceError> {
        let mut tiles: Vec<Tile> =
            application.tiles.par_iter().map(Tile::load).collect::<Result<_, DeviceError>>()?;
        tiles.sort_by_key(|tile| tile.id);
        if (0..).map(TileId).zip(&tiles).any(|(id, tile)| id != tile.id) {
            return Err(DeviceError::Data(
                "the images are not those of tiles 0, 1, 2, …".to_owned(),
            ));
        }
        Ok(Machine { silicon, routines, tiles })
    }

    /// Writes host data to its places: physical tile, address, range of the byte string.
    ///
    /// # Errors
    /// If the byte string is too short.
    pub fn write(
        &mut self,
        places: &[(u32, u32, std::ops::Range<usize>)],
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        for (tile, address, range) in places {
            let piece = bytes.get(range.clone()).ok_or_else(|| {
                DeviceError::Data(format!("{} bytes of host data, more are needed", bytes.len()))
            })?;
            let index = self.index(*tile)?;
            self.tiles[index].write(*address, piece)?;
        }
        Ok(())
    }

    /// Reads host data from its places.
    ///
    /// # Errors
    /// Never for places that a package reader accepted.
    pub fn read(
        &self,
        places: &[(u32, u32, std::ops::Range<usize>)],
    ) -> Result<Vec<u8>, DeviceError> {
        let length = places.iter().map(|(_, _, range)| range.end).max().unwrap_or(0);
        let mut bytes = vec![0; length];
        for (tile, address, range) in places {
            let tile = &self.tiles[self.index(*tile)?];
            bytes[range.clone()].copy_from_slice(tile.bytes(*address, range.len() as u64)?);
        }
        Ok(bytes)
    }

    /// Place of a physical tile in `tiles`.
    fn index(&self, physical: u32) -> Result<usize, DeviceError> {
        let number = u16::try_from(physical).ok().and_then(PhysicalTile::new);
        let index = number.map(|tile| usize::from(tile.logical().0));
        index.filter(|index| *index < self.tiles.len()).ok_or_else(|| {
            DeviceError::Data(format!("host data for tile {physical}, which has no image"))
        })
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    /// The fault of the lowest tile that has one.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<Run, DeviceError> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(DeviceError::Stopped);
            }
            let (silicon, routines) = (self.silicon, &self.routines);
            let results: Vec<_> =
                self.tiles.par_iter_mut().map(|tile| tile.run(silicon, routines)).collect();
            results.into_iter().collect::<Result<Vec<()>, _>>()?;
            let stopped = self.tiles.iter().filter(|tile| tile.pause == Pause::Stop).count();
            if stopped == self.tiles.len() {
                return Ok(self.finished());
            }
            if stopped > 0 {
                let waiting = self.tiles.iter().find(|tile| tile.pause != Pause::Stop);
                let waiting = waiting.expect("not all tiles stopped");
                return Err(waiting.fault("it waits for tiles that have stopped".to_owned()));
            }
            self.exchange()?;
        }
    }

    /// All tiles have arrived: the next call, if it is one, is a row.
    fn exchange(&mut self) -> Result<(), DeviceError> {
        let start = self.tiles.iter().map(|tile| tile.clock).max().unwrap_or(0) + self.silicon.sync;
        let instruction = self.silicon.instruction;
        let routines = &self.routines;
        let called: Vec<Option<RowEvents>> =
            self.tiles.par_iter().map(|tile| tile.row(routines)).collect::<Result<_, _>>()?;
        let calls: Vec<bool> = called.iter().map(Option::is_some).collect();
        let rows: Vec<RowEvents> = called.into_iter().map(Option::unwrap_or_default).collect();
        lanes(&rows).map_err(|(tile, what)| self.tiles[usize::from(tile.0)].fault(what))?;
        let tiles = &self.tiles;
        let moved: Vec<Vec<Arrival>> = self
            .tiles
            .par_iter()
            .map(|tile| arrivals(tile.id, &rows).map_err(|what| tile.fault(what)))
            .collect::<Result<_, _>>()?;
        let read = |tile: usize, from: u32, count: u32| {
            tiles[tile].bytes(from, u64::from(count)).map(<[u8]>::to_vec)
        };
        let written = payloads(&moved, read)?;
        let pieces = moved.into_par_iter().zip(written);
        let writes = self.tiles.par_iter_mut().zip(pieces).zip(rows.par_iter().zip(&calls));
        let results: Vec<Result<(), DeviceError>> = writes
            .map(|((tile, (moved, written)), (row, calls))| {
                for (arrival, bytes) in moved.iter().zip(written) {
                    tile.write(arrival.to, &bytes)?;
                }
                tile.release(row);
                tile.clock = start;
                if *calls {
                    tile.specials.outgoing_base = row.outgoing_base;
                    tile.pc += 4;
                    tile.m[usize::from(LINK_REGISTER)] = tile.pc;
                    tile.clock += instruction + u64::from(row.horizon);
                }
                Ok(())
            })
            .collect();
        results.into_iter().collect()
    }

    fn finished(&self) -> Run {
        let first = self.tiles.iter().filter_map(|tile| tile.samples.first()).min();
        let origin = first.copied().unwrap_or(0);
        let samples = self.tiles.iter().map(|tile| tile.samples.len()).min().unwrap_or(0);
        // Samples: start, one before every step, one after the last, end.
        let latest = |index: usize| {
            let at = self.tiles.iter().filter_map(|tile| tile.samples.get(index));
            at.max().copied().unwrap_or(0) - origin
        };
        let steps = (1..samples.saturating_sub(2))
            .map(|index| StepCycles { arrival: latest(index), end: latest(index + 1) })
            .collect();
        Run { cycles: latest(samples.saturating_sub(1)), steps }
    }
}

impl Tile {
    /// A tile with its image in memory, at its entry.
    fn load(image: &TileImage) -> Result<Tile, DeviceError> {
        let number = u16::try_from(image.physical_tile).ok().and_then(PhysicalTile::new);
        let Some(id) = number.map(PhysicalTile::logical) else {
            return Err(DeviceError::Data(format!("there is no tile {}", image.physical_tile)));
        };
        let mut tile = Tile {
            id,
            // Zeroed pages cost nothing until they are touched.
            memory: vec![0; (MEMORY_END - MEMORY_START).0 as usize],
            pc: image.entry_point,
            m: [0; 16],
            specials: Specials {
                incoming_base: 0,
                outgoing_base: 0,
                incoming_mux: u32::from(NO_SOURCE),
                incoming_dcount: 0,
                paired_source: NO_SOURCE,
                format: 0,
            },
            clock: 0,
            samples: vec![],
            pause: Pause::Sync(ZONE_EXCHANGE),
        };
        for segment in &image.segments {
            tile.write(segment.address, &segment.data)?;
        }
        Ok(tile)
    }

    fn fault(&self, what: String) -> DeviceError {
        DeviceError::Fault { tile: self.id.0, pc: self.pc, what }
    }

    fn bytes(&self, address: u32, count: u64) -> Result<&[u8], DeviceError> {
        let start = u64::from(address).wrapping_sub(u64::from(MEMORY_START.0)) as usize;
        let found = self.memory.get(start..start.saturating_add(count as usize));
        found.ok_or_else(|| self.fault(format!("{count} bytes at {address:#x} are not in memory")))
    }

    fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), DeviceError> {
        self.bytes(address, bytes.len() as u64)?;
        let start = (address - MEMORY_START.0) as usize;
        self.memory[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn word(&self, address: u32) -> Result<u32, DeviceError> {
        let bytes = self.bytes(address, 4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn fetch(&self) -> Result<Instruction, DeviceError> {
        if self.pc >= EXECUTABLE_END.0 || !self.pc.is_multiple_of(4) {
            return Err(self.fault("this address cannot be executed".to_owned()));
        }
        let word = self.word(self.pc)?;
        let (instruction, _) = decode(&[word]).map_err(|error| self.fault(error.to_string()))?;
        Ok(instruction)
    }

    fn set(&mut self, register: u8, value: u32) {
        if register != ZERO_REGISTER {
            self.m[usize::from(register)] = value;
        }
    }

    /// Address of a load or store.
    fn place(&self, base: u8, delta: u8, offset: u16) -> u32 {
        let (base, delta) = (self.m[usize::from(base)], self.m[usize::from(delta)]);
        base.wrapping_add(delta).wrapping_add(4 * u32::from(offset))
    }

    fn special(&mut self, number: u8) -> Result<&mut u32, DeviceError> {
        let unknown = self.fault(format!("the special register {number:#x} does not belong here"));
        self.specials.find(number).ok_or(unknown)
    }

    /// After a row: what it left selected stays selected, and the format stays.
    fn release(&mut self, row: &RowEvents) {
        let last = |paired| row.selects.iter().rfind(|(_, xpic)| xpic.paired == paired);
        if let Some((_, last)) = last(false) {
            self.specials.incoming_mux = u32::from(last.source);
        }
        if let Some((_, last)) = last(true) {
            self.specials.paired_source = last.source;
        }
        if let Some((_, last)) = row.pics.iter().rfind(|(_, pic)| pic.format) {
            self.specials.format = last.value;
        }
    }

    /// The row with what it finds selected, and the format that it finds.
    fn entered(&self, mut row: RowEvents) -> Result<RowEvents, DeviceError> {
        if self.pause == Pause::Sync(ZONE_IDLE) && row.horizon > 0 {
            return Err(self.fault("it exchanges in a phase that it sits out".to_owned()));
        }
        let selected = self.specials.incoming_mux as u16;
        if selected != NO_SOURCE {
            row.selects.insert(0, (0, Xpic { paired: false, source: selected }));
        }
        let source = self.specials.paired_source;
        if source != NO_SOURCE {
            row.selects.insert(0, (0, Xpic { paired: true, source }));
        }
        let value = self.specials.format;
        if value != 0 {
            row.pics.insert(0, (0, Pic { format: true, value }));
        }
        Ok(row)
    }

    /// Runs to the next synchronization or to the end.
    fn run(
        &mut self,
        silicon: &Silicon,
        routines: &BTreeMap<u32, Routine>,
    ) -> Result<(), DeviceError> {
        for _ in 0..MOST_INSTRUCTIONS {
            let instruction = self.fetch()?;
            self.clock += silicon.instruction;
            self.pc += 4;
            match instruction {
                Instruction::Sync { zone: zone @ (ZONE_EXCHANGE | ZONE_IDLE) } => {
                    self.pause = Pause::Sync(zone);
                    return Ok(());
                }
                Instruction::Trap { immediate: 0 } => {
                    self.pause = Pause::Stop;
                    return Ok(());
                }
                Instruction::Trap { immediate } => {
                    self.pc -= 4;
                    return Err(self.fault(format!("trap {immediate}")));
                }
                Instruction::Sans { .. } | Instruction::Nop => {}
                Instruction::Setzi { register, immediate } => self.set(register, immediate),
                Instruction::Shl { register, source, immediate } => {
                    let value = self.m[usize::from(source)].checked_shl(immediate.into());
                    self.set(register, value.unwrap_or(0));
                }
                Instruction::Add { register, source, immediate } => {
                    let value = self.m[usize::from(source)].wrapping_add_signed(immediate.into());
                    self.set(register, value);
                }
                Instruction::And { register, source, immediate } => {
                    self.set(register, self.m[usize::from(source)] & u32::from(immediate));
                }
                Instruction::Put { register, special } => {
                    let value = self.m[usize::from(register)];
                    *self.special(special)? = value;
                }
                Instruction::Get { register, special } => {
                    let value = *self.special(special)?;
                    self.set(register, value);
                }
                Instruction::Ld32 { register, base, delta, offset } => {
                    let value = self.word(self.place(base, delta, offset))?;
                    self.set(register, value);
                }
                Instruction::St32 { register, base, delta, offset } => {
                    let value = self.m[usize::from(register)].to_le_bytes();
                    self.write(self.place(base, delta, offset), &value)?;
                }
                Instruction::Brz { register, target } => {
                    if self.m[usize::from(register)] == 0 {
                        self.pc = target;
                    }
                }
                Instruction::Br { register } => self.pc = self.m[usize::from(register)],
                Instruction::Bri { target } => self.pc = target,
                Instruction::Call { register, target } => {
                    self.set(register, self.pc);
                    match routines.get(&target) {
                        Some(routine) => self.routine(*routine, silicon)?,
                        None => self.pc = target,
                    }
                }
                other => {
                    self.pc -= 4;
                    return Err(self.fault(format!("{other:?} does not belong here")));
                }
            }
        }
        Err(self.fault("it runs without end".to_owned()))
    }

    fn routine(&mut self, routine: Routine, silicon: &Silicon) -> Result<(), DeviceError> {
        match routine {
            Routine::Barrier => self.clock += silicon.barrier,
            Routine::Sample => {
                let counter = (self.clock as u32).to_le_bytes();
                self.write(self.m[2], &counter)?;
                self.samples.push(self.clock);
                self.clock += silicon.sample;
            }
            Routine::Kernel(kernel) => {
                let mut registers = [0; 8];
                registers.copy_from_slice(&self.m[2..10]);
                let result = execute(&kernel, &mut Memory::new(&mut self.memory), &registers);
                result.map_err(|fault| self.fault(format!("{}: {fault}", kernel.symbol())))?;
                self.clock += silicon.cycles(&kernel, &registers);
            }
        }
        Ok(())
    }

    /// The row that the next instruction calls; `None` if it calls none.
    fn row(&self, routines: &BTreeMap<u32, Routine>) -> Result<Option<RowEvents>, DeviceError> {
        let Instruction::Call { register: LINK_REGISTER, target } = self.fetch()? else {
            return Ok(None);
        };
        if routines.contains_key(&target) {
            return Ok(None);
        }
        self.bytes(target, 4)?;
        let available = (self.memory.len() - (target - MEMORY_START.0) as usize) / 4;
        let Specials { incoming_base, outgoing_base, .. } = self.specials;
        let registers = Registers { incoming_base, outgoing_base, m: self.m };
        // A row ends with its return, at an unknown place: short rows stay cheap this way.
        let mut length = 16;
        loop {
            let count = available.min(length);
            let bytes = self.bytes(target, 4 * count as u64)?.chunks_exact(4);
            let words: Vec<u32> =
                bytes.map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
            match rows::read(&words, target, &registers) {
                Ok(row) => return self.entered(row).map(Some),
                Err(what) if count == available => return Err(self.fault(what)),
                Err(_) => length *= 8,
            }
        }
    }
}
