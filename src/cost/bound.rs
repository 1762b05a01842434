//! What no program for a model can beat on this chip, whatever its plan: in cycles, the sum over all
//! products of the multiply-adds that tiles can do, and of reading every weight once; in bytes, all
//! parameters, which stay on the tiles, and the largest other tensor.

use crate::model::{Graph, Op, Operation, TensorId};
use crate::target::sram::{LOAD_END, LOAD_START};
use crate::target::{Cycles, DataType};

/// Multiply-adds a tile and cycle (`target/ipu21.md` §6.1: half the flop).
fn rate(dtype: DataType) -> u64 {
    match dtype {
        DataType::F32 => 16,
        DataType::F16 => 64,
        DataType::F8 => 128,
    }
}

/// Bytes that a tile can load a cycle (`target/ipu21.md` §5.3).
const LOAD: u64 = 16;

/// The lower bound on cycles of a model on `tiles` tiles: multiply-adds at the peak rate, or reading
/// the weights, whichever is longer for each product; everything else for free.
pub fn hard_bound(graph: &Graph, tiles: u16) -> Cycles {
    let tiles = u64::from(tiles);
    let bound = |operation: &Operation| {
        let right = match operation.op {
            Op::Matmul { .. } | Op::AttentionScores { .. } | Op::AttentionValues { .. } => {
                graph.tensor(operation.inputs[1])
            }
            Op::Attention { .. } => graph.tensor(operation.inputs[0]),
            _ => return 0,
        };
        let work = graph.operation_multiply_adds(operation).div_ceil(rate(right.dtype) * tiles);
        let bytes = right.elements() as u64 * right.dtype.bytes() as u64;
        work.max(bytes.div_ceil(LOAD * tiles))
    };
    Cycles(graph.operations().iter().map(bound).sum())
}

/// How many bytes a model needs at least beyond what `tiles` tiles can be loaded with
/// (`target/ipu21.md` §5.1); 0 if nothing speaks against it yet.
pub fn bytes_over(graph: &Graph, tiles: u16) -> u128 {
    let bytes = |id: &TensorId| {
        let tensor = graph.tensor(*id);
        tensor.elements() as u128 * tensor.dtype.bytes() as u128
    };
    let resident: u128 = graph.parameters().iter().map(bytes).sum();
    let results = graph.operations().iter().flat_map(|operation| &operation.outputs);
    let largest = graph.inputs().iter().chain(results).map(bytes).max().unwrap_or(0);
    let room = u128::from(tiles) * u128::from(LOAD_END.0 - LOAD_START.0);
    (resident + largest).saturating_sub(room)
}
