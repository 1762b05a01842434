//! Lowering one node: from its decision and its inputs' layouts to a [`Segment`].
//!
//! The decision must be legal (`space` says what is); what a decision means is here and in the
//! files beside: [`gemm`], [`rows`], [`pointwise`].

use std::sync::Arc;

use crate::plan::layout::GRANULE;
use crate::plan::{
    Decision, GridPlan, Layout, Network, Node, NodeId, NodeKind, NodePlan, Order, PointwisePlan,
    Recipe, RowsPlan, Value, ValueId, cut,
};
use crate::target::TileId;

use super::gather::{Arrangement, Demand, Gather, Gathered};
use super::link::{Program, link};
use super::segment::{
    Apart, BufferRef, BufferSpec, Call, Class, Move, Place, Role, Segment, SegmentStep,
};
use super::{Fill, gemm, pointwise, rows};

/// Lowers a whole recipe.
pub fn program(network: &Network, recipe: &Recipe) -> Program {
    let inputs: Vec<Layout> = network
        .inputs
        .iter()
        .zip(&recipe.inputs)
        .map(|(value, plan)| layout_of_input(network.value(*value), plan, recipe.tiles))
        .collect();
    let mut layouts: Vec<Option<Layout>> = vec![None; network.values.len()];
    for (value, layout) in network.inputs.iter().zip(&inputs) {
        layouts[value.0 as usize] = Some(layout.clone());
    }
    let mut segments = Vec::with_capacity(network.nodes.len());
    for id in network.node_ids() {
        let node = network.node(id);
        let held = |value: &ValueId| {
            layouts[value.0 as usize].clone().expect("nodes are in order of dependence")
        };
        let held: Vec<Layout> = node.inputs.iter().map(held).collect();
        let segment = lower_node(network, id, &recipe.nodes[id.0 as usize], &held, recipe.tiles);
        layouts[node.output.0 as usize] = Some(segment.layout.clone());
        segments.push(Arc::new(segment));
    }
    link(network, recipe, &inputs, &segments)
}

/// Lowers one node. Depends on nothing but its arguments, so that callers can keep the result.
pub fn lower_node(
    network: &Network,
    id: NodeId,
    plan: &NodePlan,
    inputs: &[Layout],
    tiles: u16,
) -> Segment {
    let node = network.node(id);
    let lowering = Lowering::new(network, node, inputs, tiles);
    match &plan.decision {
        Decision::Gemm(plan) => gemm::lower(lowering, plan),
        Decision::Rows(rows) => rows::lower(lowering, rows, plan.separate),
        Decision::Pointwise(pointwise) => pointwise::lower(lowering, pointwise, plan.separate),
    }
}

/// Layout of a node's result, without lowering it.
pub fn layout_of_node(
    network: &Network,
    id: NodeId,
    plan: &NodePlan,
    inputs: &[Layout],
    tiles: u16,
) -> Layout {
    let node = network.node(id);
    match &plan.decision {
        Decision::Gemm(plan) => gemm::Grid::new(network, node, plan, tiles).result(),
        Decision::Rows(plan) => rows_layout(network.value(node.output), plan, tiles),
        Decision::Pointwise(plan) => {
            let (from, to) = (network.value(node.inputs[0]), network.value(node.output));
            let layout = pointwise::working_layout(from, inputs, plan, tiles);
            if node.kind == NodeKind::Cast {
                pointwise::cast_layout(from, to, &layout)
            } else {
                layout
            }
        }
    }
}

/// Layout that an input plan gives a value.
pub fn layout_of_input(value: &Value, plan: &PointwisePlan, tiles: u16) -> Layout {
    match plan {
        PointwisePlan::Grid(grid) => grid_layout(value, grid, 1, tiles),
        PointwisePlan::Rows(rows) => rows_layout(value, rows, tiles),
        PointwisePlan::First | PointwisePlan::Second => {
            unreachable!("`space` gives inputs a layout of their own")
        }
    }
}

/// Tile number `index` of a row of tiles that starts at `first` and wraps around.
pub(super) fn wrapped(first: u16, index: u32, tiles: u16) -> TileId {
    TileId(((u32::from(first) + index) % u32::from(tiles)) as u16)
}

/// Strips on a grid; row boundaries at multiples of `row_unit`.
pub(crate) fn grid_layout(value: &Value, grid: &GridPlan, row_unit: u32, tiles: u16) -> Layout {
    let (row_parts, strip_parts) = (u32::from(grid.rows), u32::from(grid.strips));
    let row_cut = cut::in_units(value.rows, row_unit, row_parts);
    let strip_cut = cut::balanced(value.strips(), strip_parts);
    Layout::new(Order::Strips, row_cut, strip_cut, |i, j| {
        let index = if grid.strips_fastest { i * strip_parts + j } else { j * row_parts + i };
        wrapped(grid.first, index, tiles)
    })
}

/// Whole rows, block parts outside row parts.
pub(crate) fn rows_layout(value: &Value, plan: &RowsPlan, tiles: u16) -> Layout {
    let parts = u32::from(plan.parts);
    let block_parts = parts.min(value.blocks);
    let row_parts = parts / block_parts;
    let row_cut = cut::balanced(value.rows, row_parts);
    let strip_cut = cut::blocked(value.blocks, value.block_strips(), 1, block_parts);
    Layout::new(Order::Rows, row_cut, strip_cut, |i, j| {
        wrapped(plan.first, (j * row_parts + i) * u32::from(plan.stride), tiles)
    })
}

/// A segment under construction.
pub(super) struct Lowering<'a> {
    pub(super) network: &'a Network,
    pub(super) node: &'a Node,
    pub(super) layouts: &'a [Layout],
    pub(super) tiles: u16,
    buffers: Vec<BufferSpec>,
    steps: Vec<SegmentStep>,
    apart: Vec<Apart>,
}

impl<'a> Lowering<'a> {
    fn new(network: &'a Network, node: &'a Node, layouts: &'a [Layout], tiles: u16) -> Self {
        Lowering { network, node, layouts, tiles, buffers: vec![], steps: vec![], apart: vec![] }
    }

    pub(super) fn input_value(&self, index: usize) -> &'a Value {
        self.network.value(self.node.inputs[index])
    }

    pub(super) fn output_value(&self) -> &'a Value {
        self.network.value(self.node.output)
    }

    /// Whether the buffer of input `index` may be overwritten: nobody else reads it, and neither
    /// the host.
    pub(super) fn may_overwrite(&self, index: usize) -> bool {
        let value = self.input_value(index);
        value.consumers.len() == 1
            && !value.is_output
            && value.producer.is_some()
            && self.node.inputs.iter().filter(|id| **id == self.node.inputs[index]).count() == 1
    }

    pub(super) fn scratch(
        &mut self,
        label: &'static str,
        mut sizes: Vec<(TileId, u32)>,
    ) -> BufferRef {
        sizes.sort_unstable();
        self.push(BufferSpec {
            label,
            role: Role::Scratch,
            class: Class::Any,
            alignment: 32,
            tail: 32,
            sizes: sizes.into(),
            fill: None,
        })
    }

    pub(super) fn parameter(
        &mut self,
        label: &'static str,
        class: Class,
        mut sizes: Vec<(TileId, u32)>,
        fill: Fill,
    ) -> BufferRef {
        sizes.sort_unstable();
        let fill = Some(fill);
        let (role, sizes) = (Role::Parameter, sizes.into());
        self.push(BufferSpec { label, role, class, alignment: 32, tail: 32, sizes, fill })
    }

    pub(super) fn set_class(&mut self, buffer: BufferRef, class: Class) {
        let own = buffer.0 as usize - self.node.inputs.len();
        self.buffers[own].class = class;
    }

    fn push(&mut self, spec: BufferSpec) -> BufferRef {
        self.buffers.push(spec);
        BufferRef((self.node.inputs.len() + self.buffers.len() - 1) as u32)
    }

    pub(super) fn keep_apart(&mut self, a: BufferRef, b: BufferRef) {
        self.apart.push(Apart(a, b));
    }

    pub(super) fn exchange(&mut self, moves: Vec<Option<Move>>) {
        let moves: Vec<Move> = moves.into_iter().flatten().collect();
        if !moves.is_empty() {
            self.steps.push(SegmentStep::Exchange(moves));
        }
    }

    pub(super) fn compute(&mut self, calls: Vec<Call>) {
        if !calls.is_empty() {
            self.steps.push(SegmentStep::Compute(calls));
        }
    }

    pub(super) fn finish(self, output: BufferRef, layout: Layout) -> Segment {
        Segment {
            inputs: self.node.inputs.len() as u32,
            buffers: self.buffers,
            steps: self.steps,
            output,
            layout,
            apart: self.apart,
        }
    }

    /// Gathers input `index` into a new buffer, one piece for each demand on each of its tiles.
    pub(super) fn gather(
        &mut self,
        index: usize,
        label: &'static str,
        arrangement: Arrangement,
        demands: &[Demand],
    ) -> (BufferRef, Gathered) {
        let source = &self.layouts[index];
        let from = BufferRef(index as u32);
        self.gather_from(
            source,
            from,
            self.input_value(index).block_strips(),
            label,
            arrangement,
            demands,
        )
    }

    /// As [`Lowering::gather`], from any buffer.
    pub(super) fn gather_from(
        &mut self,
        source: &Layout,
        from: BufferRef,
        block: u32,
        label: &'static str,
        arrangement: Arrangement,
        demands: &[Demand],
    ) -> (BufferRef, Gathered) {
        let sizes = demands.iter().flat_map(|demand| {
            let bytes = demand.granules(arrangement) * GRANULE;
            demand.tiles.iter().map(move |tile| (*tile, bytes))
        });
        let to = self.scratch(label, sizes.collect());
        let gather = Gather { source, block, arrangement, from, to };
        (to, gather.meet(demands))
    }

    /// Input `index` in `layout`: where it is if it already lies so, else gathered into a new buffer
    /// by an exchange and copies that are done when this returns.
    pub(super) fn bring(
        &mut self,
        index: usize,
        label: &'static str,
        layout: &Layout,
    ) -> BufferRef {
        if self.layouts[index] == *layout {
            return BufferRef(index as u32);
        }
        let (to, mut gathered) = self.gather_into(index, label, layout);
        let from = BufferRef(index as u32);
        self.exchange(vec![gathered.exchange(from, to)]);
        self.compute(gathered.copies);
        to
    }

    /// Gathers input `index` into the shards of `layout`.
    pub(super) fn gather_into(
        &mut self,
        index: usize,
        label: &'static str,
        layout: &Layout,
    ) -> (BufferRef, Gathered) {
        let arrangement = match layout.order {
            Order::Strips => Arrangement::Strips,
            Order::Rows => Arrangement::Rows,
            Order::Panels => unreachable!("values are gathered in strips or rows, then packed"),
        };
        let demands: Vec<Demand> = layout
            .shards()
            .map(|shard| Demand {
                tiles: vec![shard.tile],
                rows: shard.rows,
                strips: vec![shard.strips],
            })
            .collect();
        self.gather(index, label, arrangement, &demands)
    }
}

/// The start of a buffer.
pub(super) fn start(buffer: BufferRef) -> Place {
    Place { buffer, offset: 0 }
}

/// Granule `granule` of a buffer.
pub(super) fn at(buffer: BufferRef, granule: u32) -> Place {
    Place { buffer, offset: granule * GRANULE }
}
