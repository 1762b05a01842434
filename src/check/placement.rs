//! Where buffers lie, against what they need.

use std::collections::BTreeMap;

use crate::package::Application;
use crate::program::{Addresses, Buffer, BufferId, Class, Program};
use crate::target::sram::{INTERLEAVED_START, LOAD_END, RUNTIME_STATE, elements};
use crate::target::{Address, Bytes, PhysicalTile, TileId};

use super::images::fetched;
use super::violation::{Violation, Violations};

/// A piece of a buffer on one tile.
struct Piece<'a> {
    buffer: &'a Buffer,
    start: u32,
    end: u32,
}

/// Reads the claimed placement out of the debug regions and checks everything about it.
pub(super) fn check<'a>(
    application: &Application,
    program: &'a Program,
    violations: &mut Violations,
) -> Placement<'a> {
    let mut claimed: BTreeMap<(u32, &str), (u32, u32)> = BTreeMap::new();
    for region in &application.debug_regions {
        let key = (region.physical_tile, region.name.as_str());
        if claimed.insert(key, (region.address, region.size)).is_some() {
            violations.add(wrong(region.physical_tile, &region.name, "it has two places"));
        }
    }
    let mut addresses = Addresses::new(program.buffers.len(), program.tiles);
    let mut pieces: Vec<Vec<Piece<'_>>> = (0..program.tiles).map(|_| vec![]).collect();
    for (id, buffer) in (0..).map(BufferId).zip(&program.buffers) {
        for &(tile, bytes) in buffer.sizes.iter() {
            let number = u32::from(tile.physical().0);
            let Some((address, size)) = claimed.remove(&(number, buffer.name.as_str())) else {
                violations.add(wrong(number, &buffer.name, "it has no place"));
                continue;
            };
            if size != bytes {
                violations.add(wrong(number, &buffer.name, "it has another size"));
            }
            // What is no place at all is not looked at any further.
            let Some(end) = piece(tile, buffer, address, bytes, violations) else { continue };
            addresses.set(id, tile, Address(address));
            pieces[usize::from(tile.0)].push(Piece { buffer, start: address, end });
        }
    }
    for ((number, name), _) in claimed {
        violations.add(wrong(number, name, "no step of the program knows it"));
    }
    for (tile, pieces) in (0..).map(TileId).zip(&mut pieces) {
        overlaps(tile, pieces, violations);
    }
    apart(program, &addresses, violations);
    code_elements(application, &pieces, violations);
    Placement { addresses, pieces }
}

/// Where everything lies.
pub(super) struct Placement<'a> {
    pub(super) addresses: Addresses,
    pieces: Vec<Vec<Piece<'a>>>,
}

impl Placement<'_> {
    /// Cycle samples are written throughout: no buffer may lie on them, whenever it lives.
    pub(super) fn keep_off(&self, samples: (u32, u32), violations: &mut Violations) {
        let end = samples.0.saturating_add(samples.1);
        for (tile, pieces) in (0..).map(TileId).zip(&self.pieces) {
            let number = tile.physical().0.into();
            for piece in pieces.iter().filter(|p| p.start < end && samples.0 < p.end) {
                let what = "it lies on cycle samples";
                violations.add(wrong(number, &piece.buffer.name, what));
            }
        }
    }
}

fn wrong(number: u32, buffer: &str, what: &str) -> Violation {
    let tile = PhysicalTile::new(number as u16).map_or(TileId(0), PhysicalTile::logical);
    Violation::Placement { tile, buffer: buffer.to_owned(), what: what.to_owned() }
}

/// One past the last byte, tail included, of a piece that lies in memory.
fn piece(
    tile: TileId,
    buffer: &Buffer,
    address: u32,
    bytes: u32,
    violations: &mut Violations,
) -> Option<u32> {
    let mut add = |what: &str| violations.add(wrong(tile.physical().0.into(), &buffer.name, what));
    if !address.is_multiple_of(buffer.alignment) {
        add("it is not aligned");
    }
    let end = u64::from(address) + u64::from(bytes) + u64::from(buffer.tail);
    if address < crate::target::sram::MEMORY_START.0 || end > u64::from(LOAD_END.0) {
        add("it leaves the memory that can be loaded");
        return None;
    }
    if buffer.class == Class::Interleaved && address < INTERLEAVED_START.0 {
        add("it must lie in interleaved memory");
    }
    if address < RUNTIME_STATE.1.0 && end > u64::from(RUNTIME_STATE.0.0) {
        add("it lies on the runtime's state");
    }
    Some(address + bytes + buffer.tail)
}

fn overlaps(tile: TileId, pieces: &mut [Piece<'_>], violations: &mut Violations) {
    pieces.sort_by_key(|piece| piece.start);
    for (index, first) in pieces.iter().enumerate() {
        for second in pieces[index + 1..].iter().take_while(|second| second.start < first.end) {
            let (a, b) = (&first.buffer.live, &second.buffer.live);
            if a.start < b.end && b.start < a.end {
                let (first, second) = (first.buffer.name.clone(), second.buffer.name.clone());
                violations.add(Violation::Overlap { tile, first, second });
            }
        }
    }
}

fn apart(program: &Program, addresses: &Addresses, violations: &mut Violations) {
    for &(a, b) in &program.apart {
        let [first, second] = [a, b].map(|id| &program.buffers[id.0 as usize]);
        for &(tile, bytes) in first.sizes.iter() {
            let Ok(at) = second.sizes.binary_search_by_key(&tile, |size| size.0) else { continue };
            let (Some(x), Some(y)) = (addresses.get(a, tile), addresses.get(b, tile)) else {
                continue;
            };
            let mine: Vec<_> = elements(x, Bytes(bytes)).collect();
            if elements(y, Bytes(second.sizes[at].1)).any(|element| mine.contains(&element)) {
                let (first, second) = (first.name.clone(), second.name.clone());
                violations.add(Violation::NotApart { tile, first, second });
            }
        }
    }
}

/// Elements that hold code or rows hold no data (`target/ipu21.md` §5.2).
fn code_elements(
    application: &Application,
    pieces: &[Vec<Piece<'_>>],
    violations: &mut Violations,
) {
    for image in &application.tiles {
        let tile = PhysicalTile(image.physical_tile as u16).logical();
        let Some(pieces) = pieces.get(usize::from(tile.0)) else { continue };
        let mut code = [false; crate::target::sram::ELEMENTS as usize];
        for segment in &image.segments {
            for element in fetched(segment) {
                code[usize::from(element.0)] = true;
            }
        }
        for piece in pieces {
            let bytes = Bytes(piece.end.saturating_sub(piece.start));
            if elements(Address(piece.start), bytes).any(|element| code[usize::from(element.0)]) {
                let what = "it shares an element with code";
                violations.add(wrong(image.physical_tile, &piece.buffer.name, what));
            }
        }
    }
}
