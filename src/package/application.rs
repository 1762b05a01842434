//! Working types of an application: plain data, named as in `target/ipu21.md` §7.1.

/// Schema version that this build writes and reads.
pub const SCHEMA_VERSION: u32 = 5;
/// Target name.
pub const TARGET: &str = "ipu21";
/// Value of a `kernels` field where kernel ranges hold traps instead of code.
pub const KERNELS_RESERVED: &str = "reserved";
/// Names of the output bindings of cycle samples (`target/ipu21.md` §7.2): before the first step,
/// of every step, after the last.
pub const PROFILE_BINDINGS: [&str; 3] =
    ["profile.start-cycle", "profile.cycles", "profile.end-cycle"];
/// All tiles, in a debug region.
pub const ALL_TILES: u32 = u32::MAX;

/// Bytes of one tile's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub address: u32,
    /// Length in memory; zeros follow the data.
    pub memory_size: u32,
    /// The bytes.
    pub data: Vec<u8>,
    /// 1 read, 2 write, 4 execute.
    pub flags: u32,
}

/// What one tile is loaded with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TileImage {
    /// The chip's number of the tile.
    pub physical_tile: u32,
    /// Where execution starts.
    pub entry_point: u32,
    /// Memory content.
    pub segments: Vec<Segment>,
    /// Command word, 0 if there is none.
    pub command_address: u32,
    /// Diagnostic word, 0 if there is none.
    pub diagnostic_address: u32,
}

/// A piece of a binding on one tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionSlice {
    /// The chip's number of the tile.
    pub tile: u32,
    /// First byte on the tile.
    pub tile_address: u32,
    /// First byte in the binding's string.
    pub file_offset: u64,
    /// Length.
    pub size: u64,
}

/// A host-visible buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// Unique name.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Logical dimensions.
    pub shape: Vec<u32>,
    /// Pieces, in the order of the binding's byte string.
    pub slices: Vec<RegionSlice>,
}

impl Binding {
    /// Whether this is an output of cycle samples, not of a tensor.
    pub fn is_profile(&self) -> bool {
        PROFILE_BINDINGS.contains(&self.name.as_str())
    }
}

/// A page of host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostPage {
    /// Its number.
    pub index: u32,
    /// Its bytes.
    pub size: u64,
}

/// A piece of a call's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSlice {
    /// Page number.
    pub page: u32,
    /// Byte in the page.
    pub page_offset: u64,
    /// Byte in the call's data.
    pub file_offset: u64,
    /// Length.
    pub size: u64,
}

/// One way to call the program from the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCall {
    /// Its name.
    pub name: String,
    /// Its command word.
    pub command: u32,
    /// Host exchange phases.
    pub phases: u32,
    /// Data to the tiles.
    pub inputs: Vec<HostSlice>,
    /// Data from the tiles.
    pub outputs: Vec<HostSlice>,
    /// How often it is made; at least 1.
    pub invocations: u32,
    /// Exclusive slice counts after each input batch.
    pub input_batch_ends: Vec<u32>,
    /// Exclusive slice counts after each output batch.
    pub output_batch_ends: Vec<u32>,
}

/// How host and tiles exchange data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostExchange {
    /// Mark after loading.
    pub startup_mark: u32,
    /// Page of the command word.
    pub command_page: u32,
    /// Its byte in the page.
    pub command_offset: u64,
    /// All pages.
    pub pages: Vec<HostPage>,
    /// Page numbers in the order of attaching.
    pub attach_order: Vec<u32>,
    /// All calls.
    pub calls: Vec<HostCall>,
}

/// A named command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryPoint {
    /// Its name.
    pub name: String,
    /// Its command word.
    pub command: u32,
    /// Synchronizations with the host.
    pub external_syncs: u32,
}

/// Kind of a profile step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepKind {
    /// Words move.
    #[default]
    Exchange,
    /// Kernels run.
    Compute,
    /// Tiles wait for each other.
    Synchronization,
    /// Nothing happens.
    Idle,
}

/// Meaning of one profile sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Number on the tile: 0, 1, 2, …
    pub local_index: u32,
    /// Phase; of an exchange `0x80000000 | number`.
    pub phase: u32,
    /// Iteration.
    pub epoch: u32,
    /// What it belongs to.
    pub operation: String,
    /// What happens.
    pub kind: StepKind,
    /// Kernel symbol.
    pub kernel: String,
    /// Name and value pairs.
    pub metadata: Vec<(String, String)>,
    /// Scheduled horizon of an exchange.
    pub exchange_event_cycles: u32,
}

/// Steps of one tile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TileProfilePlan {
    /// The chip's number of the tile.
    pub physical_tile: u32,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// A named address, the same on all tiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugSymbol {
    /// The name.
    pub name: String,
    /// The address.
    pub address: u32,
}

/// A named range of one tile's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugRegion {
    /// The chip's number of the tile, or [`ALL_TILES`].
    pub physical_tile: u32,
    /// First byte.
    pub address: u32,
    /// Length, not 0.
    pub size: u32,
    /// The name.
    pub name: String,
}

/// What made a package: everything in the trailing fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The model, canonical text.
    pub model: String,
    /// The recipe, canonical text.
    pub recipe: String,
    /// Hash of the space that was searched.
    pub space_hash: String,
    /// Seed of the search, and of the data if the model names none.
    pub seed: u64,
    /// Trial that found the recipe.
    pub trial: u64,
    /// Version of the evaluator.
    pub evaluator_version: String,
    /// Version of the calibration behind the prediction.
    pub calibration_version: u32,
    /// [`KERNELS_RESERVED`], or how kernels were linked.
    pub kernels: String,
    /// Predicted cycles.
    pub predicted_cycles: u64,
    /// Measured cycles, 0 if not measured.
    pub measured_cycles: u64,
    /// Device of the measurement.
    pub measured_on: String,
    /// Whether that device is a simulation.
    pub simulated: bool,
}

/// A whole package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Application {
    /// Version of the compiler.
    pub compiler_version: String,
    /// One image a tile.
    pub tiles: Vec<TileImage>,
    /// Data of every run.
    pub inputs: Vec<Binding>,
    /// Results of every run.
    pub outputs: Vec<Binding>,
    /// Data given once.
    pub weights: Vec<Binding>,
    /// Host protocol.
    pub host_exchange: HostExchange,
    /// Named commands.
    pub entry_points: Vec<EntryPoint>,
    /// Register offset and value, applied after loading.
    pub device_config_writes: Vec<(u32, u32)>,
    /// Meaning of the samples in `profile.cycles`.
    pub profile_tiles: Vec<TileProfilePlan>,
    /// Named addresses.
    pub debug_symbols: Vec<DebugSymbol>,
    /// Named ranges.
    pub debug_regions: Vec<DebugRegion>,
    /// What made it.
    pub origin: Origin,
}
