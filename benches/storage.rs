//! Storage placement. `cargo bench --bench storage` places generated problems, with element rules and
//! with blocks at one stride; with a folder of rectangle instances (`NAME.CAPACITY.csv`) in
//! `STORAGE_INSTANCES` it first places each of them, and prints the tables of `results/storage.md`. The baseline of both is first fit in order of size; it
//! and the rules that answers are held against are the benches' own.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench that fails may stop; it prints tables of what it measures"
)]

#[path = "first_fit/mod.rs"]
mod first_fit;

use std::cmp::Reverse;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ipu_tune::storage::generate::{banks, turns};
use ipu_tune::storage::place::BUDGET;
use ipu_tune::storage::rectangles::{RectangleOutcome, Rectangles};
use ipu_tune::storage::{Outcome, Problem, place, place_within};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

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
            RectangleOutcome::Unknown { .. } => ("unknown", "–".to_owned(), "–"),
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

/// Copies of the instances that ask for the same and look different to a search: with time reversed,
/// and with their rows in another order.
fn copies(folder: &Path) {
    let (mut longest, mut total, mut solved, mut all) = (0.0_f64, 0.0, 0, 0);
    for (_, capacity, rectangles) in files(folder) {
        let end = rectangles.buffers.iter().map(|buffer| buffer.upper).max().unwrap_or(0);
        let mut reversed = rectangles.clone();
        for buffer in &mut reversed.buffers {
            (buffer.lower, buffer.upper) = (end - buffer.upper, end - buffer.lower);
        }
        let shuffled = |seed| {
            let mut copy = rectangles.clone();
            copy.buffers.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
            copy
        };
        for copy in [reversed, shuffled(0), shuffled(1)] {
            let (outcome, seconds) = timed(|| copy.place(capacity, BUDGET));
            if let RectangleOutcome::Placed(offsets) = &outcome {
                assert_eq!(copy.violation(capacity, offsets), None);
                solved += 1;
            }
            all += 1;
            (longest, total) = (longest.max(seconds), total + seconds);
        }
    }
    println!(
        "copies: {solved} of {all} placed, {total:.2} s in total, {longest:.3} s the longest\n"
    );
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
                    assert!(
                        first_fit::is_legal(&problem, &placed, index, addresses[index]),
                        "seed {seed}"
                    );
                    assert!(addresses[index].is_multiple_of(problem.buffers[index].alignment));
                }
                placed += 1;
            }
            Outcome::Impossible(proof) => panic!("seed {seed} has a solution: {proof:?}"),
            Outcome::Unknown { .. } => unknown.push(seed),
        }
        orders += u32::from(matches!(place_within(&problem, 0), Outcome::Placed(_)));
        greedy += u32::from(first_fit::unplaced(&problem, true).is_none());
    }
    let spare = if spare { "one" } else { "none" };
    println!(
        "| {spare} | {seeds} | {placed} | {orders} | {greedy} | {total:.2} | {longest:.3} | {unknown:?} |"
    );
}

/// Whether all blocks of all repeats lie at one stride, the given one if there is.
fn at_one_stride(problem: &Problem, addresses: &[u32]) -> bool {
    problem.repeats.iter().all(|repeat| {
        let blocks: Vec<i64> = repeat.blocks.iter().map(|b| addresses[*b].into()).collect();
        let stride = blocks[1] - blocks[0];
        stride >= i64::from(problem.buffers[repeat.blocks[0]].size)
            && stride % 4 == 0
            && repeat.stride.is_none_or(|given| i64::from(given) == stride)
            && blocks.windows(2).all(|pair| pair[1] - pair[0] == stride)
    })
}

/// Bytes of all repeats, each from its first block's start to its last one's end.
fn joined_bytes(problem: &Problem) -> u64 {
    let repeats = problem.repeats.iter().map(|repeat| {
        let first = &problem.buffers[repeat.blocks[0]];
        let least = first.size.next_multiple_of(first.alignment);
        let between = u64::from(repeat.stride.unwrap_or(least));
        (repeat.blocks.len() as u64 - 1) * between + u64::from(first.size)
    });
    repeats.sum()
}

/// Problems with blocks at one stride, whose gaps have to be used.
fn repeats(full: bool, seeds: Range<u64>) {
    let (mut placed, mut joined, mut filled) = (0, 0, 0.0);
    let (mut longest, mut total) = (0.0_f64, 0.0);
    let mut unknown = vec![];
    for seed in seeds.clone() {
        let problem = turns(seed, full);
        assert!(joined_bytes(&problem) > problem.capacity(), "seed {seed}");
        let (outcome, seconds) = timed(|| place(&problem));
        (longest, total) = (longest.max(seconds), total + seconds);
        match outcome {
            Outcome::Placed(addresses) => {
                let all: Vec<_> = addresses.iter().copied().map(Some).collect();
                let legal = |index: usize| {
                    first_fit::is_legal(&problem, &all, index, addresses[index])
                        && addresses[index].is_multiple_of(problem.buffers[index].alignment)
                };
                assert!((0..addresses.len()).all(legal), "seed {seed}");
                assert!(at_one_stride(&problem, &addresses), "seed {seed}");
                placed += 1;
            }
            Outcome::Impossible(proof) => panic!("seed {seed} has a solution: {proof:?}"),
            Outcome::Unknown { .. } => unknown.push(seed),
        }
        // Without nodes repeats are joined and no gap is used.
        joined += u32::from(matches!(place_within(&problem, 0), Outcome::Placed(_)));
        filled += problem.fullest().1 as f64 / problem.capacity() as f64;
    }
    let kind = if full { "full" } else { "90 to 100 %" };
    let (first, last, count) = (seeds.start, seeds.end - 1, seeds.end - seeds.start);
    println!(
        "| {kind} | {first} to {last} | {:.1} % | {joined} | {placed} | {total:.2} | {longest:.3} | {unknown:?} |",
        100.0 * filled / count as f64
    );
}

fn main() {
    if let Some(folder) = std::env::var_os("STORAGE_INSTANCES").map(PathBuf::from) {
        instances(&folder);
        copies(&folder);
    }
    println!(
        "| spare element | problems | placed | own orders alone | first fit | seconds | longest | unknown seeds |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    bank_problems(true, 100);
    bank_problems(false, 10);
    println!(
        "\n| gaps | seeds | filling | placed without gaps | placed | seconds | longest | unknown seeds |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    repeats(false, 0..100);
    repeats(false, 1000..1100);
    repeats(true, 0..100);
}
