//! One tile's problem.

use std::ops::Range;

use crate::target::sram::{INTERLEAVED_START, MEMORY_END, MEMORY_START};

/// A buffer of one tile. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// Payload and whatever may be read beyond it.
    pub size: u32,
    /// A power of two.
    pub alignment: u32,
    /// Must lie in region 1 (`target/ipu21.md` §5.1).
    pub interleaved: bool,
    /// Steps during which it holds data.
    pub live: Range<u32>,
}

/// Buffers to place on one tile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Free ranges, ascending and disjoint. A buffer may not straddle two.
    pub free: Vec<Range<u32>>,
    /// What to place.
    pub buffers: Vec<Buffer>,
    /// Pairs of buffers that must not share a memory element while both live.
    pub apart: Vec<(usize, usize)>,
}

/// What is wrong with a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum ProblemError {
    /// An empty buffer, or one larger than a tile.
    #[error("buffer {buffer} has {size} bytes, expected 1 to {}", MEMORY_END.0 - MEMORY_START.0)]
    Size { buffer: usize, size: u32 },
    /// Not a power of two.
    #[error("buffer {buffer} has alignment {alignment}, expected a power of two")]
    Alignment { buffer: usize, alignment: u32 },
    /// A lifetime that ends before it starts.
    #[error("buffer {buffer} lives from step {start} to step {end}")]
    Lifetime { buffer: usize, start: u32, end: u32 },
    /// Free ranges that overlap or leave tile memory.
    #[error("free range {start:#x} to {end:#x} overlaps another or leaves tile memory")]
    Range { start: u32, end: u32 },
    /// A pair that names no two buffers.
    #[error("buffers {0} and {1} cannot lie apart")]
    Apart(usize, usize),
}

/// Why nothing fits: how many bytes are too many, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Region 1 alone is too small; else all free memory together.
    pub interleaved: bool,
    /// The step at which the most bytes live.
    pub step: u32,
    /// Bytes that live then beyond what is free.
    pub bytes_over: u32,
}

impl Problem {
    /// Checks what the solver takes for granted.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ProblemError> {
        let mut end = MEMORY_START.0;
        for range in &self.free {
            if range.start < end || range.end <= range.start || range.end > MEMORY_END.0 {
                return Err(ProblemError::Range { start: range.start, end: range.end });
            }
            end = range.end;
        }
        for (buffer, found) in self.buffers.iter().enumerate() {
            let size = found.size;
            if size == 0 || size > MEMORY_END.0 - MEMORY_START.0 {
                return Err(ProblemError::Size { buffer, size });
            }
            if !found.alignment.is_power_of_two() {
                return Err(ProblemError::Alignment { buffer, alignment: found.alignment });
            }
            if found.live.is_empty() {
                let Range { start, end } = found.live;
                return Err(ProblemError::Lifetime { buffer, start, end });
            }
        }
        for &(a, b) in &self.apart {
            if a == b || a.max(b) >= self.buffers.len() {
                return Err(ProblemError::Apart(a, b));
            }
        }
        Ok(())
    }

    /// The proof that no placement exists, if bytes alone give one.
    pub fn shortage(&self) -> Option<Shortage> {
        let room = |from: u32| -> u64 {
            let inside =
                self.free.iter().map(|range| range.end.saturating_sub(range.start.max(from)));
            inside.map(u64::from).sum()
        };
        let over = |interleaved: bool, room: u64| {
            let (step, most) = self.most_live(interleaved)?;
            let bytes_over = most.checked_sub(room).filter(|over| *over > 0)?;
            Some(Shortage { interleaved, step, bytes_over: bytes_over as u32 })
        };
        over(true, room(INTERLEAVED_START.0)).or_else(|| over(false, room(0)))
    }

    /// Step and bytes of the highest demand; with `interleaved` of that class alone.
    fn most_live(&self, interleaved: bool) -> Option<(u32, u64)> {
        let mut changes: Vec<(u32, i64)> = vec![];
        for buffer in self.buffers.iter().filter(|buffer| buffer.interleaved || !interleaved) {
            changes.push((buffer.live.start, i64::from(buffer.size)));
            changes.push((buffer.live.end, -i64::from(buffer.size)));
        }
        changes.sort_unstable();
        let mut live = 0;
        let mut most: Option<(u32, u64)> = None;
        for (step, change) in changes {
            live += change;
            if most.is_none_or(|(_, bytes)| live as u64 > bytes) {
                most = Some((step, live as u64));
            }
        }
        most
    }
}
