//! What support memory holds in a package: measured in its tile images, and told in the log.
//!
//! Programs of the host's calls are counted like everything else, though no package of ours has any
//! yet: all code of an image that is neither linked, nor the tile's program, nor rows, is theirs.

use crate::package::{Application, Segment, TileImage};
use crate::storage::Support;
use crate::target::sram::{EXECUTABLE_END, HOST_WINDOW, LOAD_START};

/// Words that a repetition, or a row that is shared with other addresses, changes in code and rows: no
/// step of our programs is repeated, and only rows that are equal are shared.
const PATCH_BYTES: u32 = 0;

/// Segment flag: it can be executed (`target/ipu21.md` §7.1).
const EXECUTE: u32 = 4;

/// What a segment of a tile's image is.
enum Part {
    /// Launch words, runtime routines, kernels.
    Linked,
    Program,
    Rows,
    HostCode,
    HostData,
}

fn of(segment: &Segment, application: &Application, support: &Support) -> Part {
    let named = || application.debug_symbols.iter().any(|symbol| symbol.address == segment.address);
    match segment.address {
        address if address == support.program.start => Part::Program,
        address if address == support.rows.start => Part::Rows,
        address if address == LOAD_START.0 || named() => Part::Linked,
        _ if segment.flags & EXECUTE != 0 => Part::HostCode,
        _ => Part::HostData,
    }
}

/// Bytes of one tile's support memory, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileUsage {
    /// Launch words, runtime routines and kernels.
    pub linked_bytes: u32,
    /// The generated tile program.
    pub generated_code_bytes: u32,
    /// Rows of all phases.
    pub exchange_table_bytes: u32,
    /// Programs of the host's calls.
    pub host_code_bytes: u32,
    /// What these programs need beside code.
    pub host_data_bytes: u32,
}

impl TileUsage {
    /// What the image of a tile holds in the places of its support memory.
    pub fn of(image: &TileImage, application: &Application, support: &Support) -> TileUsage {
        let mut usage = TileUsage::default();
        for segment in &image.segments {
            let bytes = match of(segment, application, support) {
                Part::Linked => &mut usage.linked_bytes,
                Part::Program => &mut usage.generated_code_bytes,
                Part::Rows => &mut usage.exchange_table_bytes,
                Part::HostCode => &mut usage.host_code_bytes,
                Part::HostData => &mut usage.host_data_bytes,
            };
            *bytes += segment.memory_size;
        }
        usage
    }
}

/// Bytes of support memory, of the tile that needs the most, and where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupportUsage {
    /// One past the last byte of the launch words, runtime routines and kernels that lie before the
    /// host's window.
    pub linked_end: u32,
    /// Launch words, runtime routines and kernels.
    pub linked_bytes: u32,
    /// Cycle samples.
    pub profile_bytes: u32,
    /// Rows of all phases.
    pub exchange_table_bytes: u32,
    /// Programs of the host's calls.
    pub host_code_bytes: u32,
    /// What these programs need beside code.
    pub host_data_bytes: u32,
    /// The generated tile program.
    pub generated_code_bytes: u32,
    /// Where it begins.
    pub code_address: u32,
    /// From there on code may lie.
    pub executable_ranges: Vec<(u32, u32)>,
    /// What is left for data.
    pub available_ranges: Vec<(u32, u32)>,
}

impl SupportUsage {
    /// What the images of an application hold in the places of its support memory.
    pub fn of(application: &Application, support: &Support) -> SupportUsage {
        let tiles: Vec<TileUsage> = application
            .tiles
            .iter()
            .map(|image| TileUsage::of(image, application, support))
            .collect();
        let largest = |bytes: fn(&TileUsage) -> u32| tiles.iter().map(bytes).max().unwrap_or(0);
        let profile =
            application.profile_tiles.iter().map(|plan| 4 * (plan.steps.len() as u32 + 1));
        let segments = application.tiles.iter().flat_map(|tile| &tile.segments);
        let before_window = segments.filter(|segment| segment.address < HOST_WINDOW.0.0);
        let ends = before_window.map(|segment| segment.address + segment.memory_size);
        SupportUsage {
            linked_end: ends.max().unwrap_or(LOAD_START.0),
            linked_bytes: largest(|tile| tile.linked_bytes),
            profile_bytes: profile.max().unwrap_or(0),
            exchange_table_bytes: largest(|tile| tile.exchange_table_bytes),
            host_code_bytes: largest(|tile| tile.host_code_bytes),
            host_data_bytes: largest(|tile| tile.host_data_bytes),
            generated_code_bytes: largest(|tile| tile.generated_code_bytes),
            code_address: support.program.start,
            executable_ranges: vec![(support.program.start, EXECUTABLE_END.0)],
            available_ranges: support.free.iter().map(|free| (free.start, free.end)).collect(),
        }
    }

    /// Logs it with the field names that users of such builds know.
    pub fn log(&self) {
        tracing::debug!(
            exchange_table_bytes = self.exchange_table_bytes,
            maximum_uncompressed_repeat_patch_bytes = PATCH_BYTES,
            maximum_elided_arithmetic_patch_bytes = PATCH_BYTES,
            "exchange table and repeat patch storage"
        );
        tracing::debug!(
            linked_end = self.linked_end,
            host_code_base = self.code_address,
            host_code_bytes = self.host_code_bytes,
            generated_code_bytes = self.generated_code_bytes,
            exchange_table_bytes = self.exchange_table_bytes,
            executable_ranges = ?self.executable_ranges,
            "placing generated tile programs"
        );
        tracing::debug!(
            linked_end = self.linked_end,
            linked_bytes = self.linked_bytes,
            profile_bytes = self.profile_bytes,
            exchange_table_bytes = self.exchange_table_bytes,
            host_code_bytes = self.host_code_bytes,
            host_data_bytes = self.host_data_bytes,
            generated_code_bytes = self.generated_code_bytes,
            code_address = self.code_address,
            available_ranges = ?self.available_ranges,
            "allocated package support memory"
        );
    }
}
