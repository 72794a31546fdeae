//! The file of a trace: the owner's alone, and of bounded size, with the older half beside it.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::report::Usage;
use mcp_span::private_file;

/// How every line begins; a file that does not is somebody else's.
pub(crate) const LINE_START: &str = "{\"timestamp\":\"";

/// How much is gathered before it is written.
const GATHERED: usize = 64 * 1024;

/// Written to by one process at a time.
#[derive(Debug)]
pub(crate) struct TraceFile {
    path: PathBuf,
    file: BufWriter<File>,
    size: usize,
    /// What one of the two files may hold.
    half: usize,
}

/// Where the older half of the trace at `path` is.
pub(crate) fn older(path: &Path) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(".1");
    name.into()
}

impl TraceFile {
    /// Opens the file, to go on with what is in it; `None` if another process writes to it.
    pub(crate) fn open(path: &Path, limit: usize) -> Result<Option<Self>, Usage> {
        Self::continue_at(path, limit).map_err(|error| {
            Usage::new(format!("the trace file {} cannot be written: {error}", path.display()))
        })
    }

    fn continue_at(path: &Path, limit: usize) -> io::Result<Option<Self>> {
        let older = older(path);
        if std::fs::symlink_metadata(&older).is_ok() {
            open_trace(&older)?;
        }
        let file = open_trace(path)?;
        private_file::tighten(&file, path)?;
        // Where there are no locks, there is no knowing.
        if let Err(TryLockError::WouldBlock) = lock(&file) {
            return Ok(None);
        }
        let file = BufWriter::with_capacity(GATHERED, file);
        let mut trace = Self { path: path.to_owned(), file, size: 0, half: limit / 2 };
        trace.end_last_line()?;
        Ok(Some(trace))
    }

    /// The longest line that it takes.
    pub(crate) fn longest_line(&self) -> usize {
        self.half - 1
    }

    /// Adds one line.
    pub(crate) fn write_line(&mut self, line: &str) -> io::Result<()> {
        if self.size + line.len() + 1 > self.half {
            self.begin_anew()?;
        }
        self.size += line.len() + 1;
        self.file.write_all(line.as_bytes())?;
        self.file.write_all(b"\n")
    }

    /// What was gathered goes to disk.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn begin_anew(&mut self) -> io::Result<()> {
        self.flush()?;
        std::fs::rename(&self.path, older(&self.path))?;
        let file = private_file::append(&self.path)?;
        // Whoever was quicker than we are writes to it, too; nothing is lost by that.
        let _ = lock(&file);
        self.file = BufWriter::with_capacity(GATHERED, file);
        self.size = 0;
        Ok(())
    }

    /// A process that was killed may have left half a line.
    fn end_last_line(&mut self) -> io::Result<()> {
        let file = self.file.get_mut();
        self.size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let mut last = [b'\n'];
        if self.size > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        if last == *b"\n" {
            return Ok(());
        }
        self.size += 1;
        self.file.write_all(b"\n")
    }
}

/// Opens a trace, or a file that may become one.
///
/// Neither links nor other people's files are taken, nor a file that is no trace: what was named by
/// mistake must not be written to, nor moved away.
fn open_trace(path: &Path) -> io::Result<File> {
    let refused = |why| Err(io::Error::other(format!("{} {why}", path.display())));
    if std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return refused("is not a regular file");
    }
    let file = private_file::append(path)?;
    let mut start = Vec::new();
    BufReader::new(&file).take(LINE_START.len() as u64).read_until(b'\n', &mut start)?;
    match start.is_empty() || start == LINE_START.as_bytes() {
        true => Ok(file),
        false => refused("is there already and is not a trace"),
    }
}

/// Clients start the same command twice and more.
#[cfg(unix)]
fn lock(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

/// There, a lock would keep readers out, too.
#[cfg(not(unix))]
fn lock(_: &File) -> Result<(), TryLockError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: usize) -> String {
        format!("{LINE_START}{n:080}\"}}")
    }

    #[test]
    fn the_older_half_is_moved_and_both_stay_within_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let mut trace = TraceFile::open(&path, 1000).unwrap().unwrap();
        for n in 0..100 {
            trace.write_line(&line(n)).unwrap();
        }
        trace.flush().unwrap();
        let (old, new) = (std::fs::read(older(&path)).unwrap(), std::fs::read(&path).unwrap());
        assert!(old.len() <= 500 && new.len() <= 500 && old.len() > 300, "{old:?} {new:?}");
        let all = String::from_utf8([old, new].concat()).unwrap();
        assert!(all.ends_with(&format!("{}\n", line(99))), "{all}");
    }

    #[test]
    fn a_later_run_goes_on_even_behind_half_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        std::fs::write(&path, format!("{LINE_START}half")).unwrap();
        let mut trace = TraceFile::open(&path, 1000).unwrap().unwrap();
        trace.write_line(&line(1)).unwrap();
        trace.flush().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{LINE_START}half\n{}\n", line(1)));
    }

    #[cfg(unix)]
    #[test]
    fn files_of_others_are_left_alone_and_ours_are_ours_alone() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let refused = |path: &Path| TraceFile::open(path, 1000).unwrap_err().0;
        std::fs::write(at("notes"), "precious\n").unwrap();
        assert!(refused(&at("notes")).contains("not a trace"));
        std::fs::write(at("t.1"), "precious\n").unwrap();
        assert!(refused(&at("t")).contains("not a trace"));
        symlink(at("nowhere"), at("link")).unwrap();
        assert!(refused(&at("link")).contains("not a regular file"));
        assert!(refused(folder.path()).contains("not a regular file"));
        assert!(refused(&at("no/such/folder")).contains("cannot be written"));
        std::fs::write(at("open"), "").unwrap();
        std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o644)).unwrap();
        let _trace = TraceFile::open(&at("open"), 1000).unwrap().unwrap();
        assert_eq!(std::fs::metadata(at("open")).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(TraceFile::open(&at("open"), 1000).unwrap().is_none(), "somebody writes to it");
    }
}
