//! Has the linker make the program smaller than it would by itself, as far as it can.
//!
//! Linkers differ, and so do systems, and a build must not fail for a smaller binary: so an empty
//! program is linked first, and run.

#![allow(clippy::print_stdout, reason = "that is how cargo is spoken to")]

use std::env::var;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Set it for a binary that is to run on older systems than the one that builds it.
const PORTABLE: &str = "MCP_SPAN_PORTABLE";

/// Addresses to be filled in at the start, each as a bit: 0.2 MB less of file and of memory. The
/// loader must know how, which glibc does since 2.36.
const PACKED: &str = "-Wl,-z,pack-relative-relocs";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=sections.ld");
    println!("cargo::rerun-if-env-changed={PORTABLE}");
    // Without `panic = "abort"`, which is the release's, the tables are needed.
    let is_release = of("PROFILE") == "release" && var("CARGO_FEATURE_CLI").is_ok();
    if !is_release || of("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    let is_for_here = of("HOST") == of("TARGET");
    // GNU ld and lld can, gold and mold cannot.
    let sections = format!("-T{}/sections.ld", of("CARGO_MANIFEST_DIR"));
    let mut wanted = vec![sections];
    if is_for_here && var(PORTABLE).is_err() {
        wanted.push(PACKED.to_owned());
    }
    // Each beside those before it, as they will be linked.
    let mut taken = Vec::new();
    for argument in wanted {
        taken.push(argument);
        if !can_link(&taken, is_for_here).unwrap_or(false) {
            taken.pop();
        }
    }
    for argument in taken {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}

/// A variable that cargo sets.
fn of(name: &str) -> String {
    var(name).unwrap_or_default()
}

/// Whether a program can be linked with these arguments, and runs if it is for this system.
fn can_link(arguments: &[String], is_for_here: bool) -> io::Result<bool> {
    let folder = of("OUT_DIR");
    let (source, program) = (Path::new(&folder).join("empty.rs"), Path::new(&folder).join("empty"));
    std::fs::write(&source, "fn main() {}")?;
    let mut rustc = Command::new(of("RUSTC"));
    rustc.arg(&source).arg("-o").arg(&program).args(["--target", &of("TARGET"), "-Cpanic=abort"]);
    rustc.args(arguments.iter().map(|argument| format!("-Clink-arg={argument}")));
    if let Ok(linker) = var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    let flags = of("CARGO_ENCODED_RUSTFLAGS");
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    let is_linked = rustc.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success();
    // What an older system lacks, its loader says on stderr.
    let runs = || Command::new(program).stderr(Stdio::null()).status();
    Ok(is_linked && (!is_for_here || runs()?.success()))
}
