//! Support memory: where code, rows, samples and runtime state lie, and what is left for data
//! (`target/ipu21.md` §5.4). The same on every tile of a program, sized for the largest.

use std::ops::Range;

use crate::target::sram::{
    EXECUTABLE_END, HOST_WINDOW, LOAD_END, LOAD_START, LOOK_AHEAD, RUNTIME_STATE, STANDARD_ELEMENT,
};

/// Bytes that have to be supported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SupportSizes {
    /// Every runtime routine and kernel.
    pub routines: Vec<u32>,
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
    /// Every routine, in the order of [`SupportSizes::routines`].
    pub routines: Vec<Range<u32>>,
    /// The generated tile program.
    pub program: Range<u32>,
    /// Exchange rows, from an element's start.
    pub rows: Range<u32>,
    /// Cycle samples.
    pub profile: Range<u32>,
    /// Free for data, ascending.
    pub free: Vec<Range<u32>>,
}

/// Code and rows do not fit into executable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("code and rows need {bytes_over} bytes more than executable memory has")]
pub struct SupportError {
    /// Bytes too many.
    pub bytes_over: u32,
}

impl Support {
    /// Lays support memory out.
    ///
    /// Routines follow the launch words up to the host aperture and go on after the runtime state,
    /// then the tile program, then rows. Samples lie at the start of the aperture, which holds no
    /// code. Elements that hold code or rows hold no data: the supervisor fetches from them while
    /// words and kernels move data (`target/ipu21.md` §5.2).
    ///
    /// # Errors
    /// If executable memory is too small.
    pub fn new(sizes: &SupportSizes) -> Result<Support, SupportError> {
        let element = STANDARD_ELEMENT.0;
        let launch = LOAD_START.0..LOAD_START.0 + 16;
        let mut front = launch.end.next_multiple_of(8);
        let mut at = RUNTIME_STATE.0.0.next_multiple_of(element) + element;
        let place = |bytes: &u32| {
            let length = bytes.next_multiple_of(8);
            let next =
                if front + length + LOOK_AHEAD.0 <= HOST_WINDOW.0.0 { &mut front } else { &mut at };
            let start = *next;
            *next += length;
            start..start + bytes
        };
        let routines = sizes.routines.iter().map(place).collect();
        let program = at..at + sizes.program;
        at = (program.end + LOOK_AHEAD.0).next_multiple_of(element);
        let rows = at..at + sizes.rows;
        let code_end = rows.end + LOOK_AHEAD.0;
        if code_end > EXECUTABLE_END.0 {
            return Err(SupportError { bytes_over: code_end - EXECUTABLE_END.0 });
        }
        let profile = HOST_WINDOW.0.0..HOST_WINDOW.0.0 + sizes.profile;
        let window = profile.end.next_multiple_of(32)..HOST_WINDOW.1.0;
        let free = vec![window, code_end.next_multiple_of(element)..LOAD_END.0];
        Ok(Support { launch, routines, program, rows, profile, free })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_code_is_never_fetched_from_where_data_lie() {
        let room = HOST_WINDOW.0.0 - LOAD_START.0 - 16;
        for bytes in (room - 2 * LOOK_AHEAD.0..=room + 8).step_by(8) {
            let sizes = SupportSizes { routines: vec![bytes], ..SupportSizes::default() };
            let support = Support::new(&sizes).unwrap();
            let code = [&support.routines[0], &support.program, &support.rows];
            for range in code {
                let fetched = range.start..range.end + LOOK_AHEAD.0;
                let meets =
                    |free: &Range<u32>| fetched.start < free.end && free.start < fetched.end;
                assert!(!support.free.iter().any(meets), "{bytes}: {range:x?}");
                assert!(!meets(&support.profile), "{bytes}: {range:x?}");
            }
        }
    }
}
