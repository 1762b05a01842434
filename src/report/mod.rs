//! Results for people: text tables ([`tables`]), and the page of a study ([`page`](mod@page)) with
//! the data behind it ([`figures`]).
//!
//! Pure functions from results to text; where the text goes is `cli`'s business. A figure that a
//! simulation gave is called simulated wherever it is shown. Nothing depends on time, paths or
//! threads: the same database and package give the same bytes.

pub mod figures;
pub mod page;
pub mod tables;

pub use figures::ReportFigures;
pub use page::page;
pub use tables::{checked, cycles, history, inspect, source, summary, table};
