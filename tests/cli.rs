//! The program as a user meets it: exit codes, messages, files, kills.
#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a helper that fails fails its test; exact zeros are meant"
)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use common::binary::{code, files, folder, json, run, stderr};
use ipu_tune::package::load;

const TUNE: &[&str] = &["--trials", "5", "--tiles", "32", "-q", "--json", "m.json"];

#[test]
fn the_main_job_works_and_everything_can_be_asked_about_it() {
    let (folder, _) = folder();
    let first = run(folder.path(), TUNE);
    assert_eq!(code(&first), 0, "{}", stderr(&first));
    let result = json(&first);
    assert_eq!(
        (result["format"].as_str(), result["resuming"].as_bool()),
        (Some("ipu-tune/tune@1"), Some(false))
    );
    assert_eq!(
        (result["trials"].as_u64(), result["stop_reason"].as_str()),
        (Some(5), Some("trials"))
    );
    assert_eq!(result["incumbent"]["simulated"], true);
    let best = result["incumbent"]["measured_cycles"].as_u64().unwrap();
    assert!(result["bound_cycles"].as_u64().unwrap() <= best);
    assert!(files(folder.path()).contains(&"m.ipuexe".to_owned()));
    let checked = run(folder.path(), &["check", "--json", "m.ipuexe"]);
    assert_eq!((code(&checked), json(&checked)["valid"].as_bool()), (0, Some(true)));
    let ran = run(folder.path(), &["run", "--json", "m.ipuexe"]);
    assert_eq!(
        (json(&ran)["cycles"].as_u64(), json(&ran)["numerics"]["pass"].as_bool()),
        (Some(best), Some(true))
    );
    let inspected = run(folder.path(), &["inspect", "--json", "m.ipuexe"]);
    assert_eq!(json(&inspected)["measured_cycles"].as_u64(), Some(best));
    let text = String::from_utf8(run(folder.path(), &["inspect", "m.ipuexe"]).stdout).unwrap();
    assert!(text.contains("simulated") && !text.contains("hardware"), "{text}");
    let drawn = run(folder.path(), &["inspect", "m.ipuexe", "--svg", "m.svg", "--tile", "1"]);
    assert_eq!(code(&drawn), 0);
    let svg = std::fs::read_to_string(folder.path().join("m.svg")).unwrap();
    let patches = svg.matches("<title>").count();
    assert!(svg.contains(&format!("tile 1: {patches} buffers")) && patches > 2, "{svg}");
    let strange = run(folder.path(), &["inspect", "m.ipuexe", "--svg", "n.svg", "--tile", "9999"]);
    assert_eq!((code(&strange), folder.path().join("n.svg").exists()), (2, false));
    for path in ["m.json", "m.tune.db"] {
        assert_eq!(json(&run(folder.path(), &["status", "--json", path]))["study"]["trials"], 5);
        let history = run(folder.path(), &["history", "--json", path]);
        let last = String::from_utf8(history.stdout).unwrap().lines().last().unwrap().to_owned();
        let last: serde_json::Value = serde_json::from_str(&last).unwrap();
        assert_eq!(last["measured_cycles"].as_u64(), Some(best));
    }
    let again = json(&run(folder.path(), TUNE));
    assert_eq!((again["resuming"].as_bool(), again["trials"].as_u64()), (Some(true), Some(5)));
    assert_eq!(again["incumbent"], result["incumbent"]);
}

#[test]
fn packages_are_byte_identical_on_any_number_of_threads() {
    let (one, _) = folder();
    let (two, _) = folder();
    let arguments = |threads| [&["--threads", threads], TUNE].concat();
    assert_eq!(code(&run(one.path(), &arguments("1"))), 0);
    assert_eq!(code(&run(two.path(), &arguments("2"))), 0);
    let package = |folder: &tempfile::TempDir| fs::read(folder.path().join("m.ipuexe")).unwrap();
    assert!(package(&one) == package(&two));
}

#[test]
fn a_damaged_package_is_not_valid() {
    let (folder, _) = folder();
    run(folder.path(), TUNE);
    let path = folder.path().join("m.ipuexe");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 4;
    fs::write(&path, &bytes[..bytes.len() - 8]).unwrap();
    let checked = run(folder.path(), &["check", "--json", "m.ipuexe"]);
    assert_eq!((code(&checked), json(&checked)["valid"].as_bool()), (2, Some(false)));
    assert_eq!(code(&run(folder.path(), &["run", "m.ipuexe"])), 2);
}

#[test]
fn bad_input_writes_nothing() {
    let (folder, model) = folder();
    let good = fs::read_to_string(&model).unwrap();
    fs::write(folder.path().join("empty.json"), "").unwrap();
    fs::write(folder.path().join("short.json"), &good[..good.len() / 2]).unwrap();
    fs::write(folder.path().join("binary.json"), [0xff, 0xfe, 0x00]).unwrap();
    fs::write(
        folder.path().join("space.json"),
        r#"{"format": "ipu-tune/space@1", "operations": {"nobody": {}}}"#,
    )
    .unwrap();
    fs::write(folder.path().join("list.json"), r#"["ipu-tune/space@1"]"#).unwrap();
    let named = good.replacen("\"name\"", "\"data\": \"none.safetensors\", \"name\"", 1);
    fs::write(folder.path().join("data.json"), named).unwrap();
    let before = files(folder.path());
    let cases: &[(&[&str], &str)] = &[
        (&["data.json"], "none.safetensors"),
        (&["absent.json"], "cannot read `absent.json`"),
        (&["empty.json"], "is empty"),
        (&["short.json"], "short.json"),
        (&["binary.json"], "is not UTF-8 text"),
        (&["m.json", "--space", "space.json"], "no operation `nobody`"),
        (&["m.json", "--space", "list.json"], "list.json"),
        (&["list.json"], "list.json"),
        (&["m.json", "--device", "card"], "no such device"),
        (&["m.json", "--output", "no/such/m.ipuexe"], "cannot write `no/such/m.ipuexe`"),
        (&["m.json", "--tiles", "1473"], "1473"),
        (&["m.json", "--budget", "soon"], "soon"),
        (&["--frobnicate", "m.json"], "frobnicate"),
        (&[], "MODEL"),
        (&["check", "absent.ipuexe"], "cannot read `absent.ipuexe`"),
        (&["inspect", "m.json"], "not a package"),
    ];
    for (arguments, wanted) in cases {
        let output = run(folder.path(), arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(wanted), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    assert_eq!(files(folder.path()), before);
    let status = run(folder.path(), &["status", "m.json"]);
    assert_eq!(code(&status), 5, "no study yet");
}

#[test]
fn operations_without_implementation_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let shipped =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("search-spaces/models/resnet50-stem.json");
    fs::copy(shipped, folder.path().join("r.json")).unwrap();
    let output = run(folder.path(), &["r.json"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("(im2col) has no implementation yet"), "{}", stderr(&output));
    assert_eq!(files(folder.path()), ["r.json"]);
}

#[test]
fn a_model_that_is_too_large_names_the_tightest_constraint() {
    let (folder, _) = folder();
    let output = run(folder.path(), &["--trials", "3", "--tiles", "2", "-q", "m.json"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    let message = stderr(&output);
    assert!(message.contains("tile 0") && message.contains("bytes over"), "{message}");
    assert!(!files(folder.path()).contains(&"m.ipuexe".to_owned()));
}

#[test]
fn a_model_larger_than_all_tiles_is_refused_before_anything_is_computed() {
    let folder = tempfile::tempdir().unwrap();
    let model = r#"{"format": "ipu-tune/model@1", "name": "huge",
        "inputs": [{"name": "x", "shape": [8, 65536], "dtype": "f16"}],
        "parameters": [{"name": "w", "shape": [65536, 65536], "dtype": "f16"}],
        "operations": [{"name": "y", "op": "matmul", "inputs": ["x", "w"],
            "outputs": [{"name": "y", "shape": [8, 65536], "dtype": "f16"}]}],
        "outputs": ["y"]}"#;
    fs::write(folder.path().join("huge.json"), model).unwrap();
    let output = run(folder.path(), &["huge.json"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("bytes more than 1472 tiles have"), "{}", stderr(&output));
    assert_eq!(files(folder.path()), ["huge.json"]);
}

#[test]
fn recipes_outlive_what_makes_their_figures_worthless() {
    let (folder, model) = folder();
    let first = run(folder.path(), TUNE);
    let best = |output: &Output| json(output)["incumbent"]["measured_cycles"].as_u64().unwrap();
    // A slower device: every figure is earned again, beginning with the incumbent's.
    let profile = fs::read_to_string("src/device/sim/profile.json").unwrap();
    fs::write(folder.path().join("other.json"), profile.replace("c600", "slow")).unwrap();
    let others = ["--device", "sim:other.json"];
    let again = run(folder.path(), &[TUNE, &others].concat());
    assert_eq!((code(&again), json(&again)["resuming"].as_bool()), (0, Some(true)));
    assert!(json(&again)["incumbent"]["device"].as_str().unwrap().contains("slow"));
    assert!(best(&again) <= best(&first));
    let status = json(&run(folder.path(), &["status", "--json", "m.json"]));
    let event = status["study"]["events"][0].as_str().unwrap().to_owned();
    assert!(event.contains("changed: device"), "{event}");
    // Another model: only if asked.
    let good = fs::read_to_string(&model).unwrap();
    fs::write(&model, good.replace("\"mlp2-tiny\"", "\"other\"")).unwrap();
    let warm = run(folder.path(), &[TUNE, &["--warm-start"]].concat());
    assert_eq!(code(&warm), 0, "{}", stderr(&warm));
    assert!(best(&warm) <= best(&first));
}

#[test]
fn a_budget_too_short_to_validate_the_incumbent_again_leaves_everything_alone() {
    let (folder, _) = folder();
    assert_eq!(code(&run(folder.path(), TUNE)), 0);
    let package = fs::read(folder.path().join("m.ipuexe")).unwrap();
    let output = run(folder.path(), &["--budget", "1ms", "--tiles", "32", "-q", "m.json"]);
    assert_eq!(code(&output), 3);
    assert_eq!(fs::read(folder.path().join("m.ipuexe")).unwrap(), package);
    assert_eq!(code(&run(folder.path(), TUNE)), 0);
}

#[test]
fn a_runner_that_hangs_cannot_hold_the_budget() {
    let (folder, _) = folder();
    let device = ["--budget", "3s", "--device", "command:sleep 100000"];
    let output = run(folder.path(), &[&["--tiles", "32", "-q", "m.json"], &device[..]].concat());
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("the budget ended"), "{}", stderr(&output));
}

#[test]
fn databases_that_cannot_be_used_are_refused_and_left_alone() {
    let (folder, model) = folder();
    let path = folder.path().join("m.tune.db");
    let refused = |wanted: &str| {
        let before = fs::read(&path).ok();
        let output = run(folder.path(), TUNE);
        assert_eq!(code(&output), 5, "{wanted}: {}", stderr(&output));
        assert!(stderr(&output).contains(wanted), "{wanted}: {}", stderr(&output));
        assert!(stderr(&output).contains("hint: "), "{}", stderr(&output));
        assert!(fs::read(&path).ok() == before, "{wanted}: changed");
    };
    fs::write(&path, "").unwrap();
    refused("it is empty");
    fs::write(&path, "a diary").unwrap();
    refused("not an SQLite file");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused("it is a folder");
    fs::remove_dir(&path).unwrap();
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign.execute_batch("CREATE TABLE diary (day TEXT)").unwrap();
    drop(foreign);
    refused("another program's");
    fs::remove_file(&path).unwrap();
    assert_eq!(code(&run(folder.path(), TUNE)), 0);
    // Another model under the same name.
    let good = fs::read_to_string(&model).unwrap();
    fs::write(&model, good.replace("\"mlp2-tiny\"", "\"other\"")).unwrap();
    let output = run(folder.path(), TUNE);
    assert_eq!(code(&output), 5);
    assert!(stderr(&output).contains("another model") && stderr(&output).contains("--fresh"));
    let fresh = run(folder.path(), &[TUNE, &["--fresh"]].concat());
    assert_eq!((code(&fresh), json(&fresh)["resuming"].as_bool()), (0, Some(false)));
    // A later version.
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    let output = run(folder.path(), TUNE);
    assert_eq!(code(&output), 5);
    assert!(stderr(&output).contains("schema version 99"), "{}", stderr(&output));
    // The database is gone, its log is not: it would be replayed into a new one.
    fs::remove_file(&path).unwrap();
    fs::write(folder.path().join("m.tune.db-wal"), "old").unwrap();
    let output = run(folder.path(), TUNE);
    assert_eq!(code(&output), 5);
    assert!(stderr(&output).contains("its log, does"), "{}", stderr(&output));
    assert!(!path.exists());
}

#[test]
fn a_damaged_database_is_refused_and_left_alone() {
    let (folder, _) = folder();
    assert_eq!(code(&run(folder.path(), TUNE)), 0);
    let path = folder.path().join("m.tune.db");
    let mut bytes = fs::read(&path).unwrap();
    // Everything behind the first page: the tables, but not what makes it an SQLite file.
    bytes[4096..].iter_mut().for_each(|byte| *byte ^= 0xa5);
    fs::write(&path, &bytes).unwrap();
    let output = run(folder.path(), TUNE);
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    assert!(stderr(&output).contains("is damaged"), "{}", stderr(&output));
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_database_that_cannot_be_written_is_named() {
    let (folder, _) = folder();
    let before = files(folder.path());
    // Not even an administrator can make files there.
    let output = run(folder.path(), &[TUNE, &["--db", "/proc/m.tune.db"]].concat());
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    assert!(stderr(&output).contains("`/proc/m.tune.db` cannot be written"), "{}", stderr(&output));
    assert_eq!(files(folder.path()), before);
}

#[test]
fn a_locked_database_is_waited_for_and_then_refused() {
    let (folder, _) = folder();
    assert_eq!(code(&run(folder.path(), TUNE)), 0);
    let db = rusqlite::Connection::open(folder.path().join("m.tune.db")).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Readers are not kept out.
    assert_eq!(code(&run(folder.path(), &["status", "m.json"])), 0);
    let output = run(folder.path(), &["--trials", "9", "--tiles", "32", "-q", "m.json"]);
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    assert!(stderr(&output).contains("locked by another process"), "{}", stderr(&output));
    db.execute_batch("ROLLBACK").unwrap();
    assert_eq!(code(&run(folder.path(), TUNE)), 0);
}

#[test]
fn many_processes_may_start_at_the_same_instant() {
    let (folder, _) = folder();
    let start = |index: usize| {
        let output = format!("{index}.ipuexe");
        let mut command = Command::new(cargo_bin!("ipu-tune"));
        command
            .current_dir(folder.path())
            .args(["--trials", "1", "--tiles", "32", "-q", "--output"]);
        command.arg(output).arg("m.json").stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let all: Vec<_> = (0..8).map(start).collect();
    for child in all {
        let output = child.wait_with_output().unwrap();
        let text = stderr(&output);
        // Two that search the same study at once: one commits, the other is told.
        assert!(code(&output) == 0 || text.contains("could not be kept"), "{text}");
        assert!(!text.contains("is not a database") && !text.contains("damaged"), "{text}");
    }
    assert_eq!(json(&run(folder.path(), &["status", "--json", "m.json"]))["study"]["trials"], 1);
}

#[test]
fn twenty_kills_never_lose_an_incumbent() {
    let (folder, _) = folder();
    let arguments = ["--trials", "400", "--tiles", "32", "-q", "m.json"];
    let best = || -> Option<u64> {
        let output = run(folder.path(), &["history", "--json", "m.json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let last: serde_json::Value = serde_json::from_str(text.lines().last()?).ok()?;
        last["measured_cycles"].as_u64()
    };
    let mut before = None;
    for kill in 0..20_u64 {
        let mut command = Command::new(cargo_bin!("ipu-tune"));
        command
            .current_dir(folder.path())
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // Instants spread over start-up, resume, rounds and commits.
        std::thread::sleep(Duration::from_millis(20 + kill * 37 % 400));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = best();
        if let Some(before) = before {
            assert!(now.is_some_and(|now| now <= before), "{before} {now:?}");
        }
        before = now.or(before);
    }
    let output = run(folder.path(), &["--trials", "5", "--tiles", "32", "-q", "--json", "m.json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let measured = json(&output)["incumbent"]["measured_cycles"].as_u64().unwrap();
    assert!(before.is_none_or(|before| measured <= before));
    assert_eq!(code(&run(folder.path(), &["check", "m.ipuexe"])), 0);
}

#[test]
fn an_interrupt_saves_the_state_and_the_package() {
    let (folder, _) = folder();
    let mut command = Command::new(cargo_bin!("ipu-tune"));
    command.current_dir(folder.path()).args(["--budget", "60s", "--tiles", "32", "-q", "m.json"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let package = folder.path().join("m.ipuexe");
    // Until there is something to save.
    while json_lines(&run(folder.path(), &["history", "--json", "m.json"])) == 0 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130);
    assert!(package.exists());
    assert_eq!(code(&run(folder.path(), &["check", "m.ipuexe"])), 0);
}

fn json_lines(output: &Output) -> usize {
    output.stdout.iter().filter(|byte| **byte == b'\n').count()
}

#[test]
fn logs_and_results_do_not_mix() {
    let (folder, _) = folder();
    let arguments = ["--trials", "2", "--tiles", "32", "--json", "--log-format", "json", "m.json"];
    let output = run(folder.path(), &arguments);
    assert_eq!(json_lines(&output), 1, "one result");
    let text = stderr(&output);
    assert!(
        text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
        "{text}"
    );
    assert!(text.contains("validated search incumbent") && text.contains("\"cycles\""), "{text}");
    assert!(text.contains("writing application package"));
    assert!(!text.contains('\u{1b}'), "no control characters");
}

#[test]
fn the_log_tells_what_support_memory_holds() {
    let (folder, _) = folder();
    let arguments = ["--trials", "1", "--tiles", "32", "-v", "--log-format", "json", "m.json"];
    let output = run(folder.path(), &arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stderr(&output);
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut fields = lines.map(|line| line["fields"].clone());
    let told =
        fields.find(|fields| fields["message"] == "allocated package support memory").unwrap();
    let (_, package) = load(&folder.path().join("m.ipuexe")).unwrap();
    let number = |name: &str| u32::try_from(told[name].as_u64().unwrap()).unwrap();
    // The last two segments of an image are the tile's program and its rows, the others are linked.
    let sizes = |from: usize, to: usize| {
        let tiles = package.tiles.iter().map(|tile| {
            let count = tile.segments.len();
            let some = &tile.segments[if from == 0 { 0 } else { count - from }..count - to];
            some.iter().map(|segment| segment.memory_size).sum::<u32>()
        });
        tiles.max().unwrap()
    };
    assert_eq!(number("generated_code_bytes"), sizes(2, 1));
    assert_eq!(number("exchange_table_bytes"), sizes(1, 0));
    assert_eq!(number("linked_bytes"), sizes(0, 2));
    assert_eq!((number("host_code_bytes"), number("host_data_bytes")), (0, 0));
    assert_eq!(number("profile_bytes"), 4 * (package.profile_tiles[0].steps.len() as u32 + 1));
    let symbols = package.debug_symbols.iter().map(|symbol| symbol.address);
    let last = symbols.filter(|address| *address < 0x50000).max().unwrap();
    assert!(last < number("linked_end") && number("linked_end") <= 0x50000);
    // Every piece of data lies in what is said to be available.
    let available = told["available_ranges"].as_str().unwrap();
    let available: Vec<u32> = available
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    for region in &package.debug_regions {
        let inside =
            |free: &[u32]| free[0] <= region.address && region.address + region.size <= free[1];
        assert!(available.chunks(2).any(inside), "{}", region.name);
    }
    assert!(text.contains("placing generated tile programs"));
    assert!(text.contains("maximum_uncompressed_repeat_patch_bytes"));
}

#[test]
fn questions_without_a_study_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let models = run(folder.path(), &["models", "--json"]);
    assert_eq!((code(&models), json_lines(&models)), (0, 30));
    for format in ["model", "space", "placement"] {
        let schema = run(folder.path(), &["schema", format]);
        assert!(json(&schema)["properties"]["format"].is_object());
    }
    assert_eq!(code(&run(folder.path(), &["--version"])), 0);
    let instance =
        r#"{"tiles": 8, "transfers": [{"source": 0, "destinations": [2, 3], "words": 64}]}"#;
    fs::write(folder.path().join("i.json"), instance).unwrap();
    let scheduled = json(&run(folder.path(), &["exchange", "--json", "i.json"]));
    assert_eq!(
        (scheduled["checked"].as_bool(), scheduled["ordinary_horizon"].as_u64()),
        (Some(true), Some(125))
    );
    assert_eq!(code(&run(folder.path(), &["exchange", "i.json", "--rows", "rows.json"])), 0);
    let rows: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("rows.json")).unwrap()).unwrap();
    let tiles: Vec<u64> =
        rows["rows"].as_array().unwrap().iter().map(|row| row["tile"].as_u64().unwrap()).collect();
    assert_eq!(
        (tiles, rows["horizon"].as_u64()),
        (vec![0, 1, 2, 3], scheduled["horizon"].as_u64())
    );
    assert!(rows["rows"][0]["words"].as_array().is_some_and(|words| !words.is_empty()));
    let two = run(folder.path(), &["exchange", "i.json", "i.json", "--rows", "two.json"]);
    let none = run(folder.path(), &["exchange", "i.json", "--timing", "n0", "--rows", "two.json"]);
    assert_eq!((code(&two), code(&none)), (2, 2));
    assert!(!folder.path().join("two.json").exists());
    let plain = json(&run(folder.path(), &["exchange", "--json", "--timing", "n0", "i.json"]));
    assert_eq!(plain["n0_horizon"].as_u64(), Some(64));
    let other = instance.replace("64}", "32}");
    fs::write(folder.path().join("j.json"), other).unwrap();
    let both = |threads| {
        let files = ["i.json", "j.json", "i.json"];
        let arguments = [&["exchange", "--json", "--threads", threads], &files[..]].concat();
        let lines = String::from_utf8(run(folder.path(), &arguments).stdout).unwrap();
        let answers = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        answers.map(|answer: serde_json::Value| answer["horizon"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(both("1"), both("2"));
    assert_eq!((both("2").len(), both("2")[0]), (3, scheduled["horizon"].as_u64()));
    assert_ne!(both("2")[0], both("2")[1]);
    fs::write(folder.path().join("bad.json"), instance.replace("[2, 3]", "[9]")).unwrap();
    let refused = run(folder.path(), &["exchange", "bad.json"]);
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains("transfer 0: tile 9 does not exist"), "{}", stderr(&refused));
}

/// A folder with an instance `i.json` and others made of its text.
fn instances(others: &[(&str, String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("i.json"), transfers(&[MESSAGE])).unwrap();
    for (name, text) in others {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn transfers(all: &[&str]) -> String {
    format!(r#"{{"tiles": 8, "transfers": [{}]}}"#, all.join(", "))
}

const MESSAGE: &str = r#"{"source": 0, "destinations": [2, 3], "words": 64}"#;

#[test]
fn instances_that_are_none_are_refused_with_file_place_and_fix() {
    let one = |text: &str| transfers(&[MESSAGE, text]);
    let cases: &[(&str, String, &str)] = &[
        ("empty", String::new(), "is empty"),
        ("cut", transfers(&[MESSAGE])[..60].to_owned(), "`transfers[0]"),
        ("list", "[]".to_owned(), "at the top level"),
        ("nameless", "[8, []]".to_owned(), "at the top level"),
        ("positional", one("[0, [1], 4, null, null]"), "transfers[1]"),
        ("half", r#"{"tiles": 8}"#.to_owned(), "missing field `transfers`"),
        ("trailing", transfers(&[MESSAGE]) + " {}", "at the end"),
        (
            "field",
            one(&MESSAGE.replace("}", r#", "source_adresses": [1]}"#)),
            "transfers[1].source_adresses",
        ),
        ("tiles", transfers(&[]).replace('8', "1473"), "1473 tiles"),
        ("unknown", one(&MESSAGE.replace("3]", "8]")), "transfer 1: tile 8 does not exist"),
        ("words", one(&MESSAGE.replace("64", "0")), "transfer 1: it has no words"),
        ("nobody", one(&MESSAGE.replace("2, 3", "")), "transfer 1: it has no destination"),
        (
            "itself",
            one(&MESSAGE.replace("2, 3", "0")),
            "transfer 1: its only destination is its source",
        ),
        ("sender", one(&MESSAGE.replace(": 0", ": 9")), "transfer 1: tile 9 does not exist"),
        (
            "odd",
            one(&MESSAGE.replace("}", r#", "source_addresses": [400002]}"#)),
            "transfer 1: address 0x61a82 is not a multiple of 4",
        ),
        (
            "oddly",
            one(&MESSAGE.replace("}", r#", "destination_addresses": [600000, 600001]}"#)),
            "transfer 1: address 0x927c1 is not a multiple of 4",
        ),
        (
            "below",
            one(&MESSAGE.replace("}", r#", "source_addresses": [311292]}"#)),
            "transfer 1: 64 words at 0x4bffc leave tile memory",
        ),
        (
            "outside",
            one(&MESSAGE.replace("}", r#", "destination_addresses": [600000, 950268]}"#)),
            "transfer 1: 64 words at 0xe7ffc leave tile memory",
        ),
        (
            "few",
            one(&MESSAGE.replace("}", r#", "destination_addresses": [600000]}"#)),
            "transfer 1: 1 destination addresses, expected 2",
        ),
        (
            "twice",
            transfers(&[
                r#"{"source": 0, "destinations": [2], "words": 8, "destination_addresses": [600000]},
                {"source": 1, "destinations": [2], "words": 8, "destination_addresses": [600028]}"#,
            ]),
            "transfer 1: it writes 0x927dc of tile 2, which transfer 0 writes too",
        ),
        (
            "long",
            one(&MESSAGE.replace("64", "4294967295")),
            "transfer 1: no place is left for its 4294967295 words on tile 0",
        ),
    ];
    let named = cases.iter().map(|(name, text, _)| (*name, text.clone())).collect::<Vec<_>>();
    let folder = instances(&named);
    for (name, _, wanted) in cases {
        let output = run(folder.path(), &["exchange", "i.json", name]);
        let message = stderr(&output);
        assert_eq!((code(&output), output.stdout.len()), (2, 0), "{name}: {message}");
        assert!(message.contains(&format!("`{name}`")), "{name}: {message}");
        assert!(message.contains(wanted) && message.contains("hint: "), "{name}: {message}");
        let reason = wanted.rsplit(": ").next().unwrap();
        assert_eq!(message.matches(reason).count(), 1, "{name} says it twice: {message}");
        let output = run(folder.path(), &["exchange", "--rows", "rows.json", name]);
        assert_eq!((code(&output), stderr(&output)), (2, message), "{name}");
    }
    assert!(!folder.path().join("rows.json").exists());
    let all = run(folder.path(), &["exchange", "half", "i.json", "absent", "words"]);
    let message = stderr(&all);
    assert_eq!((code(&all), all.stdout.len()), (2, 0), "{message}");
    let errors: Vec<&str> = message.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 3, "{message}");
    let named = errors.iter().zip(["`half`", "`absent`", "`words`"]);
    assert!(named.into_iter().all(|(error, name)| error.contains(name)), "{message}");
}

#[test]
fn n0_refuses_the_same() {
    let long = MESSAGE.replace("64", "4294967295");
    let cases = [
        ("words", MESSAGE.replace("64", "0"), "transfer 1: it has no words"),
        ("unknown", MESSAGE.replace("3]", "8]"), "transfer 1: tile 8 does not exist"),
        ("nobody", MESSAGE.replace("2, 3", ""), "transfer 1: it has no destination"),
        ("itself", MESSAGE.replace("2, 3", "0"), "transfer 1: its only destination is its source"),
        ("long", long, "transfer 1: with it 8589934718 words arrive"),
    ];
    let named = cases.each_ref().map(|(name, text, _)| (*name, transfers(&[MESSAGE, text])));
    let folder = instances(&named);
    for (name, _, wanted) in &cases {
        let output = run(folder.path(), &["exchange", "--timing", "n0", name]);
        let message = stderr(&output);
        assert_eq!((code(&output), output.stdout.len()), (2, 0), "{name}: {message}");
        assert!(message.contains(&format!("`{name}`: {wanted}")), "{name}: {message}");
        assert!(message.contains("hint: "), "{message}");
    }
}

#[test]
fn transfers_in_a_ring_keep_the_order_of_the_file() {
    let ring = [(0, 1, 393_216, 589_824), (1, 2, 589_824, 589_824), (2, 0, 589_824, 393_216)];
    let ring = ring.map(|(from, to, read, written)| {
        format!(
            r#"{{"source": {from}, "destinations": [{to}], "words": 8,
                "source_addresses": [{read}], "destination_addresses": [{written}]}}"#
        )
    });
    let folder = instances(&[("ring.json", transfers(&ring.each_ref().map(String::as_str)))]);
    let exact = json(&run(folder.path(), &["exchange", "--json", "ring.json"]));
    assert_eq!(exact["checked"], true);
    let plain = json(&run(folder.path(), &["exchange", "--json", "--timing", "n0", "ring.json"]));
    assert_eq!((&plain["checked"], &plain["n0_horizon"]), (&true.into(), &24.into()));
}

#[test]
fn rows_of_a_loop_are_checked_in_every_iteration() {
    let moving = r#"{"source": 0, "destinations": [2], "words": 64,
        "source_addresses": [311296, 376832, 442368], "destination_addresses": [600000]}"#;
    let folder = instances(&[("loop.json", transfers(&[moving, MESSAGE]))]);
    let output = run(folder.path(), &["exchange", "--json", "loop.json", "--rows", "rows.json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(json(&output)["checked"], true);
    let rows = fs::read(folder.path().join("rows.json")).unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&rows).unwrap();
    // The elements of all three iterations, and of what `MESSAGE` reads, are avoided.
    assert_eq!(
        (&rows["rows"][0]["tile"], &rows["rows"][0]["address"]),
        (&0.into(), &0x64000.into())
    );
}

#[test]
fn files_that_cannot_be_read_are_named() {
    use std::io::Write;
    let folder = instances(&[]);
    let path = |name: &str| folder.path().join(name);
    let mut packer = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    packer.write_all(transfers(&[MESSAGE]).as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    fs::write(path("whole.json.gz"), &packed).unwrap();
    assert_eq!(code(&run(folder.path(), &["exchange", "whole.json.gz"])), 0);
    fs::write(path("cut.json.gz"), &packed[..packed.len() / 2]).unwrap();
    let mut changed = packed.clone();
    let checksum = packed.len() - 8;
    changed[checksum] ^= 1;
    fs::write(path("changed.json.gz"), changed).unwrap();
    fs::write(path("empty.json.gz"), "").unwrap();
    fs::write(path("more.json.gz"), [&packed, &b"more"[..]].concat()).unwrap();
    fs::write(path("plain.json.gz"), transfers(&[MESSAGE])).unwrap();
    let bytes = transfers(&[MESSAGE]).replace("\"tiles", "\n \"t?les").into_bytes();
    let bytes: Vec<u8> =
        bytes.iter().map(|byte| if *byte == b'?' { 0xff } else { *byte }).collect();
    fs::write(path("bytes.json"), bytes).unwrap();
    fs::create_dir(path("folder")).unwrap();
    let cases = [
        ("absent.json", "cannot read"),
        ("folder", "cannot read"),
        ("bytes.json", "is not UTF-8 text at line 2, byte 4"),
        ("changed.json.gz", "cannot unpack"),
        ("cut.json.gz", "cannot unpack"),
        ("empty.json.gz", "cannot unpack"),
        ("more.json.gz", "cannot unpack"),
        ("plain.json.gz", "cannot unpack"),
    ];
    for (name, wanted) in cases {
        let output = run(folder.path(), &["exchange", "--json", "i.json", name]);
        let message = stderr(&output);
        assert_eq!((code(&output), output.stdout.len()), (2, 0), "{name}: {message}");
        assert!(message.contains(&format!("`{name}`")) && message.contains(wanted), "{message}");
        assert!(message.contains("hint: "), "{message}");
    }
}

#[test]
fn rows_lie_where_a_tile_moves_nothing() {
    // Data where rows lie first, on the sender and on one receiver.
    let at = r#"{"source": 0, "destinations": [2, 3], "words": 64, "source_addresses": [311296],
        "destination_addresses": [524288, 311296]}"#;
    // All of executable memory.
    let all = r#"{"source": 4, "destinations": [5], "words": 53248, "source_addresses": [311296],
        "destination_addresses": [524288]}"#;
    let folder = instances(&[("at.json", transfers(&[at])), ("all.json", transfers(&[all]))]);
    let output = run(folder.path(), &["exchange", "at.json", "--rows", "rows.json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let rows = fs::read(folder.path().join("rows.json")).unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&rows).unwrap();
    let places: Vec<_> =
        rows["rows"].as_array().unwrap().iter().map(|row| &row["address"]).collect();
    // Tile 1 lends tile 0 its lane.
    assert_eq!(places, [0x5c000, 0x4c020, 0x4c020, 0x5c000]);
    let output = run(folder.path(), &["exchange", "all.json", "--rows", "none.json"]);
    let message = stderr(&output);
    assert_eq!((code(&output), output.stdout.len()), (2, 0), "{message}");
    let named = ["`all.json`: tile 4 has no place for its row of", "rule M2", "hint: "];
    assert!(named.iter().all(|word| message.contains(word)), "{message}");
    assert!(!folder.path().join("none.json").exists());
}

#[test]
fn long_rows_get_more_than_one_element() {
    let all = vec![r#"{"source": 0, "destinations": [1], "words": 1}"#; 5000];
    let folder = instances(&[("many.json", transfers(&all))]);
    let arguments = ["exchange", "--effort", "fast", "many.json", "--json", "--rows", "rows.json"];
    let output = run(folder.path(), &arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(json(&output)["row_bytes_max"].as_u64().unwrap() > 0x4000);
    let rows = fs::read(folder.path().join("rows.json")).unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&rows).unwrap();
    // Tile 0 reads in the element from 0x60000 on.
    assert_eq!(rows["rows"][0]["address"], 0x64000);
}

#[test]
fn a_phase_that_cannot_be_scheduled_takes_nothing_from_the_others() {
    let long = r#"{"source": 0, "destinations": [1, 5, 7], "words": 9000}"#;
    let folder = instances(&[("long.json", transfers(&[MESSAGE, long, MESSAGE]))]);
    let limited = |more: &[&str]| {
        let files = ["i.json", "long.json", "i.json"];
        run(folder.path(), &[&["exchange", "--row-bytes", "28"], &files[..], more].concat())
    };
    for (more, lines) in [(&[][..], 2), (&["--json"], 2), (&["--json", "--threads", "2"], 2)] {
        let output = limited(more);
        let message = stderr(&output);
        assert_eq!(code(&output), 3, "{message}");
        let text = String::from_utf8(output.stdout).unwrap();
        let found = text.lines().filter(|line| line.contains(" i ") || line.contains("\"i\""));
        assert_eq!(found.count(), lines, "{text}");
        assert!(!text.contains("long"), "{text}");
        let named = ["`long.json`", "`--row-bytes 28`", "row of tile ", " bytes", "hint: "];
        assert!(named.iter().all(|word| message.contains(word)), "{message}");
    }
}

#[test]
fn rows_do_not_take_the_place_of_their_instance() {
    let folder = instances(&[]);
    let path = folder.path().join("i.json");
    let before = fs::read(&path).unwrap();
    std::os::unix::fs::symlink(&path, folder.path().join("link.json")).unwrap();
    for rows in ["i.json", "./i.json", "link.json"] {
        let output = run(folder.path(), &["exchange", "--rows", rows, "i.json"]);
        assert_eq!(code(&output), 2);
        let wanted = format!("`--rows {rows}` would overwrite the instance");
        assert!(stderr(&output).contains(&wanted), "{}", stderr(&output));
        assert!(stderr(&output).contains("another place for the rows"), "{}", stderr(&output));
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn no_device_or_pipe_is_replaced_and_links_stay() {
    let folder = instances(&[]);
    let path = |name: &str| folder.path().join(name);
    let _listener = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    let rows = |to: &str| run(folder.path(), &["exchange", "--rows", to, "i.json"]);
    for to in ["socket", "/dev/null"] {
        let output = rows(to);
        let message = stderr(&output);
        assert_eq!(code(&output), 2, "{message}");
        assert!(message.contains(to) && message.contains("not of a device or a pipe"), "{message}");
    }
    assert!(!path("socket").metadata().unwrap().is_file());
    let (other, _) = common::binary::folder();
    let tune = ["--trials", "1", "--tiles", "32", "--output", "/dev/null", "m.json"];
    let tuned = run(other.path(), &tune);
    assert_eq!(code(&tuned), 2, "{}", stderr(&tuned));
    assert_eq!(files(other.path()), ["m.json"]);
    fs::write(path("old"), "old").unwrap();
    std::os::unix::fs::symlink("old", path("link")).unwrap();
    assert_eq!(code(&rows("link")), 0);
    assert!(path("link").is_symlink());
    assert!(fs::read_to_string(path("old")).unwrap().contains("ipu-tune/rows@1"));
}

#[test]
fn every_answer_has_every_field() {
    let large = r#"{"source": 0, "destinations": [2], "words": 100000}"#;
    let folder =
        instances(&[("none.json", transfers(&[])), ("large.json", transfers(&[large, large]))]);
    let answer =
        |more: &[&str]| json(&run(folder.path(), &[&["exchange", "--json"], more].concat()));
    let fields = |answer: &serde_json::Value| -> Vec<String> {
        answer.as_object().unwrap().keys().cloned().collect()
    };
    let exact = answer(&["i.json"]);
    let words = |name: &str| exact[name].as_u64().unwrap();
    assert!(exact["n0_horizon"].is_null() && words("horizon") > 0);
    assert!(words("row_bytes_total") >= 4 * words("row_words_total"));
    assert_eq!((words("row_bytes_max") % 8, words("row_bytes_total") % 8), (0, 0));
    let none = answer(&["none.json"]);
    for name in ["row_words_max", "row_words_total", "row_bytes_max", "row_bytes_total", "horizon"]
    {
        assert_eq!(none[name], 0, "{name}");
    }
    // More than a tile holds: N0 needs no memory where the file has no addresses.
    let plain = answer(&["--timing", "n0", "large.json"]);
    assert_eq!((&plain["n0_horizon"], plain["checked"].as_bool()), (&200_000.into(), Some(true)));
    for name in ["ordinary_horizon", "paired_horizon", "mixed_horizon", "horizon", "row_words_max"]
    {
        assert!(plain[name].is_null(), "{name}");
    }
    assert_eq!(fields(&plain), fields(&exact));
    assert_eq!(fields(&none), fields(&exact));
    let contract = [
        "name",
        "transfers",
        "lower_bound",
        "ordinary_horizon",
        "paired_horizon",
        "horizon",
        "n0_horizon",
        "row_words_max",
        "row_words_total",
        "schedule_seconds",
        "checked",
    ];
    assert!(contract.iter().all(|name| fields(&exact).iter().any(|found| found == name)));
}
