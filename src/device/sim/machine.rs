//! Tiles that run supervisor programs, and the synchronizations between them.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::device::{DeviceError, StepCycles};
use crate::kernels::{Kernel, Memory, execute};
use crate::package::Application;
use crate::target::instruction::{LINK_REGISTER, ZERO_REGISTER};
use crate::target::sram::{EXECUTABLE_END, MEMORY_END, MEMORY_START};
use crate::target::{Instruction, PhysicalTile, TileId, decode};

use super::exchange::{Arrival, arrivals};
use super::rows::{self, RowEvents};
use super::silicon::Silicon;

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
    /// At a synchronization.
    Sync,
    /// For good.
    Stop,
}

struct Tile {
    id: TileId,
    memory: Vec<u8>,
    pc: u32,
    m: [u32; 16],
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
        let mut tiles: Vec<Tile> = application
            .tiles
            .par_iter()
            .map(|image| {
                let id = PhysicalTile(image.physical_tile as u16).logical();
                let mut memory = vec![0; (MEMORY_END - MEMORY_START).0 as usize];
                for segment in &image.segments {
                    let at = (segment.address - MEMORY_START.0) as usize;
                    memory[at..at + segment.data.len()].copy_from_slice(&segment.data);
                }
                let (pc, m, clock) = (image.entry_point, [0; 16], 0);
                Tile { id, memory, pc, m, clock, samples: vec![], pause: Pause::Sync }
            })
            .collect();
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
            let tile = PhysicalTile(*tile as u16).logical();
            let at = (address - MEMORY_START.0) as usize;
            self.tiles[usize::from(tile.0)].memory[at..at + piece.len()].copy_from_slice(piece);
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
            let tile = PhysicalTile(*tile as u16).logical();
            let at = (address - MEMORY_START.0) as usize;
            let memory = &self.tiles[usize::from(tile.0)].memory;
            bytes[range.clone()].copy_from_slice(&memory[at..at + range.len()]);
        }
        Ok(bytes)
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    /// The fault of the lowest tile that has one.
    pub fn run(&mut self) -> Result<Run, DeviceError> {
        loop {
            let (silicon, routines) = (self.silicon, &self.routines);
            let results: Vec<_> =
                self.tiles.par_iter_mut().map(|tile| tile.run(silicon, routines)).collect();
            results.into_iter().collect::<Result<Vec<()>, _>>()?;
            let stopped = self.tiles.iter().filter(|tile| tile.pause == Pause::Stop).count();
            if stopped == self.tiles.len() {
                return Ok(self.finished());
            }
            if stopped > 0 {
                let waiting = self.tiles.iter().find(|tile| tile.pause == Pause::Sync);
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
        let tiles = &self.tiles;
        let moved: Vec<Vec<Arrival>> = self
            .tiles
            .par_iter()
            .map(|tile| arrivals(tile.id, &rows).map_err(|what| tile.fault(what)))
            .collect::<Result<_, _>>()?;
        let written: Vec<Pieces> = if forwards(&moved) {
            in_order(tiles, &moved)?
        } else {
            let read = |arrival: &Arrival| {
                let bytes = u64::from(arrival.items * arrival.item_bytes);
                let source = &tiles[usize::from(arrival.source.0)];
                Ok((arrival.to, source.bytes(arrival.from, bytes)?.to_vec()))
            };
            moved
                .par_iter()
                .map(|arrivals| arrivals.iter().map(read).collect())
                .collect::<Result<_, DeviceError>>()?
        };
        let writes = self.tiles.par_iter_mut().zip(written).zip(rows.par_iter().zip(&calls));
        let results: Vec<Result<(), DeviceError>> = writes
            .map(|((tile, pieces), (row, calls))| {
                for (to, bytes) in pieces {
                    tile.write(to, &bytes)?;
                }
                tile.clock = start;
                if *calls {
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

/// Bytes to be written on a tile, with their addresses.
type Pieces = Vec<(u32, Vec<u8>)>;

/// Whether any tile sends what it receives in the same phase.
fn forwards(moved: &[Vec<Arrival>]) -> bool {
    let mut written: Vec<Vec<(u32, u32)>> = moved
        .iter()
        .map(|arrivals| arrivals.iter().map(|a| (a.to, a.to + a.items * a.item_bytes)).collect())
        .collect();
    written.iter_mut().for_each(|spans| spans.sort_unstable());
    moved.iter().flatten().any(|arrival| {
        let spans = &written[usize::from(arrival.source.0)];
        let end = arrival.from + arrival.items * arrival.item_bytes;
        let at = spans.partition_point(|span| span.1 <= arrival.from);
        spans.get(at).is_some_and(|span| span.0 < end)
    })
}

/// Items one by one in the order of the event clock: what is read at an event is what was written
/// before it.
fn in_order(tiles: &[Tile], moved: &[Vec<Arrival>]) -> Result<Vec<Pieces>, DeviceError> {
    // (event, reads first, receiver, arrival, item)
    let mut events: Vec<(u32, bool, usize, usize, u32)> = vec![];
    for (tile, arrivals) in moved.iter().enumerate() {
        for (index, arrival) in arrivals.iter().enumerate() {
            for item in 0..arrival.items {
                events.push((arrival.sent + item, true, tile, index, item));
                events.push((arrival.written + item, false, tile, index, item));
            }
        }
    }
    events.sort_unstable();
    let mut flying: BTreeMap<(usize, usize, u32), Vec<u8>> = BTreeMap::new();
    let mut fresh: BTreeMap<(usize, u32), u8> = BTreeMap::new();
    let mut written = vec![vec![]; moved.len()];
    for (_, reads, tile, index, item) in events {
        let arrival = &moved[tile][index];
        let shift = item * arrival.item_bytes;
        if reads {
            let source = usize::from(arrival.source.0);
            let old = tiles[source].bytes(arrival.from + shift, u64::from(arrival.item_bytes))?;
            let bytes = (arrival.from + shift..).zip(old);
            let bytes = bytes.map(|(at, byte)| fresh.get(&(source, at)).copied().unwrap_or(*byte));
            flying.insert((tile, index, item), bytes.collect());
        } else if let Some(bytes) = flying.remove(&(tile, index, item)) {
            for (at, byte) in (arrival.to + shift..).zip(&bytes) {
                fresh.insert((tile, at), *byte);
            }
            written[tile].push((arrival.to + shift, bytes));
        }
    }
    Ok(written)
}

impl Tile {
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
                Instruction::Sync { .. } => {
                    self.pause = Pause::Sync;
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
                Instruction::Sans { .. } | Instruction::Put { .. } | Instruction::Nop => {}
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
        // A row ends with its return, at an unknown place: short rows stay cheap this way.
        let mut length = 16;
        loop {
            let count = available.min(length);
            let bytes = self.bytes(target, 4 * count as u64)?.chunks_exact(4);
            let words: Vec<u32> =
                bytes.map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
            match rows::read(&words, target) {
                Ok(row) => return Ok(Some(row)),
                Err(what) if count == available => return Err(self.fault(what)),
                Err(_) => length *= 8,
            }
        }
    }
}
