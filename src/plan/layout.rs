//! Who owns which piece of a value, and in which element order.
//!
//! A value is a matrix of *granules* (32 bytes, see [`kernels`](crate::kernels)): rows times
//! strips. A layout cuts both and gives every rectangle to one tile; a tile owns one at most.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::target::TileId;

/// Bytes of a granule: the inner micro dimension of every element type (`target/ipu21.md` §12.3).
pub const GRANULE: u32 = 32;
/// Exchange words of a granule.
pub const GRANULE_WORDS: u32 = GRANULE / 4;
/// Granules of a right panel, and rows of it when it is made from rows.
pub const PANEL: u32 = 16;

/// Order of the granules inside a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Strip after strip, each with all rows: AMP left order.
    Strips,
    /// Block after block, row after row, each with all strips of the block: row-major.
    Rows,
    /// Right panels (`target/ipu21.md` §12.3): strip after strip, 16 rows after 16 rows, the granules inside hold
    /// one column each.
    Panels,
}

/// A value's layout. Equal layouts mean that no data has to move.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout {
    /// Granule order of every shard.
    pub order: Order,
    /// Boundaries of the row parts.
    pub rows: Arc<[u32]>,
    /// Boundaries of the strip parts.
    pub strips: Arc<[u32]>,
    /// Owner of part (i, j) at `i · strip parts + j`; all different.
    pub tiles: Arc<[TileId]>,
}

/// The rectangle of granules that one tile owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The owner.
    pub tile: TileId,
    /// Rows of the value.
    pub rows: Range<u32>,
    /// Strips of the value.
    pub strips: Range<u32>,
}

impl Layout {
    /// A layout from its parts; `tile` gives the owner of part (row part, strip part).
    pub fn new(
        order: Order,
        rows: Vec<u32>,
        strips: Vec<u32>,
        tile: impl Fn(u32, u32) -> TileId,
    ) -> Layout {
        let (row_parts, strip_parts) = (rows.len() as u32 - 1, strips.len() as u32 - 1);
        let tiles = (0..row_parts)
            .flat_map(|i| (0..strip_parts).map(move |j| (i, j)))
            .map(|(i, j)| tile(i, j))
            .collect();
        Layout { order, rows: rows.into(), strips: strips.into(), tiles }
    }

    /// Number of row parts.
    pub fn row_parts(&self) -> usize {
        self.rows.len() - 1
    }

    /// Number of strip parts.
    pub fn strip_parts(&self) -> usize {
        self.strips.len() - 1
    }

    /// The shard of row part `i` and strip part `j`.
    pub fn shard(&self, i: usize, j: usize) -> Shard {
        Shard {
            tile: self.tiles[i * self.strip_parts() + j],
            rows: self.rows[i]..self.rows[i + 1],
            strips: self.strips[j]..self.strips[j + 1],
        }
    }

    /// All shards, row part by row part.
    pub fn shards(&self) -> impl Iterator<Item = Shard> + '_ {
        (0..self.row_parts())
            .flat_map(move |i| (0..self.strip_parts()).map(move |j| self.shard(i, j)))
    }

    /// Most granules of any shard.
    pub fn largest_shard(&self) -> u32 {
        self.shards().map(|shard| shard.granules(self.order)).max().unwrap_or(0)
    }

    /// Whether every row boundary is a multiple of `unit` or the end.
    pub fn rows_aligned(&self, unit: u32) -> bool {
        self.rows[..self.rows.len() - 1].iter().all(|row| row.is_multiple_of(unit))
    }

    /// Whether every strip part is made of whole blocks of `block` strips.
    pub fn holds_whole_blocks(&self, block: u32) -> bool {
        self.strips.iter().all(|strip| strip.is_multiple_of(block))
    }

    /// Whether every strip boundary lies at an even strip of its block of `block` strips.
    pub fn strips_paired(&self, block: u32) -> bool {
        self.strips.iter().all(|strip| (strip % block).is_multiple_of(2))
    }

    /// Size in bytes of every shard, by ascending tile.
    pub fn shard_bytes(&self) -> Vec<(TileId, u32)> {
        let mut sizes: Vec<_> =
            self.shards().map(|shard| (shard.tile, shard.granules(self.order) * GRANULE)).collect();
        sizes.sort_unstable();
        sizes
    }
}

impl Shard {
    /// Number of rows.
    pub fn row_count(&self) -> u32 {
        self.rows.end - self.rows.start
    }

    /// Number of strips.
    pub fn strip_count(&self) -> u32 {
        self.strips.end - self.strips.start
    }

    /// Number of granules, the padding rows of panels included.
    pub fn granules(&self, order: Order) -> u32 {
        match order {
            Order::Strips | Order::Rows => self.row_count() * self.strip_count(),
            Order::Panels => self.row_count().next_multiple_of(PANEL) * self.strip_count(),
        }
    }

    /// Place of granule (row, strip) in the shard, in granules; blocks have `block` strips. In
    /// panels order a granule is named by the first row of its panel and stands for 16.
    pub fn index(&self, order: Order, block: u32, row: u32, strip: u32) -> u32 {
        let (r, s) = (row - self.rows.start, strip - self.strips.start);
        match order {
            Order::Strips => s * self.row_count() + r,
            Order::Rows => {
                let b = strip / block - self.strips.start / block;
                (b * self.row_count() + r) * block + strip % block
            }
            Order::Panels => (s * self.row_count().div_ceil(PANEL) + r / PANEL) * PANEL,
        }
    }
}
