//! Saves what is not text in the file or folder that `--out` names.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::report::Usage;
use mcp_span::limits;

/// What to do about something that was not saved.
pub(super) const ADVICE: &str = "use --out FILE or DIR to save it";

/// Where files go, and how many have gone there.
#[derive(Debug)]
pub(super) struct Files {
    place: Place,
    saved: usize,
}

#[derive(Debug)]
enum Place {
    /// Nobody has asked for any; what to do about that.
    Nowhere(&'static str),
    /// The path in a folder that names begin with.
    Folder(PathBuf),
    /// The first one goes there, the others beside it.
    File(PathBuf),
}

impl Files {
    /// No files. The advice says what to do about that.
    pub(super) fn nowhere(advice: &'static str) -> Self {
        Self { place: Place::Nowhere(advice), saved: 0 }
    }

    /// What `--out` stands for; in a folder, names begin like `name`. Makes the folder, and finds
    /// out whether files can be written there: before a server does work whose result would be lost.
    pub(super) fn at(path: &Path, name: &str) -> Result<Self, Usage> {
        let is_folder = path.to_string_lossy().ends_with(['/', std::path::MAIN_SEPARATOR]);
        let place = match fs::metadata(path) {
            Ok(known) if known.is_dir() => probe(path).map(|()| in_folder(path, name)),
            _ if is_folder => fs::create_dir_all(path).map(|()| in_folder(path, name)),
            Ok(known) if known.is_file() => {
                OpenOptions::new().write(true).open(path).map(|_| Place::File(path.to_owned()))
            }
            Ok(_) => Err(io::Error::other("it is not a regular file")),
            Err(_) => {
                let folder = path.parent().unwrap_or(Path::new(""));
                probe(folder).map(|()| Place::File(path.to_owned()))
            }
        };
        let wrong = |error| format!("--out {}: cannot write there: {error}", path.display());
        Ok(Self { place: place.map_err(wrong)?, saved: 0 })
    }

    /// Whether a file was named, no folder.
    pub(super) fn is_one(&self) -> bool {
        matches!(self.place, Place::File(_))
    }

    /// Writes a file and gives its path, or what to do to have one.
    pub(super) fn save(
        &mut self,
        media: &str,
        bytes: &[u8],
    ) -> io::Result<Result<PathBuf, &'static str>> {
        self.saved += 1;
        match &self.place {
            Place::Nowhere(advice) => return Ok(Err(advice)),
            Place::Folder(stem) => numbered(stem, 1, media, bytes),
            Place::File(path) if self.saved == 1 => match fs::write(path, bytes) {
                Ok(()) => Ok(path.clone()),
                Err(error) => Err(unwritable(path, &error)),
            },
            Place::File(path) => numbered(&path.with_extension(""), 2, media, bytes),
        }
        .map(Ok)
    }

    /// The file that was asked for, but for which there was nothing.
    pub(super) fn unused(&self) -> Option<&Path> {
        match &self.place {
            Place::File(path) if self.saved == 0 => Some(path),
            _ => None,
        }
    }
}

fn in_folder(folder: &Path, name: &str) -> Place {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let plain = |c: char| if is_plain(c) { c } else { '-' };
    let stem: String = name.chars().take(limits::COLUMN).map(plain).collect();
    let stem = stem.trim_matches('-');
    Place::Folder(folder.join(if stem.is_empty() { "file" } else { stem }))
}

/// Whether files can be made in a folder.
fn probe(folder: &Path) -> io::Result<()> {
    let probe = folder.join(format!(".mcp-span-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).open(&probe);
    let _ = fs::remove_file(&probe);
    made.map(drop)
}

/// Writes a file with the next free number, never over one that is there.
fn numbered(stem: &Path, from: usize, media: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    for number in from..limits::FILE_NUMBERS {
        let mut path = stem.as_os_str().to_owned();
        path.push(format!("-{number}.{}", extension(media)));
        let path = PathBuf::from(path);
        // Whoever else writes there at the same time has another number.
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => return file.write_all(bytes).map(|()| path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unwritable(&path, &error)),
        }
    }
    Err(io::Error::new(ErrorKind::AlreadyExists, "there are too many files of this name"))
}

fn unwritable(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}

/// The bytes that a server has packed into text; blanks and missing padding do no harm.
pub(super) fn unpacked(base64: &str) -> Option<Vec<u8>> {
    let lenient =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let text: String = base64.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    GeneralPurpose::new(&STANDARD, lenient).decode(text).ok()
}

/// The endings that are called like the second part of the media type. A server chooses the type, so
/// nothing is in here that a system runs, installs or follows when somebody opens it.
const ENDINGS: [&str; 33] = [
    "7z", "aac", "apng", "avif", "bmp", "css", "csv", "flac", "gif", "gzip", "heic", "html",
    "jpeg", "json", "jsonl", "m4a", "mp3", "mp4", "mpeg", "ogg", "opus", "pdf", "png", "tar",
    "tiff", "toml", "wav", "webm", "webp", "xml", "xz", "yaml", "zip",
];

/// The endings that are not; an `x-` before the second part is left out.
const OTHER_ENDINGS: [(&str, &str); 19] = [
    ("application/bzip2", "bz2"),
    ("application/ndjson", "jsonl"),
    ("application/vnd.oasis.opendocument.presentation", "odp"),
    ("application/vnd.oasis.opendocument.spreadsheet", "ods"),
    ("application/vnd.oasis.opendocument.text", "odt"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/zstd", "zst"),
    ("audio/mp4", "m4a"),
    ("audio/mpeg", "mp3"),
    ("audio/vnd.wave", "wav"),
    ("audio/wave", "wav"),
    ("audio/webm", "weba"),
    ("image/icon", "ico"),
    ("image/svg+xml", "svg"),
    ("image/vnd.microsoft.icon", "ico"),
    ("text/markdown", "md"),
    ("video/quicktime", "mov"),
];

/// What the name of a file of this media type ends with.
fn extension(media: &str) -> &'static str {
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let media = media.replace("/x-", "/");
    let known = OTHER_ENDINGS.iter().find(|(name, _)| *name == media);
    let (kind, name) = media.split_once('/').unwrap_or_default();
    let is_kind = matches!(kind, "application" | "audio" | "image" | "text" | "video");
    let same = ENDINGS.into_iter().find(|ending| is_kind && *ending == name);
    match known.map(|(_, ending)| *ending).or(same) {
        Some("gzip") => "gz",
        Some("jpeg") => "jpg",
        Some(ending) => ending,
        None if name.ends_with("+json") => "json",
        None if kind == "text" => "txt",
        None => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(files: &mut Files, media: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        files.save(media, bytes).map(Result::unwrap)
    }

    #[test]
    fn a_file_that_is_in_the_folder_is_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::at(folder.path(), "../get image!").unwrap();
        let first = saved(&mut files, "image/png", b"one").unwrap();
        let second = saved(&mut files, "image/png; x=y", b"two").unwrap();
        assert_eq!(first, folder.path().join("get-image-1.png"));
        assert_eq!(second, folder.path().join("get-image-2.png"));
        assert_eq!(fs::read(first).unwrap(), b"one");
        assert_eq!(fs::read(second).unwrap(), b"two");
        let mut gone = Files::at(&folder.path().join("gone/"), "x").unwrap();
        fs::remove_dir(folder.path().join("gone")).unwrap();
        assert!(saved(&mut gone, "a/b", b"").unwrap_err().to_string().contains("x-1.bin"));
    }

    #[test]
    fn a_file_that_was_asked_for_is_replaced_and_others_stand_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.b.png");
        fs::write(&path, "old and longer").unwrap();
        let mut files = Files::at(&path, "x").unwrap();
        assert_eq!(files.unused(), Some(&*path));
        assert_eq!(saved(&mut files, "image/png", b"one").unwrap(), path);
        assert_eq!(files.unused(), None);
        let second = saved(&mut files, "text/csv", b"two").unwrap();
        assert_eq!(second, folder.path().join("a.b-2.csv"));
        assert_eq!(
            (fs::read(path).unwrap(), fs::read(second).unwrap()),
            (b"one".into(), b"two".into())
        );
        let mut nowhere = Files::nowhere("advice");
        assert_eq!(nowhere.save("a/b", b"").unwrap(), Err("advice"));
    }

    #[test]
    fn what_cannot_be_a_file_is_refused_before_anything_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Files::at(&folder.path().join(name), "x");
        assert!(!at("").unwrap().is_one());
        assert!(!at("new/").unwrap().is_one() && folder.path().join("new").is_dir());
        assert!(!at("new").unwrap().is_one());
        assert!(at("out.bin").unwrap().is_one() && !folder.path().join("out.bin").exists());
        assert!(at("none/out.bin").unwrap_err().0.contains("cannot write there"));
        if cfg!(unix) {
            let why = Files::at(Path::new("/dev/null"), "x").unwrap_err().0;
            assert!(why.contains("not a regular file"), "{why}");
        }
    }

    #[test]
    fn names_follow_the_media_type_and_nothing_else() {
        for (media, expected) in [
            ("image/png", "png"),
            ("IMAGE/JPEG", "jpg"),
            ("image/x-icon", "ico"),
            ("audio/x-wav", "wav"),
            ("application/x-gzip", "gz"),
            ("audio/mpeg", "mp3"),
            ("model/png", "bin"),
            ("application/pdf", "pdf"),
            ("image/../../x", "bin"),
            ("application/vnd.oasis.opendocument.text", "odt"),
            ("application/geo+json", "json"),
            ("text/x-python; charset=utf-8", "txt"),
            ("application/octet-stream", "bin"),
            ("", "bin"),
        ] {
            assert_eq!(extension(media), expected, "{media}");
        }
    }

    #[test]
    fn no_media_type_gives_a_file_that_a_system_runs_or_follows() {
        let dangerous = [
            "app", "appimage", "bat", "cmd", "com", "command", "cpl", "deb", "desktop", "dll",
            "dmg", "exe", "hta", "htm", "inf", "jar", "js", "jse", "lnk", "mht", "msi", "pif",
            "pkg", "ps1", "py", "rb", "reg", "rpm", "scf", "scr", "sh", "url", "vbs", "webloc",
            "wsf", "xhtml",
        ];
        for ending in dangerous {
            assert!(!ENDINGS.contains(&ending), "{ending}");
            assert!(OTHER_ENDINGS.iter().all(|(_, known)| *known != ending), "{ending}");
            for kind in ["application", "image", "audio", "video", "text", "model", ""] {
                for media in [format!("{kind}/{ending}"), format!("{kind}/x-{ending}")] {
                    let given = extension(&media);
                    assert!(matches!(given, "bin" | "txt"), "{media}: {given}");
                }
            }
        }
        assert!(ENDINGS.is_sorted() && OTHER_ENDINGS.is_sorted(), "easy to look through");
    }

    #[test]
    fn base64_is_read_as_servers_write_it() {
        assert_eq!(unpacked("aGk=").unwrap(), b"hi");
        assert_eq!(unpacked("aG\nk").unwrap(), b"hi");
        assert_eq!(unpacked("a*"), None);
    }
}
