//! The network: a graph's operations as the nodes that a tile program can be made of.
//!
//! Three things happen on the way. Head splits and merges vanish: they only rename columns, and a
//! value keeps its columns in *blocks* (one a head), each padded to whole granules. A bias and an
//! activation that nothing else reads move into the matrix product before them. Fused attention
//! becomes scores, softmax and values, with the score scale inside the softmax.

use crate::kernels::{Binary, Unary};
use crate::model::{Graph, Op, TensorId, TensorKind};
use crate::target::DataType;

use super::layout::GRANULE;

/// Index of a [`Value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

/// Index of a [`Node`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// How a tensor's index is made of a value's row, block and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// `[…, rows, blocks · width]`.
    Flat,
    /// `[blocks, rows, width]`.
    Heads,
}

/// A matrix that tiles hold: rows times blocks of columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Name of the tensor that it is.
    pub name: String,
    /// Element type.
    pub dtype: DataType,
    /// FP8: elements are code · 2^scale.
    pub scale: i8,
    /// Rows.
    pub rows: u32,
    /// Blocks of columns, each padded to whole strips.
    pub blocks: u32,
    /// Columns of one block that hold data.
    pub width: u32,
    /// How [`Value::tensor`] is indexed.
    pub form: Form,
    /// The graph's tensor; `None` for what only exists inside a fused attention.
    pub tensor: Option<TensorId>,
    /// The node that makes it; `None` for a program input.
    pub producer: Option<NodeId>,
    /// Nodes that read it, ascending.
    pub consumers: Vec<NodeId>,
    /// Whether the program returns it.
    pub is_output: bool,
}

/// What a node computes.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// `activation(input · weight + bias)`.
    Matmul {
        /// The right operand.
        weight: TensorId,
        /// The weight is stored `[columns, inner]`.
        transposed: bool,
        /// FP8: the weight is code · 2^scale.
        scale: i8,
        /// Added to every row.
        bias: Option<TensorId>,
        /// Applied last.
        activation: Option<Unary>,
    },
    /// Block by block, `left · rightᵀ`: queries by keys.
    Scores,
    /// Block by block, `left · right`: probabilities by values.
    Values,
    /// Softmax over each block's columns.
    Softmax {
        /// Factor on the scores.
        scale: f32,
        /// Row `i` sees columns up to `i + offset`.
        causal_offset: Option<u32>,
    },
    /// Layer norm or RMS norm over all columns.
    Norm {
        /// RMS norm.
        rms: bool,
        /// Factor of every column.
        gain: TensorId,
        /// Summand of every column.
        bias: Option<TensorId>,
        /// Added to the variance.
        epsilon: f32,
    },
    /// A function of every element.
    Unary(Unary),
    /// A function of two values' elements.
    Binary(Binary),
    /// A function of every element and a parameter that is repeated for every row.
    WithParameter {
        /// The function.
        function: Binary,
        /// One number a column.
        parameter: TensorId,
    },
    /// Element type conversion.
    Cast,
}

/// One step of the network: inputs, what it computes, one output.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name of the operation it came from (the first, if several were joined).
    pub name: String,
    /// What it computes.
    pub kind: NodeKind,
    /// Values it reads, in the kind's order.
    pub inputs: Vec<ValueId>,
    /// The value it makes.
    pub output: ValueId,
}

/// A graph in the form in which it is planned. Nodes are in an order that respects dependences.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// All values; inputs first.
    pub values: Vec<Value>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Program inputs.
    pub inputs: Vec<ValueId>,
    /// Program outputs, in the graph's order.
    pub outputs: Vec<ValueId>,
}

/// Why a graph cannot be planned yet.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// An operation has no implementation on tiles.
    #[error("operation `{operation}` ({op}) has no implementation yet: {why}")]
    Unsupported {
        /// Name of the operation.
        operation: String,
        /// Its kind, as in the model file.
        op: String,
        /// What is missing.
        why: String,
    },
    /// An input has a name that packages keep for cycle samples (`target/ipu21.md` §7.2).
    #[error(
        "input `{name}` needs another name: those that begin with `{SAMPLE_NAMES}` are cycle samples"
    )]
    SampleName {
        /// The name.
        name: String,
    },
}

/// What the names of cycle samples in a package begin with (`target/ipu21.md` §7.2).
const SAMPLE_NAMES: &str = "profile.";

impl PlanError {
    /// What the user can do.
    pub fn hint(&self) -> Option<String> {
        let known = "`ipu-tune models` lists the shipped models that can be tuned";
        matches!(self, PlanError::Unsupported { .. }).then(|| known.to_owned())
    }
}

impl Value {
    /// Columns of one granule: 16 F16, 32 FP8, 8 F32.
    pub fn granule_columns(&self) -> u32 {
        GRANULE / self.dtype.bytes() as u32
    }

    /// Strips of one block.
    pub fn block_strips(&self) -> u32 {
        self.width.div_ceil(self.granule_columns())
    }

    /// Strips of the value.
    pub fn strips(&self) -> u32 {
        self.blocks * self.block_strips()
    }

    /// Columns that hold data, all blocks together.
    pub fn columns(&self) -> u32 {
        self.blocks * self.width
    }

    /// Index in the tensor of element (row, block, column in the block).
    pub fn tensor_index(&self, row: u32, block: u32, column: u32) -> usize {
        let (rows, blocks, width) = (self.rows as usize, self.blocks as usize, self.width as usize);
        let (row, block, column) = (row as usize, block as usize, column as usize);
        match self.form {
            Form::Flat => (row * blocks + block) * width + column,
            Form::Heads => (block * rows + row) * width + column,
        }
    }
}

impl Node {
    /// Whether this is a matrix product.
    pub fn is_gemm(&self) -> bool {
        matches!(self.kind, NodeKind::Matmul { .. } | NodeKind::Scores | NodeKind::Values)
    }
}

impl Network {
    /// The network of a graph.
    ///
    /// # Errors
    /// [`PlanError::Unsupported`] for an operation, or a use of one, that cannot be lowered yet.
    pub fn from_graph(graph: &Graph) -> Result<Network, PlanError> {
        let blocks = Blocks::of(graph)?;
        let mut builder = Builder {
            graph,
            blocks,
            network: Network { values: vec![], nodes: vec![], inputs: vec![], outputs: vec![] },
            value_of: vec![None; graph.tensors().len()],
            absorbed: vec![false; graph.operations().len()],
        };
        builder.build()?;
        Ok(builder.network)
    }

    /// The value with this id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// The node with this id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Ids of all nodes.
    pub fn node_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }
}

/// Number of column blocks of every tensor: tensors that are joined by operations that work column
/// by column share it.
struct Blocks {
    parent: Vec<usize>,
    heads: Vec<u32>,
}

impl Blocks {
    fn of(graph: &Graph) -> Result<Blocks, PlanError> {
        let count = graph.tensors().len();
        let mut blocks = Blocks { parent: (0..count).collect(), heads: vec![1; count] };
        for operation in graph.operations() {
            let output = operation.outputs[0].0 as usize;
            match &operation.op {
                Op::Add
                | Op::Mul
                | Op::Gelu
                | Op::GeluTanh
                | Op::Silu
                | Op::Relu
                | Op::Sigmoid
                | Op::Cast { .. }
                | Op::Softmax { .. }
                | Op::SplitHeads { .. }
                | Op::MergeHeads => {
                    for input in &operation.inputs {
                        if graph.tensor(*input).kind != TensorKind::Parameter {
                            blocks.join(input.0 as usize, output);
                        }
                    }
                }
                _ => {}
            }
        }
        for operation in graph.operations() {
            let heads = |id: TensorId| graph.tensor(id).shape[0];
            let mut wanted: Vec<(TensorId, u32)> = vec![];
            match &operation.op {
                Op::SplitHeads { heads } => wanted.push((operation.outputs[0], *heads)),
                Op::MergeHeads => wanted.push((operation.inputs[0], heads(operation.inputs[0]))),
                Op::AttentionScores { .. } | Op::AttentionValues { .. } | Op::Attention { .. } => {
                    let count = heads(operation.inputs[0]);
                    let values = operation.inputs.iter().chain(&operation.outputs);
                    wanted.extend(values.map(|id| (*id, count)));
                }
                _ => {}
            }
            for (id, count) in wanted {
                let root = blocks.root(id.0 as usize);
                if blocks.heads[root] != 1 && blocks.heads[root] != count {
                    return Err(unsupported(
                        graph,
                        operation,
                        format!(
                            "its values are split into {} and {count} heads at once",
                            blocks.heads[root]
                        ),
                    ));
                }
                blocks.heads[root] = count;
            }
        }
        Ok(blocks)
    }

    fn root(&self, mut id: usize) -> usize {
        while self.parent[id] != id {
            id = self.parent[id];
        }
        id
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }

    fn count(&self, id: TensorId) -> u32 {
        self.heads[self.root(id.0 as usize)]
    }
}

fn unsupported(_: &Graph, operation: &crate::model::Operation, why: String) -> PlanError {
    PlanError::Unsupported {
        operation: operation.name.clone(),
        op: operation.op.name().to_owned(),
        why,
    }
}

struct Builder<'a> {
    graph: &'a Graph,
    blocks: Blocks,
    network: Network,
    value_of: Vec<Option<ValueId>>,
    absorbed: Vec<bool>,
}

impl Builder<'_> {
    fn build(&mut self) -> Result<(), PlanError> {
        let graph = self.graph;
        for &id in graph.inputs() {
            let name = &graph.tensor(id).name;
            if name.starts_with(SAMPLE_NAMES) {
                return Err(PlanError::SampleName { name: name.clone() });
            }
            let value = self.tensor_value(id, None);
            self.network.inputs.push(value);
        }
        for index in 0..graph.operations().len() {
            if !self.absorbed[index] {
                self.operation(index)?;
            }
        }
        for &id in graph.outputs() {
            let value = self.value(id);
            let found = &mut self.network.values[value.0 as usize];
            found.is_output = true;
            self.network.outputs.push(value);
        }
        Ok(())
    }

    fn operation(&mut self, index: usize) -> Result<(), PlanError> {
        let graph = self.graph;
        let operation = &graph.operations()[index];
        let refuse = |why: &str| Err(unsupported(graph, operation, why.to_owned()));
        let inputs: Vec<TensorId> = operation.inputs.clone();
        let parameter = |id: TensorId| graph.tensor(id).kind == TensorKind::Parameter;
        self.check_types(index)?;
        match &operation.op {
            Op::SplitHeads { .. } | Op::MergeHeads => {
                let value = self.value(inputs[0]);
                self.rename(value, operation.outputs[0]);
                Ok(())
            }
            Op::Matmul { transpose_left: false, transpose_right } => {
                if parameter(inputs[0]) || !parameter(inputs[1]) {
                    return refuse("only products of a value with a parameter are lowered");
                }
                if graph.tensor(inputs[1]).shape.len() != 2 {
                    return refuse("the parameter must be a matrix");
                }
                self.matmul(index, *transpose_right);
                Ok(())
            }
            Op::Add | Op::Mul => self.elementwise(index),
            Op::Gelu | Op::GeluTanh | Op::Silu | Op::Relu | Op::Sigmoid => {
                let function = unary(&operation.op).expect("matched above");
                self.node(index, NodeKind::Unary(function), &[inputs[0]], operation.outputs[0]);
                Ok(())
            }
            Op::LayerNorm { epsilon, .. } | Op::RmsNorm { epsilon, .. } => {
                if self.blocks.count(inputs[0]) != 1 || self.blocks.count(operation.outputs[0]) != 1
                {
                    return refuse("a norm over values that are split into heads");
                }
                if inputs.len() < 2 || !inputs[1..].iter().all(|id| parameter(*id)) {
                    return refuse("gain and bias must be parameters");
                }
                let kind = NodeKind::Norm {
                    rms: matches!(operation.op, Op::RmsNorm { .. }),
                    gain: inputs[1],
                    bias: inputs.get(2).copied(),
                    epsilon: *epsilon as f32,
                };
                self.node(index, kind, &inputs[..1], operation.outputs[0]);
                Ok(())
            }
            Op::Softmax { axis } => {
                let rank = graph.tensor(inputs[0]).shape.len() as i64;
                if i64::from(*axis) != -1 && i64::from(*axis) != rank - 1 {
                    return refuse("only over the last axis");
                }
                let kind = NodeKind::Softmax { scale: 1.0, causal_offset: None };
                self.node(index, kind, &inputs[..1], operation.outputs[0]);
                Ok(())
            }
            Op::Cast { .. } => {
                self.node(index, NodeKind::Cast, &inputs[..1], operation.outputs[0]);
                Ok(())
            }
            Op::AttentionScores { .. } => self.scores(index),
            Op::AttentionValues { groups } => {
                if *groups != 1 || inputs.iter().any(|id| parameter(*id)) {
                    return refuse("grouped heads, or a parameter as an operand");
                }
                self.node(index, NodeKind::Values, &inputs, operation.outputs[0]);
                Ok(())
            }
            Op::Attention { .. } => self.attention(index),
            _ => refuse("it can be evaluated, but not placed on tiles"),
        }
    }

    /// F32 lives in row-major values that are cast before anything else is done with them.
    fn check_types(&self, index: usize) -> Result<(), PlanError> {
        let operation = &self.graph.operations()[index];
        let dtype = |id: &TensorId| self.graph.tensor(*id).dtype;
        let refuse = |why: &str| Err(unsupported(self.graph, operation, why.to_owned()));
        match &operation.op {
            Op::Cast { .. } => {
                let (from, to) = (dtype(&operation.inputs[0]), dtype(&operation.outputs[0]));
                if from != DataType::F16 && to != DataType::F16 {
                    return refuse("a cast must have F16 on one side");
                }
                Ok(())
            }
            Op::Matmul { .. } => {
                let types = (dtype(&operation.inputs[0]), dtype(&operation.inputs[1]));
                let known = [(DataType::F16, DataType::F16), (DataType::F8, DataType::F8)];
                if !known.contains(&types) || dtype(&operation.outputs[0]) != DataType::F16 {
                    return refuse("operands must both be f16 or both f8f143, the result f16");
                }
                Ok(())
            }
            Op::SplitHeads { .. } | Op::MergeHeads => Ok(()),
            _ => {
                if operation
                    .inputs
                    .iter()
                    .chain(&operation.outputs)
                    .any(|id| dtype(id) != DataType::F16)
                {
                    return refuse("only f16 operands are lowered");
                }
                Ok(())
            }
        }
    }

    /// The operation that reads `tensor`, if it is the only reader and nothing returns the tensor.
    fn only_reader(&self, tensor: TensorId) -> Option<usize> {
        let operations = self.graph.operations();
        let mut readers =
            (0..operations.len()).filter(|&reader| operations[reader].inputs.contains(&tensor));
        let reader = readers.next()?;
        let alone = readers.next().is_none() && !self.graph.outputs().contains(&tensor);
        alone.then_some(reader)
    }

    fn matmul(&mut self, index: usize, transposed: bool) {
        let graph = self.graph;
        let operation = &graph.operations()[index];
        let mut result = operation.outputs[0];
        let mut bias = None;
        let mut activation = None;
        if let Some(reader) = self.only_reader(result)
            && let Some(vector) = self.row_parameter(reader, result)
            && matches!(graph.operations()[reader].op, Op::Add)
        {
            self.absorbed[reader] = true;
            bias = Some(vector);
            result = graph.operations()[reader].outputs[0];
        }
        if let Some(reader) = self.only_reader(result)
            && let Some(function) = unary(&graph.operations()[reader].op)
        {
            self.absorbed[reader] = true;
            activation = Some(function);
            result = graph.operations()[reader].outputs[0];
        }
        let weight = operation.inputs[1];
        let scale = graph.tensor(weight).scale;
        let kind = NodeKind::Matmul { weight, transposed, scale, bias, activation };
        self.node(index, kind, &operation.inputs[..1], result);
    }

    /// The other operand of a two-operand operation, if it is a parameter with one number a column.
    fn row_parameter(&self, reader: usize, value: TensorId) -> Option<TensorId> {
        let operation = &self.graph.operations()[reader];
        let other = *operation.inputs.iter().find(|id| **id != value)?;
        let (tensor, columns) = (self.graph.tensor(other), self.graph.tensor(value).shape.last()?);
        let is_row = tensor.kind == TensorKind::Parameter
            && tensor.shape.last() == Some(columns)
            && tensor.shape.iter().rev().skip(1).all(|size| *size == 1);
        is_row.then_some(other)
    }

    fn elementwise(&mut self, index: usize) -> Result<(), PlanError> {
        let graph = self.graph;
        let operation = &graph.operations()[index];
        let function = if operation.op == Op::Add { Binary::Add } else { Binary::Mul };
        let output = operation.outputs[0];
        let values: Vec<TensorId> = operation
            .inputs
            .iter()
            .copied()
            .filter(|id| graph.tensor(*id).kind != TensorKind::Parameter)
            .collect();
        if values.len() == 2 {
            let same = graph.tensor(values[0]).shape == graph.tensor(values[1]).shape;
            if !same {
                let why = "broadcasting between two values is not lowered";
                return Err(unsupported(graph, operation, why.to_owned()));
            }
            self.node(index, NodeKind::Binary(function), &values, output);
            return Ok(());
        }
        let row = values.first().and_then(|value| self.row_parameter(index, *value));
        match (values.first(), row) {
            (Some(value), Some(parameter)) if self.form(*value) == Form::Flat => {
                let kind = NodeKind::WithParameter { function, parameter };
                self.node(index, kind, &[*value], output);
                Ok(())
            }
            _ => {
                let why = "a parameter operand must have one number a column";
                Err(unsupported(graph, operation, why.to_owned()))
            }
        }
    }

    fn scores(&mut self, index: usize) -> Result<(), PlanError> {
        let graph = self.graph;
        let operation = &graph.operations()[index];
        let Op::AttentionScores { scale, causal, groups, .. } = &operation.op else {
            unreachable!("called for attention scores only")
        };
        let softmax = self.only_reader(operation.outputs[0]);
        let softmax =
            softmax.filter(|&reader| matches!(graph.operations()[reader].op, Op::Softmax { .. }));
        let (Some(softmax), 1) = (softmax, *groups) else {
            let why = "grouped heads, or scores that anything but one softmax reads";
            return Err(unsupported(graph, operation, why.to_owned()));
        };
        self.absorbed[softmax] = true;
        let scores = operation.outputs[0];
        self.node(index, NodeKind::Scores, &operation.inputs[..2], scores);
        let (queries, keys) =
            (self.sequence(operation.inputs[0]), self.sequence(operation.inputs[1]));
        let causal_offset = causal.then(|| keys.saturating_sub(queries));
        let kind = NodeKind::Softmax { scale: *scale as f32, causal_offset };
        self.node(softmax, kind, &[scores], graph.operations()[softmax].outputs[0]);
        Ok(())
    }

    /// Rows of a tensor of the form `[heads, rows, width]`.
    fn sequence(&self, id: TensorId) -> u32 {
        self.graph.tensor(id).shape[1]
    }

    fn attention(&mut self, index: usize) -> Result<(), PlanError> {
        let graph = self.graph;
        let operation = &graph.operations()[index];
        let Op::Attention { scale, causal, groups, .. } = &operation.op else {
            unreachable!("called for attention only")
        };
        let rank3 = operation.inputs.iter().all(|id| graph.tensor(*id).shape.len() == 3);
        if *groups != 1 || operation.inputs.len() != 3 || !rank3 {
            let why = "only ungrouped attention over [heads, rows, width] values";
            return Err(unsupported(graph, operation, why.to_owned()));
        }
        let (query, key) = (operation.inputs[0], operation.inputs[1]);
        let inner = |name: &str| Value {
            name: format!("{}.{name}", operation.name),
            dtype: DataType::F16,
            scale: 0,
            rows: self.sequence(query),
            blocks: self.blocks.count(query),
            width: self.sequence(key),
            form: Form::Heads,
            tensor: None,
            producer: None,
            consumers: vec![],
            is_output: false,
        };
        let (scores, probabilities) = (inner("scores"), inner("probabilities"));
        let (queries, keys) = (self.sequence(query), self.sequence(key));
        let causal_offset = causal.then(|| keys.saturating_sub(queries));
        let operands = [self.value(query), self.value(key)];
        let scores = self.push_node(index, NodeKind::Scores, &operands, scores);
        let kind = NodeKind::Softmax { scale: *scale as f32, causal_offset };
        let probabilities = self.push_node(index, kind, &[scores], probabilities);
        let operands = [probabilities, self.value(operation.inputs[2])];
        let output = self.describe(operation.outputs[0]);
        let result = self.push_node(index, NodeKind::Values, &operands, output);
        self.value_of[operation.outputs[0].0 as usize] = Some(result);
        Ok(())
    }

    fn node(&mut self, index: usize, kind: NodeKind, inputs: &[TensorId], output: TensorId) {
        let inputs: Vec<ValueId> = inputs.iter().map(|id| self.value(*id)).collect();
        let output_value = self.describe(output);
        let result = self.push_node(index, kind, &inputs, output_value);
        self.value_of[output.0 as usize] = Some(result);
    }

    fn push_node(
        &mut self,
        index: usize,
        kind: NodeKind,
        inputs: &[ValueId],
        output: Value,
    ) -> ValueId {
        let node = NodeId(self.network.nodes.len() as u32);
        let result = ValueId(self.network.values.len() as u32);
        for input in inputs {
            let consumers = &mut self.network.values[input.0 as usize].consumers;
            if !consumers.contains(&node) {
                consumers.push(node);
            }
        }
        let name = self.graph.operations()[index].name.clone();
        self.network.values.push(Value { producer: Some(node), ..output });
        self.network.nodes.push(Node { name, kind, inputs: inputs.to_vec(), output: result });
        result
    }

    /// The same value under the name that a split or merge of heads gives it.
    fn rename(&mut self, value: ValueId, tensor: TensorId) {
        self.value_of[tensor.0 as usize] = Some(value);
        if self.graph.outputs().contains(&tensor) {
            let described = self.describe(tensor);
            let found = &mut self.network.values[value.0 as usize];
            (found.form, found.tensor) = (described.form, described.tensor);
        }
    }

    fn value(&mut self, tensor: TensorId) -> ValueId {
        self.value_of[tensor.0 as usize].expect("a checked graph makes values before it reads them")
    }

    fn tensor_value(&mut self, tensor: TensorId, producer: Option<NodeId>) -> ValueId {
        let id = ValueId(self.network.values.len() as u32);
        let value = Value { producer, ..self.describe(tensor) };
        self.network.values.push(value);
        self.value_of[tensor.0 as usize] = Some(id);
        id
    }

    fn form(&self, tensor: TensorId) -> Form {
        let shape = &self.graph.tensor(tensor).shape;
        let blocks = self.blocks.count(tensor);
        let heads = blocks > 1 && shape.len() == 3 && shape[0] == blocks;
        if heads { Form::Heads } else { Form::Flat }
    }

    fn describe(&self, id: TensorId) -> Value {
        let tensor = self.graph.tensor(id);
        let (blocks, form) = (self.blocks.count(id), self.form(id));
        let columns = *tensor.shape.last().unwrap_or(&1);
        let (rows, width) = match form {
            Form::Heads => (tensor.shape[1], columns),
            Form::Flat => {
                let outer = tensor.shape.len().saturating_sub(1);
                (tensor.shape[..outer].iter().product(), columns / blocks)
            }
        };
        Value {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            scale: tensor.scale,
            rows,
            blocks,
            width,
            form,
            tensor: Some(id),
            producer: None,
            consumers: vec![],
            is_output: false,
        }
    }
}

fn unary(op: &Op) -> Option<Unary> {
    match op {
        Op::Gelu => Some(Unary::Gelu),
        Op::GeluTanh => Some(Unary::GeluTanh),
        Op::Silu => Some(Unary::Silu),
        Op::Relu => Some(Unary::Relu),
        Op::Sigmoid => Some(Unary::Sigmoid),
        _ => None,
    }
}
