//! `mcp-span trace`: shows a trace file to a person.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::Failure;
use crate::commands::Trace;
use crate::report::Usage;
use print::Printer;
use timeline::{Filter, Timeline};

pub(crate) mod file;
pub(crate) mod layer;
pub(crate) mod line;
pub(crate) mod print;
mod summary;
pub(crate) mod timeline;
mod words;

/// No line of a trace is longer: its messages are cut long before.
const LONGEST_LINE: u64 = 4 * 1024 * 1024;

/// After so many lines without a single one of a trace, it is none.
const PATIENCE: usize = 1000;

/// Prints the events that are wanted and their summary.
pub(super) fn run(typed: &Trace) -> Result<ExitCode, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match print(typed, &mut out) {
        // Whoever closes the pipe has seen enough.
        Err(Failure::Unexpected(error)) if error.kind() == ErrorKind::BrokenPipe => {}
        printed => printed?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print(typed: &Trace, out: &mut impl Write) -> Result<(), Failure> {
    let path = &typed.file;
    let printer = Printer::of_stdout();
    let mut timeline = Timeline::new(Filter { id: typed.id.clone(), method: typed.method.clone() });
    let older = file::older(path);
    let mut files = Vec::new();
    if older.is_file() {
        files.push(open(&older)?);
    }
    if files.is_empty() || path.exists() {
        files.push(open(path)?);
    }
    for mut file in files {
        let mut text = Vec::new();
        while read_line(&mut file, &mut text).map_err(|error| unreadable(path, &error))? {
            let text = String::from_utf8_lossy(&text);
            let Some(line) = timeline.read(&text) else {
                if timeline.is_no_trace(PATIENCE) {
                    return Err(no_trace(path).into());
                }
                continue;
            };
            for event in timeline.events(&line) {
                let text = match typed.json {
                    true => print::json(&line, &event),
                    false => printer.event(&line, &event),
                };
                out.write_all(text.as_bytes())?;
            }
        }
    }
    if timeline.is_no_trace(0) {
        return Err(no_trace(path).into());
    }
    if let Some(filter) = timeline.unmatched_filter() {
        return Err(Usage::new(format!("{} has no line about {filter}", path.display())).into());
    }
    if !typed.json {
        out.write_all(printer.summary(timeline).as_bytes())?;
    }
    Ok(out.flush()?)
}

fn open(path: &Path) -> Result<BufReader<File>, Usage> {
    File::open(path).map(BufReader::new).map_err(|error| unreadable(path, &error))
}

fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    Ok(file.take(LONGEST_LINE).read_until(b'\n', line)? > 0)
}

fn unreadable(path: &Path, error: &io::Error) -> Usage {
    Usage::new(format!("the trace {} cannot be read: {error}", path.display()))
}

fn no_trace(path: &Path) -> Usage {
    let path = path.display();
    Usage::new(format!("{path} is not a trace: give a file that --trace-file has written"))
}
