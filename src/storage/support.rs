//! Support memory: where code, rows, samples and runtime state lie, and what is left for data
//! (`target/ipu21.md` §5.4). The same on every tile of a program, sized for the largest.

use std::ops::Range;

use crate::target::sram::{
    EXECUTABLE_END, HOST_WINDOW, LOAD_END, LOAD_START, LOOK_AHEAD, MEMORY_START, RUNTIME_STATE,
    STANDARD_ELEMENT,
};

/// Bytes that have to be supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SupportSizes {
    /// Runtime routines and kernels.
    pub code: u32,
    /// The longest tile program.
    pub program: u32,
    /// The largest exchange table: rows of all phases of a tile.
    pub rows: u32,
    /// Cycle samples.
    pub profile: u32,
}

/// Where everything lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Support {
    /// Launch slot, entry and stop.
    pub launch: Range<u32>,
    /// Runtime routines and kernels.
    pub code: Range<u32>,
    /// The generated tile program.
    pub program: Range<u32>,
    /// Exchange rows, from an element's start.
    pub rows: Range<u32>,
    /// Cycle samples.
    pub profile: Range<u32>,
    /// Free for data, ascending.
    pub free: Vec<Range<u32>>,
}

/// Code, rows and samples do not fit into executable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("code, rows and samples need {bytes_over} bytes more than executable memory has")]
pub struct SupportError {
    /// Bytes too many.
    pub bytes_over: u32,
}

impl Support {
    /// Lays support memory out.
    ///
    /// Code follows the launch words up to the host aperture, and goes on after the runtime state.
    /// Elements that hold code or rows hold no data: the supervisor fetches from them while words
    /// and kernels move data (`target/ipu21.md` §5.2).
    ///
    /// # Errors
    /// If executable memory is too small.
    pub fn new(sizes: SupportSizes) -> Result<Support, SupportError> {
        let element = STANDARD_ELEMENT.0;
        let launch = LOAD_START.0..LOAD_START.0 + 16;
        // Code is one range: in the first element if it fits there, else behind the runtime state.
        let first = launch.end.next_multiple_of(8);
        let behind = (RUNTIME_STATE.0.0).next_multiple_of(element) + element;
        let (code, mut at) = if first + sizes.code <= HOST_WINDOW.0.0 {
            (first..first + sizes.code, behind)
        } else {
            (behind..behind + sizes.code, behind + sizes.code)
        };
        at = at.next_multiple_of(8);
        let program = at..at + sizes.program;
        at = (program.end + LOOK_AHEAD.0).next_multiple_of(element);
        let rows = at..at + sizes.rows;
        at = (rows.end + if sizes.rows > 0 { LOOK_AHEAD.0 } else { 0 }).next_multiple_of(element);
        let profile = at..at + sizes.profile;
        let free_start = profile.end.next_multiple_of(32);
        if free_start > EXECUTABLE_END.0 {
            return Err(SupportError { bytes_over: free_start - EXECUTABLE_END.0 });
        }
        debug_assert!(MEMORY_START < LOAD_START);
        let free = vec![HOST_WINDOW.0.0..HOST_WINDOW.1.0, free_start..LOAD_END.0];
        Ok(Support { launch, code, program, rows, profile, free })
    }
}
