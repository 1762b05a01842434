//! Matrix products: gather the operands, multiply one block a tile, add up partial sums.

use std::ops::Range;

use crate::kernels::{Binary, Gemm, Kernel};
use crate::model::TensorId;
use crate::plan::layout::{GRANULE, PANEL};
use crate::plan::{BiasPlan, GemmPlan, Layout, Network, NodeKind, Order, Value, WeightClass, cut};
use crate::target::TileId;

use super::Fill;
use super::gather::{Arrangement, Demand, Gathered};
use super::lower::{Lowering, at, grid_layout, start, wrapped};
use super::segment::{BufferRef, Call, Class, Move, Place, Run, Segment};

/// The grid of a product: how rows, result strips and inner strips are cut, and who does what.
pub(crate) struct Grid<'a> {
    plan: &'a GemmPlan,
    tiles: u16,
    /// Row boundaries.
    pub(crate) rows: Vec<u32>,
    /// Result strip boundaries.
    pub(crate) strips: Vec<u32>,
    /// Inner boundaries: strips of the left operand, of one block in a block product.
    pub(crate) inner: Vec<u32>,
    /// Strips of one block of the result; the whole result where products are not by block.
    block: u32,
    /// Whether every block is a product of its own.
    by_block: bool,
}

impl<'a> Grid<'a> {
    /// The grid that `plan` means for a node with these values.
    pub(crate) fn new(
        network: &Network,
        node: &crate::plan::Node,
        plan: &'a GemmPlan,
        tiles: u16,
    ) -> Grid<'a> {
        let (left, output) = (network.value(node.inputs[0]), network.value(node.output));
        let by_block = !matches!(node.kind, NodeKind::Matmul { .. });
        let (row_unit, strip_unit) = (row_unit(network, output), strip_unit(network, output));
        let (row_parts, strip_parts) = (u32::from(plan.rows), u32::from(plan.strips));
        let strips = if by_block {
            cut::blocked(output.blocks, output.block_strips(), strip_unit, strip_parts)
        } else {
            unit_cut(output, strip_unit, strip_parts)
        };
        let inner = if by_block { left.block_strips() } else { left.strips() };
        Grid {
            plan,
            tiles,
            rows: cut::in_units(output.rows, row_unit, row_parts),
            strips,
            inner: cut::balanced(inner, u32::from(plan.inner)),
            block: if by_block { output.block_strips() } else { output.strips() },
            by_block,
        }
    }

    fn parts(&self) -> [u32; 3] {
        [self.plan.rows, self.plan.strips, self.plan.inner].map(u32::from)
    }

    fn tile(&self, point: [u32; 3]) -> TileId {
        wrapped(self.plan.first, self.plan.order.position(point, self.parts()), self.tiles)
    }

    fn row_range(&self, i: u32) -> Range<u32> {
        self.rows[i as usize]..self.rows[i as usize + 1]
    }

    fn inner_range(&self, k: u32) -> Range<u32> {
        self.inner[k as usize]..self.inner[k as usize + 1]
    }

    /// Blocks of strip part `j`.
    fn blocks(&self, j: u32) -> Range<u32> {
        let (first, end) = (self.strips[j as usize], self.strips[j as usize + 1]);
        first / self.block..end.div_ceil(self.block)
    }

    /// Strips inside each block of strip part `j`.
    fn block_range(&self, j: u32) -> Range<u32> {
        let (first, end) = (self.strips[j as usize], self.strips[j as usize + 1]);
        let blocks = self.blocks(j);
        if blocks.end - blocks.start > 1 {
            return 0..self.block;
        }
        first - blocks.start * self.block..end - blocks.start * self.block
    }

    /// For every block of part `j`, `range` inside a block of `block` strips of an operand.
    fn in_blocks(&self, j: u32, block: u32, range: &Range<u32>) -> Vec<Range<u32>> {
        if !self.by_block {
            return vec![range.clone()];
        }
        self.blocks(j).map(|b| b * block + range.start..b * block + range.end).collect()
    }

    /// All grid points.
    fn points(&self) -> impl Iterator<Item = [u32; 3]> + use<> {
        let [rows, strips, inner] = self.parts();
        (0..rows)
            .flat_map(move |i| (0..strips).map(move |j| (i, j)))
            .flat_map(move |(i, j)| (0..inner).map(move |k| [i, j, k]))
    }

    /// Layout of the products before any reduction, for inner part `k`.
    fn layout(&self, k: u32) -> Layout {
        Layout::new(Order::Strips, self.rows.clone(), self.strips.clone(), |i, j| {
            self.tile([i, j, k])
        })
    }

    /// Layout of the result.
    pub(crate) fn result(&self) -> Layout {
        let (a, b) = (u32::from(self.plan.scatter_rows), u32::from(self.plan.scatter_strips));
        if self.plan.inner == 1 {
            return self.layout(0);
        }
        let (rows, strips) = (cut::nested(&self.rows, a), cut::nested(&self.strips, b));
        Layout::new(Order::Strips, rows, strips, |i, j| {
            self.tile([i / a, j / b, (i % a) * b + j % b])
        })
    }
}

/// Row boundaries of a value lie at multiples of this: 16 where a block product packs it.
pub(crate) fn row_unit(network: &Network, value: &Value) -> u32 {
    let packed = value.consumers.iter().map(|id| network.node(*id)).any(|node| {
        node.kind == NodeKind::Values && network.value(node.inputs[1]).name == value.name
    });
    if packed { PANEL } else { 1 }
}

/// Strip boundaries of a value lie at multiples of this inside a block: 2 where it is cast to FP8.
pub(crate) fn strip_unit(network: &Network, value: &Value) -> u32 {
    let narrowed = value.consumers.iter().map(|id| network.node(*id)).any(|node| {
        let to = network.value(node.output).dtype;
        node.kind == NodeKind::Cast && to.bytes() < value.dtype.bytes()
    });
    if narrowed { 2 } else { 1 }
}

/// Number of units that [`unit_cut`] can cut between.
pub(crate) fn units(value: &Value, unit: u32) -> u32 {
    value.blocks * value.block_strips().div_ceil(unit)
}

/// Cuts all strips of a value with boundaries at whole units of its blocks.
fn unit_cut(value: &Value, unit: u32, parts: u32) -> Vec<u32> {
    let (block, in_block) = (value.block_strips(), value.block_strips().div_ceil(unit));
    let boundary = |index: u32| index / in_block * block + index % in_block * unit;
    cut::balanced(units(value, unit), parts).into_iter().map(boundary).collect()
}

/// Lowers a product.
pub(super) fn lower(mut lowering: Lowering<'_>, plan: &GemmPlan) -> Segment {
    let grid = Grid::new(lowering.network, lowering.node, plan, lowering.tiles);
    let packed = (lowering.node.kind == NodeKind::Values).then(|| pack(&mut lowering, plan));
    let (left, mut left_gathered) = gather_left(&mut lowering, &grid);
    let mut moves = vec![left_gathered.exchange(BufferRef(0), left)];
    let mut copies = left_gathered.copies;
    let right = match (&lowering.node.kind, packed) {
        (NodeKind::Matmul { weight, transposed, .. }, _) => {
            weights(&mut lowering, &grid, *weight, *transposed, plan.weights)
        }
        (_, Some((buffer, layout))) => {
            let (right, gathered) = gather_values(&mut lowering, &grid, buffer, &layout);
            lowering.set_class(right, class_of(plan.weights));
            add(gathered, buffer, right, &mut moves, &mut copies);
            right
        }
        _ => {
            let (right, gathered, clears) = gather_keys(&mut lowering, &grid);
            lowering.set_class(right, class_of(plan.weights));
            lowering.compute(clears);
            add(gathered, BufferRef(1), right, &mut moves, &mut copies);
            right
        }
    };
    lowering.exchange(moves);
    multiply(lowering, &grid, left, right, copies)
}

fn add(
    mut gathered: Gathered,
    from: BufferRef,
    to: BufferRef,
    moves: &mut Vec<Option<Move>>,
    copies: &mut Vec<Call>,
) {
    moves.push(gathered.exchange(from, to));
    copies.append(&mut gathered.copies);
}

/// The left operand's pieces. A piece is shared by all tiles that differ in result strips only.
fn gather_left(lowering: &mut Lowering<'_>, grid: &Grid<'_>) -> (BufferRef, Gathered) {
    let block = lowering.input_value(0).block_strips();
    let [rows, strips, inner] = grid.parts();
    let mut demands: Vec<Demand> = vec![];
    for i in 0..rows {
        for k in 0..inner {
            let first_of_row = demands.len();
            for j in 0..strips {
                let ranges = grid.in_blocks(j, block, &grid.inner_range(k));
                let tile = grid.tile([i, j, k]);
                match demands[first_of_row..].iter_mut().find(|demand| demand.strips == ranges) {
                    Some(demand) => demand.tiles.push(tile),
                    None => demands.push(Demand {
                        tiles: vec![tile],
                        rows: grid.row_range(i),
                        strips: ranges,
                    }),
                }
            }
        }
    }
    demands.iter_mut().for_each(|demand| demand.tiles.sort_unstable());
    if as_it_lies(&lowering.layouts[0], &demands) {
        return (BufferRef(0), Gathered::default());
    }
    lowering.gather(0, "left", Arrangement::Strips, &demands)
}

/// Whether every demanded piece is exactly the shard that its one tile has.
fn as_it_lies(layout: &Layout, demands: &[Demand]) -> bool {
    layout.order == Order::Strips
        && demands.len() == layout.tiles.len()
        && demands.iter().all(|demand| {
            demand.tiles.len() == 1
                && layout.shards().any(|shard| {
                    shard.tile == demand.tiles[0]
                        && shard.rows == demand.rows
                        && demand.strips.first().map(|range| range.start)
                            == Some(shard.strips.start)
                        && demand.strips.last().map(|range| range.end) == Some(shard.strips.end)
                        && demand.strips.windows(2).all(|pair| pair[0].end == pair[1].start)
                })
        })
}

fn weights(
    lowering: &mut Lowering<'_>,
    grid: &Grid<'_>,
    tensor: TensorId,
    transposed: bool,
    class: WeightClass,
) -> BufferRef {
    let mut blocks: Vec<_> = grid
        .points()
        .map(|[i, j, k]| {
            let columns = grid.strips[j as usize]..grid.strips[j as usize + 1];
            (grid.tile([i, j, k]), grid.inner_range(k), columns)
        })
        .collect();
    blocks.sort_unstable_by_key(|block| block.0);
    let sizes = blocks
        .iter()
        .map(|(tile, inner, columns)| {
            (*tile, inner.len() as u32 * columns.len() as u32 * PANEL * GRANULE)
        })
        .collect();
    let (left, output) = (lowering.node.inputs[0], lowering.node.output);
    let fill = Fill::Weight { tensor, transposed, left, output, blocks: blocks.into() };
    lowering.parameter("weights", class_of(class), sizes, fill)
}

fn class_of(class: WeightClass) -> Class {
    match class {
        WeightClass::Standard => Class::Any,
        WeightClass::Interleaved => Class::Interleaved,
    }
}

/// The transposed second operand's pieces (keys as columns), and clears of their padding.
fn gather_keys(lowering: &mut Lowering<'_>, grid: &Grid<'_>) -> (BufferRef, Gathered, Vec<Call>) {
    let keys = lowering.input_value(1);
    let [_, strips, inner] = grid.parts();
    let mut demands = vec![];
    for j in 0..strips {
        for k in 0..inner {
            let columns = grid.block_range(j);
            let rows = columns.start * PANEL..(columns.end * PANEL).min(keys.rows);
            let ranges = grid.in_blocks(j, keys.block_strips(), &grid.inner_range(k));
            demands.push(Demand { tiles: column_tiles(grid, j, k), rows, strips: ranges });
        }
    }
    let (right, gathered) = lowering.gather(1, "keys", Arrangement::Transposed, &demands);
    let clears = demands.iter().flat_map(|demand| clear_padding(demand, right)).collect();
    (right, gathered, clears)
}

fn column_tiles(grid: &Grid<'_>, j: u32, k: u32) -> Vec<TileId> {
    let mut tiles: Vec<TileId> = (0..grid.parts()[0]).map(|i| grid.tile([i, j, k])).collect();
    tiles.sort_unstable();
    tiles
}

/// Zeros for the last panels of a transposed piece whose rows do not fill them.
fn clear_padding(demand: &Demand, buffer: BufferRef) -> Vec<Call> {
    let rows = demand.rows.end - demand.rows.start;
    if rows.is_multiple_of(PANEL) {
        return vec![];
    }
    let panels = rows.div_ceil(PANEL);
    let mut calls = vec![];
    for (q, range) in (0..).zip(&demand.strips) {
        let width = range.end - range.start;
        let granule = (q * panels + panels - 1) * width * PANEL;
        for tile in &demand.tiles {
            let output = at(buffer, granule);
            calls.push(zero_fill(*tile, output, width * PANEL * GRANULE));
        }
    }
    calls
}

/// Zeros for `bytes` bytes.
fn zero_fill(tile: TileId, output: Place, bytes: u32) -> Call {
    let words = bytes / 8;
    let scalars = vec![words / 6, words % 6];
    Call { tile, kernel: Kernel::ZeroFill, output, inputs: vec![], scalars }
}

/// The second operand in panels: packed where it lies, or first moved to where the plan says.
fn pack(lowering: &mut Lowering<'_>, plan: &GemmPlan) -> (BufferRef, Layout) {
    let value = lowering.input_value(1);
    let (from, layout) = match &plan.pack {
        None => (BufferRef(1), lowering.layouts[1].clone()),
        Some(grid) => {
            let layout = grid_layout(value, grid, PANEL, lowering.tiles);
            (lowering.bring(1, "unpacked", &layout), layout)
        }
    };
    let packed = Layout { order: Order::Panels, ..layout };
    let to = lowering.scratch("packed", packed.shard_bytes());
    let calls = packed.shards().map(|shard| Call {
        tile: shard.tile,
        kernel: Kernel::PackRight,
        output: start(to),
        inputs: vec![start(from)],
        scalars: vec![shard.row_count(), shard.strip_count()],
    });
    lowering.compute(calls.collect());
    (to, packed)
}

fn gather_values(
    lowering: &mut Lowering<'_>,
    grid: &Grid<'_>,
    from: BufferRef,
    layout: &Layout,
) -> (BufferRef, Gathered) {
    let value = lowering.input_value(1);
    let [_, strips, inner] = grid.parts();
    let mut demands = vec![];
    for j in 0..strips {
        for k in 0..inner {
            let range = grid.inner_range(k);
            let rows = range.start * PANEL..(range.end * PANEL).min(value.rows);
            let ranges = grid.in_blocks(j, value.block_strips(), &grid.block_range(j));
            demands.push(Demand { tiles: column_tiles(grid, j, k), rows, strips: ranges });
        }
    }
    let block = value.block_strips();
    lowering.gather_from(layout, from, block, "values", Arrangement::Panels, &demands)
}

/// Multiplies, reduces, adds the bias, applies the activation.
fn multiply(
    mut lowering: Lowering<'_>,
    grid: &Grid<'_>,
    left: BufferRef,
    right: BufferRef,
    mut calls: Vec<Call>,
) -> Segment {
    let result = grid.result();
    let partial_sums = grid.plan.inner > 1;
    let output = lowering.scratch("result", result.shard_bytes());
    let accumulator = if partial_sums {
        let sizes = grid.points().map(|[i, j, k]| {
            let strips = grid.strips[j as usize + 1] - grid.strips[j as usize];
            (grid.tile([i, j, k]), grid.row_range(i).len() as u32 * strips * GRANULE)
        });
        lowering.scratch("partial", sizes.collect())
    } else {
        output
    };
    lowering.keep_apart(left, accumulator);
    let accumulated = accumulate_bias(&mut lowering, grid, accumulator, &mut calls);
    for point in grid.points() {
        let accumulate = accumulated && point[2] == 0;
        products(&lowering, grid, point, [left, right, accumulator], accumulate, &mut calls);
    }
    if partial_sums {
        lowering.compute(calls);
        calls = reduce(&mut lowering, grid, accumulator, output);
    }
    epilogue(&mut lowering, grid, &result, output, &mut calls);
    lowering.compute(calls);
    lowering.finish(output, result)
}

/// The bias, if the plan wants it in the accumulators before the product.
fn accumulate_bias(
    lowering: &mut Lowering<'_>,
    grid: &Grid<'_>,
    accumulator: BufferRef,
    calls: &mut Vec<Call>,
) -> bool {
    let NodeKind::Matmul { bias: Some(tensor), .. } = lowering.node.kind else { return false };
    if grid.plan.bias != BiasPlan::Accumulate {
        return false;
    }
    let layout = grid.layout(0);
    let bias = repeated(lowering, tensor, &layout);
    calls.extend(layout.shards().map(|shard| Call {
        tile: shard.tile,
        kernel: Kernel::Copy,
        output: start(accumulator),
        inputs: vec![start(bias)],
        scalars: vec![shard.granules(Order::Strips) * GRANULE],
    }));
    true
}

/// A row parameter of the result, repeated for every row of `layout`.
fn repeated(lowering: &mut Lowering<'_>, tensor: TensorId, layout: &Layout) -> BufferRef {
    let value = lowering.node.output;
    let fill = Fill::Repeated { tensor, value, layout: layout.clone() };
    lowering.parameter("bias", Class::Any, layout.shard_bytes(), fill)
}

/// The calls that multiply at one grid point: one, or one a block.
fn products(
    lowering: &Lowering<'_>,
    grid: &Grid<'_>,
    [i, j, k]: [u32; 3],
    [left, right, output]: [BufferRef; 3],
    accumulate: bool,
    calls: &mut Vec<Call>,
) {
    let value = lowering.input_value(0);
    let (rows, inner) = (grid.row_range(i).len() as u32, grid.inner_range(k).len() as u32);
    let blocks = if grid.by_block { grid.blocks(j).len() as u32 } else { 1 };
    let strips = if grid.by_block {
        grid.block_range(j).len() as u32
    } else {
        grid.strips[j as usize + 1] - grid.strips[j as usize]
    };
    let kernel = Kernel::Gemm(Gemm {
        input: value.dtype,
        accumulate,
        interleaved: grid.plan.weights == WeightClass::Interleaved,
        rows,
        inner: inner * value.granule_columns(),
        columns: strips * PANEL,
    });
    for q in 0..blocks {
        calls.push(Call {
            tile: grid.tile([i, j, k]),
            kernel,
            output: at(output, q * rows * strips),
            inputs: vec![at(left, q * rows * inner), at(right, q * inner * strips * PANEL)],
            scalars: scale(lowering, value),
        });
    }
}

/// FP8: the sum of both operands' scale exponents as a scalar.
fn scale(lowering: &Lowering<'_>, left: &Value) -> Vec<u32> {
    let NodeKind::Matmul { scale, .. } = lowering.node.kind else { return vec![] };
    if left.granule_columns() == 16 {
        return vec![];
    }
    // Two's complement in the 20 bits of a constant.
    vec![(i32::from(left.scale) + i32::from(scale)) as u32 & 0xf_ffff]
}

/// Sends every reducer its part of the others' partial sums; returns the calls that add them up.
fn reduce(
    lowering: &mut Lowering<'_>,
    grid: &Grid<'_>,
    partial: BufferRef,
    output: BufferRef,
) -> Vec<Call> {
    let inner = grid.parts()[2];
    let mut received = vec![];
    let (mut groups, mut runs, mut calls) = (vec![], vec![], vec![]);
    let parts: Vec<SubBlock> = sub_blocks(grid);
    for part in &parts {
        received.push((part.tile, part.granules() * (inner - 1) * GRANULE));
    }
    let partials = lowering.scratch("partials", received);
    for part in &parts {
        let group = groups.len() as u32;
        groups.push([part.tile].into());
        for k in (0..inner).filter(|k| *k != part.k) {
            let slot = if k < part.k { k } else { k - 1 };
            let source = grid.tile([part.i, part.j, k]);
            for (from, to, length) in part.runs() {
                runs.push(Run {
                    source,
                    group,
                    from: from * GRANULE,
                    to: (slot * part.granules() + to) * GRANULE,
                    words: length * GRANULE / 4,
                });
            }
        }
        let initial = own_part(part, partial, output, &mut calls);
        calls.push(Call {
            tile: part.tile,
            kernel: Kernel::Reduce,
            output: start(output),
            inputs: vec![initial, start(partials)],
            scalars: vec![inner - 1, part.granules() * PANEL],
        });
    }
    lowering.exchange(vec![Some(Move { from: partial, to: partials, groups, runs })]);
    calls
}

/// The reducer's own partial sums as one contiguous operand: in place where they are, else copied
/// into the result.
fn own_part(
    part: &SubBlock,
    partial: BufferRef,
    output: BufferRef,
    calls: &mut Vec<Call>,
) -> Place {
    let runs = part.runs();
    let (first, _, length) = runs[0];
    if runs.len() == 1 {
        return at(partial, first);
    }
    calls.push(Call {
        tile: part.tile,
        kernel: Kernel::StridedCopy,
        output: start(output),
        inputs: vec![at(partial, first)],
        scalars: vec![
            runs.len() as u32,
            length * GRANULE,
            length * GRANULE,
            part.block_rows * GRANULE,
        ],
    });
    start(output)
}

/// What one tile reduces: some rows and strips of one block of products.
struct SubBlock {
    tile: TileId,
    i: u32,
    j: u32,
    k: u32,
    /// Rows of the whole block.
    block_rows: u32,
    /// Rows of this part, from the block's first.
    rows: Range<u32>,
    /// Strips of this part, from the block's first.
    strips: Range<u32>,
}

impl SubBlock {
    fn granules(&self) -> u32 {
        self.rows.len() as u32 * self.strips.len() as u32
    }

    /// Runs of granules: place in the block, place in this part, length.
    fn runs(&self) -> Vec<(u32, u32, u32)> {
        let rows = self.rows.len() as u32;
        if rows == self.block_rows {
            return vec![(self.strips.start * self.block_rows, 0, self.granules())];
        }
        let run =
            |s: u32| (s * self.block_rows + self.rows.start, (s - self.strips.start) * rows, rows);
        self.strips.clone().map(run).collect()
    }
}

fn sub_blocks(grid: &Grid<'_>) -> Vec<SubBlock> {
    let (a, b) = (u32::from(grid.plan.scatter_rows), u32::from(grid.plan.scatter_strips));
    let [row_parts, strip_parts, _] = grid.parts();
    let mut parts = vec![];
    for i in 0..row_parts {
        let block_rows = grid.row_range(i).len() as u32;
        let rows: Vec<_> = cut::ranges(&cut::balanced(block_rows, a)).collect();
        for j in 0..strip_parts {
            let width = grid.strips[j as usize + 1] - grid.strips[j as usize];
            let strips: Vec<_> = cut::ranges(&cut::balanced(width, b)).collect();
            for k in 0..a * b {
                parts.push(SubBlock {
                    tile: grid.tile([i, j, k]),
                    i,
                    j,
                    k,
                    block_rows,
                    rows: rows[(k / b) as usize].clone(),
                    strips: strips[(k % b) as usize].clone(),
                });
            }
        }
    }
    parts
}

/// Bias and activation on the finished result.
fn epilogue(
    lowering: &mut Lowering<'_>,
    grid: &Grid<'_>,
    result: &Layout,
    output: BufferRef,
    calls: &mut Vec<Call>,
) {
    let NodeKind::Matmul { bias, activation, .. } = lowering.node.kind else { return };
    let late = bias.filter(|_| grid.plan.bias != BiasPlan::Accumulate);
    let bias = late.map(|tensor| repeated(lowering, tensor, result));
    for shard in result.shards() {
        let count = shard.granules(Order::Strips) * PANEL;
        let call = |kernel, inputs: Vec<Place>, scalars| Call {
            tile: shard.tile,
            kernel,
            output: start(output),
            inputs,
            scalars,
        };
        match (bias, activation, grid.plan.bias) {
            (Some(bias), Some(function), BiasPlan::Fused) => {
                let inputs = vec![start(output), start(bias)];
                calls.push(call(Kernel::BiasUnary(function), inputs, vec![1, count]));
            }
            (bias, function, _) => {
                if let Some(bias) = bias {
                    let inputs = vec![start(output), start(bias)];
                    calls.push(call(Kernel::Binary(Binary::Add), inputs, vec![count; 3]));
                }
                if let Some(function) = function {
                    let inputs = vec![start(output)];
                    calls.push(call(Kernel::Unary(function), inputs, vec![count]));
                }
            }
        }
    }
}
