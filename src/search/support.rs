//! How much support memory a program needs, and where it lies.

use std::ops::Range;

use rayon::prelude::*;

use crate::package::{Routine, RowTable};
use crate::program::code::{self, Linkage, ROUTINE_BYTES};
use crate::program::{Addresses, Program};
use crate::storage::{Support, SupportSizes};
use crate::target::{Address, TileId};

use super::outcome::Failure;

/// Size of the largest exchange table before anything is scheduled (`target/ipu21.md` §2.6), with
/// the reference's largest underestimate on top.
pub fn estimated_row_bytes(program: &Program) -> u32 {
    let mut bytes = vec![RowTable::IDLE.0; program.tiles.into()];
    for step in &program.steps {
        let mut touched = vec![0_u32; program.tiles.into()];
        for transfer in step.transfers() {
            touched[usize::from(transfer.source.0)] += 8 + 4 * transfer.words.div_ceil(4096).min(2);
            for tile in transfer.destinations {
                touched[usize::from(tile.0)] += 12;
            }
        }
        for (sum, found) in bytes.iter_mut().zip(touched) {
            *sum += if found > 0 { (found + 16).next_multiple_of(8) } else { 0 };
        }
    }
    bytes.into_iter().max().unwrap_or(0) / 8 * 9
}

/// Code and support memory of a program whose largest exchange table has so many bytes.
///
/// # Errors
/// If code and rows do not fit into executable memory.
pub fn lay_out(program: &Program, row_bytes: u32) -> Result<(Vec<Routine>, Support), Failure> {
    let mut parts: Vec<(String, u32)> =
        [code::BARRIER, code::SAMPLE].map(|name| (name.to_owned(), ROUTINE_BYTES)).into();
    let kernels = code::kernels(program);
    parts.extend(kernels.iter().map(|kernel| (kernel.symbol(), kernel.code_bytes())));
    let sizes = SupportSizes {
        routines: parts.iter().map(|(_, bytes)| *bytes).collect(),
        program: program_bytes(program),
        rows: row_bytes,
        profile: 4 * (program.steps.len() as u32 + 1),
    };
    let support = Support::new(&sizes)
        .map_err(|error| Failure::RowsTooLong { bytes_over: error.bytes_over })?;
    let place = |((name, bytes), range): ((String, u32), &Range<u32>)| Routine {
        name,
        address: Address(range.start),
        bytes,
    };
    let routines = parts.into_iter().zip(&support.routines).map(place).collect();
    Ok((routines, support))
}

/// Size of the longest tile program; addresses do not change it.
fn program_bytes(program: &Program) -> u32 {
    let calls = code::calls_by_tile(program);
    let addresses = Addresses::new(program.buffers.len(), program.tiles);
    let linkage = Linkage::default();
    // All exchange steps as if every tile took part: the longer form.
    let rows = (0..program.steps.len()).map(|step| (step, Address(0))).collect();
    let bytes = (0..program.tiles).into_par_iter().map(|tile| {
        let calls: Vec<&[_]> =
            calls.iter().map(|step| step[usize::from(tile)].as_slice()).collect();
        let words =
            code::tile_program(program, TileId(tile), &calls, &addresses, &linkage, &rows, 0);
        4 * words.len() as u32
    });
    bytes.max().unwrap_or(0)
}
