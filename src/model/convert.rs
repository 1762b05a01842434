//! From the neutral operator-graph format of public workload collections to ours.
//!
//! That format: `tensors` by name with shape, dtype and kind (`input`, `param`, `state`,
//! `activation`), and `ops` with inputs, outputs and attributes. Caches (`state`) become inputs.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::target::DataType;

use super::format::{FORMAT, OPERATORS, RawModel, RawOperation, RawTensor};
use super::{Graph, ModelError};

#[derive(Deserialize)]
struct Neutral {
    format: String,
    name: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    tensors: BTreeMap<String, NeutralTensor>,
    ops: Vec<NeutralOp>,
}

#[derive(Deserialize)]
struct NeutralTensor {
    shape: Vec<u32>,
    dtype: String,
    kind: String,
}

#[derive(Deserialize)]
struct NeutralOp {
    op: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    #[serde(default)]
    attrs: serde_json::Map<String, serde_json::Value>,
}

/// Converts the text of a neutral graph; `path` is named in errors.
///
/// # Errors
/// If the text is not in the neutral format, or names an operator or type that ours has not.
pub fn from_neutral(text: &str, path: &Path) -> Result<Graph, ModelError> {
    let form = |source| ModelError::Form {
        path: path.to_owned(),
        place: "neutral graph".to_owned(),
        source,
    };
    let neutral: Neutral = serde_json::from_str(text).map_err(form)?;
    if neutral.format != "neutral-operator-graph" {
        let (path, found) = (path.to_owned(), neutral.format);
        return Err(ModelError::Version { path, found, expected: "neutral-operator-graph" });
    }
    let tensor = |name: &str, place: &str| -> Result<RawTensor, ModelError> {
        let found = neutral.tensors.get(name).ok_or_else(|| ModelError::Undefined {
            path: path.to_owned(),
            place: place.to_owned(),
            value: name.to_owned(),
        })?;
        let dtype = dtype(&found.dtype).ok_or_else(|| ModelError::Mismatch {
            path: path.to_owned(),
            place: format!("tensors.{name}.dtype"),
            found: format!("type {}", found.dtype),
            expected: "f32, f16 or f8".to_owned(),
        })?;
        Ok(RawTensor { name: name.to_owned(), shape: found.shape.clone(), dtype, scale: 0 })
    };
    let mut operations = vec![];
    for (index, op) in neutral.ops.iter().enumerate() {
        let place = format!("ops[{index}]");
        if !OPERATORS.contains(&op.op.as_str()) {
            let (path, known) = (path.to_owned(), OPERATORS.join(", "));
            return Err(ModelError::UnknownOperator { path, place, op: op.op.clone(), known });
        }
        let mut attributes = op.attrs.clone();
        if let Some(to) = attributes.get_mut("to") {
            *to = "f8f143".into();
        }
        let outputs =
            op.outputs.iter().map(|name| tensor(name, &place)).collect::<Result<_, _>>()?;
        operations.push(RawOperation {
            name: format!("{}.{}", op.op, op.outputs.join(".")),
            op: op.op.clone(),
            inputs: op.inputs.clone(),
            outputs,
            attributes: (!attributes.is_empty()).then_some(attributes),
        });
    }
    let of_kind = |kind: &str| -> Vec<&String> {
        neutral.tensors.iter().filter(|(_, t)| t.kind == kind).map(|(name, _)| name).collect()
    };
    let inputs = neutral
        .inputs
        .iter()
        .chain(of_kind("state").into_iter().filter(|s| !neutral.inputs.contains(s)));
    let raw = RawModel {
        format: FORMAT.to_owned(),
        name: neutral.name.clone(),
        inputs: inputs.map(|name| tensor(name, "inputs")).collect::<Result<_, _>>()?,
        parameters: of_kind("param")
            .into_iter()
            .map(|name| tensor(name, "tensors"))
            .collect::<Result<_, _>>()?,
        operations,
        outputs: neutral.outputs.clone(),
        data: None,
    };
    super::infer::check(raw, path)
}

fn dtype(name: &str) -> Option<DataType> {
    match name {
        "f32" => Some(DataType::F32),
        "f16" => Some(DataType::F16),
        "f8" => Some(DataType::F8),
        _ => None,
    }
}
