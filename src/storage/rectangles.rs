//! Plain rectangles: buffers with a size and a lifetime in one range of memory, as CSV files
//! (`id,lower,upper,size` in any order, lifetimes half-open). An `offset` that is there is ignored,
//! any other column is refused: it may be a constraint.

use super::branch::{Found, Limits};
use super::items::{Item, Items};
use super::place;

/// Rectangles to place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rectangles {
    /// What to place.
    pub buffers: Vec<Rectangle>,
}

/// A buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rectangle {
    /// Its name.
    pub id: String,
    /// The first step that it lives in.
    pub lower: u32,
    /// The first step after it.
    pub upper: u32,
    /// Bytes.
    pub size: u32,
}

/// What came of rectangles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RectangleOutcome {
    /// An offset for every buffer.
    Placed(Vec<u32>),
    /// Proved: nothing fits.
    Impossible,
    /// Nothing found within the budget.
    Unknown {
        /// Nodes of all searches together.
        nodes: u64,
    },
}

/// What is wrong with a file of rectangles.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum RectangleError {
    /// A first line without the columns.
    #[error("line 1: no column `{column}`")]
    Column { column: &'static str },
    /// A column that may be a constraint, or is there twice.
    #[error("line 1: column `{column}` is unknown or there twice")]
    Surplus { column: String },
    /// A row that has not the first line's columns.
    #[error("line {line}: {found} values, expected {expected}")]
    Values { line: usize, found: usize, expected: usize },
    /// Not a number, or none that fits.
    #[error("line {line}: `{found}` is no {column} from 0 to {}", u32::MAX)]
    Number { line: usize, column: &'static str, found: String },
    /// A buffer that is empty or ends before it starts.
    #[error("line {line}: a buffer of {size} bytes from {lower} to {upper}")]
    Empty { line: usize, size: u32, lower: u32, upper: u32 },
    /// An identity that was there before.
    #[error("line {line}: `{id}` is there twice")]
    Twice { line: usize, id: String },
}

impl RectangleError {
    /// What the user can do.
    pub fn hint(&self) -> String {
        let hint = match self {
            RectangleError::Column { .. } => {
                "the first line names the columns: `id,lower,upper,size`"
            }
            RectangleError::Surplus { .. } => "the columns are `id`, `lower`, `upper` and `size`",
            RectangleError::Values { .. } => "one value for each column of the first line",
            RectangleError::Number { .. } => "whole numbers without sign, unit or separators",
            RectangleError::Empty { .. } => "`size` from 1, and `upper` above `lower`",
            RectangleError::Twice { .. } => "every buffer needs an `id` of its own",
        };
        hint.to_owned()
    }
}

/// The order of the columns in a file.
struct Columns {
    count: usize,
    id: usize,
    lower: usize,
    upper: usize,
    size: usize,
}

impl Rectangles {
    /// Reads a file's text.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn from_csv(text: &str) -> Result<Rectangles, RectangleError> {
        let mut lines = (1..).zip(text.lines());
        let header: Vec<&str> =
            lines.next().map_or(vec![], |(_, line)| line.split(',').map(str::trim).collect());
        let place = |column: &'static str| {
            let found = header.iter().position(|name| *name == column);
            found.ok_or(RectangleError::Column { column })
        };
        let columns = Columns {
            count: header.len(),
            id: place("id")?,
            lower: place("lower")?,
            upper: place("upper")?,
            size: place("size")?,
        };
        let expected = ["id", "lower", "upper", "size", "offset"];
        for (at, column) in header.iter().enumerate() {
            if !expected.contains(column) || header[..at].contains(column) {
                return Err(RectangleError::Surplus { column: (*column).to_owned() });
            }
        }
        let mut known = std::collections::BTreeSet::new();
        let mut buffers = vec![];
        for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
            let buffer = rectangle(line, text, &columns)?;
            if !known.insert(buffer.id.clone()) {
                return Err(RectangleError::Twice { line, id: buffer.id });
            }
            buffers.push(buffer);
        }
        Ok(Rectangles { buffers })
    }

    /// The file's rows with an `offset` column.
    pub fn to_csv(&self, offsets: &[u32]) -> String {
        let mut text = "id,lower,upper,size,offset\n".to_owned();
        for (Rectangle { id, lower, upper, size }, offset) in self.buffers.iter().zip(offsets) {
            text.push_str(&format!("{id},{lower},{upper},{size},{offset}\n"));
        }
        text
    }

    /// The most bytes that live at one time: no placement is lower.
    pub fn bound(&self) -> u64 {
        self.fullest().1
    }

    /// The first step at which the most bytes live, and how many.
    pub fn fullest(&self) -> (u32, u64) {
        let mut changes: Vec<(u32, bool, u64)> = vec![];
        for Rectangle { lower, upper, size, .. } in &self.buffers {
            changes.push((*lower, true, u64::from(*size)));
            changes.push((*upper, false, u64::from(*size)));
        }
        // At one step ends come before starts: lifetimes are half-open.
        changes.sort_unstable();
        let (mut live, mut fullest) = (0, (0, 0));
        for (step, starts, size) in changes {
            live = if starts { live + size } else { live - size };
            if live > fullest.1 {
                fullest = (step, live);
            }
        }
        fullest
    }

    /// The end of the highest buffer.
    pub fn height(&self, offsets: &[u32]) -> u64 {
        let ends = self.buffers.iter().zip(offsets);
        ends.map(|(buffer, offset)| u64::from(*offset) + u64::from(buffer.size)).max().unwrap_or(0)
    }

    /// Places all within a capacity and a budget of search nodes.
    pub fn place(&self, capacity: u32, budget: u64) -> RectangleOutcome {
        if self.bound() > u64::from(capacity) {
            return RectangleOutcome::Impossible;
        }
        match place::solve(&self.items(capacity), Limits { nodes: budget, stop: None }) {
            (Found::Placed(offsets), _) => RectangleOutcome::Placed(offsets),
            (Found::Nothing, _) => RectangleOutcome::Impossible,
            (Found::Unknown(_), nodes) => RectangleOutcome::Unknown { nodes },
        }
    }

    /// Two buffers that overlap, or one that ends above the capacity: what is wrong with offsets.
    /// It knows nothing of how they were found.
    pub fn violation(&self, capacity: u32, offsets: &[u32]) -> Option<String> {
        if offsets.len() != self.buffers.len() {
            return Some(format!("{} offsets for {} buffers", offsets.len(), self.buffers.len()));
        }
        let end = |index: usize| u64::from(offsets[index]) + u64::from(self.buffers[index].size);
        let mut by_time: Vec<usize> = (0..self.buffers.len()).collect();
        by_time.sort_by_key(|index| self.buffers[*index].lower);
        let mut live: Vec<usize> = vec![];
        for index in by_time {
            let buffer = &self.buffers[index];
            if end(index) > u64::from(capacity) {
                return Some(format!("`{}` ends at {}", buffer.id, end(index)));
            }
            live.retain(|earlier| buffer.lower < self.buffers[*earlier].upper);
            for &earlier in &live {
                let (from, other_from) = (u64::from(offsets[index]), u64::from(offsets[earlier]));
                if from < end(earlier) && other_from < end(index) {
                    let other = &self.buffers[earlier];
                    return Some(format!("`{}` and `{}` overlap", other.id, buffer.id));
                }
            }
            live.push(index);
        }
        None
    }

    fn items(&self, capacity: u32) -> Items {
        #[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
        let ranges = vec![0..capacity];
        let item = |buffer: &Rectangle| Item {
            spans: vec![(buffer.lower..buffer.upper, buffer.size)],
            alignment: 1,
            ranges: ranges.clone(),
        };
        Items::new(self.buffers.iter().map(item).collect(), ranges.clone(), &[])
    }
}

fn rectangle(line: usize, text: &str, columns: &Columns) -> Result<Rectangle, RectangleError> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    if fields.len() != columns.count {
        return Err(RectangleError::Values { line, found: fields.len(), expected: columns.count });
    }
    let number = |column: &'static str, at: usize| {
        let found = fields[at];
        let wrong = |_| RectangleError::Number { line, column, found: found.to_owned() };
        found.parse::<u32>().map_err(wrong)
    };
    let (lower, upper) = (number("lower", columns.lower)?, number("upper", columns.upper)?);
    let size = number("size", columns.size)?;
    if size == 0 || upper <= lower {
        return Err(RectangleError::Empty { line, size, lower, upper });
    }
    Ok(Rectangle { id: fields[columns.id].to_owned(), lower, upper, size })
}
