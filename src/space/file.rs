//! Space files: which decisions are open and which are pinned.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::{self, Form, Object};
use crate::plan::{Decision, ExchangeMode, Network, NodePlan};

/// The format and version that this build reads.
pub const FORMAT: &str = "ipu-tune/space@1";

/// What may be decided. The default space opens everything legal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Space {
    /// Always `ipu-tune/space@1`.
    pub format: String,
    /// Pins and limits of single operations, by the name of the operation (of joined ones, the
    /// first).
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "json::by_name"
    )]
    pub operations: BTreeMap<String, OperationSpace>,
    /// Widths that exchange may use; all if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Vec<Width>>,
}

/// Width of exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Width {
    /// Whichever ends first.
    Automatic,
    /// 32-bit items.
    Ordinary,
    /// 64-bit items where eligible.
    Paired,
}

/// Limits of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationSpace {
    /// The only grid of a product: row parts, strip parts, inner parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grid: Option<[u16; 3]>,
    /// The only number of tiles of a norm or softmax.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<u16>,
}

impl Form for Space {
    const FORM: &'static str = "an object with `format`";
}

impl Form for OperationSpace {
    const FORM: &'static str = "an object with pins and limits";
}

/// Why a space was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum SpaceError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A value is not of the format.
    #[error("`{}`: bad value at `{place}`", path.display())]
    Form { path: PathBuf, place: String, source: serde_json::Error },
    /// Another format or version.
    #[error("`{}`: format `{found}`, expected `{FORMAT}`", path.display())]
    Version { path: PathBuf, found: String },
    /// An operation that the model has not.
    #[error("`{}`: the model has no operation `{name}`", path.display())]
    Unknown { path: PathBuf, name: String, known: String },
    /// No legal choice is left.
    #[error("nothing legal is left for `{operation}`: {rule}")]
    Empty { operation: String, rule: String },
}

impl SpaceError {
    /// What the user can do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { known, .. } => Some(format!("operations that can be pinned: {known}")),
            Self::Form { .. } | Self::Version { .. } => {
                Some("`ipu-tune schema space` prints what a space file may hold".to_owned())
            }
            Self::Empty { .. } => Some("loosen the pins of this operation".to_owned()),
            Self::Read { .. } => None,
        }
    }
}

impl Space {
    /// The space that opens everything.
    pub fn open() -> Space {
        Space { format: FORMAT.to_owned(), ..Space::default() }
    }

    /// Reads a space file for a network.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub fn read(path: &Path, network: &Network) -> Result<Space, SpaceError> {
        let path = path.to_owned();
        let text = std::fs::read_to_string(&path)
            .map_err(|source| SpaceError::Read { path: path.clone(), source })?;
        let mut reader = serde_json::Deserializer::from_str(&text);
        let Object(space): Object<Space> =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| {
                let place = error.path().to_string();
                SpaceError::Form { path: path.clone(), place, source: error.into_inner() }
            })?;
        if space.format != FORMAT {
            return Err(SpaceError::Version { path, found: space.format });
        }
        let known: Vec<&str> = network.nodes.iter().map(|node| node.name.as_str()).collect();
        if let Some(name) = space.operations.keys().find(|name| !known.contains(&name.as_str())) {
            let (name, known) = (name.clone(), known.join(", "));
            return Err(SpaceError::Unknown { path, name, known });
        }
        Ok(space)
    }

    /// Whether the space allows this plan of an operation.
    pub fn allows(&self, operation: &str, plan: &NodePlan) -> bool {
        let width = match plan.exchange {
            ExchangeMode::Automatic => Width::Automatic,
            ExchangeMode::Ordinary => Width::Ordinary,
            ExchangeMode::Paired => Width::Paired,
        };
        if self.exchange.as_ref().is_some_and(|open| !open.contains(&width)) {
            return false;
        }
        let Some(limits) = self.operations.get(operation) else { return true };
        match &plan.decision {
            Decision::Gemm(gemm) => {
                limits.grid.is_none_or(|grid| grid == [gemm.rows, gemm.strips, gemm.inner])
            }
            Decision::Rows(rows) => limits.parts.is_none_or(|parts| parts == rows.parts),
            Decision::Pointwise(_) => true,
        }
    }

    /// The pinned grid of an operation.
    pub fn pinned_grid(&self, operation: &str) -> Option<[u16; 3]> {
        self.operations.get(operation).and_then(|limits| limits.grid)
    }

    /// Identity of the space: the hash of its canonical form.
    pub fn hash(&self) -> String {
        let text = serde_json::to_string(self).expect("a space is plain data");
        blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
    }
}

/// The JSON Schema of a space file.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Space).to_value()
}
