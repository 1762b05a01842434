//! The arithmetic of the host reference.

use rayon::prelude::*;

/// Rows of the left operand that one task multiplies at a time.
const ROWS: usize = 8;

/// `m × k` by `k × n`, all row-major.
pub(super) fn matmul(a: &[f32], b: &[f32], m: usize, k: usize, n: usize) -> Vec<f32> {
    let mut result = vec![0.0; m * n];
    result.par_chunks_mut(ROWS * n).enumerate().for_each(|(block, out)| {
        let rows = out.len() / n;
        let first = block * ROWS;
        // A strip of columns at a time, so that the right operand's rows stay in cache.
        for start in (0..n).step_by(256) {
            let end = (start + 256).min(n);
            for inner in 0..k {
                let line = &b[inner * n + start..inner * n + end];
                for row in 0..rows {
                    let factor = a[(first + row) * k + inner];
                    let sums = &mut out[row * n + start..row * n + end];
                    for (sum, x) in sums.iter_mut().zip(line) {
                        *sum += factor * x;
                    }
                }
            }
        }
    });
    result
}

/// The transpose of a `rows × columns` matrix.
pub(super) fn transpose(a: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let mut result = vec![0.0; a.len()];
    for r in 0..rows {
        for c in 0..columns {
            result[c * rows + r] = a[r * columns + c];
        }
    }
    result
}

/// `[a, b, width]` to `[b, a, width]`.
pub(super) fn swap_outer(x: &[f32], a: usize, b: usize, width: usize) -> Vec<f32> {
    let mut result = Vec::with_capacity(x.len());
    for j in 0..b {
        for i in 0..a {
            result.extend_from_slice(&x[(i * b + j) * width..][..width]);
        }
    }
    result
}

/// Layer norm or RMS norm of every row.
pub(super) fn norm(
    x: &[f32],
    gain: &[f32],
    bias: Option<&[f32]>,
    epsilon: f64,
    rms: bool,
) -> Vec<f32> {
    let width = gain.len();
    let mut result = Vec::with_capacity(x.len());
    for row in x.chunks_exact(width) {
        let mean =
            if rms { 0.0 } else { row.iter().map(|v| f64::from(*v)).sum::<f64>() / width as f64 };
        let variance =
            row.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / width as f64;
        let factor = 1.0 / (variance + epsilon).sqrt();
        for (c, v) in row.iter().enumerate() {
            let normal = ((f64::from(*v) - mean) * factor) as f32;
            result.push(normal * gain[c] + bias.map_or(0.0, |bias| bias[c]));
        }
    }
    result
}

/// Logistic function.
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// GELU with the hyperbolic tangent.
pub(super) fn gelu_tanh(x: f32) -> f32 {
    let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}

/// GELU with the error function.
pub(super) fn gelu(x: f32) -> f32 {
    (0.5 * f64::from(x) * (1.0 + erf(f64::from(x) / std::f64::consts::SQRT_2))) as f32
}

/// Error function: Taylor series near zero, continued fraction of the complement elsewhere; both
/// are exact to more digits than an f32 has.
pub(super) fn erf(x: f64) -> f64 {
    let z = x.abs();
    if z > 6.0 {
        return x.signum();
    }
    if z < 2.5 {
        let (mut term, mut sum, mut n) = (z, z, 0.0);
        while term.abs() > 1e-17 * sum.abs() {
            n += 1.0;
            term *= -z * z / n;
            sum += term / (2.0 * n + 1.0);
        }
        return x.signum() * sum * 2.0 / std::f64::consts::PI.sqrt();
    }
    let mut fraction = z;
    for n in (1..60).rev() {
        fraction = z + f64::from(n) / 2.0 / fraction;
    }
    x.signum() * (1.0 - (-z * z).exp() / std::f64::consts::PI.sqrt() / fraction)
}

/// Softmax over dimension `axis`.
pub(super) fn softmax(x: &[f32], shape: &[usize], axis: usize) -> Vec<f32> {
    let inner: usize = shape[axis + 1..].iter().product();
    let length = shape[axis];
    let mut result = x.to_vec();
    result.par_chunks_mut(length * inner).for_each(|block| {
        for i in 0..inner {
            let at = |j: usize| j * inner + i;
            let most = (0..length).map(|j| block[at(j)]).fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0;
            for j in 0..length {
                block[at(j)] = (block[at(j)] - most).exp();
                sum += f64::from(block[at(j)]);
            }
            for j in 0..length {
                block[at(j)] = (f64::from(block[at(j)]) / sum) as f32;
            }
        }
    });
    result
}

/// Rotary embedding of `[heads, rows, width]`: column pairs (i, i + width / 2) turn together.
pub(super) fn rope(x: &[f32], shape: &[usize], base: f64, position: usize) -> Vec<f32> {
    let (rows, width) = (shape[1], shape[2]);
    let half = width / 2;
    let mut result = x.to_vec();
    for (line, row) in result.chunks_exact_mut(width).enumerate() {
        let place = (position + line % rows) as f64;
        for i in 0..half {
            let angle = place * base.powf(-2.0 * i as f64 / width as f64);
            let (sin, cos) = (angle.sin() as f32, angle.cos() as f32);
            let (a, b) = (row[i], row[i + half]);
            row[i] = a * cos - b * sin;
            row[i + half] = a * sin + b * cos;
        }
    }
    result
}

/// `[heads, rows, width]` by `[heads / groups, keys, width]`, scaled; masked scores are −∞.
pub(super) fn attention_scores(
    q: &[f32],
    k: &[f32],
    shape: &[usize],
    keys: usize,
    scale: f32,
    causal: bool,
    groups: usize,
) -> Vec<f32> {
    let &[heads, rows, width] = shape else { unreachable!("checked when the model was read") };
    let mut result = Vec::with_capacity(heads * rows * keys);
    for head in 0..heads {
        let transposed = transpose(&k[head / groups * keys * width..][..keys * width], keys, width);
        let scores =
            matmul(&q[head * rows * width..][..rows * width], &transposed, rows, width, keys);
        for (row, line) in scores.chunks_exact(keys).enumerate() {
            let seen = if causal { row + keys.saturating_sub(rows) + 1 } else { keys };
            let mask = |(key, score): (usize, &f32)| {
                if key < seen { score * scale } else { f32::NEG_INFINITY }
            };
            result.extend(line.iter().enumerate().map(mask));
        }
    }
    result
}

/// `[heads, rows, keys]` by `[heads / groups, keys, width]`.
pub(super) fn attention_values(
    p: &[f32],
    v: &[f32],
    shape: &[usize],
    width: usize,
    groups: usize,
) -> Vec<f32> {
    let &[heads, rows, keys] = shape else { unreachable!("checked when the model was read") };
    let mut result = Vec::with_capacity(heads * rows * width);
    for head in 0..heads {
        let values = &v[head / groups * keys * width..][..keys * width];
        result.extend(matmul(&p[head * rows * keys..][..rows * keys], values, rows, keys, width));
    }
    result
}
