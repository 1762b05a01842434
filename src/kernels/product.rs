//! The matrix product kernel: most of a program's arithmetic, so written for speed. Operands are
//! decoded once; a panel pass is a loop over rows with 16 independent sums.

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::target::{DataType, f8};

use super::Gemm;
use super::meaning::Registers;
use super::memory::{KernelFault, Memory};

/// Columns of a panel.
const PANEL: usize = 16;

/// `output (+)= left · right`; partial sums are rounded to F16 after every panel pass, as they lie
/// in memory between passes (`target/ipu21.md` §12.2).
pub(super) fn gemm(spec: &Gemm, memory: &mut Memory<'_>, m: &Registers) -> Result<(), KernelFault> {
    let (rows, inner, columns) = (spec.rows as usize, spec.inner as usize, spec.columns as usize);
    let n = spec.input.inner();
    // The output first: nothing is computed, or even allocated, for an operand outside memory.
    memory.read(m[0], 2 * u64::from(spec.rows) * u64::from(spec.columns))?;
    if rows == 0 || columns == 0 {
        return Ok(());
    }
    let factor = match spec.input {
        DataType::F8 => scale_of(m[3]),
        _ => 1.0,
    };
    let left = operand(memory, m[1], rows * inner, spec.input)?;
    let right = operand(memory, m[2], inner * columns, spec.input)?;
    let mut output = if spec.accumulate {
        memory.halves(m[0], (rows * columns) as u64)?
    } else {
        vec![0.0; rows * columns]
    };
    let passes = inner / n;
    let mut panel = vec![[0.0; PANEL]; n];
    let mut sums = vec![0.0; rows * PANEL];
    let mut rounded = vec![f16::ZERO; rows * PANEL];
    for (strip, out) in output.chunks_exact_mut(rows * PANEL).enumerate() {
        for pass in 0..passes {
            let at = (strip * passes + pass) * PANEL * n;
            transpose(&right[at..at + PANEL * n], n, &mut panel);
            let left = &left[pass * rows * n..(pass + 1) * rows * n];
            for ((sum, out), line) in
                sums.chunks_exact_mut(PANEL).zip(out.chunks_exact(PANEL)).zip(left.chunks_exact(n))
            {
                row_pass(line, &panel, factor, out, sum);
            }
            rounded.convert_from_f32_slice(&sums);
            rounded.convert_to_f32_slice(out);
        }
    }
    memory.set_halves(m[0], &output)
}

/// One row of one pass: 16 sums.
fn row_pass(line: &[f32], panel: &[[f32; PANEL]], factor: f32, out: &[f32], sum: &mut [f32]) {
    let mut total = [0.0; PANEL];
    for (x, weights) in line.iter().zip(panel) {
        for (t, w) in total.iter_mut().zip(weights) {
            *t += x * w;
        }
    }
    for ((s, t), o) in sum.iter_mut().zip(total).zip(out) {
        *s = o + t * factor;
    }
}

/// The panel with its inner dimension outside, columns at the place where the output has them
/// (AMP output order, `target/ipu21.md` §12.3).
fn transpose(slots: &[f32], n: usize, panel: &mut [[f32; PANEL]]) {
    for (slot, column) in slots.chunks_exact(n).enumerate() {
        let p = slot / 2;
        let place = 2 * (2 * (p % 4) + p / 4) + slot % 2;
        for (k, x) in column.iter().enumerate() {
            panel[k][place] = *x;
        }
    }
}

fn operand(
    memory: &Memory<'_>,
    address: u32,
    count: usize,
    dtype: DataType,
) -> Result<Vec<f32>, KernelFault> {
    if dtype == DataType::F8 {
        let codes = memory.read(address, count as u64)?;
        return Ok(codes.iter().map(|code| f8::to_f32(*code)).collect());
    }
    memory.halves(address, count as u64)
}

/// The factor of a scale exponent given as 20 bits of two's complement.
fn scale_of(register: u32) -> f32 {
    let exponent = ((register << 12) as i32) >> 12;
    (exponent as f32).exp2()
}
