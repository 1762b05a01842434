//! Checking a file's content: names, order, shapes and types; nothing is guessed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::target::DataType;

use super::format::{OPERATORS, RawModel, RawOperation, RawTensor};
use super::{Graph, ModelError, Op, Operation, Tensor, TensorId, TensorKind};

/// Most elements of one tensor: far above any chip, far below an overflow of byte counts.
const MOST_ELEMENTS: u64 = 1 << 40;

/// The graph of a file's content.
pub(super) fn check(raw: RawModel, path: &Path) -> Result<Graph, ModelError> {
    let mut checker = Checker {
        path: path.to_owned(),
        tensors: vec![],
        names: BTreeMap::new(),
        operation_names: BTreeSet::new(),
    };
    let mut declare =
        |list: &[RawTensor], field: &str, kind| -> Result<Vec<TensorId>, ModelError> {
            list.iter()
                .enumerate()
                .map(|(index, tensor)| checker.declare(tensor, kind, &format!("{field}[{index}]")))
                .collect()
        };
    let inputs = declare(&raw.inputs, "inputs", TensorKind::Input)?;
    let parameters = declare(&raw.parameters, "parameters", TensorKind::Parameter)?;
    let mut operations = vec![];
    for (index, operation) in raw.operations.iter().enumerate() {
        operations.push(checker.operation(operation, &format!("operations[{index}]"))?);
    }
    let mut outputs = vec![];
    for (index, name) in raw.outputs.iter().enumerate() {
        outputs.push(checker.find(name, &format!("outputs[{index}]"))?);
    }
    if raw.operations.is_empty() || outputs.is_empty() {
        let field = if outputs.is_empty() { "outputs" } else { "operations" };
        return Err(checker.mismatch(field, "an empty list", "at least one"));
    }
    let (name, data) = (raw.name, raw.data.map(PathBuf::from));
    Ok(Graph { name, tensors: checker.tensors, operations, inputs, parameters, outputs, data })
}

/// Multiply-adds of an operation's matrix products.
pub(super) fn multiply_adds(graph: &Graph, operation: &Operation) -> u64 {
    let elements = |id: TensorId| graph.tensor(id).elements() as u64;
    let last = |id: TensorId| u64::from(*graph.tensor(id).shape.last().unwrap_or(&1));
    let (output, inputs) = (operation.outputs[0], &operation.inputs);
    match operation.op {
        Op::Matmul { transpose_left: true, .. } => {
            let shape = &graph.tensor(inputs[0]).shape;
            elements(output) * u64::from(shape[shape.len() - 2])
        }
        Op::Matmul { .. } | Op::AttentionScores { .. } | Op::AttentionValues { .. } => {
            elements(output) * last(inputs[0])
        }
        Op::Attention { .. } => {
            let keys = u64::from(graph.tensor(inputs[1]).shape[1]);
            elements(inputs[0]) * keys * 2
        }
        _ => 0,
    }
}

struct Checker {
    path: PathBuf,
    tensors: Vec<Tensor>,
    names: BTreeMap<String, TensorId>,
    operation_names: BTreeSet<String>,
}

impl Checker {
    fn mismatch(
        &self,
        place: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> ModelError {
        ModelError::Mismatch {
            path: self.path.clone(),
            place: place.to_owned(),
            found: found.into(),
            expected: expected.into(),
        }
    }

    fn declare(
        &mut self,
        raw: &RawTensor,
        kind: TensorKind,
        place: &str,
    ) -> Result<TensorId, ModelError> {
        let (path, place) = (self.path.clone(), place.to_owned());
        let mut elements: u64 = 1;
        for size in &raw.shape {
            if *size == 0 || *size > i32::MAX as u32 {
                let what = format!("tensor `{}` has a dimension of {size}", raw.name);
                return Err(ModelError::Size { path, place, what });
            }
            elements = elements.saturating_mul(u64::from(*size));
        }
        if elements > MOST_ELEMENTS {
            let what = format!("tensor `{}` has {elements} elements or more", raw.name);
            return Err(ModelError::Size { path, place, what });
        }
        if !(-32..=31).contains(&raw.scale) || (raw.scale != 0 && raw.dtype != DataType::F8) {
            let found = format!("scale {} of a tensor of type {}", raw.scale, raw.dtype.name());
            return Err(self.mismatch(&place, found, "−32 to 31, and 0 unless the type is f8f143"));
        }
        if raw.name.is_empty() {
            return Err(self.mismatch(&place, "an empty name", "a name"));
        }
        let id = TensorId(self.tensors.len() as u32);
        if self.names.insert(raw.name.clone(), id).is_some() {
            return Err(ModelError::Duplicate { path, place, name: raw.name.clone() });
        }
        self.tensors.push(Tensor {
            name: raw.name.clone(),
            shape: raw.shape.clone(),
            dtype: raw.dtype,
            scale: raw.scale,
            kind,
        });
        Ok(id)
    }

    fn find(&self, name: &str, place: &str) -> Result<TensorId, ModelError> {
        self.names.get(name).copied().ok_or_else(|| ModelError::Undefined {
            path: self.path.clone(),
            place: place.to_owned(),
            value: name.to_owned(),
        })
    }

    fn operation(&mut self, raw: &RawOperation, place: &str) -> Result<Operation, ModelError> {
        let (path, name) = (self.path.clone(), raw.name.clone());
        if !OPERATORS.contains(&raw.op.as_str()) {
            let (op, known) = (raw.op.clone(), OPERATORS.join(", "));
            return Err(ModelError::UnknownOperator {
                path,
                place: format!("{place}.op"),
                op,
                known,
            });
        }
        let op = Op::from_parts(&raw.op, raw.attributes.as_ref()).map_err(|source| {
            ModelError::Form { path: path.clone(), place: format!("{place}.attributes"), source }
        })?;
        if !self.operation_names.insert(name.clone()) {
            return Err(ModelError::Duplicate { path, place: format!("{place}.name"), name });
        }
        let mut inputs = vec![];
        for (index, input) in raw.inputs.iter().enumerate() {
            inputs.push(self.find(input, &format!("{place}.inputs[{index}]"))?);
        }
        let (shape, dtype) = self.infer(&op, &inputs, place)?;
        let [output] = raw.outputs.as_slice() else {
            let found = format!("{} outputs", raw.outputs.len());
            return Err(self.mismatch(&format!("{place}.outputs"), found, "one"));
        };
        let at = format!("{place}.outputs[0]");
        let dtype = dtype.unwrap_or(output.dtype);
        if output.shape != shape || output.dtype != dtype {
            let found = format!("{} {:?}", output.dtype.name(), output.shape);
            return Err(self.mismatch(&at, found, format!("{} {shape:?}", dtype.name())));
        }
        let outputs = vec![self.declare(output, TensorKind::Activation, &at)?];
        Ok(Operation { name, op, inputs, outputs })
    }

    /// Shape of the result, and its type where that is not the output's own choice.
    fn infer(
        &self,
        op: &Op,
        inputs: &[TensorId],
        place: &str,
    ) -> Result<(Vec<u32>, Option<DataType>), ModelError> {
        let tensors: Vec<&Tensor> = inputs.iter().map(|id| &self.tensors[id.0 as usize]).collect();
        let shapes: Vec<&[u32]> = tensors.iter().map(|tensor| tensor.shape.as_slice()).collect();
        let wanted = match op {
            Op::Matmul { .. }
            | Op::Add
            | Op::Mul
            | Op::AttentionScores { .. }
            | Op::AttentionValues { .. } => 2..=2,
            Op::RmsNorm { .. } => 2..=2,
            Op::LayerNorm { .. } => 2..=3,
            Op::Attention { .. } => 3..=3,
            Op::Concat { .. } => 1..=usize::MAX,
            _ => 1..=1,
        };
        let at = format!("{place}.inputs");
        if !wanted.contains(&shapes.len()) {
            let expected = if *wanted.end() == usize::MAX {
                "at least 1".to_owned()
            } else {
                format!("{} to {}", wanted.start(), wanted.end())
            };
            return Err(self.mismatch(&at, format!("{} operands", shapes.len()), expected));
        }
        let shape = infer_shape(op, &shapes).map_err(|expected| {
            let found =
                shapes.iter().map(|shape| format!("{shape:?}")).collect::<Vec<_>>().join(", ");
            self.mismatch(&at, format!("operands {found}"), expected)
        })?;
        let same_types = tensors.windows(2).all(|pair| pair[0].dtype == pair[1].dtype);
        if !same_types {
            let found = tensors.iter().map(|t| t.dtype.name()).collect::<Vec<_>>().join(", ");
            return Err(self.mismatch(&at, format!("operand types {found}"), "one type for all"));
        }
        let dtype = match op {
            Op::Cast { to } => Some(*to),
            // FP8 products accumulate and return F16 (`target/ipu21.md` §12.1).
            Op::Matmul { .. } if tensors[0].dtype == DataType::F8 => Some(DataType::F16),
            _ => Some(tensors[0].dtype),
        };
        self.attributes(op, place)?;
        Ok((shape, dtype))
    }

    fn attributes(&self, op: &Op, place: &str) -> Result<(), ModelError> {
        let bad = |found: String, expected: &str| {
            Err(self.mismatch(&format!("{place}.attributes"), found, expected))
        };
        match op {
            Op::LayerNorm { epsilon } | Op::RmsNorm { epsilon }
                if !(epsilon.is_finite() && *epsilon >= 0.0) =>
            {
                bad(format!("epsilon {epsilon}"), "a finite number, 0 or more")
            }
            Op::AttentionScores { scale, .. } | Op::Attention { scale, .. }
                if !(*scale as f32).is_finite() =>
            {
                bad(format!("scale {scale}"), "a finite f32")
            }
            Op::Rope { base, .. } if !(base.is_finite() && *base > 0.0) => {
                bad(format!("base {base}"), "a finite number above 0")
            }
            _ => Ok(()),
        }
    }
}

/// Shape of the result, or what was expected of the operands.
fn infer_shape(op: &Op, shapes: &[&[u32]]) -> Result<Vec<u32>, String> {
    let first = shapes[0];
    match op {
        Op::Matmul { transpose_left, transpose_right } => {
            matmul(first, shapes[1], *transpose_left, *transpose_right)
        }
        Op::Add | Op::Mul => broadcast(first, shapes[1]),
        Op::LayerNorm { .. } | Op::RmsNorm { .. } => {
            let last = first.last().copied().ok_or("at least one dimension")?;
            if shapes[1..].iter().all(|shape| *shape == [last]) {
                Ok(first.to_vec())
            } else {
                Err(format!("gain and bias of shape [{last}]"))
            }
        }
        Op::Gelu | Op::GeluTanh | Op::Silu | Op::Relu | Op::Sigmoid | Op::Cast { .. } => {
            Ok(first.to_vec())
        }
        Op::Softmax { axis } => axis_index(*axis, first.len()).map(|_| first.to_vec()),
        Op::SplitHeads { heads } => match first {
            [rows, columns] if *heads > 0 && columns.is_multiple_of(*heads) => {
                Ok(vec![*heads, *rows, columns / heads])
            }
            _ => Err(format!("a matrix whose columns are a multiple of {heads}")),
        },
        Op::MergeHeads => match first {
            [heads, rows, width] => Ok(vec![*rows, product(*heads, *width)?]),
            _ => Err("three dimensions".to_owned()),
        },
        Op::Rope { .. } => match first {
            [_, _, width] if width.is_multiple_of(2) => Ok(first.to_vec()),
            _ => Err("three dimensions, the last one even".to_owned()),
        },
        Op::Concat { axis } => concat(shapes, *axis),
        Op::AttentionScores { groups, .. } => match (first, shapes[1]) {
            ([heads, rows, width], [key_heads, keys, key_width])
                if width == key_width && key_heads.checked_mul(*groups) == Some(*heads) =>
            {
                Ok(vec![*heads, *rows, *keys])
            }
            _ => Err("[heads, rows, width] and [heads / groups, keys, width]".to_owned()),
        },
        Op::AttentionValues { groups } => match (first, shapes[1]) {
            ([heads, rows, keys], [value_heads, value_keys, width])
                if keys == value_keys && value_heads.checked_mul(*groups) == Some(*heads) =>
            {
                Ok(vec![*heads, *rows, *width])
            }
            _ => Err("[heads, rows, keys] and [heads / groups, keys, width]".to_owned()),
        },
        Op::Attention { groups, merge, .. } => match (first, shapes[1], shapes[2]) {
            ([heads, rows, width], [kh, keys, kw], [vh, vkeys, vw])
                if width == kw
                    && keys == vkeys
                    && kh == vh
                    && kh.checked_mul(*groups) == Some(*heads) =>
            {
                if *merge {
                    Ok(vec![*rows, product(*heads, *vw)?])
                } else {
                    Ok(vec![*heads, *rows, *vw])
                }
            }
            _ => Err("[heads, rows, width] and twice [heads / groups, keys, width]".to_owned()),
        },
        Op::Im2col { kernel, stride, pad } => {
            let (side, channels) = image(first)?;
            let out = windows(side, *kernel, *stride, *pad)?;
            let columns = product(product(*kernel, *kernel)?, channels)?;
            Ok(vec![product(out, out)?, columns])
        }
        Op::MaxPool { kernel, stride } => {
            let (side, channels) = image(first)?;
            let out = windows(side, *kernel, *stride, kernel / 2)?;
            Ok(vec![product(out, out)?, channels])
        }
    }
}

fn product(a: u32, b: u32) -> Result<u32, String> {
    a.checked_mul(b).ok_or_else(|| "dimensions whose product fits 32 bits".to_owned())
}

/// Side and channels of a square image stored as `[side², channels]`.
pub(super) fn image(shape: &[u32]) -> Result<(u32, u32), String> {
    let expected = || "a square image [side · side, channels]".to_owned();
    let &[pixels, channels] = shape else { return Err(expected()) };
    let side = f64::from(pixels).sqrt().round() as u32;
    if side.checked_mul(side) == Some(pixels) { Ok((side, channels)) } else { Err(expected()) }
}

/// Number of windows along one side.
pub(super) fn windows(side: u32, kernel: u32, stride: u32, pad: u32) -> Result<u32, String> {
    let padded = u64::from(side) + 2 * u64::from(pad);
    if stride == 0 || kernel == 0 || u64::from(kernel) > padded {
        return Err(format!("a kernel of 1 to {padded} and a stride of 1 or more"));
    }
    Ok(((padded - u64::from(kernel)) / u64::from(stride) + 1) as u32)
}

fn matmul(left: &[u32], right: &[u32], tl: bool, tr: bool) -> Result<Vec<u32>, String> {
    let expected = || "matrices whose inner dimensions agree".to_owned();
    if left.len() < 2 || right.len() < 2 {
        return Err(expected());
    }
    let (louter, l) = left.split_at(left.len() - 2);
    let (router, r) = right.split_at(right.len() - 2);
    let (m, k) = if tl { (l[1], l[0]) } else { (l[0], l[1]) };
    let (k2, n) = if tr { (r[1], r[0]) } else { (r[0], r[1]) };
    if k != k2 || !(router.is_empty() || router == louter) {
        return Err(expected());
    }
    Ok(louter.iter().copied().chain([m, n]).collect())
}

/// The right operand may have fewer dimensions or ones.
fn broadcast(left: &[u32], right: &[u32]) -> Result<Vec<u32>, String> {
    let fits = right.len() <= left.len()
        && left.iter().rev().zip(right.iter().rev()).all(|(l, r)| l == r || *r == 1);
    if fits {
        Ok(left.to_vec())
    } else {
        Err(format!("a right operand that broadcasts to {left:?}"))
    }
}

pub(super) fn axis_index(axis: i32, rank: usize) -> Result<usize, String> {
    let index = if axis < 0 { i64::from(axis) + rank as i64 } else { i64::from(axis) };
    if (0..rank as i64).contains(&index) {
        Ok(index as usize)
    } else {
        Err(format!("an axis inside {rank} dimensions, found {axis}"))
    }
}

fn concat(shapes: &[&[u32]], axis: i32) -> Result<Vec<u32>, String> {
    let axis = axis_index(axis, shapes[0].len())?;
    let mut result = shapes[0].to_vec();
    for shape in &shapes[1..] {
        let agrees = shape.len() == result.len()
            && (0..result.len()).all(|d| d == axis || shape[d] == result[d]);
        if !agrees {
            return Err("operands that differ along the axis only".to_owned());
        }
        result[axis] = result[axis].checked_add(shape[axis]).ok_or("a sum that fits 32 bits")?;
    }
    Ok(result)
}
