//! Element types and the orders of elements inside a shard (`target/ipu21.md` §12.3).

use serde::{Deserialize, Serialize};

/// Element type of a tensor.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
pub enum DataType {
    /// IEEE single precision.
    #[serde(rename = "f32")]
    F32,
    /// IEEE half precision.
    #[serde(rename = "f16")]
    F16,
    /// The chip's FP8 (§12.1).
    #[serde(rename = "f8f143")]
    F8,
}

impl DataType {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            DataType::F32 => 4,
            DataType::F16 => 2,
            DataType::F8 => 1,
        }
    }

    /// Inner micro dimension n of the AMP orders (§12.3).
    pub fn inner(self) -> usize {
        32 / self.bytes()
    }

    /// Name in model files and bindings.
    pub fn name(self) -> &'static str {
        match self {
            DataType::F32 => "f32",
            DataType::F16 => "f16",
            DataType::F8 => "f8f143",
        }
    }
}

/// Order of the elements of an R × C matrix. A transposed order is the same function of the
/// transposed matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ElementOrder {
    /// `r·C + c`.
    RowMajor,
    /// Strips of n columns.
    AmpLeft,
    /// Panels of 16 columns by n rows, columns outside.
    AmpRight,
    /// Strips of 16 columns, permuted inside.
    AmpOutput,
    /// Right panels inside blocks of so many rows and columns.
    BlockMajor(usize, usize),
    /// As [`ElementOrder::AmpLeft`].
    TransposedLeft,
    /// As [`ElementOrder::AmpRight`].
    TransposedRight,
    /// As [`ElementOrder::AmpOutput`].
    TransposedOutput,
    /// As [`ElementOrder::BlockMajor`].
    TransposedBlockMajor(usize, usize),
}

impl ElementOrder {
    /// Index of element (r, c) of a `rows` × `columns` matrix; `None` where the order does not apply
    /// to the shape or the element is outside.
    pub fn index(
        self,
        dtype: DataType,
        rows: usize,
        columns: usize,
        r: usize,
        c: usize,
    ) -> Option<usize> {
        use ElementOrder as O;
        let plain = match self {
            O::TransposedLeft => O::AmpLeft,
            O::TransposedRight => O::AmpRight,
            O::TransposedOutput => O::AmpOutput,
            O::TransposedBlockMajor(b, w) => O::BlockMajor(b, w),
            order => return order.plain_index(dtype.inner(), rows, columns, r, c),
        };
        plain.plain_index(dtype.inner(), columns, rows, c, r)
    }

    fn plain_index(
        self,
        n: usize,
        rows: usize,
        columns: usize,
        r: usize,
        c: usize,
    ) -> Option<usize> {
        if r >= rows || c >= columns {
            return None;
        }
        match self {
            ElementOrder::RowMajor => Some(r * columns + c),
            ElementOrder::AmpLeft => {
                columns.is_multiple_of(n).then(|| (c / n) * rows * n + r * n + c % n)
            }
            ElementOrder::AmpRight => (rows.is_multiple_of(n) && columns.is_multiple_of(16))
                .then(|| ((c / 16) * (rows / n) + r / n) * 16 * n + (c % 16) * n + r % n),
            ElementOrder::AmpOutput => columns.is_multiple_of(16).then(|| {
                let p = c % 16 / 2;
                let q = 2 * (p % 4) + p / 4;
                (c / 16) * 16 * rows + 16 * r + 2 * q + c % 2
            }),
            ElementOrder::BlockMajor(b, w) => {
                let applies =
                    rows.is_multiple_of(b) && columns.is_multiple_of(w) && b.is_multiple_of(n);
                applies.then(|| {
                    let panel = (r / b) * (columns / w) * (b / n) + (c / w) * (b / n) + (r % b) / n;
                    panel * n * w + (c % w) * n + r % n
                })
            }
            _ => unreachable!("transposed orders are resolved before"),
        }
    }
}
