//! The silicon profile: how long things take on the simulated chip. Numbers lie in a JSON file; the
//! built-in one has the measured figures of `target/ipu21.md` §6.2 and §8.2 moved by a few percent,
//! so that a cost model has something to be calibrated to.

use serde::{Deserialize, Serialize};

use crate::kernels::{CastStrips, Gemm, Kernel, Norm, Softmax, Unary};
use crate::target::DataType;

/// Text of the built-in profile.
const BUILT_IN: &str = include_str!("profile.json");

/// A constant and a cost a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    call: f64,
    step: f64,
}

/// Products: a call, a 16 × 16 panel pass, a row of one pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Product {
    call: f64,
    panel_interleaved: f64,
    panel_standard: f64,
    row: f64,
}

/// Reductions: 48 elements at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reduce {
    call: f64,
    group: f64,
    partial: f64,
}

/// Bias and activation together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bias {
    call: f64,
    row: f64,
    step: f64,
}

/// Row norms: 24 columns at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormFigures {
    call: f64,
    row: f64,
    statistics: f64,
    apply: f64,
}

/// Softmax: six rows at a time, or two split over workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoftmaxFigures {
    call: f64,
    row: f64,
    full: f64,
    tail: f64,
    split_call: f64,
    split_row: f64,
    split_step: f64,
}

/// Flat casts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CastFigures {
    call: f64,
    narrow: f64,
    wide: f64,
}

/// Casts between strips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CastStripsFigures {
    call: f64,
    panel: f64,
    row: f64,
}

/// A constant and a cost a word or element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    call: f64,
    #[serde(alias = "element")]
    word: f64,
}

/// All figures, in cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Silicon {
    /// Name of the profile.
    pub name: String,
    /// Tile clock, for converting cycles into time.
    pub clock_hz: u64,
    /// A supervisor instruction outside exchange timing.
    pub instruction: u64,
    /// The worker barrier, the call included.
    pub barrier: u64,
    /// A cycle sample, the call included.
    pub sample: u64,
    /// A synchronization, from the last tile's arrival to event 0 of the rows.
    pub sync: u64,
    product: Product,
    product8: Product,
    reduce: Reduce,
    elementwise: Steps,
    gelu_tanh: Steps,
    gelu_erf: Steps,
    silu: Steps,
    relu: Steps,
    sigmoid: Steps,
    bias: Bias,
    norm: NormFigures,
    softmax: SoftmaxFigures,
    cast: CastFigures,
    cast_strips: CastStripsFigures,
    copy: Words,
    strided: Words,
    fill: Words,
    pack: Words,
}

impl Silicon {
    /// The built-in profile.
    pub fn built_in() -> Silicon {
        Silicon::parse(BUILT_IN).expect("the built-in profile is a profile")
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// If the text is not a profile.
    pub fn parse(text: &str) -> Result<Silicon, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Cycles of one kernel call with `m` = `m2` to `m9`; a multiple of the instruction time, as
    /// every duration on the chip is.
    pub fn cycles(&self, kernel: &Kernel, m: &[u32; 8]) -> u64 {
        let unit = self.instruction.max(1);
        (self.time(kernel, m).round() as u64).div_ceil(unit) * unit
    }

    fn time(&self, kernel: &Kernel, m: &[u32; 8]) -> f64 {
        let n = |index: usize| f64::from(m[index]);
        let up = |count: f64, step: f64| (count / step).ceil();
        match kernel {
            Kernel::ZeroFill => self.fill.call + self.fill.word * (6.0 * n(1) + n(2)),
            Kernel::Copy => self.copy.call + self.copy.word * up(n(2), 8.0),
            Kernel::StridedCopy => {
                self.strided.call + self.strided.word * up(n(2), 6.0) * 6.0 * up(n(3), 8.0)
            }
            Kernel::Gemm(gemm) => self.product_time(gemm),
            Kernel::Reduce => {
                self.reduce.call + up(n(4), 48.0) * (self.reduce.group + self.reduce.partial * n(3))
            }
            Kernel::Binary(_) => self.elementwise.call + self.elementwise.step * up(n(3), 24.0),
            Kernel::Unary(function) => {
                let figures = self.function(*function);
                figures.call + figures.step * up(n(2), 96.0)
            }
            Kernel::BiasUnary(function) => {
                let ratio = self.function(*function).step / self.gelu_tanh.step;
                self.bias.call + n(3) * (self.bias.row + self.bias.step * ratio * up(n(4), 24.0))
            }
            Kernel::Norm(norm) => self.norm_time(norm, m),
            Kernel::Softmax(softmax) => self.softmax_time(softmax, n(2)),
            Kernel::Cast(cast) => {
                let narrow = cast.to == DataType::F8;
                let (step, group) =
                    if narrow { (self.cast.narrow, 48.0) } else { (self.cast.wide, 12.0) };
                self.cast.call + step * up(n(2), group)
            }
            Kernel::CastStrips(cast) => self.cast_strips_time(cast, n(2), n(3)),
            Kernel::PackRight => self.pack.call + self.pack.word * 16.0 * n(2) * n(3),
        }
    }

    fn function(&self, function: Unary) -> &Steps {
        match function {
            Unary::Gelu => &self.gelu_erf,
            Unary::GeluTanh => &self.gelu_tanh,
            Unary::Silu => &self.silu,
            Unary::Relu => &self.relu,
            Unary::Sigmoid => &self.sigmoid,
        }
    }

    fn product_time(&self, gemm: &Gemm) -> f64 {
        let (figures, depth) = match gemm.input {
            DataType::F8 => (&self.product8, 32),
            _ => (&self.product, 16),
        };
        let panel =
            if gemm.interleaved { figures.panel_interleaved } else { figures.panel_standard };
        let passes = f64::from(gemm.inner.div_ceil(depth) * gemm.columns.div_ceil(16));
        figures.call + passes * (panel + figures.row * f64::from(gemm.rows))
    }

    fn norm_time(&self, norm: &Norm, m: &[u32; 8]) -> f64 {
        let operands = 3 + usize::from(norm.residual) + usize::from(norm.bias);
        let rows = f64::from(m[operands]);
        let steps = f64::from(norm.width.div_ceil(24));
        self.norm.call + rows * (self.norm.row + steps * (self.norm.statistics + self.norm.apply))
    }

    fn softmax_time(&self, softmax: &Softmax, rows: f64) -> f64 {
        let figures = &self.softmax;
        let tail = if softmax.width == softmax.pitch { 0.0 } else { figures.tail };
        let row = figures.row + figures.full * f64::from(softmax.width / 16) + tail;
        let whole = figures.call + 6.0 * (rows / 6.0).ceil() * row;
        let steps = f64::from(softmax.pitch.div_ceil(48));
        let split_row = figures.split_row + figures.split_step * steps;
        let split = figures.split_call + 6.0 * (rows / 2.0).ceil() * split_row;
        if softmax.width >= 128 { whole.min(split) } else { whole }
    }

    fn cast_strips_time(&self, cast: &CastStrips, rows: f64, blocks: f64) -> f64 {
        let panels = blocks * f64::from(cast.width.div_ceil(32));
        let figures = &self.cast_strips;
        let dealt = panels >= 6.0 && rows <= 32.0;
        let work = if dealt {
            (panels / 6.0).ceil() * (figures.panel + figures.row * rows)
        } else {
            panels * (figures.panel + figures.row * (rows / 6.0).ceil())
        };
        figures.call + work
    }
}
