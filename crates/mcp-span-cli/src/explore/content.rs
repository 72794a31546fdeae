//! What tools, prompts and resources contain, as a person reads it; what is no text goes to files.

use std::cell::RefCell;
use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;
use serde_json::value::RawValue;

use super::files::{self, Files};
use crate::output::{Page, one_line, pretty};
use crate::report;
use mcp_span::lenient::lenient;
use mcp_span::message::Members;

/// Shows contents one after the other.
pub(crate) struct Contents<'a> {
    page: &'a Page,
    files: Files,
    /// What could not be written; the rest is shown all the same.
    faults: RefCell<Vec<String>>,
}

/// The list that `member` of a result is, each entry as the server wrote it.
pub(crate) fn entries(result: &str, member: &str) -> Option<Vec<Box<RawValue>>> {
    serde_json::from_str(Members::of(result)?.get(member)?).ok()
}

impl<'a> Contents<'a> {
    pub(crate) fn new(page: &'a Page, files: Files) -> Self {
        Self { page, files, faults: RefCell::default() }
    }

    /// Names what could not be written, after all else was shown.
    pub(crate) fn end(self) -> ExitCode {
        let faults = self.faults.into_inner();
        faults.iter().for_each(|fault| report::warning(fault));
        if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// One block of a result or a message.
    pub(crate) fn block(&self, json: &str, out: &mut dyn Write) -> io::Result<()> {
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
    pub(crate) fn resource(&self, json: &str, out: &mut dyn Write) -> io::Result<()> {
        let resource = Members::of(json).unwrap_or_default();
        let text = |name: &str| text(&resource, name);
        match (text("text"), text("blob")) {
            (Some(text), _) => self.text(&text, out),
            (None, Some(blob)) => self.packed(&blob, &text("mimeType").unwrap_or_default(), out),
            (None, None) => self.json(json, out),
        }
    }

    /// What nobody knows, as it was written.
    pub(crate) fn json(&self, json: &str, out: &mut dyn Write) -> io::Result<()> {
        pretty(json, out)?;
        out.write_all(b"\n")
    }

    /// Text as it is, on lines of its own.
    fn text(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let text = self.page.foreign(text);
        out.write_all(text.as_bytes())?;
        if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") }
    }

    fn packed(&self, base64: &str, media: &str, out: &mut dyn Write) -> io::Result<()> {
        let what = match one_line(media) {
            media if media.is_empty() => "data".to_owned(),
            media => media,
        };
        let Some(bytes) = files::unpacked(base64) else {
            return writeln!(out, "({what} that is not base64)");
        };
        let size = files::size(bytes.len() as u64);
        match self.files.save(media, &bytes) {
            Ok(path) => {
                let about = self.page.faint(&format!("({what}, {size})"));
                writeln!(out, "{} {about}", path.display())
            }
            Err(error) => {
                self.faults.borrow_mut().push(error.to_string());
                writeln!(out, "({what}, {size}, that could not be written)")
            }
        }
    }

    fn link(&self, block: &Members<'_>, out: &mut dyn Write) -> io::Result<()> {
        let text = |name: &str| one_line(&text(block, name).unwrap_or_default());
        let mut about = vec![text("title"), text("description"), text("mimeType")];
        if about[0].is_empty() {
            about[0] = text("name");
        }
        about.retain(|part| !part.is_empty());
        writeln!(out, "→ {}  {}", text("uri"), self.page.faint(&about.join(" · ")))
    }
}

/// A member that is a text, as far as it can be read. Anything else is not looked at: a tree of it
/// would take many times its size.
pub(crate) fn text(members: &Members<'_>, name: &str) -> Option<String> {
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
        let contents = Contents::new(&page, Files::new(Some(folder.path()), "t"));
        let shown = |block: Value| {
            let mut out = Vec::new();
            contents.block(&block.to_string(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(json!({"type": "text", "text": "a\u{1b}[2Jb"})), "a[2Jb\n");
        assert_eq!(
            shown(json!({"type": "image", "data": "aGk=", "mimeType": "image/png"})),
            format!("{} (image/png, 2 bytes)\n", folder.path().join("t-1.png").display())
        );
        let broken = json!({"type": "audio", "data": "*", "mimeType": "audio/wav"});
        assert_eq!(shown(broken), "(audio/wav that is not base64)\n");
        let resource = json!({"type": "resource", "resource": {"uri": "a://b", "text": "t\n"}});
        assert_eq!(shown(resource), "[a://b]\nt\n");
        let link = json!({"type": "resource_link", "uri": "a://b", "name": "n", "mimeType": "x/y"});
        assert_eq!(shown(link), "→ a://b  n · x/y\n");
        assert_eq!(shown(json!({"type": "new"})), "{\n  \"type\": \"new\"\n}\n");
    }
}
