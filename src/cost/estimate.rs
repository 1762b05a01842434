//! Fidelity F0: the price of one node from its decision and its inputs' layouts, in closed form and
//! without lowering anything. For steering and dynamic programming only.

use crate::kernels::{Binary, Gemm, Kernel, Norm, Softmax};
use crate::plan::layout::{GRANULE_WORDS, PANEL};
use crate::plan::{
    BiasPlan, Decision, GemmPlan, Layout, Network, Node, NodeId, NodeKind, NodePlan, Order, Value,
    WeightClass,
};
use crate::program::layout_of_node;
use crate::target::DataType;

use super::coefficients::Coefficients;
use super::kernels::price;

/// As in [`geometry`](super::geometry).
const LATENCY: f64 = 110.0;

/// How much longer phases of eight-word transfers are than their payload, as scheduled here.
const FRAGMENTED: f64 = 1.25;

/// Estimated cycles of a node: moving its operands, and computing on the busiest tile.
pub fn estimate_node(
    network: &Network,
    id: NodeId,
    plan: &NodePlan,
    inputs: &[Layout],
    tiles: u16,
    coefficients: &Coefficients,
) -> f64 {
    let node = network.node(id);
    let estimate = Estimate { network, node, inputs, coefficients };
    match &plan.decision {
        Decision::Gemm(plan) => estimate.product(plan),
        // A product's price does not need to know which tile owns what.
        Decision::Rows(_) => estimate.rows(&layout_of_node(network, id, plan, inputs, tiles)),
        Decision::Pointwise(_) => {
            estimate.pointwise(&layout_of_node(network, id, plan, inputs, tiles))
        }
    }
}

struct Estimate<'a> {
    network: &'a Network,
    node: &'a Node,
    inputs: &'a [Layout],
    coefficients: &'a Coefficients,
}

impl Estimate<'_> {
    fn value(&self, index: usize) -> &Value {
        self.network.value(self.node.inputs[index])
    }

    fn kernel(&self, kernel: Kernel, inputs: usize, scalars: &[u32]) -> f64 {
        self.coefficients.cycles(&price(&kernel, inputs, scalars))
    }

    /// Cycles of an exchange whose busiest port carries so many granules; granules that change
    /// their order on the way travel one by one.
    fn exchange(&self, granules: u32, reordered: bool) -> f64 {
        let factor = if reordered { FRAGMENTED } else { 1.0 };
        let events = f64::from(granules * GRANULE_WORDS) * factor + LATENCY;
        self.coefficients.exchange_overhead + events * self.coefficients.event
    }

    fn product(&self, plan: &GemmPlan) -> f64 {
        let (left, output) = (self.value(0), self.network.value(self.node.output));
        let by_block = !matches!(self.node.kind, NodeKind::Matmul { .. });
        let part = |whole: u32, parts: u16| whole.div_ceil(u32::from(parts));
        let rows = part(output.rows, plan.rows);
        let all_inner = if by_block { left.block_strips() } else { left.strips() };
        let inner = part(all_inner, plan.inner);
        let (blocks, strips) = if by_block {
            let parts = u32::from(plan.strips);
            if parts <= output.blocks {
                (output.blocks.div_ceil(parts), output.block_strips())
            } else {
                (1, output.block_strips().div_ceil(parts / output.blocks))
            }
        } else {
            (1, part(output.strips(), plan.strips))
        };
        let gemm = Kernel::Gemm(Gemm {
            input: left.dtype,
            accumulate: false,
            interleaved: plan.weights == WeightClass::Interleaved,
            rows,
            inner: inner * left.granule_columns(),
            columns: strips * PANEL,
        });
        let mut cycles = f64::from(blocks) * self.kernel(gemm, 2, &[]);
        let mut received = blocks * rows * inner;
        let mut sent = self.inputs[0].largest_shard();
        if by_block {
            received += blocks * inner * strips * PANEL;
            sent = sent.max(self.inputs[1].largest_shard());
        }
        cycles += self.exchange(received.max(sent), self.inputs[0].order != Order::Strips);
        if self.node.kind == NodeKind::Values {
            cycles += self.packing(plan);
        }
        let block = blocks * rows * strips;
        let scattered = u32::from(plan.scatter_rows * plan.scatter_strips);
        let share = block.div_ceil(scattered);
        if plan.inner > 1 {
            let partials = u32::from(plan.inner) - 1;
            cycles += self.exchange((share * partials).max(block), false);
            cycles += self.kernel(Kernel::Reduce, 2, &[partials, share * PANEL]);
            if plan.scatter_rows > 1 {
                cycles += self.kernel(Kernel::StridedCopy, 1, &[1, share * 32, 0, 0]);
            }
        }
        cycles + self.epilogue(plan, if plan.inner > 1 { share } else { block })
    }

    fn packing(&self, plan: &GemmPlan) -> f64 {
        let value = self.value(1);
        let (granules, moved) = match &plan.pack {
            None => (self.inputs[1].largest_shard(), 0.0),
            Some(grid) => {
                let rows = value.rows.div_ceil(PANEL).div_ceil(u32::from(grid.rows)) * PANEL;
                let granules = rows * value.strips().div_ceil(u32::from(grid.strips));
                (granules, self.exchange(granules.max(self.inputs[1].largest_shard()), false))
            }
        };
        moved + self.kernel(Kernel::PackRight, 1, &[granules, 1])
    }

    fn epilogue(&self, plan: &GemmPlan, granules: u32) -> f64 {
        let NodeKind::Matmul { bias, activation, .. } = self.node.kind else { return 0.0 };
        let count = granules * PANEL;
        let mut cycles = 0.0;
        match (bias, plan.bias) {
            (Some(_), BiasPlan::Accumulate) => {
                cycles += self.kernel(Kernel::Copy, 1, &[count * 2]);
            }
            (Some(_), BiasPlan::Fused) => {
                let function = activation.unwrap_or(crate::kernels::Unary::Relu);
                return self.kernel(Kernel::BiasUnary(function), 2, &[1, count]);
            }
            (Some(_), BiasPlan::Add) => {
                cycles += self.kernel(Kernel::Binary(Binary::Add), 2, &[count; 3]);
            }
            (None, _) => {}
        }
        if let Some(function) = activation {
            cycles += self.kernel(Kernel::Unary(function), 1, &[count]);
        }
        cycles
    }

    /// Cycles to bring input `index` into a layout.
    fn bring(&self, index: usize, layout: &Layout) -> f64 {
        let from = &self.inputs[index];
        if from == layout {
            return 0.0;
        }
        self.exchange(from.largest_shard().max(layout.largest_shard()), from.order != layout.order)
    }

    fn rows(&self, layout: &Layout) -> f64 {
        let value = self.value(0);
        let rows = layout.largest_shard() / value.block_strips();
        let pitch = value.block_strips() * value.granule_columns();
        let kernel = match &self.node.kind {
            NodeKind::Softmax { .. } => Kernel::Softmax(Softmax {
                width: value.width,
                pitch,
                scale: 0,
                causal_offset: None,
                matrix_rows: 1,
            }),
            NodeKind::Norm { rms, bias, .. } => Kernel::Norm(Norm {
                rms: *rms,
                bias: bias.is_some(),
                residual: false,
                width: value.width,
                pitch,
                epsilon: 0,
            }),
            _ => return f64::INFINITY,
        };
        self.bring(0, layout) + self.kernel(kernel, 3, &[rows])
    }

    fn pointwise(&self, layout: &Layout) -> f64 {
        let count = layout.largest_shard() * PANEL;
        let moved: f64 = match self.node.inputs.len() {
            // A cast's result has other strips: what has to move is known only when it is lowered.
            _ if self.node.kind == NodeKind::Cast => self.moved_to_cast(layout),
            1 => self.bring(0, layout),
            _ => self.bring(0, layout).max(self.bring(1, layout)),
        };
        let kernel = match &self.node.kind {
            NodeKind::Unary(function) => self.kernel(Kernel::Unary(*function), 1, &[count]),
            NodeKind::Cast => {
                let (from, to) = (self.value(0).dtype, self.network.value(self.node.output).dtype);
                let narrow = to == DataType::F8;
                let count = if narrow { count * 2 } else { count };
                let cast = crate::kernels::Cast { from, to, scale: 0 };
                self.kernel(Kernel::Cast(cast), 1, &[count])
            }
            _ => self.kernel(Kernel::Binary(Binary::Add), 2, &[count; 3]),
        };
        moved + kernel
    }

    fn moved_to_cast(&self, layout: &Layout) -> f64 {
        let from = &self.inputs[0];
        let in_place =
            from.order == layout.order && from.tiles == layout.tiles && from.rows == layout.rows;
        if in_place || layout.order == Order::Panels {
            0.0
        } else {
            self.exchange(from.largest_shard(), true)
        }
    }
}
