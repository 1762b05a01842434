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
    let words = "impossible, 400 bytes live at step 0, 3 more than 397";
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
