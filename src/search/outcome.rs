//! Why a candidate failed: an outcome with numbers, never an error of the program.

use serde::{Deserialize, Serialize};

use crate::storage::StorageFailure;

/// What became of a candidate that is not good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are the words of the messages")]
pub enum Failure {
    /// It breaks a legality rule.
    #[error("illegal: {what}")]
    Illegal { what: String },
    /// Its data do not fit.
    #[error("does not fit: {what}")]
    DoesNotFit { what: String },
    /// Its code, rows and samples do not fit.
    #[error("rows and code are {bytes_over} bytes too long")]
    RowsTooLong { bytes_over: u32 },
    /// A phase has no encodable schedule.
    #[error("an exchange phase cannot be encoded: {what}")]
    Unencodable { what: String },
    /// The checker found violations: a defect of ours.
    #[error("rejected by the checker ({count} violations, first: {first})")]
    Rejected { count: usize, first: String },
    /// It computes something else.
    #[error("wrong numbers: cosine {cosine:.6}, largest error {error:.4}")]
    WrongNumbers { cosine: f64, error: f64 },
    /// It computes infinities or NaN.
    #[error("{count} results are not finite")]
    NotFinite { count: u64 },
    /// It made the device stop.
    #[error("crashed: {what}")]
    Crashed { what: String },
    /// It took too long on the device.
    #[error("timed out on the device: {what}")]
    TimedOut { what: String },
    /// The search was stopped meanwhile; says nothing about the candidate.
    #[error("stopped")]
    Stopped,
    /// The device was lost; says nothing about the candidate.
    #[error("the device was lost: {what}")]
    DeviceLost { what: String },
}

impl Failure {
    /// Short name, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Illegal { .. } => "illegal",
            Failure::DoesNotFit { .. } => "does-not-fit",
            Failure::RowsTooLong { .. } => "rows-too-long",
            Failure::Unencodable { .. } => "unencodable",
            Failure::Rejected { .. } => "rejected",
            Failure::WrongNumbers { .. } => "wrong-numbers",
            Failure::NotFinite { .. } => "not-finite",
            Failure::Crashed { .. } => "crashed",
            Failure::TimedOut { .. } => "timed-out",
            Failure::Stopped => "stopped",
            Failure::DeviceLost { .. } => "device-lost",
        }
    }

    /// The fidelity that such a candidate does not reach; `None` where it is not to blame.
    pub fn fidelity(&self) -> Option<&'static str> {
        match self {
            Failure::Illegal { .. } => Some("F1"),
            Failure::DoesNotFit { .. }
            | Failure::RowsTooLong { .. }
            | Failure::Unencodable { .. } => Some("F2"),
            Failure::Rejected { .. }
            | Failure::WrongNumbers { .. }
            | Failure::NotFinite { .. }
            | Failure::Crashed { .. }
            | Failure::TimedOut { .. } => Some("F3"),
            Failure::Stopped | Failure::DeviceLost { .. } => None,
        }
    }
}

impl From<StorageFailure> for Failure {
    fn from(failure: StorageFailure) -> Failure {
        match failure {
            StorageFailure::Stopped => Failure::Stopped,
            other => Failure::DoesNotFit { what: other.to_string() },
        }
    }
}
