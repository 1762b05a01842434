//! Memory of the incumbent: bytes of every tile, one tile over time, support memory by kind.

use super::html::{Cell, Markup, figure, paragraph, section, table};
use super::plot::{Axis, Key, Layer, Plot, line};
use crate::package::application::KERNELS_RESERVED;
use crate::report::cycles;
use crate::report::figures::memory::SupportFigures;
use crate::report::figures::{MemoryFigures, PackageFigures, TileFigures};
use crate::target::sram::{MEMORY_END, MEMORY_START};

const LIVE: &str = "#222222";

pub(super) fn section_of(package: &PackageFigures) -> Markup {
    let memory = &package.memory;
    let caption = "Bytes of every tile. The black line is code, rows and the bytes that live at the \
         tile's fullest step; what rises above it is memory that holds data at other steps only. The \
         axis ends at the size of a tile's memory.";
    let over_time = format!(
        "Tile {} over time: steps to the right, addresses upwards from {:#x} to {:#x} (bytes). Grey \
         is code and rows.",
        package.drawn_tile, MEMORY_START.0, MEMORY_END.0
    );
    let content = [
        paragraph(fullest(memory)),
        figure(plot(memory), caption),
        figure(Markup::drawing(&package.drawing), &over_time),
        Markup::plain("h3", "Support memory"),
        paragraph(format!(
            "Bytes by kind, each of the tile that needs the most of it. Kernels are {}.",
            kernels(&package.kernels)
        )),
        support(&memory.support),
    ];
    section("memory", "Memory of the incumbent", content.into_iter().collect())
}

/// What stands where kernels are to be, in words.
fn kernels(origin: &str) -> String {
    match origin {
        KERNELS_RESERVED => {
            "reserved: their ranges hold traps, and their sizes are estimates".to_owned()
        }
        other => other.to_owned(),
    }
}

/// The fullest tile in words.
fn fullest(memory: &MemoryFigures) -> String {
    let most =
        memory.tiles.iter().max_by_key(|tile| (tile.live_bytes, std::cmp::Reverse(tile.tile)));
    most.map_or("No tile is loaded.".to_owned(), |tile| {
        format!(
            "A tile has {} bytes. At its fullest step tile {} holds the most data: {} bytes; over \
             all steps its buffers take {} bytes of memory.",
            cycles(memory.tile_bytes.into()),
            tile.tile,
            cycles(tile.live_bytes),
            cycles(tile.data_bytes.into())
        )
    })
}

fn plot(memory: &MemoryFigures) -> Markup {
    let tiles = &memory.tiles;
    let mut plot = Plot {
        x: Axis::exactly("logical tile", 0.0, tiles.len().max(1) as f64),
        y: Axis::exactly("bytes", 0.0, memory.tile_bytes.into()),
        marks: vec![],
        keys: vec![],
    };
    let layer = |colour, name: &str, bytes: fn(&TileFigures) -> u32| Layer {
        key: Key { colour, name: name.to_owned() },
        values: tiles.iter().map(|tile| bytes(tile).into()).collect(),
    };
    plot.stack(vec![
        layer("#66aa99", "code", |tile| tile.code_bytes),
        layer("#ddaa33", "rows", |tile| tile.rows_bytes),
        layer("#4477aa", "data", |tile| tile.data_bytes),
    ]);
    let live = live(&plot, tiles);
    plot.marks.push(line(live, LIVE, "1", "none"));
    plot.keys.push(Key { colour: LIVE, name: "code, rows and peak live data".to_owned() });
    plot.draw()
}

/// The line of what lives, on top of code and rows.
fn live(plot: &Plot, tiles: &[TileFigures]) -> String {
    let mut path = String::new();
    for (bar, tile) in tiles.iter().enumerate() {
        let support = u64::from(tile.code_bytes) + u64::from(tile.rows_bytes);
        let at = plot.down((support + tile.live_bytes) as f64);
        let (left, right) = (plot.across(bar as f64), plot.across(bar as f64 + 1.0));
        let begin = if bar == 0 { format!("M{left:.2} {at:.2}") } else { format!("V{at:.2}") };
        path.push_str(&format!("{begin}H{right:.2}"));
    }
    path
}

fn support(support: &SupportFigures) -> Markup {
    let kinds = [
        ("launch words, runtime routines and kernels", support.linked_bytes),
        ("tile program", support.generated_code_bytes),
        ("exchange rows", support.exchange_table_bytes),
        ("cycle samples", support.profile_bytes),
        ("programs of the host's calls", support.host_code_bytes),
        ("data of the host's calls", support.host_data_bytes),
    ];
    let row = |(kind, bytes): (&str, u32)| {
        [Cell::Text(kind.to_owned()), Cell::Number(cycles(bytes.into()))]
    };
    table(["kind", "bytes"], kinds.map(row).into())
}
