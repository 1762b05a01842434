//! What is to be placed: rectangles from a CSV file, or a tile's problem from a JSON file.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::storage::file::PlacementFile;
use crate::storage::rectangles::{RectangleOutcome, Rectangles};
use crate::storage::{Crowded, Outcome, Problem, Proof, Region, place_within};

use super::super::error::CliError;

/// A file's problem.
pub(super) struct Task {
    pub(super) path: PathBuf,
    pub(super) name: String,
    form: Form,
}

/// The two forms of a problem.
enum Form {
    Rectangles { capacity: u32, rectangles: Rectangles },
    Tile { file: Box<PlacementFile>, problem: Problem },
}

/// What came of it.
pub(super) enum Verdict {
    /// An address for every buffer.
    Placed(Vec<u32>),
    /// Nothing fits, which is proved.
    Impossible(Shortage),
    /// Nothing was found in so many nodes.
    Unknown { nodes: u64 },
}

/// Where bytes are missing, or where the fewest are to spare.
pub(super) struct Shortage {
    pub(super) step: u32,
    pub(super) region: Region,
    pub(super) bytes: Bytes,
    /// The buffer that does not fit even alone, with those that have its address, or as the first block
    /// of its repeat.
    pub(super) buffer: Option<String>,
    /// The blocks of its repeat, and the bytes that they take together.
    pub(super) blocks: Option<(usize, u32)>,
    /// Memory elements are what is short: for a pair of buffers, or for all pairs together.
    pub(super) apart: Option<Option<[String; 2]>>,
}

/// How many bytes.
#[derive(Clone, Copy)]
pub(super) enum Bytes {
    /// Too many.
    Over(u64),
    /// To spare, though nothing fits.
    Spare(u64),
    /// Not to blame: no address is legal for all buffers that have one.
    Enough,
}

impl Task {
    /// Reads a file; what it is called says of which form it is.
    pub(super) fn read(path: &Path, capacity: Option<u32>) -> Result<Task, CliError> {
        let path = path.to_owned();
        let text = std::fs::read_to_string(&path)
            .map_err(|source| CliError::Unreadable { path: path.clone(), source })?;
        // Some editors begin text with a byte-order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            return Task::tile(path, text, capacity);
        }
        let rectangles = Rectangles::from_csv(text)
            .map_err(|what| CliError::Rectangles { path: path.clone(), what })?;
        let (name, number) = named(&path);
        let capacity = match (capacity, number) {
            (Some(capacity), _) => capacity,
            (None, Some(number)) => number
                .parse()
                .map_err(|_| CliError::LargeCapacity { path: path.clone(), found: number })?,
            (None, None) => return Err(CliError::NoCapacity { path }),
        };
        Ok(Task { path, name, form: Form::Rectangles { capacity, rectangles } })
    }

    fn tile(path: PathBuf, text: &str, capacity: Option<u32>) -> Result<Task, CliError> {
        let (file, problem) = PlacementFile::from_json(text)
            .map_err(|what| CliError::Placement { path: path.clone(), what })?;
        if capacity.is_some() {
            return Err(CliError::SurplusCapacity { path });
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Task { path, name, form: Form::Tile { file: Box::new(file), problem } })
    }

    /// Bytes to place into.
    pub(super) fn capacity(&self) -> u64 {
        match &self.form {
            Form::Rectangles { capacity, .. } => u64::from(*capacity),
            Form::Tile { problem, .. } => problem.capacity(),
        }
    }

    /// Where a user can give it more memory.
    pub(super) fn more_memory(&self) -> &'static str {
        match &self.form {
            Form::Rectangles { .. } => "a larger `--capacity`",
            Form::Tile { .. } => "more memory in `free`",
        }
    }

    /// The first step at which the most bytes live, and how many.
    pub(super) fn fullest(&self) -> (u32, u64) {
        match &self.form {
            Form::Rectangles { rectangles, .. } => rectangles.fullest(),
            Form::Tile { problem, .. } => problem.fullest(),
        }
    }

    /// Bytes below the end of the highest buffer.
    pub(super) fn height(&self, addresses: &[u32]) -> u64 {
        match &self.form {
            Form::Rectangles { rectangles, .. } => rectangles.height(addresses),
            Form::Tile { problem, .. } => problem.height(addresses),
        }
    }

    /// Places everything; addresses have not been checked.
    pub(super) fn solve(&self, nodes: u64) -> Verdict {
        match &self.form {
            Form::Rectangles { capacity, rectangles } => match rectangles.place(*capacity, nodes) {
                RectangleOutcome::Placed(offsets) => Verdict::Placed(offsets),
                RectangleOutcome::Impossible => Verdict::Impossible(self.overfull()),
                RectangleOutcome::Unknown { nodes } => Verdict::Unknown { nodes },
            },
            Form::Tile { file, problem } => match place_within(problem, nodes) {
                Outcome::Placed(addresses) => Verdict::Placed(addresses),
                Outcome::Impossible(proof) => Verdict::Impossible(shortage(file, problem, &proof)),
                Outcome::Unknown { nodes, .. } => Verdict::Unknown { nodes },
            },
        }
    }

    /// Bytes too many at the fullest step, or to spare there.
    fn overfull(&self) -> Shortage {
        let ((step, live), capacity) = (self.fullest(), self.capacity());
        let bytes = if live > capacity {
            Bytes::Over(live - capacity)
        } else {
            Bytes::Spare(capacity - live)
        };
        Shortage { step, region: Region::Either, bytes, buffer: None, blocks: None, apart: None }
    }

    /// What is wrong with addresses, by rules that know nothing of how they were found.
    pub(super) fn violation(&self, addresses: &[u32]) -> Option<String> {
        match &self.form {
            Form::Rectangles { capacity, rectangles } => rectangles.violation(*capacity, addresses),
            Form::Tile { file, .. } => file.misplaced(addresses).first().map(ToString::to_string),
        }
    }

    /// The file again, with addresses.
    pub(super) fn answer(&self, addresses: &[u32]) -> String {
        match &self.form {
            Form::Rectangles { rectangles, .. } => rectangles.to_csv(addresses),
            Form::Tile { file, .. } => file.to_json(addresses),
        }
    }

    /// A picture.
    pub(super) fn to_svg(&self, addresses: &[u32]) -> String {
        match &self.form {
            Form::Rectangles { capacity, rectangles } => rectangles.to_svg(*capacity, addresses),
            Form::Tile { file, problem } => file.to_svg(problem, addresses),
        }
    }

    /// What a tile's problem tells in JSON beside the figures of both forms.
    pub(super) fn details(&self, verdict: &Verdict) -> Map<String, Value> {
        let Form::Tile { file, .. } = &self.form else { return Map::new() };
        let addresses = match verdict {
            Verdict::Placed(addresses) => {
                let named = file.buffers.iter().zip(addresses);
                named.map(|(buffer, address)| (buffer.name.clone(), json!(address))).collect()
            }
            Verdict::Impossible(_) | Verdict::Unknown { .. } => Value::Null,
        };
        let shortage = match verdict {
            Verdict::Impossible(Shortage { step, region, bytes, buffer, .. }) => {
                let (over, spare) = match bytes {
                    Bytes::Over(over) => (Some(over), None),
                    Bytes::Spare(spare) => (None, Some(spare)),
                    Bytes::Enough => (None, None),
                };
                json!({
                    "step": step,
                    "region": region.name(),
                    "bytes_over": over,
                    "bytes_spare": spare,
                    "buffer": buffer,
                })
            }
            Verdict::Placed(_) | Verdict::Unknown { .. } => Value::Null,
        };
        let granted = match verdict {
            Verdict::Placed(addresses) => {
                let granted = file.buffers.iter().zip(addresses).filter_map(|(buffer, address)| {
                    Some((buffer.name.clone(), json!(buffer.is_granted(*address)?)))
                });
                Value::Object(granted.collect())
            }
            Verdict::Impossible(_) | Verdict::Unknown { .. } => Value::Null,
        };
        let details = [("addresses", addresses), ("granted", granted), ("shortage", shortage)];
        details.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
    }
}

/// What a proof says, with names.
fn shortage(file: &PlacementFile, problem: &Problem, proof: &Proof) -> Shortage {
    let name = |buffer: usize| file.buffers[buffer].name.clone();
    let of_all = |step, region, bytes| Shortage {
        step,
        region,
        bytes,
        buffer: None,
        blocks: None,
        apart: None,
    };
    let of_buffer = |buffer: usize, bytes| {
        let found = &problem.buffers[buffer];
        let buffer = Some(name(buffer));
        Shortage { buffer, ..of_all(found.live[0].start, found.region, bytes) }
    };
    match proof {
        Proof::Bytes(found) => {
            of_all(found.step, found.region, Bytes::Over(found.bytes_over.into()))
        }
        Proof::Alone { buffer, bytes_over } => {
            of_buffer(*buffer, Bytes::Over((*bytes_over).into()))
        }
        Proof::Repeat { repeat, bytes, bytes_over } => {
            let blocks = &problem.repeats[*repeat].blocks;
            let over = Bytes::Over((*bytes_over).into());
            Shortage { blocks: Some((blocks.len(), *bytes)), ..of_buffer(blocks[0], over) }
        }
        Proof::NoAddress { buffer } => of_buffer(*buffer, Bytes::Enough),
        Proof::Exhausted { .. } => {
            let tightest = problem.tightest();
            let apart = problem.crowded().map(|crowded| match crowded {
                Crowded::Pair(a, b) => Some([name(a), name(b)]),
                Crowded::Pairs => None,
            });
            let spare = Bytes::Spare(tightest.spare_bytes());
            Shortage { apart, ..of_all(tightest.step, tightest.region, spare) }
        }
    }
}

/// An instance's name, and the digits of its capacity if the file is called `NAME.CAPACITY.csv`.
fn named(path: &Path) -> (String, Option<String>) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let is_number =
        |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    match stem.rsplit_once('.').filter(|(_, number)| is_number(number)) {
        Some((name, number)) => (name.to_owned(), Some(number.to_owned())),
        None => (stem, None),
    }
}
