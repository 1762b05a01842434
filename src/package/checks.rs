//! What a reader rejects (`target/ipu21.md` §7.1) and what the loader needs of an image.

use std::collections::BTreeSet;

use crate::target::TILES;
use crate::target::sram::{LOAD_END, LOAD_START, MEMORY_END, MEMORY_START};

use super::application::{ALL_TILES, Application, Binding, HostCall, HostExchange, TileImage};
use super::file::PackageError;

type Checked = Result<(), PackageError>;

fn rule(broken: bool, what: impl FnOnce() -> String) -> Checked {
    if broken { Err(PackageError::Rule(what())) } else { Ok(()) }
}

/// All checks.
pub(super) fn check(application: &Application) -> Checked {
    let tiles = &application.tiles;
    rule(tiles.is_empty(), || "no tiles".to_owned())?;
    rule(!tiles.len().is_multiple_of(64), || {
        format!("{} tiles, expected a multiple of 64", tiles.len())
    })?;
    let mut present = BTreeSet::new();
    for tile in tiles {
        let number = tile.physical_tile;
        rule(number >= u32::from(TILES), || format!("tile {number} does not exist"))?;
        rule(!present.insert(number), || format!("tile {number} has two images"))?;
        image(tile)?;
    }
    let mut names = BTreeSet::new();
    let bindings =
        application.inputs.iter().chain(&application.outputs).chain(&application.weights);
    for found in bindings {
        rule(found.name.is_empty(), || "a binding without a name".to_owned())?;
        rule(!names.insert(&found.name), || format!("two bindings are named `{}`", found.name))?;
        binding(found, &present)?;
    }
    profile_plans(application, &present)?;
    for region in &application.debug_regions {
        let known = region.physical_tile == ALL_TILES || present.contains(&region.physical_tile);
        rule(region.size == 0 || !known, || {
            format!("debug region `{}` is empty or on an absent tile", region.name)
        })?;
    }
    let mut offsets = BTreeSet::new();
    for (offset, _) in &application.device_config_writes {
        rule(!offset.is_multiple_of(4) || !offsets.insert(*offset), || {
            format!("configuration write at {offset:#x} is misaligned or repeated")
        })?;
    }
    host_exchange(&application.host_exchange)
}

fn image(tile: &TileImage) -> Checked {
    let number = tile.physical_tile;
    let mut spans: Vec<(u64, u64)> = vec![];
    for segment in &tile.segments {
        let (start, size) = (u64::from(segment.address), u64::from(segment.memory_size));
        let inside = start >= u64::from(MEMORY_START.0) && start + size <= u64::from(MEMORY_END.0);
        rule(!inside, || format!("a segment of tile {number} at {start:#x} leaves tile memory"))?;
        rule(segment.data.len() as u64 > size, || {
            format!("a segment of tile {number} at {start:#x} has more data than memory")
        })?;
        spans.push((start, start + size));
    }
    spans.sort_unstable();
    rule(spans.first().map(|span| span.0) != Some(u64::from(LOAD_START.0)), || {
        format!("the image of tile {number} does not begin at {LOAD_START}")
    })?;
    rule(spans.windows(2).any(|pair| pair[1].0 < pair[0].1), || {
        format!("segments of tile {number} overlap")
    })?;
    rule(spans.last().is_some_and(|span| span.1 > u64::from(LOAD_END.0)), || {
        format!("the image of tile {number} ends beyond {LOAD_END}")
    })
}

fn binding(binding: &Binding, present: &BTreeSet<u32>) -> Checked {
    for slice in &binding.slices {
        rule(!present.contains(&slice.tile), || {
            format!("binding `{}` names the absent tile {}", binding.name, slice.tile)
        })?;
        let start = u64::from(slice.tile_address);
        let end = start.checked_add(slice.size);
        let inside = start >= u64::from(MEMORY_START.0)
            && end.is_some_and(|end| end <= u64::from(MEMORY_END.0))
            && slice.file_offset.checked_add(slice.size).is_some();
        rule(!inside, || format!("a slice of binding `{}` leaves tile memory", binding.name))?;
    }
    Ok(())
}

fn profile_plans(application: &Application, present: &BTreeSet<u32>) -> Checked {
    let mut planned = BTreeSet::new();
    for plan in &application.profile_tiles {
        let number = plan.physical_tile;
        rule(!present.contains(&number) || !planned.insert(number), || {
            format!("the profile plan of tile {number} is repeated, or its tile absent")
        })?;
        let ordered = (0..).zip(&plan.steps).all(|(index, step)| step.local_index == index);
        rule(!ordered, || format!("profile steps of tile {number} are not numbered 0, 1, 2, …"))?;
    }
    Ok(())
}

fn host_exchange(host: &HostExchange) -> Checked {
    let mut pages = BTreeSet::new();
    for page in &host.pages {
        rule(!pages.insert(page.index), || format!("host page {} is repeated", page.index))?;
    }
    for index in &host.attach_order {
        rule(!pages.contains(index), || format!("the attach order names the absent page {index}"))?;
    }
    let size =
        |index: u32| host.pages.iter().find(|page| page.index == index).map(|page| page.size);
    if !host.pages.is_empty() {
        let command_end = host.command_offset.checked_add(4);
        let fits = matches!((command_end, size(host.command_page)), (Some(end), Some(size)) if end <= size);
        rule(!fits, || "the command word lies beyond its page".to_owned())?;
    }
    for call in &host.calls {
        host_call(call, &size)?;
    }
    Ok(())
}

fn host_call(call: &HostCall, size: &impl Fn(u32) -> Option<u64>) -> Checked {
    rule(call.invocations == 0, || format!("call `{}` is made 0 times", call.name))?;
    for slice in call.inputs.iter().chain(&call.outputs) {
        let end = slice.page_offset.checked_add(slice.size);
        let fits = matches!((end, size(slice.page)), (Some(end), Some(size)) if end <= size);
        rule(!fits, || format!("a slice of call `{}` lies beyond its page", call.name))?;
    }
    let batches =
        [(&call.input_batch_ends, &call.inputs), (&call.output_batch_ends, &call.outputs)];
    for (ends, slices) in batches {
        let increasing = ends.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = ends.last().is_none_or(|end| *end as usize <= slices.len());
        rule(!increasing || !inside, || {
            format!("batch ends of call `{}` are not increasing", call.name)
        })?;
    }
    Ok(())
}
