//! Definitions before uses: whatever a kernel reads or a tile sends was written before, by the host,
//! by a kernel or by an earlier exchange. A package is proved to do what its program says; this says
//! that the program makes sense.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::kernels::Kernel;
use crate::program::{BufferId, Call, Program, Role, StepKind};
use crate::target::TileId;

use super::operands;
use super::violation::{Violation, Violations};

/// Bytes of a buffer's piece: buffer, first, one past the last.
type Span = (BufferId, u32, u32);

/// Checks a program.
///
/// # Errors
/// Every tile and step that reads what nobody wrote.
pub fn defined(program: &Program) -> Result<(), Violations> {
    let mut tiles: Vec<Tile> = (0..program.tiles).map(|tile| Tile::new(TileId(tile))).collect();
    for (id, buffer) in (0..).map(BufferId).zip(&program.buffers) {
        if matches!(buffer.role, Role::Input | Role::Parameter) {
            for (tile, bytes) in buffer.sizes.iter() {
                tiles[usize::from(tile.0)].write(vec![(id, 0, *bytes)]);
            }
        }
    }
    for (index, step) in program.steps.iter().enumerate() {
        if step.kind == StepKind::Compute {
            let mut calls: Vec<Vec<(&[BufferId], &Call)>> = vec![vec![]; program.tiles.into()];
            for (part, call) in step.calls() {
                calls[usize::from(call.tile.0)].push((&part.buffers, call));
            }
            tiles.par_iter_mut().zip(calls).for_each(|(tile, calls)| {
                for (buffers, call) in calls {
                    tile.call(index, buffers, call, program);
                }
            });
            continue;
        }
        let mut moved: Vec<(Vec<Span>, Vec<Span>)> = vec![Default::default(); program.tiles.into()];
        for transfer in step.transfers() {
            let span =
                |(buffer, offset): (BufferId, u32)| (buffer, offset, offset + 4 * transfer.words);
            moved[usize::from(transfer.source.0)].0.push(span(transfer.from));
            for tile in transfer.destinations {
                moved[usize::from(tile.0)].1.push(span(transfer.to));
            }
        }
        tiles.par_iter_mut().zip(moved).for_each(|(tile, (reads, writes))| {
            reads.into_iter().for_each(|read| tile.read(index, read, program));
            tile.write(writes);
        });
    }
    let mut violations = Violations::default();
    for tile in tiles {
        violations.merge(tile.violations);
    }
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

/// What was written on one tile so far.
struct Tile {
    tile: TileId,
    /// Disjoint spans of every buffer, ascending.
    written: BTreeMap<BufferId, Vec<(u32, u32)>>,
    violations: Violations,
}

impl Tile {
    fn new(tile: TileId) -> Tile {
        Tile { tile, written: BTreeMap::new(), violations: Violations::default() }
    }

    fn write(&mut self, spans: Vec<Span>) {
        let mut by_buffer: BTreeMap<BufferId, Vec<(u32, u32)>> = BTreeMap::new();
        for (buffer, start, end) in spans {
            by_buffer.entry(buffer).or_default().push((start, end));
        }
        for (buffer, new) in by_buffer {
            let held = self.written.entry(buffer).or_default();
            held.extend(new);
            held.sort_unstable();
            held.dedup_by(|next, last| {
                let joins = next.0 <= last.1;
                if joins {
                    last.1 = last.1.max(next.1);
                }
                joins
            });
        }
    }

    fn read(&mut self, step: usize, (buffer, start, end): Span, program: &Program) {
        let held = self.written.get(&buffer).map_or(&[][..], Vec::as_slice);
        let at = held.partition_point(|span| span.1 <= start);
        let defined = held.get(at).is_some_and(|span| span.0 <= start && end <= span.1);
        if !defined && start < end {
            let buffer = program.buffers[buffer.0 as usize].name.clone();
            self.violations.add(Violation::Undefined {
                tile: self.tile,
                step,
                buffer,
                offset: start,
            });
        }
    }

    fn call(&mut self, step: usize, buffers: &[BufferId], call: &Call, program: &Program) {
        let (written, read) = operands::bytes(&call.kernel, call.inputs.len(), &call.scalars);
        for (index, (place, bytes)) in call.inputs.iter().zip(read).enumerate() {
            let buffer = buffers[place.buffer.0 as usize];
            for (start, end) in pieces(call, index + 1, place.offset, bytes) {
                self.read(step, (buffer, start, end), program);
            }
        }
        let buffer = buffers[call.output.buffer.0 as usize];
        let spans = pieces(call, 0, call.output.offset, written);
        let spans: Vec<Span> = spans.into_iter().map(|(start, end)| (buffer, start, end)).collect();
        if matches!(call.kernel, Kernel::Gemm(gemm) if gemm.accumulate) {
            spans.iter().for_each(|span| self.read(step, *span, program));
        }
        self.write(spans);
    }
}

/// What an operand touches: all of its bytes, or every row of a strided copy. Operand 0 is written.
fn pieces(call: &Call, operand: usize, offset: u32, bytes: u64) -> Vec<(u32, u32)> {
    if let (Kernel::StridedCopy, &[rows, length, to, from]) = (call.kernel, call.scalars.as_slice())
    {
        let pitch = if operand == 0 { to } else { from };
        return (0..rows).map(|row| offset + row * pitch).map(|at| (at, at + length)).collect();
    }
    let end = u64::from(offset) + bytes;
    vec![(offset, u32::try_from(end).unwrap_or(u32::MAX))]
}
