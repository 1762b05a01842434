//! A program's buffers on all of its tiles.
//!
//! Tiles that are alike take one answer (`tiles`), most programs need a single one. Where
//! there are more, the fullest tile is placed first and the others begin with its addresses. What was
//! placed before, for other candidates too, is not placed again ([`Answers`]). Then every kind of tiles
//! moves its buffers into the room that the answer leaves it (`tailor`).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::program::{self, Addresses, BufferId, Class, Program, SegmentStep, Step};
use crate::target::{Address, TileId};

use super::answers::{Answers, Question};
use super::bounds::Load;
use super::place::{Outcome, Proof};
use super::problem::{Buffer, Problem, Region};
use super::tailor::{Kind, Tailor};
use super::tiles::{Family, Pieces, families};

/// Why a program does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageFailure {
    /// Proved: more bytes live than there are.
    #[error("tile {tile}: {bytes_over} bytes over in {} memory at step {step}", region.name())]
    Over {
        /// The first such tile.
        tile: TileId,
        /// The memory.
        region: Region,
        /// Bytes too many.
        bytes_over: u32,
        /// When.
        step: u32,
    },
    /// Proved: a buffer does not fit even alone.
    #[error(
        "tile {tile}: `{buffer}` of step {step} is {bytes_over} bytes larger than its largest place \
         in {} memory", region.name()
    )]
    Alone {
        /// The first such tile.
        tile: TileId,
        /// Name of the buffer.
        buffer: String,
        /// Where it may lie.
        region: Region,
        /// Bytes beyond the largest place that it could have.
        bytes_over: u32,
        /// The first step that it lives in.
        step: u32,
    },
    /// Proved, though there are bytes enough: no way of placing is left.
    #[error(
        "tile {tile}: its buffers fit in no way, though of {} bytes in {} memory {} are to spare at \
         step {}, and no fewer elsewhere",
        tightest.room_bytes, tightest.region.name(), tightest.spare_bytes(), tightest.step
    )]
    Proved {
        /// The first such tile.
        tile: TileId,
        /// Where the fewest bytes are to spare.
        tightest: Load,
    },
    /// The search was asked to stop, which says nothing about the program.
    #[error("stopped")]
    Stopped,
    /// No placement was found for a buffer.
    #[error("tile {tile}: no place was found for `{buffer}` ({bytes} bytes, {} memory)", region.name())]
    NoPlace {
        /// The first such tile.
        tile: TileId,
        /// Name of the buffer.
        buffer: String,
        /// Its size with its tail.
        bytes: u32,
        /// Where it may lie.
        region: Region,
    },
}

/// A placed program, and what it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedProgram {
    /// Where everything lies.
    pub addresses: Addresses,
    /// Counts.
    pub stats: PlaceStats,
}

/// How much work a program was, and how much memory it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceStats {
    /// Different tiles, by the pieces that they hold.
    pub kinds: usize,
    /// Tiles whose answers were enough for all.
    pub problems: usize,
    /// Problems among them whose answers were known.
    pub known: usize,
    /// Problems among them whose wishes were granted.
    pub granted: usize,
    /// Bytes that live at the fullest step of the fullest tile.
    pub live_bytes: u64,
    /// Bytes of that tile that hold something at some step.
    pub peak_bytes: u64,
}

/// What placing depends on beside the program.
#[derive(Clone, Copy)]
pub struct PlaceOptions<'a> {
    /// Free memory, the same on every tile.
    pub free: &'a [Range<u32>],
    /// Pairs of buffers that lie in different elements on every tile where there is room for all of
    /// them.
    pub wishes: &'a [(BufferId, BufferId)],
    /// Answers of earlier programs.
    pub answers: &'a Answers,
    /// Searches give up when it is set.
    pub stop: &'a AtomicBool,
}

/// Addresses of all buffers, or why they do not fit.
///
/// # Errors
/// The failure of the fullest tile if it has one, else of the lowest tile that stands for others.
pub fn place_program(
    program: &Program,
    options: &PlaceOptions<'_>,
) -> Result<PlacedProgram, StorageFailure> {
    let families = families(program);
    let place = |family: &Family, hint: Option<Hint<'_>>| {
        let tile = Tile { program, pieces: &family.pieces, wishes: options.wishes };
        tile.place(options, hint).map_err(|failure| (family.tile(), failure))
    };
    let fail = |(tile, failure): (TileId, Failure)| failure.on(program, tile);
    let Some((first, others)) = families.split_first() else {
        return Ok(PlacedProgram { addresses: Addresses::new(0, 0), stats: PlaceStats::default() });
    };
    let answer = place(first, None).map_err(fail)?;
    let hint = Some((&first.pieces, answer.addresses.as_slice()));
    let others: Vec<_> = others.par_iter().map(|family| place(family, hint)).collect();
    let failures = others.iter().filter_map(|answer| answer.as_ref().err());
    if let Some(failure) = failures.min_by_key(|(tile, _)| *tile) {
        return Err(fail(*failure));
    }
    let answers: Vec<Answer> =
        std::iter::once(answer).chain(others.into_iter().filter_map(Result::ok)).collect();
    let of_kinds = tailored(program, options, &families, &answers);
    let mut addresses = Addresses::new(program.buffers.len(), program.tiles);
    let kinds = families.iter().flat_map(|family| &family.kinds);
    for ((pieces, tiles), at) in kinds.zip(&of_kinds) {
        for ((id, _), at) in pieces.iter().zip(at) {
            tiles.iter().for_each(|tile| addresses.set(*id, *tile, Address(*at)));
        }
    }
    let of_first = Tile { program, pieces: &first.pieces, wishes: &[] }.problem(options.free);
    let stats = PlaceStats {
        kinds: of_kinds.len(),
        problems: families.len(),
        known: answers.iter().filter(|answer| answer.known).count(),
        granted: answers.iter().filter(|answer| answer.granted).count(),
        live_bytes: of_first.fullest().1,
        peak_bytes: of_first.taken(&of_kinds[0]),
    };
    Ok(PlacedProgram { addresses, stats })
}

/// Addresses of every kind of tiles, in the order of its pieces: its family's, moved to where they take
/// fewer bytes. Where not all wishes were granted memory is short, and those that hold are not risked.
fn tailored(
    program: &Program,
    options: &PlaceOptions<'_>,
    families: &[Family],
    answers: &[Answer],
) -> Vec<Vec<u32>> {
    let largest = |buffer: &program::Buffer| buffer.sizes.iter().map(|(_, bytes)| *bytes).max();
    let all: Pieces = (0..)
        .map(BufferId)
        .zip(program.buffers.iter().map(|buffer| largest(buffer).unwrap_or(0)))
        .collect();
    let tile = Tile { program, pieces: &all, wishes: options.wishes };
    let mut problem = tile.problem(options.free);
    problem.apart.extend(tile.pairs(options.wishes));
    let (items, _) = problem.items();
    let (mut kinds, mut fixed) = (vec![], vec![]);
    for (family, answer) in families.iter().zip(answers) {
        for (pieces, tiles) in &family.kinds {
            let indices = pieces.iter().filter_map(|(id, _)| index_of(&family.pieces, *id));
            let addresses = indices.map(|index| answer.addresses[index]).collect();
            kinds.push(Kind::new(pieces, tiles.len(), addresses));
            fixed.push(!answer.granted);
        }
    }
    let free = kinds.iter_mut().zip(&fixed).filter(|(_, fixed)| !**fixed);
    Tailor::new(program, &items).fit(free.map(|(kind, _)| kind).collect());
    kinds.into_iter().map(Kind::into_addresses).collect()
}

fn index_of(pieces: &Pieces, id: BufferId) -> Option<usize> {
    pieces.binary_search_by_key(&id, |(found, _)| *found).ok()
}

/// The problem of a tile: its buffers and what must hold for them.
pub fn tile_problem(program: &Program, tile: TileId, free: &[Range<u32>]) -> Problem {
    let pieces = (0..).map(BufferId).zip(&program.buffers).filter_map(|(id, buffer)| {
        let at = buffer.sizes.binary_search_by_key(&tile, |(tile, _)| *tile).ok()?;
        Some((id, buffer.sizes[at].1))
    });
    Tile { program, pieces: &pieces.collect(), wishes: &[] }.problem(free)
}

/// Nodes for placing with wishes; without them there is another attempt.
const WISH_BUDGET: u64 = 2_000;
/// Nodes for placing what must be: a candidate that does not fit has to fail soon.
const BUDGET: u64 = 20_000;

/// Why one kind of tile failed.
#[derive(Clone, Copy)]
enum Failure {
    Over { region: Region, bytes_over: u32, step: u32 },
    Proved { tightest: Load },
    Alone { buffer: BufferId, bytes_over: u32 },
    Stopped,
    NoPlace { buffer: BufferId, bytes: u32 },
}

impl Failure {
    /// The failure with what a user needs to know of it.
    fn on(&self, program: &Program, tile: TileId) -> StorageFailure {
        match *self {
            Failure::Over { region, bytes_over, step } => {
                StorageFailure::Over { tile, region, bytes_over, step }
            }
            Failure::Proved { tightest } => StorageFailure::Proved { tile, tightest },
            Failure::Stopped => StorageFailure::Stopped,
            Failure::Alone { buffer, bytes_over } => {
                let found = &program.buffers[buffer.0 as usize];
                let (region, step) = (region(found), found.live.start);
                StorageFailure::Alone { tile, buffer: found.name.clone(), region, bytes_over, step }
            }
            Failure::NoPlace { buffer, bytes } => {
                let found = &program.buffers[buffer.0 as usize];
                let (region, bytes) = (region(found), bytes + found.tail);
                StorageFailure::NoPlace { tile, buffer: found.name.clone(), bytes, region }
            }
        }
    }
}

/// Where a buffer may lie.
fn region(buffer: &program::Buffer) -> Region {
    match buffer.class {
        Class::Interleaved => Region::Interleaved,
        Class::Any => Region::Either,
    }
}

/// Pairs of buffers of which one is read and the other written in the same exchange.
pub fn exchanged_together(program: &Program) -> Vec<(BufferId, BufferId)> {
    let mut pairs: Vec<_> = program.steps.iter().flat_map(exchanged_in).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The same of one step: every buffer that it reads with every one that it writes.
pub fn exchanged_in(step: &Step) -> Vec<(BufferId, BufferId)> {
    let (mut read, mut written) = (vec![], vec![]);
    for part in &step.parts {
        if let SegmentStep::Exchange(moves) = part.segment_step() {
            read.extend(moves.iter().map(|exchange| part.buffer(exchange.from)));
            written.extend(moves.iter().map(|exchange| part.buffer(exchange.to)));
        }
    }
    let pair = |a: &BufferId| written.iter().map(|b| (*a, *b)).collect::<Vec<_>>();
    let mut pairs: Vec<_> = read.iter().flat_map(pair).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Pieces that were placed, and where.
type Hint<'a> = (&'a Pieces, &'a [u32]);

/// A tile's addresses, whether they were known, and whether all wishes were granted.
struct Answer {
    addresses: Vec<u32>,
    known: bool,
    granted: bool,
}

/// What a tile holds.
struct Tile<'a> {
    program: &'a Program,
    pieces: &'a Pieces,
    /// Pairs that lie apart if that is possible.
    wishes: &'a [(BufferId, BufferId)],
}

impl Tile<'_> {
    fn problem(&self, free: &[Range<u32>]) -> Problem {
        let buffers = self.pieces.iter().map(|(id, bytes)| {
            let buffer = &self.program.buffers[id.0 as usize];
            Buffer {
                size: bytes + buffer.tail,
                alignment: buffer.alignment,
                region: region(buffer),
                live: vec![buffer.live.clone()],
                forbidden: vec![],
                preferred: vec![],
                untouched: false,
            }
        });
        Problem {
            free: free.to_vec(),
            buffers: buffers.collect(),
            apart: self.pairs(&self.program.apart),
            aliases: vec![],
            repeats: vec![],
        }
    }

    /// Pairs of which the tile holds both.
    fn pairs(&self, list: &[(BufferId, BufferId)]) -> Vec<(usize, usize)> {
        let index = |id: &BufferId| index_of(self.pieces, *id);
        let both = list.iter().filter_map(|(a, b)| Some((index(a)?, index(b)?)));
        both.filter(|(a, b)| a != b).collect()
    }

    /// Places the tile with its wishes, or without them; begins with a similar tile's addresses.
    fn place(&self, options: &PlaceOptions<'_>, hint: Option<Hint<'_>>) -> Result<Answer, Failure> {
        let hint = hint.map_or(vec![], |(pieces, addresses)| {
            let address = |id| index_of(pieces, id).map(|index| addresses[index]);
            self.pieces.iter().map(|(id, _)| address(*id)).collect()
        });
        let problem = self.problem(options.free);
        let wishes = self.pairs(self.wishes);
        let wished = wishes.len();
        if !wishes.is_empty() {
            let mut problem = problem.clone();
            problem.apart.extend(wishes);
            let question = Question { problem, hint: hint.clone(), nodes: WISH_BUDGET };
            if let Ok(answer) = self.answer(question, options)? {
                return Ok(answer);
            }
        }
        let granted = wished == 0;
        let question = Question { problem, hint, nodes: BUDGET };
        let answer = self.answer(question, options)?;
        let answer = answer.map_err(|outcome| self.failure(&outcome, options.free))?;
        Ok(Answer { granted, ..answer })
    }

    /// Addresses, or an outcome that has none; a stop is an error.
    fn answer(
        &self,
        question: Question,
        options: &PlaceOptions<'_>,
    ) -> Result<Result<Answer, Arc<Outcome>>, Failure> {
        let answer = options.answers.of(question, options.stop);
        let (outcome, known) = answer.ok_or(Failure::Stopped)?;
        Ok(match &*outcome {
            Outcome::Placed(addresses) => {
                Ok(Answer { addresses: addresses.clone(), known, granted: true })
            }
            _ => Err(outcome),
        })
    }

    fn failure(&self, outcome: &Outcome, free: &[Range<u32>]) -> Failure {
        match outcome {
            Outcome::Impossible(Proof::Bytes(shortage)) => Failure::Over {
                region: shortage.region,
                bytes_over: shortage.bytes_over,
                step: shortage.step,
            },
            Outcome::Impossible(
                Proof::NoAddress { .. } | Proof::Repeat { .. } | Proof::Exhausted { .. },
            ) => Failure::Proved { tightest: self.problem(free).tightest() },
            Outcome::Impossible(Proof::Alone { buffer, bytes_over }) => {
                Failure::Alone { buffer: self.pieces[*buffer].0, bytes_over: *bytes_over }
            }
            Outcome::Unknown { buffer, .. } => {
                let (buffer, bytes) = self.pieces[*buffer];
                Failure::NoPlace { buffer, bytes }
            }
            Outcome::Placed(_) => unreachable!("an outcome with addresses is no failure"),
        }
    }
}
