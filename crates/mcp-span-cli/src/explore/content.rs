//! Prints what tools, prompts and resources contain; what is not text goes to files.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;
use serde_json::value::RawValue;

use super::files::{Files, unpacked};
use crate::output::{Page, one_line, pretty, size};
use crate::report;
use mcp_span::lenient::lenient;
use mcp_span::message::Members;

/// Shows contents one after the other.
pub(super) struct Contents<'a> {
    page: &'a Page,
    files: Files,
    /// What could not be written; the rest is shown all the same.
    faults: Vec<String>,
}

/// The list that `member` of a result is, each entry as the server wrote it.
pub(super) fn entries(result: &str, member: &str) -> Option<Vec<Box<RawValue>>> {
    serde_json::from_str(Members::of(result)?.get(member)?).ok()
}

impl<'a> Contents<'a> {
    pub(super) fn new(page: &'a Page, files: Files) -> Self {
        Self { page, files, faults: Vec::new() }
    }

    /// Reports what could not be written, after everything else was printed.
    pub(super) fn end(self) -> ExitCode {
        self.faults.iter().for_each(|fault| report::error(fault));
        if let Some(path) = self.files.unused() {
            report::warning(&format!("{} was not written: all is text", path.display()));
        }
        if self.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// One block of a result or a message.
    pub(super) fn block(&mut self, json: &str, out: &mut dyn Write) -> io::Result<()> {
        let block = Members::of(json).unwrap_or_default();
        let text = |name: &str| text(&block, name);
        let sort = text("type").unwrap_or_default();
        match (&*sort, text("text"), text("data"), block.get("resource").and_then(Members::of)) {
            ("text", Some(text), ..) => self.text(&text, out),
            ("image" | "audio", _, Some(data), _) => {
                self.packed(&data, &text("mimeType").unwrap_or_default(), out)
            }
            ("resource", _, _, Some(resource)) => {
                let heading = one_line(&self::text(&resource, "uri").unwrap_or_default());
                writeln!(out, "{}", self.page.faint(&format!("[{heading}]")))?;
                self.resource(block.get("resource").unwrap_or_default(), out)
            }
            ("resource_link", ..) => self.link(&block, out),
            _ => self.json(json, out),
        }
    }

    /// A resource: its text, or the file that its bytes have become.
    pub(super) fn resource(&mut self, json: &str, out: &mut dyn Write) -> io::Result<()> {
        let resource = Members::of(json).unwrap_or_default();
        let text = |name: &str| text(&resource, name);
        match (text("text"), text("blob")) {
            (Some(text), _) => self.text(&text, out),
            (None, Some(blob)) => self.packed(&blob, &text("mimeType").unwrap_or_default(), out),
            (None, None) => self.json(json, out),
        }
    }

    /// Content of an unknown type, as JSON.
    pub(super) fn json(&self, json: &str, out: &mut dyn Write) -> io::Result<()> {
        pretty(json, out)
    }

    /// Text as it is, on lines of its own.
    fn text(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let text = self.page.foreign(text);
        out.write_all(text.as_bytes())?;
        if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") }
    }

    fn packed(&mut self, base64: &str, media: &str, out: &mut dyn Write) -> io::Result<()> {
        match unpacked(base64) {
            Some(bytes) => self.save(&bytes, media, out),
            None => writeln!(out, "({} that is not base64)", in_words(media)),
        }
    }

    /// Bytes as a file, or a word about them.
    pub(super) fn save(
        &mut self,
        bytes: &[u8],
        media: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let about = format!("{}, {}", in_words(media), size(bytes.len() as u64));
        match self.files.save(media, bytes) {
            Ok(Ok(path)) => {
                writeln!(out, "{} {}", path.display(), self.page.faint(&format!("({about})")))
            }
            Ok(Err(advice)) => writeln!(out, "[{about}; {advice}]"),
            Err(error) => {
                self.faults.push(error.to_string());
                writeln!(out, "({about}, that could not be written)")
            }
        }
    }

    fn link(&self, block: &Members<'_>, out: &mut dyn Write) -> io::Result<()> {
        let text = |name: &str| one_line(&text(block, name).unwrap_or_default());
        let about = about(block, Some(text("mimeType")));
        writeln!(out, "→ {}  {}", text("uri"), self.page.faint(&about))
    }
}

fn in_words(media: &str) -> String {
    Some(one_line(media)).filter(|media| !media.is_empty()).unwrap_or_else(|| "data".to_owned())
}

/// What a resource is, in a line: its title or else its name, its description, and more.
pub(super) fn about(resource: &Members<'_>, more: Option<String>) -> String {
    let text = |name: &str| one_line(&text(resource, name).unwrap_or_default());
    let title = Some(text("title")).filter(|title| !title.is_empty());
    let parts = [title.or_else(|| Some(text("name"))), Some(text("description")), more];
    let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" · ")
}

/// What a resource holds, byte for byte; where it has neither text nor bytes, its JSON.
pub(super) fn bytes(resource: &RawValue) -> io::Result<Vec<u8>> {
    let members = Members::of(resource.get()).unwrap_or_default();
    match (text(&members, "text"), text(&members, "blob")) {
        (Some(text), _) => Ok(text.into_bytes()),
        (None, Some(blob)) => {
            unpacked(&blob).ok_or_else(|| io::Error::other("the resource is not base64"))
        }
        (None, None) => Ok(format!("{}\n", resource.get()).into_bytes()),
    }
}

/// A member that is a text, as far as it can be read. Anything else is not looked at: a tree of it
/// would take many times its size.
pub(super) fn text(members: &Members<'_>, name: &str) -> Option<String> {
    match lenient(members.get(name).filter(|json| json.starts_with('"'))?) {
        Value::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_sort_of_content_is_shown() {
        let page = Page { width: 80, has_colour: false, is_terminal: true };
        let folder = tempfile::tempdir().unwrap();
        let mut to_folder = Contents::new(&page, Files::at(folder.path(), "t").unwrap());
        let mut to_nowhere = Contents::new(&page, Files::nowhere("use --out"));
        let shown_by = |contents: &mut Contents<'_>, block: Value| {
            let mut out = Vec::new();
            contents.block(&block.to_string(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let mut shown = |block| shown_by(&mut to_folder, block);
        assert_eq!(shown(json!({"type": "text", "text": "a\u{1b}[2Jb"})), "a[2Jb\n");
        assert_eq!(
            shown(json!({"type": "image", "data": "aGk=", "mimeType": "image/png"})),
            format!("{} (image/png, 2 bytes)\n", folder.path().join("t-1.png").display())
        );
        let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
        assert_eq!(shown_by(&mut to_nowhere, image), "[image/png, 2 bytes; use --out]\n");
        let broken = json!({"type": "audio", "data": "*", "mimeType": "audio/wav"});
        assert_eq!(shown(broken), "(audio/wav that is not base64)\n");
        let resource = json!({"type": "resource", "resource": {"uri": "a://b", "text": "t\n"}});
        assert_eq!(shown(resource), "[a://b]\nt\n");
        let link = json!({"type": "resource_link", "uri": "a://b", "name": "n", "mimeType": "x/y"});
        assert_eq!(shown(link), "→ a://b  n · x/y\n");
        assert_eq!(shown(json!({"type": "new"})), "{\n  \"type\": \"new\"\n}\n");
    }
}
