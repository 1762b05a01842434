//! Comparing what a program computed with the host reference.

use serde::{Deserialize, Serialize};

/// How far a result is from the reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Numerics {
    /// The smallest cosine similarity of any output.
    pub minimum_cosine: f64,
    /// The largest absolute error of any element.
    pub maximum_absolute_error: f64,
    /// Elements that are not finite.
    pub non_finite: u64,
    /// Whether this is within the tolerance.
    pub pass: bool,
}

/// What is still right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Least cosine similarity.
    pub cosine: f64,
    /// Largest absolute error, as a multiple of the output's root mean square.
    pub relative_error: f64,
}

impl Tolerance {
    /// For programs whose products are F16. Whole networks measured on the chip reach 0.998 and
    /// better against F32 (`target/ipu21.md` §8.4).
    pub const F16: Tolerance = Tolerance { cosine: 0.999, relative_error: 0.25 };
    /// For programs with FP8 operands: 0.993 and better.
    pub const F8: Tolerance = Tolerance { cosine: 0.99, relative_error: 1.0 };
}

/// Compares outputs with their references; pairs of equal length.
pub fn compare(pairs: &[(&[f32], &[f32])], tolerance: Tolerance) -> Numerics {
    let mut numerics =
        Numerics { minimum_cosine: 1.0, maximum_absolute_error: 0.0, non_finite: 0, pass: true };
    for (found, wanted) in pairs {
        let (mut dot, mut a, mut b, mut error) = (0.0, 0.0, 0.0, 0.0_f64);
        for (x, y) in found.iter().zip(*wanted) {
            if !x.is_finite() {
                numerics.non_finite += 1;
                continue;
            }
            let (x, y) = (f64::from(*x), f64::from(*y));
            dot += x * y;
            a += x * x;
            b += y * y;
            error = error.max((x - y).abs());
        }
        let cosine = if a == 0.0 && b == 0.0 { 1.0 } else { dot / (a * b).sqrt() };
        // A NaN fails every comparison, so the bound is put the other way round.
        let cosine = if cosine.is_finite() { cosine } else { -1.0 };
        let size = (b / wanted.len().max(1) as f64).sqrt();
        numerics.minimum_cosine = numerics.minimum_cosine.min(cosine);
        numerics.maximum_absolute_error = numerics.maximum_absolute_error.max(error);
        let close =
            cosine >= tolerance.cosine && error <= tolerance.relative_error * size.max(1e-3);
        numerics.pass &= close && found.len() == wanted.len();
    }
    numerics.pass &= numerics.non_finite == 0;
    numerics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_close_and_finite_results_pass() {
        let wanted = [1.0, -2.0, 3.0, 0.5];
        let compare_one = |found: &[f32]| compare(&[(found, &wanted)], Tolerance::F16);
        assert!(compare_one(&[1.001, -2.001, 3.0, 0.5]).pass);
        assert!(!compare_one(&[-2.0, 1.0, 3.0, 0.5]).pass, "swapped");
        assert!(!compare_one(&[0.0; 4]).pass, "all zero");
        let broken = compare_one(&[f32::NAN, -2.0, 3.0, 0.5]);
        assert!(!broken.pass && broken.non_finite == 1);
        assert!(!compare_one(&[f32::INFINITY; 4]).pass);
        assert!(!compare_one(&[1.0, -2.0, 3.0]).pass, "an output that is too short");
    }
}
