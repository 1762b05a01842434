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

/// One output and what it should be.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    /// What was computed.
    pub found: &'a [f32],
    /// The reference.
    pub wanted: &'a [f32],
    /// Elements of its last axis.
    pub width: usize,
    /// What is still right.
    pub tolerance: Tolerance,
}

/// Least elements that an angle is taken of: over fewer, rounding alone can turn it.
const LEAST_ELEMENTS: usize = 32;
/// Rows whose mean square is below this part of their output's have no angle worth looking at; the
/// absolute error bounds them.
const LEAST_ENERGY: f64 = 1e-2;

/// Compares outputs with their references, row by row: over a whole output, swapped words of one
/// row would drown in the others.
pub fn compare(outputs: &[Output<'_>]) -> Numerics {
    let mut numerics =
        Numerics { minimum_cosine: 1.0, maximum_absolute_error: 0.0, non_finite: 0, pass: true };
    for output in outputs {
        let all = Sums::of(output.found, output.wanted);
        let count = output.wanted.len().max(1) as f64;
        let width = output.width.max(1);
        let chunk = width * LEAST_ELEMENTS.div_ceil(width);
        let rows = output.found.chunks(chunk).zip(output.wanted.chunks(chunk));
        let mean = all.wanted / count;
        let cosines = rows.filter_map(|(found, wanted)| {
            let sums = Sums::of(found, wanted);
            let energy = sums.found.max(sums.wanted) / wanted.len().max(1) as f64;
            let counts = wanted.len() >= LEAST_ELEMENTS && energy >= LEAST_ENERGY * mean;
            counts.then(|| sums.cosine())
        });
        let cosine = cosines.fold(all.cosine(), f64::min);
        let limit = output.tolerance.relative_error * mean.sqrt().max(1e-3);
        let close = cosine >= output.tolerance.cosine && all.error <= limit;
        numerics.minimum_cosine = numerics.minimum_cosine.min(cosine);
        numerics.maximum_absolute_error = numerics.maximum_absolute_error.max(all.error);
        numerics.non_finite += all.non_finite;
        numerics.pass &= close && output.found.len() == output.wanted.len();
    }
    numerics.pass &= numerics.non_finite == 0;
    numerics
}

/// Sums over some elements.
#[derive(Default)]
struct Sums {
    dot: f64,
    found: f64,
    wanted: f64,
    error: f64,
    non_finite: u64,
}

impl Sums {
    fn of(found: &[f32], wanted: &[f32]) -> Sums {
        let mut sums = Sums::default();
        for (x, y) in found.iter().zip(wanted) {
            if !x.is_finite() {
                sums.non_finite += 1;
                continue;
            }
            let (x, y) = (f64::from(*x), f64::from(*y));
            sums.dot += x * y;
            sums.found += x * x;
            sums.wanted += y * y;
            sums.error = sums.error.max((x - y).abs());
        }
        sums
    }

    fn cosine(&self) -> f64 {
        if self.found == 0.0 && self.wanted == 0.0 {
            return 1.0;
        }
        let cosine = self.dot / (self.found * self.wanted).sqrt();
        // A NaN fails every comparison, so the bound is put the other way round.
        if cosine.is_finite() { cosine } else { -1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_close_and_finite_results_pass() {
        let wanted = [1.0, -2.0, 3.0, 0.5];
        let compare_one = |found: &[f32]| {
            compare(&[Output { found, wanted: &wanted, width: 4, tolerance: Tolerance::F16 }])
        };
        assert!(compare_one(&[1.001, -2.001, 3.0, 0.5]).pass);
        assert!(!compare_one(&[-2.0, 1.0, 3.0, 0.5]).pass, "swapped");
        assert!(!compare_one(&[0.0; 4]).pass, "all zero");
        let broken = compare_one(&[f32::NAN, -2.0, 3.0, 0.5]);
        assert!(!broken.pass && broken.non_finite == 1);
        assert!(!compare_one(&[f32::INFINITY; 4]).pass);
        assert!(!compare_one(&[1.0, -2.0, 3.0]).pass, "an output that is too short");
    }

    #[test]
    fn two_swapped_words_among_many_rows_are_seen() {
        // Close enough in size that the absolute error says nothing.
        let wanted: Vec<f32> = (0_u32..6400)
            .map(|i| 1.0 + 0.2 * (i.wrapping_mul(2_654_435_761) >> 31) as f32)
            .collect();
        let mut found = wanted.clone();
        let row = &mut found[3200..3264];
        row.rotate_left(1);
        let numerics = |width| {
            compare(&[Output { found: &found, wanted: &wanted, width, tolerance: Tolerance::F16 }])
        };
        assert!(numerics(6400).pass, "over the whole output it drowns");
        assert!(!numerics(64).pass, "over its row it does not");
    }

    #[test]
    fn rows_of_next_to_nothing_do_not_count() {
        let wanted: Vec<f32> = (0..128).map(|i| if i < 64 { 1.0 } else { 1e-6 }).collect();
        let found: Vec<f32> = (0..128).map(|i| if i < 64 { 1.0 } else { -1e-6 }).collect();
        let output =
            Output { found: &found, wanted: &wanted, width: 64, tolerance: Tolerance::F16 };
        assert!(compare(&[output]).pass);
    }
}
