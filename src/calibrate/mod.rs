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
    /// How much longer, in percent, the best of the first [`TOP`] by prediction takes than the best
    /// of all.
    #[serde(default)]
    pub regret: f64,
}

/// Points that [`Quality::regret`] looks at.
pub const TOP: usize = 5;

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
    /// Coefficients that the points say next to nothing about: they stay where they are drawn to.
    pub unidentified: Vec<usize>,
}

/// Weight of the prior: the pull of one coefficient's relative change against relative errors.
const PULL: f64 = 0.05;
/// Relative residuals above this weigh less (Huber).
const HUBER: f64 = 0.05;
/// Passes over all coefficients.
const PASSES: usize = 60;
/// One in so many points is held out.
const HOLD_OUT: u8 = 4;
/// A coefficient is unidentified if the points weigh less than this share of the prior's pull.
const LEAST_SHARE: f64 = 0.1;

/// Whether a point is held out. Its content says so, not its place: a step that is measured again
/// stays on the side on which it was, so no fit ever sees what it is judged on.
fn is_held_out(point: &Point) -> bool {
    let mut hasher = blake3::Hasher::new();
    for value in &point.features {
        hasher.update(&value.to_le_bytes());
    }
    hasher.finalize().as_bytes()[0].is_multiple_of(HOLD_OUT)
}

/// Fits coefficients to points; `prior` is where they are drawn to, `current` what they are now.
/// Points with senseless figures are left out.
pub fn fit(points: &[Point], prior: &[f64], current: &[f64]) -> Fit {
    let usable = |point: &&Point| {
        let finite = point.features.iter().all(|value| value.is_finite());
        finite && point.cycles.is_finite() && point.cycles > 0.0
    };
    let (testing, training): (Vec<&Point>, Vec<&Point>) =
        points.iter().filter(usable).partition(|point| is_held_out(point));
    let mut beta = current.to_vec();
    for _ in 0..PASSES {
        // Errors are relative to the larger of both figures: a measurement that is far too short
        // would otherwise outweigh all others.
        let rows: Vec<Row<'_>> = training.iter().map(|point| Row::of(point, &beta)).collect();
        for index in 0..beta.len() {
            beta[index] = minimum(&rows, prior, &beta, index);
        }
    }
    let weight = |index: usize| {
        let relative =
            |point: &&Point| (scale(prior[index]) * point.features[index] / point.cycles).powi(2);
        training.iter().map(relative).sum::<f64>()
    };
    let unidentified = (0..beta.len()).filter(|at| weight(*at) < LEAST_SHARE * PULL).collect();
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

/// What a change of a coefficient is measured by.
fn scale(prior: f64) -> f64 {
    if prior.abs() > f64::EPSILON { prior } else { 1.0 }
}

/// A point as one pass sees it.
struct Row<'a> {
    point: &'a Point,
    size: f64,
    weight: f64,
}

impl Row<'_> {
    fn of<'a>(point: &'a Point, beta: &[f64]) -> Row<'a> {
        let predicted = dot(&point.features, beta);
        let size = predicted.max(point.cycles);
        let relative = (predicted - point.cycles).abs() / size;
        let weight = if relative > HUBER { HUBER / relative } else { 1.0 };
        Row { point, size, weight }
    }
}

/// The best value of one coefficient with all others fixed.
fn minimum(rows: &[Row<'_>], prior: &[f64], beta: &[f64], index: usize) -> f64 {
    let scale = scale(prior[index]);
    let (mut a, mut b) = (PULL / (scale * scale), PULL * prior[index] / (scale * scale));
    for Row { point, size, weight } in rows {
        let x = point.features[index] / size;
        let rest = (point.cycles - dot(&point.features, beta)) / size + x * beta[index];
        a += weight * x * x;
        b += weight * x * rest;
    }
    (b / a).max(0.0)
}

fn quality(points: &[&Point], beta: &[f64]) -> Quality {
    if points.is_empty() {
        return Quality::default();
    }
    let errors: Vec<f64> =
        points.iter().map(|p| (dot(&p.features, beta) - p.cycles) / p.cycles).collect();
    let count = errors.len() as f64;
    let predicted: Vec<f64> = points.iter().map(|p| dot(&p.features, beta)).collect();
    let measured: Vec<f64> = points.iter().map(|p| p.cycles).collect();
    Quality {
        mape: errors.iter().map(|e| e.abs()).sum::<f64>() / count * 100.0,
        bias: errors.iter().sum::<f64>() / count * 100.0,
        rank_correlation: spearman(&predicted, &measured),
        regret: regret(&predicted, &measured, TOP) * 100.0,
    }
}

/// How much longer the best of the first `top` by prediction takes than the best of all, relative
/// to the latter; 0 without any. Of equal predictions the earlier comes first.
pub fn regret(predicted: &[f64], measured: &[f64], top: usize) -> f64 {
    let mut order: Vec<usize> = (0..predicted.len().min(measured.len())).collect();
    order.sort_by(|a, b| predicted[*a].total_cmp(&predicted[*b]));
    let least =
        |indices: &[usize]| indices.iter().map(|index| measured[*index]).min_by(f64::total_cmp);
    match (least(&order[..top.min(order.len())]), least(&order)) {
        (Some(chosen), Some(best)) if best > 0.0 => chosen / best - 1.0,
        _ => 0.0,
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
    if xx * yy > 0.0 { xy / (xx * yy).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    /// Points of planted coefficients over deterministic features.
    fn planted(truth: &[f64], count: usize) -> Vec<Point> {
        let feature =
            |i: usize, j: usize| ((i * 7 + j * 13 + i * i * (j + 1)) % 101 + 1) as f64 * 100.0;
        (0..count)
            .map(|i| {
                let features: Vec<f64> = (0..truth.len()).map(|j| feature(i, j)).collect();
                Point { cycles: dot(&features, truth), features }
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// One point in eight is three times too slow or ten times too fast.
        #[test]
        fn planted_coefficients_come_back_in_spite_of_outliers(
            truth in prop::collection::vec(0.7f64..1.5, 1..4), offset in 0usize..8,
        ) {
            let mut points = planted(&truth, 160);
            for index in (offset..160).step_by(8) {
                points[index].cycles *= if index % 16 < 8 { 3.0 } else { 0.1 };
            }
            let prior = vec![1.0; truth.len()];
            let fit = fit(&points, &prior, &prior);
            for (found, wanted) in fit.coefficients.iter().zip(&truth) {
                prop_assert!((found - wanted).abs() < 0.05, "{} {}", found, wanted);
            }
            prop_assert_eq!(fit.fitted + fit.held_out, 160);
            prop_assert!((20..60).contains(&fit.held_out), "{}", fit.held_out);
            prop_assert!(fit.unidentified.is_empty());
        }

        /// Nothing goes below zero, whatever the points pull towards.
        #[test]
        fn coefficients_are_never_negative(
            cycles in prop::collection::vec(1.0f64..1e6, 12), current in prop::collection::vec(0.0f64..9.0, 3),
        ) {
            let mut points = planted(&[1.0; 3], 12);
            points.iter_mut().zip(cycles).for_each(|(point, cycles)| point.cycles = cycles);
            let fit = fit(&points, &[1.0, 0.0, 266.0], &current);
            prop_assert!(fit.coefficients.iter().all(|c| c.is_finite() && *c >= 0.0));
        }
    }

    #[test]
    fn the_side_of_a_point_does_not_depend_on_its_place_or_its_time() {
        let points = planted(&[1.1, 0.9], 40);
        let held: Vec<bool> = points.iter().map(is_held_out).collect();
        assert!(held.contains(&true) && held.contains(&false));
        let again: Vec<bool> = points
            .iter()
            .map(|p| is_held_out(&Point { cycles: p.cycles * 1.01, features: p.features.clone() }))
            .collect();
        assert_eq!(held, again);
        let turned: Vec<Point> = points.iter().rev().cloned().collect();
        let (a, b) = (fit(&points, &[1.0; 2], &[1.0; 2]), fit(&turned, &[1.0; 2], &[1.0; 2]));
        assert_eq!((a.fitted, a.held_out), (b.fitted, b.held_out));
        assert!(a.after.mape < a.before.mape);
    }

    #[test]
    fn what_no_point_shows_stays_at_its_prior() {
        let mut points = planted(&[1.2, 0.0], 20);
        points.iter_mut().for_each(|point| point.features[1] = 0.0);
        let fit = fit(&points, &[1.0, 266.0], &[1.0, 266.0]);
        assert_eq!(fit.unidentified, [1]);
        assert!((fit.coefficients[1] - 266.0).abs() < 1e-6);
        let nothing = super::fit(&[], &[1.0, 266.0], &[1.5, 300.0]);
        assert_eq!(nothing.coefficients, [1.0, 266.0]);
        assert_eq!((nothing.unidentified, nothing.after), (vec![0, 1], Quality::default()));
    }

    #[test]
    fn broken_measurements_are_not_fitted_to() {
        let mut points = planted(&[1.0, 1.0], 20);
        points[0].cycles = f64::NAN;
        points[1].cycles = 0.0;
        points[2].cycles = -5.0;
        points[4].cycles = f64::INFINITY;
        points[5].features[0] = f64::NAN;
        let fit = fit(&points, &[1.0; 2], &[1.0; 2]);
        assert!(fit.coefficients.iter().all(|c| (c - 1.0).abs() < 1e-6));
        assert_eq!(fit.fitted + fit.held_out, 15);
    }

    #[test]
    fn regret_is_what_trusting_the_prediction_costs() {
        assert!((regret(&[1.0, 2.0, 3.0], &[12.0, 11.0, 10.0], 1) - 0.2).abs() < 1e-12);
        assert!((regret(&[1.0, 2.0, 3.0], &[12.0, 11.0, 10.0], 2) - 0.1).abs() < 1e-12);
        assert!(regret(&[1.0, 2.0, 3.0], &[12.0, 11.0, 10.0], 3).abs() < 1e-12);
        assert!(regret(&[], &[], 3).abs() < 1e-12);
    }

    #[test]
    fn ranks_know_ties() {
        assert!((spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]) - 1.0).abs() < 1e-12);
        assert!((spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        assert!(spearman(&[1.0, 1.0], &[1.0, 2.0]).abs() < 1e-12);
    }
}
