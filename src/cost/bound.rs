//! What no program for a model can beat on this chip, whatever its plan: the sum over all products
//! of the multiply-adds that tiles can do a cycle, and of reading every weight once.

use crate::model::{Graph, Op, Operation};
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
