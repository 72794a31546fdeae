//! What is no text goes to files: named by what it is, never over one that is there.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::report::Usage;
use mcp_span::limits;

/// A folder, and what files in it are called.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    stem: String,
}

impl Files {
    /// Below `folder`, with names that begin like `name`.
    pub(crate) fn new(folder: Option<&Path>, name: &str) -> Self {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let plain = |c: char| if is_plain(c) { c } else { '-' };
        let stem: String = name.chars().take(limits::COLUMN).map(plain).collect();
        let stem = match stem.trim_matches('-') {
            "" => "file".to_owned(),
            stem => stem.to_owned(),
        };
        Self { folder: folder.unwrap_or(Path::new("")).to_owned(), stem }
    }

    /// Writes a file with the next free number, and gives its path.
    pub(crate) fn save(&self, media: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let extension = extension(media);
        for number in 1..limits::FILE_NUMBERS {
            let path = self.folder.join(format!("{}-{number}.{extension}", self.stem));
            // Whoever else writes there at the same time has another number.
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    file.write_all(bytes)?;
                    return Ok(path);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let what = format!("{} cannot be written: {error}", path.display());
                    return Err(io::Error::new(error.kind(), what));
                }
            }
        }
        Err(io::Error::new(ErrorKind::AlreadyExists, "there are too many files of this name"))
    }
}

/// Makes the folder, and finds out whether files can be written there: before a server does work
/// whose result would be lost.
pub(crate) fn prepare(folder: &Path) -> Result<(), Usage> {
    let probe = folder.join(format!(".mcp-span-{}", std::process::id()));
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| OpenOptions::new().write(true).create_new(true).open(&probe));
    let _ = std::fs::remove_file(&probe);
    let wrong =
        |error| format!("--out {}: nothing can be written there: {error}", folder.display());
    written.map(drop).map_err(|error| Usage::new(wrong(error)))
}

/// The bytes that a server has packed into text; blanks and missing padding do no harm.
pub(crate) fn unpacked(base64: &str) -> Option<Vec<u8>> {
    let lenient =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let text: String = base64.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    GeneralPurpose::new(&STANDARD, lenient).decode(text).ok()
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    let scaled = |unit: u64, name: &str| {
        let tenths = bytes.saturating_mul(10) / unit;
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    };
    match bytes {
        1 => "1 byte".to_owned(),
        0..KIB => format!("{bytes} bytes"),
        KIB..0x10_0000 => scaled(KIB, "KiB"),
        _ => scaled(KIB * KIB, "MiB"),
    }
}

/// The endings that files get, by their media type. A server chooses the type, so nothing is in here
/// that a system runs, installs or follows when somebody opens it.
const ENDINGS: [(&str, &str); 58] = [
    ("application/gzip", "gz"),
    ("application/json", "json"),
    ("application/jsonl", "jsonl"),
    ("application/pdf", "pdf"),
    ("application/toml", "toml"),
    ("application/vnd.oasis.opendocument.presentation", "odp"),
    ("application/vnd.oasis.opendocument.spreadsheet", "ods"),
    ("application/vnd.oasis.opendocument.text", "odt"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/x-7z-compressed", "7z"),
    ("application/x-bzip2", "bz2"),
    ("application/x-gzip", "gz"),
    ("application/x-ndjson", "jsonl"),
    ("application/x-tar", "tar"),
    ("application/x-xz", "xz"),
    ("application/xml", "xml"),
    ("application/yaml", "yaml"),
    ("application/zip", "zip"),
    ("application/zstd", "zst"),
    ("audio/aac", "aac"),
    ("audio/flac", "flac"),
    ("audio/mp3", "mp3"),
    ("audio/mp4", "m4a"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/opus", "opus"),
    ("audio/vnd.wave", "wav"),
    ("audio/wav", "wav"),
    ("audio/wave", "wav"),
    ("audio/webm", "weba"),
    ("audio/x-m4a", "m4a"),
    ("audio/x-wav", "wav"),
    ("image/apng", "apng"),
    ("image/avif", "avif"),
    ("image/bmp", "bmp"),
    ("image/gif", "gif"),
    ("image/heic", "heic"),
    ("image/jpeg", "jpg"),
    ("image/jpg", "jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/tiff", "tiff"),
    ("image/vnd.microsoft.icon", "ico"),
    ("image/webp", "webp"),
    ("image/x-icon", "ico"),
    ("text/css", "css"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("text/tab-separated-values", "tsv"),
    ("text/xml", "xml"),
    ("text/yaml", "yaml"),
    ("video/mp4", "mp4"),
    ("video/mpeg", "mpeg"),
    ("video/quicktime", "mov"),
    ("video/webm", "webm"),
];

/// How files of a media type are called.
fn extension(media: &str) -> &'static str {
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let known = ENDINGS.iter().find(|(name, _)| *name == media);
    match known {
        Some((_, ending)) => ending,
        None if media.ends_with("+json") => "json",
        None if media.starts_with("text/") => "txt",
        None => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_is_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(Some(folder.path()), "../get image!");
        let first = files.save("image/png", b"one").unwrap();
        let second = files.save("image/png; x=y", b"two").unwrap();
        assert_eq!(first, folder.path().join("get-image-1.png"));
        assert_eq!(second, folder.path().join("get-image-2.png"));
        assert_eq!(std::fs::read(first).unwrap(), b"one");
        assert_eq!(std::fs::read(second).unwrap(), b"two");
        let nowhere = Files::new(Some(&folder.path().join("none")), "x");
        assert!(nowhere.save("a/b", b"").unwrap_err().to_string().contains("x-1.bin"));
    }

    #[test]
    fn names_follow_the_media_type_and_nothing_else() {
        for (media, expected) in [
            ("image/png", "png"),
            ("IMAGE/JPEG", "jpg"),
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
        assert_eq!(size(1), "1 byte");
        assert_eq!(size(900), "900 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(3 * 1024 * 1024), "3.0 MiB");
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
            assert!(ENDINGS.iter().all(|(_, known)| *known != ending), "{ending}");
            for kind in ["application", "image", "audio", "video", "text", "model", ""] {
                for media in [format!("{kind}/{ending}"), format!("{kind}/x-{ending}")] {
                    let given = extension(&media);
                    assert!(matches!(given, "bin" | "txt"), "{media}: {given}");
                }
            }
        }
        assert!(ENDINGS.is_sorted(), "a list that can be looked through");
    }

    #[test]
    fn base64_is_read_as_servers_write_it() {
        assert_eq!(unpacked("aGk=").unwrap(), b"hi");
        assert_eq!(unpacked("aG\nk").unwrap(), b"hi");
        assert_eq!(unpacked("a*"), None);
    }
}
