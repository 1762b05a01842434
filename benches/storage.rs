//! Storage placement. `cargo bench --bench storage` places the generated bank problems; with a folder
//! of rectangle instances (`NAME.CAPACITY.csv`) in `STORAGE_INSTANCES` it first places each of them,
//! and prints the tables of `results/storage.md`. The baseline of both is first fit in order of size,
//! written here anew.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench that fails may stop; it prints tables of what it measures"
)]

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ipu_tune::storage::generate::banks;
use ipu_tune::storage::place::BUDGET;
use ipu_tune::storage::rectangles::{RectangleOutcome, Rectangles};
use ipu_tune::storage::{Buffer, Outcome, Problem, Region, place, place_within};
use ipu_tune::target::sram::{INTERLEAVED_START, elements};
use ipu_tune::target::{Address, Bytes};

/// Processor seconds of this thread where the system tells, which other work does not lengthen.
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split(' ').next()?.parse::<f64>().ok()? * 1e-9)
}

/// A result, and the processor seconds that it took (where they are unknown, seconds).
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let (started, before) = (Instant::now(), processor_seconds());
    let result = work();
    let passed = || started.elapsed().as_secs_f64();
    let seconds = before.zip(processor_seconds()).map_or_else(passed, |(from, to)| to - from);
    (result, seconds)
}

/// First fit in order of size: the height that it ends at.
fn first_fit_height(rectangles: &Rectangles) -> u64 {
    let mut order: Vec<_> = rectangles.buffers.iter().collect();
    order.sort_by_key(|buffer| Reverse(buffer.size));
    let mut placed: Vec<(u32, u32, u64, u64)> = vec![];
    for buffer in order {
        let meets = |(lower, upper, ..): &&(u32, u32, u64, u64)| {
            *lower < buffer.upper && buffer.lower < *upper
        };
        let mut taken: Vec<(u64, u64)> =
            placed.iter().filter(meets).map(|(_, _, from, to)| (*from, *to)).collect();
        taken.sort_unstable();
        let mut at = 0;
        for (from, to) in taken {
            if at + u64::from(buffer.size) <= from {
                break;
            }
            at = at.max(to);
        }
        placed.push((buffer.lower, buffer.upper, at, at + u64::from(buffer.size)));
    }
    placed.iter().map(|(.., end)| *end).max().unwrap_or(0)
}

/// Files with their capacities, by name.
fn files(folder: &Path) -> Vec<(String, u32, Rectangles)> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let parts = stem.rsplit_once('.').and_then(|(name, end)| Some((name, end.parse().ok()?)));
        if let Some((name, capacity)) = parts {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((name.to_owned(), capacity, Rectangles::from_csv(&text).unwrap()));
        }
    }
    // C fits its bound too.
    let tight = found.iter().find(|(name, ..)| name == "C").cloned();
    found.extend(tight.map(|(name, _, rectangles)| (name, 1_039_360, rectangles)));
    found.sort_by_key(|(name, capacity, _)| (name.clone(), Reverse(*capacity)));
    found
}

fn instances(folder: &Path) {
    println!(
        "| name | buffers | bound | capacity | outcome | height | seconds | checked | first fit ÷ capacity |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let (mut total, mut solved, mut all) = (0.0, 0, 0);
    for (name, capacity, rectangles) in files(folder) {
        let (outcome, seconds) = timed(|| rectangles.place(capacity, BUDGET));
        let (outcome, height, checked) = match &outcome {
            RectangleOutcome::Placed(offsets) => {
                assert_eq!(rectangles.violation(capacity, offsets), None);
                ("placed", rectangles.height(offsets).to_string(), "yes")
            }
            RectangleOutcome::Impossible => ("impossible", "–".to_owned(), "–"),
            RectangleOutcome::Unknown => ("unknown", "–".to_owned(), "–"),
        };
        total += seconds;
        solved += usize::from(outcome == "placed");
        all += 1;
        println!(
            "| {name} | {} | {} | {capacity} | {outcome} | {height} | {seconds:.3} | {checked} | {:.3} |",
            rectangles.buffers.len(),
            rectangles.bound(),
            first_fit_height(&rectangles) as f64 / f64::from(capacity),
        );
    }
    println!("\n{solved} of {all} placed, {total:.2} s in total\n");
}

fn meet(a: &Buffer, b: &Buffer) -> bool {
    a.live.iter().any(|a| b.live.iter().any(|b| a.start < b.end && b.start < a.end))
}

fn share_an_element(a: (u32, u32), b: (u32, u32)) -> bool {
    let touched = |(start, size)| elements(Address(start), Bytes(size));
    touched(a).any(|element| touched(b).any(|other| other == element))
}

/// What a bank problem's rules say of a buffer at an address, beside those that have one.
fn is_legal(problem: &Problem, addresses: &[Option<u32>], index: usize, at: u32) -> bool {
    let buffer = &problem.buffers[index];
    let end = at + buffer.size;
    let region = match buffer.region {
        Region::Either => true,
        Region::Standard => end <= INTERLEAVED_START.0,
        Region::Interleaved => at >= INTERLEAVED_START.0,
    };
    let inside = problem.free.iter().any(|range| range.start <= at && end <= range.end);
    region
        && inside
        && (0..addresses.len()).all(|other| {
            let Some(from) = addresses[other] else { return true };
            let beside = &problem.buffers[other];
            let pair = (index.min(other), index.max(other));
            let overlap = from < end && at < from + beside.size;
            let apart = problem.apart.contains(&pair)
                && share_an_element((at, buffer.size), (from, beside.size));
            other == index || !meet(buffer, beside) || !(overlap || apart)
        })
}

/// First fit in order of size, buffers that only one region may hold before the others: whether all
/// found a place.
fn first_fit_places(problem: &Problem) -> bool {
    let count = problem.buffers.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|index| {
        let buffer = &problem.buffers[*index];
        (buffer.region == Region::Either, Reverse(buffer.size))
    });
    let mut addresses = vec![None; count];
    for index in order {
        // The lowest legal address is where a range, an element or another buffer's end is.
        let ranges = elements(
            Address(problem.free[0].start),
            Bytes(problem.free[0].end - problem.free[0].start),
        );
        let mut starts: Vec<u32> = ranges.map(|element| element.start().0).collect();
        starts.extend(problem.free.iter().map(|range| range.start));
        starts.extend(
            (0..count).filter_map(|other| {
                addresses[other].map(|at: u32| at + problem.buffers[other].size)
            }),
        );
        let alignment = problem.buffers[index].alignment;
        starts.iter_mut().for_each(|at| *at = at.next_multiple_of(alignment));
        starts.sort_unstable();
        let legal = starts.into_iter().find(|at| is_legal(problem, &addresses, index, *at));
        if legal.is_none() {
            return false;
        }
        addresses[index] = legal;
    }
    true
}

fn bank_problems(spare: bool, seeds: u64) {
    let (mut placed, mut orders, mut greedy) = (0, 0, 0);
    let (mut longest, mut total) = (0.0_f64, 0.0);
    let mut unknown = vec![];
    for seed in 0..seeds {
        let problem = banks(seed, spare);
        let (outcome, seconds) = timed(|| place(&problem));
        (longest, total) = (longest.max(seconds), total + seconds);
        match outcome {
            Outcome::Placed(addresses) => {
                for index in 0..addresses.len() {
                    let placed: Vec<_> = addresses.iter().copied().map(Some).collect();
                    assert!(is_legal(&problem, &placed, index, addresses[index]), "seed {seed}");
                    assert!(addresses[index].is_multiple_of(problem.buffers[index].alignment));
                }
                placed += 1;
            }
            Outcome::Impossible(proof) => panic!("seed {seed} has a solution: {proof:?}"),
            Outcome::Unknown { .. } => unknown.push(seed),
        }
        orders += u32::from(matches!(place_within(&problem, 0), Outcome::Placed(_)));
        greedy += u32::from(first_fit_places(&problem));
    }
    let spare = if spare { "one" } else { "none" };
    println!(
        "| {spare} | {seeds} | {placed} | {orders} | {greedy} | {total:.2} | {longest:.3} | {unknown:?} |"
    );
}

fn main() {
    if let Some(folder) = std::env::var_os("STORAGE_INSTANCES").map(PathBuf::from) {
        instances(&folder);
    }
    println!(
        "| spare element | problems | placed | own orders alone | first fit | seconds | longest | unknown seeds |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    bank_problems(true, 100);
    bank_problems(false, 10);
}
