//! search
pub mod build;
pub mod first;
pub mod memo;
pub mod outcome;
pub use outcome::Failure;
pub use build::{Built, build};
