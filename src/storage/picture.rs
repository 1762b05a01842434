//! A picture of placed buffers: time to the right, addresses upwards.

use std::ops::Range;

use super::file::PlacementFile;
use super::problem::Problem;
use super::rectangles::Rectangles;
use crate::program::Program;
use crate::target::TileId;
use crate::target::sram::{MEMORY_END, MEMORY_START};

/// Size of the drawing, and what is left free around it.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 800.0;
const MARGIN: f64 = 40.0;

/// A buffer during one stretch of time.
struct Patch<'a> {
    /// Which buffer, for its colour.
    buffer: usize,
    name: &'a str,
    live: Range<u32>,
    from: u32,
    size: u32,
}

/// What is drawn.
struct Picture<'a> {
    /// The memory that is shown.
    memory: Range<u32>,
    /// Parts of it that are not free.
    taken: Vec<Range<u32>>,
    patches: Vec<Patch<'a>>,
    /// Where a dashed line shows how high the bytes of the fullest step would reach.
    line: Option<u64>,
    caption: String,
}

impl Rectangles {
    /// A drawing of every buffer at its offset. The frame is the capacity, the dashed line the bytes
    /// that live at the fullest step.
    pub fn to_svg(&self, capacity: u32, offsets: &[u32]) -> String {
        let patch = |(index, offset): (usize, &u32)| {
            let buffer = &self.buffers[index];
            Patch {
                buffer: index,
                name: &buffer.id,
                live: buffer.lower..buffer.upper,
                from: *offset,
                size: buffer.size,
            }
        };
        let bound = self.bound();
        let picture = Picture {
            memory: 0..capacity,
            taken: vec![],
            patches: offsets.iter().enumerate().map(patch).collect(),
            line: Some(bound),
            caption: format!("{capacity} bytes, at most {bound} live"),
        };
        picture.to_svg()
    }
}

impl PlacementFile {
    /// A drawing of every buffer at its address; the frame is tile memory from the first free byte to
    /// the last, what is not free is grey.
    pub fn to_svg(&self, problem: &Problem, addresses: &[u32]) -> String {
        let steps = problem.steps();
        let mut patches = vec![];
        for (index, (buffer, address)) in problem.buffers.iter().zip(addresses).enumerate() {
            let all = || std::iter::once(steps.clone()).collect();
            let times = if buffer.untouched { all() } else { buffer.live.clone() };
            patches.extend(times.into_iter().map(|live| Patch {
                buffer: index,
                name: &self.buffers[index].name,
                live,
                from: *address,
                size: buffer.size,
            }));
        }
        let ends = problem.free.first().zip(problem.free.last());
        let memory = ends.map_or(0..1, |(first, last)| first.start..last.end);
        let gaps = problem.free.windows(2).map(|pair| pair[0].end..pair[1].start);
        let caption = format!(
            "{} to {}, {} bytes free, at most {} live",
            memory.start,
            memory.end,
            problem.capacity(),
            problem.fullest().1
        );
        let taken = gaps.filter(|gap| !gap.is_empty()).collect();
        Picture { memory, taken, patches, line: None, caption }.to_svg()
    }
}

/// A drawing of a placed program's buffers on one tile. `address` knows where each lies there; what
/// code and rows take is grey.
pub fn tile_to_svg(
    program: &Program,
    tile: TileId,
    address: impl Fn(&str) -> Option<u32>,
    taken: Vec<Range<u32>>,
) -> String {
    let patch = |(index, buffer): (usize, &'_ crate::program::Buffer)| {
        let piece = buffer.sizes.binary_search_by_key(&tile, |piece| piece.0).ok()?;
        Some((index, buffer.sizes[piece].1, address(&buffer.name)?))
    };
    let pieces: Vec<_> = program.buffers.iter().enumerate().filter_map(patch).collect();
    let patches: Vec<Patch<'_>> = pieces
        .iter()
        .map(|(index, size, from)| {
            let buffer = &program.buffers[*index];
            let (name, live) = (buffer.name.as_str(), buffer.live.clone());
            Patch { buffer: *index, name, live, from: *from, size: *size }
        })
        .collect();
    let live_at = |step: u32| -> u64 {
        let live = patches.iter().filter(|patch| patch.live.contains(&step));
        live.map(|patch| u64::from(patch.size)).sum()
    };
    let most = (0..program.steps.len() as u32).map(live_at).max().unwrap_or(0);
    let caption = format!("tile {tile}: {} buffers, at most {most} bytes live", patches.len());
    let memory = MEMORY_START.0..MEMORY_END.0;
    Picture { memory, taken, patches, line: None, caption }.to_svg()
}

/// Positions on the drawing.
struct Scale {
    start: u32,
    across: f64,
    top: u32,
    up: f64,
}

impl Scale {
    /// Left, top, width and height of steps and addresses.
    fn of(&self, live: &Range<u32>, from: u32, size: u32) -> String {
        format!(
            "x=\"{:.3}\" y=\"{:.3}\" width=\"{:.3}\" height=\"{:.3}\"",
            MARGIN + self.across * f64::from(live.start - self.start),
            MARGIN + self.up * (f64::from(self.top) - f64::from(from) - f64::from(size)),
            self.across * f64::from(live.end - live.start),
            self.up * f64::from(size),
        )
    }
}

impl Picture<'_> {
    fn to_svg(&self) -> String {
        let start = self.patches.iter().map(|patch| patch.live.start).min().unwrap_or(0);
        let end = self.patches.iter().map(|patch| patch.live.end).max().unwrap_or(1);
        let scale = Scale {
            start,
            across: WIDTH / f64::from(end - start).max(1.0),
            top: self.memory.end,
            up: HEIGHT / f64::from((self.memory.end - self.memory.start).max(1)),
        };
        let (width, height) = (WIDTH + 2.0 * MARGIN, HEIGHT + 2.0 * MARGIN);
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n"
        );
        for taken in &self.taken {
            let place = scale.of(&(start..end), taken.start, taken.end - taken.start);
            text.push_str(&format!("<rect {place} fill=\"#ccc\"/>\n"));
        }
        self.patches.iter().for_each(|patch| text.push_str(&patch.to_svg(&scale)));
        text.push_str(&format!(
            "<rect x=\"{MARGIN}\" y=\"{MARGIN}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             fill=\"none\" stroke=\"#000\"/>\n"
        ));
        if let Some(line) = self.line {
            let at = MARGIN + scale.up * (f64::from(self.memory.end) - line as f64);
            text.push_str(&format!(
                "<path d=\"M {MARGIN} {at:.3} h {WIDTH}\" stroke=\"#000\" \
                 stroke-dasharray=\"6 4\"/>\n"
            ));
        }
        text.push_str(&format!(
            "<text x=\"{MARGIN}\" y=\"{}\">{}</text>\n\
             <text x=\"{MARGIN}\" y=\"{}\">steps {start} to {end}</text>\n</svg>\n",
            MARGIN - 12.0,
            self.caption,
            HEIGHT + MARGIN + 20.0,
        ));
        text
    }
}

impl Patch<'_> {
    fn to_svg(&self, scale: &Scale) -> String {
        let Patch { buffer, name, live, from, size } = self;
        // Neighbours in the file differ most by golden angles.
        let hue = buffer * 137 % 360;
        format!(
            "<rect {} fill=\"hsl({hue},60%,70%)\" stroke=\"#333\" stroke-width=\"0.3\">\
             <title>{}: steps {} to {}, bytes {from} to {}</title></rect>\n",
            scale.of(live, *from, *size),
            escaped(name),
            live.start,
            live.end,
            u64::from(*from) + u64::from(*size),
        )
    }
}

/// Text that cannot be taken for markup; what XML has no place for is left out.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace(|character: char| character.is_control(), "")
}
