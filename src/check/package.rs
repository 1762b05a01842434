//! A whole package: read, lower its recipe again, compare.

use std::collections::BTreeSet;

use rayon::prelude::*;

use crate::model::Graph;
use crate::package::{Application, read};
use crate::plan::{Network, Recipe};
use crate::program::{Addresses, Buffer, BufferId, Call, Program, StepKind, program as lower};
use crate::space::check_recipe;
use crate::target::{Bytes, TileId};

use super::code::{self, Action, Image};
use super::phase::{PhaseReport, TileRow, Wanted, unordered_phase};
use super::violation::{Violation, Violations};
use super::{Checked, bindings, definitions, images, operands, placement};

/// What a checked package contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The decoded package.
    pub application: Application,
    /// Steps of the program.
    pub steps: usize,
    /// Kernel calls of all tiles.
    pub calls: usize,
    /// Every exchange step.
    pub phases: Vec<PhaseReport>,
    /// Words of the largest exchange table.
    pub largest_table: usize,
}

/// Checks a package.
///
/// # Errors
/// Everything that is wrong.
pub fn package(bytes: &[u8]) -> Result<Checked<Report>, Violations> {
    let mut violations = Violations::default();
    let unreadable = |what: String| {
        let mut violations = Violations::default();
        violations.add(Violation::Unreadable { what });
        violations
    };
    let application = read(bytes).map_err(|error| unreadable(error.to_string()))?;
    let origin = &application.origin;
    let graph = Graph::from_json(&origin.model, std::path::Path::new("package"))
        .map_err(|error| unreadable(error.to_string()))?;
    let network = Network::from_graph(&graph).map_err(|error| unreadable(error.to_string()))?;
    let recipe =
        Recipe::from_json(&origin.recipe).map_err(|error| unreadable(error.to_string()))?;
    check_recipe(&network, &recipe).map_err(|illegal| unreadable(illegal.to_string()))?;
    let program = lower(&network, &recipe);
    let images = images::images(&application, &program, &mut violations);
    let placement = placement::check(&application, &program, &mut violations);
    let addresses = &placement.addresses;
    let profile =
        bindings::check(&application, &graph, &network, &program, addresses, &mut violations);
    let samples = profile.map(|start| (start, 4 * (program.steps.len() as u32 + 1)));
    let routines = code::routines(&application, &mut violations);
    let entries = routines.keys().copied().collect();
    images::segments(&application, &entries, samples, &mut violations);
    if let Some(samples) = samples {
        placement.keep_off(samples, &mut violations);
    }
    if let Err(found) = definitions::defined(&program) {
        violations.merge(found);
    }
    let calls = calls_by_tile(&program, images.len());
    let profile = profile.unwrap_or(0);
    let check = Tiles { program: &program, addresses, calls: &calls, profile };
    let walked: Vec<(Vec<Option<CalledRow>>, Violations)> = images
        .par_iter()
        .map(|image| {
            let mut violations = Violations::default();
            let most = check.most_actions(image.tile);
            let actions = code::actions(image, &routines, most, &mut violations);
            let rows = check.tile(image, &actions, &mut violations);
            (rows, violations)
        })
        .collect();
    let mut rows = vec![];
    for (found, other) in walked {
        violations.merge(other);
        rows.push(found);
    }
    let (phases, horizons, largest_table) =
        phases(&program, addresses, &images, &rows, &mut violations);
    if violations.is_empty() {
        images::plans(&application, &network, &program, &horizons, &mut violations);
    }
    if !violations.is_empty() {
        return Err(violations);
    }
    let calls = calls.iter().flatten().map(Vec::len).sum();
    let steps = program.steps.len();
    Ok(Checked(Report { steps, calls, phases, largest_table, application }))
}

/// A row that a tile calls in a step.
#[derive(Clone, Copy)]
struct CalledRow {
    address: u32,
    /// Whether the tile takes part in the synchronization before it.
    active: bool,
}

type StepCalls<'a> = Vec<(usize, &'a [BufferId], &'a Call)>;

/// `[tile][step]`: calls in order.
fn calls_by_tile(program: &Program, images: usize) -> Vec<Vec<StepCalls<'_>>> {
    let tiles = images.max(program.tiles.into());
    let mut calls: Vec<Vec<StepCalls<'_>>> = vec![vec![vec![]; program.steps.len()]; tiles];
    for (index, step) in program.steps.iter().enumerate() {
        for (part, call) in step.calls() {
            calls[usize::from(call.tile.0)][index].push((index, &part.buffers, call));
        }
    }
    calls
}

struct Tiles<'a> {
    program: &'a Program,
    addresses: &'a Addresses,
    calls: &'a [Vec<StepCalls<'a>>],
    /// Where the first sample lies.
    profile: u32,
}

/// Most things that a step's surroundings do: a sample, and what leads to a row.
const AROUND_STEP: usize = 8;

impl Tiles<'_> {
    /// More than what the program of a tile is to do.
    fn most_actions(&self, tile: TileId) -> usize {
        let steps = self.calls.get(usize::from(tile.0)).map_or(&[][..], Vec::as_slice);
        let calls: usize = steps.iter().map(Vec::len).sum();
        calls + AROUND_STEP * (self.program.steps.len() + 2)
    }

    /// Compares what a tile does with what its steps want; returns the address of the row that it
    /// calls in every step.
    fn tile(
        &self,
        image: &Image<'_>,
        actions: &[Action],
        violations: &mut Violations,
    ) -> Vec<Option<CalledRow>> {
        let tile = image.tile;
        let mut rows = vec![None; self.program.steps.len()];
        let mut at = 0;
        let mut expect = |step: usize, wanted: &[Action], at: &mut usize| -> bool {
            for wanted in wanted {
                let found = actions.get(*at);
                if !found.is_some_and(|found| found.does(wanted)) {
                    let found = found.map_or("the end".to_owned(), |found| format!("{found:?}"));
                    let expected = format!("{wanted:?}");
                    violations.add(Violation::Program { tile, step, found, expected });
                    return false;
                }
                *at += 1;
            }
            true
        };
        if !expect(0, &code::prologue(), &mut at) {
            return rows;
        }
        let sample = |step: usize| self.profile.saturating_add(4 * step as u32);
        for (step, found) in self.program.steps.iter().enumerate() {
            if !expect(step, &[Action::Sample(sample(step))], &mut at) {
                return rows;
            }
            if found.kind == StepKind::Compute {
                let wanted = self.kernel_calls(tile, step);
                if !expect(step, &wanted, &mut at) {
                    return rows;
                }
                continue;
            }
            let active = !matches!(actions.get(at), Some(Action::Sans(_)));
            if !expect(step, &code::around_row(active), &mut at) {
                return rows;
            }
            let Some(Action::Row(row)) = actions.get(at) else {
                let found = format!("{:?}", actions.get(at));
                let expected = "a row".to_owned();
                violations.add(Violation::Program { tile, step, found, expected });
                return rows;
            };
            rows[step] = Some(CalledRow { address: *row, active });
            at += 1;
        }
        let end = code::epilogue(sample(self.program.steps.len()));
        if expect(self.program.steps.len(), &end, &mut at) && at != actions.len() {
            let (found, expected) = (format!("{:?}", actions[at]), "the end".to_owned());
            let step = self.program.steps.len();
            violations.add(Violation::Program { tile, step, found, expected });
        }
        self.operands(tile, violations);
        rows
    }

    fn kernel_calls(&self, tile: TileId, step: usize) -> Vec<Action> {
        let calls = self.calls.get(usize::from(tile.0)).map(|steps| steps[step].as_slice());
        let action = |(_, buffers, call): &(usize, &[BufferId], &Call)| {
            let address = |place: &crate::program::Place| {
                let start = self.addresses.get(buffers[place.buffer.0 as usize], tile);
                start.map_or(0, |start| (start + Bytes(place.offset)).0)
            };
            let values = std::iter::once(address(&call.output))
                .chain(call.inputs.iter().map(address))
                .chain(call.scalars.iter().copied());
            (call.kernel, values.collect::<Vec<u32>>())
        };
        let calls = calls.unwrap_or_default().iter().map(action);
        calls.map(|(kernel, values)| Action::Kernel(kernel, values)).collect()
    }

    /// Every operand inside its buffer's piece.
    fn operands(&self, tile: TileId, violations: &mut Violations) {
        let Some(steps) = self.calls.get(usize::from(tile.0)) else { return };
        for (step, buffers, call) in steps.iter().flatten() {
            let (written, read) = operands::bytes(&call.kernel, call.inputs.len(), &call.scalars);
            let places =
                std::iter::once((&call.output, written)).chain(call.inputs.iter().zip(read));
            for (place, bytes) in places {
                let buffer: &Buffer =
                    &self.program.buffers[buffers[place.buffer.0 as usize].0 as usize];
                let size = buffer.sizes.binary_search_by_key(&tile, |size| size.0);
                let size = size.map_or(0, |at| u64::from(buffer.sizes[at].1));
                if u64::from(place.offset) + bytes > size {
                    let kernel = call.kernel.symbol();
                    violations.add(Violation::Operand { tile, step: *step, kernel });
                }
            }
        }
    }
}

/// Replays every exchange step from the rows that the tiles call.
fn phases(
    program: &Program,
    addresses: &Addresses,
    images: &[Image<'_>],
    rows: &[Vec<Option<CalledRow>>],
    violations: &mut Violations,
) -> (Vec<PhaseReport>, Vec<u32>, usize) {
    let mut reports = vec![];
    let mut horizons = vec![0; program.steps.len()];
    let mut tables = vec![0; images.len()];
    let mut counted = BTreeSet::new();
    for (index, step) in program.steps.iter().enumerate() {
        if step.kind == StepKind::Compute {
            continue;
        }
        let words: Vec<(TileId, u32, Vec<u32>)> = images
            .par_iter()
            .zip(rows)
            .filter_map(|(image, rows)| {
                let CalledRow { address, .. } = rows[index]?;
                let mut words = image.words(address);
                // What follows the return belongs to other rows.
                let end = words.iter().position(|word| *word == RETURN);
                words.truncate(end.map_or(words.len(), |end| end + 1));
                Some((image.tile, address, words))
            })
            .collect();
        idle(index, rows, &words, violations);
        let tile_rows: Vec<TileRow<'_>> = words
            .iter()
            .map(|(tile, address, words)| TileRow { tile: *tile, address: *address, words })
            .collect();
        for row in &tile_rows {
            // Phases can share a row.
            let new = counted.insert((row.tile, row.address));
            if let Some(table) = tables.get_mut(usize::from(row.tile.0)).filter(|_| new) {
                *table += row.words.len();
            }
        }
        let wanted = wanted(program, index, addresses);
        match unordered_phase(images.len() as u16, &tile_rows, &wanted) {
            Ok(report) => {
                horizons[index] = report.get().horizon;
                reports.push(report.into_inner());
            }
            Err(found) => violations.merge(found),
        }
    }
    (reports, horizons, tables.into_iter().max().unwrap_or(0))
}

/// What every row ends with: `br m10` (§4.6).
const RETURN: u32 = 0x43a0_0000;

/// Tiles that sit a phase out call a row that only returns (`target/ipu21.md` §2.8).
fn idle(
    step: usize,
    rows: &[Vec<Option<CalledRow>>],
    words: &[(TileId, u32, Vec<u32>)],
    violations: &mut Violations,
) {
    for (tile, _, words) in words {
        let called = rows.get(usize::from(tile.0)).and_then(|rows| rows[step]);
        if called.is_some_and(|row| !row.active) && words.as_slice() != [RETURN] {
            let (tile, found) = (*tile, "a row that takes events".to_owned());
            let expected = "a row that only returns, of a tile that sits out".to_owned();
            violations.add(Violation::Program { tile, step, found, expected });
        }
    }
}

fn wanted(program: &Program, step: usize, addresses: &Addresses) -> Vec<Wanted> {
    let mut wanted = vec![];
    for transfer in program.steps[step].transfers() {
        let from = addresses.get(transfer.from.0, transfer.source);
        let from = from.map_or(0, |start| (start + Bytes(transfer.from.1)).0);
        for tile in transfer.destinations {
            let to = addresses.get(transfer.to.0, *tile);
            let to = to.map_or(0, |start| (start + Bytes(transfer.to.1)).0);
            let (source, words) = (transfer.source, transfer.words);
            wanted.push(Wanted { tile: *tile, to, words, source, from });
        }
    }
    wanted
}
