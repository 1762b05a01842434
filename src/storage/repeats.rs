//! Blocks of one size at one stride, as the parameters of repeated layers lie
//! (`target/ipu21.md` §5.3): how a problem with them becomes one without.
//!
//! The blocks of a repeat become one buffer, from the first block's start to the last one's end, with
//! the given stride or the least that is legal. Nothing else is put between its blocks, which is quick
//! and mostly enough, and an answer of the joined problem is one of the problem itself; that there is
//! none says something of it only where the stride was given, leaves no gaps, and all blocks have the
//! same rules. Where gaps are needed, [`super::strides`] looks for them.

use std::ops::Range;

use super::place::Proof;
use super::problem::{Buffer, Held, Problem, Region};
use super::ranges::union;

/// Blocks that lie at `base`, `base + stride`, `base + 2 · stride`, and so on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Repeat {
    /// Buffers of one size, at least two.
    pub blocks: Vec<usize>,
    /// Bytes from block to block: a multiple of 4 and of every block's alignment, no less than the
    /// size. Any such number if `None`.
    pub stride: Option<u32>,
}

/// What a repeat must be and is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum RepeatRule {
    /// Nothing repeats.
    #[error("{0} blocks, expected at least 2")]
    Few(usize),
    /// No buffer has that number, or it is a block already.
    #[error("block {0} is no buffer, or a block twice")]
    Block(usize),
    /// Sizes differ.
    #[error("blocks of {0} and {1} bytes, expected one size")]
    Sizes(u32, u32),
    /// Standard and interleaved blocks.
    #[error("blocks in standard and in interleaved memory, expected one region")]
    Regions,
    /// One block above the other's end, or at no legal address.
    #[error("stride {stride}, expected a multiple of {multiple} and at least {size}")]
    Stride { stride: u32, multiple: u32, size: u32 },
    /// More than a tile has.
    #[error("{blocks} blocks with stride {stride} are larger than a tile")]
    Large { blocks: usize, stride: u32 },
    /// A block has another buffer's address.
    #[error("block {0} has an alias")]
    Alias(usize),
    /// Blocks lie side by side.
    #[error("blocks {0} and {1} must lie apart")]
    Apart(usize, usize),
}

impl Repeat {
    /// Checks the rules that the solver takes for granted; `taken` says which buffers are blocks.
    pub(super) fn check(&self, problem: &Problem, taken: &mut [bool]) -> Result<(), RepeatRule> {
        if self.blocks.len() < 2 {
            return Err(RepeatRule::Few(self.blocks.len()));
        }
        for &block in &self.blocks {
            if taken.get(block).is_none_or(|taken| *taken) {
                return Err(RepeatRule::Block(block));
            }
            taken[block] = true;
        }
        let buffers = || self.blocks.iter().map(|block| &problem.buffers[*block]);
        let size = problem.buffers[self.blocks[0]].size;
        if let Some(other) = buffers().find(|buffer| buffer.size != size) {
            return Err(RepeatRule::Sizes(size, other.size));
        }
        let has = |region| buffers().any(|buffer| buffer.region == region);
        if has(Region::Standard) && has(Region::Interleaved) {
            return Err(RepeatRule::Regions);
        }
        let (multiple, blocks) = (self.alignment(problem), self.blocks.len());
        let stride = self.stride(problem);
        if !stride.is_multiple_of(multiple) || stride < size {
            return Err(RepeatRule::Stride { stride, multiple, size });
        }
        let last = (blocks as u64 - 1) * u64::from(stride);
        if last + u64::from(size) > u64::from(super::problem::MOST_BYTES) {
            return Err(RepeatRule::Large { blocks, stride });
        }
        let is_block = |buffer: &usize| self.blocks.contains(buffer);
        if let Some((a, b)) = problem.aliases.iter().find(|(a, b)| is_block(a) || is_block(b)) {
            return Err(RepeatRule::Alias(if is_block(a) { *a } else { *b }));
        }
        match problem.apart.iter().find(|(a, b)| is_block(a) && is_block(b)) {
            Some((a, b)) => Err(RepeatRule::Apart(*a, *b)),
            None => Ok(()),
        }
    }

    /// The largest alignment of any block: a power of two, so a multiple of the others.
    pub(super) fn base_alignment(&self, problem: &Problem) -> u32 {
        let blocks = self.blocks.iter().map(|block| problem.buffers[*block].alignment);
        blocks.max().unwrap_or(1)
    }

    /// What a stride is a multiple of: whole words, and every block's alignment.
    pub(super) fn alignment(&self, problem: &Problem) -> u32 {
        self.base_alignment(problem).max(4)
    }

    /// The given stride, or the least that is legal.
    fn stride(&self, problem: &Problem) -> u32 {
        let size = problem.buffers[self.blocks[0]].size;
        self.stride.unwrap_or_else(|| size.next_multiple_of(self.alignment(problem)))
    }

    /// One buffer for all blocks.
    fn joined(&self, problem: &Problem) -> Buffer {
        let blocks: Vec<&Buffer> =
            self.blocks.iter().map(|block| &problem.buffers[*block]).collect();
        let each = |part: fn(&Buffer) -> &Vec<Range<u32>>| {
            blocks.iter().flat_map(move |block| part(block).iter().cloned())
        };
        let region =
            blocks.iter().map(|block| block.region).find(|region| *region != Region::Either);
        Buffer {
            size: (self.blocks.len() as u32 - 1) * self.stride(problem) + blocks[0].size,
            alignment: blocks.iter().map(|block| block.alignment).max().unwrap_or(1),
            region: region.unwrap_or_default(),
            live: union(each(|block| &block.live).collect()),
            forbidden: each(|block| &block.forbidden).collect(),
            preferred: vec![],
            untouched: blocks.iter().any(|block| block.untouched),
        }
    }

    /// Whether the joined buffer can lie exactly where the blocks can.
    fn is_exact(&self, problem: &Problem) -> bool {
        let blocks = || self.blocks.iter().map(|block| &problem.buffers[*block]);
        let first = &problem.buffers[self.blocks[0]];
        let same = |block: &Buffer| {
            (&block.live, block.region, block.untouched)
                == (&first.live, first.region, first.untouched)
        };
        // Blocks could lie in two free ranges that touch, the joined buffer lies in one.
        let touching = problem.free.windows(2).any(|pair| pair[0].end == pair[1].start);
        let in_pair = |(a, b): &(usize, usize)| self.blocks.contains(a) || self.blocks.contains(b);
        self.stride == Some(first.size)
            && !touching
            && blocks().all(|block| same(block) && block.forbidden.is_empty())
            && !problem.apart.iter().any(in_pair)
    }
}

/// A problem without repeats.
pub(super) struct Joined {
    pub(super) problem: Problem,
    /// That it has no answer proves that the problem with repeats has none.
    pub(super) exact: bool,
    /// For every buffer of the problem with repeats: the joined one, and bytes from its start.
    places: Vec<(usize, u32)>,
}

impl Joined {
    pub(super) fn of(problem: &Problem) -> Joined {
        let mut places: Vec<(usize, u32)> = vec![(usize::MAX, 0); problem.buffers.len()];
        let mut buffers = vec![];
        for repeat in &problem.repeats {
            for (number, block) in (0..).zip(&repeat.blocks) {
                places[*block] = (buffers.len(), number * repeat.stride(problem));
            }
            buffers.push(repeat.joined(problem));
        }
        for (place, buffer) in places.iter_mut().zip(&problem.buffers) {
            if place.0 == usize::MAX {
                *place = (buffers.len(), 0);
                buffers.push(buffer.clone());
            }
        }
        let pairs = |pairs: &[(usize, usize)]| -> Vec<(usize, usize)> {
            let mut found: Vec<_> =
                pairs.iter().map(|(a, b)| (places[*a].0, places[*b].0)).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        let joined = Problem {
            free: problem.free.clone(),
            apart: pairs(&problem.apart),
            aliases: pairs(&problem.aliases),
            buffers,
            repeats: vec![],
        };
        let exact = problem.repeats.iter().all(|repeat| repeat.is_exact(problem));
        Joined { problem: joined, exact, places }
    }

    /// What the buffers of the problem with repeats wish of those of the joined one: a block of its
    /// repeat, that this begins so many bytes below where the block may.
    pub(super) fn wishes(&self, problem: &Problem) -> Vec<Held> {
        let shifted = |(index, buffer): (usize, &Buffer)| {
            let (joined, offset) = self.places[index];
            let below = |range: Range<u32>| {
                range.start.saturating_sub(offset)..range.end.saturating_sub(offset)
            };
            let starts = buffer.wish().into_iter().map(below).filter(|range| !range.is_empty());
            (!buffer.preferred.is_empty()).then(|| (joined, starts.collect()))
        };
        problem.buffers.iter().enumerate().filter_map(shifted).collect()
    }

    /// Addresses of the problem with repeats.
    pub(super) fn apply(&self, addresses: &[u32]) -> Vec<u32> {
        self.places.iter().map(|(joined, offset)| addresses[*joined] + offset).collect()
    }

    /// What a proof about the joined problem says of the one with repeats: those come first, in order.
    pub(super) fn proof(&self, proof: Proof) -> Proof {
        let repeats =
            self.places.iter().filter(|(_, offset)| *offset > 0).map(|(joined, _)| joined);
        let is_repeat = |buffer| repeats.clone().any(|repeat| *repeat == buffer);
        match proof {
            Proof::Alone { buffer, bytes_over } if is_repeat(buffer) => {
                let bytes = self.problem.buffers[buffer].size;
                Proof::Repeat { repeat: buffer, bytes, bytes_over }
            }
            Proof::Alone { buffer, bytes_over } => {
                Proof::Alone { buffer: self.first(buffer), bytes_over }
            }
            Proof::NoAddress { buffer } => Proof::NoAddress { buffer: self.first(buffer) },
            other => other,
        }
    }

    /// A buffer of the problem with repeats that is in a joined one.
    pub(super) fn first(&self, joined: usize) -> usize {
        self.places.iter().position(|(found, _)| *found == joined).unwrap_or(0)
    }
}
