//! The models that come with the program, and builders of those that are not converted workloads.

use std::path::Path;

use crate::target::DataType;

use super::format::{FORMAT, RawModel, RawOperation, RawTensor};
use super::{Graph, ModelError};

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// Name and text of every shipped model.
        pub const MODELS: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../search-spaces/models/", $name, ".json")))),*
        ];
    };
}

shipped!(
    "bert-base-128",
    "bert-base-384",
    "bert-large-128",
    "bert-large-384",
    "dlrm-bottom-2048",
    "dlrm-top-2048",
    "gpt2-medium-decode",
    "gpt2-medium-prefill1024",
    "gpt2-medium-prefill128",
    "gpt2-small-decode",
    "gpt2-small-prefill1024",
    "gpt2-small-prefill128",
    "llama32-1b-decode",
    "llama32-1b-prefill128",
    "mlp2-256",
    "mlp2-tiny",
    "resnet50-conv2-first",
    "resnet50-conv3-first",
    "resnet50-conv4-rest",
    "resnet50-conv5-first",
    "resnet50-conv5-rest",
    "resnet50-stem",
    "siglip-attention-f16",
    "siglip-attention-f8",
    "siglip-mlp-f16",
    "siglip-mlp-f8",
    "siglip-so400m-block",
    "typed-attention-f8-64t",
    "vit-b16-block",
    "whisper-tiny-encoder",
);

/// Builds a model operation by operation; shapes are those of the SigLIP So400m/14 encoder.
struct Builder {
    raw: RawModel,
    precision: DataType,
}

/// A value on the way: name and shape.
type Made = (String, Vec<u32>);

impl Builder {
    fn new(name: &str, precision: DataType, input: &[u32]) -> (Builder, Made) {
        let x = RawTensor {
            name: "x".to_owned(),
            shape: input.to_vec(),
            dtype: DataType::F16,
            scale: 0,
        };
        let raw = RawModel {
            format: FORMAT.to_owned(),
            name: name.to_owned(),
            inputs: vec![x],
            parameters: vec![],
            operations: vec![],
            outputs: vec![],
            data: None,
        };
        (Builder { raw, precision }, ("x".to_owned(), input.to_vec()))
    }

    fn parameter(&mut self, name: &str, shape: Vec<u32>, dtype: DataType) -> String {
        self.raw.parameters.push(RawTensor { name: name.to_owned(), shape, dtype, scale: 0 });
        name.to_owned()
    }

    fn operation(
        &mut self,
        name: &str,
        op: &str,
        inputs: Vec<String>,
        (shape, dtype): (Vec<u32>, DataType),
        attributes: serde_json::Value,
    ) -> Made {
        let output = format!("{name}.out");
        let tensor = RawTensor { name: output.clone(), shape: shape.clone(), dtype, scale: 0 };
        self.raw.operations.push(RawOperation {
            name: name.to_owned(),
            op: op.to_owned(),
            inputs,
            outputs: vec![tensor],
            attributes: attributes.as_object().filter(|map| !map.is_empty()).cloned(),
        });
        (output, shape)
    }

    /// A product with a weight and a bias; in FP8 after a cast of the activation.
    fn linear(&mut self, name: &str, x: &Made, columns: u32) -> Made {
        let none = serde_json::json!({});
        let [rows, inner] = x.1[..] else { unreachable!("activations are matrices here") };
        let operand = if self.precision == DataType::F8 {
            let to = serde_json::json!({ "to": "f8f143" });
            let shape = (x.1.clone(), DataType::F8);
            self.operation(&format!("{name}.cast"), "cast", vec![x.0.clone()], shape, to).0
        } else {
            x.0.clone()
        };
        let weight = self.parameter(&format!("{name}.w"), vec![inner, columns], self.precision);
        let bias = self.parameter(&format!("{name}.b"), vec![columns], DataType::F16);
        let shape = (vec![rows, columns], DataType::F16);
        let product =
            self.operation(name, "matmul", vec![operand, weight], shape.clone(), none.clone());
        self.operation(&format!("{name}.bias"), "add", vec![product.0, bias], shape, none)
    }

    fn finish(mut self, output: Made) -> Result<Graph, ModelError> {
        self.raw.outputs.push(output.0);
        super::infer::check(self.raw, Path::new("built-in"))
    }
}

/// The SigLIP MLP: 729 × 1152 → 4304 → 1152 with GELU (tanh).
///
/// # Errors
/// Never for types that a product can have (F16, FP8).
pub fn siglip_mlp(precision: DataType) -> Result<Graph, ModelError> {
    let name = if precision == DataType::F8 { "siglip-mlp-f8" } else { "siglip-mlp-f16" };
    let (mut builder, x) = Builder::new(name, precision, &[729, 1152]);
    let up = builder.linear("up", &x, 4304);
    let shape = (up.1.clone(), DataType::F16);
    let hidden = builder.operation("gelu", "gelu_tanh", vec![up.0], shape, serde_json::json!({}));
    let down = builder.linear("down", &hidden, 1152);
    builder.finish(down)
}

/// The SigLIP projected attention: 729 tokens, 16 heads of 72. In FP8 the projections are FP8 and
/// the attention itself F16.
///
/// # Errors
/// Never for types that a product can have (F16, FP8).
pub fn siglip_attention(precision: DataType) -> Result<Graph, ModelError> {
    const ROWS: u32 = 729;
    const HEADS: u32 = 16;
    const WIDTH: u32 = 72;
    let name =
        if precision == DataType::F8 { "siglip-attention-f8" } else { "siglip-attention-f16" };
    let (mut builder, x) = Builder::new(name, precision, &[ROWS, HEADS * WIDTH]);
    let none = serde_json::json!({});
    let mut heads = vec![];
    for part in ["q", "k", "v"] {
        let projected = builder.linear(part, &x, HEADS * WIDTH);
        let shape = (vec![HEADS, ROWS, WIDTH], DataType::F16);
        let split = serde_json::json!({ "heads": HEADS });
        let name = format!("{part}.heads");
        heads.push(builder.operation(&name, "split_heads", vec![projected.0], shape, split).0);
    }
    let scores = (vec![HEADS, ROWS, ROWS], DataType::F16);
    let scale = serde_json::json!({ "scale": 1.0 / f64::from(WIDTH).sqrt() });
    let operands = vec![heads[0].clone(), heads[1].clone()];
    let made = builder.operation("scores", "attention_scores", operands, scores.clone(), scale);
    let axis = serde_json::json!({ "axis": -1 });
    let made = builder.operation("softmax", "softmax", vec![made.0], scores, axis);
    let shape = (vec![HEADS, ROWS, WIDTH], DataType::F16);
    let operands = vec![made.0, heads[2].clone()];
    let made = builder.operation("values", "attention_values", operands, shape, none.clone());
    let shape = (vec![ROWS, HEADS * WIDTH], DataType::F16);
    let merged = builder.operation("merge", "merge_heads", vec![made.0], shape, none);
    let output = builder.linear("o", &merged, HEADS * WIDTH);
    builder.finish(output)
}
