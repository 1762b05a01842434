//! Calibration: fitting the cost model's coefficients to measured steps.
//!
//! Robust (large residuals weigh less), drawn towards the priors, never negative, and judged on
//! points that it was not fitted to.

use serde::{Deserialize, Serialize};

/// One measured step: what the coefficients are multiplied with, and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Features, in coefficient order.
    pub features: Vec<f64>,
    /// Measured cycles.
    pub cycles: f64,
}

/// How good a set of coefficients is on some points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Mean absolute percentage error.
    pub mape: f64,
    /// Mean percentage error, signed.
    pub bias: f64,
    /// Spearman's rank correlation of predicted and measured.
    pub rank_correlation: f64,
}

/// What a fit gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// New coefficients.
    pub coefficients: Vec<f64>,
    /// Points fitted to.
    pub fitted: usize,
    /// Points held out.
    pub held_out: usize,
    /// On the held-out points, with the old coefficients.
    pub before: Quality,
    /// On the held-out points, with the new ones.
    pub after: Quality,
    /// Coefficients that no point says anything about.
    pub unidentified: Vec<usize>,
}

/// Weight of the prior: the pull of one coefficient's relative change against relative errors.
const PULL: f64 = 0.05;
/// Relative residuals above this weigh less (Huber).
const HUBER: f64 = 0.05;
/// Passes over all coefficients.
const PASSES: usize = 60;
/// Every so-many-th point is held out.
const HOLD_OUT: usize = 4;

/// Fits coefficients to points; `prior` is where they are drawn to, `current` what they are now.
/// The points' order says which are held out.
pub fn fit(points: &[Point], prior: &[f64], current: &[f64]) -> Fit {
    let held = |index: usize| index % HOLD_OUT == HOLD_OUT - 1;
    let usable = |point: &&Point| point.cycles.is_finite() && point.cycles > 0.0;
    let pick = |wanted: bool| -> Vec<&Point> {
        let kept = points.iter().filter(usable).enumerate();
        kept.filter(|(index, _)| held(*index) == wanted)
            .map(|(_, point)| point)
            .collect()
    };
    let (training, testing) = (pick(false), pick(true));
    let mut beta = current.to_vec();
    for _ in 0..PASSES {
        let weights: Vec<f64> = training
            .iter()
            .map(|point| {
                let relative = (dot(&point.features, &beta) - point.cycles).abs() / point.cycles;
                if relative > HUBER {
                    HUBER / relative
                } else {
                    1.0
                }
            })
            .collect();
        for index in 0..beta.len() {
            beta[index] = minimum(&training, &weights, prior, &beta, index);
        }
    }
    let unidentified = (0..beta.len())
        .filter(|index| {
            training
                .iter()
                .all(|point| point.features[*index].abs() < f64::EPSILON)
        })
        .collect();
    Fit {
        fitted: training.len(),
        held_out: testing.len(),
        before: quality(&testing, current),
        after: quality(&testing, &beta),
        coefficients: beta,
        unidentified,
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// The best value of one coefficient with all others fixed.
fn minimum(points: &[&Point], weights: &[f64], prior: &[f64], beta: &[f64], index: usize) -> f64 {
    let scale = if prior[index].abs() > f64::EPSILON {
        prior[index]
    } else {
        1.0
    };
    let (mut a, mut b) = (
        PULL / (scale * scale),
        PULL * prior[index] / (scale * scale),
    );
    for (point, weight) in points.iter().zip(weights) {
        let x = point.features[index] / point.cycles;
        let rest = (point.cycles - dot(&point.features, beta)) / point.cycles + x * beta[index];
        a += weight * x * x;
        b += weight * x * rest;
    }
    (b / a).max(0.0)
}

fn quality(points: &[&Point], beta: &[f64]) -> Quality {
    if points.is_empty() {
        return Quality::default();
    }
    let errors: Vec<f64> = points
        .iter()
        .map(|p| (dot(&p.features, beta) - p.cycles) / p.cycles)
        .collect();
    let count = errors.len() as f64;
    let predicted: Vec<f64> = points.iter().map(|p| dot(&p.features, beta)).collect();
    let measured: Vec<f64> = points.iter().map(|p| p.cycles).collect();
    Quality {
        mape: errors.iter().map(|e| e.abs()).sum::<f64>() / count * 100.0,
        bias: errors.iter().sum::<f64>() / count * 100.0,
        rank_correlation: spearman(&predicted, &measured),
    }
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let same = |at: &&usize| values[**at].total_cmp(&values[order[start]]).is_eq();
        let count = order[start..].iter().take_while(same).count();
        for at in &order[start..start + count] {
            ranks[*at] = start as f64 + (count - 1) as f64 / 2.0;
        }
        start += count;
    }
    ranks
}

/// Spearman's rank correlation; 0 where it is not defined.
pub fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let (x, y) = (ranks(a), ranks(b));
    let mean = (x.len().max(1) - 1) as f64 / 2.0;
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (p, q) in x.iter().zip(&y) {
        xy += (p - mean) * (q - mean);
        xx += (p - mean).powi(2);
        yy += (q - mean).powi(2);
    }
    if xx * yy > 0.0 {
        xy / (xx * yy).sqrt()
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of planted coefficients over deterministic features.
    fn planted(truth: &[f64], count: usize) -> Vec<Point> {
        let feature = |i: usize, j: usize| ((i * 7 + j * 13) % 11 + 1) as f64 * 100.0;
        (0..count)
            .map(|i| {
                let features: Vec<f64> = (0..truth.len()).map(|j| feature(i, j)).collect();
                Point {
                    cycles: dot(&features, truth),
                    features,
                }
            })
            .collect()
    }

    #[test]
    fn planted_coefficients_come_back_in_spite_of_outliers() {
        let truth = [1.1, 0.9, 1.25];
        let mut points = planted(&truth, 80);
        for index in [3, 20, 41] {
            points[index].cycles *= 3.0;
        }
        let fit = fit(&points, &[1.0; 3], &[1.0; 3]);
        for (found, wanted) in fit.coefficients.iter().zip(truth) {
            assert!((found - wanted).abs() < 0.03, "{found} {wanted}");
        }
        assert!(fit.after.mape < fit.before.mape);
        assert_eq!((fit.fitted, fit.held_out), (60, 20));
    }

    #[test]
    fn what_no_point_shows_stays_at_its_prior() {
        let mut points = planted(&[1.2, 0.0], 20);
        points.iter_mut().for_each(|point| point.features[1] = 0.0);
        let fit = fit(&points, &[1.0, 266.0], &[1.0, 266.0]);
        assert_eq!(fit.unidentified, [1]);
        assert!((fit.coefficients[1] - 266.0).abs() < 1e-6);
    }

    #[test]
    fn broken_measurements_are_not_fitted_to() {
        let mut points = planted(&[1.0, 1.0], 20);
        points[0].cycles = f64::NAN;
        points[1].cycles = 0.0;
        points[2].cycles = -5.0;
        points[4].cycles = f64::INFINITY;
        let fit = fit(&points, &[1.0; 2], &[1.0; 2]);
        assert!(fit.coefficients.iter().all(|c| (c - 1.0).abs() < 1e-6));
        assert_eq!(fit.fitted + fit.held_out, 16);
    }

    #[test]
    fn ranks_know_ties() {
        assert!((spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]) - 1.0).abs() < 1e-12);
        assert!((spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        assert!(spearman(&[1.0, 1.0], &[1.0, 2.0]).abs() < 1e-12);
    }
}
