//! Everything that works element by element: where the operands are, or on a layout of its own.

use std::sync::Arc;

use crate::kernels::{Cast, CastStrips, Kernel};
use crate::plan::layout::PANEL;
use crate::plan::{Layout, NodeKind, Order, PointwisePlan, Shard, Value, cut};

use super::Fill;
use super::lower::{Lowering, grid_layout, rows_layout, start};
use super::segment::{BufferRef, Call, Class, Place, Segment};

/// The layout in which a pointwise node works.
pub(crate) fn working_layout(
    value: &Value,
    inputs: &[Layout],
    plan: &PointwisePlan,
    tiles: u16,
) -> Layout {
    match plan {
        PointwisePlan::First => inputs[0].clone(),
        PointwisePlan::Second => inputs[1].clone(),
        PointwisePlan::Rows(rows) => rows_layout(value, rows, tiles),
        PointwisePlan::Grid(grid) => grid_layout(value, grid, 1, tiles),
    }
}

/// Whether a cast can be done shard by shard in this layout: every part is made of whole blocks, or
/// of granules of both types inside one block.
pub(crate) fn cast_fits(from: &Value, to: &Value, layout: &Layout) -> bool {
    let block = from.block_strips();
    if layout.holds_whole_blocks(block) {
        return true;
    }
    let unit = (to.granule_columns() / from.granule_columns()).max(1);
    layout.order == Order::Strips
        && from.granule_columns() <= to.granule_columns()
        && cut::ranges(&layout.strips).all(|part| {
            let (first, last) = (part.start / block, (part.end - 1) / block);
            first == last
                && (part.start % block).is_multiple_of(unit)
                && (part.end.is_multiple_of(block) || (part.end % block).is_multiple_of(unit))
        })
}

/// Layout of the result of a cast done in `layout`.
pub(crate) fn cast_layout(from: &Value, to: &Value, layout: &Layout) -> Layout {
    let unit = (to.granule_columns() / from.granule_columns()).max(1);
    let boundary = |strip: &u32| {
        let (block, inside) = (strip / from.block_strips(), strip % from.block_strips());
        block * to.block_strips() + inside / unit
    };
    let strips: Vec<u32> = layout.strips.iter().map(boundary).collect();
    Layout { strips: strips.into(), rows: Arc::clone(&layout.rows), ..layout.clone() }
}

/// Lowers a pointwise node; its result gets a place of its own if it has to, or if it is to be
/// `separate`.
pub(super) fn lower(mut lowering: Lowering<'_>, plan: &PointwisePlan, separate: bool) -> Segment {
    let value = lowering.input_value(0);
    let layout = working_layout(value, lowering.layouts, plan, lowering.tiles);
    let operands = bring_all(&mut lowering, &layout);
    if lowering.node.kind == NodeKind::Cast {
        return cast(lowering, operands[0], &layout);
    }
    let reusable = (0..operands.len())
        .find(|&index| operands[index] != BufferRef(index as u32) || lowering.may_overwrite(index));
    let output = match reusable.filter(|_| !separate) {
        Some(index) => operands[index],
        None => lowering.scratch("result", layout.shard_bytes()),
    };
    let kind = lowering.node.kind.clone();
    let parameter = match &kind {
        NodeKind::WithParameter { parameter, .. } => {
            let value = lowering.node.output;
            let fill = Fill::Repeated { tensor: *parameter, value, layout: layout.clone() };
            Some(lowering.parameter("parameter", Class::Any, layout.shard_bytes(), fill))
        }
        _ => None,
    };
    let mut inputs: Vec<Place> = operands.iter().map(|buffer| start(*buffer)).collect();
    inputs.extend(parameter.map(start));
    let calls = layout.shards().map(|shard| {
        let count = shard.granules(layout.order) * PANEL;
        let (kernel, scalars) = match &kind {
            NodeKind::Unary(function) => (Kernel::Unary(*function), vec![count]),
            NodeKind::Binary(function) | NodeKind::WithParameter { function, .. } => {
                (Kernel::Binary(*function), vec![count; 3])
            }
            _ => unreachable!("`space` gives pointwise plans to pointwise nodes only"),
        };
        Call { tile: shard.tile, kernel, output: start(output), inputs: inputs.clone(), scalars }
    });
    let calls = calls.collect();
    lowering.compute(calls);
    lowering.finish(output, layout)
}

/// All operands in one layout; everything that has to move moves in one exchange.
fn bring_all(lowering: &mut Lowering<'_>, layout: &Layout) -> Vec<BufferRef> {
    let mut moves = vec![];
    let mut copies = vec![];
    let mut operands: Vec<BufferRef> = vec![];
    for index in 0..lowering.node.inputs.len() {
        let same = lowering.node.inputs[..index]
            .iter()
            .position(|earlier| *earlier == lowering.node.inputs[index]);
        if let Some(earlier) = same {
            operands.push(operands[earlier]);
            continue;
        }
        let from = BufferRef(index as u32);
        if lowering.layouts[index] == *layout {
            operands.push(from);
            continue;
        }
        let (to, mut gathered) = lowering.gather_into(index, "operand", layout);
        moves.push(gathered.exchange(from, to));
        copies.append(&mut gathered.copies);
        operands.push(to);
    }
    lowering.exchange(moves);
    lowering.compute(copies);
    operands
}

fn cast(mut lowering: Lowering<'_>, operand: BufferRef, layout: &Layout) -> Segment {
    let (from, to) = (lowering.input_value(0), lowering.output_value());
    let result = cast_layout(from, to, layout);
    let output = lowering.scratch("result", result.shard_bytes());
    let pitches = [from, to].map(|value| value.block_strips() * value.granule_columns());
    let calls = layout.shards().map(|shard| {
        let (kernel, scalars) = cast_call(from, to, layout.order, &shard, pitches);
        Call {
            tile: shard.tile,
            kernel,
            output: start(output),
            inputs: vec![start(operand)],
            scalars,
        }
    });
    let calls = calls.collect();
    lowering.compute(calls);
    lowering.finish(output, result)
}

fn cast_call(
    from: &Value,
    to: &Value,
    order: Order,
    shard: &Shard,
    pitches: [u32; 2],
) -> (Kernel, Vec<u32>) {
    let scale = if to.scale != 0 { to.scale } else { from.scale };
    let blocks = shard.strip_count() / from.block_strips();
    if order == Order::Rows && pitches[0] == pitches[1] {
        let cast = Cast { from: from.dtype, to: to.dtype, scale };
        return (Kernel::Cast(cast), vec![shard.row_count() * blocks * pitches[0]]);
    }
    let whole = |width| CastStrips { from: from.dtype, to: to.dtype, scale, width };
    if order == Order::Rows {
        return (Kernel::CastStrips(whole(from.width)), vec![1, shard.row_count() * blocks]);
    }
    if blocks >= 1 && shard.strip_count().is_multiple_of(from.block_strips()) {
        return (Kernel::CastStrips(whole(from.width)), vec![shard.row_count(), blocks]);
    }
    let first = shard.strips.start % from.block_strips() * from.granule_columns();
    let columns = (shard.strip_count() * from.granule_columns()).min(from.width - first);
    (Kernel::CastStrips(whole(columns)), vec![shard.row_count(), 1])
}
