//! Storage of real plans: `cargo bench --bench plans` places the first plan of every shipped model, or
//! the tuned one where the folder `PLANS` has a package `NAME.ipuexe`, on two threads. It prints the
//! table of `results/storage.md`: how long all tiles take once the plan is lowered, and how far the
//! placement's peak is above the bytes that live at the fullest step. Names as arguments select models;
//! `ROWS=N` gives the models' first input N rows, as a larger batch or a longer sequence would.
//!
//! `STORAGE=automatic` places every plan without the wish that what a tile reads and writes in one
//! exchange lie apart, which leaves it to the step after scheduling to move what holds phases up.
//!
//! `POINTERS=1` prints instead what receive pointers that continue (rule R5 of `target/ipu21.md` §2.5)
//! could save if a tile's buffers of one phase lay side by side: inside one buffer they continue
//! already. A pointer takes one event of its tile's row, beside the words that arrive meanwhile; the
//! events above the bound, which counts no pointer at all, are more than anything can save.
//!
//! `SHARED=1` prints instead what one row for several phases could save: a tile keeps equal rows once, and
//! rows that differ in addresses alone could be one that is patched before each phase. The words that
//! have to be written into it are counted, the code that writes them is not.
//!
//! First fit in order of size is asked for the fullest tile beside it.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench that fails may stop; it prints a table of what it measures"
)]

#[path = "first_fit/mod.rs"]
mod first_fit;
#[path = "scaled/mod.rs"]
mod scaled;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ipu_tune::cost::Coefficients;
use ipu_tune::model::{Graph, shipped};
use ipu_tune::package;
use ipu_tune::plan::{Network, Recipe, StoragePlan};
use ipu_tune::program::{Addresses, BufferId, Program};
use ipu_tune::search::first::first_plans;
use ipu_tune::search::memo::Memo;
use ipu_tune::search::{Built, build};
use ipu_tune::space::Space;
use ipu_tune::space::candidates::{Planner, Shortlists};
use ipu_tune::storage::{
    Answers, PlaceOptions, PlacedProgram, exchanged_together, place_program, tile_problem,
};
use ipu_tune::target::{Control, Instruction, TileId, decode};

/// Placements of one plan; the table has the median.
const REPEATS: usize = 7;

/// The plan of a model, and whether it was tuned.
fn plan(name: &str, network: &Network, tiles: u16) -> (Recipe, bool) {
    let folder = std::env::var_os("PLANS").map(PathBuf::from);
    let tuned = folder.map(|folder| folder.join(format!("{name}.ipuexe")));
    if let Some(path) = tuned.filter(|path| path.exists()) {
        let application = package::read(&std::fs::read(path).unwrap()).unwrap();
        return (Recipe::from_json(&application.origin.recipe).unwrap(), true);
    }
    let (coefficients, shortlists) = (Coefficients::default(), Shortlists::default());
    let space = Space::open();
    let planner = Planner {
        network,
        space: &space,
        tiles,
        coefficients: &coefficients,
        shortlists: &shortlists,
    };
    (first_plans(&planner).unwrap().remove(0), false)
}

/// A tile's addresses, in the order of its buffers.
fn on_tile(program: &Program, addresses: &Addresses, tile: TileId) -> Vec<u32> {
    let ids = (0..program.buffers.len() as u32).map(BufferId);
    ids.filter_map(|id| addresses.get(id, tile)).map(|address| address.0).collect()
}

fn percent_above(bytes: u64, bound: u64) -> f64 {
    if bound == 0 { 0.0 } else { 100.0 * (bytes as f64 / bound as f64 - 1.0) }
}

/// Median milliseconds of placing all tiles, and the addresses.
fn timed(built: &Built, separate: bool) -> (f64, PlacedProgram) {
    let stop = AtomicBool::new(false);
    let free = &built.support.free;
    let mut times = vec![];
    let mut addresses = None;
    for _ in 0..REPEATS {
        let started = Instant::now();
        let answers = Answers::default();
        let wishes = if separate { exchanged_together(&built.program) } else { vec![] };
        let options = PlaceOptions { free, wishes: &wishes, answers: &answers, stop: &stop };
        let placed = place_program(&built.program, &options).unwrap();
        times.push(1e3 * started.elapsed().as_secs_f64());
        addresses = Some(placed);
    }
    times.sort_by(f64::total_cmp);
    (times[REPEATS / 2], addresses.unwrap())
}

/// What first fit makes of the tile with the most live bytes, in order of size and with buffers of
/// one region first.
fn first_fit_of_fullest(program: &Program, free: &[Range<u32>]) -> &'static str {
    let problems = (0..program.tiles).map(|tile| tile_problem(program, TileId(tile), free));
    let fullest = problems.max_by_key(|problem| problem.fullest().1).unwrap();
    let fits =
        [false, true].map(|bound_first| first_fit::unplaced(&fullest, bound_first).is_none());
    match fits {
        [true, true] => "both",
        [true, false] => "by size",
        [false, true] => "region first",
        [false, false] => "**none**",
    }
}

/// Prints what continuing receive pointers could save in a built plan.
fn print_pointers(name: &str, built: &Built) {
    let (mut events, mut excess, mut joined, mut phases) = (0, 0, 0, 0);
    for (step, phase) in &built.phases {
        let schedule = &phase.schedule;
        events += schedule.horizon;
        let mut into = vec![BTreeSet::new(); usize::from(built.program.tiles)];
        for transfer in built.program.steps[*step].transfers() {
            for tile in transfer.destinations {
                into[usize::from(tile.0)].insert(transfer.to.0);
            }
        }
        let most = into.iter().map(|buffers| buffers.len().saturating_sub(1)).max().unwrap_or(0);
        if most > 0 {
            phases += 1;
            joined += most;
            excess += schedule.horizon - schedule.bound;
        }
    }
    let part = 100.0 * joined as f64 / f64::from(events.max(1));
    println!(
        "| {name} | {} | {phases} | {joined} | {events} | {part:.3} % | {excess} |",
        built.phases.len()
    );
}

/// A row without its addresses.
fn without_addresses(words: &[u32]) -> Vec<u32> {
    let mut masked = vec![];
    while let Some(rest) = words.get(masked.len()..).filter(|rest| !rest.is_empty()) {
        let (mut instruction, _) = decode(rest).unwrap();
        let value = match &mut instruction {
            Instruction::DelayPic { pic, .. } => Some(pic),
            Instruction::SendPic { control: Control::Pic(pic), .. } => Some(pic),
            Instruction::Send { address, .. } => {
                *address = 0;
                None
            }
            Instruction::SendPicp { address, sctl, pic, .. } => {
                // An address of 0 without a direction sends nothing.
                *address = u32::from(*sctl != 0);
                Some(pic)
            }
            _ => None,
        };
        value.filter(|pic| !pic.format).into_iter().for_each(|pic| pic.value = 0);
        masked.extend_from_slice(instruction.encode().unwrap().as_slice());
    }
    masked
}

/// Prints what fewer rows could save in a built plan.
fn print_shared(name: &str, built: &Built) {
    let mut rows: Vec<Vec<&[u32]>> = vec![vec![]; usize::from(built.program.tiles)];
    for row in built.phases.values().flat_map(|phase| &phase.rows) {
        rows[usize::from(row.tile.0)].push(&row.words);
    }
    let bytes = |rows: &mut dyn Iterator<Item = usize>| 4 * rows.sum::<usize>();
    let table = |rows: &Vec<&[u32]>| bytes(&mut rows.iter().map(|row| row.len()));
    let kept = |rows: &Vec<&[u32]>| {
        let rows: BTreeSet<&[u32]> = rows.iter().copied().collect();
        bytes(&mut rows.iter().map(|row| row.len()))
    };
    let patched = |rows: &Vec<&[u32]>| {
        let mut alike: BTreeMap<Vec<u32>, BTreeSet<&[u32]>> = BTreeMap::new();
        for row in rows {
            alike.entry(without_addresses(row)).or_default().insert(row);
        }
        bytes(&mut alike.values().map(|rows| {
            let first = rows.first().unwrap();
            let differ = |row: &&[u32]| first.iter().zip(*row).filter(|(a, b)| a != b).count();
            first.len() + rows.iter().map(differ).sum::<usize>()
        }))
    };
    let most = |of: &dyn Fn(&Vec<&[u32]>) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let total = |of: &dyn Fn(&Vec<&[u32]>) -> usize| rows.iter().map(of).sum::<usize>();
    println!(
        "| {name} | {} | {} | {} | {} | {} | {} | {} |",
        built.phases.len(),
        total(&table),
        total(&kept),
        total(&patched),
        most(&table),
        most(&kept),
        most(&patched),
    );
}

fn measure(name: &str, text: &str) {
    let graph = Graph::from_json(text, Path::new(name)).unwrap();
    let Ok(network) = Network::from_graph(&graph) else { return };
    let tiles = if name.ends_with("-64t") { 64 } else { 1472 };
    let (mut recipe, tuned) = plan(name, &network, tiles);
    if std::env::var("STORAGE").is_ok_and(|plan| plan == "automatic") {
        recipe.storage = StoragePlan::Automatic;
    }
    let (memo, stop) = (Memo::default(), AtomicBool::new(false));
    let built = build(&network, &recipe, &memo, &Coefficients::default(), &stop);
    let built = match built {
        Ok(built) => built,
        Err(failure) => return println!("| {name} | {failure} |"),
    };
    if std::env::var_os("POINTERS").is_some() {
        return print_pointers(name, &built);
    }
    if std::env::var_os("SHARED").is_some() {
        return print_shared(name, &built);
    }
    let (milliseconds, PlacedProgram { addresses, stats }) =
        timed(&built, recipe.storage == StoragePlan::Apart);
    let mut above = 0.0;
    for tile in (0..tiles).map(TileId) {
        let problem = tile_problem(&built.program, tile, &built.support.free);
        let taken = problem.taken(&on_tile(&built.program, &addresses, tile));
        above += percent_above(taken, problem.fullest().1);
    }
    let room: u32 = built.support.free.iter().map(|range| range.end - range.start).sum();
    let events: u32 = built.phases.values().map(|phase| phase.schedule.horizon).sum();
    let greedy = first_fit_of_fullest(&built.program, &built.support.free);
    println!(
        "| {name} | {} | {} | {} | {} | {milliseconds:.1} | {} | {room} | {:.2} % | {:.2} % | {greedy} | {events} | {} |",
        if tuned { "tuned" } else { "first" },
        built.program.buffers.len(),
        stats.kinds,
        stats.problems,
        stats.live_bytes,
        percent_above(stats.peak_bytes, stats.live_bytes),
        above / f64::from(tiles),
        built.saved_events,
    );
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let rows = std::env::var("ROWS").ok().map(|rows| rows.parse::<u64>().unwrap());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    if std::env::var_os("POINTERS").is_some() {
        println!(
            "| model | phases | with several buffers on a tile | pointers that buffers side by side leave out, on the tile with the most | events | part of them | events above the bound in these phases |"
        );
        println!("|---|---|---|---|---|---|---|");
    } else if std::env::var_os("SHARED").is_some() {
        println!(
            "| model | phases | bytes of all rows | equal ones of a tile once | equal but for addresses once, and the words that differ | largest tile | equal ones once | equal but for addresses once, and the words that differ |"
        );
        println!("|---|---|---|---|---|---|---|---|");
    } else {
        print_header();
    }
    pool.install(|| {
        for (name, text) in shipped::MODELS {
            if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
                match &rows {
                    Some(rows) => {
                        measure(&format!("{name}, {rows} rows"), &scaled::with_rows(text, *rows))
                    }
                    None => measure(name, text),
                }
            }
        }
    });
}

fn print_header() {
    println!(
        "| model | plan | buffers | kinds of tiles | problems | ms | live | free | peak above live | … of all tiles | first fit places | events of exchange | saved by moving buffers |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
}
