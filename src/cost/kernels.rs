//! Kernel prices (`target/ipu21.md` §6.2; where it has none, its neighbours' or public library
//! figures, named at the place).

use crate::kernels::{Binary, Cast, CastStrips, Gemm, Kernel, Norm, Softmax, Unary};
use crate::target::DataType;

use super::coefficients::Class;

/// Cycles of one call: `overhead + work`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Which coefficients correct it.
    pub class: Class,
    /// The constant part.
    pub overhead: f64,
    /// The part that grows with the operands.
    pub work: f64,
}

/// Cycles of one supervisor instruction outside exchange timing (§4.6).
pub const INSTRUCTION: f64 = 6.0;

/// Price of a call with these scalars, the instructions that set its registers included.
pub fn price(kernel: &Kernel, inputs: usize, scalars: &[u32]) -> Price {
    let mut price = kernel_price(kernel, scalars);
    price.overhead += INSTRUCTION * (2 + inputs + scalars.len()) as f64;
    price
}

fn ceil(a: u32, b: u32) -> f64 {
    f64::from(a.div_ceil(b))
}

fn of(class: Class, overhead: f64, work: f64) -> Price {
    Price { class, overhead, work }
}

fn kernel_price(kernel: &Kernel, scalars: &[u32]) -> Price {
    let scalar = |index: usize| scalars.get(index).copied().unwrap_or(0);
    match kernel {
        Kernel::ZeroFill => {
            let words = 6 * scalar(0) + scalar(1);
            of(Class::Move, 11.0, ceil(words * 8, 48))
        }
        Kernel::Copy => of(Class::Move, 288.0, ceil(scalar(0), 8)),
        Kernel::StridedCopy => {
            // Rows are dealt to six workers (§6.4): a part of the last round is idle.
            let rows = scalar(0).next_multiple_of(6).min(scalar(0) + 5);
            of(Class::Move, 288.0, f64::from(rows) * ceil(scalar(1), 8))
        }
        Kernel::Gemm(gemm) => product(gemm),
        Kernel::Reduce => {
            let work = ceil(scalar(1), 48) * 6.0 * (11.0 + 2.0 * f64::from(scalar(0)));
            of(Class::Reduce, 282.0, work)
        }
        Kernel::Binary(Binary::Add | Binary::Mul) => {
            of(Class::Pointwise, 504.0, 18.0 * ceil(scalar(0), 24))
        }
        Kernel::Unary(function) => unary(*function, scalar(0)),
        Kernel::BiasUnary(function) => bias_unary(*function, scalar(0), scalar(1)),
        Kernel::Norm(norm) => norm_price(norm, scalar(0)),
        Kernel::Softmax(softmax) => softmax_price(softmax, scalar(0)),
        Kernel::Cast(cast) => cast_price(cast, scalar(0)),
        Kernel::CastStrips(cast) => cast_strips(cast, scalar(0), scalar(1)),
        // "Other orders" of §6.2.
        Kernel::PackRight => of(Class::Move, 11.0, 10.0 * 16.0 * f64::from(scalar(0) * scalar(1))),
    }
}

fn product(gemm: &Gemm) -> Price {
    let (class, inner) = match gemm.input {
        DataType::F8 => (Class::Product8, gemm.inner / 2),
        _ => (Class::Product16, gemm.inner),
    };
    let rows = f64::from(gemm.rows);
    let (passes, panels) = (ceil(inner, 16), ceil(gemm.columns, 16));
    let work = if gemm.interleaved {
        passes * panels * (4.0 * rows + 160.0)
    } else {
        let sums = (f64::from(gemm.columns) * rows / 4.0).ceil();
        passes * (sums + (panels * 1063.0 / 4.0).ceil())
    };
    of(class, 294.0, work)
}

fn unary(function: Unary, count: u32) -> Price {
    // GELU (tanh) is measured; the others scale by public library figures per element: erf form 16
    // against 1.25, SiLU 1.25, ReLU 0.75, sigmoid 1.5.
    let gelu = 462.0 * ceil(count, 96);
    let work = match function {
        Unary::GeluTanh | Unary::Silu => gelu,
        Unary::Gelu => gelu * 16.0 / 1.25,
        Unary::Relu => 18.0 * ceil(count, 24),
        Unary::Sigmoid => gelu * 1.5 / 1.25,
    };
    of(Class::Pointwise, 330.0, work)
}

fn bias_unary(function: Unary, rows: u32, width: u32) -> Price {
    let rows = f64::from(rows);
    if function == Unary::GeluTanh {
        return of(Class::Pointwise, 222.0, rows * (228.0 + 90.0 * ceil(width, 24)));
    }
    let plain = unary(function, width);
    let row = 228.0 + plain.work + 18.0 * ceil(width, 24);
    of(Class::Pointwise, 222.0, rows * row)
}

fn norm_price(norm: &Norm, rows: u32) -> Price {
    let width = norm.width;
    let wide = width >= 96 && width.is_multiple_of(8);
    let (stat, setup) = match (norm.residual, wide) {
        (false, true) => (12.0 * ceil(width, 48) + 30.0 * ceil(width, 24) + 24.0, 1329.0),
        (false, false) => (48.0 * ceil(width, 12), 1200.0),
        (true, true) => (30.0 * ceil(width, 48) + 42.0 * ceil(width, 24) + 24.0, 1386.0),
        (true, false) => (72.0 * ceil(width, 12), 1290.0),
    };
    let apply = match (norm.residual, width.is_multiple_of(4)) {
        (false, true) => 66.0 + 72.0 * ceil(width, 24),
        (true, true) => 66.0 + 84.0 * ceil(width, 24),
        (false, false) => 60.0 * ceil(width, 12),
        (true, false) => 72.0 * ceil(width, 12),
    };
    of(Class::Norm, 132.0, f64::from(rows) * (stat + apply + setup))
}

fn softmax_price(softmax: &Softmax, rows: u32) -> Price {
    let (keys, padded) = (softmax.width, softmax.pitch);
    let full = keys / 16;
    let some = f64::from(u32::from(full > 0));
    let mut row = 31.0 + 2.0 * some + 41.0 * f64::from(full);
    let mut launch = 216.0;
    if keys == padded {
        row += 7.0;
    } else {
        launch = 234.0;
        let q = keys % 16 / 2;
        let z = 8 - (keys % 16).div_ceil(2);
        let y = (padded / 16).saturating_sub(full + 1);
        let positive = |n: u32| f64::from(u32::from(n > 0));
        row += 5.0 + 6.0 * some + 21.0 + if full > 0 { 4.0 } else { 2.0 };
        row += 2.0 * positive(q) + 12.0 * f64::from(q) + 12.0 * f64::from(keys % 2);
        row += positive(z) + 2.0 * f64::from(z) + positive(y) + 10.0 * f64::from(y);
    }
    let whole = (launch, 6.0 * ceil(rows, 6) * row);
    let split =
        (408.0, 6.0 * ceil(rows, 2) * (41.0 * ceil(padded, 48) + 130.0) + 126.0 * ceil(rows, 6));
    let best = if keys >= 128 && split.0 + split.1 < whole.0 + whole.1 { split } else { whole };
    of(Class::Softmax, best.0, best.1)
}

fn cast_price(cast: &Cast, count: u32) -> Price {
    match (cast.from, cast.to) {
        (DataType::F16, DataType::F8) => of(Class::Cast, 330.0, 24.0 * ceil(count, 48)),
        (DataType::F32, DataType::F16) => of(Class::Cast, 330.0, 48.0 * ceil(count, 12)),
        (from, to) => of(Class::Cast, 11.0, ceil(count * (from.bytes() + to.bytes()) as u32, 8)),
    }
}

/// The panels of §6.2: `a` rows of 32 columns, here all rows of every pair of strips.
fn cast_strips(cast: &CastStrips, rows: u32, blocks: u32) -> Price {
    let panels = blocks * cast.width.div_ceil(32);
    let rows = f64::from(rows);
    let work = if rows <= 32.0 && panels >= 6 {
        ceil(panels, 6) * (120.0 + 84.0 * rows)
    } else {
        f64::from(panels) * (120.0 + 84.0 * (rows / 6.0).ceil())
    };
    of(Class::Cast, 330.0, work)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(kernel: Kernel, scalars: &[u32]) -> f64 {
        let price = kernel_price(&kernel, scalars);
        price.overhead + price.work
    }

    fn gemm(input: DataType, interleaved: bool, rows: u32, inner: u32, columns: u32) -> f64 {
        total(
            Kernel::Gemm(Gemm { input, accumulate: false, interleaved, rows, inner, columns }),
            &[],
        )
    }

    #[test]
    fn prices_are_those_of_the_reference() {
        // The column "§6.2" of target/ipu21.md §8.1.
        let exact =
            |found: f64, wanted: f64| assert!((found - wanted).abs() < 0.5, "{found} {wanted}");
        exact(gemm(DataType::F16, true, 184, 288, 48), 48_678.0);
        exact(gemm(DataType::F16, true, 146, 576, 32), 53_862.0);
        exact(gemm(DataType::F8, true, 244, 128, 64), 18_470.0);
        exact(total(Kernel::Reduce, &[14, 576]), 3_090.0);
        exact(total(Kernel::Unary(Unary::GeluTanh), &[1408]), 7_260.0);
        exact(total(Kernel::BiasUnary(Unary::GeluTanh), &[3, 2152]), 25_206.0);
        let norm =
            Norm { rms: false, bias: true, residual: false, width: 1152, pitch: 1152, epsilon: 0 };
        exact(total(Kernel::Norm(norm), &[3]), 19_941.0);
        let residual = Kernel::Norm(Norm { residual: true, ..norm });
        exact(total(residual, &[1]), 8_376.0);
        exact(total(Kernel::Binary(Binary::Add), &[1152, 1152, 1152]), 1_368.0);
        let softmax =
            Softmax { width: 729, pitch: 768, scale: 0, causal_offset: None, matrix_rows: 1 };
        exact(total(Kernel::Softmax(softmax), &[1, 0]), 5_250.0);
    }
}
