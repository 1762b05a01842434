//! Which module may use which, and what files may look like.

use std::fs;
use std::path::{Path, PathBuf};

/// Module, and what it may use. A missing edge is a decision, not an oversight.
const USES: &[(&str, &str)] = &[
    ("target", ""),
    ("model", "target json"),
    ("kernels", "target model"),
    ("plan", "target model kernels"),
    ("program", "target model kernels plan"),
    ("cost", "target model kernels plan program"), // sees results, never schedulers
    ("space", "target json model kernels plan program cost"), // shortlists are by price
    ("storage", "target json program"),
    ("exchange", "target json program"),
    ("package", "target model plan program"),
    // Never storage or exchange: it would inherit their errors.
    ("check", "target model kernels plan program space package"),
    ("device", "target kernels package"), // never cost: it would prove nothing
    ("calibrate", "target cost device"),
    (
        "search",
        "target model kernels space plan program storage exchange cost check package device calibrate",
    ),
    ("store", "target plan search device calibrate"),
    ("report", "target plan program cost check package device calibrate search store"),
]; // cli may use everything, and nothing may use cli

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn modules_use_only_what_they_may() {
    for (module, uses) in USES {
        for file in files(&root().join("src").join(module), "rs") {
            if file.components().any(|part| part.as_os_str() == "wire") {
                continue; // generated
            }
            let text = fs::read_to_string(&file).expect("a readable source file");
            for path in text.split("crate::").skip(1) {
                let end = |c: char| !c.is_alphanumeric() && c != '_';
                let used = path.split(end).next().unwrap_or("");
                let allowed = used == *module || uses.split(' ').any(|other| other == used);
                assert!(allowed, "{}: `{module}` may not use `{used}`", file.display());
            }
        }
    }
}

#[test]
fn every_module_is_in_the_table() {
    for entry in fs::read_dir(root().join("src")).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let known = name == "cli" || USES.iter().any(|(module, _)| *module == name);
        assert!(path.is_file() || known, "`{name}` is not in the table");
    }
}

#[test]
fn files_can_be_read_in_one_sitting() {
    for file in files(&root().join("src"), "rs") {
        if file.components().any(|part| part.as_os_str() == "wire") {
            continue; // generated
        }
        let text = fs::read_to_string(&file).expect("a readable source file");
        assert!(text.lines().count() <= 900, "{} is too long", file.display());
        assert!(text.starts_with("//!"), "{} does not say what it is for", file.display());
    }
}
