//! Every rule that a decision has to obey.

use crate::plan::layout::PANEL;
use crate::plan::{
    BiasPlan, Decision, GemmPlan, GridPlan, Layout, Network, NodeId, NodeKind, NodePlan, Order,
    PointwisePlan, Recipe, RowsPlan, Value, cut,
};
use crate::program::gemm::{row_unit, strip_unit, units};
use crate::program::pointwise::{cast_fits, working_layout};
use crate::program::{layout_of_input, layout_of_node};
use crate::target::{DataType, TILES};

/// Why a recipe is not legal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{place}`: {rule}")]
pub struct Illegal {
    /// Node or input.
    pub place: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

type Legal = Result<(), &'static str>;

fn require(holds: bool, rule: &'static str) -> Legal {
    if holds { Ok(()) } else { Err(rule) }
}

/// Checks a whole recipe; returns the layout of every value.
///
/// # Errors
/// The first rule that is broken.
pub fn check_recipe(network: &Network, recipe: &Recipe) -> Result<Vec<Layout>, Illegal> {
    let whole = |rule| Illegal { place: "recipe".to_owned(), rule };
    if recipe.tiles == 0 || recipe.tiles > TILES {
        return Err(whole("tiles must be 1 to 1472"));
    }
    if recipe.inputs.len() != network.inputs.len() || recipe.nodes.len() != network.nodes.len() {
        return Err(whole("one plan for every input and every node"));
    }
    for (id, plan) in network.inputs.iter().zip(&recipe.inputs) {
        let value = network.value(*id);
        check_input(value, plan, recipe.tiles)
            .map_err(|rule| Illegal { place: value.name.clone(), rule })?;
    }
    let mut layouts: Vec<Option<Layout>> = vec![None; network.values.len()];
    for (id, plan) in network.inputs.iter().zip(&recipe.inputs) {
        layouts[id.0 as usize] = Some(layout_of_input(network.value(*id), plan, recipe.tiles));
    }
    for id in network.node_ids() {
        let node = network.node(id);
        let inputs: Vec<Layout> =
            node.inputs.iter().filter_map(|value| layouts[value.0 as usize].clone()).collect();
        let plan = &recipe.nodes[id.0 as usize];
        check_node(network, id, plan, &inputs, recipe.tiles)
            .map_err(|rule| Illegal { place: node.name.clone(), rule })?;
        let result = layout_of_node(network, id, plan, &inputs, recipe.tiles);
        layouts[node.output.0 as usize] = Some(result);
    }
    Ok(layouts.into_iter().flatten().collect())
}

/// The layouts of all values of a recipe that is known to be legal.
pub fn recipe_layouts(network: &Network, recipe: &Recipe) -> Vec<Layout> {
    check_recipe(network, recipe).expect("the recipe was checked")
}

/// Checks the plan of a program input.
///
/// # Errors
/// The rule that it breaks.
pub fn check_input(value: &Value, plan: &PointwisePlan, tiles: u16) -> Legal {
    match plan {
        PointwisePlan::Rows(rows) => check_rows(value, rows, tiles),
        PointwisePlan::Grid(grid) => {
            require(value.dtype != DataType::F32, "f32 values lie in whole rows")?;
            check_grid(value, grid, 1, tiles)
        }
        _ => Err("an input needs a layout of its own"),
    }
}

/// Checks the plan of a node whose inputs have these layouts.
///
/// # Errors
/// The rule that it breaks.
pub fn check_node(
    network: &Network,
    id: NodeId,
    plan: &NodePlan,
    inputs: &[Layout],
    tiles: u16,
) -> Legal {
    let node = network.node(id);
    match (&plan.decision, &node.kind) {
        (Decision::Gemm(plan), _) if node.is_gemm() => check_gemm(network, id, plan, inputs, tiles),
        (Decision::Rows(plan), NodeKind::Norm { .. } | NodeKind::Softmax { .. }) => {
            check_rows(network.value(node.output), plan, tiles)
        }
        (
            Decision::Pointwise(plan),
            NodeKind::Unary(_)
            | NodeKind::Binary(_)
            | NodeKind::WithParameter { .. }
            | NodeKind::Cast,
        ) => check_pointwise(network, id, plan, inputs, tiles),
        _ => Err("the decision is of another kind than the node"),
    }
}

fn check_rows(value: &Value, plan: &RowsPlan, tiles: u16) -> Legal {
    let parts = u32::from(plan.parts);
    require(parts >= 1 && plan.stride >= 1, "at least one part, and a stride of at least one")?;
    require(
        (parts - 1) * u32::from(plan.stride) < u32::from(tiles),
        "parts times stride must not exceed the tiles",
    )?;
    require(plan.first < tiles, "the first tile must exist")?;
    if parts <= value.blocks {
        return Ok(());
    }
    require(
        parts.is_multiple_of(value.blocks) && parts / value.blocks <= value.rows,
        "more parts than blocks must be a multiple of them, and no more than rows",
    )
}

fn check_grid(value: &Value, plan: &GridPlan, row_unit: u32, tiles: u16) -> Legal {
    let (rows, strips) = (u32::from(plan.rows), u32::from(plan.strips));
    require(rows >= 1 && rows <= value.rows.div_ceil(row_unit), "row parts must be 1 to the rows")?;
    require(strips >= 1 && strips <= value.strips(), "strip parts must be 1 to the strips")?;
    require(rows * strips <= u32::from(tiles), "the grid must fit the tiles")?;
    require(plan.first < tiles, "the first tile must exist")
}

fn check_pointwise(
    network: &Network,
    id: NodeId,
    plan: &PointwisePlan,
    inputs: &[Layout],
    tiles: u16,
) -> Legal {
    let node = network.node(id);
    let value = network.value(node.inputs[0]);
    match plan {
        PointwisePlan::First => {}
        PointwisePlan::Second => require(
            node.inputs.len() == 2 && node.inputs[0] != node.inputs[1],
            "there must be a second operand",
        )?,
        PointwisePlan::Rows(rows) => check_rows(value, rows, tiles)?,
        PointwisePlan::Grid(grid) => check_grid(value, grid, 1, tiles)?,
    }
    let layout = working_layout(value, inputs, plan, tiles);
    let f32 = value.dtype == DataType::F32 || network.value(node.output).dtype == DataType::F32;
    require(!f32 || layout.order == Order::Rows, "f32 values lie in whole rows")?;
    if node.kind == NodeKind::Cast {
        let to = network.value(node.output);
        require(cast_fits(value, to, &layout), "a cast needs whole granules of both types")?;
    }
    Ok(())
}

fn check_gemm(
    network: &Network,
    id: NodeId,
    plan: &GemmPlan,
    inputs: &[Layout],
    tiles: u16,
) -> Legal {
    let node = network.node(id);
    let (left, output) = (network.value(node.inputs[0]), network.value(node.output));
    let [rows, strips, inner] = [plan.rows, plan.strips, plan.inner].map(u32::from);
    let (row_unit, strip_unit) = (row_unit(network, output), strip_unit(network, output));
    require(rows >= 1 && strips >= 1 && inner >= 1, "at least one part on every axis")?;
    require(
        rows <= output.rows.div_ceil(row_unit),
        "no more row parts than rows (16 where packed)",
    )?;
    let points = u64::from(rows) * u64::from(strips) * u64::from(inner);
    require(points <= u64::from(tiles), "the grid must fit the tiles")?;
    require(plan.first < tiles, "the first tile must exist")?;
    if let NodeKind::Matmul { bias, activation, .. } = &node.kind {
        require(strips <= units(output, strip_unit), "no more strip parts than strips")?;
        require(inner <= left.strips(), "no more inner parts than inner strips")?;
        require(plan.pack.is_none(), "only values are packed")?;
        match plan.bias {
            BiasPlan::Add => {}
            BiasPlan::Accumulate => require(bias.is_some(), "there must be a bias")?,
            BiasPlan::Fused => {
                require(
                    bias.is_some() && activation.is_some(),
                    "there must be a bias and an activation",
                )?;
            }
        }
    } else {
        let fits = strips <= output.blocks
            || strips.is_multiple_of(output.blocks)
                && strips / output.blocks <= output.block_strips().div_ceil(strip_unit);
        require(fits, "strip parts must be whole blocks, or cut every block alike")?;
        require(inner <= left.block_strips(), "no more inner parts than inner strips")?;
        require(plan.bias == BiasPlan::Add, "there is no bias")?;
        check_pack(network, id, plan, inputs, tiles)?;
    }
    check_scatter(plan, output, row_unit, strip_unit, !matches!(node.kind, NodeKind::Matmul { .. }))
}

fn check_pack(
    network: &Network,
    id: NodeId,
    plan: &GemmPlan,
    inputs: &[Layout],
    tiles: u16,
) -> Legal {
    let node = network.node(id);
    if node.kind != NodeKind::Values {
        return require(plan.pack.is_none(), "only values are packed");
    }
    match &plan.pack {
        Some(grid) => check_grid(network.value(node.inputs[1]), grid, PANEL, tiles),
        None => {
            let layout = &inputs[1];
            require(
                layout.order == Order::Strips && layout.rows_aligned(PANEL),
                "values are packed where they lie only from strips cut at multiples of 16 rows",
            )
        }
    }
}

fn check_scatter(
    plan: &GemmPlan,
    output: &Value,
    row_unit: u32,
    strip_unit: u32,
    by_block: bool,
) -> Legal {
    let (a, b) = (u32::from(plan.scatter_rows), u32::from(plan.scatter_strips));
    require(a >= 1 && b >= 1, "a reduction has at least one part")?;
    if plan.inner == 1 {
        return require(a == 1 && b == 1, "nothing to reduce");
    }
    require(a * b <= u32::from(plan.inner), "no more reducers than inner parts")?;
    let least_rows = cut::smallest(&cut::in_units(output.rows, row_unit, u32::from(plan.rows)));
    require(a <= least_rows, "no more row parts of a reduction than rows of a block")?;
    let strips = u32::from(plan.strips);
    let least_strips = if by_block {
        if strips <= output.blocks {
            output.blocks / strips * output.block_strips()
        } else {
            let cut = cut::in_units(output.block_strips(), strip_unit, strips / output.blocks);
            cut::smallest(&cut)
        }
    } else {
        (units(output, strip_unit) / strips).max(1)
    };
    require(b <= least_strips, "no more strip parts of a reduction than strips of a block")
}
