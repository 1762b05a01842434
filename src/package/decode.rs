//! From bytes to working types, with every reader check of `target/ipu21.md` §7.1.

use capnp::message::ReaderOptions;
use capnp::serialize;

use crate::target::sram::{MEMORY_END, MEMORY_START};

use super::application::{
    Application, Binding, DebugRegion, DebugSymbol, EntryPoint, HostCall, HostExchange, HostPage,
    HostSlice, Origin, RegionSlice, SCHEMA_VERSION, Segment, Step, StepKind, TARGET, TileImage,
    TileProfilePlan,
};
use super::file::PackageError;
use super::wire::application_capnp as wire;
use super::wire::shared_capnp;

/// Reads a package.
///
/// # Errors
/// If the bytes are no application of this version, or break a reader check.
pub fn read(bytes: &[u8]) -> Result<Application, PackageError> {
    let mut rest = bytes;
    let message = serialize::read_message_from_flat_slice(&mut rest, options()).map_err(form)?;
    if !rest.is_empty() {
        return Err(PackageError::Rule(format!("{} bytes follow the message", rest.len())));
    }
    let root = message.get_root::<wire::application::Reader<'_>>().map_err(form)?;
    header(root).map_err(form)??;
    let application = application(root).map_err(form)?;
    super::checks::check(&application)?;
    Ok(application)
}

/// Files of hundreds of megabytes are normal.
pub(super) fn options() -> ReaderOptions {
    ReaderOptions { traversal_limit_in_words: None, nesting_limit: 64 }
}

pub(super) fn form(error: capnp::Error) -> PackageError {
    PackageError::Form(error.to_string())
}

pub(super) fn text(reader: capnp::text::Reader<'_>) -> capnp::Result<String> {
    Ok(reader.to_str()?.to_owned())
}

type Read<T> = capnp::Result<T>;

fn header(root: wire::application::Reader<'_>) -> Read<Result<(), PackageError>> {
    let version = root.get_schema_version();
    if version != SCHEMA_VERSION {
        return Ok(Err(PackageError::Version { found: version, expected: SCHEMA_VERSION }));
    }
    let (base, size) = (root.get_tile_memory_base(), root.get_tile_memory_size());
    let target = text(root.get_target()?)?;
    if target != TARGET || base != MEMORY_START.0 || size != (MEMORY_END - MEMORY_START).0 {
        let found = format!("target `{target}` with {size} bytes at {base:#x}");
        return Ok(Err(PackageError::Rule(found)));
    }
    Ok(Ok(()))
}

fn application(root: wire::application::Reader<'_>) -> Read<Application> {
    Ok(Application {
        compiler_version: text(root.get_compiler_version()?)?,
        tiles: root.get_tiles()?.iter().map(tile).collect::<Read<_>>()?,
        inputs: root.get_inputs()?.iter().map(binding).collect::<Read<_>>()?,
        outputs: root.get_outputs()?.iter().map(binding).collect::<Read<_>>()?,
        weights: root.get_weights()?.iter().map(binding).collect::<Read<_>>()?,
        host_exchange: host_exchange(root.get_host_exchange()?)?,
        entry_points: root.get_entry_points()?.iter().map(entry).collect::<Read<_>>()?,
        device_config_writes: root
            .get_device_config_writes()?
            .iter()
            .map(|write| (write.get_offset(), write.get_value()))
            .collect(),
        profile_tiles: root.get_profile_tiles()?.iter().map(plan).collect::<Read<_>>()?,
        debug_symbols: root.get_debug_symbols()?.iter().map(symbol).collect::<Read<_>>()?,
        debug_regions: root.get_debug_regions()?.iter().map(region).collect::<Read<_>>()?,
        origin: origin(root)?,
    })
}

fn tile(from: wire::tile_image::Reader<'_>) -> Read<TileImage> {
    let segment = |from: wire::segment::Reader<'_>| -> Read<Segment> {
        Ok(Segment {
            address: from.get_address(),
            memory_size: from.get_memory_size(),
            data: from.get_data()?.to_vec(),
            flags: from.get_flags(),
        })
    };
    Ok(TileImage {
        physical_tile: from.get_physical_tile(),
        entry_point: from.get_entry_point(),
        segments: from.get_segments()?.iter().map(segment).collect::<Read<_>>()?,
        command_address: from.get_command_address(),
        diagnostic_address: from.get_diagnostic_address(),
    })
}

fn binding(from: wire::binding::Reader<'_>) -> Read<Binding> {
    let slice = |from: wire::region_slice::Reader<'_>| RegionSlice {
        tile: from.get_tile(),
        tile_address: from.get_tile_address(),
        file_offset: from.get_file_offset(),
        size: from.get_size(),
    };
    Ok(Binding {
        name: text(from.get_name()?)?,
        dtype: text(from.get_dtype()?)?,
        shape: from.get_shape()?.iter().collect(),
        slices: from.get_slices()?.iter().map(slice).collect(),
    })
}

fn host_exchange(from: wire::host_exchange::Reader<'_>) -> Read<HostExchange> {
    let page = |from: wire::host_page::Reader<'_>| HostPage {
        index: from.get_index(),
        size: from.get_size(),
    };
    Ok(HostExchange {
        startup_mark: from.get_startup_mark(),
        command_page: from.get_command_page(),
        command_offset: from.get_command_offset(),
        pages: from.get_pages()?.iter().map(page).collect(),
        attach_order: from.get_attach_order()?.iter().collect(),
        calls: from.get_calls()?.iter().map(host_call).collect::<Read<_>>()?,
    })
}

fn host_call(from: wire::host_call::Reader<'_>) -> Read<HostCall> {
    let slice = |from: wire::host_slice::Reader<'_>| HostSlice {
        page: from.get_page(),
        page_offset: from.get_page_offset(),
        file_offset: from.get_file_offset(),
        size: from.get_size(),
    };
    Ok(HostCall {
        name: text(from.get_name()?)?,
        command: from.get_command(),
        phases: from.get_phases(),
        inputs: from.get_inputs()?.iter().map(slice).collect(),
        outputs: from.get_outputs()?.iter().map(slice).collect(),
        invocations: from.get_invocations(),
        input_batch_ends: from.get_input_batch_ends()?.iter().collect(),
        output_batch_ends: from.get_output_batch_ends()?.iter().collect(),
    })
}

fn entry(from: wire::entry_point::Reader<'_>) -> Read<EntryPoint> {
    Ok(EntryPoint {
        name: text(from.get_name()?)?,
        command: from.get_command(),
        external_syncs: from.get_external_syncs(),
    })
}

fn plan(from: wire::tile_profile_plan::Reader<'_>) -> Read<TileProfilePlan> {
    Ok(TileProfilePlan {
        physical_tile: from.get_physical_tile(),
        steps: from.get_steps()?.iter().map(step).collect::<Read<_>>()?,
    })
}

pub(super) fn step(from: shared_capnp::step::Reader<'_>) -> Read<Step> {
    let pair = |from: shared_capnp::metadata::Reader<'_>| -> Read<(String, String)> {
        Ok((text(from.get_name()?)?, text(from.get_value()?)?))
    };
    Ok(Step {
        local_index: from.get_local_index(),
        phase: from.get_phase(),
        epoch: from.get_epoch(),
        operation: text(from.get_operation()?)?,
        kind: match from.get_kind()? {
            shared_capnp::StepKind::Exchange => StepKind::Exchange,
            shared_capnp::StepKind::Compute => StepKind::Compute,
            shared_capnp::StepKind::Synchronization => StepKind::Synchronization,
            shared_capnp::StepKind::Idle => StepKind::Idle,
        },
        kernel: text(from.get_kernel()?)?,
        metadata: from.get_metadata()?.iter().map(pair).collect::<Read<_>>()?,
        exchange_event_cycles: from.get_exchange_event_cycles(),
    })
}

fn symbol(from: wire::debug_symbol::Reader<'_>) -> Read<DebugSymbol> {
    Ok(DebugSymbol { name: text(from.get_name()?)?, address: from.get_address() })
}

fn region(from: wire::debug_region::Reader<'_>) -> Read<DebugRegion> {
    Ok(DebugRegion {
        physical_tile: from.get_physical_tile(),
        address: from.get_address(),
        size: from.get_size(),
        name: text(from.get_name()?)?,
    })
}

fn origin(root: wire::application::Reader<'_>) -> Read<Origin> {
    Ok(Origin {
        model: text(root.get_model()?)?,
        recipe: text(root.get_recipe()?)?,
        space_hash: text(root.get_space_hash()?)?,
        seed: root.get_seed(),
        trial: root.get_trial(),
        evaluator_version: text(root.get_evaluator_version()?)?,
        calibration_version: root.get_calibration_version(),
        kernels: text(root.get_kernels()?)?,
        predicted_cycles: root.get_predicted_cycles(),
        measured_cycles: root.get_measured_cycles(),
        measured_on: text(root.get_measured_on()?)?,
        simulated: root.get_simulated(),
    })
}
