//! What tools, prompts and resources contain, as a person reads it; what is no text goes to files.

use std::cell::RefCell;
use std::process::ExitCode;

use serde_json::Value;
use serde_json::value::RawValue;

use super::files::{self, Files};
use crate::cli::report;
use crate::cli::visit::{Page, one_line, pretty};
use crate::message::{Members, lenient};

/// Shows contents one after the other.
pub(in crate::cli) struct Contents<'a> {
    page: &'a Page,
    files: Files,
    /// What could not be written; the rest is shown all the same.
    faults: RefCell<Vec<String>>,
}

/// The list that `member` of a result is, each entry as the server wrote it.
pub(in crate::cli) fn entries(result: &str, member: &str) -> Option<Vec<Box<RawValue>>> {
    serde_json::from_str(Members::of(result)?.get(member)?).ok()
}

impl<'a> Contents<'a> {
    pub(in crate::cli) fn new(page: &'a Page, files: Files) -> Self {
        Self { page, files, faults: RefCell::default() }
    }

    /// Names what could not be written, after all else was shown.
    pub(in crate::cli) fn end(self) -> ExitCode {
        let faults = self.faults.into_inner();
        faults.iter().for_each(|fault| report::warning(fault));
        if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// One block of a result or a message.
    pub(in crate::cli) fn block(&self, json: &str) -> String {
        let block = lenient(json);
        let text = |name: &str| block[name].as_str().unwrap_or_default();
        match text("type") {
            "text" if block["text"].is_string() => self.text(text("text")),
            "image" | "audio" if block["data"].is_string() => {
                self.packed(text("data"), text("mimeType"))
            }
            "resource" if block["resource"].is_object() => {
                let heading = one_line(block["resource"]["uri"].as_str().unwrap_or_default());
                let members = Members::of(json).unwrap_or_default();
                let resource = self.resource(members.get("resource").unwrap_or_default());
                format!("{}\n{resource}", self.page.faint(&format!("[{heading}]")))
            }
            "resource_link" => self.link(&block),
            _ => self.json(json),
        }
    }

    /// A resource: its text, or the file that its bytes have become.
    pub(in crate::cli) fn resource(&self, json: &str) -> String {
        let resource = lenient(json);
        let text = |name: &str| resource[name].as_str();
        match (text("text"), text("blob")) {
            (Some(text), _) => self.text(text),
            (None, Some(blob)) => self.packed(blob, text("mimeType").unwrap_or_default()),
            (None, None) => self.json(json),
        }
    }

    /// What nobody knows, as it was written.
    pub(in crate::cli) fn json(&self, json: &str) -> String {
        self.text(&pretty(json))
    }

    /// Text as it is, on lines of its own.
    fn text(&self, text: &str) -> String {
        let mut text = self.page.foreign(text);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    fn packed(&self, base64: &str, media: &str) -> String {
        let what = match one_line(media) {
            media if media.is_empty() => "data".to_owned(),
            media => media,
        };
        let Some(bytes) = files::unpacked(base64) else {
            return format!("({what} that is not base64)\n");
        };
        let size = files::size(bytes.len() as u64);
        match self.files.save(media, &bytes) {
            Ok(path) => {
                format!("{} {}\n", path.display(), self.page.faint(&format!("({what}, {size})")))
            }
            Err(error) => {
                self.faults.borrow_mut().push(error.to_string());
                format!("({what}, {size}, that could not be written)\n")
            }
        }
    }

    fn link(&self, block: &Value) -> String {
        let text = |name: &str| one_line(block[name].as_str().unwrap_or_default());
        let mut about = vec![text("title"), text("description"), text("mimeType")];
        if about[0].is_empty() {
            about[0] = text("name");
        }
        about.retain(|part| !part.is_empty());
        format!("→ {}  {}\n", text("uri"), self.page.faint(&about.join(" · ")))
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
        let shown = |block: Value| contents.block(&block.to_string());
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
