//! Has the linker put the program together as `sections.ld` says, if it can.
//!
//! Linkers differ (GNU ld and lld can, gold and mold cannot), and a build must not fail for a
//! smaller binary: so an empty program is linked first.

#![allow(clippy::print_stdout, reason = "that is how cargo is spoken to")]

use std::env::var;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=sections.ld");
    // Without `panic = "abort"`, which is the release's, the tables are needed.
    let is_release = of("PROFILE") == "release" && var("CARGO_FEATURE_CLI").is_ok();
    let argument = format!("-T{}/sections.ld", of("CARGO_MANIFEST_DIR"));
    if is_release && of("CARGO_CFG_TARGET_OS") == "linux" && can_link(&argument).unwrap_or(false) {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}

/// A variable that cargo sets.
fn of(name: &str) -> String {
    var(name).unwrap_or_default()
}

/// Whether a program can be linked with this argument, and runs.
fn can_link(argument: &str) -> io::Result<bool> {
    let folder = of("OUT_DIR");
    let (source, program) = (Path::new(&folder).join("empty.rs"), Path::new(&folder).join("empty"));
    std::fs::write(&source, "fn main() {}")?;
    let mut rustc = Command::new(of("RUSTC"));
    rustc.arg(&source).arg("-o").arg(&program).args(["--target", &of("TARGET"), "-Cpanic=abort"]);
    rustc.arg(format!("-Clink-arg={argument}"));
    if let Ok(linker) = var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    let flags = of("CARGO_ENCODED_RUSTFLAGS");
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    let is_linked = rustc.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success();
    let is_for_here = of("HOST") == of("TARGET");
    Ok(is_linked && (!is_for_here || Command::new(program).status()?.success()))
}
