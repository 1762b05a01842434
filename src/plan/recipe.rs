//! The recipe: every decision that makes a candidate, canonical and serializable. Its hash is the
//! candidate's identity.
//!
//! A recipe holds what was chosen, not why and not whether it is legal; `space` has the rules.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a grid's axes lie in the row of tiles that it occupies, slowest first: row parts, strip
/// parts, inner parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AxisOrder {
    /// Rows slowest, inner fastest.
    RowsStripsInner,
    /// Rows slowest, strips fastest.
    RowsInnerStrips,
    /// Strips slowest, inner fastest.
    StripsRowsInner,
    /// Strips slowest, rows fastest.
    StripsInnerRows,
    /// Inner slowest, strips fastest.
    InnerRowsStrips,
    /// Inner slowest, rows fastest.
    InnerStripsRows,
}

impl AxisOrder {
    /// All orders.
    pub const ALL: [AxisOrder; 6] = [
        AxisOrder::RowsStripsInner,
        AxisOrder::RowsInnerStrips,
        AxisOrder::StripsRowsInner,
        AxisOrder::StripsInnerRows,
        AxisOrder::InnerRowsStrips,
        AxisOrder::InnerStripsRows,
    ];

    /// Position of grid point (row part, strip part, inner part) in the row of tiles.
    pub fn position(self, point: [u32; 3], parts: [u32; 3]) -> u32 {
        let axes = match self {
            AxisOrder::RowsStripsInner => [0, 1, 2],
            AxisOrder::RowsInnerStrips => [0, 2, 1],
            AxisOrder::StripsRowsInner => [1, 0, 2],
            AxisOrder::StripsInnerRows => [1, 2, 0],
            AxisOrder::InnerRowsStrips => [2, 0, 1],
            AxisOrder::InnerStripsRows => [2, 1, 0],
        };
        axes.iter().fold(0, |position, &axis| position * parts[axis] + point[axis])
    }
}

/// A rectangle of row parts and strip parts on consecutive tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridPlan {
    /// Row parts.
    pub rows: u16,
    /// Strip parts.
    pub strips: u16,
    /// Strip parts vary fastest over the tiles; else row parts.
    pub strips_fastest: bool,
    /// First tile; the grid wraps around the last one.
    pub first: u16,
}

/// Whole rows, dealt to tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowsPlan {
    /// Row parts, times block parts where the value has blocks: the number of tiles used.
    pub parts: u16,
    /// Distance of consecutive parts in tiles.
    pub stride: u16,
    /// First tile; wraps around the last one.
    pub first: u16,
}

/// Class of the memory that the weights of a product lie in (`target/ipu21.md` §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightClass {
    /// Either region; 8 bytes a cycle.
    Standard,
    /// Region 1; 16 bytes a cycle.
    Interleaved,
}

/// How a product's bias gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BiasPlan {
    /// A dense addition after the product.
    Add,
    /// Copied into the accumulators before the product.
    Accumulate,
    /// In one kernel with the activation.
    Fused,
}

/// A matrix product: every tile of a grid multiplies one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GemmPlan {
    /// Parts of the rows.
    pub rows: u16,
    /// Parts of the output's strips (of a block product: of blocks, or of every block alike).
    pub strips: u16,
    /// Parts of the inner dimension; more than one means partial sums that are exchanged.
    pub inner: u16,
    /// Order of the grid's axes over the tiles.
    pub order: AxisOrder,
    /// First tile; the grid wraps around the last one.
    pub first: u16,
    /// Into how many row parts each block's reduction is scattered.
    pub scatter_rows: u16,
    /// Into how many strip parts each block's reduction is scattered.
    pub scatter_strips: u16,
    /// How the bias gets in.
    pub bias: BiasPlan,
    /// Memory class of the right operand.
    pub weights: WeightClass,
    /// Block products with a packed right operand: where it is packed; `None`: where it is.
    pub pack: Option<GridPlan>,
}

/// Where an elementwise node works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PointwisePlan {
    /// In its first operand's layout.
    First,
    /// In its second operand's layout.
    Second,
    /// On whole rows.
    Rows(RowsPlan),
    /// On a grid of strips.
    Grid(GridPlan),
}

/// What was decided for one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// A matrix product.
    Gemm(GemmPlan),
    /// A norm or a softmax: whole rows.
    Rows(RowsPlan),
    /// Everything that works element by element.
    Pointwise(PointwisePlan),
}

/// Which width the transfers of a node's exchange phases have.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum ExchangeMode {
    /// Whatever ends first.
    #[default]
    Automatic,
    /// 32-bit items.
    Ordinary,
    /// 64-bit items wherever a transfer is eligible.
    Paired,
}

/// Everything decided for one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePlan {
    /// How and where it is computed.
    pub decision: Decision,
    /// Width of its exchange.
    #[serde(default)]
    pub exchange: ExchangeMode,
    /// Starts a level of its own instead of sharing the phases of independent nodes.
    #[serde(default)]
    pub alone: bool,
    /// Waits until its first reader is about to start, in whose levels it then shares the phases:
    /// what it makes lives shorter, what it reads lives longer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub late: bool,
    /// Writes its result to a place of its own, not over an operand that nobody reads again. That
    /// takes more memory, but the result need not obey the rules about the operand's place.
    #[serde(default, skip_serializing_if = "is_false")]
    pub separate: bool,
}

/// Plans from before a decision existed keep their identity.
fn is_false(decision: &bool) -> bool {
    !decision
}

/// Which pairs of buffers the placer is asked to put into different memory elements from the start. It
/// does so on every tile that has room for all of its pairs, and on others for none.
///
/// Whatever is asked, phases that end later than their bound while a tile reads and writes one element
/// have their buffers moved apart afterwards, if that shortens exchange.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum StoragePlan {
    /// None: buffers lie where they take few bytes together.
    #[default]
    Automatic,
    /// Every buffer that is read and every one that is written in the same exchange.
    Apart,
}

/// A candidate: all decisions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Always [`Recipe::FORMAT`].
    pub format: String,
    /// Tiles that the program uses: the logical tiles `0..tiles`.
    pub tiles: u16,
    /// Layout of every program input, in the network's order: strips on a grid, or whole rows.
    pub inputs: Vec<PointwisePlan>,
    /// Plan of every node, in the network's order.
    pub nodes: Vec<NodePlan>,
    /// Preference of the placer.
    #[serde(default)]
    pub storage: StoragePlan,
}

/// Identity of a recipe: the hash of its canonical form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecipeHash(pub [u8; 32]);

impl fmt::Display for RecipeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RecipeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecipeHash({self})")
    }
}

impl Recipe {
    /// The format and version that recipes of this build carry.
    pub const FORMAT: &str = "ipu-tune/recipe@1";

    /// The canonical text: one line of JSON, fields in the order of the types.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a recipe holds nothing that JSON cannot say")
    }

    /// Reads what [`Recipe::to_json`] wrote.
    ///
    /// # Errors
    /// If the text is not a recipe of this format.
    pub fn from_json(text: &str) -> Result<Recipe, serde_json::Error> {
        let recipe: Recipe = serde_json::from_str(text)?;
        if recipe.format != Recipe::FORMAT {
            let found = format!("format `{}`, expected `{}`", recipe.format, Recipe::FORMAT);
            return Err(serde::de::Error::custom(found));
        }
        Ok(recipe)
    }

    /// The candidate's identity.
    pub fn hash(&self) -> RecipeHash {
        RecipeHash(*blake3::hash(self.to_json().as_bytes()).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_order_is_a_bijection() {
        let parts = [3, 4, 5];
        for order in AxisOrder::ALL {
            let mut seen = vec![false; 60];
            for i in 0..3 {
                for j in 0..4 {
                    for k in 0..5 {
                        seen[order.position([i, j, k], parts) as usize] = true;
                    }
                }
            }
            assert!(seen.into_iter().all(|hit| hit), "{order:?}");
        }
    }

    #[test]
    fn a_recipe_survives_its_text_and_strangers_are_refused() {
        let rows = RowsPlan { parts: 7, stride: 2, first: 1 };
        let recipe = Recipe {
            format: Recipe::FORMAT.to_owned(),
            tiles: 64,
            inputs: vec![PointwisePlan::Rows(rows)],
            nodes: vec![NodePlan {
                decision: Decision::Rows(rows),
                exchange: ExchangeMode::Paired,
                alone: true,
                late: true,
                separate: true,
            }],
            storage: StoragePlan::Automatic,
        };
        let text = recipe.to_json();
        assert_eq!(Recipe::from_json(&text).unwrap(), recipe);
        assert_ne!(recipe.hash(), Recipe { tiles: 65, ..recipe.clone() }.hash());
        assert!(Recipe::from_json(&text.replace("recipe@1", "recipe@9")).is_err());
        assert!(Recipe::from_json(&text.replace("\"stride\"", "\"step\"")).is_err());
    }
}
