//! A program's buffers on all of its tiles: equal tiles are solved once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::program::{Addresses, BufferId, Class, Program, SegmentStep, StepKind};
use crate::target::{Address, TileId};

use super::branch::Limits;
use super::place::{Outcome, Proof, place_until};
use super::problem::{Buffer, Problem, Region};

/// Why a program does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageFailure {
    /// Proved: more bytes live than there are.
    #[error("tile {tile}: {bytes_over} bytes over in {} memory at step {step}", region.name())]
    Over {
        /// The first such tile.
        tile: TileId,
        /// The memory.
        region: Region,
        /// Bytes too many.
        bytes_over: u32,
        /// When.
        step: u32,
    },
    /// Proved, though there are bytes enough: no way of placing is left.
    #[error("tile {tile}: its buffers fit in no way, though there are bytes enough")]
    Proved {
        /// The first such tile.
        tile: TileId,
    },
    /// The search was asked to stop, which says nothing about the program.
    #[error("stopped")]
    Stopped,
    /// No placement was found for a buffer.
    #[error("tile {tile}: no place was found for `{buffer}` ({bytes} bytes, {} memory)", class(*.interleaved))]
    NoPlace {
        /// The first such tile.
        tile: TileId,
        /// Name of the buffer.
        buffer: String,
        /// Its size.
        bytes: u32,
        /// Its class.
        interleaved: bool,
    },
}

fn class(interleaved: bool) -> &'static str {
    if interleaved { "interleaved" } else { "standard" }
}

/// Addresses of all buffers, or why they do not fit; `free` is the same on every tile. With
/// `separate`, buffers that a tile reads and writes in one exchange lie in different elements where
/// there is room for it. Searches give up when `stop` is set.
///
/// # Errors
/// The failure of the lowest tile that has one.
pub fn place_program(
    program: &Program,
    free: &[Range<u32>],
    separate: bool,
    stop: &AtomicBool,
) -> Result<Addresses, StorageFailure> {
    let mut on_tile: Vec<Vec<(BufferId, u32)>> = vec![vec![]; program.tiles.into()];
    for (id, buffer) in (0..).map(BufferId).zip(&program.buffers) {
        for &(tile, bytes) in buffer.sizes.iter() {
            on_tile[usize::from(tile.0)].push((id, bytes));
        }
    }
    let mut kinds: BTreeMap<&[(BufferId, u32)], Vec<TileId>> = BTreeMap::new();
    for (tile, buffers) in (0..).map(TileId).zip(&on_tile) {
        kinds.entry(buffers).or_default().push(tile);
    }
    let kinds: Vec<_> = kinds.into_iter().collect();
    let wishes = if separate { exchanged_together(program) } else { vec![] };
    let solved: Vec<_> = kinds
        .par_iter()
        .map(|(buffers, tiles)| {
            solve(program, (free, stop), buffers, &wishes).map_err(|f| (tiles[0], f))
        })
        .collect();
    let failures = solved.iter().filter_map(|answer| answer.as_ref().err());
    if let Some((tile, failure)) = failures.min_by_key(|(tile, _)| *tile) {
        return Err(failure.on(program, *tile));
    }
    let mut addresses = Addresses::new(program.buffers.len(), program.tiles);
    for ((buffers, tiles), answer) in kinds.iter().zip(solved) {
        for ((buffer, _), address) in buffers.iter().zip(answer.unwrap_or_default()) {
            for tile in tiles {
                addresses.set(*buffer, *tile, Address(address));
            }
        }
    }
    Ok(addresses)
}

/// Nodes for placing with wishes; without them there is another attempt.
const WISH_BUDGET: u64 = 2_000;
/// Nodes for placing what must be: a candidate that does not fit has to fail soon.
const BUDGET: u64 = 20_000;

/// Why one kind of tile failed.
enum Failure {
    Over { region: Region, bytes_over: u32, step: u32 },
    Proved,
    Stopped,
    NoPlace { buffer: BufferId, bytes: u32 },
}

impl Failure {
    /// The failure with what a user needs to know of it.
    fn on(&self, program: &Program, tile: TileId) -> StorageFailure {
        match *self {
            Failure::Over { region, bytes_over, step } => {
                StorageFailure::Over { tile, region, bytes_over, step }
            }
            Failure::Proved => StorageFailure::Proved { tile },
            Failure::Stopped => StorageFailure::Stopped,
            Failure::NoPlace { buffer, bytes } => {
                let found = &program.buffers[buffer.0 as usize];
                let interleaved = found.class == Class::Interleaved;
                StorageFailure::NoPlace { tile, buffer: found.name.clone(), bytes, interleaved }
            }
        }
    }
}

/// Pairs of buffers of which one is read and the other written in the same exchange.
fn exchanged_together(program: &Program) -> Vec<(BufferId, BufferId)> {
    let mut pairs = vec![];
    for step in &program.steps {
        if step.kind == StepKind::Compute {
            continue;
        }
        let (mut read, mut written) = (vec![], vec![]);
        for part in &step.parts {
            if let SegmentStep::Exchange(moves) = part.segment_step() {
                read.extend(moves.iter().map(|exchange| part.buffer(exchange.from)));
                written.extend(moves.iter().map(|exchange| part.buffer(exchange.to)));
            }
        }
        for a in &read {
            pairs.extend(written.iter().map(|b| (*a, *b)));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

fn solve(
    program: &Program,
    (free, stop): (&[Range<u32>], &AtomicBool),
    present: &[(BufferId, u32)],
    wishes: &[(BufferId, BufferId)],
) -> Result<Vec<u32>, Failure> {
    let index = |id: BufferId| present.binary_search_by_key(&id, |(found, _)| *found).ok();
    let pairs = |list: &[(BufferId, BufferId)]| -> Vec<(usize, usize)> {
        let both = list.iter().filter_map(|(a, b)| Some((index(*a)?, index(*b)?)));
        both.filter(|(a, b)| a != b).collect()
    };
    let buffers = present.iter().map(|(id, bytes)| {
        let buffer = &program.buffers[id.0 as usize];
        let interleaved = buffer.class == Class::Interleaved;
        Buffer {
            size: bytes + buffer.tail,
            alignment: buffer.alignment,
            region: if interleaved { Region::Interleaved } else { Region::Either },
            live: vec![buffer.live.clone()],
            forbidden: vec![],
            untouched: false,
        }
    });
    let needed = pairs(&program.apart);
    let mut problem = Problem {
        free: free.to_vec(),
        buffers: buffers.collect(),
        apart: needed.clone(),
        aliases: vec![],
    };
    problem.apart.extend(pairs(wishes));
    let wished = problem.apart.len() > needed.len();
    let limits = |nodes| Limits { nodes, stop: Some(stop) };
    // What would have been found without the stop stays open: an answer does not depend on the time.
    let stopped = |outcome: &Outcome| {
        matches!(outcome, Outcome::Unknown { .. }) && stop.load(Ordering::Relaxed)
    };
    let mut outcome = place_until(&problem, limits(if wished { WISH_BUDGET } else { BUDGET }));
    if wished && !matches!(outcome, Outcome::Placed(_)) && !stopped(&outcome) {
        problem.apart = needed;
        outcome = place_until(&problem, limits(BUDGET));
    }
    if stopped(&outcome) {
        return Err(Failure::Stopped);
    }
    match outcome {
        Outcome::Placed(addresses) => Ok(addresses),
        Outcome::Impossible(Proof::Bytes(shortage)) => Err(Failure::Over {
            region: shortage.region,
            bytes_over: shortage.bytes_over,
            step: shortage.step,
        }),
        Outcome::Impossible(Proof::Exhausted { .. }) => Err(Failure::Proved),
        Outcome::Impossible(Proof::Alone { buffer, .. }) | Outcome::Unknown { buffer } => {
            Err(Failure::NoPlace { buffer: present[buffer].0, bytes: present[buffer].1 })
        }
    }
}
