//! Inputs and parameters: seeded Gaussian numbers, or real ones from a safetensors file.
//!
//! Every tensor draws from a stream of its own, so that adding one does not change the others.
//! Numbers are rounded to the tensor's type when they are made: a program and the reference start
//! from the same values.

use std::path::Path;

use half::f16;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::target::{DataType, f8};

use super::{Graph, ModelError, Op, Tensor, TensorId, TensorKind};

/// Numbers of tensors, row-major, by tensor; empty for tensors that are not known.
#[derive(Clone, Debug, PartialEq)]
pub struct Values(Vec<Vec<f32>>);

impl Values {
    /// Nothing is known yet.
    pub fn empty(graph: &Graph) -> Values {
        Values(vec![vec![]; graph.tensors().len()])
    }

    /// The numbers of a tensor.
    pub fn get(&self, id: TensorId) -> &[f32] {
        &self.0[id.0 as usize]
    }

    /// Sets the numbers of a tensor.
    pub fn set(&mut self, id: TensorId, numbers: Vec<f32>) {
        self.0[id.0 as usize] = numbers;
    }
}

/// What a number is after a trip through a type.
pub fn round(value: f32, dtype: DataType, scale: i8) -> f32 {
    match dtype {
        DataType::F32 => value,
        DataType::F16 => f16::from_f32(value).to_f32(),
        DataType::F8 => {
            let factor = f32::from(scale).exp2();
            f8::to_f32(f8::from_f32(value / factor)) * factor
        }
    }
}

/// The parameters that the graph's data file has, or nothing where it names none. `folder` is where
/// the model file lies.
///
/// # Errors
/// If the graph names a data file that cannot be used.
pub fn real(graph: &Graph, folder: &Path) -> Result<Values, ModelError> {
    let mut values = Values::empty(graph);
    if let Some(file) = graph.data() {
        read_real(graph, &folder.join(file), &mut values)?;
    }
    Ok(values)
}

/// Inputs and parameters of a graph: the real ones, and seeded numbers for the others.
pub fn generate(graph: &Graph, seed: u64, real: Values) -> Values {
    let mut values = real;
    for &id in graph.inputs().iter().chain(graph.parameters()) {
        let tensor = graph.tensor(id);
        if !values.get(id).is_empty() {
            continue;
        }
        let (mean, deviation) = spread(graph, id);
        let numbers = gaussian(seed, id, tensor.elements(), mean, deviation);
        let rounded = numbers.map(|number| round(number, tensor.dtype, tensor.scale));
        values.set(id, rounded.collect());
    }
    values
}

/// Mean and deviation that keep activations near one: weights by their inner dimension, gains
/// around one, biases small.
fn spread(graph: &Graph, id: TensorId) -> (f32, f32) {
    if graph.tensor(id).kind == TensorKind::Input {
        return (0.0, 1.0);
    }
    for operation in graph.operations() {
        let Some(position) = operation.inputs.iter().position(|input| *input == id) else {
            continue;
        };
        return match operation.op {
            Op::Matmul { transpose_right, .. } => {
                let shape = &graph.tensor(id).shape;
                let inner = shape[shape.len() - if transpose_right { 1 } else { 2 }];
                (0.0, 1.0 / (inner as f32).sqrt())
            }
            Op::LayerNorm { .. } | Op::RmsNorm { .. } if position == 1 => (1.0, 0.1),
            Op::Mul => (1.0, 0.1),
            _ => (0.0, 0.1),
        };
    }
    (0.0, 1.0)
}

/// Normal numbers by Box and Muller, two a draw.
fn gaussian(
    seed: u64,
    id: TensorId,
    count: usize,
    mean: f32,
    deviation: f32,
) -> impl Iterator<Item = f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(u64::from(id.0));
    let mut spare = None;
    (0..count).map(move |_| {
        let normal = spare.take().unwrap_or_else(|| {
            let radius = (-2.0 * (1.0 - rng.random::<f32>()).max(f32::MIN_POSITIVE).ln()).sqrt();
            let angle = std::f32::consts::TAU * rng.random::<f32>();
            spare = Some(radius * angle.sin());
            radius * angle.cos()
        });
        mean + deviation * normal
    })
}

fn read_real(graph: &Graph, path: &Path, values: &mut Values) -> Result<(), ModelError> {
    let bad = |what: String| ModelError::Data { path: path.to_owned(), what };
    let bytes = std::fs::read(path).map_err(|error| bad(format!("cannot be read: {error}")))?;
    let file = safetensors::SafeTensors::deserialize(&bytes)
        .map_err(|error| bad(format!("is not a safetensors file: {error}")))?;
    for &id in graph.parameters() {
        let tensor = graph.tensor(id);
        let view = file
            .tensor(&tensor.name)
            .map_err(|_| bad(format!("has no tensor `{}`", tensor.name)))?;
        let shape: Vec<usize> = tensor.shape.iter().map(|size| *size as usize).collect();
        if view.shape() != shape {
            let found = view.shape();
            return Err(bad(format!("`{}` has shape {found:?}, expected {shape:?}", tensor.name)));
        }
        let numbers = numbers(view.dtype(), view.data())
            .ok_or_else(|| bad(format!("`{}` is neither F32 nor F16 nor BF16", tensor.name)))?;
        if let Some(odd) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(bad(format!("`{}` is not finite at element {odd}", tensor.name)));
        }
        let rounded = numbers.into_iter().map(|number| rounded(number, tensor));
        values.set(id, rounded.collect());
    }
    Ok(())
}

fn rounded(number: f32, tensor: &Tensor) -> f32 {
    round(number, tensor.dtype, tensor.scale)
}

fn numbers(dtype: safetensors::Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    let halves = || bytes.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
    match dtype {
        safetensors::Dtype::F32 => {
            let words = bytes.chunks_exact(4).map(|w| f32::from_le_bytes([w[0], w[1], w[2], w[3]]));
            Some(words.collect())
        }
        safetensors::Dtype::F16 => {
            Some(halves().map(|pair| f16::from_le_bytes(pair).to_f32()).collect())
        }
        safetensors::Dtype::BF16 => {
            Some(halves().map(|pair| half::bf16::from_le_bytes(pair).to_f32()).collect())
        }
        _ => None,
    }
}
