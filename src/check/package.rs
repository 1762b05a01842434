//! A whole package: read, lower its recipe again, compare.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::model::Graph;
use crate::package::{Application, Binding, read};
use crate::plan::{Network, Recipe};
use crate::program::{
    Addresses, Buffer, BufferId, Call, Program, Role, StepKind, program as lower,
};
use crate::space::check_recipe;
use crate::target::sram::{END_CYCLE, START_CYCLE};
use crate::target::{Bytes, TILES, TileId};

use super::Checked;
use super::code::{self, Action, Image};
use super::operands;
use super::phase::{PhaseReport, TileRow, Wanted, phase};
use super::placement;
use super::violation::{Violation, Violations};

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
    let images = images(&application, &program, &mut violations);
    let addresses = placement::check(&application, &program, &mut violations);
    bindings(&application, &graph, &network, &program, &addresses, &mut violations);
    let routines = code::routines(&application, &mut violations);
    let calls = calls_by_tile(&program, images.len());
    let check = Tiles { program: &program, addresses: &addresses, calls: &calls };
    let walked: Vec<(Vec<Option<u32>>, Violations)> = images
        .par_iter()
        .map(|image| {
            let mut violations = Violations::default();
            let actions = code::actions(image, &routines, &mut violations);
            let rows = check.tile(image, &actions, &mut violations);
            (rows, violations)
        })
        .collect();
    let mut rows = vec![];
    for (found, other) in walked {
        violations.merge(other);
        rows.push(found);
    }
    let (phases, largest_table) = phases(&program, &addresses, &images, &rows, &mut violations);
    if !violations.is_empty() {
        return Err(violations);
    }
    let calls = calls.iter().flatten().map(Vec::len).sum();
    let steps = program.steps.len();
    Ok(Checked(Report { steps, calls, phases, largest_table, application }))
}

/// One image for each of the logical tiles in whole batches of 64.
fn images<'a>(
    application: &'a Application,
    program: &Program,
    violations: &mut Violations,
) -> Vec<Image<'a>> {
    let mut images: Vec<Image<'_>> = application.tiles.iter().map(Image::new).collect();
    images.sort_by_key(|image| image.tile);
    let wanted = usize::from(program.tiles.next_multiple_of(64).min(TILES));
    let expected =
        images.len() == wanted && (0..).map(TileId).zip(&images).all(|(t, i)| t == i.tile);
    if !expected {
        let what = format!("{} images, expected those of tiles 0 to {}", images.len(), wanted - 1);
        violations.add(Violation::Image { what });
    }
    let steps = program.steps.len();
    if application.profile_tiles.len() != images.len()
        || application.profile_tiles.iter().any(|plan| plan.steps.len() != steps)
    {
        let what = format!("profile plans are not {steps} steps on every tile");
        violations.add(Violation::Image { what });
    }
    images
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
}

impl Tiles<'_> {
    /// Compares what a tile does with what its steps want; returns the address of the row that it
    /// calls in every step.
    fn tile(
        &self,
        image: &Image<'_>,
        actions: &[Action],
        violations: &mut Violations,
    ) -> Vec<Option<u32>> {
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
        // The first sample says where the samples lie.
        let Some(Action::Sample(profile)) = actions.get(at) else { return rows };
        for (step, found) in self.program.steps.iter().enumerate() {
            let sample = Action::Sample(profile + 4 * step as u32);
            if !expect(step, &[sample], &mut at) {
                return rows;
            }
            if found.kind == StepKind::Compute {
                let wanted = self.kernel_calls(tile, step);
                if !expect(step, &wanted, &mut at) {
                    return rows;
                }
                continue;
            }
            let active = actions.get(at) != Some(&Action::Sans);
            if !expect(step, &code::around_row(active), &mut at) {
                return rows;
            }
            let Some(Action::Row(row)) = actions.get(at) else {
                let found = format!("{:?}", actions.get(at));
                let expected = "a row".to_owned();
                violations.add(Violation::Program { tile, step, found, expected });
                return rows;
            };
            rows[step] = Some(*row);
            at += 1;
        }
        let end = code::epilogue(profile + 4 * self.program.steps.len() as u32);
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
    rows: &[Vec<Option<u32>>],
    violations: &mut Violations,
) -> (Vec<PhaseReport>, usize) {
    let mut reports = vec![];
    let mut tables = vec![0; images.len()];
    for (index, step) in program.steps.iter().enumerate() {
        if step.kind == StepKind::Compute {
            continue;
        }
        let words: Vec<(TileId, u32, Vec<u32>)> = images
            .par_iter()
            .zip(rows)
            .filter_map(|(image, rows)| Some((image.tile, rows[index]?, image.words(rows[index]?))))
            .map(|(tile, address, mut words)| {
                // What follows the return belongs to other rows.
                let end = words.iter().position(|word| *word == 0x43a0_0000);
                words.truncate(end.map_or(words.len(), |end| end + 1));
                (tile, address, words)
            })
            .collect();
        let tile_rows: Vec<TileRow<'_>> = words
            .iter()
            .map(|(tile, address, words)| TileRow { tile: *tile, address: *address, words })
            .collect();
        for row in &tile_rows {
            if let Some(table) = tables.get_mut(usize::from(row.tile.0)) {
                *table += row.words.len();
            }
        }
        let wanted = wanted(program, index, addresses);
        match phase(images.len() as u16, &tile_rows, &wanted) {
            Ok(report) => reports.push(report.into_inner()),
            Err(found) => violations.merge(found),
        }
    }
    (reports, tables.into_iter().max().unwrap_or(0))
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

fn bindings(
    application: &Application,
    graph: &Graph,
    network: &Network,
    program: &Program,
    addresses: &Addresses,
    violations: &mut Violations,
) {
    let lists = [
        (Role::Input, &application.inputs),
        (Role::Output, &application.outputs),
        (Role::Parameter, &application.weights),
    ];
    for (role, bindings) in lists {
        let named: BTreeMap<&str, &Binding> =
            bindings.iter().map(|binding| (binding.name.as_str(), binding)).collect();
        let ours = bindings.iter().filter(|binding| !binding.name.starts_with("profile."));
        let wanted: Vec<(BufferId, &Buffer)> = (0..)
            .map(BufferId)
            .zip(&program.buffers)
            .filter(|(_, buffer)| buffer.role == role)
            .collect();
        if !ours.map(|binding| &binding.name).eq(wanted.iter().map(|(_, buffer)| &buffer.name)) {
            let what = "the list is not that of the program's buffers".to_owned();
            violations.add(Violation::Binding { name: format!("{role:?}"), what });
        }
        for (id, buffer) in wanted {
            let Some(binding) = named.get(buffer.name.as_str()) else { continue };
            let tensor = buffer.fill.as_ref().and_then(|fill| fill.tensor(network));
            let tensor = tensor.map(|id| graph.tensor(id));
            let described = tensor.is_some_and(|tensor| {
                tensor.dtype.name() == binding.dtype && tensor.shape == binding.shape
            });
            let mut offset = 0;
            let placed = binding.slices.len() == buffer.sizes.len()
                && binding.slices.iter().zip(buffer.sizes.iter()).all(|(slice, (tile, bytes))| {
                    let fits = slice.tile == u32::from(tile.physical().0)
                        && Some(slice.tile_address) == addresses.get(id, *tile).map(|a| a.0)
                        && slice.size == u64::from(*bytes)
                        && slice.file_offset == offset;
                    offset += u64::from(*bytes);
                    fits
                });
            if !described || !placed {
                let what = "type, shape or slices are not those of its buffer".to_owned();
                violations.add(Violation::Binding { name: binding.name.clone(), what });
            }
        }
    }
    for (name, address) in
        [("profile.start-cycle", START_CYCLE.0), ("profile.end-cycle", END_CYCLE.0)]
    {
        let found = application.outputs.iter().find(|binding| binding.name == name);
        let right = found.is_some_and(|binding| {
            !binding.slices.is_empty()
                && binding.slices.iter().all(|slice| slice.tile_address == address)
        });
        if !right {
            let what = "cycle samples lie elsewhere".to_owned();
            violations.add(Violation::Binding { name: name.to_owned(), what });
        }
    }
}
