//! What is decided about a program, and nothing else: the network of nodes that a graph becomes,
//! the layout of every value, and the [`Recipe`], a complete list of decisions whose hash is a
//! candidate's identity.
//!
//! Absent on purpose: which decisions are legal or worth trying (`space`), what they cost (`cost`),
//! and how they become phases (`program`).

pub mod cut;
pub mod layout;
pub mod network;
pub mod recipe;

pub use layout::{Layout, Order, Shard};
pub use network::{Network, Node, NodeId, NodeKind, PlanError, Value, ValueId};
pub use recipe::{
    AxisOrder, BiasPlan, Decision, ExchangeMode, GemmPlan, GridPlan, NodePlan, PointwisePlan,
    Recipe, RecipeHash, RowsPlan, StoragePlan, WeightClass,
};
