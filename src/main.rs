//! Arguments to [`ipu_tune`], exit code to the shell; nothing else.
fn main() {}
