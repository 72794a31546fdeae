//! Runs a fuzz target on its kept seeds, in the tests of the package that has the target.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Runs `target` on each file of its folder, and names the one that fails.
pub(crate) fn seeds(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        let run = catch_unwind(AssertUnwindSafe(|| target(&data)));
        assert!(run.is_ok(), "{name} fails on {}", path.display());
        count += 1;
    }
    assert!(count > 0, "no seeds in {}", folder.display());
}
