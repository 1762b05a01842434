//! Host reference: every operation in f32, the yardstick for what tiles compute.
//!
//! Only casts round; intermediate sums are f32. Deterministic on any number of threads, since
//! every element is computed by one of them in a fixed order.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::target::DataType;

use super::data::{Values, round};
use super::infer::{axis_index, image, windows};
use super::reference_ops as ops;
use super::{Graph, Op, Operation, TensorId};

/// All tensors of a graph from its inputs and parameters; `None` if `stop` was set meanwhile.
pub fn evaluate(graph: &Graph, given: &Values, stop: &AtomicBool) -> Option<Values> {
    let mut values = given.clone();
    for operation in graph.operations() {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let result = Evaluation { graph, values: &values, operation }.result();
        values.set(operation.outputs[0], result);
    }
    Some(values)
}

struct Evaluation<'a> {
    graph: &'a Graph,
    values: &'a Values,
    operation: &'a Operation,
}

impl Evaluation<'_> {
    fn shape(&self, index: usize) -> Vec<usize> {
        self.shape_of(self.operation.inputs[index])
    }

    fn shape_of(&self, id: TensorId) -> Vec<usize> {
        self.graph.tensor(id).shape.iter().map(|size| *size as usize).collect()
    }

    fn input(&self, index: usize) -> &[f32] {
        self.values.get(self.operation.inputs[index])
    }

    fn map(&self, function: impl Fn(f32) -> f32) -> Vec<f32> {
        self.input(0).iter().map(|x| function(*x)).collect()
    }

    fn result(&self) -> Vec<f32> {
        match &self.operation.op {
            Op::Matmul { transpose_left, transpose_right } => {
                self.matmul(*transpose_left, *transpose_right)
            }
            Op::Add => self.broadcast(|a, b| a + b),
            Op::Mul => self.broadcast(|a, b| a * b),
            Op::LayerNorm { epsilon } => {
                let bias = (self.operation.inputs.len() > 2).then(|| self.input(2));
                ops::norm(self.input(0), self.input(1), bias, *epsilon, false)
            }
            Op::RmsNorm { epsilon } => {
                ops::norm(self.input(0), self.input(1), None, *epsilon, true)
            }
            Op::Gelu => self.map(ops::gelu),
            Op::GeluTanh => self.map(ops::gelu_tanh),
            Op::Silu => self.map(|x| x * ops::sigmoid(x)),
            Op::Relu => self.map(|x| x.max(0.0)),
            Op::Sigmoid => self.map(ops::sigmoid),
            Op::Softmax { axis } => {
                let shape = self.shape(0);
                let axis = axis_index(*axis, shape.len()).expect("checked when the model was read");
                ops::softmax(self.input(0), &shape, axis)
            }
            Op::SplitHeads { heads } => {
                let shape = self.shape(0);
                let heads = *heads as usize;
                ops::swap_outer(self.input(0), shape[0], heads, shape[1] / heads)
            }
            Op::MergeHeads => {
                let shape = self.shape(0);
                ops::swap_outer(self.input(0), shape[0], shape[1], shape[2])
            }
            Op::Rope { base, position } => {
                ops::rope(self.input(0), &self.shape(0), *base, *position as usize)
            }
            Op::Concat { axis } => self.concat(*axis),
            Op::AttentionScores { scale, causal, groups } => {
                self.scores(*scale as f32, *causal, *groups as usize)
            }
            Op::AttentionValues { groups } => {
                let (p, v) = (self.shape(0), self.shape(1));
                ops::attention_values(self.input(0), self.input(1), &p, v[2], *groups as usize)
            }
            Op::Attention { scale, causal, groups, merge } => {
                self.attention(*scale as f32, *causal, *groups as usize, *merge)
            }
            Op::Cast { to } => self.cast(*to),
            Op::Im2col { kernel, stride, pad } => self.im2col(*kernel, *stride, *pad),
            Op::MaxPool { kernel, stride } => self.max_pool(*kernel, *stride),
        }
    }

    fn cast(&self, to: DataType) -> Vec<f32> {
        let scale = self.graph.tensor(self.operation.outputs[0]).scale;
        self.map(|x| round(x, to, scale))
    }

    fn matmul(&self, tl: bool, tr: bool) -> Vec<f32> {
        let (left, right) = (self.shape(0), self.shape(1));
        let [l1, l2] = [left[left.len() - 2], left[left.len() - 1]];
        let [r1, r2] = [right[right.len() - 2], right[right.len() - 1]];
        let (m, k) = if tl { (l2, l1) } else { (l1, l2) };
        let n = if tr { r1 } else { r2 };
        let batches: usize = left[..left.len() - 2].iter().product();
        let shared = right.len() == 2;
        let mut result = Vec::with_capacity(batches * m * n);
        for batch in 0..batches {
            let a = &self.input(0)[batch * m * k..][..m * k];
            let b = &self.input(1)[if shared { 0 } else { batch * k * n }..][..k * n];
            let a = if tl { ops::transpose(a, k, m) } else { a.to_vec() };
            let b = if tr { ops::transpose(b, n, k) } else { b.to_vec() };
            result.extend(ops::matmul(&a, &b, m, k, n));
        }
        result
    }

    fn broadcast(&self, function: impl Fn(f32, f32) -> f32) -> Vec<f32> {
        let (left, mut right) = (self.shape(0), self.shape(1));
        while right.len() < left.len() {
            right.insert(0, 1);
        }
        let (a, b) = (self.input(0), self.input(1));
        let mut result = Vec::with_capacity(a.len());
        for (flat, x) in a.iter().enumerate() {
            let (mut rest, mut at, mut stride) = (flat, 0, 1);
            for d in (0..left.len()).rev() {
                let index = rest % left[d];
                rest /= left[d];
                at += if right[d] == 1 { 0 } else { index * stride };
                stride *= right[d];
            }
            result.push(function(*x, b[at]));
        }
        result
    }

    fn scores(&self, scale: f32, causal: bool, groups: usize) -> Vec<f32> {
        let (q, k) = (self.shape(0), self.shape(1));
        ops::attention_scores(self.input(0), self.input(1), &q, k[1], scale, causal, groups)
    }

    fn attention(&self, scale: f32, causal: bool, groups: usize, merge: bool) -> Vec<f32> {
        let (q, v) = (self.shape(0), self.shape(2));
        let scores = self.scores(scale, causal, groups);
        let shape = [q[0], q[1], v[1]];
        let probabilities = ops::softmax(&scores, &shape, 2);
        let result = ops::attention_values(&probabilities, self.input(2), &shape, v[2], groups);
        if merge { ops::swap_outer(&result, q[0], q[1], v[2]) } else { result }
    }

    fn concat(&self, axis: i32) -> Vec<f32> {
        let first = self.shape(0);
        let axis = axis_index(axis, first.len()).expect("checked when the model was read");
        let outer: usize = first[..axis].iter().product();
        let mut result = vec![];
        for o in 0..outer {
            for index in 0..self.operation.inputs.len() {
                let run: usize = self.shape(index)[axis..].iter().product();
                result.extend_from_slice(&self.input(index)[o * run..][..run]);
            }
        }
        result
    }

    fn im2col(&self, kernel: u32, stride: u32, pad: u32) -> Vec<f32> {
        let image = self.image(kernel, stride, pad);
        let mut result = vec![];
        image.patches(|y, x| match image.pixel(y, x) {
            Some(pixel) => result.extend_from_slice(pixel),
            None => result.extend(std::iter::repeat_n(0.0, image.channels)),
        });
        result
    }

    fn max_pool(&self, kernel: u32, stride: u32) -> Vec<f32> {
        let image = self.image(kernel, stride, kernel / 2);
        let patch = image.kernel * image.kernel;
        let mut result = vec![f32::NEG_INFINITY; image.out * image.out * image.channels];
        let mut visited = 0;
        image.patches(|y, x| {
            let at = visited / patch * image.channels;
            visited += 1;
            for (c, value) in image.pixel(y, x).into_iter().flatten().enumerate() {
                result[at + c] = result[at + c].max(*value);
            }
        });
        result
    }

    fn image(&self, kernel: u32, stride: u32, pad: u32) -> Image<'_> {
        let shape = &self.graph.tensor(self.operation.inputs[0]).shape;
        let (side, channels) = image(shape).expect("checked when the model was read");
        let out = windows(side, kernel, stride, pad).expect("checked when the model was read");
        Image {
            pixels: self.input(0),
            side: side as usize,
            channels: channels as usize,
            kernel: kernel as usize,
            stride: stride as usize,
            pad: pad as usize,
            out: out as usize,
        }
    }
}

/// A square image and the patches of one operation on it.
struct Image<'a> {
    pixels: &'a [f32],
    side: usize,
    channels: usize,
    kernel: usize,
    stride: usize,
    pad: usize,
    out: usize,
}

impl<'a> Image<'a> {
    /// Visits every pixel of every patch, in padded coordinates.
    fn patches(&self, mut visit: impl FnMut(usize, usize)) {
        for oy in 0..self.out {
            for ox in 0..self.out {
                for ky in 0..self.kernel {
                    for kx in 0..self.kernel {
                        visit(oy * self.stride + ky, ox * self.stride + kx);
                    }
                }
            }
        }
    }

    /// Channels of a pixel in padded coordinates; `None` in the padding.
    fn pixel(&self, y: usize, x: usize) -> Option<&'a [f32]> {
        let inside = |v: usize| v.checked_sub(self.pad).filter(|v| *v < self.side);
        let (y, x) = (inside(y)?, inside(x)?);
        Some(&self.pixels[(y * self.side + x) * self.channels..][..self.channels])
    }
}
