//! How many bytes every operand of a call touches.

use crate::kernels::{CastStrips, Kernel};
use crate::target::DataType;

/// Bytes that a call writes, and reads of every input.
pub(super) fn bytes(kernel: &Kernel, inputs: usize, scalars: &[u32]) -> (u64, Vec<u64>) {
    let s = |index: usize| u64::from(scalars.get(index).copied().unwrap_or(u32::MAX));
    let spread = |pitch: u64| (s(0).saturating_sub(1)) * pitch + s(1);
    match kernel {
        Kernel::ZeroFill => (8 * (6 * s(0) + s(1)), vec![]),
        Kernel::Copy => (s(0), vec![s(0)]),
        Kernel::StridedCopy => (spread(s(2)), vec![spread(s(3))]),
        Kernel::Gemm(gemm) => {
            let [rows, inner, columns] = [gemm.rows, gemm.inner, gemm.columns].map(u64::from);
            let size = gemm.input.bytes() as u64;
            (rows * columns * 2, vec![rows * inner * size, inner * columns * size])
        }
        Kernel::Reduce => (2 * s(1), vec![2 * s(1), 2 * s(0) * s(1)]),
        Kernel::Binary(_) => (2 * s(0), vec![2 * s(1).min(s(0)), 2 * s(2).min(s(0))]),
        Kernel::Unary(_) => (2 * s(0), vec![2 * s(0)]),
        Kernel::BiasUnary(_) => (2 * s(0) * s(1), vec![2 * s(0) * s(1), 2 * s(1)]),
        Kernel::Norm(norm) => {
            let values = 2 * s(0) * u64::from(norm.pitch);
            let mut sizes = vec![values];
            sizes.extend(norm.residual.then_some(values));
            sizes.resize(inputs.max(sizes.len()), 2 * u64::from(norm.width));
            (values, sizes)
        }
        Kernel::Softmax(softmax) => {
            let values = 2 * s(0) * u64::from(softmax.pitch);
            (values, vec![values])
        }
        Kernel::Cast(cast) => (s(0) * size(cast.to), vec![s(0) * size(cast.from)]),
        Kernel::CastStrips(cast) => {
            let side = |dtype: DataType| s(0) * s(1) * strips(cast, dtype) * 32;
            (side(cast.to), vec![side(cast.from)])
        }
        Kernel::PackRight => (s(0).div_ceil(16) * 512 * s(1), vec![s(0) * s(1) * 32]),
    }
}

fn size(dtype: DataType) -> u64 {
    dtype.bytes() as u64
}

fn strips(cast: &CastStrips, dtype: DataType) -> u64 {
    u64::from(cast.width.div_ceil(dtype.inner() as u32))
}
