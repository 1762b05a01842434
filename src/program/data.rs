//! From tensors to the bytes that tiles hold, and back: what the host writes into inputs and
//! parameters and reads from outputs.

use std::ops::Range;
use std::sync::Arc;

use half::f16;
use rayon::prelude::*;

use crate::kernels::right_column;
use crate::model::{Graph, TensorId, Values};
use crate::plan::layout::GRANULE;
use crate::plan::{Layout, Network, Order, Shard, Value, ValueId};
use crate::target::{DataType, TileId, f8};

use super::{Program, Role};

/// What a host-visible buffer holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fill {
    /// The shards of a value.
    Value {
        /// The value.
        value: ValueId,
        /// Its layout.
        layout: Layout,
    },
    /// Blocks of a weight matrix in right panels.
    Weight {
        /// The matrix.
        tensor: TensorId,
        /// It is stored `[columns, inner]`.
        transposed: bool,
        /// The product's left operand: its columns are the inner dimension.
        left: ValueId,
        /// The product's result: its columns are the matrix's columns.
        output: ValueId,
        /// For every tile, strips of the left operand and strips of the result.
        blocks: Arc<[WeightBlock]>,
    },
    /// One number a column, repeated for every row of a layout.
    Repeated {
        /// The numbers.
        tensor: TensorId,
        /// The value whose columns they belong to.
        value: ValueId,
        /// Its layout.
        layout: Layout,
    },
    /// One number a column, one row on every tile, padded with zeros.
    Row {
        /// The numbers.
        tensor: TensorId,
        /// The value whose columns they belong to.
        value: ValueId,
    },
}

/// A tile's block of a weight matrix: strips of the left operand and strips of the result.
pub type WeightBlock = (TileId, Range<u32>, Range<u32>);

/// One element of a piece: where it comes from in the tensor.
type Source = Option<usize>;

impl Fill {
    /// The tensor behind the buffer.
    pub fn tensor(&self, network: &Network) -> Option<TensorId> {
        match self {
            Fill::Value { value, .. } => network.value(*value).tensor,
            Fill::Weight { tensor, .. }
            | Fill::Repeated { tensor, .. }
            | Fill::Row { tensor, .. } => Some(*tensor),
        }
    }

    /// For every element of `tile`'s piece, in memory order, its index in the tensor; `None` for
    /// padding.
    pub fn sources(&self, network: &Network, tile: TileId) -> Vec<Option<usize>> {
        match self {
            Fill::Value { value, layout } => {
                let value = network.value(*value);
                shard_sources(value, layout, tile, |r, b, c| value.tensor_index(r, b, c))
            }
            Fill::Repeated { value, layout, .. } => {
                let value = network.value(*value);
                shard_sources(value, layout, tile, |_, b, c| (b * value.width + c) as usize)
            }
            Fill::Row { value, .. } => {
                let value = network.value(*value);
                let padded = value.strips() * value.granule_columns();
                (0..padded).map(|c| (c < value.width).then_some(c as usize)).collect()
            }
            Fill::Weight { transposed, left, output, blocks, .. } => {
                let block = blocks.iter().find(|(owner, ..)| *owner == tile);
                let Some((_, inner, columns)) = block else { return vec![] };
                let operands = (network.value(*left), network.value(*output));
                weight_sources(operands, *transposed, inner, columns)
            }
        }
    }

    /// The bytes of `tile`'s piece.
    pub fn bytes(
        &self,
        network: &Network,
        tile: TileId,
        tensor: &[f32],
        dtype: DataType,
        scale: i8,
    ) -> Vec<u8> {
        let elements = self.sources(network, tile);
        let mut bytes = Vec::with_capacity(elements.len() * dtype.bytes());
        for source in elements {
            let value = source.map_or(0.0, |index| tensor[index]);
            match dtype {
                DataType::F32 => bytes.extend(value.to_le_bytes()),
                DataType::F16 => bytes.extend(f16::from_f32(value).to_le_bytes()),
                DataType::F8 => bytes.push(f8::from_f32(value * exp2(-i32::from(scale)))),
            }
        }
        bytes
    }

    /// Puts what `tile`'s piece holds back into the tensor.
    pub fn restore(
        &self,
        network: &Network,
        tile: TileId,
        bytes: &[u8],
        dtype: DataType,
        scale: i8,
        tensor: &mut [f32],
    ) {
        let sources = self.sources(network, tile);
        for (element, source) in bytes.chunks_exact(dtype.bytes()).zip(sources) {
            let Some(index) = source else { continue };
            tensor[index] = match dtype {
                DataType::F32 => {
                    f32::from_le_bytes([element[0], element[1], element[2], element[3]])
                }
                DataType::F16 => f16::from_le_bytes([element[0], element[1]]).to_f32(),
                DataType::F8 => f8::to_f32(element[0]) * exp2(i32::from(scale)),
            };
        }
    }
}

/// The byte string of all bindings of one role, as a package lists them: buffer after buffer, tile
/// after tile.
pub fn host_bytes(
    graph: &Graph,
    network: &Network,
    program: &Program,
    role: Role,
    values: &Values,
) -> Vec<u8> {
    let pieces: Vec<(&Fill, TensorId, TileId)> = program
        .buffers
        .iter()
        .filter(|buffer| buffer.role == role)
        .filter_map(|buffer| Some((buffer, buffer.fill.as_ref()?)))
        .filter_map(|(buffer, fill)| Some((buffer, fill, fill.tensor(network)?)))
        .flat_map(|(buffer, fill, tensor)| {
            buffer.sizes.iter().map(move |(tile, _)| (fill, tensor, *tile))
        })
        .collect();
    let bytes: Vec<Vec<u8>> = pieces
        .into_par_iter()
        .map(|(fill, id, tile)| {
            let tensor = graph.tensor(id);
            fill.bytes(network, tile, values.get(id), tensor.dtype, tensor.scale)
        })
        .collect();
    bytes.concat()
}

/// The tensors that the program returned, from the byte string of its output bindings.
pub fn outputs(
    graph: &Graph,
    network: &Network,
    program: &Program,
    bytes: &[u8],
) -> Vec<(TensorId, Vec<f32>)> {
    let mut results = vec![];
    let mut at = 0;
    for buffer in program.buffers.iter().filter(|buffer| buffer.role == Role::Output) {
        let Some(fill) = &buffer.fill else { continue };
        let Some(id) = fill.tensor(network) else { continue };
        let tensor = graph.tensor(id);
        let mut numbers = vec![f32::NAN; tensor.elements()];
        for &(tile, size) in buffer.sizes.iter() {
            let piece = &bytes[at..at + size as usize];
            fill.restore(network, tile, piece, tensor.dtype, tensor.scale, &mut numbers);
            at += size as usize;
        }
        results.push((id, numbers));
    }
    results
}

fn exp2(exponent: i32) -> f32 {
    (exponent as f32).exp2()
}

fn shard_of(layout: &Layout, tile: TileId) -> Option<Shard> {
    layout.shards().find(|shard| shard.tile == tile)
}

fn shard_sources(
    value: &Value,
    layout: &Layout,
    tile: TileId,
    index: impl Fn(u32, u32, u32) -> usize,
) -> Vec<Source> {
    let Some(shard) = shard_of(layout, tile) else { return vec![] };
    let (block, columns) = (value.block_strips(), value.granule_columns());
    let granules = shard.granules(layout.order) as usize;
    let mut sources = vec![None; granules * columns as usize];
    debug_assert_ne!(layout.order, Order::Panels, "no host buffer is kept in panels of a value");
    for strip in shard.strips.clone() {
        for row in shard.rows.clone() {
            let at = shard.index(layout.order, block, row, strip) * columns;
            let (b, first) = (strip / block, strip % block * columns);
            for c in 0..columns.min(value.width.saturating_sub(first)) {
                sources[(at + c) as usize] = Some(index(row, b, first + c));
            }
        }
    }
    sources
}

fn weight_sources(
    (left, output): (&Value, &Value),
    transposed: bool,
    inner: &Range<u32>,
    columns: &Range<u32>,
) -> Vec<Source> {
    let (n, w) = (left.granule_columns(), output.granule_columns());
    let inner_strips = inner.end - inner.start;
    let (total_inner, total_columns) = (left.columns() as usize, output.columns() as usize);
    let column_of = |value: &Value, strip: u32, c: u32| -> Option<usize> {
        let in_block = strip % value.block_strips() * value.granule_columns() + c;
        let block = strip / value.block_strips();
        (in_block < value.width).then(|| (block * value.width + in_block) as usize)
    };
    let mut sources = vec![None; (inner_strips * (columns.end - columns.start) * w * n) as usize];
    for (j, strip) in columns.clone().enumerate() {
        for c in 0..w {
            let Some(column) = column_of(output, strip, c) else { continue };
            for (k, inner_strip) in inner.clone().enumerate() {
                let panel = j as u32 * inner_strips + k as u32;
                let at = (panel * w + right_column(c)) * n;
                for e in 0..n {
                    let Some(row) = column_of(left, inner_strip, e) else { continue };
                    sources[(at + e) as usize] = Some(if transposed {
                        column * total_inner + row
                    } else {
                        row * total_columns + column
                    });
                }
            }
        }
    }
    debug_assert_eq!(w * 2, GRANULE, "results of products are F16");
    sources
}
