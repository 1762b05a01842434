//! `ipu-tune place` as a user meets it: figures, files, messages, exit codes.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin!("ipu-tune"));
    command.current_dir(folder).arg("place").args(arguments).stdin(Stdio::null());
    command.output().expect("the program starts")
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn lines(output: &Output) -> Vec<serde_json::Value> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A block of 100 steps and `capacity` bytes, cut into pieces by time and by address: it is full at
/// every step, and a placement exists.
fn cut(seed: u64, capacity: u32, pieces: usize) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut whole = vec![[0, 100, 0, capacity]];
    while whole.len() < pieces {
        let piece = whole.swap_remove(random.random_range(0..whole.len()));
        let side = if random.random() { 0 } else { 2 };
        let middle = random.random_range(piece[side]..=piece[side + 1]);
        let (mut before, mut after) = (piece, piece);
        (before[side + 1], after[side]) = (middle, middle);
        let is_some = |piece: &[u32; 4]| piece[0] < piece[1] && piece[2] < piece[3];
        whole.extend([before, after].into_iter().filter(is_some));
    }
    let row = |(index, [lower, upper, start, end]): (usize, &[u32; 4])| {
        format!("b{index},{lower},{upper},{}\n", end - start)
    };
    let rows: Vec<String> = whole.iter().enumerate().map(row).collect();
    format!("id,lower,upper,size\n{}", rows.concat())
}

/// Rows of a CSV file after its header.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().skip(1).map(|line| line.split(',').collect()).collect()
}

/// Checks a file with offsets against the file without, byte by byte and step by step.
fn check(input: &str, placed: &str, capacity: usize) {
    assert!(placed.starts_with("id,lower,upper,size,offset\n"));
    let (before, after) = (rows(input), rows(placed));
    assert_eq!(before.len(), after.len());
    let mut taken = vec![vec![false; capacity]; 100];
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before[..], after[..4]);
        let number = |column: usize| after[column].parse::<usize>().unwrap();
        for memory in &mut taken[number(1)..number(2)] {
            for byte in &mut memory[number(4)..number(4) + number(3)] {
                assert!(!*byte, "{after:?} lies on another");
                *byte = true;
            }
        }
    }
}

#[test]
fn buffers_are_placed_written_and_drawn() {
    for seed in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let input = cut(seed, 400, 20);
        fs::write(folder.path().join("x.400.csv"), &input).unwrap();
        let files = ["--out", "placed.csv", "--svg", "x.svg", "--json", "x.400.csv"];
        let placed = run(folder.path(), &files);
        assert_eq!(code(&placed), 0, "{}", stderr(&placed));
        let found = &lines(&placed)[0];
        assert_eq!(found["format"], "ipu-tune/place@1");
        assert_eq!((&found["name"], &found["outcome"]), (&"x".into(), &"placed".into()));
        assert_eq!((&found["height"], &found["bound"]), (&400.into(), &400.into()));
        assert_eq!((&found["capacity"], &found["checked"]), (&400.into(), &true.into()));
        assert!(found["seconds"].is_f64());
        let text = fs::read_to_string(folder.path().join("placed.csv")).unwrap();
        check(&input, &text, 400);
        let picture = fs::read_to_string(folder.path().join("x.svg")).unwrap();
        assert_eq!(picture.matches("<title>").count(), rows(&input).len());
        // What was written can be read again.
        let again = run(folder.path(), &["--capacity", "400", "placed.csv"]);
        assert_eq!(code(&again), 0, "{}", stderr(&again));
        assert!(String::from_utf8_lossy(&again.stdout).contains("placed"));
        assert_eq!(names(folder.path()), ["placed.csv", "x.400.csv", "x.svg"]);
    }
}

#[test]
fn what_is_impossible_and_what_is_unknown_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.400.csv"), cut(1, 400, 20)).unwrap();
    let tight = ["--capacity", "397", "--out", "o.csv", "--svg", "o.svg", "--json", "x.400.csv"];
    let impossible = run(folder.path(), &tight);
    assert_eq!(code(&impossible), 3);
    let found = &lines(&impossible)[0];
    assert_eq!((&found["outcome"], &found["checked"]), (&"impossible".into(), &false.into()));
    assert!(found["height"].is_null());
    let words = "impossible, 3 bytes more live in all memory at step 0 than it has free";
    assert!(stderr(&impossible).contains(words), "{}", stderr(&impossible));
    assert_eq!(names(folder.path()), ["x.400.csv"]);

    // One that cannot be placed does not keep the others from being placed.
    let easy = "id,lower,upper,size\na,0,2,1\nb,1,4,2\nc,3,6,1\nd,5,7,3\ne,0,1,3\nf,2,3,1\n";
    fs::write(folder.path().join("two.csv"), easy).unwrap();
    let both = run(folder.path(), &["--capacity", "4", "--json", "two.csv", "x.400.csv"]);
    assert_eq!(code(&both), 3);
    assert_eq!(lines(&both).len(), 2);
    assert_eq!(lines(&both)[0]["outcome"], "placed");
    assert_eq!(lines(&both)[1]["outcome"], "impossible");

    // Without a search, orders alone leave open what a search would find.
    let mut unknown = 0;
    for seed in 0..20 {
        fs::write(folder.path().join("y.csv"), cut(seed, 400, 40)).unwrap();
        let found = run(folder.path(), &["--capacity", "400", "--nodes", "0", "--json", "y.csv"]);
        if lines(&found)[0]["outcome"] == "unknown" {
            unknown += 1;
            assert_eq!(code(&found), 3);
            assert!(stderr(&found).contains("unknown, 0 nodes"), "{}", stderr(&found));
            assert!(stderr(&found).contains("--nodes"));
        } else {
            assert_eq!(code(&found), 0);
        }
    }
    assert!(unknown > 0, "every instance is too easy for this test");
}

#[test]
fn bad_input_is_named_and_writes_nothing() {
    let good = "id,lower,upper,size\na,0,3,4\n";
    let cases = [
        ("", "line 1: no column `id`"),
        ("id,lower,size\na,0,4\n", "line 1: no column `upper`"),
        ("id,lower,upper,size,alignment\na,0,3,4,8\n", "column `alignment`"),
        ("id,lower,upper,size,size\na,0,3,4,8\n", "column `size` is unknown or there twice"),
        ("id,lower,upper,size\na,0,3,-4\n", "line 2: `-4` is no size"),
        ("id,lower,upper,size\na,0,3,4294967296\n", "line 2: `4294967296` is no size"),
        ("id,lower,upper,size\na,0,3,4\nb,5,3,4\n", "line 3: a buffer of 4 bytes from 5 to 3"),
        ("id,lower,upper,size\na,0,3,0\n", "line 2: a buffer of 0 bytes"),
        ("id,lower,upper,size\na,0,3,4\na,0,3,4\n", "line 3: `a` is there twice"),
        ("id,lower,upper,size\na,0,3\n", "line 2: 3 values, expected 4"),
    ];
    for (text, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("bad.64.csv"), text).unwrap();
        fs::write(folder.path().join("good.64.csv"), good).unwrap();
        for files in [&["good.64.csv", "bad.64.csv"][..], &["--out", "o.csv", "bad.64.csv"]] {
            let refused = run(folder.path(), files);
            assert_eq!(code(&refused), 2, "{text}");
            let told = stderr(&refused);
            assert!(told.contains("`bad.64.csv`: ") && told.contains(words), "{told}");
            assert!(told.contains("hint: "), "{told}");
            assert!(refused.stdout.is_empty());
        }
        assert_eq!(names(folder.path()), ["bad.64.csv", "good.64.csv"]);
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plain.csv"), good).unwrap();
    let refused = |arguments: &[&str], words: &str| {
        let output = run(folder.path(), arguments);
        assert_eq!(code(&output), 2, "{arguments:?}");
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    };
    refused(&["plain.csv"], "`plain.csv`: no capacity");
    refused(&["--capacity", "9", "none.csv"], "cannot read `none.csv`");
    let twice = ["--capacity", "9", "--out", "o.csv", "plain.csv", "plain.csv"];
    refused(&twice, "`--out` with 2 files");
    refused(&["--capacity", "9", "--svg", "no/o.svg", "plain.csv"], "no/o.svg");
    assert_eq!(names(folder.path()), ["plain.csv"]);
}

/// A tile's problem around the start of interleaved memory, with every rule that a file can state.
fn tile() -> serde_json::Value {
    serde_json::json!({
        "format": "ipu-tune/placement@1",
        "free": [[507_904, 516_096], [520_192, 561_152]],
        "buffers": [
            {"name": "code", "size": 3000, "alignment": 8, "executable": true, "persistent": true},
            {"name": "weights", "size": 8000, "alignment": 32, "region": "interleaved",
             "persistent": true, "forbidden": [[524_288, 530_000]]},
            {"name": "in", "size": 4000, "tail": 64, "alignment": 16, "live": [[0, 3], [6, 8]]},
            {"name": "between", "size": 4000, "tail": 64, "alignment": 16, "live": [[3, 6]]},
            {"name": "out", "size": 3000, "alignment": 8, "region": "interleaved", "live": [[2, 9]]},
            {"name": "view", "size": 1000, "alignment": 64, "live": [[4, 7]]},
            {"name": "samples", "size": 500, "alignment": 4, "live": [[8, 9]], "untouched": true},
        ],
        "apart": [["in", "out"], ["weights", "in"]],
        "aliases": [["view", "out"]],
    })
}

fn number(buffer: &serde_json::Value, field: &str) -> u64 {
    buffer[field].as_u64().unwrap_or(0)
}

fn pairs(list: &serde_json::Value) -> Vec<(u64, u64)> {
    let pairs = list.as_array().map_or(&[][..], |list| list);
    pairs.iter().map(|pair| (pair[0].as_u64().unwrap(), pair[1].as_u64().unwrap())).collect()
}

/// Checks a file with addresses byte by byte, step by step: every byte of every step has at most one
/// owner, who may be there.
fn check_tile(problem: &serde_json::Value, placed: &serde_json::Value) {
    let buffers = problem["buffers"].as_array().unwrap();
    let mut owners: std::collections::BTreeMap<(u64, u64), &str> =
        std::collections::BTreeMap::new();
    let mut elements: std::collections::BTreeMap<(&str, u64), Vec<u64>> =
        std::collections::BTreeMap::new();
    for (buffer, answer) in buffers.iter().zip(placed["buffers"].as_array().unwrap()) {
        let name = buffer["name"].as_str().unwrap();
        assert_eq!(buffer["name"], answer["name"]);
        let start = answer["address"].as_u64().unwrap();
        let end = start + number(buffer, "size") + number(buffer, "tail");
        assert_eq!(start % number(buffer, "alignment").max(1), 0, "{name}");
        assert!(pairs(&problem["free"]).iter().any(|(a, b)| *a <= start && end <= *b), "{name}");
        assert!(buffer["executable"] != true || end <= 524_288, "{name}");
        assert!(buffer["region"] != "interleaved" || start >= 524_288, "{name}");
        let forbidden = pairs(&buffer["forbidden"]);
        assert!(forbidden.iter().all(|(a, b)| end <= *a || *b <= start), "{name}");
        // A view and its buffer are one owner.
        let owner = if name == "view" { "out" } else { name };
        let times =
            if buffer["persistent"] == true { vec![(0, 9)] } else { pairs(&buffer["live"]) };
        let held = if buffer["untouched"] == true { vec![(0, 9)] } else { times.clone() };
        for step in held.iter().flat_map(|(from, to)| *from..*to) {
            for byte in start..end {
                let other = owners.insert((step, byte), owner);
                assert!(other.is_none_or(|other| other == owner), "{name} and {other:?} at {step}");
            }
        }
        for step in times.iter().flat_map(|(from, to)| *from..*to) {
            let element = |at: u64| if at < 524_288 { at / 16_384 } else { at / 32_768 + 16 };
            elements.insert((name, step), (element(start)..=element(end - 1)).collect());
        }
    }
    for pair in problem["apart"].as_array().unwrap() {
        let touched = |name: &serde_json::Value, step| {
            elements.get(&(name.as_str().unwrap(), step)).cloned().unwrap_or_default()
        };
        for step in 0..9 {
            let (a, b) = (touched(&pair[0], step), touched(&pair[1], step));
            assert!(!a.iter().any(|element| b.contains(element)), "{pair}");
        }
    }
}

#[test]
fn a_tile_with_every_rule_is_placed_written_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tile.json"), tile().to_string()).unwrap();
    let files = ["--out", "placed.json", "--svg", "tile.svg", "--json", "tile.json"];
    let placed = run(folder.path(), &files);
    assert_eq!(code(&placed), 0, "{}", stderr(&placed));
    let found = &lines(&placed)[0];
    assert_eq!(found["format"], "ipu-tune/place@1");
    assert_eq!((&found["name"], &found["outcome"]), (&"tile".into(), &"placed".into()));
    assert_eq!((&found["capacity"], &found["checked"]), (&49_152.into(), &true.into()));
    // The fullest step has code, weights, one input with its tail, and the output; samples keep
    // their place at every step.
    assert_eq!(found["bound"], 3000 + 8000 + 4064 + 3000 + 500);
    assert!(found["height"].as_u64() >= found["bound"].as_u64());
    let text = fs::read_to_string(folder.path().join("placed.json")).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    check_tile(&tile(), &answer);
    for buffer in answer["buffers"].as_array().unwrap() {
        assert_eq!(found["addresses"][buffer["name"].as_str().unwrap()], buffer["address"]);
    }
    let picture = fs::read_to_string(folder.path().join("tile.svg")).unwrap();
    // One of the buffers lives twice.
    assert_eq!(picture.matches("<title>").count(), 8);
    // What was written can be read again, and the table is for people.
    let again = run(folder.path(), &["placed.json"]);
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    assert!(String::from_utf8_lossy(&again.stdout).contains("placed"));
    assert_eq!(names(folder.path()), ["placed.json", "tile.json", "tile.svg"]);
}

#[test]
fn both_files_are_written_or_none() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tile.json"), tile().to_string()).unwrap();
    for svg in ["none/tile.svg", "."] {
        let refused = run(folder.path(), &["--out", "placed.json", "--svg", svg, "tile.json"]);
        assert_eq!(code(&refused), 2);
        assert!(
            stderr(&refused).contains(&format!("cannot write `{svg}`")),
            "{}",
            stderr(&refused)
        );
        assert_eq!(names(folder.path()), ["tile.json"]);
    }
}

#[test]
fn an_impossible_tile_says_where_and_by_how_much() {
    let cases = [
        (
            serde_json::json!([
                {"name": "a", "size": 6000, "region": "interleaved", "live": [[0, 4]]},
                {"name": "b", "size": 6000, "tail": 8, "region": "interleaved", "live": [[3, 5]]},
            ]),
            "3816 bytes more live in interleaved memory at step 3",
            serde_json::json!({"step": 3, "region": "interleaved", "bytes_over": 3816, "bytes_spare": null, "buffer": null}),
        ),
        (
            serde_json::json!([
                {"name": "small", "size": 8, "live": [[0, 4]]},
                {"name": "wide", "size": 9000, "live": [[2, 4]], "region": "standard"},
            ]),
            "buffer `wide` of step 2 is 4904 bytes larger than its largest place in standard",
            serde_json::json!({"step": 2, "region": "standard", "bytes_over": 4904, "bytes_spare": null, "buffer": "wide"}),
        ),
        (
            serde_json::json!([
                {"name": "a", "size": 8, "alignment": 4096, "live": [[0, 4]]},
                {"name": "b", "size": 8, "alignment": 4096, "live": [[1, 4]]},
                {"name": "c", "size": 8, "alignment": 4096, "live": [[2, 4]]},
                {"name": "d", "size": 8, "alignment": 4096, "live": [[3, 4]]},
            ]),
            "every placement within 12288 bytes is ruled out, though none are missing: 12256 are to \
             spare in all memory at step 3, and no fewer elsewhere",
            serde_json::json!({"step": 3, "region": "all", "bytes_over": null, "bytes_spare": 12256, "buffer": null}),
        ),
    ];
    for (buffers, words, shortage) in cases {
        let folder = tempfile::tempdir().unwrap();
        let problem = serde_json::json!({
            "format": "ipu-tune/placement@1", "free": [[520_192, 532_480]], "buffers": buffers,
        });
        fs::write(folder.path().join("t.json"), problem.to_string()).unwrap();
        let refused = run(folder.path(), &["--json", "--out", "o.json", "t.json"]);
        assert_eq!(code(&refused), 3);
        assert!(stderr(&refused).contains(words), "{}", stderr(&refused));
        let found = &lines(&refused)[0];
        assert_eq!((&found["outcome"], &found["shortage"]), (&"impossible".into(), &shortage));
        assert!(found["addresses"].is_null());
        assert_eq!(names(folder.path()), ["t.json"]);
    }
}

/// What is said of an impossible tile with these free ranges and fields.
fn told(free: &serde_json::Value, fields: &serde_json::Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut problem = fields.clone();
    problem["format"] = "ipu-tune/placement@1".into();
    problem["free"] = free.clone();
    fs::write(folder.path().join("t.json"), problem.to_string()).unwrap();
    let refused = run(folder.path(), &["t.json"]);
    assert_eq!(code(&refused), 3, "{}", stderr(&refused));
    stderr(&refused)
}

#[test]
fn a_repeat_that_is_too_long_and_elements_that_are_short_are_named() {
    let buffer =
        |name: &str, size: u32| serde_json::json!({"name": name, "size": size, "live": [[0, 2]]});
    let same = ["a", "b", "c"].map(|name| buffer(name, 128)).to_vec();
    let blocks = serde_json::json!({
        "buffers": same,
        "repeats": [{"blocks": ["a", "b", "c"], "stride": 128}],
    });
    let repeat = told(&serde_json::json!([[360_448, 360_704], [393_216, 393_472]]), &blocks);
    let words =
        "the repeat of `a` takes 384 bytes from the first of its 3 blocks to the last, 128 more";
    assert!(repeat.contains(words), "{repeat}");

    let pair = serde_json::json!({
        "buffers": [buffer("c", 8), buffer("a", 16), buffer("b", 16)], "apart": [["a", "b"]],
    });
    let short = told(&serde_json::json!([[360_448, 376_832]]), &pair);
    let words = "`a` and `b` may share no memory element, and have no places in different ones";
    assert!(short.contains(words) && short.contains("hint: fewer pairs in `apart`"), "{short}");

    // Any two have places in two elements, three have not.
    let three = serde_json::json!({
        "buffers": [buffer("a", 16), buffer("b", 16), buffer("c", 16)],
        "apart": [["a", "b"], ["b", "c"], ["a", "c"]],
    });
    let short = told(&serde_json::json!([[360_448, 393_216]]), &three);
    let words = "ruled out by pairs that may share no memory element: without `apart` there is one";
    assert!(short.contains(words), "{short}");
}

#[test]
fn repeats_lie_at_one_stride_and_the_answer_says_which_wishes_were_granted() {
    let folder = tempfile::tempdir().unwrap();
    let problem = serde_json::json!({
        "format": "ipu-tune/placement@1", "free": [[524_288, 561_152]],
        "buffers": [
            {"name": "w0", "size": 4000, "alignment": 32, "persistent": true},
            {"name": "w1", "size": 4000, "alignment": 32, "persistent": true},
            {"name": "w2", "size": 4000, "alignment": 32, "persistent": true},
            {"name": "x", "size": 16_000, "live": [[0, 4]], "preferred": [[540_000, 561_152]]},
            {"name": "y", "size": 8000, "live": [[2, 6]], "preferred": [[545_000, 561_152]]},
        ],
        "repeats": [{"blocks": ["w2", "w0", "w1"], "stride": 4064}],
    });
    fs::write(folder.path().join("t.json"), problem.to_string()).unwrap();
    let placed = run(folder.path(), &["--json", "--out", "o.json", "t.json"]);
    assert_eq!(code(&placed), 0, "{}", stderr(&placed));
    let found = &lines(&placed)[0];
    assert_eq!(found["checked"], true);
    assert_eq!(found["granted"], serde_json::json!({"x": true, "y": false}));
    let at = |name: &str| found["addresses"][name].as_u64().unwrap();
    assert_eq!((at("w0"), at("w1")), (at("w2") + 4064, at("w2") + 8128));
    let written = fs::read_to_string(folder.path().join("o.json")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["buffers"][3]["granted"], true);
    assert_eq!(written["buffers"][4]["granted"], false);
    assert!(written["buffers"][0]["granted"].is_null());
    // What was written can be read again.
    assert_eq!(code(&run(folder.path(), &["o.json"])), 0);
}

#[test]
fn bad_tiles_name_the_buffer_and_the_fix() {
    // What is changed in a good file, and what is said of it.
    let cases = [
        ("/buffers/2/size", "-4", "`buffers[2].size` of buffer `in`: invalid value: integer `-4`"),
        ("/buffers/2/size", "4294967296", "`buffers[2].size` of buffer `in`: invalid value"),
        ("/buffers/2/size", "4294967295", "buffer `in`: 4294967295 bytes and a tail of 64"),
        ("/buffers/2/size", "0", "buffer `in`: 0 bytes"),
        (
            "/buffers/2/size",
            "700000",
            "buffer `in`: 700064 bytes with its tail, expected 1 to 638976",
        ),
        ("/buffers/2/alignment", "24", "buffer `in`: alignment 24, expected a power of two"),
        ("/buffers/2/alignment", "0", "buffer `in`: alignment 0"),
        ("/buffers/2/live", "[[5, 3]]", "buffer `in`: it lives from step 5 to step 3"),
        ("/buffers/2/live", "[[0, 3], [2, 4]]", "buffer `in`: it needs lifetimes, which ascend"),
        ("/buffers/2/live", "[]", "buffer `in`: it needs lifetimes"),
        (
            "/buffers/2/region",
            "\"fast\"",
            "`buffers[2].region` of buffer `in`: unknown variant `fast`",
        ),
        ("/buffers/1/live", "[[0, 3]]", "buffer `weights`: it is persistent and has lifetimes too"),
        (
            "/buffers/0/region",
            "\"interleaved\"",
            "buffer `code`: it is executable and for interleaved",
        ),
        ("/buffers/1/forbidden", "[[0, 64]]", "buffer `weights`: forbidden range 0 to 64"),
        ("/buffers/1/name", "\"in\"", "`buffers[2]`: buffer `in` is there twice"),
        (
            "/buffers/1/colour",
            "1",
            "`buffers[1].colour` of buffer `weights`: unknown field `colour`",
        ),
        ("/free", "[[0, 64]]", "`free`: range 0 to 64 is empty, leaves tile memory"),
        ("/free", "[[520192, 520128]]", "`free`: range 520192 to 520128"),
        ("/apart/0/1", "\"nobody\"", "`apart[0]`: no buffer is called `nobody`"),
        ("/aliases/0/0", "\"nobody\"", "`aliases[0]`: no buffer is called `nobody`"),
        ("/aliases/0/0", "\"out\"", "`aliases[0]`: buffer `out` twice"),
        (
            "/apart/0",
            "[\"view\", \"out\"]",
            "buffers `view` and `out` have one address and must lie",
        ),
        ("/aliases/0/0", "\"code\"", "buffers `code` and `out` have one address, but one is for"),
        ("/buffers/1/preferred", "[[9, 9]]", "buffer `weights`: preferred range 9 to 9 is empty"),
        ("/repeats", r#"[{"blocks": ["in"]}]"#, "`repeats[0]`: 1 blocks, expected at least 2"),
        ("/repeats", r#"[{"blocks": ["in", "it"]}]"#, "`repeats[0]`: no buffer is called `it`"),
        (
            "/repeats",
            r#"[{"blocks": ["in", "between"], "stride": 4000}]"#,
            "`repeats[0]`: stride 4000, expected a multiple of 16 and at least 4064",
        ),
        (
            "/repeats",
            r#"[{"blocks": ["in", "between"], "stride": -8}]"#,
            "`repeats[0].stride`: invalid value",
        ),
        (
            "/repeats",
            r#"[{"blocks": ["in", "code"]}]"#,
            "`repeats[0]`: blocks of 4064 and 3000 bytes",
        ),
        (
            "/repeats",
            r#"[{"blocks": ["in", "between"]}, {"blocks": ["between", "in"]}]"#,
            "`repeats[1]`: buffer `between` is a block twice",
        ),
        ("/format", "\"ipu-tune/placement@9\"", "format `ipu-tune/placement@9`, expected"),
    ];
    for (place, value, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        let mut bad = tile();
        let (parent, field) = place.rsplit_once('/').unwrap();
        let value: serde_json::Value = serde_json::from_str(value).unwrap();
        match bad.pointer_mut(parent).unwrap() {
            serde_json::Value::Array(list) => list[field.parse::<usize>().unwrap()] = value,
            object => object[field] = value,
        }
        fs::write(folder.path().join("bad.json"), bad.to_string()).unwrap();
        fs::write(folder.path().join("good.json"), tile().to_string()).unwrap();
        for files in [&["good.json", "bad.json"][..], &["--out", "o.json", "bad.json"]] {
            let refused = run(folder.path(), files);
            let told = stderr(&refused);
            assert_eq!(code(&refused), 2, "{place}: {told}");
            assert!(told.contains("`bad.json`: ") && told.contains(words), "{place}: {told}");
            assert!(told.contains("hint: ") && told.matches("error: ").count() == 1, "{told}");
            assert!(refused.stdout.is_empty());
        }
        assert_eq!(names(folder.path()), ["bad.json", "good.json"]);
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("t.json"), tile().to_string()).unwrap();
    let refused = run(folder.path(), &["--capacity", "9", "t.json"]);
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains("`t.json`: `--capacity` with a JSON file"));
    fs::write(folder.path().join("cut.json"), &tile().to_string()[..90]).unwrap();
    let refused = run(folder.path(), &["cut.json"]);
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains("`cut.json`: bad value"), "{}", stderr(&refused));
}

const ONE: &str = "id,lower,upper,size\na,0,3,4\n";

#[test]
fn what_is_written_takes_the_place_of_nothing_that_was_read_or_is_written() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("inner")).unwrap();
    fs::write(folder.path().join("x.64.csv"), ONE).unwrap();
    fs::write(folder.path().join("t.json"), tile().to_string()).unwrap();
    let both = "`--svg o.x` would overwrite the file of `--out`";
    let cases = [
        (&["--out", "o.x", "--svg", "o.x", "x.64.csv"][..], both),
        (&["--out", "inner/../o.x", "--svg", "o.x", "x.64.csv"], both),
        (&["--out", "x.64.csv", "x.64.csv"], "`--out x.64.csv` would overwrite the input"),
        (&["--out", "./t.json", "t.json"], "`--out ./t.json` would overwrite the input"),
        (&["--svg", "t.json", "inner/../t.json"], "`--svg t.json` would overwrite the input"),
    ];
    for (arguments, words) in cases {
        let refused = run(folder.path(), arguments);
        let told = stderr(&refused);
        assert_eq!(code(&refused), 2, "{arguments:?}: {told}");
        assert!(told.contains(words) && told.contains("hint: choose another place"), "{told}");
        assert_eq!(told.matches("error: ").count(), 1, "{told}");
        assert!(refused.stdout.is_empty());
        assert_eq!(names(folder.path()), ["inner", "t.json", "x.64.csv"]);
        assert_eq!(fs::read_to_string(folder.path().join("x.64.csv")).unwrap(), ONE);
        assert_eq!(fs::read_to_string(folder.path().join("t.json")).unwrap(), tile().to_string());
    }
}

#[test]
fn hints_offer_what_the_format_has() {
    let folder = tempfile::tempdir().unwrap();
    let buffer = |name: &str| serde_json::json!({"name": name, "size": 3000, "live": [[0, 2]]});
    let free = serde_json::json!([[520_192, 524_288]]);
    let shortage = told(&free, &serde_json::json!({"buffers": [buffer("a"), buffer("b")]}));
    assert!(shortage.contains("hint: fewer or smaller buffers, or more memory in `free`"));
    assert!(!shortage.contains("--capacity"), "{shortage}");

    fs::write(folder.path().join("x.3.csv"), ONE).unwrap();
    let shortage = stderr(&run(folder.path(), &["x.3.csv"]));
    assert!(shortage.contains("hint: fewer or smaller buffers, or a larger `--capacity`"));
    assert!(!shortage.contains("free`"), "{shortage}");
}

#[test]
fn files_that_cannot_be_read_or_written_come_with_a_fix() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder.csv")).unwrap();
    fs::write(folder.path().join("latin.csv"), b"id,lower,upper,size\n\xe9,0,3,4\n").unwrap();
    fs::write(folder.path().join("x.64.csv"), ONE).unwrap();
    let cases = [
        (&["none.csv"][..], "cannot read `none.csv`", "hint: the path of a file that exists"),
        (&["folder.csv"], "cannot read `folder.csv`", "hint: the path of a file, not of a folder"),
        (&["latin.csv"], "cannot read `latin.csv`", "hint: a text file in UTF-8"),
        (
            &["--out", "no/o.csv", "x.64.csv"],
            "cannot write `no/o.csv`",
            "hint: the folder `no` has to exist, to be writable, and to have room",
        ),
        (
            &["--svg", "folder.csv", "x.64.csv"],
            "cannot write `folder.csv`",
            "hint: the path of a file, not of a folder",
        ),
    ];
    for (arguments, words, hint) in cases {
        let refused = run(folder.path(), arguments);
        let told = stderr(&refused);
        assert_eq!(code(&refused), 2, "{told}");
        assert!(told.contains(words) && told.contains(hint), "{told}");
        assert!(!told.contains(".tmp"), "{told}");
        assert_eq!(names(folder.path()), ["folder.csv", "latin.csv", "x.64.csv"]);
    }
}

#[test]
fn endings_in_capitals_and_byte_order_marks_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("upper.JSON"), tile().to_string()).unwrap();
    fs::write(folder.path().join("marked.json"), format!("\u{feff}{}", tile())).unwrap();
    fs::write(folder.path().join("upper.64.CSV"), ONE).unwrap();
    fs::write(folder.path().join("marked.64.csv"), format!("\u{feff}{ONE}")).unwrap();
    let files = ["upper.JSON", "marked.json", "upper.64.CSV", "marked.64.csv"];
    for file in files {
        let placed = run(folder.path(), &["--json", "--out", "o", file]);
        assert_eq!(code(&placed), 0, "{file}: {}", stderr(&placed));
        let found = &lines(&placed)[0];
        assert_eq!(found["addresses"].is_object(), file.to_lowercase().ends_with("json"));
        let written = fs::read_to_string(folder.path().join("o")).unwrap();
        assert!(written.starts_with(['{', 'i']), "{written}");
    }
}

#[test]
fn a_capacity_that_is_too_large_is_named_with_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    for (name, found) in [
        ("x.4294967296.csv", "4294967296"),
        ("x.99999999999999999999999.csv", "99999999999999999999999"),
    ] {
        fs::write(folder.path().join(name), ONE).unwrap();
        let refused = run(folder.path(), &[name]);
        let words =
            format!("`{name}`: a capacity of {found} bytes is too large, 4294967295 is the most");
        let told = stderr(&refused);
        assert_eq!(code(&refused), 2);
        assert!(told.contains(&words) && told.contains("hint: `--capacity N`"), "{told}");
        // What is given counts.
        assert_eq!(code(&run(folder.path(), &["--capacity", "64", name])), 0);
        let refused = run(folder.path(), &["--capacity", found, name]);
        assert_eq!(code(&refused), 2);
        assert!(stderr(&refused).contains("4294967295"), "{}", stderr(&refused));
    }
    fs::write(folder.path().join("y.4294967295.csv"), ONE).unwrap();
    assert_eq!(code(&run(folder.path(), &["y.4294967295.csv"])), 0);
}

#[test]
fn a_file_of_another_form_is_told_what_it_must_be() {
    let file = "an object with `format`, `free` and `buffers`";
    let buffers = |value: &str| {
        format!(r#"{{"format": "ipu-tune/placement@1", "free": [], "buffers": {value}}}"#)
    };
    let cases = [
        ("[]".to_owned(), file),
        ("7".to_owned(), file),
        ("null".to_owned(), file),
        (r#"["ipu-tune/placement@1"]"#.to_owned(), file),
        (r#"["ipu-tune/placement@1", [], []]"#.to_owned(), file),
        (buffers("[5]"), "at `buffers[0]`: invalid type: integer `5`, expected an object with"),
        (buffers(r#"[["a", 4]]"#), "an object with `name` and `size`"),
        (buffers(r#"[], "repeats": [[["a", "b"]]]"#), "an object with `blocks`"),
    ];
    for (text, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("t.json"), &text).unwrap();
        let refused = run(folder.path(), &["t.json"]);
        let told = stderr(&refused);
        assert_eq!(code(&refused), 2, "{text}: {told}");
        assert!(told.contains("`t.json`: bad value") && told.contains(words), "{text}: {told}");
        assert!(!told.contains("struct") && !told.contains("`.`"), "{text}: {told}");
        assert!(told.contains("hint: "), "{told}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the time that placing takes is what is tested")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[test]
fn many_buffers_and_many_lifetimes_take_little_time() {
    let folder = tempfile::tempdir().unwrap();
    let row = |step: u32| format!("b{step},{step},{},100\n", step + 2);
    let rows: String = (0..50_000).map(row).collect();
    let many = format!("id,lower,upper,size\n{rows}");
    fs::write(folder.path().join("many.200.csv"), many).unwrap();
    let live = |first: u32| (0..20_000).map(|at| [first + 2 * at, first + 2 * at + 1]).collect();
    let buffer = |name: &str, first| {
        let live: Vec<[u32; 2]> = live(first);
        serde_json::json!({"name": name, "size": 3000, "live": live})
    };
    let problem = serde_json::json!({
        "format": "ipu-tune/placement@1", "free": [[520_192, 524_288]],
        "buffers": [buffer("even", 0), buffer("odd", 1)],
    });
    fs::write(folder.path().join("often.json"), problem.to_string()).unwrap();
    let started = now();
    let placed = run(folder.path(), &["--json", "many.200.csv", "often.json"]);
    assert_eq!(code(&placed), 0, "{}", stderr(&placed));
    assert_eq!(lines(&placed)[0]["height"], 200);
    assert_eq!(lines(&placed)[1]["height"], 3000);
    // Each takes a fraction of a second; with a look at every pair it would be many.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
