//! From working types to bytes.

use capnp::message::{Builder, HeapAllocator};
use capnp::serialize;

use crate::target::sram::{MEMORY_END, MEMORY_START};

use super::application::{
    Application, Binding, HostCall, HostExchange, SCHEMA_VERSION, Step, StepKind, TARGET,
};
use super::wire::application_capnp as wire;
use super::wire::shared_capnp;

/// The package's bytes: the same for equal applications.
pub fn write(application: &Application) -> Vec<u8> {
    // One segment from the start: its size does not depend on the allocator's growth.
    let words = (application.size_hint() / 8 + 1024) as u32;
    let allocator = HeapAllocator::new().first_segment_words(words);
    let mut message = Builder::new(allocator);
    fill(application, message.init_root::<wire::application::Builder<'_>>());
    serialize::write_message_to_words(&message)
}

impl Application {
    /// Bytes of content, roughly.
    fn size_hint(&self) -> usize {
        let images = self.tiles.iter().flat_map(|tile| &tile.segments);
        let images: usize = images.map(|segment| segment.data.len() + 64).sum();
        let regions: usize = self.debug_regions.iter().map(|region| region.name.len() + 48).sum();
        let bindings = self.inputs.iter().chain(&self.outputs).chain(&self.weights);
        let slices: usize = bindings.map(|binding| binding.slices.len() * 24 + 128).sum();
        let steps: usize = self.profile_tiles.iter().map(|plan| plan.steps.len() * 128).sum();
        images + regions + slices + steps + self.origin.model.len() + self.origin.recipe.len()
    }
}

fn fill(application: &Application, mut root: wire::application::Builder<'_>) {
    root.set_schema_version(SCHEMA_VERSION);
    root.set_compiler_version(&application.compiler_version);
    root.set_target(TARGET);
    root.set_tile_memory_base(MEMORY_START.0);
    root.set_tile_memory_size((MEMORY_END - MEMORY_START).0);
    tiles(application, root.reborrow());
    bindings(&application.inputs, root.reborrow().init_inputs(application.inputs.len() as u32));
    bindings(&application.outputs, root.reborrow().init_outputs(application.outputs.len() as u32));
    bindings(&application.weights, root.reborrow().init_weights(application.weights.len() as u32));
    host_exchange(&application.host_exchange, root.reborrow().init_host_exchange());
    let mut entries = root.reborrow().init_entry_points(application.entry_points.len() as u32);
    for (index, entry) in (0..).zip(&application.entry_points) {
        let mut to = entries.reborrow().get(index);
        to.set_name(&entry.name);
        to.set_command(entry.command);
        to.set_external_syncs(entry.external_syncs);
    }
    let count = application.device_config_writes.len() as u32;
    let mut writes = root.reborrow().init_device_config_writes(count);
    for (index, (offset, value)) in (0..).zip(&application.device_config_writes) {
        let mut to = writes.reborrow().get(index);
        to.set_offset(*offset);
        to.set_value(*value);
    }
    profile_plans(application, root.reborrow());
    debug(application, root.reborrow());
    origin(application, root);
}

fn tiles(application: &Application, root: wire::application::Builder<'_>) {
    let mut tiles = root.init_tiles(application.tiles.len() as u32);
    for (index, tile) in (0..).zip(&application.tiles) {
        let mut to = tiles.reborrow().get(index);
        to.set_physical_tile(tile.physical_tile);
        to.set_entry_point(tile.entry_point);
        to.set_command_address(tile.command_address);
        to.set_diagnostic_address(tile.diagnostic_address);
        let mut segments = to.init_segments(tile.segments.len() as u32);
        for (index, segment) in (0..).zip(&tile.segments) {
            let mut to = segments.reborrow().get(index);
            to.set_address(segment.address);
            to.set_memory_size(segment.memory_size);
            to.set_data(&segment.data);
            to.set_flags(segment.flags);
        }
    }
}

fn bindings(from: &[Binding], mut to: capnp::struct_list::Builder<'_, wire::binding::Owned>) {
    for (index, binding) in (0..).zip(from) {
        let mut to = to.reborrow().get(index);
        to.set_name(&binding.name);
        to.set_dtype(&binding.dtype);
        numbers(&binding.shape, to.reborrow().init_shape(binding.shape.len() as u32));
        let mut slices = to.init_slices(binding.slices.len() as u32);
        for (index, slice) in (0..).zip(&binding.slices) {
            let mut to = slices.reborrow().get(index);
            to.set_tile(slice.tile);
            to.set_tile_address(slice.tile_address);
            to.set_file_offset(slice.file_offset);
            to.set_size(slice.size);
        }
    }
}

fn numbers(from: &[u32], mut to: capnp::primitive_list::Builder<'_, u32>) {
    for (index, number) in (0..).zip(from) {
        to.set(index, *number);
    }
}

fn host_exchange(from: &HostExchange, mut to: wire::host_exchange::Builder<'_>) {
    to.set_startup_mark(from.startup_mark);
    to.set_command_page(from.command_page);
    to.set_command_offset(from.command_offset);
    let mut pages = to.reborrow().init_pages(from.pages.len() as u32);
    for (index, page) in (0..).zip(&from.pages) {
        let mut to = pages.reborrow().get(index);
        to.set_index(page.index);
        to.set_size(page.size);
    }
    numbers(&from.attach_order, to.reborrow().init_attach_order(from.attach_order.len() as u32));
    let mut calls = to.init_calls(from.calls.len() as u32);
    for (index, call) in (0..).zip(&from.calls) {
        host_call(call, calls.reborrow().get(index));
    }
}

fn host_call(call: &HostCall, mut to: wire::host_call::Builder<'_>) {
    to.set_name(&call.name);
    to.set_command(call.command);
    to.set_phases(call.phases);
    to.set_invocations(call.invocations);
    let fill = |from: &[super::HostSlice],
                mut to: capnp::struct_list::Builder<'_, wire::host_slice::Owned>| {
        for (index, slice) in (0..).zip(from) {
            let mut to = to.reborrow().get(index);
            to.set_page(slice.page);
            to.set_page_offset(slice.page_offset);
            to.set_file_offset(slice.file_offset);
            to.set_size(slice.size);
        }
    };
    fill(&call.inputs, to.reborrow().init_inputs(call.inputs.len() as u32));
    fill(&call.outputs, to.reborrow().init_outputs(call.outputs.len() as u32));
    let ends = &call.input_batch_ends;
    numbers(ends, to.reborrow().init_input_batch_ends(ends.len() as u32));
    let ends = &call.output_batch_ends;
    numbers(ends, to.init_output_batch_ends(ends.len() as u32));
}

fn profile_plans(application: &Application, root: wire::application::Builder<'_>) {
    let mut plans = root.init_profile_tiles(application.profile_tiles.len() as u32);
    for (index, plan) in (0..).zip(&application.profile_tiles) {
        let mut to = plans.reborrow().get(index);
        to.set_physical_tile(plan.physical_tile);
        let mut steps = to.init_steps(plan.steps.len() as u32);
        for (index, from) in (0..).zip(&plan.steps) {
            step(from, steps.reborrow().get(index));
        }
    }
}

pub(super) fn step(from: &Step, mut to: shared_capnp::step::Builder<'_>) {
    to.set_local_index(from.local_index);
    to.set_phase(from.phase);
    to.set_epoch(from.epoch);
    to.set_operation(&from.operation);
    to.set_kind(match from.kind {
        StepKind::Exchange => shared_capnp::StepKind::Exchange,
        StepKind::Compute => shared_capnp::StepKind::Compute,
        StepKind::Synchronization => shared_capnp::StepKind::Synchronization,
        StepKind::Idle => shared_capnp::StepKind::Idle,
    });
    to.set_kernel(&from.kernel);
    let mut metadata = to.reborrow().init_metadata(from.metadata.len() as u32);
    for (index, (name, value)) in (0..).zip(&from.metadata) {
        let mut to = metadata.reborrow().get(index);
        to.set_name(name);
        to.set_value(value);
    }
    to.set_exchange_event_cycles(from.exchange_event_cycles);
}

fn debug(application: &Application, mut root: wire::application::Builder<'_>) {
    let count = application.debug_symbols.len() as u32;
    let mut symbols = root.reborrow().init_debug_symbols(count);
    for (index, symbol) in (0..).zip(&application.debug_symbols) {
        let mut to = symbols.reborrow().get(index);
        to.set_name(&symbol.name);
        to.set_address(symbol.address);
    }
    let mut regions = root.init_debug_regions(application.debug_regions.len() as u32);
    for (index, region) in (0..).zip(&application.debug_regions) {
        let mut to = regions.reborrow().get(index);
        to.set_physical_tile(region.physical_tile);
        to.set_address(region.address);
        to.set_size(region.size);
        to.set_name(&region.name);
    }
}

fn origin(application: &Application, mut root: wire::application::Builder<'_>) {
    let origin = &application.origin;
    root.set_model(&origin.model);
    root.set_recipe(&origin.recipe);
    root.set_space_hash(&origin.space_hash);
    root.set_seed(origin.seed);
    root.set_trial(origin.trial);
    root.set_evaluator_version(&origin.evaluator_version);
    root.set_calibration_version(origin.calibration_version);
    root.set_kernels(&origin.kernels);
    root.set_predicted_cycles(origin.predicted_cycles);
    root.set_measured_cycles(origin.measured_cycles);
    root.set_measured_on(&origin.measured_on);
    root.set_simulated(origin.simulated);
}
