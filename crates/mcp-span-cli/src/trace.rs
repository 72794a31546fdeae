//! `mcp-span trace`: a trace file, told to a person.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use unicode_width::UnicodeWidthStr;

use super::Failure;
use super::commands::Trace;
use super::output::Page;
use super::report::Usage;
use super::timeline::{Filter, Shown, Timeline};
use super::trace_file::older;
use mcp_span::untrusted::Untrusted;

/// No line of a trace is longer: its messages are cut long before.
const LONGEST_LINE: u64 = 4 * 1024 * 1024;

/// After so many lines without a single one of a trace, it is none.
const PATIENCE: usize = 1000;

/// Prints the timeline and its summary.
pub(super) fn run(typed: &Trace) -> Result<ExitCode, Failure> {
    let filter = Filter { id: typed.id.clone(), method: typed.method.clone() };
    let mut out = BufWriter::new(io::stdout().lock());
    let page = Page::of_stdout();
    match show(&typed.file, Timeline::new(filter), &page, &mut out)? {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Whoever closes the pipe has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error.into()),
    }
}

/// The outer error is about the file, the inner one about the output.
fn show(
    path: &Path,
    mut timeline: Timeline,
    page: &Page,
    out: &mut impl Write,
) -> Result<io::Result<()>, Usage> {
    let older = older(path);
    let has_older = older.is_file();
    let mut files = Vec::new();
    if has_older {
        files.push(open(&older)?);
    }
    if !has_older || path.exists() {
        files.push(open(path)?);
    }
    for mut file in files {
        let mut line = Vec::new();
        while read_line(&mut file, &mut line, path)? {
            let told = timeline.line(&String::from_utf8_lossy(&line));
            if timeline.is_nonsense(PATIENCE) {
                return Err(no_trace(path));
            }
            for Shown { head, what } in told {
                let text = laid_out(page, &head, head.width(), &what);
                if let Err(error) = out.write_all(text.as_bytes()) {
                    return Ok(Err(error));
                }
            }
        }
    }
    if timeline.is_nonsense(0) {
        return Err(no_trace(path));
    }
    if let Some(asked) = timeline.asked_in_vain() {
        let path = path.display();
        return Err(Usage::new(format!("{path} has no line about {asked}")));
    }
    let summary = timeline.summary();
    let lines = summary.lines().map(|line| {
        let what = line.trim_start();
        let head = &line[..line.len() - what.len()];
        laid_out(page, head, head.len() + 2, what)
    });
    let summary: String = lines.collect();
    Ok(out.write_all(summary.as_bytes()).and_then(|()| out.flush()))
}

/// A line as it is; on a terminal, in as many as it takes, indented.
fn laid_out(page: &Page, head: &str, indent: usize, what: &str) -> String {
    let (head, what) = (Untrusted(head).line(), Untrusted(what).line());
    match page.is_terminal {
        true => page.hanging(&head, indent, &what),
        false => format!("{head}{what}\n"),
    }
}

fn open(path: &Path) -> Result<BufReader<File>, Usage> {
    File::open(path).map(BufReader::new).map_err(|error| unreadable(path, &error))
}

fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>, path: &Path) -> Result<bool, Usage> {
    line.clear();
    let read = file.take(LONGEST_LINE).read_until(b'\n', line);
    read.map(|read| read > 0).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> Usage {
    Usage::new(format!("the trace {} cannot be read: {error}", path.display()))
}

fn no_trace(path: &Path) -> Usage {
    let path = path.display();
    Usage::new(format!("{path} is not a trace: give a file that --trace-file has written"))
}
