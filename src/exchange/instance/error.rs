//! Why a file is no instance, and what the user can do.

use std::path::PathBuf;

use crate::exchange::phase::TransferError;
use crate::target::TILES;

use super::MOST_WORDS_IN_ALL;

/// Why a file is no instance.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum InstanceError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A `.gz` file that is damaged or none.
    #[error("cannot unpack `{}` beyond the first {bytes} bytes of its text", path.display())]
    Packed { path: PathBuf, bytes: usize, source: std::io::Error },
    /// The file is no UTF-8 text.
    #[error("`{}` is not UTF-8 text at line {line}, byte {byte} of it", path.display())]
    NotText { path: PathBuf, line: usize, byte: usize },
    /// The file is empty.
    #[error("`{}` is empty, expected an exchange instance", path.display())]
    Empty { path: PathBuf },
    /// The text is not of the format.
    #[error("`{}`: bad value at {place}", path.display())]
    Form { path: PathBuf, place: String, source: serde_json::Error },
    /// A number of tiles that no chip has.
    #[error("`{}`: {found} tiles, expected 1 to {TILES}", path.display())]
    Tiles { path: PathBuf, found: u32 },
    /// More words, every receiver counted, than events can be counted for.
    #[error("`{}`: transfer {index}: with it {words} words arrive, at most {MOST_WORDS_IN_ALL} can", path.display())]
    Words { path: PathBuf, index: usize, words: u64 },
    /// A number of addresses that does not fit.
    #[error("`{}`: transfer {index}: {found} {what}, expected {expected}", path.display())]
    Addresses { path: PathBuf, index: usize, found: usize, what: &'static str, expected: String },
    /// A transfer without addresses for which memory is too small.
    #[error("`{}`: transfer {index}: no place is left for its {words} words on tile {tile}", path.display())]
    NoRoom { path: PathBuf, index: usize, words: u32, tile: u16 },
    /// A transfer that is not legal.
    #[error("`{}`: transfer {index}: {error}", path.display())]
    Transfer { path: PathBuf, index: usize, error: TransferError },
}

impl InstanceError {
    /// What the user can do.
    pub fn hint(&self) -> String {
        let hint = match self {
            InstanceError::Read { .. } => "check the path",
            InstanceError::Packed { .. } => {
                "the file is damaged; one that is not packed needs another ending than `.gz`"
            }
            InstanceError::NotText { .. } => {
                "an instance is JSON text; one that is packed needs the ending `.gz`"
            }
            InstanceError::Empty { .. } => {
                "an instance is one JSON object with `tiles` and `transfers`"
            }
            InstanceError::Form { .. } => {
                "an instance is one JSON object with `tiles` and `transfers` (beside them `name`, \
                 `origin`, `peer_program_horizon`); a transfer has `source`, `destinations`, `words` \
                 and may have `source_addresses` and `destination_addresses`"
            }
            InstanceError::Tiles { .. } => "`tiles` is the number of tiles that take part",
            InstanceError::Words { .. } => "fewer or shorter transfers",
            InstanceError::Addresses { .. } => "leave the addresses out, and places are found",
            InstanceError::NoRoom { .. } => {
                "fewer words, or addresses in the file; without any, `--timing n0` needs no places"
            }
            InstanceError::Transfer { error, .. } => of_transfer(error),
        };
        hint.to_owned()
    }
}

fn of_transfer(error: &TransferError) -> &'static str {
    match error {
        TransferError::UnknownTile(_) => "tiles have numbers from 0 to below `tiles`",
        TransferError::NoWords => "`words` is at least 1",
        TransferError::NoDestination => "`destinations` names at least one tile",
        TransferError::DestinationTwice(_) => "name every tile once in `destinations`",
        TransferError::OnlyToItself => "leave it out: a tile copies its own words without exchange",
        TransferError::LoopInElement => {
            "its source needs another destination address, in another memory element"
        }
        TransferError::Misaligned(_) => "addresses are multiples of 4 bytes",
        TransferError::OutOfRange { .. } => {
            "tile memory is 0x4c000 to 0xe8000, in decimal 311296 to 950272"
        }
        TransferError::Iterations { .. } => {
            "`source_addresses` holds one, or one for every iteration of the loop"
        }
        TransferError::OtherBase(_) => {
            "all sources of a tile that move go on by the same bytes in each iteration"
        }
        TransferError::WrittenTwice { .. } => {
            "another of `destination_addresses` for one of the two"
        }
    }
}
