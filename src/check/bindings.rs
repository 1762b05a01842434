//! What the host is told: bindings of tensors and of cycle samples, calls and entry points
//! (`target/ipu21.md` §7.1, §7.2, §7.5).

use std::collections::BTreeMap;

use crate::model::Graph;
use crate::package::application::{Application, Binding, EntryPoint, PROFILE_BINDINGS};
use crate::package::host;
use crate::plan::Network;
use crate::program::{Addresses, Buffer, BufferId, Program, Role};
use crate::target::TileId;
use crate::target::sram::{END_CYCLE, START_CYCLE};

use super::violation::{Violation, Violations};

fn wrong(name: &str, what: &str) -> Violation {
    Violation::Binding { name: name.to_owned(), what: what.to_owned() }
}

/// Checks all bindings; returns where the samples of every step begin, on all tiles alike.
pub(super) fn check(
    application: &Application,
    graph: &Graph,
    network: &Network,
    program: &Program,
    addresses: &Addresses,
    violations: &mut Violations,
) -> Option<u32> {
    let tensors: Vec<Binding> =
        application.outputs.iter().filter(|found| !found.is_profile()).cloned().collect();
    let lists = [
        (Role::Input, &application.inputs),
        (Role::Output, &tensors),
        (Role::Parameter, &application.weights),
    ];
    for (role, bindings) in lists {
        let wanted: Vec<(BufferId, &Buffer)> = (0..)
            .map(BufferId)
            .zip(&program.buffers)
            .filter(|(_, buffer)| buffer.role == role)
            .collect();
        let names = wanted.iter().map(|(_, buffer)| &buffer.name);
        if !bindings.iter().map(|binding| &binding.name).eq(names) {
            let what = "the list is not that of the program's buffers";
            violations.add(wrong(&format!("{role:?}"), what));
        }
        let named: BTreeMap<&str, &Binding> =
            bindings.iter().map(|binding| (binding.name.as_str(), binding)).collect();
        for (id, buffer) in wanted {
            let Some(binding) = named.get(buffer.name.as_str()) else { continue };
            if !describes(binding, buffer, graph, network) || !lies(binding, id, buffer, addresses)
            {
                let what = "type, shape or slices are not those of its buffer";
                violations.add(wrong(&binding.name, what));
            }
        }
    }
    calls(application, &tensors, violations);
    samples(application, program, violations)
}

fn describes(binding: &Binding, buffer: &Buffer, graph: &Graph, network: &Network) -> bool {
    let tensor = buffer.fill.as_ref().and_then(|fill| fill.tensor(network));
    tensor
        .map(|id| graph.tensor(id))
        .is_some_and(|tensor| tensor.dtype.name() == binding.dtype && tensor.shape == binding.shape)
}

fn lies(binding: &Binding, id: BufferId, buffer: &Buffer, addresses: &Addresses) -> bool {
    let mut offset = 0;
    binding.slices.len() == buffer.sizes.len()
        && binding.slices.iter().zip(buffer.sizes.iter()).all(|(slice, (tile, bytes))| {
            let fits = slice.tile == u32::from(tile.physical().0)
                && Some(slice.tile_address) == addresses.get(id, *tile).map(|a| a.0)
                && slice.size == u64::from(*bytes)
                && slice.file_offset == offset;
            offset += u64::from(*bytes);
            fits
        })
}

/// The three bindings of cycle samples, exactly: the steps' samples lie where the binding says, at
/// one address on all tiles; the others where the runtime's state has them.
fn samples(
    application: &Application,
    program: &Program,
    violations: &mut Violations,
) -> Option<u32> {
    let images = application.tiles.len();
    let found = |name: &str| application.outputs.iter().find(|binding| binding.name == name);
    let steps = program.steps.len() as u32 + 1;
    let own = found(PROFILE_BINDINGS[1]).and_then(|binding| binding.slices.first());
    let own = own.map(|slice| slice.tile_address);
    let places = [(Some(START_CYCLE.0), 1), (own, steps), (Some(END_CYCLE.0), 1)];
    for (name, (address, count)) in PROFILE_BINDINGS.into_iter().zip(places) {
        let right = found(name).is_some_and(|binding| {
            binding.dtype == "u32"
                && binding.shape == [images as u32, count]
                && binding.slices.len() == images
                && (0_u16..).zip(&binding.slices).all(|(tile, slice)| {
                    slice.tile == u32::from(TileId(tile).physical().0)
                        && Some(slice.tile_address) == address
                        && slice.size == 4 * u64::from(count)
                        && slice.file_offset == u64::from(tile) * slice.size
                })
        });
        if !right {
            violations.add(wrong(name, "it is not a sample a step on every tile, at one place"));
        }
    }
    own
}

/// Calls and entry points move exactly the bindings' bytes.
fn calls(application: &Application, outputs: &[Binding], violations: &mut Violations) {
    let (inputs, weights) = (&application.inputs, &application.weights);
    let wanted = host::host_exchange(application.tiles.len(), inputs, outputs, weights);
    if application.host_exchange != wanted {
        let what = "the host's calls are not those that move its bindings".to_owned();
        violations.add(Violation::Image { what });
    }
    let entry =
        |name: &str, command| EntryPoint { name: name.to_owned(), command, external_syncs: 0 };
    if application.entry_points != [entry("initialize", host::INITIALIZE), entry("run", host::RUN)]
    {
        let what = "the entry points are not `initialize` and `run`".to_owned();
        violations.add(Violation::Image { what });
    }
}
