//! Compares output with files of expected text in `tests/it/snapshots`.
//!
//! After a change that is meant, `MCP_SPAN_SNAPSHOTS=renew cargo test --test it -- snapshots` writes
//! them anew; the difference is for the review. Escape characters stand in the files as `␛`, so that
//! colours can be read.

use std::path::PathBuf;
use std::process::Output;

/// Compares `text` with the file `NAME.txt`. Replace what differs between runs, such as ports, first.
pub(crate) fn assert(name: &str, text: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/snapshots");
    let path = PathBuf::from(folder).join(format!("{name}.txt"));
    let text = text.replace('\u{1b}', "␛");
    if std::env::var_os("MCP_SPAN_SNAPSHOTS").is_some_and(|wanted| wanted == "renew") {
        std::fs::create_dir_all(folder).expect("a folder for the files");
        std::fs::write(&path, text).expect("a file to write to");
        return;
    }
    // Git may have given the file other line ends.
    let expected = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    if text != expected {
        let same = text.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
        panic!(
            "{name}.txt differs from line {} on; if that is meant, run the test with \
             MCP_SPAN_SNAPSHOTS=renew\n--- expected\n{expected}--- shown\n{text}",
            same + 1
        );
    }
}

/// The variables that make output `width` columns wide, with or without colour.
pub(crate) fn page(width: &str, has_colour: bool) -> [(&str, &str); 2] {
    let colour = if has_colour { "CLICOLOR_FORCE" } else { "NO_COLOR" };
    [("COLUMNS", width), (colour, "1")]
}

/// All that a program has said, with its exit code.
pub(crate) fn whole(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let code = output.status.code().expect("an exit code");
    format!("exit code {code}\n--- stdout\n{stdout}--- stderr\n{stderr}")
}
