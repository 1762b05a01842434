//! Exchange scheduling on instance files, beside a plain list scheduler that takes the transfers as
//! they come: `cargo bench --bench exchange`, with the folder of the instances in
//! `EXCHANGE_INSTANCES`. Without it, generated all-to-all phases of growing size are used.
//!
//! Outcome: `results/exchange.md`.
#![expect(clippy::unwrap_used, reason = "a bench that fails may stop")]

use std::hint::black_box;
use std::path::PathBuf;

use criterion::{BenchmarkId, Criterion, Throughput};
use ipu_tune::exchange::instance::{self, Instance};
use ipu_tune::exchange::{Effort, Options, Phase, place, rows, schedule};
use ipu_tune::target::{Address, TileId};

/// Every tile sends `words` words to each of the `fan` tiles after it.
fn all_to_all(tiles: u16, fan: u16, words: u32) -> Instance {
    let mut phase = Phase::new(tiles);
    for source in 0..tiles {
        for distance in 1..=fan {
            let to = TileId((source + distance) % tiles);
            let from = Address(0x60000 + 4 * words * u32::from(distance));
            let at = Address(0x90000 + 4 * words * u32::from(distance));
            phase.add(TileId(source), from, &[(to, at)], words).unwrap();
        }
    }
    Instance { name: format!("all-to-all-{tiles}t-f{fan}-{words}w"), transfers: phase.len(), phase }
}

fn instances() -> Vec<Instance> {
    let Some(folder) = std::env::var_os("EXCHANGE_INSTANCES").map(PathBuf::from) else {
        return vec![all_to_all(64, 16, 32), all_to_all(256, 32, 16), all_to_all(1472, 64, 12)];
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "gz"))
        .collect();
    files.sort();
    files.iter().map(|path| instance::read(path).unwrap()).collect()
}

fn main() {
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mut group = criterion.benchmark_group("exchange");
    for Instance { name, phase, transfers } in instances() {
        group.throughput(Throughput::Elements(transfers as u64));
        let given: Vec<u32> = (0..phase.len() as u32).collect();
        group.bench_function(BenchmarkId::new("as they come", &name), |bench| {
            bench.iter(|| {
                let starts =
                    place::place(&phase, false, &given, &Default::default(), &|| false).unwrap();
                black_box(rows::horizon(&phase, &starts).ok())
            });
        });
        for (label, effort) in [("fast", Effort::Fast), ("full", Effort::Full)] {
            let options = Options { effort, ..Options::default() };
            group.bench_function(BenchmarkId::new(label, &name), |bench| {
                bench.iter(|| black_box(schedule(&phase, &options).unwrap().schedule.horizon));
            });
        }
    }
    group.finish();
    criterion.final_summary();
}
