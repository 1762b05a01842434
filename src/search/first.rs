//! The first good plan: a beam over boundary layouts, node after node, by F0.

use crate::plan::{Layout, Recipe, StoragePlan};
use crate::program::layout_of_input;
use crate::space::SpaceError;
use crate::space::candidates::Planner;

/// Partial plans kept after every node.
const BEAM: usize = 12;
/// Plans tried for a node in each partial plan.
const BRANCH: usize = 6;

/// A plan of the first nodes.
#[derive(Clone)]
struct Partial {
    cycles: f64,
    recipe: Recipe,
    layouts: Vec<Option<Layout>>,
}

/// The first plans, best first; never empty.
///
/// # Errors
/// If the space leaves nothing legal for a node.
pub fn first_plans(planner: &Planner<'_>) -> Result<Vec<Recipe>, SpaceError> {
    let network = planner.network;
    let empty = Partial {
        cycles: 0.0,
        recipe: Recipe {
            format: Recipe::FORMAT.to_owned(),
            tiles: planner.tiles,
            inputs: vec![],
            nodes: vec![],
            storage: StoragePlan::Apart,
        },
        layouts: vec![None; network.values.len()],
    };
    let mut beam = vec![empty];
    for id in &network.inputs {
        let value = network.value(*id);
        let mut next = vec![];
        for partial in &beam {
            for plan in planner.input(value).into_iter().take(BEAM) {
                let mut partial = partial.clone();
                let layout = layout_of_input(value, &plan, planner.tiles);
                partial.layouts[id.0 as usize] = Some(layout);
                partial.recipe.inputs.push(plan);
                next.push(partial);
            }
        }
        next.truncate(4 * BEAM);
        beam = next;
    }
    for id in network.node_ids() {
        let node = network.node(id);
        let mut next: Vec<Partial> = vec![];
        for partial in &beam {
            let inputs: Vec<Layout> = (node.inputs.iter())
                .filter_map(|value| partial.layouts[value.0 as usize].clone())
                .collect();
            for candidate in planner.node(id, &inputs, BRANCH) {
                let mut partial = partial.clone();
                partial.cycles += candidate.cycles;
                partial.recipe.nodes.push(candidate.plan);
                partial.layouts[node.output.0 as usize] = Some(candidate.layout);
                next.push(partial);
            }
        }
        if next.is_empty() {
            let rule = "no plan obeys every rule and pin on this number of tiles".to_owned();
            return Err(SpaceError::Empty { operation: node.name.clone(), rule });
        }
        next.sort_by(|a, b| a.cycles.total_cmp(&b.cycles).then_with(|| a.recipe.cmp(&b.recipe)));
        next.truncate(BEAM);
        beam = next;
    }
    Ok(beam.into_iter().map(|partial| partial.recipe).collect())
}
