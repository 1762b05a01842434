//! The kernel table: what a tile can run, how its operands are passed and stored, what it
//! computes. No prices: those are estimates and live in `cost`.
//!
//! Calling convention (`target/ipu21.md` §13): the output pointer in `m2`, input pointers from
//! `m3` on, then scalars, at most up to `m9`; the return address in `m10`. Everything that a
//! kernel is specialised by is part of its symbol; everything else is a scalar.
//!
//! All matrices here are made of *granules*: 32 bytes, one row of one AMP micro panel (16 F16, 32
//! FP8 or 8 F32 elements). A *strip* is a column of granules. `strips` order is the AMP left order
//! of `target/ipu21.md` §12.3; `rows` order is row-major with the width padded to whole granules;
//! `panels` are 16 granules, the AMP right order.
//!
//! AMP output order permutes the 16 columns of a panel. Right operands are stored with the inverse
//! permutation on their columns ([`right_column`]), so that what a GEMM writes reads as plain
//! strips, and no kernel has to put it right afterwards.

pub mod meaning;
pub mod memory;
mod product;
mod symbol;

pub use meaning::{Registers, execute};
pub use memory::{KernelFault, Memory};

use crate::target::DataType;

/// One tile program routine. The fields are what the symbol is specialised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kernel {
    /// Writes zeros. `m2` output, `m3` 8-byte words a worker, `m4` workers with one word more.
    ZeroFill,
    /// Contiguous copy. `m2` output, `m3` input, `m4` bytes (a multiple of 8).
    Copy,
    /// Copies `rows` pieces. `m2` output, `m3` input, `m4` rows, `m5` bytes a row (a multiple of 8),
    /// `m6` output pitch, `m7` input pitch, both in bytes and multiples of 8.
    StridedCopy,
    /// `output (+)= left · right`. `m2` output in AMP output order, `m3` left in AMP left order,
    /// `m4` right in AMP right order; FP8: `m5` sum of both operands' scale exponents (two's
    /// complement in 20 bits). The output is F16.
    Gemm(Gemm),
    /// `output = initial + partial_1 + … + partial_(P−1)`, F16, one after the other. `m2` output
    /// (may be the initial operand), `m3` initial, `m4` packed partials, `m5` P − 1, `m6` elements
    /// of one partial (a multiple of 8).
    Reduce,
    /// `output = left ∘ right` on F16. `m2` output (may be an input), `m3` left, `m4` right, `m5` element count,
    /// `m6` left period, `m7` right period: an operand repeats after so many elements; a dense
    /// operand's period is the element count.
    Binary(Binary),
    /// `output = f(input)` on F16. `m2` output (may be the input), `m3` input, `m4` element count.
    Unary(Unary),
    /// `output = f(input + bias)` on F16, the bias added to every row. `m2` output (may be the
    /// input), `m3` input, `m4` bias, `m5` rows, `m6` width in elements.
    BiasUnary(Unary),
    /// Normalises rows. `m2` output (may be the input), `m3` input in rows order, `m4` gain, and
    /// with [`Norm::bias`] `m5` bias, then the number of rows.
    Norm(Norm),
    /// Softmax of attention scores, rows order. `m2` probabilities (may be the scores), `m3`
    /// scores, `m4` rows, `m5` number of the first row within its matrix (causal masks need it).
    Softmax(Softmax),
    /// Element type conversion of `m4` elements in place order. `m2` output, `m3` input.
    Cast(Cast),
    /// Element type conversion between strips orders of different granules. `m2` output, `m3`
    /// input, `m4` rows, `m5` blocks; each block has [`CastStrips::width`] columns.
    CastStrips(CastStrips),
    /// From strips to right panels: transposes every 16 × 16 block (F16). `m2` output, `m3` input,
    /// `m4` rows that hold data, `m5` strips. Output rows are padded with zeros to a multiple of 16;
    /// output granule `((strip · ⌈rows/16⌉) + row/16) · 16 + right slot of the column`, element `row mod 16`.
    PackRight,
}

/// What a GEMM is specialised by. All sizes are physical elements of its operands' views.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gemm {
    /// Operand type: F16 or FP8 ([`DataType::F32`] is not in the table yet).
    pub input: DataType,
    /// Adds to the output instead of writing it.
    pub accumulate: bool,
    /// The right operand lies in interleaved memory and is loaded at 16 bytes a cycle.
    pub interleaved: bool,
    /// Rows of left operand and output.
    pub rows: u32,
    /// Inner dimension, a multiple of 16 (F16) or 32 (FP8).
    pub inner: u32,
    /// Output columns, a multiple of 16.
    pub columns: u32,
}

/// A function of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unary {
    /// GELU with the error function.
    Gelu,
    /// GELU with the hyperbolic tangent.
    GeluTanh,
    /// `x · sigmoid(x)`.
    Silu,
    /// `max(x, 0)`.
    Relu,
    /// `1 / (1 + exp(−x))`.
    Sigmoid,
}

/// A function of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binary {
    /// Sum.
    Add,
    /// Product.
    Mul,
}

/// What a row norm is specialised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Norm {
    /// Root mean square instead of mean and variance.
    pub rms: bool,
    /// Has a bias operand.
    pub bias: bool,
    /// First adds a residual: one more input after the first.
    pub residual: bool,
    /// Columns that hold data; statistics are over these.
    pub width: u32,
    /// Distance of two rows in elements; padding columns are written as zero.
    pub pitch: u32,
    /// ε as the bits of an `f32`.
    pub epsilon: u32,
}

/// What a softmax is specialised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Softmax {
    /// Columns that hold data.
    pub width: u32,
    /// Distance of two rows in elements; padding columns are written as zero.
    pub pitch: u32,
    /// Factor on the scores before the exponential, as the bits of an `f32`.
    pub scale: u32,
    /// A row sees only columns up to its number in its matrix plus this; `None`: all columns.
    pub causal_offset: Option<u32>,
    /// Row `i` of a call is row `m5 + (i mod matrix_rows)` of its matrix.
    pub matrix_rows: u32,
}

/// What a cast is specialised by. An FP8 value is code · 2^scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cast {
    /// Input type.
    pub from: DataType,
    /// Output type.
    pub to: DataType,
    /// Scale exponent of the FP8 side, 0 if there is none.
    pub scale: i8,
}

/// What a cast between strips orders is specialised by. Any two different types; with one row this
/// is also the cast of a row-major block whose two pitches differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CastStrips {
    /// Input type.
    pub from: DataType,
    /// Output type.
    pub to: DataType,
    /// Scale exponent of the FP8 side.
    pub scale: i8,
    /// Columns of one block that hold data; each side pads a block to its own granule with zeros.
    pub width: u32,
}

/// Slot of logical column `column` (`0..16`) in a right panel: the inverse of the permutation by
/// which AMP output order stores a panel's columns (`target/ipu21.md` §12.3). With it, slot
/// `right_column(c)` of the output holds column `c` at element `c`.
pub fn right_column(column: u32) -> u32 {
    // Output element 2q + (j mod 2) holds slot j with p = j/2, q = 2(p mod 4) + p/4; solve for j.
    let q = column / 2;
    let p = (q % 2) * 4 + q / 2;
    2 * p + column % 2
}
