//! What is no text goes to files: named by what it is, never over one that is there.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::cli::report::Usage;
use crate::limits;

/// A folder, and what files in it are called.
#[derive(Debug)]
pub(in crate::cli) struct Files {
    folder: PathBuf,
    stem: String,
}

impl Files {
    /// Below `folder`, with names that begin like `name`.
    pub(in crate::cli) fn new(folder: Option<&Path>, name: &str) -> Self {
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
    pub(in crate::cli) fn save(&self, media: &str, bytes: &[u8]) -> io::Result<PathBuf> {
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
pub(in crate::cli) fn prepare(folder: &Path) -> Result<(), Usage> {
    let probe = folder.join(format!(".mcp-span-{}", std::process::id()));
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| OpenOptions::new().write(true).create_new(true).open(&probe));
    let _ = std::fs::remove_file(&probe);
    let wrong =
        |error| format!("--out {}: nothing can be written there: {error}", folder.display());
    written.map(drop).map_err(|error| Usage::new(wrong(error)))
}

/// The bytes that a server has packed into text; blanks and missing padding do no harm.
pub(in crate::cli) fn unpacked(base64: &str) -> Option<Vec<u8>> {
    let lenient =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let text: String = base64.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    GeneralPurpose::new(&STANDARD, lenient).decode(text).ok()
}

/// A size for people.
pub(in crate::cli) fn size(bytes: u64) -> String {
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

/// How files of a media type are called.
fn extension(media: &str) -> String {
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (kind, sub) = media.split_once('/').unwrap_or_default();
    let known = match &*media {
        "image/jpeg" | "image/jpg" => "jpg",
        "image/svg+xml" => "svg",
        "image/x-icon" | "image/vnd.microsoft.icon" => "ico",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "wav",
        "audio/mp4" | "audio/x-m4a" => "m4a",
        "text/plain" => "txt",
        "text/markdown" => "md",
        "application/gzip" | "application/x-gzip" => "gz",
        "application/x-tar" => "tar",
        "application/octet-stream" => "bin",
        _ if matches!(kind, "image" | "audio" | "video" | "text" | "application") => sub,
        _ => "bin",
    };
    let is_plain = known.len() <= 8 && known.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain && !known.is_empty() { known.to_owned() } else { "bin".to_owned() }
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
            ("application/vnd.oasis.opendocument.text", "bin"),
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
    fn base64_is_read_as_servers_write_it() {
        assert_eq!(unpacked("aGk=").unwrap(), b"hi");
        assert_eq!(unpacked("aG\nk").unwrap(), b"hi");
        assert_eq!(unpacked("a*"), None);
    }
}
