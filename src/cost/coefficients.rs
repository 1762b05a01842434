//! Coefficients of the cost model and their prior values.

use serde::{Deserialize, Serialize};

use super::kernels::Price;

/// Kernel classes whose prices are corrected together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Class {
    /// F16 products.
    Product16,
    /// FP8 products.
    Product8,
    /// Sums of partial products.
    Reduce,
    /// Element by element.
    Pointwise,
    /// Norms.
    Norm,
    /// Softmax.
    Softmax,
    /// Type conversion.
    Cast,
    /// Copies, fills and packing.
    Move,
}

/// Number of kernel classes.
pub const CLASSES: usize = 8;
/// Names of the kernel classes, in their order.
pub const CLASS_NAMES: [&str; CLASSES] =
    ["product16", "product8", "reduce", "pointwise", "norm", "softmax", "cast", "move"];
/// Number of features of a step: work and calls of every class, exchange phases, horizon events.
pub const FEATURES: usize = 2 * CLASSES + 2;

/// Measured time of an exchange beyond its horizon: the middle of 237 to 295 (`target/ipu21.md`
/// §8.2).
pub const EXCHANGE_OVERHEAD: f64 = 266.0;

/// The cost model's coefficients. Prices are `work · slope + overhead · factor`, by class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coefficients {
    /// 0 for the prior; one more with every fit.
    pub version: u32,
    /// Factor on the part of a price that grows with the operands, by class.
    pub slope: [f64; CLASSES],
    /// Factor on the constant part of a price, by class.
    pub overhead: [f64; CLASSES],
    /// Cycles of an exchange phase beyond its horizon.
    pub exchange_overhead: f64,
    /// Cycles of one event of a horizon.
    pub event: f64,
}

impl Default for Coefficients {
    fn default() -> Coefficients {
        Coefficients {
            version: 0,
            slope: [1.0; CLASSES],
            overhead: [1.0; CLASSES],
            exchange_overhead: EXCHANGE_OVERHEAD,
            event: 1.0,
        }
    }
}

impl Coefficients {
    /// Cycles of one call.
    pub fn cycles(&self, price: &Price) -> f64 {
        let class = price.class as usize;
        price.work * self.slope[class] + price.overhead * self.overhead[class]
    }

    /// All coefficients in feature order: slopes, overheads, exchange overhead, event.
    pub fn to_vector(&self) -> Vec<f64> {
        let ends = [self.exchange_overhead, self.event];
        self.slope.iter().chain(&self.overhead).copied().chain(ends).collect()
    }

    /// Coefficients of the next version from their vector.
    pub fn next(&self, vector: &[f64]) -> Coefficients {
        let mut next = Coefficients { version: self.version + 1, ..self.clone() };
        next.slope.copy_from_slice(&vector[..CLASSES]);
        next.overhead.copy_from_slice(&vector[CLASSES..2 * CLASSES]);
        (next.exchange_overhead, next.event) = (vector[2 * CLASSES], vector[2 * CLASSES + 1]);
        next
    }

    /// Cycles of every kernel class in features that were added up, in the order of the classes.
    pub fn class_cycles(&self, features: &[f64]) -> [f64; CLASSES] {
        std::array::from_fn(|class| {
            features[class] * self.slope[class] + features[CLASSES + class] * self.overhead[class]
        })
    }

    /// Name of feature `index`.
    pub fn feature_name(index: usize) -> String {
        match index {
            i if i < CLASSES => format!("{}.slope", CLASS_NAMES[i]),
            i if i < 2 * CLASSES => format!("{}.overhead", CLASS_NAMES[i - CLASSES]),
            i if i == 2 * CLASSES => "exchange.overhead".to_owned(),
            _ => "exchange.event".to_owned(),
        }
    }
}
