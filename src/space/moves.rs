//! Moves: from a legal recipe to another one nearby.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::plan::{
    AxisOrder, BiasPlan, Decision, ExchangeMode, GemmPlan, Layout, Network, NodeId, NodeKind,
    NodePlan, PointwisePlan, Recipe, StoragePlan, WeightClass,
};
use crate::program::{layout_of_input, layout_of_node};

use super::candidates::Planner;
use super::legal::{check_input, check_recipe};

/// Kinds of moves: the arms of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Move {
    /// Another grid, reduction or bias of one product.
    OperatorPlan,
    /// Another layout of one input, norm, softmax, packing or pointwise node.
    BoundaryLayout,
    /// One node and everything after it that its change touches, replanned together.
    Joint,
    /// Other tiles: axis order, first tile, stride.
    TileMapping,
    /// Another width of exchange, or phases shared or not.
    ExchangeMode,
    /// Another memory class or preference of the placer.
    StoragePreference,
}

impl Move {
    /// All moves.
    pub const ALL: [Move; 6] = [
        Move::OperatorPlan,
        Move::BoundaryLayout,
        Move::Joint,
        Move::TileMapping,
        Move::ExchangeMode,
        Move::StoragePreference,
    ];
}

/// Plans among which a move draws.
const SHORTLIST: usize = 24;

/// A neighbour of `parent`; `None` if the draw led nowhere.
pub fn propose(
    planner: &Planner<'_>,
    parent: &Recipe,
    kind: Move,
    rng: &mut ChaCha8Rng,
) -> Option<Recipe> {
    let mut recipe = parent.clone();
    match kind {
        Move::OperatorPlan => operator(planner, &mut recipe, rng)?,
        Move::BoundaryLayout => boundary(planner, &mut recipe, rng)?,
        Move::Joint => joint(planner, &mut recipe, rng)?,
        Move::TileMapping => mapping(planner, &mut recipe, rng)?,
        Move::ExchangeMode => exchange(planner, &mut recipe, rng)?,
        Move::StoragePreference => storage(planner, &mut recipe, rng)?,
    }
    repair(planner, &mut recipe)?;
    let allowed = (planner.network.nodes.iter().zip(&recipe.nodes))
        .all(|(node, plan)| planner.space.allows(&node.name, plan));
    let legal = allowed && check_recipe(planner.network, &recipe).is_ok();
    (legal && recipe != *parent).then_some(recipe)
}

fn pick<'a, T>(rng: &mut ChaCha8Rng, items: &'a [T]) -> Option<&'a T> {
    if items.is_empty() { None } else { items.get(rng.random_range(0..items.len())) }
}

/// Nodes whose plans satisfy a condition.
fn nodes(network: &Network, wanted: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
    network.node_ids().filter(|id| wanted(*id)).collect()
}

fn gemm(recipe: &mut Recipe, id: NodeId) -> Option<&mut GemmPlan> {
    match &mut recipe.nodes[id.0 as usize].decision {
        Decision::Gemm(plan) => Some(plan),
        _ => None,
    }
}

/// Layouts of a node's inputs under a recipe that is legal up to that node.
fn input_layouts(planner: &Planner<'_>, recipe: &Recipe, until: NodeId) -> Vec<Layout> {
    let network = planner.network;
    let mut layouts: Vec<Option<Layout>> = vec![None; network.values.len()];
    for (id, plan) in network.inputs.iter().zip(&recipe.inputs) {
        layouts[id.0 as usize] = Some(layout_of_input(network.value(*id), plan, recipe.tiles));
    }
    let inputs = |layouts: &[Option<Layout>], id: NodeId| -> Vec<Layout> {
        let values = network.node(id).inputs.iter();
        values.filter_map(|value| layouts[value.0 as usize].clone()).collect()
    };
    for id in network.node_ids().take_while(|id| *id < until) {
        let held = inputs(&layouts, id);
        let plan = &recipe.nodes[id.0 as usize];
        let result = layout_of_node(network, id, plan, &held, recipe.tiles);
        layouts[network.node(id).output.0 as usize] = Some(result);
    }
    inputs(&layouts, until)
}

fn operator(planner: &Planner<'_>, recipe: &mut Recipe, rng: &mut ChaCha8Rng) -> Option<()> {
    let network = planner.network;
    let products = nodes(network, |id| network.node(id).is_gemm());
    let id = *pick(rng, &products)?;
    let old = *gemm(recipe, id)?;
    let new = match rng.random_range(0..4) {
        0 => {
            let inputs = input_layouts(planner, recipe, id);
            let found = planner.node(id, &inputs, SHORTLIST);
            match pick(rng, &found)?.plan.decision {
                Decision::Gemm(plan) => {
                    GemmPlan { order: old.order, first: old.first, weights: old.weights, ..plan }
                }
                _ => return None,
            }
        }
        1 => GemmPlan {
            bias: *pick(rng, &[BiasPlan::Add, BiasPlan::Accumulate, BiasPlan::Fused])?,
            ..old
        },
        2 => scatter(old, rng),
        _ => {
            let grid = [old.rows, old.strips, old.inner].map(u32::from);
            let axis = rng.random_range(0..3);
            let other = (axis + rng.random_range(1..3)) % 3;
            let mut grid = grid;
            grid[axis] = step(grid[axis], true, rng);
            grid[other] = step(grid[other], false, rng);
            let plan = *planner.product_plans(id, grid).first()?;
            let keep =
                GemmPlan { order: old.order, first: old.first, weights: old.weights, ..plan };
            GemmPlan { pack: old.pack, bias: old.bias, ..keep }
        }
    };
    *gemm(recipe, id)? = new;
    Some(())
}

/// A part count a little larger or smaller.
fn step(parts: u32, up: bool, rng: &mut ChaCha8Rng) -> u32 {
    let change = rng.random_range(0..=(parts / 2).max(1));
    if up { parts + change.max(1) } else { parts.saturating_sub(change).max(1) }
}

fn scatter(old: GemmPlan, rng: &mut ChaCha8Rng) -> GemmPlan {
    let scatter_rows = rng.random_range(1..=old.inner);
    let scatter_strips = rng.random_range(1..=(old.inner / scatter_rows).max(1));
    GemmPlan { scatter_rows, scatter_strips, ..old }
}

fn boundary(planner: &Planner<'_>, recipe: &mut Recipe, rng: &mut ChaCha8Rng) -> Option<()> {
    let network = planner.network;
    let choices = recipe.inputs.len() + recipe.nodes.len();
    let choice = rng.random_range(0..choices);
    if let Some(plan) = recipe.inputs.get_mut(choice) {
        let value = network.value(network.inputs[choice]);
        *plan = *pick(rng, &planner.input(value))?;
        return Some(());
    }
    let index = choice - recipe.inputs.len();
    let id = NodeId(index as u32);
    if let Some(plan) = gemm(recipe, id) {
        let value = network.value(*network.node(id).inputs.get(1)?);
        plan.pack = match rng.random_range(0..4) {
            0 => None,
            _ => Some(*pick(rng, &planner.packs(value))?),
        };
        return Some(());
    }
    let inputs = input_layouts(planner, recipe, id);
    let found = planner.node(id, &inputs, SHORTLIST);
    recipe.nodes[index].decision = pick(rng, &found)?.plan.decision;
    Some(())
}

/// Draws a plan for one node, then replans what follows from it greedily, as far as a few nodes.
fn joint(planner: &Planner<'_>, recipe: &mut Recipe, rng: &mut ChaCha8Rng) -> Option<()> {
    let network = planner.network;
    let id = *pick(rng, &nodes(network, |_| true))?;
    let inputs = input_layouts(planner, recipe, id);
    let found = planner.node(id, &inputs, SHORTLIST);
    recipe.nodes[id.0 as usize].decision = pick(rng, &found)?.plan.decision;
    let depth = rng.random_range(1..=4);
    let mut touched = vec![network.node(id).output];
    for next in network.node_ids().filter(|next| *next > id) {
        let node = network.node(next);
        if touched.len() > depth || !node.inputs.iter().any(|value| touched.contains(value)) {
            continue;
        }
        let inputs = input_layouts(planner, recipe, next);
        let found = planner.node(next, &inputs, 3);
        recipe.nodes[next.0 as usize].decision = pick(rng, &found)?.plan.decision;
        touched.push(node.output);
    }
    Some(())
}

fn mapping(planner: &Planner<'_>, recipe: &mut Recipe, rng: &mut ChaCha8Rng) -> Option<()> {
    let (network, tiles) = (planner.network, planner.tiles);
    if rng.random_range(0..3) == 0 {
        return side_by_side(network, recipe, tiles, rng);
    }
    let id = *pick(rng, &nodes(network, |_| true))?;
    let first = rng.random_range(0..tiles);
    match &mut recipe.nodes[id.0 as usize].decision {
        Decision::Gemm(plan) => match rng.random_range(0..3) {
            0 => plan.first = first,
            _ => plan.order = *pick(rng, &AxisOrder::ALL)?,
        },
        Decision::Rows(plan) | Decision::Pointwise(PointwisePlan::Rows(plan)) => {
            let most = (tiles / plan.parts).max(1);
            match rng.random_range(0..2) {
                0 => plan.first = first,
                _ => plan.stride = rng.random_range(1..=most),
            }
        }
        Decision::Pointwise(PointwisePlan::Grid(plan)) => match rng.random_range(0..2) {
            0 => plan.first = first,
            _ => plan.strips_fastest = !plan.strips_fastest,
        },
        Decision::Pointwise(_) => return None,
    }
    Some(())
}

/// Products that read the same value, on tiles of their own beside each other, so that they run at
/// the same time.
fn side_by_side(
    network: &Network,
    recipe: &mut Recipe,
    tiles: u16,
    rng: &mut ChaCha8Rng,
) -> Option<()> {
    let shared = (network.values.iter()).filter(|value| {
        value.consumers.iter().filter(|id| network.node(**id).is_gemm()).count() > 1
    });
    let shared: Vec<_> = shared.collect();
    let value = pick(rng, &shared)?;
    let siblings: Vec<NodeId> =
        value.consumers.iter().copied().filter(|id| network.node(*id).is_gemm()).collect();
    let share = tiles / siblings.len() as u16;
    for (index, id) in (0..).zip(siblings) {
        let plan = gemm(recipe, id)?;
        let fits = |plan: &GemmPlan| {
            u32::from(plan.rows) * u32::from(plan.strips) * u32::from(plan.inner)
                <= u32::from(share)
        };
        // Halve the axis with the most parts until the product fits its share.
        while !fits(plan) {
            let most = plan.rows.max(plan.strips).max(plan.inner);
            let half = |parts: u16| if parts == most { parts.div_ceil(2) } else { parts };
            let changed = GemmPlan { strips: half(plan.strips), ..*plan };
            *plan = if changed == *plan {
                GemmPlan { rows: half(plan.rows), inner: half(plan.inner), ..*plan }
            } else {
                changed
            };
            plan.scatter_rows = plan.scatter_rows.min(plan.inner);
            plan.scatter_strips = plan.scatter_strips.min(plan.inner / plan.scatter_rows);
            if plan.inner == 1 {
                (plan.scatter_rows, plan.scatter_strips) = (1, 1);
            }
            if most == 1 {
                return None;
            }
        }
        plan.first = index * share;
    }
    Some(())
}

fn exchange(planner: &Planner<'_>, recipe: &mut Recipe, rng: &mut ChaCha8Rng) -> Option<()> {
    let id = *pick(rng, &nodes(planner.network, |_| true))?;
    let plan: &mut NodePlan = &mut recipe.nodes[id.0 as usize];
    match rng.random_range(0..5) {
        0 => plan.alone = !plan.alone,
        1 => plan.late = !plan.late,
        2 => plan.exchange = ExchangeMode::Automatic,
        3 => plan.exchange = ExchangeMode::Ordinary,
        _ => plan.exchange = ExchangeMode::Paired,
    }
    Some(())
}

fn storage(planner: &Planner<'_>, recipe: &mut Recipe, rng: &mut ChaCha8Rng) -> Option<()> {
    let network = planner.network;
    let products = nodes(network, |id| network.node(id).is_gemm());
    // Products and casts never take their operands' places: nothing to decide there.
    let others = nodes(network, |id| {
        let node = network.node(id);
        !node.is_gemm() && node.kind != NodeKind::Cast
    });
    let decisions = if products.is_empty() { 2 } else { 4 };
    match rng.random_range(0..decisions) {
        0 => {
            recipe.storage = match recipe.storage {
                StoragePlan::Automatic => StoragePlan::Apart,
                StoragePlan::Apart => StoragePlan::Automatic,
            };
        }
        1 => {
            let plan = &mut recipe.nodes[pick(rng, &others)?.0 as usize];
            plan.separate = !plan.separate;
        }
        _ => {
            let plan = gemm(recipe, *pick(rng, &products)?)?;
            plan.weights = match plan.weights {
                WeightClass::Interleaved => WeightClass::Standard,
                WeightClass::Standard => WeightClass::Interleaved,
            };
        }
    }
    Some(())
}

/// Replaces every plan that became illegal by the cheapest legal one. `None` if there is none.
pub fn repair(planner: &Planner<'_>, recipe: &mut Recipe) -> Option<()> {
    let network = planner.network;
    let mut layouts: Vec<Option<Layout>> = vec![None; network.values.len()];
    for (index, id) in network.inputs.iter().enumerate() {
        let value = network.value(*id);
        if check_input(value, &recipe.inputs[index], recipe.tiles).is_err() {
            recipe.inputs[index] = *planner.input(value).first()?;
        }
        layouts[id.0 as usize] = Some(layout_of_input(value, &recipe.inputs[index], recipe.tiles));
    }
    for id in network.node_ids() {
        let node = network.node(id);
        let inputs: Vec<Layout> =
            node.inputs.iter().filter_map(|value| layouts[value.0 as usize].clone()).collect();
        let plan = recipe.nodes[id.0 as usize];
        let priced = planner.price(id, plan, &inputs);
        let chosen = match priced {
            Some(candidate) => candidate,
            None => planner.node(id, &inputs, 1).into_iter().next()?,
        };
        recipe.nodes[id.0 as usize] = chosen.plan;
        layouts[node.output.0 as usize] = Some(chosen.layout);
    }
    Some(())
}
