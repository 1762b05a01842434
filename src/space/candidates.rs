//! Plans worth trying first for a node, cheapest by F0 first.

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use crate::cost::{Coefficients, estimate_node};
use crate::plan::layout::PANEL;
use crate::plan::{
    AxisOrder, BiasPlan, Decision, ExchangeMode, GemmPlan, GridPlan, Layout, Network, NodeId,
    NodeKind, NodePlan, PointwisePlan, RowsPlan, Value, WeightClass, cut,
};
use crate::program::gemm::{row_unit, strip_unit, units};
use crate::program::layout_of_node;

use super::file::Space;
use super::legal::{check_input, check_node};

/// A plan with what it makes and costs.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The plan.
    pub plan: NodePlan,
    /// Layout of its result.
    pub layout: Layout,
    /// Estimated cycles of the node.
    pub cycles: f64,
}

/// Shortlists that were made before, under one version of the coefficients. A hit and a miss give
/// the same list.
#[derive(Default)]
pub struct Shortlists(Mutex<VersionedLists>);

/// A version of the coefficients, and lists by node and input layouts.
type VersionedLists = (u32, FxHashMap<(NodeId, Vec<Layout>), Arc<Vec<Candidate>>>);

/// Shortlists after which all are forgotten.
const MOST_SHORTLISTS: usize = 4000;
/// Candidates kept in a shortlist.
const SHORTLIST: usize = 24;

/// Where and with what prices to plan.
#[derive(Clone, Copy)]
pub struct Planner<'a> {
    /// The network.
    pub network: &'a Network,
    /// What is allowed.
    pub space: &'a Space,
    /// Tiles to use.
    pub tiles: u16,
    /// Prices.
    pub coefficients: &'a Coefficients,
    /// What was listed before.
    pub shortlists: &'a Shortlists,
}

impl Planner<'_> {
    /// The cheapest plans of a node whose inputs have these layouts, at most `count` (of up to 24).
    pub fn node(&self, id: NodeId, inputs: &[Layout], count: usize) -> Vec<Candidate> {
        let version = self.coefficients.version;
        let lists = || self.shortlists.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let key = (id, inputs.to_vec());
        {
            let mut lists = lists();
            if lists.0 != version || lists.1.len() > MOST_SHORTLISTS {
                *lists = (version, FxHashMap::default());
            }
            if let Some(found) = lists.1.get(&key) {
                return found.iter().take(count).cloned().collect();
            }
        }
        let list = Arc::new(self.shortlist(id, inputs));
        lists().1.insert(key, Arc::clone(&list));
        list.iter().take(count).cloned().collect()
    }

    fn shortlist(&self, id: NodeId, inputs: &[Layout]) -> Vec<Candidate> {
        let node = self.network.node(id);
        let decisions = match &node.kind {
            NodeKind::Matmul { .. } | NodeKind::Scores | NodeKind::Values => self.products(id),
            NodeKind::Norm { .. } | NodeKind::Softmax { .. } => {
                let value = self.network.value(node.output);
                self.rows(value).into_iter().map(Decision::Rows).collect()
            }
            _ => self.pointwise(id).into_iter().map(Decision::Pointwise).collect(),
        };
        let mut priced: Vec<(f64, NodePlan)> = decisions
            .into_iter()
            .map(|decision| NodePlan {
                decision,
                exchange: ExchangeMode::Automatic,
                alone: false,
                late: false,
                separate: false,
            })
            .filter_map(|plan| Some((self.cycles(id, &plan, inputs)?, plan)))
            .collect();
        priced.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        priced.truncate(SHORTLIST);
        let candidate = |(cycles, plan): (f64, NodePlan)| {
            let layout = layout_of_node(self.network, id, &plan, inputs, self.tiles);
            Candidate { plan, layout, cycles }
        };
        priced.into_iter().map(candidate).collect()
    }

    /// The price of a plan; `None` if it is not legal or not allowed.
    fn cycles(&self, id: NodeId, plan: &NodePlan, inputs: &[Layout]) -> Option<f64> {
        check_node(self.network, id, plan, inputs, self.tiles).ok()?;
        if !self.space.allows(&self.network.node(id).name, plan) {
            return None;
        }
        Some(estimate_node(self.network, id, plan, inputs, self.tiles, self.coefficients))
    }

    /// A plan with its price; `None` if it is not legal or not allowed.
    pub fn price(&self, id: NodeId, plan: NodePlan, inputs: &[Layout]) -> Option<Candidate> {
        let cycles = self.cycles(id, &plan, inputs)?;
        let layout = layout_of_node(self.network, id, &plan, inputs, self.tiles);
        Some(Candidate { plan, layout, cycles })
    }

    /// Layouts of a program input, in a fixed order.
    pub fn input(&self, value: &Value) -> Vec<PointwisePlan> {
        let mut plans: Vec<PointwisePlan> =
            self.rows(value).into_iter().map(PointwisePlan::Rows).collect();
        plans.extend(self.grids(value).into_iter().map(PointwisePlan::Grid));
        plans.retain(|plan| check_input(value, plan, self.tiles).is_ok());
        plans
    }

    /// Whole rows on as many tiles as there are rows for, and on fewer.
    pub fn rows(&self, value: &Value) -> Vec<RowsPlan> {
        let tiles = u32::from(self.tiles);
        let most = if value.blocks > 1 && value.blocks <= tiles {
            value.blocks * (tiles / value.blocks).min(value.rows)
        } else {
            tiles.min(value.rows)
        };
        let mut plans = vec![];
        for divisor in [1, 2, 3, 4] {
            let mut parts = most / divisor;
            if parts > value.blocks {
                parts -= parts % value.blocks;
            }
            if parts == 0 {
                continue;
            }
            // As few parts as the same largest part allows.
            if value.blocks == 1 {
                parts = value.rows.div_ceil(value.rows.div_ceil(parts));
            }
            let stride = (tiles / parts).max(1) as u16;
            plans.push(RowsPlan { parts: parts as u16, stride: 1, first: 0 });
            plans.push(RowsPlan { parts: parts as u16, stride, first: 0 });
        }
        plans.sort_unstable();
        plans.dedup();
        plans
    }

    /// Strips on grids that use most tiles.
    pub fn grids(&self, value: &Value) -> Vec<GridPlan> {
        let tiles = u32::from(self.tiles);
        let mut plans = vec![];
        for rows in [1, 2, 3, 4, 6, 8, 12, 16, 23, 32, 46, 64, 92, 128] {
            if rows > value.rows || rows > tiles {
                continue;
            }
            let strips = (tiles / rows).min(value.strips());
            let strips = value.strips().div_ceil(value.strips().div_ceil(strips));
            let (rows, strips) = (rows as u16, strips as u16);
            plans.push(GridPlan { rows, strips, strips_fastest: true, first: 0 });
        }
        plans
    }

    fn pointwise(&self, id: NodeId) -> Vec<PointwisePlan> {
        let node = self.network.node(id);
        let value = self.network.value(node.inputs[0]);
        let mut plans = vec![PointwisePlan::First];
        if node.inputs.len() == 2 {
            plans.push(PointwisePlan::Second);
        }
        plans.extend(self.rows(value).into_iter().map(PointwisePlan::Rows));
        plans.extend(self.grids(value).into_iter().map(PointwisePlan::Grid));
        plans
    }

    /// Grids of a product.
    fn products(&self, id: NodeId) -> Vec<Decision> {
        let node = self.network.node(id);
        let (left, output) = (self.network.value(node.inputs[0]), self.network.value(node.output));
        let by_block = !matches!(node.kind, NodeKind::Matmul { .. });
        let tiles = u32::from(self.tiles);
        let unit = strip_unit(self.network, output);
        let row_units = output.rows.div_ceil(row_unit(self.network, output));
        let inner_strips = if by_block { left.block_strips() } else { left.strips() };
        if let Some(grid) = self.space.pinned_grid(&node.name) {
            let plans = self.product_plans(id, grid.map(|parts| u32::from(parts.max(1))));
            return plans.into_iter().map(Decision::Gemm).collect();
        }
        let mut decisions = vec![];
        for rows in part_counts(row_units, tiles) {
            for inner in part_counts(inner_strips, (tiles / rows).min(32)) {
                let room = tiles / rows / inner;
                for strips in self.strip_parts(output, by_block, unit, room) {
                    for plan in self.product_plans(id, [rows, strips, inner]) {
                        decisions.push(Decision::Gemm(plan));
                    }
                }
            }
        }
        decisions
    }

    /// Numbers of strip parts that are worth trying with room for `room` of them.
    fn strip_parts(&self, output: &Value, by_block: bool, unit: u32, room: u32) -> Vec<u32> {
        if room == 0 {
            return vec![];
        }
        if !by_block {
            let whole = units(output, unit);
            let most = room.min(whole);
            return vec![whole.div_ceil(whole.div_ceil(most))];
        }
        if room < output.blocks {
            return vec![output.blocks.div_ceil(output.blocks.div_ceil(room))];
        }
        let inside = output.block_strips().div_ceil(unit);
        let most = (room / output.blocks).min(inside);
        vec![output.blocks * inside.div_ceil(inside.div_ceil(most))]
    }

    /// The plans of one grid: with its reduction scattered as widely as it goes.
    pub fn product_plans(&self, id: NodeId, [rows, strips, inner]: [u32; 3]) -> Vec<GemmPlan> {
        let node = self.network.node(id);
        let output = self.network.value(node.output);
        let by_block = !matches!(node.kind, NodeKind::Matmul { .. });
        let (scatter_rows, scatter_strips) = if inner == 1 {
            (1, 1)
        } else {
            let width = if by_block && strips > output.blocks {
                output.block_strips() / (strips / output.blocks)
            } else {
                output.strips() / strips
            };
            let strips = inner.min(width.max(1));
            let height = (output.rows / rows).max(1);
            ((inner / strips).min(height).max(1), strips)
        };
        let (bias, packed) = match &node.kind {
            NodeKind::Matmul { bias: Some(_), activation, .. } => match activation {
                Some(_) => (BiasPlan::Fused, false),
                None => (BiasPlan::Accumulate, false),
            },
            kind => (BiasPlan::Add, *kind == NodeKind::Values),
        };
        let plan = GemmPlan {
            rows: rows as u16,
            strips: strips as u16,
            inner: inner as u16,
            order: AxisOrder::RowsStripsInner,
            first: 0,
            scatter_rows: scatter_rows as u16,
            scatter_strips: scatter_strips as u16,
            bias,
            weights: WeightClass::Interleaved,
            pack: None,
        };
        let mut plans = vec![plan];
        if packed {
            let value = self.network.value(node.inputs[1]);
            plans.extend(
                self.packs(value).into_iter().map(|pack| GemmPlan { pack: Some(pack), ..plan }),
            );
        }
        plans
    }

    /// Where values can be packed.
    pub fn packs(&self, value: &Value) -> Vec<GridPlan> {
        let tiles = u32::from(self.tiles);
        let rows = value.rows.div_ceil(PANEL);
        part_counts(rows, tiles)
            .into_iter()
            .filter_map(|parts| {
                let strips = (tiles / parts).min(value.strips());
                (strips > 0).then_some(GridPlan {
                    rows: parts as u16,
                    strips: strips as u16,
                    strips_fastest: true,
                    first: 0,
                })
            })
            .filter(|grid| {
                u32::from(grid.rows) * u32::from(grid.strips) * 2 > tiles.min(rows * value.strips())
            })
            .collect()
    }
}

/// Numbers of parts, each the smallest with its largest part, up to `most`.
fn part_counts(whole: u32, most: u32) -> Vec<u32> {
    let mut counts: Vec<u32> =
        (1..=whole.min(most)).map(|parts| whole.div_ceil(whole.div_ceil(parts))).collect();
    counts.dedup();
    debug_assert!(
        counts.iter().all(|parts| cut::balanced(whole, *parts).len() as u32 == parts + 1)
    );
    counts
}
