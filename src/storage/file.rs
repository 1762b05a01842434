//! Placement files: one tile's problem with names, as JSON, and its answer in the same form.
//!
//! Three things are said here that the solver has no word for. A *persistent* buffer lives through
//! all steps, a *tail* counts into the size, and *executable* means standard memory.

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::{Buffer, Problem, ProblemError, Region};
use super::repeats::{Repeat, RepeatRule};
use crate::json::{self, Form, Object};
use crate::target::sram::{MEMORY_END, MEMORY_START};

/// The format and version that this build reads and writes.
pub const FORMAT: &str = "ipu-tune/placement@1";

/// Buffers to place on one tile. Sizes and addresses in bytes, every range half-open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacementFile {
    /// Always `ipu-tune/placement@1`.
    pub format: String,
    /// Free ranges of tile memory, `[start, end]` each, ascending and disjoint; no buffer straddles
    /// two.
    pub free: Vec<[u32; 2]>,
    /// What to place.
    #[serde(deserialize_with = "json::list")]
    pub buffers: Vec<FileBuffer>,
    /// Pairs of names: they share no memory element while both live.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<[String; 2]>,
    /// Pairs of names: they have one address, as views and results in an input's place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<[String; 2]>,
    /// Blocks of one size that lie at one stride, as the parameters of repeated layers do.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "json::list")]
    pub repeats: Vec<FileRepeat>,
}

/// Blocks at `base`, `base + stride`, `base + 2 · stride`, and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileRepeat {
    /// Names of buffers, at least two, in the order of their addresses.
    pub blocks: Vec<String>,
    /// Bytes from block to block: a multiple of 4 and of every block's alignment, no less than the
    /// size with its tail; any such number if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<u32>,
}

/// A buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileBuffer {
    /// Unique name.
    pub name: String,
    /// Bytes of payload.
    pub size: u32,
    /// Bytes that may be read beyond the payload; nothing else may lie there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tail: u32,
    /// A power of two.
    #[serde(default = "one")]
    pub alignment: u32,
    /// Where it may lie.
    #[serde(default, skip_serializing_if = "is_either")]
    pub region: Region,
    /// Steps during which it holds data, `[start, end]` each, ascending and disjoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub live: Vec<[u32; 2]>,
    /// Lives through all steps, in place of `live`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub persistent: bool,
    /// Addresses that it must not touch, `[start, end]` each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden: Vec<[u32; 2]>,
    /// Addresses where it lies if a placement with it there is found, `[start, end]` each. A wish:
    /// `granted` says what became of it. Those of blocks of a repeat that has room without gaps are
    /// looked for at its least stride only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferred: Vec<[u32; 2]>,
    /// Shares its place with no other buffer, at no step.
    #[serde(default, skip_serializing_if = "is_false")]
    pub untouched: bool,
    /// Holds code: standard memory alone can be executed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub executable: bool,
    /// The answer: ignored when a file is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<u32>,
    /// Whether it lies where it is preferred, part of the answer: ignored when a file is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<bool>,
}

impl Form for PlacementFile {
    const FORM: &'static str = "an object with `format`, `free` and `buffers`";
}

impl Form for FileRepeat {
    const FORM: &'static str = "an object with `blocks`";
}

impl Form for FileBuffer {
    const FORM: &'static str = "an object with `name` and `size`";
}

fn one() -> u32 {
    1
}

fn is_zero(bytes: &u32) -> bool {
    *bytes == 0
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

fn is_either(region: &Region) -> bool {
    *region == Region::Either
}

/// What is wrong with a placement file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum PlacementError {
    /// A value is not of the format.
    #[error("bad value{}{}: {why}", at(.place), of(.buffer))]
    Form { place: String, buffer: Option<String>, why: serde_json::Error },
    /// Another format or version.
    #[error("format `{found}`, expected `{FORMAT}`")]
    Version { found: String },
    /// A name that another buffer has.
    #[error("`buffers[{index}]`: buffer `{name}` is there twice")]
    Twice { index: usize, name: String },
    /// A pair with a name that no buffer has.
    #[error("`{list}[{index}]`: no buffer is called `{name}`")]
    Unknown { list: &'static str, index: usize, name: String },
    /// A buffer together with itself.
    #[error("`{list}[{index}]`: buffer `{name}` twice")]
    Itself { list: &'static str, index: usize, name: String },
    /// More bytes than can be counted.
    #[error("buffer `{name}`: {size} bytes and a tail of {tail} are more than any memory has")]
    Tail { name: String, size: u32, tail: u32 },
    /// Two rules of a buffer that exclude each other.
    #[error("buffer `{name}`: {rules}")]
    Rules { name: String, rules: &'static str, fix: &'static str },
    /// Blocks that cannot lie at one stride.
    #[error("`repeats[{index}]`: {what}")]
    Repeat { index: usize, what: String },
    /// Whatever is wrong with one buffer.
    #[error("buffer `{name}`: {}", words(.what))]
    Buffer { name: String, what: ProblemError },
    /// Two buffers that must and must not share their place.
    #[error("buffers `{a}` and `{b}` have one address and must lie apart")]
    Contradiction { a: String, b: String },
    /// Two buffers with one address in two regions.
    #[error(
        "buffers `{a}` and `{b}` have one address, but one is for standard memory, the other for \
         interleaved"
    )]
    Regions { a: String, b: String },
    /// A wish that cannot be granted even if no other buffer is there.
    #[error("buffer `{name}` can lie in none of its preferred ranges: {why}")]
    Wish { name: String, why: &'static str },
    /// Free ranges that overlap or leave tile memory.
    #[error("`free`: {}", words(.what))]
    Free { what: ProblemError },
}

/// Where a value is; the whole file has no place of its own.
fn at(place: &str) -> String {
    if place == "." { String::new() } else { format!(" at `{place}`") }
}

fn of(buffer: &Option<String>) -> String {
    buffer.as_ref().map_or(String::new(), |name| format!(" of buffer `{name}`"))
}

/// What is wrong, without the buffer's number.
fn words(what: &ProblemError) -> String {
    match what {
        ProblemError::Size { size, .. } => {
            let most = MEMORY_END.0 - MEMORY_START.0;
            format!("{size} bytes with its tail, expected 1 to {most}")
        }
        ProblemError::Alignment { alignment, .. } => {
            format!("alignment {alignment}, expected a power of two")
        }
        ProblemError::Lifetime { start, end, .. } => {
            format!("it lives from step {start} to step {end}")
        }
        ProblemError::Lifetimes { .. } => {
            "it needs lifetimes, which ascend and do not overlap".to_owned()
        }
        ProblemError::Forbidden { start, end, .. } => {
            format!("forbidden range {start} to {end} is empty or leaves tile memory")
        }
        ProblemError::Preferred { start, end, .. } => {
            format!("preferred range {start} to {end} is empty or leaves tile memory")
        }
        ProblemError::Range { start, end } => {
            format!("range {start} to {end} is empty, leaves tile memory, or does not ascend")
        }
        other => other.to_string(),
    }
}

impl PlacementError {
    /// What the user can do.
    pub fn hint(&self) -> String {
        let hint = match self {
            PlacementError::Form { .. } | PlacementError::Version { .. } => {
                "`ipu-tune schema placement` prints what a placement file may hold; numbers are \
                 whole, from 0 to 4294967295"
            }
            PlacementError::Twice { .. } => "every buffer needs a name of its own",
            PlacementError::Unknown { .. } => "pairs and repeats hold names of `buffers`",
            PlacementError::Itself { .. } => "a pair holds two buffers",
            PlacementError::Tail { .. } => "a smaller `size` or `tail`",
            PlacementError::Rules { fix, .. } => fix,
            PlacementError::Repeat { .. } => {
                "`repeats` holds `blocks` of one size and region, which no other repeat, alias or \
                 pair among themselves names, and a `stride` that leaves room for a block"
            }
            PlacementError::Buffer { what, .. } => of_buffer(what),
            PlacementError::Contradiction { .. } => {
                "take the pair out of `apart`, or an alias between the two out of `aliases`"
            }
            PlacementError::Regions { .. } => "one `region` for both, or no alias between them",
            PlacementError::Wish { .. } => {
                "a `preferred` range where the buffer may lie, or none: ranges are `[start, end]`"
            }
            PlacementError::Free { .. } => {
                "`free` holds `[start, end]` inside tile memory, 311296 to 950272, ascending"
            }
        };
        hint.to_owned()
    }
}

fn of_buffer(what: &ProblemError) -> &'static str {
    match what {
        ProblemError::Size { .. } => "`size` and `tail` together from 1 to a tile's bytes",
        ProblemError::Alignment { .. } => "`alignment` is 1, 2, 4, 8, …",
        ProblemError::Lifetime { .. } => "`live` holds `[start, end]` with `end` above `start`",
        ProblemError::Lifetimes { .. } => {
            "`live` holds at least one range, or `persistent` is true"
        }
        ProblemError::Forbidden { .. } => {
            "`forbidden` holds `[start, end]` inside tile memory, 311296 to 950272"
        }
        ProblemError::Preferred { .. } => {
            "`preferred` holds `[start, end]` inside tile memory, 311296 to 950272"
        }
        _ => "see `ipu-tune schema placement`",
    }
}

/// A JSON Schema of placement files.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(PlacementFile).to_value()
}

impl PlacementFile {
    /// Reads a file's text, with the problem that it means.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn from_json(text: &str) -> Result<(PlacementFile, Problem), PlacementError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let Object(file): Object<PlacementFile> = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| bad_form(text, error.path().to_string(), error.into_inner()))?;
        reader.end().map_err(|error| bad_form(text, ".".to_owned(), error))?;
        if file.format != FORMAT {
            return Err(PlacementError::Version { found: file.format });
        }
        let problem = file.problem()?;
        Ok((file, problem))
    }

    /// The file with the addresses of its buffers.
    pub fn to_json(&self, addresses: &[u32]) -> String {
        let mut answer = self.clone();
        for (buffer, address) in answer.buffers.iter_mut().zip(addresses) {
            buffer.address = Some(*address);
            buffer.granted = buffer.is_granted(*address);
        }
        let text = serde_json::to_string_pretty(&answer).expect("a placement file is plain data");
        text + "\n"
    }

    /// What the solver gets.
    fn problem(&self) -> Result<Problem, PlacementError> {
        let names = self.names()?;
        let end = self.buffers.iter().flat_map(|buffer| &buffer.live).map(|[_, end]| *end).max();
        let buffers: Vec<Buffer> = self
            .buffers
            .iter()
            .map(|buffer| buffer.lowered(end.unwrap_or(1).max(1)))
            .collect::<Result<_, _>>()?;
        let problem = Problem {
            free: ranges(&self.free),
            buffers,
            apart: pairs("apart", &self.apart, &names)?,
            aliases: pairs("aliases", &self.aliases, &names)?,
            repeats: repeats(&self.repeats, &names)?,
        };
        problem.check().map_err(|what| self.named(what))?;
        self.regions_agree(&problem)?;
        for (index, buffer) in problem.buffers.iter().enumerate() {
            if let Some(why) = problem.wish_fault(buffer) {
                return Err(PlacementError::Wish { name: self.name(index), why });
            }
        }
        Ok(problem)
    }

    fn names(&self) -> Result<BTreeMap<&str, usize>, PlacementError> {
        let mut names = BTreeMap::new();
        for (index, buffer) in self.buffers.iter().enumerate() {
            if names.insert(buffer.name.as_str(), index).is_some() {
                return Err(PlacementError::Twice { index, name: buffer.name.clone() });
            }
        }
        Ok(names)
    }

    /// Refuses one address in two regions.
    fn regions_agree(&self, problem: &Problem) -> Result<(), PlacementError> {
        let groups = problem.groups();
        let standing = |region: Region| {
            let found = problem.buffers.iter().enumerate();
            found.filter(move |(_, buffer)| buffer.region == region).map(|(index, _)| index)
        };
        for a in standing(Region::Standard) {
            if let Some(b) = standing(Region::Interleaved).find(|b| groups[a] == groups[*b]) {
                return Err(PlacementError::Regions { a: self.name(a), b: self.name(b) });
            }
        }
        Ok(())
    }

    fn name(&self, buffer: usize) -> String {
        self.buffers.get(buffer).map_or_else(String::new, |buffer| buffer.name.clone())
    }

    /// A repeat's rule with names.
    fn words_of(&self, rule: &RepeatRule) -> String {
        match *rule {
            RepeatRule::Block(block) => format!("buffer `{}` is a block twice", self.name(block)),
            RepeatRule::Alias(block) => format!("block `{}` has an alias", self.name(block)),
            RepeatRule::Apart(a, b) => {
                format!("blocks `{}` and `{}` must lie apart", self.name(a), self.name(b))
            }
            ref other => other.to_string(),
        }
    }

    /// A problem's error in the file's words.
    fn named(&self, what: ProblemError) -> PlacementError {
        match what {
            ProblemError::Size { buffer, .. }
            | ProblemError::Alignment { buffer, .. }
            | ProblemError::Lifetime { buffer, .. }
            | ProblemError::Lifetimes { buffer }
            | ProblemError::Forbidden { buffer, .. }
            | ProblemError::Preferred { buffer, .. } => {
                PlacementError::Buffer { name: self.name(buffer), what }
            }
            ProblemError::Range { .. } => PlacementError::Free { what },
            ProblemError::Repeat { repeat, rule } => {
                PlacementError::Repeat { index: repeat, what: self.words_of(&rule) }
            }
            ProblemError::Apart(a, b)
            | ProblemError::Alias(a, b)
            | ProblemError::Contradiction(a, b) => {
                PlacementError::Contradiction { a: self.name(a), b: self.name(b) }
            }
        }
    }
}

impl FileBuffer {
    /// The solver's buffer; `end` is the end of all steps.
    fn lowered(&self, end: u32) -> Result<Buffer, PlacementError> {
        let refuse =
            |rules, fix| Err(PlacementError::Rules { name: self.name.clone(), rules, fix });
        if self.persistent && !self.live.is_empty() {
            return refuse(
                "it is persistent and has lifetimes too",
                "`persistent` or `live`, not both",
            );
        }
        if self.executable && self.region == Region::Interleaved {
            return refuse(
                "it is executable and for interleaved memory, which cannot be executed",
                "`executable` with `region` `standard` or none",
            );
        }
        let Some(size) = self.size.checked_add(self.tail) else {
            let FileBuffer { size, tail, .. } = *self;
            return Err(PlacementError::Tail { name: self.name.clone(), size, tail });
        };
        if self.size == 0 {
            let what = ProblemError::Size { buffer: 0, size: 0 };
            return Err(PlacementError::Buffer { name: self.name.clone(), what });
        }
        Ok(Buffer {
            size,
            alignment: self.alignment,
            region: if self.executable { Region::Standard } else { self.region },
            live: if self.persistent { ranges(&[[0, end]]) } else { ranges(&self.live) },
            forbidden: ranges(&self.forbidden),
            preferred: ranges(&self.preferred),
            untouched: self.untouched,
        })
    }
}

fn ranges(list: &[[u32; 2]]) -> Vec<Range<u32>> {
    list.iter().map(|[start, end]| *start..*end).collect()
}

fn repeats(
    list: &[FileRepeat],
    names: &BTreeMap<&str, usize>,
) -> Result<Vec<Repeat>, PlacementError> {
    let number = |index: usize, name: &String| {
        let unknown = || PlacementError::Unknown { list: "repeats", index, name: name.clone() };
        names.get(name.as_str()).copied().ok_or_else(unknown)
    };
    let repeat = |(index, repeat): (usize, &FileRepeat)| {
        let blocks = repeat.blocks.iter().map(|name| number(index, name));
        Ok(Repeat { blocks: blocks.collect::<Result<_, _>>()?, stride: repeat.stride })
    };
    list.iter().enumerate().map(repeat).collect()
}

/// The error of a value, with the name of the buffer that it is in.
fn bad_form(text: &str, place: String, why: serde_json::Error) -> PlacementError {
    let index = place.strip_prefix("buffers[").and_then(|rest| rest.split_once(']'));
    let index = index.and_then(|(index, _)| index.parse::<usize>().ok());
    let name = index.and_then(|index| {
        let whole: serde_json::Value = serde_json::from_str(text).ok()?;
        Some(whole["buffers"][index]["name"].as_str()?.to_owned())
    });
    PlacementError::Form { place, buffer: name, why }
}

fn pairs(
    list: &'static str,
    pairs: &[[String; 2]],
    names: &BTreeMap<&str, usize>,
) -> Result<Vec<(usize, usize)>, PlacementError> {
    let mut found = vec![];
    for (index, [a, b]) in pairs.iter().enumerate() {
        let known = |name: &String| {
            let unknown = || PlacementError::Unknown { list, index, name: name.clone() };
            names.get(name.as_str()).copied().ok_or_else(unknown)
        };
        if a == b {
            known(a)?;
            return Err(PlacementError::Itself { list, index, name: a.clone() });
        }
        found.push((known(a)?, known(b)?));
    }
    Ok(found)
}
