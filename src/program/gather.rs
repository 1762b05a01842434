//! Bringing pieces of a value to the tiles that need them: which runs of granules go where.
//!
//! A demand is a rectangle of granules (or the same rows of several strip ranges) that one or more
//! tiles want in a given order. Owners multicast what they have; what a tile has itself is copied
//! by kernels. Runs are as long as both orders allow.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::kernels::{Kernel, right_column};
use crate::plan::layout::{GRANULE, GRANULE_WORDS, PANEL};
use crate::plan::{Layout, Order, Shard, cut};
use crate::target::TileId;

use super::segment::{BufferRef, Call, Move, Place, Run};

/// Order of the granules in a demanded piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// All rows of the first strip, then of the next: AMP left, block by block.
    Strips,
    /// Row-major inside each block.
    Rows,
    /// Right panels whose columns are the value's rows: the transposed value as a right operand,
    /// block by block.
    Transposed,
    /// Right panels of a value in panels order, block by block.
    Panels,
}

/// What some tiles want of a value.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Who wants it, ascending.
    pub tiles: Vec<TileId>,
    /// Rows; for panels and transposed pieces the start is a multiple of 16.
    pub rows: Range<u32>,
    /// Strip ranges, all of the same length, stored one after the other.
    pub strips: Vec<Range<u32>>,
}

/// What has to happen for all demands to be met.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Receiver sets of the runs.
    pub groups: Vec<Arc<[TileId]>>,
    /// Transfers.
    pub runs: Vec<Run>,
    /// Copies of what already lies on the tile.
    pub copies: Vec<Call>,
}

impl Demand {
    fn row_count(&self) -> u32 {
        self.rows.end - self.rows.start
    }

    /// Granules of the piece, padding rows included where the arrangement has them.
    pub fn granules(&self, arrangement: Arrangement) -> u32 {
        let strips: u32 = self.strips.iter().map(|range| range.end - range.start).sum();
        match arrangement {
            Arrangement::Strips | Arrangement::Rows => self.row_count() * strips,
            Arrangement::Transposed | Arrangement::Panels => {
                self.row_count().next_multiple_of(PANEL) * strips
            }
        }
    }

    /// Place of granule (row, strip of range `q`) in the piece.
    fn index(&self, arrangement: Arrangement, block: u32, q: u32, row: u32, strip: u32) -> u32 {
        let range = &self.strips[q as usize];
        let (r, s, width) = (row - self.rows.start, strip - range.start, range.end - range.start);
        let rows = self.row_count();
        match arrangement {
            Arrangement::Strips => (q * width + s) * rows + r,
            Arrangement::Rows => {
                let b = strip / block - range.start / block;
                (b * rows + r) * block + strip % block
            }
            Arrangement::Transposed => {
                let panels = rows.div_ceil(PANEL);
                let panel = (q * panels + r / PANEL) * width + s;
                panel * PANEL + right_column(r % PANEL)
            }
            Arrangement::Panels => {
                let panels = rows.div_ceil(PANEL);
                ((q * width + s) * panels + r / PANEL) * PANEL
            }
        }
    }
}

/// A run of granules: source index, destination index, length.
type Span = (u32, u32, u32);

/// Where a value lies and where its pieces go.
pub struct Gather<'a> {
    /// Layout of the value.
    pub source: &'a Layout,
    /// Strips of one of its blocks.
    pub block: u32,
    /// Order of the demanded pieces.
    pub arrangement: Arrangement,
    /// Buffer of the value.
    pub from: BufferRef,
    /// Buffer of the pieces.
    pub to: BufferRef,
}

impl Gather<'_> {
    /// Meets all demands.
    pub fn meet(&self, demands: &[Demand]) -> Gathered {
        let mut gathered = Gathered::default();
        let mut spans = vec![];
        for demand in demands {
            let mut groups: BTreeMap<Option<TileId>, u32> = BTreeMap::new();
            for (q, strips) in (0..).zip(&demand.strips) {
                for i in cut::overlapping(&self.source.rows, &demand.rows) {
                    for j in cut::overlapping(&self.source.strips, strips) {
                        let shard = self.source.shard(i, j);
                        let own = demand.tiles.binary_search(&shard.tile).is_ok();
                        if own {
                            self.spans(demand, q, &shard, true, &mut spans);
                            copies(shard.tile, self.from, self.to, &spans, &mut gathered.copies);
                        }
                        if demand.tiles.len() > usize::from(own) {
                            let key = own.then_some(shard.tile);
                            let group = *groups.entry(key).or_insert_with(|| {
                                let others = demand.tiles.iter().copied();
                                let others = others.filter(|tile| Some(*tile) != key);
                                gathered.groups.push(others.collect());
                                gathered.groups.len() as u32 - 1
                            });
                            self.spans(demand, q, &shard, false, &mut spans);
                            gathered.runs.extend(spans.iter().map(|&(from, to, length)| Run {
                                source: shard.tile,
                                group,
                                from: from * GRANULE,
                                to: to * GRANULE,
                                words: length * GRANULE_WORDS,
                            }));
                        }
                    }
                }
            }
        }
        gathered
    }

    /// The runs of what `shard` and range `q` of a demand have in common. With `few_rows` the longer
    /// side of the rectangle varies fastest, so that equal runs follow each other.
    fn spans(&self, demand: &Demand, q: u32, shard: &Shard, few_rows: bool, spans: &mut Vec<Span>) {
        spans.clear();
        let range = &demand.strips[q as usize];
        let rows = demand.rows.start.max(shard.rows.start)..demand.rows.end.min(shard.rows.end);
        let strips = range.start.max(shard.strips.start)..range.end.min(shard.strips.end);
        let order = self.source.order;
        let pair = |row: u32, strip: u32| {
            let from = shard.index(order, self.block, row, strip);
            (from, demand.index(self.arrangement, self.block, q, row, strip))
        };
        if order == Order::Panels {
            for strip in strips {
                for row in rows.clone().step_by(PANEL as usize) {
                    let (from, to) = pair(row, strip);
                    extend(spans, from, to, PANEL);
                }
            }
            return;
        }
        if order == Order::Strips && self.arrangement == Arrangement::Strips {
            for strip in strips {
                let (from, to) = pair(rows.start, strip);
                extend(spans, from, to, rows.end - rows.start);
            }
            return;
        }
        let row_major = order == Order::Rows && self.arrangement == Arrangement::Rows
            || (few_rows
                && rows.len() < strips.len()
                && self.arrangement != Arrangement::Transposed);
        if row_major {
            for row in rows {
                for strip in strips.clone() {
                    let (from, to) = pair(row, strip);
                    extend(spans, from, to, 1);
                }
            }
        } else {
            for strip in strips {
                for row in rows.clone() {
                    let (from, to) = pair(row, strip);
                    extend(spans, from, to, 1);
                }
            }
        }
    }
}

/// Adds a run, or lengthens the last one where both sides continue.
fn extend(spans: &mut Vec<Span>, from: u32, to: u32, length: u32) {
    if let Some(last) = spans.last_mut()
        && last.0 + last.2 == from
        && last.1 + last.2 == to
    {
        last.2 += length;
        return;
    }
    spans.push((from, to, length));
}

/// Copies for runs on one tile: equal runs at equal distances become one strided copy.
fn copies(tile: TileId, from: BufferRef, to: BufferRef, spans: &[Span], calls: &mut Vec<Call>) {
    let mut at = 0;
    while at < spans.len() {
        let (source, destination, length) = spans[at];
        let mut count = 1;
        let mut pitch = (0, 0);
        while let Some(&(next_source, next_destination, next_length)) = spans.get(at + count) {
            let previous = spans[at + count - 1];
            let step =
                (next_source.wrapping_sub(previous.0), next_destination.wrapping_sub(previous.1));
            let forward = next_source > previous.0 && next_destination > previous.1;
            if next_length != length || !forward || (count > 1 && step != pitch) {
                break;
            }
            pitch = step;
            count += 1;
        }
        let place = |buffer, granule: u32| Place { buffer, offset: granule * GRANULE };
        let bytes = length * GRANULE;
        let (kernel, scalars) = if count == 1 {
            (Kernel::Copy, vec![bytes])
        } else {
            let (out_pitch, in_pitch) = (pitch.1 * GRANULE, pitch.0 * GRANULE);
            (Kernel::StridedCopy, vec![count as u32, bytes, out_pitch, in_pitch])
        };
        let (output, inputs) = (place(to, destination), vec![place(from, source)]);
        calls.push(Call { tile, kernel, output, inputs, scalars });
        at += count;
    }
}

impl Gathered {
    /// The transfers as one move; `None` if nothing has to move.
    pub fn exchange(&mut self, from: BufferRef, to: BufferRef) -> Option<Move> {
        if self.runs.is_empty() {
            return None;
        }
        let (groups, runs) = (std::mem::take(&mut self.groups), std::mem::take(&mut self.runs));
        Some(Move { from, to, groups, runs })
    }
}
