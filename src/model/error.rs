//! Why a model was refused.

use std::path::PathBuf;

/// Why a `model.json` was refused. Nothing has been written when a caller sees one of these.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum ModelError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The file is no UTF-8 text.
    #[error("`{}` is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
    /// The file is empty.
    #[error("`{}` is empty, expected a model", path.display())]
    Empty { path: PathBuf },
    /// A value is not of the form that the format asks for; `place` is its JSON path.
    #[error("`{}`: bad value at `{place}`", path.display())]
    Form { path: PathBuf, place: String, source: serde_json::Error },
    /// Another format or version.
    #[error("`{}`: format `{found}`, expected `{expected}`", path.display())]
    Version { path: PathBuf, found: String, expected: &'static str },
    /// An operation that no version knows.
    #[error("`{}`: unknown operator `{op}` at `{place}`", path.display())]
    UnknownOperator { path: PathBuf, place: String, op: String, known: String },
    /// An operation reads a value that nothing before it makes.
    #[error("`{}`: `{place}` reads `{value}`, which nothing before it makes", path.display())]
    Undefined { path: PathBuf, place: String, value: String },
    /// A name is used twice.
    #[error("`{}`: `{place}` defines `{name}` a second time", path.display())]
    Duplicate { path: PathBuf, place: String, name: String },
    /// Not what the operation makes or takes.
    #[error("`{}`: `{place}`: found {found}, expected {expected}", path.display())]
    Mismatch { path: PathBuf, place: String, found: String, expected: String },
    /// A dimension or a product of dimensions is zero or too large.
    #[error("`{}`: `{place}`: {what}", path.display())]
    Size { path: PathBuf, place: String, what: String },
    /// The data file cannot be used.
    #[error("data file `{}`: {what}", path.display())]
    Data { path: PathBuf, what: String },
}

impl ModelError {
    /// What the user can do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } => {
                Some("check the path; `ipu-tune models` lists shipped models".to_owned())
            }
            Self::Empty { .. } | Self::NotText { .. } | Self::Form { .. } => {
                Some("`ipu-tune schema model` prints what a model file may hold".to_owned())
            }
            Self::Version { expected, .. } => Some(format!("write `\"format\": \"{expected}\"`")),
            Self::UnknownOperator { known, .. } => Some(format!("known operators: {known}")),
            Self::Undefined { value, .. } => Some(format!(
                "declare `{value}` in `inputs` or `parameters`, or move its operation up"
            )),
            Self::Duplicate { .. } => {
                Some("give every tensor and operation a name of its own".to_owned())
            }
            Self::Size { .. } => Some(
                "dimensions are 1 to 2147483647, a tensor has at most 2^40 elements".to_owned(),
            ),
            Self::Mismatch { .. } | Self::Data { .. } => None,
        }
    }
}
