//! Kernels against slow obvious arithmetic in f64, element by element through the element orders of
//! the reference; operands outside memory are errors.
#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a helper that fails fails its test; exact zeros are meant"
)]

use half::f16;
use ipu_tune::kernels::{
    Binary, Cast, CastStrips, Gemm, Kernel, Memory, Norm, Softmax, Unary, execute, right_column,
};
use ipu_tune::target::{DataType, ElementOrder, f8};
use proptest::prelude::*;

const BASE: u32 = 0x4c000;
const OUT: u32 = 0x60000;
const A: u32 = 0x80000;
const B: u32 = 0xa0000;

struct Tile(Vec<u8>);

impl Tile {
    fn new() -> Tile {
        // Memory that was never written holds anything: NaN in every F16.
        Tile(vec![0xff; 0x9c000])
    }

    fn put(&mut self, address: u32, index: usize, dtype: DataType, value: f32) {
        let at = (address - BASE) as usize + index * dtype.bytes();
        match dtype {
            DataType::F32 => self.0[at..at + 4].copy_from_slice(&value.to_le_bytes()),
            DataType::F16 => {
                self.0[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes())
            }
            DataType::F8 => self.0[at] = f8::from_f32(value),
        }
    }

    fn get(&self, address: u32, index: usize, dtype: DataType) -> f64 {
        let at = (address - BASE) as usize + index * dtype.bytes();
        let bytes = &self.0[at..];
        match dtype {
            DataType::F32 => {
                f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            }
            DataType::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
            DataType::F8 => f64::from(f8::to_f32(bytes[0])),
        }
    }

    fn run(&mut self, kernel: Kernel, registers: &[u32]) {
        let mut m = [0xdead_beef_u32; 8];
        m[..registers.len()].copy_from_slice(registers);
        execute(&kernel, &mut Memory::new(&mut self.0), &m).unwrap();
    }
}

/// Small numbers that F8 and F16 hold exactly.
fn number(seed: u64, index: usize) -> f32 {
    let mixed = (seed ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed >> 40) % 17) as f32 / 8.0 - 1.0
}

fn close(found: f64, wanted: f64, tolerance: f64) -> bool {
    (found - wanted).abs() <= tolerance * (1.0 + wanted.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A product, its right operand's columns stored so that AMP output order reads as strips.
    #[test]
    fn products(rows in 1..20_usize, k in 1..4_usize, n in 1..4_usize, narrow: bool, accumulate: bool, scale in -3..3_i32, seed: u64) {
        let dtype = if narrow { DataType::F8 } else { DataType::F16 };
        let (inner, columns) = (k * dtype.inner(), n * 16);
        let mut tile = Tile::new();
        let left = |r: usize, e: usize| number(seed, r * 1000 + e);
        let right = |e: usize, c: usize| number(!seed, e * 1000 + c);
        for r in 0..rows {
            for e in 0..inner {
                let at = ElementOrder::AmpLeft.index(dtype, rows, inner, r, e).unwrap();
                tile.put(A, at, dtype, left(r, e));
            }
            for c in 0..columns {
                if accumulate {
                    tile.put(OUT, (c / 16 * rows + r) * 16 + c % 16, DataType::F16, number(seed, c));
                }
            }
        }
        for e in 0..inner {
            for c in 0..columns {
                let slot = c / 16 * 16 + right_column(c as u32 % 16) as usize;
                let at = ElementOrder::AmpRight.index(dtype, inner, columns, e, slot).unwrap();
                tile.put(B, at, dtype, right(e, c));
            }
        }
        let gemm = Gemm { input: dtype, accumulate, interleaved: false, rows: rows as u32, inner: inner as u32, columns: columns as u32 };
        tile.run(Kernel::Gemm(gemm), &[OUT, A, B, scale as u32 & 0xf_ffff]);
        let factor = if narrow { f64::from(scale).exp2() } else { 1.0 };
        for r in 0..rows {
            for c in 0..columns {
                let sum: f64 = (0..inner).map(|e| f64::from(left(r, e)) * f64::from(right(e, c))).sum();
                let wanted = sum * factor + if accumulate { f64::from(number(seed, c)) } else { 0.0 };
                let found = tile.get(OUT, (c / 16 * rows + r) * 16 + c % 16, DataType::F16);
                prop_assert!(close(found, wanted, 0.01), "({}, {}): {} {}", r, c, found, wanted);
            }
        }
    }

    #[test]
    fn norms(rows in 1..5_usize, width in 2..60_usize, rms: bool, bias: bool, residual: bool, seed: u64) {
        let pitch = width.next_multiple_of(16);
        let mut tile = Tile::new();
        let x = |r: usize, c: usize| number(seed, r * 100 + c);
        for r in 0..rows {
            for c in 0..pitch {
                tile.put(A, r * pitch + c, DataType::F16, if c < width { x(r, c) } else { f32::NAN });
                tile.put(A + 0x8000, r * pitch + c, DataType::F16, 0.5);
            }
        }
        for c in 0..width {
            tile.put(B, c, DataType::F16, 1.5);
            tile.put(B + 0x8000, c, DataType::F16, -0.25);
        }
        let norm = Norm { rms, bias, residual, width: width as u32, pitch: pitch as u32, epsilon: 1e-2_f32.to_bits() };
        let mut registers = vec![OUT, A];
        registers.extend(residual.then_some(A + 0x8000));
        registers.push(B);
        registers.extend(bias.then_some(B + 0x8000));
        registers.push(rows as u32);
        tile.run(Kernel::Norm(norm), &registers);
        for r in 0..rows {
            let row: Vec<f64> = (0..width).map(|c| f64::from(x(r, c)) + if residual { 0.5 } else { 0.0 }).collect();
            let mean = if rms { 0.0 } else { row.iter().sum::<f64>() / width as f64 };
            let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / width as f64;
            for c in 0..pitch {
                let normal = |c: usize| (row[c] - mean) / (variance + 1e-2).sqrt() * 1.5 + if bias { -0.25 } else { 0.0 };
                let wanted = if c < width { normal(c) } else { 0.0 };
                let found = tile.get(OUT, r * pitch + c, DataType::F16);
                prop_assert!(close(found, wanted, 0.005), "{} {}", found, wanted);
            }
        }
    }

    /// Masked and padding columns are exactly zero, whatever lay there.
    #[test]
    fn softmax(rows in 1..6_usize, width in 1..40_usize, matrix in 1..6_u32, first in 0..9_u32, offset in prop::option::of(0..9_u32), seed: u64) {
        let pitch = width.next_multiple_of(16);
        let mut tile = Tile::new();
        let x = |r: usize, c: usize| 4.0 * number(seed, r * 100 + c);
        for r in 0..rows {
            for c in 0..width {
                tile.put(A, r * pitch + c, DataType::F16, x(r, c));
            }
        }
        let spec = Softmax { width: width as u32, pitch: pitch as u32, scale: 0.5_f32.to_bits(), causal_offset: offset, matrix_rows: matrix };
        tile.run(Kernel::Softmax(spec), &[OUT, A, rows as u32, first]);
        for r in 0..rows {
            let seen = offset.map_or(width, |o| width.min((first + r as u32 % matrix + o + 1) as usize));
            let sum: f64 = (0..seen).map(|c| (0.5 * f64::from(x(r, c))).exp()).sum();
            for c in 0..pitch {
                let found = tile.get(OUT, r * pitch + c, DataType::F16);
                if c < seen {
                    let wanted = (0.5 * f64::from(x(r, c))).exp() / sum;
                    prop_assert!((found - wanted).abs() < 0.003, "{} {}", found, wanted);
                } else {
                    prop_assert!(found == 0.0);
                }
            }
        }
    }

    #[test]
    fn casts_between_strips(rows in 1..6_usize, blocks in 1..4_usize, width in 1..70_usize, narrow: bool, seed: u64) {
        let (from, to) = if narrow { (DataType::F16, DataType::F8) } else { (DataType::F8, DataType::F16) };
        let mut tile = Tile::new();
        let place = |dtype: DataType, b: usize, r: usize, c: usize| {
            let (n, strips) = (dtype.inner(), width.div_ceil(dtype.inner()));
            ((b * strips + c / n) * rows + r) * n + c % n
        };
        for b in 0..blocks {
            for r in 0..rows {
                for c in 0..width {
                    tile.put(A, place(from, b, r, c), from, number(seed, (b * 50 + r) * 100 + c));
                }
            }
        }
        let spec = CastStrips { from, to, scale: 0, width: width as u32 };
        tile.run(Kernel::CastStrips(spec), &[OUT, A, rows as u32, blocks as u32]);
        for b in 0..blocks {
            for r in 0..rows {
                for c in 0..width.next_multiple_of(to.inner()) {
                    let wanted = if c < width { f64::from(number(seed, (b * 50 + r) * 100 + c)) } else { 0.0 };
                    prop_assert!(close(tile.get(OUT, place(to, b, r, c), to), wanted, 1e-6));
                }
            }
        }
    }

    /// Packed values are a right operand whose inner dimension is the rows, padded with zeros.
    #[test]
    fn packing(rows in 1..40_usize, strips in 1..4_usize, seed: u64) {
        let mut tile = Tile::new();
        for s in 0..strips {
            for r in 0..rows {
                for c in 0..16 {
                    tile.put(A, (s * rows + r) * 16 + c, DataType::F16, number(seed, r * 100 + s * 16 + c));
                }
            }
        }
        tile.run(Kernel::PackRight, &[OUT, A, rows as u32, strips as u32]);
        let inner = rows.next_multiple_of(16);
        for k in 0..inner {
            for j in 0..strips * 16 {
                let slot = j / 16 * 16 + right_column(j as u32 % 16) as usize;
                let at = ElementOrder::AmpRight.index(DataType::F16, inner, strips * 16, k, slot).unwrap();
                let wanted = if k < rows { f64::from(number(seed, k * 100 + j)) } else { 0.0 };
                prop_assert!(close(tile.get(OUT, at, DataType::F16), wanted, 1e-6));
            }
        }
    }

    /// Any kernel with any operands: an answer or an error, never a panic.
    #[test]
    fn wild_registers_never_panic(registers in prop::array::uniform8(prop_oneof![0..64_u32, 0x4c000..0xe8000_u32, any::<u32>()]), which in 0..14_usize, a in 0..99_u32, b in 0..99_u32) {
        let gemm = Gemm { input: DataType::F16, accumulate: true, interleaved: false, rows: a, inner: 16 * (b % 5), columns: 16 * (a % 7) };
        let norm = Norm { rms: false, bias: true, residual: false, width: a, pitch: a.next_multiple_of(16), epsilon: 0 };
        let softmax = Softmax { width: a, pitch: a.next_multiple_of(16), scale: 0, causal_offset: None, matrix_rows: b };
        let kernels = [
            Kernel::ZeroFill, Kernel::Copy, Kernel::StridedCopy, Kernel::Gemm(gemm), Kernel::Reduce,
            Kernel::Binary(Binary::Add), Kernel::Binary(Binary::Mul), Kernel::Unary(Unary::Relu),
            Kernel::BiasUnary(Unary::Gelu), Kernel::Norm(norm), Kernel::Softmax(softmax),
            Kernel::Cast(Cast { from: DataType::F32, to: DataType::F16, scale: 0 }),
            Kernel::CastStrips(CastStrips { from: DataType::F16, to: DataType::F8, scale: 1, width: a }),
            Kernel::PackRight,
        ];
        let small = registers.map(|r| if r > 0xf_ffff { r % 4096 } else { r });
        let mut tile = Tile::new();
        let _ = execute(&kernels[which], &mut Memory::new(&mut tile.0), &small);
    }
}

#[test]
fn simple_kernels_do_what_they_say() {
    let mut tile = Tile::new();
    for index in 0..96 {
        tile.put(A, index, DataType::F16, number(1, index));
        tile.put(B, index, DataType::F16, number(2, index));
    }
    let x = |index: usize| f64::from(number(1, index));
    let y = |index: usize| f64::from(number(2, index));
    let all = |tile: &Tile, count: usize, wanted: &dyn Fn(usize) -> f64, tolerance: f64| {
        for index in 0..count {
            let found = tile.get(OUT, index, DataType::F16);
            assert!(close(found, wanted(index), tolerance), "{index}: {found} {}", wanted(index));
        }
    };
    tile.run(Kernel::Binary(Binary::Add), &[OUT, A, B, 96, 96, 32]);
    all(&tile, 96, &|i| x(i) + y(i % 32), 1e-3);
    tile.run(Kernel::Binary(Binary::Mul), &[OUT, A, B, 96, 96, 96]);
    all(&tile, 96, &|i| x(i) * y(i), 1e-3);
    tile.run(Kernel::Reduce, &[OUT, A, B, 2, 48]);
    all(&tile, 48, &|i| x(i) + y(i) + y(48 + i), 2e-3);
    tile.run(Kernel::Unary(Unary::Silu), &[OUT, A, 96]);
    all(&tile, 96, &|i| x(i) / (1.0 + (-x(i)).exp()), 2e-3);
    tile.run(Kernel::Unary(Unary::GeluTanh), &[OUT, A, 96]);
    let gelu = |v: f64| 0.5 * v * (1.0 + (0.797_884_560_8 * (v + 0.044_715 * v.powi(3))).tanh());
    all(&tile, 96, &|i| gelu(x(i)), 3e-3);
    tile.run(Kernel::BiasUnary(Unary::Relu), &[OUT, A, B, 3, 32]);
    all(&tile, 96, &|i| (x(i) + y(i % 32)).max(0.0), 1e-3);
    tile.run(Kernel::Copy, &[OUT, A, 192]);
    all(&tile, 96, &x, 0.0);
    tile.run(Kernel::StridedCopy, &[OUT, A, 3, 16, 16, 64]);
    all(&tile, 24, &|i| x(i / 8 * 32 + i % 8), 0.0);
    tile.run(Kernel::ZeroFill, &[OUT, 2, 5]);
    all(&tile, 68, &|_| 0.0, 0.0);
    assert!(tile.get(OUT, 68, DataType::F16) != 0.0, "not a word more");
}

#[test]
fn operands_outside_memory_are_faults() {
    let mut tile = Tile::new();
    let mut run = |kernel, m: [u32; 8]| execute(&kernel, &mut Memory::new(&mut tile.0), &m);
    assert!(run(Kernel::Copy, [0xe7ff8, A, 16, 0, 0, 0, 0, 0]).is_err());
    assert!(run(Kernel::Copy, [OUT, 0x4bff8, 16, 0, 0, 0, 0, 0]).is_err());
    assert!(run(Kernel::Unary(Unary::Relu), [OUT + 1, A, 4, 0, 0, 0, 0, 0]).is_err(), "misaligned");
    assert!(run(Kernel::Copy, [OUT, A, 16, 0, 0, 0, 0, 0]).is_ok());
}
