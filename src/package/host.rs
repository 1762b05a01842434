//! Host exchange: how the bytes of bindings travel in pages and batches (`target/ipu21.md` §7.5).

use super::application::{Binding, HostCall, HostExchange, HostPage, HostSlice};

/// Bytes of one tile's part of a page, and of a command page.
const PIECE: u64 = 4096;
/// Page of the command word.
const COMMAND_PAGE: u32 = 0;
/// Page of the data.
const DATA_PAGE: u32 = 1;
/// Command word of the call that brings the weights.
pub const INITIALIZE: u32 = 1;
/// Command word of a run.
pub const RUN: u32 = 2;

/// The host exchange of a program: `initialize` with all weights, `run` with inputs and outputs.
pub fn host_exchange(
    tiles: usize,
    inputs: &[Binding],
    outputs: &[Binding],
    weights: &[Binding],
) -> HostExchange {
    let (weight_slices, weight_ends) = batches(weights);
    let (input_slices, input_ends) = batches(inputs);
    let (output_slices, output_ends) = batches(outputs);
    let initialize = HostCall {
        name: "initialize".to_owned(),
        command: INITIALIZE,
        phases: 2 * weight_ends.len() as u32,
        inputs: weight_slices,
        invocations: 1,
        input_batch_ends: weight_ends,
        ..HostCall::default()
    };
    let run = HostCall {
        name: "run".to_owned(),
        command: RUN,
        phases: (2 * (input_ends.len() + output_ends.len())).saturating_sub(1) as u32,
        inputs: input_slices,
        outputs: output_slices,
        invocations: 1,
        input_batch_ends: input_ends,
        output_batch_ends: output_ends,
    };
    HostExchange {
        startup_mark: tiles.div_ceil(64) as u32,
        command_page: COMMAND_PAGE,
        command_offset: 0,
        pages: vec![
            HostPage { index: COMMAND_PAGE, size: PIECE },
            HostPage { index: DATA_PAGE, size: PIECE * (tiles as u64 + 1) },
        ],
        attach_order: vec![COMMAND_PAGE, DATA_PAGE],
        calls: vec![initialize, run],
    }
}

/// Pieces of at most [`PIECE`] bytes a tile; the i-th pieces of all tiles are batch i.
fn batches(bindings: &[Binding]) -> (Vec<HostSlice>, Vec<u32>) {
    // (batch, tile, offset in the call's data, size)
    let mut pieces: Vec<(u64, u32, u64, u64)> = vec![];
    let mut used: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
    let mut base = 0;
    for binding in bindings {
        let mut end = 0;
        for slice in &binding.slices {
            let mut done = 0;
            while done < slice.size {
                let size = (slice.size - done).min(PIECE);
                let batch = used.entry(slice.tile).or_insert(0);
                pieces.push((*batch, slice.tile, base + slice.file_offset + done, size));
                *batch += 1;
                done += size;
            }
            end = end.max(slice.file_offset + slice.size);
        }
        base += end;
    }
    pieces.sort_unstable();
    let mut slices = Vec::with_capacity(pieces.len());
    let mut ends: Vec<u32> = vec![];
    let mut slot = 0;
    for (index, (batch, _, file_offset, size)) in pieces.iter().enumerate() {
        if index > 0 && pieces[index - 1].0 != *batch {
            ends.push(index as u32);
            slot = 0;
        }
        let page_offset = PIECE * (slot + 1);
        slices.push(HostSlice {
            page: DATA_PAGE,
            page_offset,
            file_offset: *file_offset,
            size: *size,
        });
        slot += 1;
    }
    if !slices.is_empty() {
        ends.push(slices.len() as u32);
    }
    (slices, ends)
}
