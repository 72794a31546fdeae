//! The command line of the benchmark, and what it leaves behind.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use crate::commands::{self, Stage};
use crate::exchange::Fault;
use crate::figures::markdown::{self, Setting};
use crate::figures::who::Who;
use crate::figures::{document, picture, table};
use crate::install::{Folder, versions};
use crate::measure::{self, Amounts, Measured};
use crate::server::Server;
use crate::{floor, machine};

const USAGE: &str =
    "usage: cargo bench --bench bridges -- [self | all] [--quick] [--strict] [--docs]
         [--only STEP]

  self      mcp-span beside the floor, under two minutes (the default)
  all       also beside the bridges of others, which are installed into target/bench
  --quick   few rounds, to see that everything works
  --strict  exit with 1 if a limit is missed
  --only    just the steps whose names have this in them, such as calls
  --docs    put table and picture into docs/performance.md and docs/bench.svg";

const PAGE: &str = "docs/performance.md";
const PICTURE: &str = "bench.svg";

/// What was asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted<'a> {
    only: &'a str,
    all: bool,
    quick: bool,
    strict: bool,
    docs: bool,
}

/// Does what the arguments say.
pub(crate) fn run(arguments: &[&str]) -> Result<ExitCode, Fault> {
    match arguments {
        ["floor", url] => floor::streamable(url)?,
        ["floor-old", url] => floor::old(url)?,
        ["floor-secure", url, root] => floor::secure(url, root)?,
        ["server"] => Server::stay(&Folder::open()?.path(""))?,
        _ => return bench(wanted(arguments)?),
    }
    Ok(ExitCode::SUCCESS)
}

fn wanted<'a>(arguments: &[&'a str]) -> Result<Wanted<'a>, Fault> {
    let mut wanted = Wanted::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "--only" => wanted.only = arguments.next().ok_or(USAGE)?,
            "self" => wanted.all = false,
            "all" => wanted.all = true,
            "--quick" => wanted.quick = true,
            "--strict" => wanted.strict = true,
            "--docs" => wanted.docs = true,
            _ => return Err(USAGE.into()),
        }
    }
    if wanted.docs && !wanted.only.is_empty() {
        return Err("--docs wants the whole table, and --only has a part of it".into());
    }
    Ok(wanted)
}

fn bench(wanted: Wanted<'_>) -> Result<ExitCode, Fault> {
    machine::allow_many_connections();
    let (folder, span) = (Folder::open()?, commands::span()?);
    let absent = if wanted.all { folder.install() } else { Vec::new() };
    let began = Instant::now();
    let (server, floor) = (Server::start(&folder.path(""))?, commands::floor(&folder)?);
    let stage = Stage { server, folder, span, floor, absent };
    let mut all = Who::OURS.to_vec();
    if wanted.all {
        all.extend(Who::PEERS);
    }
    let machine = machine();
    let mut measured = measure::everything(&stage, &all, amounts(wanted), wanted.only);
    name_absent(&stage, &mut measured);
    tell(&measured, &machine);
    println!("\n{:.0} s", began.elapsed().as_secs_f64());
    if wanted.docs {
        write_down(&measured, machine, amounts(wanted))?;
    }
    let is_missed = !table::all_hold(&measured.results, &measured.growths);
    Ok(if wanted.strict && is_missed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn amounts(wanted: Wanted<'_>) -> &'static Amounts {
    match wanted {
        Wanted { quick: true, .. } => &measure::QUICK,
        Wanted { all: true, .. } => &measure::ALL,
        _ => &measure::SELF,
    }
}

/// Whoever could not be installed is told of once, not for each row.
fn name_absent(stage: &Stage, measured: &mut Measured) {
    for (who, failure) in &stage.absent {
        measured.results.failures.retain(|named| named.who != *who);
        measured.results.note("installation", *who, failure.clone());
    }
}

/// What it is measured on, before it is.
fn machine() -> String {
    let busy = machine::other_work().map(|load| format!(", busy with other work (load {load:.1})"));
    machine::description() + &busy.unwrap_or_default()
}

fn tell(measured: &Measured, machine: &str) {
    let Measured { results, growths } = measured;
    println!("{}, {machine}", machine::today());
    println!("\n{}\n{}", table::table(results), table::limits(results, growths));
    print!("{}", table::failures(results));
    println!("{} failures", results.failures.len());
}

/// Puts the table into its page, and the picture beside it.
fn write_down(measured: &Measured, machine: String, amounts: &Amounts) -> Result<(), Fault> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let day = machine::today();
    let caption = format!("{day}, {machine}. Shorter is better, but for calls a second.");
    std::fs::write(root.join("docs").join(PICTURE), picture::picture(&measured.results, &caption))?;
    let setting = Setting { day, machine, rounds: amounts.rounds(), versions: versions() };
    let section = markdown::section(&measured.results, &setting, PICTURE);
    let path = root.join(PAGE);
    let page = document::replaced(&std::fs::read_to_string(&path)?, &section)?;
    std::fs::write(path, page)?;
    println!("{PAGE} and docs/{PICTURE} were written");
    Ok(())
}
