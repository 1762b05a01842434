//! What every kernel computes, on a tile's memory, with the roundings of `target/ipu21.md` §12.2:
//! F16 results and partial sums in memory, wider sums inside a panel pass, F32 statistics, to
//! nearest even everywhere.
//!
//! Two things are idealised, and tolerances leave room for both: products round to nearest where
//! the chip by default rounds stochastically, and the transcendental functions are exact before
//! they are rounded.

use half::f16;

use crate::target::{DataType, f8};

use super::memory::{KernelFault, Memory};
use super::product::gemm;
use super::{Binary, Cast, CastStrips, Kernel, Norm, Softmax, Unary, right_column};

/// What `m2` to `m9` hold when a kernel is called.
pub type Registers = [u32; 8];

/// Runs a kernel.
///
/// # Errors
/// If an operand does not lie in memory; the output is then undefined.
pub fn execute(kernel: &Kernel, memory: &mut Memory<'_>, m: &Registers) -> Result<(), KernelFault> {
    match kernel {
        Kernel::ZeroFill => {
            let words = 6 * u64::from(m[1]) + u64::from(m[2]);
            memory.write(m[0], 8 * words)?.fill(0);
            Ok(())
        }
        Kernel::Copy => memory.copy(m[1], m[0], m[2].into()),
        Kernel::StridedCopy => (0..m[2]).try_for_each(|row| {
            let place = |start: u32, pitch: u32| start.wrapping_add(row.wrapping_mul(pitch));
            memory.copy(place(m[1], m[5]), place(m[0], m[4]), m[3].into())
        }),
        Kernel::Gemm(spec) => gemm(spec, memory, m),
        Kernel::Reduce => reduce(memory, m),
        Kernel::Binary(function) => binary(*function, memory, m),
        Kernel::Unary(function) => {
            let mut numbers = memory.halves(m[1], m[2].into())?;
            numbers.iter_mut().for_each(|x| *x = unary(*function, *x));
            memory.set_halves(m[0], &numbers)
        }
        Kernel::BiasUnary(function) => bias_unary(*function, memory, m),
        Kernel::Norm(spec) => norm(spec, memory, m),
        Kernel::Softmax(spec) => softmax(spec, memory, m),
        Kernel::Cast(spec) => cast(spec, memory, m),
        Kernel::CastStrips(spec) => cast_strips(spec, memory, m),
        Kernel::PackRight => pack_right(memory, m),
    }
}

fn half(x: f32) -> f32 {
    f16::from_f32(x).to_f32()
}

fn reduce(memory: &mut Memory<'_>, m: &Registers) -> Result<(), KernelFault> {
    let count = m[4];
    let mut sums = memory.halves(m[1], count.into())?;
    for partial in 0..m[3] {
        let numbers =
            memory.halves(m[2].wrapping_add(partial.wrapping_mul(count * 2)), count.into())?;
        for (sum, number) in sums.iter_mut().zip(numbers) {
            *sum = half(*sum + number);
        }
    }
    memory.set_halves(m[0], &sums)
}

fn binary(function: Binary, memory: &mut Memory<'_>, m: &Registers) -> Result<(), KernelFault> {
    let [count, left_period, right_period] = [m[3], m[4], m[5]].map(|n| n as usize);
    let left = memory.halves(m[1], left_period.min(count) as u64)?;
    let right = memory.halves(m[2], right_period.min(count) as u64)?;
    if left.is_empty() || right.is_empty() {
        return Ok(());
    }
    let operands = left.iter().cycle().zip(right.iter().cycle()).take(count);
    let result: Vec<f32> = match function {
        Binary::Add => operands.map(|(a, b)| a + b).collect(),
        Binary::Mul => operands.map(|(a, b)| a * b).collect(),
    };
    memory.set_halves(m[0], &result)
}

fn unary(function: Unary, x: f32) -> f32 {
    match function {
        Unary::Gelu => 0.5 * x * (1.0 + erf(x / std::f32::consts::SQRT_2)),
        Unary::GeluTanh => {
            // F16 vector arithmetic: every step rounds.
            let cube = half(half(x * x) * x);
            let inner = half(0.797_884_6 * half(x + half(0.044_715 * cube)));
            half(0.5 * x) * half(1.0 + half(inner.tanh()))
        }
        Unary::Silu => x / (1.0 + (-x).exp()),
        Unary::Relu => x.max(0.0),
        Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
    }
}

/// Error function to F16 accuracy and beyond: Abramowitz and Stegun 7.1.26, |error| ≤ 1.5e−7.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let polynomial = t
        * (0.254_829_6
            + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
    (1.0 - polynomial * (-x * x).exp()).copysign(x)
}

fn bias_unary(function: Unary, memory: &mut Memory<'_>, m: &Registers) -> Result<(), KernelFault> {
    let (rows, width) = (m[3], m[4]);
    let bias = memory.halves(m[2], width.into())?;
    let mut numbers = memory.halves(m[1], u64::from(rows) * u64::from(width))?;
    for row in numbers.chunks_exact_mut(width.max(1) as usize) {
        for (x, b) in row.iter_mut().zip(&bias) {
            *x = unary(function, half(*x + b));
        }
    }
    memory.set_halves(m[0], &numbers)
}

fn norm(spec: &Norm, memory: &mut Memory<'_>, m: &Registers) -> Result<(), KernelFault> {
    let operands = 1 + usize::from(spec.residual);
    let gain = memory.halves(m[1 + operands], spec.width.into())?;
    let bias = match spec.bias {
        true => memory.halves(m[2 + operands], spec.width.into())?,
        false => vec![0.0; spec.width as usize],
    };
    let rows = m[2 + operands + usize::from(spec.bias)];
    let (width, pitch) = (spec.width as usize, spec.pitch as usize);
    let count = u64::from(rows) * u64::from(spec.pitch);
    let mut numbers = memory.halves(m[1], count)?;
    if spec.residual {
        let residual = memory.halves(m[2], count)?;
        numbers.iter_mut().zip(residual).for_each(|(x, r)| *x = half(*x + r));
    }
    let epsilon = f32::from_bits(spec.epsilon);
    for row in numbers.chunks_exact_mut(pitch.max(1)) {
        let data = &row[..width];
        let mean = if spec.rms { 0.0 } else { data.iter().sum::<f32>() / width as f32 };
        let variance = data.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / width as f32;
        let factor = 1.0 / (variance + epsilon).sqrt();
        for (c, x) in row.iter_mut().enumerate() {
            *x = if c < width { half((*x - mean) * factor) * gain[c] + bias[c] } else { 0.0 };
        }
    }
    memory.set_halves(m[0], &numbers)
}

fn softmax(spec: &Softmax, memory: &mut Memory<'_>, m: &Registers) -> Result<(), KernelFault> {
    let (rows, first) = (m[2], m[3]);
    let count = u64::from(rows) * u64::from(spec.pitch);
    let mut numbers = memory.halves(m[1], count)?;
    let scale = f32::from_bits(spec.scale);
    for (index, row) in (0_u32..).zip(numbers.chunks_exact_mut(spec.pitch.max(1) as usize)) {
        let number = first + index % spec.matrix_rows.max(1);
        let seen = match spec.causal_offset {
            Some(offset) => spec.width.min(number.saturating_add(offset).saturating_add(1)),
            None => spec.width,
        } as usize;
        let (data, hidden) = row.split_at_mut(seen);
        let most = data.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        data.iter_mut().for_each(|x| *x = half(((*x - most) * scale).exp()));
        let sum: f32 = data.iter().sum();
        data.iter_mut().for_each(|x| *x /= sum);
        hidden.fill(0.0);
    }
    memory.set_halves(m[0], &numbers)
}

fn load(
    memory: &Memory<'_>,
    address: u32,
    count: u64,
    dtype: DataType,
    scale: i8,
) -> Result<Vec<f32>, KernelFault> {
    match dtype {
        DataType::F32 => memory.words(address, count),
        DataType::F16 => memory.halves(address, count),
        DataType::F8 => {
            let factor = f32::from(scale).exp2();
            let codes = memory.read(address, count)?;
            Ok(codes.iter().map(|code| f8::to_f32(*code) * factor).collect())
        }
    }
}

fn store(
    memory: &mut Memory<'_>,
    address: u32,
    numbers: &[f32],
    dtype: DataType,
    scale: i8,
) -> Result<(), KernelFault> {
    match dtype {
        DataType::F32 => memory.set_words(address, numbers),
        DataType::F16 => memory.set_halves(address, numbers),
        DataType::F8 => {
            let factor = (-f32::from(scale)).exp2();
            let codes = memory.write(address, numbers.len() as u64)?;
            codes.iter_mut().zip(numbers).for_each(|(code, x)| *code = f8::from_f32(x * factor));
            Ok(())
        }
    }
}

fn cast(spec: &Cast, memory: &mut Memory<'_>, m: &Registers) -> Result<(), KernelFault> {
    let numbers = load(memory, m[1], m[2].into(), spec.from, spec.scale)?;
    store(memory, m[0], &numbers, spec.to, spec.scale)
}

fn cast_strips(
    spec: &CastStrips,
    memory: &mut Memory<'_>,
    m: &Registers,
) -> Result<(), KernelFault> {
    let (rows, blocks, width) = (m[2] as usize, m[3] as usize, spec.width as usize);
    let (n, w) = (spec.from.inner(), spec.to.inner());
    let (in_strips, out_strips) = (width.div_ceil(n), width.div_ceil(w));
    let count = |strips: usize, granule: usize| {
        blocks.saturating_mul(strips).saturating_mul(rows).saturating_mul(granule)
    };
    memory.read(m[0], (count(out_strips, w) as u64).saturating_mul(spec.to.bytes() as u64))?;
    let input = load(memory, m[1], count(in_strips, n) as u64, spec.from, spec.scale)?;
    let mut output = vec![0.0; count(out_strips, w)];
    for b in 0..blocks {
        for c in 0..width {
            for r in 0..rows {
                let from = ((b * in_strips + c / n) * rows + r) * n + c % n;
                let to = ((b * out_strips + c / w) * rows + r) * w + c % w;
                output[to] = input[from];
            }
        }
    }
    store(memory, m[0], &output, spec.to, spec.scale)
}

fn pack_right(memory: &mut Memory<'_>, m: &Registers) -> Result<(), KernelFault> {
    let (rows, strips) = (m[2] as usize, m[3] as usize);
    memory.read(m[0], (rows.div_ceil(16) * 512).saturating_mul(strips) as u64)?;
    let input = memory.halves(m[1], (rows * strips * 16) as u64)?;
    let panels = rows.div_ceil(16);
    let mut output = vec![0.0; strips * panels * 256];
    for s in 0..strips {
        for r in 0..rows {
            for c in 0..16 {
                let granule = (s * panels + r / 16) * 16 + right_column(c as u32) as usize;
                output[granule * 16 + r % 16] = input[(s * rows + r) * 16 + c];
            }
        }
    }
    memory.set_halves(m[0], &output)
}
