//! Errors of all modules, each with its exit code and hint.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::device::DeviceError;
use crate::exchange::instance::InstanceError;
use crate::model::ModelError;
use crate::package::PackageError;
use crate::plan::PlanError;
use crate::search::{EngineError, JournalError};
use crate::space::SpaceError;
use crate::storage::file::PlacementError;
use crate::storage::rectangles::RectangleError;
use crate::store::StoreError;

use super::Exit;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum CliError {
    /// The reader of standard output is gone; nothing to complain about.
    #[error("the output was closed")]
    ClosedPipe,
    #[error("cannot write the output")]
    Output(#[source] std::io::Error),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error(transparent)]
    Package(#[from] PackageError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Instance(#[from] InstanceError),
    #[error("the results of a round could not be kept")]
    Journal(#[source] JournalError),
    #[error("`--device {given}`: {what}")]
    DeviceChoice { given: String, what: String },
    #[error("cannot write `{}`", path.display())]
    Unwritable { path: PathBuf, source: std::io::Error },
    #[error("`{}` has no file name", path.display())]
    NoName { path: PathBuf },
    #[error("`{}`: {count} violations", path.display())]
    Invalid { path: PathBuf, count: usize },
    #[error("no feasible candidate: {reason}")]
    Infeasible { reason: String },
    #[error("no feasible candidate: the budget ended before the first plan was validated")]
    NoTime,
    #[error(
        "the budget ended before the incumbent of trial {trial} ({cycles} cycles) was validated \
         again; the study keeps it, nothing was written"
    )]
    NotRevalidated { trial: u64, cycles: u64 },
    #[error(
        "`{}` needs at least {over} bytes more than {tiles} tiles have",
        path.display()
    )]
    TooLarge { path: PathBuf, tiles: u16, over: u128 },
    #[error("no thread pool")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
    #[error("`{}`: the results are wrong", path.display())]
    WrongNumbers { path: PathBuf },
    #[error("`{}`: {what}", path.display())]
    Origin { path: PathBuf, what: String },
    #[error("`{}` has no tile {tile}", path.display())]
    NoTile { path: PathBuf, tile: u16, tiles: u16 },
    #[error("`{option} {}` would overwrite the {what}", path.display())]
    Overwrites { option: &'static str, path: PathBuf, what: &'static str, instead: &'static str },
    #[error("cannot schedule `{}`: {what}", path.display())]
    Schedule { path: PathBuf, what: String },
    #[error(
        "cannot schedule `{}`: no schedule was found that keeps `--row-bytes {limit}`, in the \
         nearest the row of tile {tile} takes {bytes} bytes",
        path.display()
    )]
    RowTooLong { path: PathBuf, tile: u16, bytes: u32, limit: u32 },
    #[error(
        "`{}`: tile {tile} has no place for its row of {bytes} bytes: no executable memory elements \
         that are large enough are free of what it sends and receives (rule M2)",
        path.display()
    )]
    NoRowPlace { path: PathBuf, tile: u16, bytes: u32 },
    #[error("cannot read `{}`", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("`{}`: {what}", path.display())]
    Rectangles { path: PathBuf, what: RectangleError },
    #[error("`{}`: {what}", path.display())]
    Placement { path: PathBuf, what: PlacementError },
    #[error("`{}`: `--capacity` with a JSON file", path.display())]
    SurplusCapacity { path: PathBuf },
    #[error("`{}`: no capacity", path.display())]
    NoCapacity { path: PathBuf },
    #[error("`{}`: a capacity of {found} bytes is too large, {} is the most", path.display(), u32::MAX)]
    LargeCapacity { path: PathBuf, found: String },
    #[error("`{option}` with {files} files")]
    OneFile { option: &'static str, files: usize },
    #[error("`--rows` or `--row-bytes` with `--timing n0`, which has no rows")]
    NoRows,
    #[error("cannot place `{}`: {what}", path.display())]
    Unplaced { path: PathBuf, what: String, hint: String },
    #[error("the placement of `{}` is wrong: {what}", path.display())]
    WrongPlacement { path: PathBuf, what: String },
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> CliError {
        match error {
            EngineError::Space(error) => CliError::Space(error),
            EngineError::Journal(error) => CliError::Journal(error),
        }
    }
}

impl CliError {
    /// The exit code.
    pub(super) fn exit(&self) -> Exit {
        match self {
            CliError::ClosedPipe => Exit::Success,
            CliError::Threads(_)
            | CliError::Signals(_)
            | CliError::Output(_)
            | CliError::Schedule { .. }
            | CliError::WrongPlacement { .. } => Exit::Internal,
            CliError::Infeasible { .. }
            | CliError::NoTime
            | CliError::NotRevalidated { .. }
            | CliError::TooLarge { .. }
            | CliError::Unplaced { .. }
            | CliError::RowTooLong { .. }
            | CliError::Space(SpaceError::Empty { .. }) => Exit::Infeasible,
            CliError::Device(_) => Exit::Device,
            CliError::Store(_) | CliError::Journal(_) => Exit::Study,
            _ => Exit::Usage,
        }
    }

    /// What the user can do.
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            CliError::Model(error) => error.hint(),
            CliError::Plan(error) => error.hint(),
            CliError::Space(error) => error.hint(),
            CliError::Package(error) => error.hint(),
            CliError::Unreadable { source, .. } => Some(readable(source).to_owned()),
            CliError::Store(error) => error.hint(),
            CliError::Journal(_) => Some(
                "everything up to the round before is safe; the same command resumes".to_owned(),
            ),
            CliError::Unwritable { .. } => {
                Some("choose another place with `--output PATH`".to_owned())
            }
            CliError::Instance(error) => Some(error.hint()),
            CliError::Overwrites { instead, .. } => {
                Some(format!("choose another place for the {instead}"))
            }
            CliError::RowTooLong { bytes, .. } => {
                Some(format!("a larger `--row-bytes`, {bytes} or more"))
            }
            CliError::NoRowPlace { .. } => Some(
                "keep 0x4c000 to 0x50000 or some of 0x5c000 to 0x80000 (in decimal 311296 to 327680, \
                 376832 to 524288) free of the tile's data, in whole elements of 16 KiB; or give it \
                 fewer transfers"
                    .to_owned(),
            ),
            CliError::Infeasible { .. } => {
                Some("more tiles, a smaller model, or a longer `--budget` may help".to_owned())
            }
            CliError::NoTime | CliError::NotRevalidated { .. } => {
                Some("the same command with a longer `--budget` goes on".to_owned())
            }
            CliError::Rectangles { what, .. } => Some(what.hint()),
            CliError::Placement { what, .. } => Some(what.hint()),
            CliError::SurplusCapacity { .. } => {
                Some("its `free` ranges are the memory to place into".to_owned())
            }
            CliError::NoCapacity { .. } => {
                Some("`--capacity N`, or a name such as `NAME.1048576.csv`".to_owned())
            }
            CliError::LargeCapacity { .. } => Some(format!(
                "`--capacity N` with at most {}, or a smaller number in the name",
                u32::MAX
            )),
            CliError::OneFile { .. } => Some("one FILE at a time can be written".to_owned()),
            CliError::NoRows => Some("`--timing exact`".to_owned()),
            CliError::Unplaced { hint, .. } => Some(hint.clone()),
            CliError::TooLarge { .. } => Some("more `--tiles`, or a smaller model".to_owned()),
            CliError::NoTile { tiles, .. } => {
                Some(format!("its tiles have the numbers 0 to {}", tiles.saturating_sub(1)))
            }
            CliError::DeviceChoice { .. } => {
                Some("`sim`, `sim:PROFILE.json` or `command:RUNNER …`".to_owned())
            }
            _ => None,
        }
    }
}

/// What makes a text file readable.
fn readable(source: &std::io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::NotFound => "the path of a file that exists",
        ErrorKind::PermissionDenied => "a file that you may read",
        ErrorKind::IsADirectory => "the path of a file, not of a folder",
        ErrorKind::InvalidData => "a text file in UTF-8",
        _ => "the path of a text file that can be read",
    }
}
