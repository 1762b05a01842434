//! Symbols: a kernel's name with everything it is specialised by, and back.

use crate::target::DataType;

use super::{Binary, Cast, CastStrips, Gemm, Kernel, Norm, Softmax, Unary};

impl Kernel {
    /// Name under which the kernel is linked; unique for every specialisation.
    pub fn symbol(&self) -> String {
        match self {
            Kernel::ZeroFill => "zero-fill".to_owned(),
            Kernel::Copy => "copy".to_owned(),
            Kernel::StridedCopy => "strided-copy".to_owned(),
            Kernel::Reduce => "reduce".to_owned(),
            Kernel::PackRight => "pack-right".to_owned(),
            Kernel::Gemm(gemm) => format!(
                "gemm.{}.{}.{}.{}.{}.{}",
                gemm.input.name(),
                if gemm.accumulate { "accumulate" } else { "initialise" },
                if gemm.interleaved { "interleaved" } else { "standard" },
                gemm.rows,
                gemm.inner,
                gemm.columns
            ),
            Kernel::Binary(function) => binary_name(*function).to_owned(),
            Kernel::Unary(function) => unary_name(*function).to_owned(),
            Kernel::BiasUnary(function) => format!("bias.{}", unary_name(*function)),
            Kernel::Norm(norm) => format!(
                "norm.{}.{}.{}.{}.{}.{}",
                if norm.rms { "rms" } else { "layer" },
                if norm.bias { "bias" } else { "plain" },
                if norm.residual { "residual" } else { "alone" },
                norm.width,
                norm.pitch,
                norm.epsilon
            ),
            Kernel::Softmax(softmax) => format!(
                "softmax.{}.{}.{}.{}.{}",
                softmax.width,
                softmax.pitch,
                softmax.scale,
                softmax.causal_offset.map_or("all".to_owned(), |offset| offset.to_string()),
                softmax.matrix_rows
            ),
            Kernel::Cast(cast) => {
                format!("cast.{}.{}.{}", cast.from.name(), cast.to.name(), cast.scale)
            }
            Kernel::CastStrips(cast) => format!(
                "cast-strips.{}.{}.{}.{}",
                cast.from.name(),
                cast.to.name(),
                cast.scale,
                cast.width
            ),
        }
    }

    /// The kernel of a symbol; `None` if no kernel has it.
    pub fn from_symbol(symbol: &str) -> Option<Kernel> {
        let parts: Vec<&str> = symbol.split('.').collect();
        let kernel = parse(&parts)?;
        // One spelling for each kernel: `00016` names none.
        (kernel.symbol() == symbol).then_some(kernel)
    }

    /// Bytes of code: estimates (`target/ipu21.md` §13, last paragraph), no published sizes.
    pub fn code_bytes(&self) -> u32 {
        match self {
            Kernel::ZeroFill | Kernel::Copy => 256,
            Kernel::StridedCopy => 384,
            Kernel::Gemm(_) => 1536,
            Kernel::Reduce => 512,
            Kernel::Binary(_) => 512,
            Kernel::Unary(_) => 512,
            Kernel::BiasUnary(_) => 640,
            Kernel::Norm(_) => 1280,
            Kernel::Softmax(_) => 1536,
            Kernel::Cast(_) => 384,
            Kernel::CastStrips(_) => 640,
            Kernel::PackRight => 768,
        }
    }
}

fn parse(parts: &[&str]) -> Option<Kernel> {
    // No dimension of anything on a tile reaches 2²⁰; bit patterns of constants may.
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number < 1 << 20);
    let bits = |text: &str| text.parse::<u32>().ok();
    Some(match parts {
        ["zero-fill"] => Kernel::ZeroFill,
        ["copy"] => Kernel::Copy,
        ["strided-copy"] => Kernel::StridedCopy,
        ["reduce"] => Kernel::Reduce,
        ["pack-right"] => Kernel::PackRight,
        ["gemm", input, accumulate, class, rows, inner, columns] => Kernel::Gemm(Gemm {
            input: dtype(input).filter(|input| *input != DataType::F32)?,
            accumulate: one_of(accumulate, ["initialise", "accumulate"])?,
            interleaved: one_of(class, ["standard", "interleaved"])?,
            rows: number(rows)?,
            inner: number(inner)?,
            columns: number(columns)?,
        }),
        ["bias", function] => Kernel::BiasUnary(unary(function)?),
        ["norm", rms, bias, residual, width, pitch, epsilon] => Kernel::Norm(Norm {
            rms: one_of(rms, ["layer", "rms"])?,
            bias: one_of(bias, ["plain", "bias"])?,
            residual: one_of(residual, ["alone", "residual"])?,
            width: number(width)?,
            pitch: number(pitch)?,
            epsilon: bits(epsilon)?,
        }),
        ["softmax", width, pitch, scale, offset, rows] => Kernel::Softmax(Softmax {
            width: number(width)?,
            pitch: number(pitch)?,
            scale: bits(scale)?,
            causal_offset: if *offset == "all" { None } else { Some(number(offset)?) },
            matrix_rows: number(rows)?,
        }),
        ["cast", from, to, scale] => {
            Kernel::Cast(Cast { from: dtype(from)?, to: dtype(to)?, scale: scale.parse().ok()? })
        }
        ["cast-strips", from, to, scale, width] => Kernel::CastStrips(CastStrips {
            from: dtype(from)?,
            to: dtype(to)?,
            scale: scale.parse().ok()?,
            width: number(width)?,
        }),
        [name] => match unary(name) {
            Some(function) => Kernel::Unary(function),
            None => Kernel::Binary(
                [Binary::Add, Binary::Mul].into_iter().find(|f| binary_name(*f) == *name)?,
            ),
        },
        _ => return None,
    })
}

fn one_of(text: &str, [no, yes]: [&str; 2]) -> Option<bool> {
    (text == no || text == yes).then_some(text == yes)
}

fn dtype(name: &str) -> Option<DataType> {
    [DataType::F32, DataType::F16, DataType::F8].into_iter().find(|dtype| dtype.name() == name)
}

const UNARY: [Unary; 5] = [Unary::Gelu, Unary::GeluTanh, Unary::Silu, Unary::Relu, Unary::Sigmoid];

fn unary(name: &str) -> Option<Unary> {
    UNARY.into_iter().find(|function| unary_name(*function) == name)
}

fn unary_name(function: Unary) -> &'static str {
    match function {
        Unary::Gelu => "gelu-erf",
        Unary::GeluTanh => "gelu-tanh",
        Unary::Silu => "silu",
        Unary::Relu => "relu",
        Unary::Sigmoid => "sigmoid",
    }
}

fn binary_name(function: Binary) -> &'static str {
    match function {
        Binary::Add => "add",
        Binary::Mul => "mul",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_name_kernels_and_nothing_else() {
        let norm =
            Norm { rms: true, bias: false, residual: false, width: 5, pitch: 16, epsilon: 9 };
        let softmax =
            Softmax { width: 9, pitch: 16, scale: 1, causal_offset: Some(3), matrix_rows: 4 };
        let gemm = Gemm {
            input: DataType::F8,
            accumulate: true,
            interleaved: false,
            rows: 3,
            inner: 64,
            columns: 32,
        };
        let (from, to) = (DataType::F16, DataType::F8);
        let mut kernels = vec![
            Kernel::ZeroFill,
            Kernel::Copy,
            Kernel::StridedCopy,
            Kernel::Reduce,
            Kernel::PackRight,
            Kernel::Gemm(gemm),
            Kernel::Gemm(Gemm { interleaved: true, ..gemm }),
            Kernel::Binary(Binary::Add),
            Kernel::Binary(Binary::Mul),
            Kernel::Norm(norm),
            Kernel::Norm(Norm { bias: true, ..norm }),
            Kernel::Softmax(softmax),
            Kernel::Softmax(Softmax { causal_offset: None, ..softmax }),
            Kernel::Cast(Cast { from, to, scale: -3 }),
            Kernel::CastStrips(CastStrips { from, to, scale: 2, width: 72 }),
        ];
        kernels.extend(UNARY.map(Kernel::Unary));
        kernels.extend(UNARY.map(Kernel::BiasUnary));
        for kernel in &kernels {
            assert_eq!(Kernel::from_symbol(&kernel.symbol()), Some(*kernel));
        }
        let mut symbols: Vec<_> = kernels.iter().map(Kernel::symbol).collect();
        symbols.sort();
        symbols.dedup();
        assert_eq!(symbols.len(), kernels.len());
        for stranger in
            ["", "gemm", "copy.", "gemm.f32.initialise.standard.1.8.16", "softmax.01.16.1.all.4"]
        {
            assert_eq!(Kernel::from_symbol(stranger), None, "{stranger}");
        }
    }
}
