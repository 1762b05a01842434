//! Summaries of repeated measurements: every repeat is kept, outliers are flagged.

use serde::{Deserialize, Serialize};

/// Median and spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Middle of the repeats.
    pub median: u64,
    /// Median absolute deviation.
    pub mad: u64,
    /// Indices of repeats whose modified z-score exceeds 3.5.
    pub outliers: Vec<usize>,
    /// Number of repeats.
    pub repeats: usize,
}

fn median(sorted: &[u64]) -> u64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        sorted[middle - 1].midpoint(sorted[middle])
    } else {
        sorted[middle]
    }
}

impl Summary {
    /// The summary of some repeats; `None` without any, or with a zero among them, which no real
    /// measurement has.
    pub fn of(repeats: &[u64]) -> Option<Summary> {
        if repeats.is_empty() || repeats.contains(&0) {
            return None;
        }
        let mut sorted = repeats.to_vec();
        sorted.sort_unstable();
        let middle = median(&sorted);
        let mut deviations: Vec<u64> =
            sorted.iter().map(|cycles| cycles.abs_diff(middle)).collect();
        deviations.sort_unstable();
        let mad = median(&deviations);
        let is_outlier =
            |cycles: u64| mad > 0 && 0.6745 * cycles.abs_diff(middle) as f64 / mad as f64 > 3.5;
        let outliers = (0..repeats.len()).filter(|index| is_outlier(repeats[*index])).collect();
        Some(Summary { median: middle, mad, outliers, repeats: repeats.len() })
    }

    /// Whether this is faster than `other` with confidence: the medians are further apart than the
    /// uncertainty of both (normal approximation of a median's, 1.96 deviations).
    pub fn beats(&self, other: &Summary) -> bool {
        let error = |s: &Summary| 1.2533 * 1.4826 * s.mad as f64 / (s.repeats as f64).sqrt();
        let margin = 1.96 * error(self).hypot(error(other));
        (self.median as f64) + margin < other.median as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_flagged_and_kept() {
        let summary = Summary::of(&[100, 101, 99, 100, 102, 500]).unwrap();
        assert_eq!(
            (summary.median, summary.outliers.as_slice(), summary.repeats),
            (100, &[5][..], 6)
        );
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[0, 7]), None);
    }

    #[test]
    fn a_challenger_needs_confidence() {
        let steady = Summary::of(&[1000; 5]).unwrap();
        assert!(Summary::of(&[999; 5]).unwrap().beats(&steady));
        assert!(!steady.beats(&steady.clone()));
        let noisy = Summary::of(&[900, 1100, 950, 1050, 990]).unwrap();
        assert!(!noisy.beats(&steady));
    }
}
