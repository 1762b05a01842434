//! Norms and softmax: whole rows on every tile.

use crate::kernels::{Kernel, Norm, Softmax};
use crate::model::TensorId;
use crate::plan::{NodeKind, RowsPlan, Shard, Value};

use super::Fill;
use super::lower::{Lowering, rows_layout, start};
use super::segment::{BufferRef, Call, Class, Place, Segment};

/// Lowers a norm or a softmax; its result gets a place of its own if it has to, or if it is to be
/// `separate`.
pub(super) fn lower(mut lowering: Lowering<'_>, plan: &RowsPlan, separate: bool) -> Segment {
    let value = lowering.input_value(0);
    let layout = rows_layout(value, plan, lowering.tiles);
    let rows = lowering.bring(0, "rows", &layout);
    let free = rows != BufferRef(0) || lowering.may_overwrite(0);
    let output =
        if free && !separate { rows } else { lowering.scratch("result", layout.shard_bytes()) };
    let (kernel, parameters) = kernel(&mut lowering, value, &layout);
    let calls = layout.shards().map(|shard| {
        let blocks = shard.strip_count() / value.block_strips();
        let mut inputs = vec![start(rows)];
        inputs.extend(parameters.iter().copied());
        let count = shard.row_count() * blocks;
        let (kernel, scalars) = match kernel {
            Kernel::Softmax(softmax) => {
                let softmax = Softmax { matrix_rows: shard.row_count(), ..softmax };
                (Kernel::Softmax(softmax), vec![count, first_row(&softmax, &shard)])
            }
            other => (other, vec![count]),
        };
        Call { tile: shard.tile, kernel, output: start(output), inputs, scalars }
    });
    let calls = calls.collect();
    lowering.compute(calls);
    lowering.finish(output, layout)
}

/// Number of a shard's first row, where it matters.
fn first_row(softmax: &Softmax, shard: &Shard) -> u32 {
    softmax.causal_offset.map_or(0, |_| shard.rows.start)
}

/// The kernel (a softmax still without its shard's rows) and its parameter operands.
fn kernel(
    lowering: &mut Lowering<'_>,
    value: &Value,
    layout: &crate::plan::Layout,
) -> (Kernel, Vec<Place>) {
    let pitch = value.block_strips() * value.granule_columns();
    match lowering.node.kind.clone() {
        NodeKind::Softmax { scale, causal_offset } => {
            let softmax = Softmax {
                width: value.width,
                pitch,
                scale: scale.to_bits(),
                causal_offset,
                matrix_rows: 0,
            };
            (Kernel::Softmax(softmax), vec![])
        }
        NodeKind::Norm { rms, gain, bias, epsilon } => {
            let norm = Norm {
                rms,
                bias: bias.is_some(),
                residual: false,
                width: value.width,
                pitch,
                epsilon: epsilon.to_bits(),
            };
            let mut row = |label, tensor: TensorId| {
                let bytes = pitch * value.dtype.bytes() as u32;
                let sizes = layout.shards().map(|shard| (shard.tile, bytes)).collect();
                let fill = Fill::Row { tensor, value: lowering.node.inputs[0] };
                start(lowering.parameter(label, Class::Any, sizes, fill))
            };
            let mut parameters = vec![row("gain", gain)];
            parameters.extend(bias.map(|tensor| row("bias", tensor)));
            (Kernel::Norm(norm), parameters)
        }
        _ => unreachable!("`space` gives whole rows to norms and softmax only"),
    }
}
