//! The file: strict types that serde reads and writes, and their JSON Schema.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::{self, Form, Object};
use crate::target::DataType;

use super::{Graph, ModelError, Tensor, TensorKind};

/// The format and version that this build reads and writes.
pub const FORMAT: &str = "ipu-tune/model@1";

/// A model file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawModel {
    /// Always `ipu-tune/model@1`.
    pub format: String,
    /// Name of the model.
    pub name: String,
    /// Tensors given with every run.
    #[serde(deserialize_with = "json::list")]
    pub inputs: Vec<RawTensor>,
    /// Tensors given once.
    #[serde(default, deserialize_with = "json::list")]
    pub parameters: Vec<RawTensor>,
    /// Operations in order: values are made before they are read.
    #[serde(deserialize_with = "json::list")]
    pub operations: Vec<RawOperation>,
    /// Names of the tensors that the program returns.
    pub outputs: Vec<String>,
    /// A safetensors file with real parameters, relative to this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// A tensor.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawTensor {
    /// Unique name.
    pub name: String,
    /// Dimensions, outermost first.
    pub shape: Vec<u32>,
    /// Element type.
    pub dtype: DataType,
    /// FP8: value = code · 2^scale, −32 to 31.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub scale: i8,
}

fn is_zero(scale: &i8) -> bool {
    *scale == 0
}

/// An operation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawOperation {
    /// Unique name.
    pub name: String,
    /// The operator.
    pub op: String,
    /// Names of the tensors it reads.
    pub inputs: Vec<String>,
    /// The tensors it makes.
    #[serde(deserialize_with = "json::list")]
    pub outputs: Vec<RawTensor>,
    /// What the operator can be told; see [`Op`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Form for RawModel {
    const FORM: &'static str =
        "an object with `format`, `name`, `inputs`, `operations` and `outputs`";
}

impl Form for RawTensor {
    const FORM: &'static str = "an object with `name`, `shape` and `dtype`";
}

impl Form for RawOperation {
    const FORM: &'static str = "an object with `name`, `op`, `inputs` and `outputs`";
}

fn epsilon() -> f64 {
    1e-6 // `target/ipu21.md` §12.2
}

fn rope_base() -> f64 {
    10_000.0
}

fn one() -> u32 {
    1
}

fn unit() -> f64 {
    1.0
}

/// An operator and its attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", content = "attributes", rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// Matrix product over the last two dimensions; the right operand is a matrix or has the same
    /// outer dimensions.
    Matmul {
        /// The left operand is stored transposed.
        #[serde(default)]
        transpose_left: bool,
        /// The right operand is stored transposed.
        #[serde(default)]
        transpose_right: bool,
    },
    /// Sum, with the right operand broadcast over leading dimensions.
    Add,
    /// Product, broadcast like the sum.
    Mul,
    /// Layer norm over the last dimension: input, gain, bias.
    #[serde(rename = "layernorm")]
    LayerNorm {
        /// Added to the variance.
        #[serde(default = "epsilon")]
        epsilon: f64,
    },
    /// RMS norm over the last dimension: input, gain.
    #[serde(rename = "rmsnorm")]
    RmsNorm {
        /// Added to the mean square.
        #[serde(default = "epsilon")]
        epsilon: f64,
    },
    /// GELU with the error function.
    Gelu,
    /// GELU with the hyperbolic tangent.
    GeluTanh,
    /// `x · sigmoid(x)`.
    Silu,
    /// `max(x, 0)`.
    Relu,
    /// `1 / (1 + exp(−x))`.
    Sigmoid,
    /// Softmax.
    Softmax {
        /// Dimension; negative counts from the last.
        axis: i32,
    },
    /// `[rows, heads · width]` to `[heads, rows, width]`.
    SplitHeads {
        /// Number of heads.
        heads: u32,
    },
    /// `[heads, rows, width]` to `[rows, heads · width]`.
    MergeHeads,
    /// Rotary position embedding over the last dimension of `[heads, rows, width]`.
    Rope {
        /// Base of the frequencies.
        #[serde(default = "rope_base")]
        base: f64,
        /// Position of the first row.
        #[serde(default)]
        position: u32,
    },
    /// Concatenation of all inputs.
    Concat {
        /// Dimension; negative counts from the last.
        axis: i32,
    },
    /// Queries by keys: `[heads, rows, width]`, `[heads / groups, keys, width]` to
    /// `[heads, rows, keys]`.
    AttentionScores {
        /// Factor.
        #[serde(default = "unit")]
        scale: f64,
        /// Row `i` sees keys up to `i + keys − rows` only.
        #[serde(default)]
        causal: bool,
        /// Query heads that share a key head.
        #[serde(default = "one")]
        groups: u32,
    },
    /// Probabilities by values: `[heads, rows, keys]`, `[heads / groups, keys, width]`.
    AttentionValues {
        /// Query heads that share a value head.
        #[serde(default = "one")]
        groups: u32,
    },
    /// Scores, softmax and values in one.
    Attention {
        /// Factor on the scores.
        #[serde(default = "unit")]
        scale: f64,
        /// As for the scores.
        #[serde(default)]
        causal: bool,
        /// As for the scores.
        #[serde(default = "one")]
        groups: u32,
        /// The result is `[rows, heads · width]`.
        #[serde(default)]
        merge: bool,
    },
    /// Element type conversion to the output's type.
    Cast {
        /// The type.
        to: DataType,
    },
    /// Patches of a square image `[height · width, channels]` as rows, columns ordered by kernel
    /// row, kernel column, channel.
    Im2col {
        /// Side of the patch.
        kernel: u32,
        /// Distance of patches.
        #[serde(default = "one")]
        stride: u32,
        /// Zeros around the image.
        #[serde(default)]
        pad: u32,
    },
    /// Maximum over patches of a square image `[height · width, channels]`, padded by half a kernel.
    MaxPool {
        /// Side of the patch.
        kernel: u32,
        /// Distance of patches.
        stride: u32,
    },
}

/// All operator names.
pub const OPERATORS: &[&str] = &[
    "matmul",
    "add",
    "mul",
    "layernorm",
    "rmsnorm",
    "gelu",
    "gelu_tanh",
    "silu",
    "relu",
    "sigmoid",
    "softmax",
    "split_heads",
    "merge_heads",
    "rope",
    "concat",
    "attention_scores",
    "attention_values",
    "attention",
    "cast",
    "im2col",
    "max_pool",
];

impl Op {
    /// Its name in a file.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Matmul { .. } => "matmul",
            Op::Add => "add",
            Op::Mul => "mul",
            Op::LayerNorm { .. } => "layernorm",
            Op::RmsNorm { .. } => "rmsnorm",
            Op::Gelu => "gelu",
            Op::GeluTanh => "gelu_tanh",
            Op::Silu => "silu",
            Op::Relu => "relu",
            Op::Sigmoid => "sigmoid",
            Op::Softmax { .. } => "softmax",
            Op::SplitHeads { .. } => "split_heads",
            Op::MergeHeads => "merge_heads",
            Op::Rope { .. } => "rope",
            Op::Concat { .. } => "concat",
            Op::AttentionScores { .. } => "attention_scores",
            Op::AttentionValues { .. } => "attention_values",
            Op::Attention { .. } => "attention",
            Op::Cast { .. } => "cast",
            Op::Im2col { .. } => "im2col",
            Op::MaxPool { .. } => "max_pool",
        }
    }

    /// The operator of this name with these attributes.
    ///
    /// # Errors
    /// If the attributes are not the operator's.
    pub fn from_parts(
        name: &str,
        attributes: Option<&serde_json::Map<String, serde_json::Value>>,
    ) -> Result<Op, serde_json::Error> {
        let mut tagged = serde_json::Map::new();
        tagged.insert("op".to_owned(), name.into());
        let empty = serde_json::Map::new();
        let given = attributes.unwrap_or(&empty);
        if !given.is_empty() || !UNIT.contains(&name) {
            tagged.insert("attributes".to_owned(), given.clone().into());
        }
        serde_json::from_value(tagged.into())
    }

    fn attributes(&self) -> Option<serde_json::Map<String, serde_json::Value>> {
        let value = serde_json::to_value(self).expect("an operator is plain data");
        value.get("attributes").and_then(|attributes| attributes.as_object().cloned())
    }
}

/// Operators without attributes.
const UNIT: &[&str] =
    &["add", "mul", "gelu", "gelu_tanh", "silu", "relu", "sigmoid", "merge_heads"];

/// Reads the text into the file's types, which says nothing yet about what they mean.
pub(super) fn parse(text: &str, path: &Path) -> Result<RawModel, ModelError> {
    let path = path.to_owned();
    if text.trim().is_empty() {
        return Err(ModelError::Empty { path });
    }
    // The version first: a later format may have other fields.
    #[derive(Deserialize)]
    struct Head {
        format: Option<String>,
    }
    if let Ok(Head { format: Some(found) }) = serde_json::from_str(text)
        && found != FORMAT
    {
        return Err(ModelError::Version { path, found, expected: FORMAT });
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let Object(model): Object<RawModel> =
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let place = error.path().to_string();
            ModelError::Form { path: path.clone(), place, source: error.into_inner() }
        })?;
    reader.end().map_err(|source| ModelError::Form { path, place: "end".to_owned(), source })?;
    Ok(model)
}

impl RawModel {
    /// A graph in the file's types, all defaults written out.
    pub fn from_graph(graph: &Graph) -> RawModel {
        let raw = |tensor: &Tensor| RawTensor {
            name: tensor.name.clone(),
            shape: tensor.shape.clone(),
            dtype: tensor.dtype,
            scale: tensor.scale,
        };
        let of_kind =
            |kind| graph.tensors.iter().filter(move |t| t.kind == kind).map(raw).collect();
        let name = |id: &super::TensorId| graph.tensor(*id).name.clone();
        let operations = graph.operations.iter().map(|operation| RawOperation {
            name: operation.name.clone(),
            op: operation.op.name().to_owned(),
            inputs: operation.inputs.iter().map(name).collect(),
            outputs: operation.outputs.iter().map(|id| raw(graph.tensor(*id))).collect(),
            attributes: operation.op.attributes(),
        });
        RawModel {
            format: FORMAT.to_owned(),
            name: graph.name.clone(),
            inputs: of_kind(TensorKind::Input),
            parameters: of_kind(TensorKind::Parameter),
            operations: operations.collect(),
            outputs: graph.outputs.iter().map(name).collect(),
            data: graph.data.as_ref().map(|path| path.display().to_string()),
        }
    }
}

/// The JSON Schema of a model file, with the attributes of every operator under `$defs/Op`.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(RawModel).to_value();
    let operators = schemars::schema_for!(Op).to_value();
    if let Some(definitions) = schema.get_mut("$defs").and_then(|defs| defs.as_object_mut()) {
        definitions.insert("Op".to_owned(), operators);
    }
    schema
}
