//! The model: a shaped operator graph, as `model.json` describes it.
//!
//! [`read`] gives a [`Graph`] that has been checked completely: names resolve, values are made
//! before they are read, every shape and type is what its operation makes. [`data`] makes or reads
//! inputs and parameters, [`mod@reference`] evaluates a graph on the host.
//!
//! Absent on purpose: anything about tiles.

pub mod convert;
pub mod data;
pub mod error;
pub mod format;
pub mod infer;
pub mod reference;
mod reference_ops;
pub mod shipped;

use std::fmt;
use std::path::{Path, PathBuf};

pub use data::Values;
pub use error::ModelError;
pub use format::Op;

use crate::target::DataType;

/// Index of a [`Tensor`] of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub u32);

/// Where a tensor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TensorKind {
    /// Given with every run.
    Input,
    /// Given once.
    Parameter,
    /// Made by an operation.
    Activation,
}

/// A tensor: a value of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Unique name.
    pub name: String,
    /// Dimensions, outermost first; none is zero.
    pub shape: Vec<u32>,
    /// Element type.
    pub dtype: DataType,
    /// FP8: value = code · 2^scale (`target/ipu21.md` §12.1).
    pub scale: i8,
    /// Where it comes from.
    pub kind: TensorKind,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Unique name.
    pub name: String,
    /// What it does.
    pub op: Op,
    /// What it reads.
    pub inputs: Vec<TensorId>,
    /// What it makes.
    pub outputs: Vec<TensorId>,
}

/// A checked model.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    name: String,
    tensors: Vec<Tensor>,
    operations: Vec<Operation>,
    inputs: Vec<TensorId>,
    parameters: Vec<TensorId>,
    outputs: Vec<TensorId>,
    data: Option<PathBuf>,
}

/// Identity of a graph: the hash of its canonical form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelHash(pub [u8; 32]);

impl fmt::Display for ModelHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ModelHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelHash({self})")
    }
}

impl Tensor {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().map(|size| *size as usize).product()
    }
}

impl Graph {
    /// Name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All tensors: inputs, then parameters, then what operations make, in order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// One tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0 as usize]
    }

    /// All operations, in an order that respects dependences.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Tensors given with every run.
    pub fn inputs(&self) -> &[TensorId] {
        &self.inputs
    }

    /// Tensors given once.
    pub fn parameters(&self) -> &[TensorId] {
        &self.parameters
    }

    /// Tensors that the program returns.
    pub fn outputs(&self) -> &[TensorId] {
        &self.outputs
    }

    /// File with real parameters, relative to the model file; `None`: seeded data.
    pub fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// Multiply-adds of all matrix products.
    pub fn multiply_adds(&self) -> u64 {
        self.operations.iter().map(|operation| self.operation_multiply_adds(operation)).sum()
    }

    /// Multiply-adds of one operation; 0 if it is no matrix product.
    pub fn operation_multiply_adds(&self, operation: &Operation) -> u64 {
        infer::multiply_adds(self, operation)
    }

    /// The canonical hash: of what the model computes, names included, never of the text's layout.
    pub fn hash(&self) -> ModelHash {
        ModelHash(*blake3::hash(self.to_json().as_bytes()).as_bytes())
    }

    /// The canonical text: one line of JSON with every default written out.
    pub fn to_json(&self) -> String {
        let raw = format::RawModel::from_graph(self);
        serde_json::to_string(&raw).expect("a model holds nothing that JSON cannot say")
    }

    /// As [`Graph::to_json`], for people.
    pub fn to_json_pretty(&self) -> String {
        let raw = format::RawModel::from_graph(self);
        let text = serde_json::to_string_pretty(&raw);
        text.expect("a model holds nothing that JSON cannot say") + "\n"
    }

    /// Reads a model's text; `path` is named in errors.
    ///
    /// # Errors
    /// Whatever is wrong with it, with its place.
    pub fn from_json(text: &str, path: &Path) -> Result<Graph, ModelError> {
        infer::check(format::parse(text, path)?, path)
    }
}

/// Reads a model file.
///
/// # Errors
/// If the file cannot be read, or whatever is wrong with the model, with its place.
pub fn read(path: &Path) -> Result<Graph, ModelError> {
    let bytes =
        std::fs::read(path).map_err(|source| ModelError::Read { path: path.to_owned(), source })?;
    let text =
        String::from_utf8(bytes).map_err(|_| ModelError::NotText { path: path.to_owned() })?;
    Graph::from_json(&text, path)
}
