//! The space: which decisions exist for a network, which are legal, and how to get from one recipe
//! to another.
//!
//! Every legality rule stands once, in [`legal`]; [`candidates`] and [`moves`] make only what it
//! accepts.

pub mod candidates;
pub mod file;
pub mod legal;
pub mod moves;

pub use file::{Space, SpaceError};
pub use legal::{Illegal, check_input, check_node, check_recipe, recipe_layouts};
pub use moves::{Move, propose};
