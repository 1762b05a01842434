//! The page of a study, as a user gets it.
#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a helper that fails fails its test; figures have to be the same, not close"
)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Output;

use common::binary::{code, files, folder, json, run, stderr};
use ipu_tune::check;
use serde_json::Value;

/// Enough trials for several incumbents and two calibrations.
const TUNE: &[&str] =
    &["--trials", "12", "--measure-every", "4", "--tiles", "64", "-q", "--json", "m.json"];
const REPORT: &[&str] = &["report", "m.json", "--out", "m.html"];

/// A folder with a small model, tuned.
fn tuned() -> tempfile::TempDir {
    let (folder, _) = folder();
    let output = run(folder.path(), TUNE);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    folder
}

/// The page that a command wrote.
fn page(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    fs::read_to_string(folder.join("m.html")).unwrap()
}

fn figures(folder: &Path) -> Value {
    json(&run(folder, &[REPORT, &["--json"]].concat()))
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A number as tables have it.
fn grouped(value: &Value) -> String {
    ipu_tune::report::cycles(value.as_f64().unwrap().round() as u64)
}

/// Checks that every element is closed where it should be, and returns their names in order.
fn elements(page: &str) -> Vec<String> {
    let page = page.strip_prefix("<!DOCTYPE html>").expect("a document of this type");
    let (mut open, mut names): (Vec<&str>, Vec<String>) = (vec![], vec![]);
    for piece in page.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag that ends");
        assert!(!text.contains('>'), "stray text after <{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes something else");
            continue;
        }
        let name = tag.trim_end_matches('/').split(' ').next().unwrap();
        assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric()), "<{tag}>");
        assert!(tag.matches('"').count().is_multiple_of(2), "<{tag}>");
        names.push(name.to_owned());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "elements that are never closed");
    names
}

fn count(names: &[String], wanted: &str) -> usize {
    names.iter().filter(|name| *name == wanted).count()
}

#[test]
fn the_page_is_whole_and_stands_alone() {
    let folder = tuned();
    let before = fs::read(folder.path().join("m.tune.db")).unwrap();
    let page = page(folder.path(), REPORT);
    let names = elements(&page);
    let sections =
        ["study", "incumbents", "trials", "calibration", "package", "steps", "exchange", "memory"];
    for section in sections {
        assert!(page.contains(&format!("<section id=\"{section}\">")), "{section}");
    }
    assert_eq!(count(&names, "section"), sections.len());
    assert_eq!(count(&names, "svg"), 4, "incumbents, steps, tiles, one tile over time");
    for foreign in ["script", "link", "img", "iframe", "image", "use"] {
        assert_eq!(count(&names, foreign), 0, "{foreign}");
    }
    let outside = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for foreign in ["http", "url(", "@import", "src=", "href="] {
        assert!(!outside.contains(foreign), "{foreign}");
    }
    assert!(page.contains("(simulated, sim:c600)"));
    for name in ["trials", "cycles", "step", "predicted cycles", "logical tile", "bytes"] {
        assert!(page.contains(&format!(">{name}</text>")), "an axis called {name}");
    }
    assert_eq!(fs::read(folder.path().join("m.tune.db")).unwrap(), before);
}

#[test]
fn figures_are_those_of_the_other_commands() {
    let folder = tuned();
    let page = page(folder.path(), REPORT);
    let figures = figures(folder.path());
    assert_eq!(figures["format"], "ipu-tune/report@1");
    let status = json(&run(folder.path(), &["status", "--json", "m.json"]));
    for field in ["study", "model", "model_hash", "tiles", "seed", "device", "rounds", "trials"] {
        assert_eq!(figures["study"][field], status["study"][field], "{field}");
    }
    assert_eq!(figures["study"]["incumbent"], status["incumbent"]);
    assert_eq!(
        figures["calibrations"].as_array().unwrap().len() as u64,
        status["study"]["calibrations"].as_u64().unwrap()
    );
    let history = lines(&run(folder.path(), &["history", "--json", "m.json"]));
    assert!(history.len() > 1, "one incumbent makes no steps");
    let incumbents = figures["incumbents"].as_array().unwrap();
    assert_eq!(incumbents.len(), history.len());
    for (found, wanted) in incumbents.iter().zip(&history) {
        let mut found = found.clone();
        assert!(found["crowned_at"].as_u64() >= wanted["trial"].as_u64());
        found.as_object_mut().unwrap().remove("crowned_at");
        found["format"] = wanted["format"].clone();
        assert_eq!(found, *wanted);
        for field in ["predicted_cycles", "measured_cycles"] {
            assert!(page.contains(&format!(">{}</td>", grouped(&wanted[field]))), "{field}");
        }
    }
    let tune = json(&run(folder.path(), TUNE));
    for field in ["first_plan_cycles", "bound_cycles"] {
        assert_eq!(figures["study"][field], tune[field], "{field}");
        assert!(page.contains(&format!(">{} cycles", grouped(&tune[field]))), "{field}");
    }
    let (first, best) = (&tune["first_plan_cycles"], &tune["incumbent"]["measured_cycles"]);
    let saved = 100.0 * (1.0 - best.as_f64().unwrap() / first.as_f64().unwrap());
    assert!(page.contains(&format!("{saved:.1} % of the first plan")));
    let inspect = json(&run(folder.path(), &["inspect", "--json", "m.ipuexe"]));
    for field in ["bytes", "predicted_cycles", "measured_cycles", "device", "simulated", "kernels"]
    {
        assert_eq!(figures["package"][field], inspect[field], "{field}");
    }
    assert_eq!(figures["package"]["memory"]["tiles"].as_array().unwrap().len(), 64);
    assert_eq!(inspect["tiles"], 64);
}

#[test]
fn counts_of_candidates_add_up() {
    let folder = tuned();
    let trials = &figures(folder.path())["trials"];
    let number = |field: &str| trials[field].as_u64().unwrap();
    let status = json(&run(folder.path(), &["status", "--json", "m.json"]));
    let of_status = status["study"]["candidates"].as_array().unwrap();
    let all: u64 = of_status.iter().map(|counts| counts["count"].as_u64().unwrap()).sum();
    assert_eq!((number("tried"), all), (12, 12));
    assert!(number("scheduled") <= number("tried") && number("scheduled") >= number("measured"));
    assert!(number("measured") >= number("incumbents") && number("incumbents") > 1);
    let failed = trials["failures"].as_array().unwrap().len();
    assert_eq!(failed, of_status.iter().filter(|counts| counts["kind"] != "ok").count());
}

/// Cycles by step come from the package and the database alone; the search predicted the sum.
#[test]
fn steps_add_up_to_the_prediction_and_phases_are_those_of_the_checker() {
    let folder = tuned();
    // Validated again, the package is priced with the last calibration.
    assert_eq!(code(&run(folder.path(), TUNE)), 0);
    let figures = figures(folder.path());
    let package = &figures["package"];
    let calibrations = figures["calibrations"].as_array().unwrap().len();
    assert_eq!(package["calibration_version"], calibrations);
    assert_eq!(package["steps_calibration_version"], calibrations);
    let parts = ["compute_cycles", "exchange_cycles", "synchronization_cycles"];
    let steps = package["steps"].as_array().unwrap();
    let cycles = |step: &Value| parts.map(|part| step[part].as_f64().unwrap()).iter().sum::<f64>();
    let sum: f64 = steps.iter().map(cycles).sum();
    let predicted = package["predicted_cycles"].as_f64().unwrap();
    assert!((sum - predicted).abs() <= 0.5 + 1e-6 * predicted, "{sum} {predicted}");
    for step in steps {
        let kernels = step["kernels"].as_array().unwrap().iter();
        let alone: f64 = kernels.map(|kernel| kernel["cycles"].as_f64().unwrap()).sum();
        let compute = step["compute_cycles"].as_f64().unwrap();
        assert!(cycles(step) > 0.0 && compute <= alone * (1.0 + 1e-9), "{step}");
        assert_eq!(step["exchange"] == false, alone > 0.0, "{step}");
    }
    let bytes = fs::read(folder.path().join("m.ipuexe")).unwrap();
    let checked = check::package(&bytes).unwrap();
    assert_eq!(steps.len(), checked.get().steps);
    let phases = package["phases"].as_array().unwrap();
    assert_eq!(phases.len(), checked.get().phases.len());
    for (found, wanted) in phases.iter().zip(&checked.get().phases) {
        assert_eq!(found["horizon"], wanted.horizon);
        assert_eq!(found["words"], wanted.words);
        let (ordinary, paired) = (wanted.items[0] > 0, wanted.items[1] > 0);
        let widths = match (ordinary, paired) {
            (true, true) => "mixed",
            (true, false) => "ordinary",
            (false, true) => "paired",
            (false, false) => "nothing",
        };
        assert_eq!(found["widths"], widths);
        assert!(wanted.items[0] + 2 * wanted.items[1] > 0 && wanted.ends.contains(&wanted.horizon));
        // No port carries more than two words an event.
        assert!(2 * u64::from(wanted.horizon) >= found["busiest_words"].as_u64().unwrap());
        let step = &steps[found["step"].as_u64().unwrap() as usize];
        assert_eq!(step["exchange"], true);
    }
}

#[test]
fn memory_is_that_of_the_picture_and_of_the_images() {
    let folder = tuned();
    let arguments = [REPORT, &["--tile", "5"]].concat();
    let page = page(folder.path(), &arguments);
    let drawn = run(folder.path(), &["inspect", "m.ipuexe", "--svg", "t.svg", "--tile", "5"]);
    assert_eq!(code(&drawn), 0);
    let svg = fs::read_to_string(folder.path().join("t.svg")).unwrap();
    assert!(page.contains(&svg), "the page holds the picture of `inspect --svg`");
    let figures = json(&run(folder.path(), &[&arguments[..], &["--json"]].concat()));
    assert_eq!(figures["package"]["drawn_tile"], 5);
    let memory = &figures["package"]["memory"];
    let live = memory["tiles"][5]["live_bytes"].as_u64().unwrap();
    assert!(live > 0 && svg.contains(&format!("at most {live} bytes live")), "{live}");
    let (_, application) = ipu_tune::package::load(&folder.path().join("m.ipuexe")).unwrap();
    for tile in memory["tiles"].as_array().unwrap() {
        let bytes = |field: &str| tile[field].as_u64().unwrap();
        let number = ipu_tune::target::TileId(bytes("tile") as u16);
        let physical = u32::from(number.physical().0);
        let image = application.tiles.iter().find(|image| image.physical_tile == physical).unwrap();
        let loaded: u64 = image.segments.iter().map(|part| u64::from(part.memory_size)).sum();
        assert_eq!(bytes("code_bytes") + bytes("rows_bytes"), loaded);
        assert!(bytes("live_bytes") <= bytes("data_bytes"));
        assert!(loaded + bytes("data_bytes") <= memory["tile_bytes"].as_u64().unwrap());
    }
    let most = |field: &str| {
        let tiles = memory["tiles"].as_array().unwrap().iter();
        tiles.map(|tile| tile[field].as_u64().unwrap()).max().unwrap()
    };
    let support = |field: &str| memory["support"][field].as_u64().unwrap();
    assert_eq!(most("rows_bytes"), support("exchange_table_bytes"));
    assert_eq!(most("code_bytes"), support("linked_bytes") + support("generated_code_bytes"));
    let phases = figures["package"]["phases"].as_array().unwrap().iter();
    let longest = phases.map(|phase| phase["longest_row_words"].as_u64().unwrap()).max().unwrap();
    assert!((4 * longest..64 * longest).contains(&support("exchange_table_bytes")));
    // One bar a tile that has data: every bar of a layer is closed by a Z.
    let with_data = memory["tiles"].as_array().unwrap().iter();
    let with_data = with_data.filter(|tile| tile["data_bytes"].as_u64() > Some(0)).count();
    let chart = page.split("<section id=\"memory\">").nth(1).unwrap();
    let layers = chart.lines().filter(|line| line.starts_with("<path") && line.contains('Z'));
    let bars: Vec<usize> = layers.map(|line| line.matches('Z').count()).collect();
    assert_eq!(bars, [64, 64, with_data], "code, rows, data");
}

#[test]
fn the_same_study_gives_the_same_bytes() {
    let folder = tuned();
    let first = page(folder.path(), REPORT);
    assert!(page(folder.path(), REPORT) == first);
    let by_database = ["report", "m.tune.db", "--package", "m.ipuexe", "--out", "m.html"];
    assert!(page(folder.path(), &by_database) == first);
}

#[test]
fn calibrations_are_shown_with_their_held_out_errors() {
    let folder = tuned();
    let page = page(folder.path(), REPORT);
    let figures = figures(folder.path());
    let calibrations = figures["calibrations"].as_array().unwrap();
    assert!(calibrations.len() >= 2, "{calibrations:?}");
    for (index, calibration) in calibrations.iter().enumerate() {
        assert_eq!(calibration["version"].as_u64(), Some(index as u64 + 1));
        let held_out = calibration["held_out"].as_u64().unwrap();
        assert_eq!(held_out > 0, calibration["after"].is_object());
        if let (Some(before), Some(after)) =
            (calibration["before"]["mape"].as_f64(), calibration["after"]["mape"].as_f64())
        {
            assert!(page.contains(&format!("{before:.2} % → {after:.2} %")), "{calibration}");
        }
    }
}

#[test]
fn names_from_models_and_databases_are_never_markup() {
    let (folder, model) = folder();
    let text = fs::read_to_string(&model).unwrap();
    let evil = "<script>alert(\\\"x\\\")</script>&'";
    let named = text.replacen("mlp2-tiny", evil, 1);
    let mut model_json: Value = serde_json::from_str(&named).unwrap();
    let names: Vec<String> = ["inputs", "parameters"]
        .iter()
        .flat_map(|list| model_json[*list].as_array().unwrap())
        .chain(model_json["operations"].as_array().unwrap())
        .map(|named| named["name"].as_str().unwrap().to_owned())
        .collect();
    let mut text = serde_json::to_string(&model_json).unwrap();
    for name in names {
        let quoted = format!("\"{name}\"");
        text = text.replace(&quoted, &format!("\"<script>{name}</td>&\""));
    }
    model_json = serde_json::from_str(&text).unwrap();
    assert!(model_json["operations"][0]["name"].as_str().unwrap().starts_with("<script>"));
    fs::write(&model, text).unwrap();
    let output = run(folder.path(), TUNE);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let db = rusqlite::Connection::open(folder.path().join("m.tune.db")).unwrap();
    db.execute_batch(
        "INSERT INTO event VALUES (1, '<b>', '</table><script>', 'now');
         UPDATE candidate SET failure_kind = '<i>', failure = '<img src=x>' WHERE trial = 12;
         UPDATE incumbent SET demoted = '\"><script>', device = '<s>' WHERE rowid = 1;",
    )
    .unwrap();
    drop(db);
    let page = page(folder.path(), REPORT);
    let names = elements(&page);
    for injected in ["script", "b", "i", "img", "s"] {
        assert_eq!(count(&names, injected), 0, "{injected}");
    }
    for shown in ["&lt;script&gt;alert(&quot;x&quot;)", "&lt;img src=x&gt;", "&quot;&gt;&lt;script"]
    {
        assert!(page.contains(shown), "{shown}");
    }
    assert_eq!(count(&names, "svg"), 4, "the picture names its buffers");
}

#[test]
fn demoted_incumbents_are_marked_and_the_one_before_counts_again() {
    let folder = tuned();
    let history = lines(&run(folder.path(), &["history", "--json", "m.json"]));
    let last = history.last().unwrap()["candidate"].as_str().unwrap().to_owned();
    let db = rusqlite::Connection::open(folder.path().join("m.tune.db")).unwrap();
    let newest = "(SELECT max(rowid) FROM incumbent)";
    let update = format!("UPDATE incumbent SET demoted = 'wrong numbers' WHERE rowid = {newest}");
    db.execute(&update, []).unwrap();
    drop(db);
    let output = run(folder.path(), REPORT);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let before = history[history.len() - 2]["candidate"].as_str().unwrap();
    let wanted = format!("the package is of candidate {last}, the incumbent is {before}");
    assert!(stderr(&output).contains(&format!("note: `m.ipuexe`: {wanted}")), "{output:?}");
    let page = fs::read_to_string(folder.path().join("m.html")).unwrap();
    elements(&page);
    assert!(page.contains("<td>wrong numbers</td>") && page.contains(">×</text>"));
    assert!(page.contains(&wanted) && !page.contains("id=\"steps\""));
    assert_eq!(figures(folder.path())["study"]["incumbent"]["candidate"], before);
}

#[test]
fn without_its_package_the_page_does_without_its_sections() {
    let folder = tuned();
    let left_out = |arguments: &[&str], wanted: &str| {
        let output = run(folder.path(), arguments);
        assert_eq!(code(&output), 0, "{wanted}: {}", stderr(&output));
        assert!(
            stderr(&output).contains("note: ") && stderr(&output).contains(wanted),
            "{output:?}"
        );
        let page = fs::read_to_string(folder.path().join("m.html")).unwrap();
        elements(&page);
        assert!(page.contains("are left out: ") && page.contains(wanted), "{wanted}");
        for section in ["steps", "exchange", "memory"] {
            assert!(!page.contains(&format!("id=\"{section}\"")), "{section}");
        }
        page
    };
    let package = folder.path().join("m.ipuexe");
    let bytes = fs::read(&package).unwrap();
    fs::remove_file(&package).unwrap();
    let page = left_out(REPORT, "the package is missing");
    assert!(page.contains("cycles, which no program"), "the model says what the bound is");
    fs::write(&package, &bytes[..bytes.len() / 2]).unwrap();
    left_out(REPORT, "not a package");
    // One bit of an exchange row or of code.
    let mut broken = bytes.clone();
    let middle = broken.len() / 3;
    broken[middle] ^= 4;
    fs::write(&package, &broken).unwrap();
    left_out(REPORT, "the package is wrong: ");
    let mut older = ipu_tune::package::read(&bytes).unwrap();
    older.origin.evaluator_version = "0".to_owned();
    fs::write(&package, ipu_tune::package::write(&older)).unwrap();
    left_out(REPORT, "the package was made by evaluator version 0, the study is of version ");
    // Another model's.
    let (other, model) = common::binary::folder();
    let text = fs::read_to_string(&model).unwrap();
    fs::write(&model, text.replace("mlp2-tiny", "other")).unwrap();
    assert_eq!(code(&run(other.path(), TUNE)), 0);
    fs::copy(other.path().join("m.ipuexe"), folder.path().join("o.ipuexe")).unwrap();
    fs::write(&package, &bytes).unwrap();
    let foreign = [REPORT, &["--package", "o.ipuexe"]].concat();
    left_out(&foreign, "the package is of another model");
    fs::remove_file(folder.path().join("m.json")).unwrap();
    let page = left_out(&foreign, "the package is of another model");
    assert!(page.contains("not known without the model or its package"));
}

#[test]
fn a_study_without_incumbent_says_what_stands_in_the_way() {
    let (folder, _) = folder();
    let output = run(folder.path(), &["--trials", "3", "--tiles", "2", "-q", "m.json"]);
    assert_eq!(code(&output), 3);
    let page = page(folder.path(), REPORT);
    elements(&page);
    let message = stderr(&output);
    let reason = message.strip_prefix("error: no feasible candidate: ").unwrap();
    let reason = reason.lines().next().unwrap();
    assert!(page.contains(&format!("What stood in the way last: {reason}.")), "{reason}");
    assert!(page.contains("none yet") && page.contains("No candidate was validated yet."));
    assert_eq!(figures(folder.path())["study"]["incumbent"], Value::Null);
}

#[test]
fn bad_input_gives_one_error_and_writes_nothing() {
    let folder = tuned();
    let path = folder.path();
    fs::write(path.join("diary.db"), "a diary").unwrap();
    fs::write(path.join("empty.db"), "").unwrap();
    let mut damaged = fs::read(path.join("m.tune.db")).unwrap();
    damaged[4096..].iter_mut().for_each(|byte| *byte ^= 0xa5);
    fs::write(path.join("damaged.db"), damaged).unwrap();
    let foreign = rusqlite::Connection::open(path.join("foreign.db")).unwrap();
    foreign.execute_batch("CREATE TABLE diary (day TEXT)").unwrap();
    drop(foreign);
    fs::copy(path.join("m.tune.db"), path.join("state.db")).unwrap();
    let broken = rusqlite::Connection::open(path.join("state.db")).unwrap();
    broken.execute_batch("UPDATE round SET state = '{}x'").unwrap();
    drop(broken);
    // Beside a database that is read, SQLite leaves its empty log.
    let files = || -> Vec<String> {
        let log = |name: &String| name.ends_with("-shm") || name.ends_with("-wal");
        files(path).into_iter().filter(|name| !log(name)).collect()
    };
    let before = files();
    let refused = |wanted: i32, arguments: &[&str], message: &str| {
        let output = run(path, &[&["report"], arguments].concat());
        assert_eq!(code(&output), wanted, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).matches("error: ").count(), 1);
        assert!(output.stdout.is_empty());
        assert_eq!(files(), before, "{arguments:?}");
    };
    refused(5, &["none.json", "--out", "x.html"], "there is no database `none.tune.db`");
    refused(5, &["diary.db", "--out", "x.html"], "not an SQLite file");
    refused(5, &["empty.db", "--out", "x.html"], "it is empty");
    refused(5, &["damaged.db", "--out", "x.html"], "damaged");
    refused(5, &["foreign.db", "--out", "x.html"], "another program's");
    refused(5, &["state.db", "--out", "x.html"], "a stored search state cannot be read");
    refused(2, &["m.json", "--out", "x.html", "--tile", "64"], "has no tile 64");
    refused(2, &["m.json", "--out", "x.html", "--package", "none"], "cannot read `none`");
    refused(2, &["m.json", "--out", "x.html", "--package", "m.json"], "not a package");
    refused(2, &["m.json", "--out", "no/x.html"], "cannot write `no/x.html`");
    refused(2, &["m.json", "--out", "."], "cannot write `.`");
    refused(2, &["m.json"], "--out");
    for (out, what) in [("m.json", "model"), ("m.tune.db", "database"), ("m.ipuexe", "package")] {
        let bytes = fs::read(path.join(out)).unwrap();
        refused(2, &["m.json", "--out", out], &format!("would overwrite the {what}"));
        assert_eq!(fs::read(path.join(out)).unwrap(), bytes);
    }
}
