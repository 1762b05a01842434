//! Exchange scheduling. `cargo bench --bench exchange` times generated phases, up to one of 1.2
//! million transfers on all tiles, 64 phases on one thread and two, and schedules of phases of which
//! few transfers changed. With the folder of the instances in `EXCHANGE_INSTANCES` it first schedules
//! each of them thrice, at both efforts and under N0, and prints the table of `results/exchange.md`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench that fails may stop; it prints a table of what it measures"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ipu_tune::exchange::instance::{self, Instance};
use ipu_tune::exchange::{
    Effort, ExchangeError, Options, Phase, Schedule, Scheduled, n0, reschedule, retarget, schedule,
};
use ipu_tune::target::{Address, TileId};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

#[path = "../tests/common/changed.rs"]
mod changed;
use changed::{changed, checked, renamed};

/// Every tile sends to each of the `fan` tiles after it, as many words as `words` says of both.
fn to_all(name: String, tiles: u16, fan: u16, words: impl Fn(u16, u16) -> u32) -> Instance {
    let most = (0..tiles).flat_map(|source| (1..=fan).map(move |distance| (source, distance)));
    let most = most.map(|(source, distance)| words(source, distance)).max().unwrap_or(0);
    let mut phase = Phase::new(tiles);
    for source in 0..tiles {
        for distance in 1..=fan {
            let to = TileId((source + distance) % tiles);
            let from = Address(0x60000 + 4 * most * u32::from(distance));
            let at = Address(0x90000 + 4 * most * u32::from(distance));
            let words = words(source, distance);
            phase.add(TileId(source), from, &[(to, at)], words).unwrap();
        }
    }
    Instance { name, transfers: phase.len(), phase, placed: true }
}

fn all_to_all(tiles: u16, fan: u16, words: u32) -> Instance {
    to_all(format!("all-to-all-{tiles}t-f{fan}-{words}w"), tiles, fan, |_, _| words)
}

/// Messages of 1 to `most` words, every length as often as any other.
fn mixed_lengths(tiles: u16, fan: u16, most: u32) -> Instance {
    let words = |source: u16, distance: u16| {
        let number = u64::from(source) << 16 | u64::from(distance);
        1 + ChaCha8Rng::seed_from_u64(number).random_range(0..most)
    };
    to_all(format!("mixed-lengths-{tiles}t-f{fan}-1to{most}w"), tiles, fan, words)
}

/// A schedule, its rows, and the seconds that both took.
fn timed(phase: &Phase, effort: Effort) -> (Scheduled, f64) {
    let started = Instant::now();
    let scheduled = schedule(phase, &Options { effort, ..Options::default() }).unwrap();
    (scheduled, started.elapsed().as_secs_f64())
}

/// The same with the least seconds of three runs, as the index has them of the peer.
fn timed_least(phase: &Phase, effort: Effort) -> (Scheduled, f64) {
    let runs = (0..3).map(|_| timed(phase, effort));
    runs.min_by(|one, two| one.1.total_cmp(&two.1)).unwrap()
}

/// The columns of `index.csv` by name, one map a row. Only the last, unused column is quoted.
fn index(folder: &Path) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(folder.join("index.csv")).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        let values = line.split(',').map(str::to_owned);
        header.iter().map(|name| (*name).to_owned()).zip(values).collect()
    };
    lines.map(row).collect()
}

fn or_dash(horizon: Option<u32>) -> String {
    horizon.map_or("–".to_owned(), |horizon| horizon.to_string())
}

fn instances(folder: &Path) {
    println!(
        "| name | transfers | bound | best_horizon | ordinary | paired | mixed | horizon | ÷ best | ÷ bound | fast | full s | fast s | peer s | n0 | n0_best_known | checked |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for known in index(folder) {
        let name = &known["name"];
        let phase = instance::read(&folder.join(format!("{name}.json.gz"))).unwrap().phase;
        let (full, seconds) = timed_least(&phase, Effort::Full);
        let (fast, fast_seconds) = timed_least(&phase, Effort::Fast);
        let plain = n0::plan(&phase, &Options::default()).unwrap();
        assert_eq!(n0::check(&phase, &plain.starts), Ok(plain.horizon));
        assert_eq!(checked(&phase, &fast), fast.schedule.horizon);
        let found = &full.schedule;
        assert_eq!(checked(&phase, &full), found.horizon);
        let best: f64 = known["best_horizon"].parse().unwrap();
        let horizon = f64::from(found.horizon);
        let (to_best, to_bound) = (horizon / best, horizon / f64::from(found.bound));
        println!(
            "| {name} | {} | {} | {best} | {} | {} | {} | {} | {to_best:.3} | {to_bound:.3} | {} | {seconds:.4} | {fast_seconds:.4} | {} | {} | {} | yes |",
            known["transfers"],
            found.bound,
            or_dash(found.ordinary_horizon),
            or_dash(found.paired_horizon),
            or_dash(found.mixed_horizon),
            found.horizon,
            fast.schedule.horizon,
            known["peer_seconds"],
            plain.horizon,
            known["n0_best_known"],
        );
    }
}

/// Transfers against time, up to 1.2 million on all tiles.
fn growth() {
    println!("| phase | transfers | bound | fast | fast s | full | full s | checked s |");
    println!("|---|---|---|---|---|---|---|---|");
    let alike = [
        (64, 16, 32),
        (256, 32, 16),
        (1472, 64, 12),
        (1472, 204, 12),
        (1472, 408, 12),
        (1472, 816, 12),
        (1472, 204, 8),
        (1472, 408, 4),
        (1472, 816, 2),
    ];
    let mixed = [
        (64, 16, 63),
        (256, 32, 31),
        (1472, 64, 23),
        (1472, 136, 17),
        (1472, 204, 15),
        (1472, 408, 7),
    ];
    let alike = alike.map(|(tiles, fan, words)| all_to_all(tiles, fan, words));
    let mixed = mixed.map(|(tiles, fan, most)| mixed_lengths(tiles, fan, most));
    for Instance { name, phase, transfers, .. } in alike.into_iter().chain(mixed) {
        let (fast, fast_seconds) = timed(&phase, Effort::Fast);
        let (full, full_seconds) = timed(&phase, Effort::Full);
        let started = Instant::now();
        assert_eq!(checked(&phase, &full), full.schedule.horizon);
        println!(
            "| {name} | {transfers} | {} | {} | {fast_seconds:.3} | {} | {full_seconds:.3} | {:.3} |",
            full.schedule.bound,
            fast.schedule.horizon,
            full.schedule.horizon,
            started.elapsed().as_secs_f64(),
        );
    }
}

/// 64 phases on one thread and on two, one phase a task.
fn threads() {
    let phases: Vec<Phase> =
        (0..64).map(|number| all_to_all(256, 16 + number % 16, 16).phase).collect();
    let seconds = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let started = Instant::now();
        let horizons: Vec<u32> = pool.install(|| {
            let scheduled = |phase| timed(phase, Effort::Full).0.schedule.horizon;
            phases.par_iter().map(scheduled).collect()
        });
        (horizons, started.elapsed().as_secs_f64())
    };
    let (one, two) = (seconds(1), seconds(2));
    assert_eq!(one.0, two.0);
    println!(
        "64 phases, one thread {:.3} s, two {:.3} s: {:.2} times",
        one.1,
        two.1,
        one.1 / two.1
    );
}

/// Phases of at least so many transfers are changed.
const MANY: usize = 500;

/// What takes a schedule over: [`reschedule`] or [`retarget`].
type TakeOver =
    fn(&Phase, &Phase, &Schedule, &Options<'_>) -> Result<Option<Scheduled>, ExchangeError>;

/// Schedules of changed phases from those of the unchanged ones against schedules of the whole.
fn changes(folder: Option<&Path>) {
    let mut phases = vec![all_to_all(256, 32, 16), all_to_all(1472, 64, 12)];
    let names = folder.into_iter().flat_map(index).map(|known| known["name"].clone());
    let files = names.map(|name| format!("{name}.json.gz"));
    phases.extend(
        files
            .map(|file| instance::read(&folder.unwrap().join(file)).unwrap())
            .filter(|read| read.phase.len() >= MANY),
    );
    header("changed");
    for thousandths in [10, 50] {
        let change = format!("{} %", thousandths as f64 / 10.0);
        let some = |phase: &Phase, random: &mut ChaCha8Rng| changed(phase, thousandths, random);
        taken_over(&phases, &change, some, reschedule);
    }
    println!();
    header("renamed");
    taken_over(&phases, "all tiles", elsewhere, retarget);
}

fn header(change: &str) {
    println!("| phase | {change} | whole | again | ÷ whole | whole s | again s | times faster |");
    println!("|---|---|---|---|---|---|---|---|");
}

/// A phase with its pairs of tiles anywhere on the chip.
fn elsewhere(phase: &Phase, random: &mut ChaCha8Rng) -> Phase {
    let mut pairs: Vec<u16> = (0..736).collect();
    pairs.shuffle(random);
    renamed(phase, 1472, |tile| TileId(2 * pairs[usize::from(tile.0 / 2)] + tile.0 % 2))
}

fn taken_over(
    phases: &[Instance],
    change: &str,
    changed: impl Fn(&Phase, &mut ChaCha8Rng) -> Phase,
    take_over: TakeOver,
) {
    let (mut horizons, mut speeds, mut found) = (0.0, 0.0, 0);
    for Instance { name, phase, .. } in phases {
        let options = Options { effort: Effort::Trial, ..Options::default() };
        let previous = schedule(phase, &options).unwrap().schedule;
        let new = changed(phase, &mut ChaCha8Rng::seed_from_u64(1));
        let (whole, seconds) = timed_least(&new, Effort::Trial);
        let runs = (0..3).map(|_| {
            let started = Instant::now();
            let again = take_over(&new, phase, &previous, &options).unwrap();
            (again, started.elapsed().as_secs_f64())
        });
        let (again, again_seconds) = runs.min_by(|one, two| one.1.total_cmp(&two.1)).unwrap();
        let Some(again) = again else {
            println!(
                "| {name} | {change} | {} | – | – | {seconds:.4} | {again_seconds:.4} | – |",
                whole.schedule.horizon
            );
            continue;
        };
        assert_eq!(checked(&new, &again), again.schedule.horizon);
        let [horizon, before] = [&again, &whole].map(|found| found.schedule.horizon);
        let (later, faster) = (f64::from(horizon) / f64::from(before), seconds / again_seconds);
        (horizons, speeds, found) = (horizons + later.ln(), speeds + faster.ln(), found + 1);
        println!(
            "| {name} | {change} | {before} | {horizon} | {later:.3} | {seconds:.4} | {again_seconds:.4} | {faster:.1} |"
        );
    }
    let mean = |sum: f64| (sum / f64::from(found)).exp();
    println!(
        "| {found} of {}, geometric mean | | | | {:.3} | | | {:.1} |",
        phases.len(),
        mean(horizons),
        mean(speeds)
    );
}

fn main() {
    let folder = std::env::var_os("EXCHANGE_INSTANCES").map(PathBuf::from);
    if let Some(folder) = &folder {
        instances(folder);
        println!();
    }
    growth();
    println!();
    threads();
    println!();
    changes(folder.as_deref());
}
