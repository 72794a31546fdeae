//! What a call may cost, what it costs now, and what to do about a difference.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;

use super::Fault;
use super::count;
use super::paths::Path;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guard/counts.txt");

/// More than this is a failure, in percent.
const GROWTH: u64 = 5;

const HEAD: &str = "\
# Instructions of one call by each path, as valgrind counts them; see benches/guard/main.rs.
# Another compiler, machine or C library has other numbers. `make guard-renew` writes this file.
";

/// Counts and compares; `false` if a path has become more expensive.
pub(crate) fn check() -> Result<bool, Fault> {
    if !count::is_possible()? {
        println!("valgrind is not installed: the instructions of the message path are not counted");
        return Ok(true);
    }
    let kept = read(&std::fs::read_to_string(FILE)?);
    let built_by = built_by()?;
    let is_comparable = kept.get("by").is_some_and(|kept| *kept == built_by);
    let mut is_well = true;
    for path in Path::ALL {
        let now = count::per_call(path)?;
        let before: u64 = kept.get(path.name()).and_then(|n| n.parse().ok()).unwrap_or_default();
        let grows = now * 100 > before * (100 + GROWTH);
        is_well &= !grows;
        let verdict = if grows { "MORE THAN ALLOWED" } else { "" };
        println!("{:18} {before:>8} before {now:>8} now  {verdict}", path.name());
    }
    if !is_comparable {
        let kept = kept.get("by").map_or("nobody", String::as_str);
        println!(
            "The numbers are of {kept}, this is {built_by}: they cannot be compared, and nothing \
             fails. Renew them on the commit before your change, look at the difference that your \
             change makes, and commit both numbers."
        );
        return Ok(true);
    }
    if !is_well {
        println!(
            "A call costs over {GROWTH} % more instructions than it may. If that is the price of \
             something worth it: `make guard-renew`, and say so in the change."
        );
    }
    Ok(is_well)
}

/// Writes down what a call costs now.
pub(crate) fn renew() -> Result<bool, Fault> {
    if !count::is_possible()? {
        return Err("valgrind is not installed".into());
    }
    let mut text = format!("{HEAD}by = {}\n", built_by()?);
    for path in Path::ALL {
        writeln!(text, "{} = {}", path.name(), count::per_call(path)?)?;
    }
    std::fs::write(FILE, &text)?;
    print!("{text}");
    Ok(true)
}

fn read(text: &str) -> BTreeMap<String, String> {
    let entries = text.lines().filter_map(|line| line.split_once(" = "));
    entries.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Compiler and machine: what instructions depend on, beside the code.
fn built_by() -> Result<String, Fault> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").output()?;
    let version = String::from_utf8(said.stdout)?;
    let version = version.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    Ok(format!("{version} {}-{}", std::env::consts::ARCH, std::env::consts::OS))
}
