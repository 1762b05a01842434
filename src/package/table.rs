//! A tile's exchange table: the rows that its program calls, those that are equal stored once.
//!
//! Rows are only read, so the same words do for every phase that wants them. Rows that differ in
//! addresses alone are kept apart: to make one of another, the tile's program would have to change its
//! words before the call (`target/ipu21.md` §2.6), at 9 to 31 cycles a word (§6.4).

use rustc_hash::FxHashMap;

use crate::target::Bytes;

/// The rows of one tile, each at a multiple of 8 bytes.
#[derive(Clone, Debug)]
pub struct RowTable<'a> {
    places: FxHashMap<&'a [u32], Bytes>,
    rows: Vec<&'a [u32]>,
    size: Bytes,
}

impl Default for RowTable<'_> {
    fn default() -> Self {
        RowTable { places: FxHashMap::default(), rows: vec![], size: RowTable::IDLE }
    }
}

impl<'a> RowTable<'a> {
    /// Size of the row that only returns, which every table begins with.
    pub const IDLE: Bytes = Bytes(8);

    /// Where a row begins, counted from the start of the table: where an equal one already lies, or
    /// else behind all others.
    pub fn place(&mut self, row: &'a [u32]) -> Bytes {
        let (rows, size) = (&mut self.rows, &mut self.size);
        *self.places.entry(row).or_insert_with(|| {
            rows.push(row);
            let bytes = (4 * row.len() as u32).next_multiple_of(8);
            std::mem::replace(size, Bytes(size.0 + bytes))
        })
    }

    /// Bytes so far.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// All words, where `idle` is the one that returns.
    pub fn words(&self, idle: u32) -> Vec<u32> {
        let mut words = vec![idle, 0];
        for row in &self.rows {
            words.extend_from_slice(row);
            words.resize(words.len().next_multiple_of(2), 0);
        }
        words
    }
}
