//! Linking: segments into one program with levels, buffer ids and lifetimes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::plan::{ExchangeMode, Layout, Network, NodeId, Recipe, ValueId};
use crate::target::{Address, TileId};

use super::segment::{BufferRef, BufferSpec, Call, Class, Role, Run, Segment, SegmentStep};
use super::{Fill, Move};

/// Index of a program's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u32);

/// A buffer of the whole program: one piece on each of some tiles.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// `node.label`, unique.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Memory class.
    pub class: Class,
    /// Alignment in bytes.
    pub alignment: u32,
    /// Bytes beyond the payload that may be read.
    pub tail: u32,
    /// Payload bytes on every tile that has a piece, ascending by tile.
    pub sizes: Arc<[(TileId, u32)]>,
    /// Steps during which it holds data: from its first write to after its last read.
    pub live: Range<u32>,
    /// What the host writes into it, or reads from it.
    pub fill: Option<Fill>,
}

/// Whether words move or kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// All tiles synchronize, then words move.
    Exchange(ExchangeMode),
    /// Every tile runs its calls, without synchronization.
    Compute,
}

/// One segment's share of a step.
#[derive(Clone, Debug)]
pub struct Part {
    /// The node it came from.
    pub node: NodeId,
    /// The lowered node.
    pub segment: Arc<Segment>,
    /// Which of its steps.
    pub step: usize,
    /// Program buffer of each of the segment's buffer references.
    pub buffers: Arc<[BufferId]>,
}

/// One phase of the program.
#[derive(Clone, Debug)]
pub struct Step {
    /// What happens.
    pub kind: StepKind,
    /// Who takes part.
    pub parts: Vec<Part>,
}

/// A transfer with its buffers resolved.
#[derive(Clone, Copy, Debug)]
pub struct TransferView<'a> {
    /// Sending tile.
    pub source: TileId,
    /// Buffer and byte offset read.
    pub from: (BufferId, u32),
    /// Receiving tiles, ascending.
    pub destinations: &'a [TileId],
    /// Buffer and byte offset written on every destination.
    pub to: (BufferId, u32),
    /// 32-bit words.
    pub words: u32,
}

/// A lowered recipe: what happens, in order, on which tiles.
#[derive(Clone, Debug)]
pub struct Program {
    /// The logical tiles `0..tiles`.
    pub tiles: u16,
    /// All buffers.
    pub buffers: Vec<Buffer>,
    /// All steps.
    pub steps: Vec<Step>,
    /// Pairs of buffers whose pieces on a tile must lie in different memory elements.
    pub apart: Vec<(BufferId, BufferId)>,
    /// Buffer and layout of every program input, in the network's order.
    pub inputs: Vec<(ValueId, BufferId, Layout)>,
    /// Buffer and layout of every program output, in the network's order.
    pub outputs: Vec<(ValueId, BufferId, Layout)>,
}

/// Address of every piece of every buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    tiles: usize,
    of: Vec<u32>,
}

impl Addresses {
    /// No addresses yet for `buffers` buffers on `tiles` tiles.
    pub fn new(buffers: usize, tiles: u16) -> Addresses {
        Addresses { tiles: usize::from(tiles), of: vec![0; buffers * usize::from(tiles)] }
    }

    /// Places a piece.
    pub fn set(&mut self, buffer: BufferId, tile: TileId, address: Address) {
        self.of[buffer.0 as usize * self.tiles + usize::from(tile.0)] = address.0;
    }

    /// Where a piece lies; `None` where the buffer has no piece or is not placed.
    pub fn get(&self, buffer: BufferId, tile: TileId) -> Option<Address> {
        let address = self.of[buffer.0 as usize * self.tiles + usize::from(tile.0)];
        (address != 0).then_some(Address(address))
    }
}

impl Part {
    /// The segment's step.
    pub fn segment_step(&self) -> &SegmentStep {
        &self.segment.steps[self.step]
    }

    /// The program's buffer behind a segment's reference.
    pub fn buffer(&self, reference: BufferRef) -> BufferId {
        self.buffers[reference.0 as usize]
    }

    fn moves(&self) -> &[Move] {
        match self.segment_step() {
            SegmentStep::Exchange(moves) => moves,
            SegmentStep::Compute(_) => &[],
        }
    }

    /// The calls of this part, if it computes.
    pub fn calls(&self) -> &[Call] {
        match self.segment_step() {
            SegmentStep::Compute(calls) => calls,
            SegmentStep::Exchange(_) => &[],
        }
    }
}

impl Step {
    /// All transfers, in a fixed order.
    pub fn transfers(&self) -> impl Iterator<Item = TransferView<'_>> {
        self.parts.iter().flat_map(|part| {
            part.moves().iter().flat_map(move |exchange| {
                let (from, to) = (part.buffer(exchange.from), part.buffer(exchange.to));
                exchange.runs.iter().map(move |run: &Run| TransferView {
                    source: run.source,
                    from: (from, run.from),
                    destinations: &exchange.groups[run.group as usize],
                    to: (to, run.to),
                    words: run.words,
                })
            })
        })
    }

    /// All calls with the part they belong to; calls of one tile in the order of execution.
    pub fn calls(&self) -> impl Iterator<Item = (&Part, &Call)> {
        self.parts.iter().flat_map(|part| part.calls().iter().map(move |call| (part, call)))
    }

    /// Number of transfers.
    pub fn transfer_count(&self) -> usize {
        self.parts.iter().flat_map(Part::moves).map(Move::len).sum()
    }
}

/// What is known of a value while linking.
#[derive(Clone)]
struct Held {
    buffer: BufferId,
    layout: Layout,
}

/// When a step runs: its level, and whether it computes (after the level's exchange).
pub type Slot = (i64, bool);

/// Slot of every step of every segment; `segments` in the network's order.
///
/// A node's first exchange is in the level after the one that made its inputs; what it computes
/// before any exchange of its own still belongs to that level. Late nodes are moved on from there.
pub fn slots(network: &Network, recipe: &Recipe, segments: &[Arc<Segment>]) -> Vec<Vec<Slot>> {
    let mut ready = vec![-1_i64; network.values.len()];
    // Per node, the level that its inputs have to be ready in.
    let mut due = Vec::with_capacity(segments.len());
    let mut latest = -1;
    let mut all = Vec::with_capacity(segments.len());
    for ((node, plan), segment) in network.nodes.iter().zip(&recipe.nodes).zip(segments) {
        let inputs = node.inputs.iter().map(|value| ready[value.0 as usize]);
        let mut level = inputs.max().unwrap_or(-1);
        if plan.alone {
            level = level.max(latest);
        }
        due.push(level);
        let slots = segment.steps.iter().map(|step| {
            let slot = match step {
                SegmentStep::Exchange(_) => (level + 1, false),
                SegmentStep::Compute(_) => (level.max(0), true),
            };
            level = slot.0;
            slot
        });
        all.push(slots.collect());
        latest = latest.max(level);
        ready[node.output.0 as usize] = level;
    }
    for id in network.node_ids().rev() {
        let index = id.0 as usize;
        if !recipe.nodes[index].late {
            continue;
        }
        let output = network.node(id).output;
        let readers = network.value(output).consumers.iter().map(|reader| due[reader.0 as usize]);
        let wait = readers.min().unwrap_or(latest) - ready[output.0 as usize];
        let slots: &mut Vec<Slot> = &mut all[index];
        slots.iter_mut().for_each(|(level, _)| *level += wait);
        due[index] += wait;
    }
    all
}

struct Linker {
    buffers: Vec<Buffer>,
    /// First and last slot of every buffer.
    spans: Vec<Option<(Slot, Slot)>>,
    steps: BTreeMap<Slot, (Vec<Part>, Vec<ExchangeMode>)>,
    apart: Vec<(BufferId, BufferId)>,
    held: Vec<Option<Held>>,
}

/// Puts lowered nodes together; `segments` in the network's order, `inputs` the layouts of the
/// program inputs.
pub fn link(
    network: &Network,
    recipe: &Recipe,
    inputs: &[Layout],
    segments: &[Arc<Segment>],
) -> Program {
    let mut linker = Linker {
        buffers: vec![],
        spans: vec![],
        steps: BTreeMap::new(),
        apart: vec![],
        held: vec![None; network.values.len()],
    };
    for (value, layout) in network.inputs.iter().zip(inputs) {
        linker.input(network, *value, layout);
    }
    let slots = slots(network, recipe, segments);
    for ((id, segment), slots) in network.node_ids().zip(segments).zip(&slots) {
        linker.segment(network, recipe, id, segment, slots);
    }
    linker.finish(network, recipe.tiles)
}

impl Linker {
    fn input(&mut self, network: &Network, value: ValueId, layout: &Layout) {
        let buffer = BufferId(self.buffers.len() as u32);
        self.buffers.push(Buffer {
            name: network.value(value).name.clone(),
            role: Role::Input,
            class: Class::Any,
            alignment: 32,
            tail: 32,
            sizes: layout.shard_bytes().into(),
            live: 0..0,
            fill: Some(Fill::Value { value, layout: layout.clone() }),
        });
        self.spans.push(None);
        let held = Held { buffer, layout: layout.clone() };
        self.held[value.0 as usize] = Some(held);
    }

    fn segment(
        &mut self,
        network: &Network,
        recipe: &Recipe,
        id: NodeId,
        segment: &Arc<Segment>,
        slots: &[Slot],
    ) {
        let node = network.node(id);
        let held = |value: &ValueId| {
            self.held[value.0 as usize].clone().expect("inputs are made before they are read")
        };
        let inputs: Vec<Held> = node.inputs.iter().map(held).collect();
        let first = self.buffers.len() as u32;
        for spec in &segment.buffers {
            self.buffers.push(named(&node.name, self.buffers.len(), spec));
            self.spans.push(None);
        }
        let own = (0..segment.buffers.len() as u32).map(|index| BufferId(first + index));
        let buffers: Arc<[BufferId]> = inputs.iter().map(|held| held.buffer).chain(own).collect();
        for apart in &segment.apart {
            self.apart.push((buffers[apart.0.0 as usize], buffers[apart.1.0 as usize]));
        }
        for (step, slot) in slots.iter().enumerate() {
            let part = Part {
                node: id,
                segment: Arc::clone(segment),
                step,
                buffers: Arc::clone(&buffers),
            };
            self.touch(&part, *slot);
            let (parts, modes) = self.steps.entry(*slot).or_default();
            parts.push(part);
            modes.push(recipe.nodes[id.0 as usize].exchange);
        }
        let buffer = buffers[segment.output.0 as usize];
        let result = Held { buffer, layout: segment.layout.clone() };
        if network.value(node.output).is_output {
            let found = &mut self.buffers[buffer.0 as usize];
            found.role = Role::Output;
            found.fill = Some(Fill::Value { value: node.output, layout: segment.layout.clone() });
        }
        self.held[node.output.0 as usize] = Some(result);
    }

    /// Extends the lifetime of every buffer that a part names.
    fn touch(&mut self, part: &Part, slot: Slot) {
        let mut extend = |reference: BufferRef| {
            let span = &mut self.spans[part.buffer(reference).0 as usize];
            *span = Some(match *span {
                None => (slot, slot),
                Some((first, last)) => (first.min(slot), last.max(slot)),
            });
        };
        match part.segment_step() {
            SegmentStep::Exchange(moves) => {
                for exchange in moves {
                    extend(exchange.from);
                    extend(exchange.to);
                }
            }
            SegmentStep::Compute(calls) => {
                for call in calls {
                    extend(call.output.buffer);
                    call.inputs.iter().for_each(|input| extend(input.buffer));
                }
            }
        }
    }

    fn finish(mut self, network: &Network, tiles: u16) -> Program {
        let number: BTreeMap<Slot, u32> = self.steps.keys().copied().zip(0..).collect();
        let count = number.len() as u32;
        for (buffer, span) in self.buffers.iter_mut().zip(&self.spans) {
            let (first, last) = span.map_or((0, 0), |(a, b)| (number[&a], number[&b]));
            buffer.live = match buffer.role {
                Role::Input => 0..last + 1,
                Role::Parameter => 0..count.max(1),
                Role::Scratch => first..last + 1,
                Role::Output => first..count.max(1),
            };
        }
        let steps = self.steps.into_iter().map(|((_, compute), (parts, modes))| {
            let same = modes.windows(2).all(|pair| pair[0] == pair[1]);
            let mode = if same { modes[0] } else { ExchangeMode::Automatic };
            let kind = if compute { StepKind::Compute } else { StepKind::Exchange(mode) };
            Step { kind, parts }
        });
        let steps = steps.collect();
        let held = |value: &ValueId| {
            let held = self.held[value.0 as usize].clone().expect("every value was linked");
            (*value, held.buffer, held.layout)
        };
        let inputs = network.inputs.iter().map(held).collect();
        let outputs = network.outputs.iter().map(held).collect();
        Program { tiles, buffers: self.buffers, steps, apart: self.apart, inputs, outputs }
    }
}

fn named(node: &str, index: usize, spec: &BufferSpec) -> Buffer {
    Buffer {
        name: format!("{node}.{}.{index}", spec.label),
        role: spec.role,
        class: spec.class,
        alignment: spec.alignment,
        tail: spec.tail,
        sizes: Arc::clone(&spec.sizes),
        live: 0..0,
        fill: spec.fill.clone(),
    }
}
