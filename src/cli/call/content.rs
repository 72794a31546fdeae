//! What tools, prompts and resources contain, as a person reads it; what is no text goes to files.

use std::io;

use serde_json::Value;

use super::files::{self, Files};
use crate::cli::visit::{Page, one_line, pretty};

/// Shows contents one after the other.
pub(in crate::cli) struct Contents<'a> {
    pub(in crate::cli) page: &'a Page,
    pub(in crate::cli) files: Files,
}

impl Contents<'_> {
    /// One block of a result or a message.
    pub(in crate::cli) fn block(&self, block: &Value) -> io::Result<String> {
        let text = |name: &str| block[name].as_str().unwrap_or_default();
        match text("type") {
            "text" => Ok(self.text(text("text"))),
            "image" | "audio" => self.packed(text("data"), text("mimeType")),
            "resource" => {
                let heading = one_line(block["resource"]["uri"].as_str().unwrap_or_default());
                let resource = self.resource(&block["resource"])?;
                Ok(format!("{}\n{resource}", self.page.faint(&format!("[{heading}]"))))
            }
            "resource_link" => Ok(self.link(block)),
            _ => Ok(self.text(&pretty(&block.to_string()))),
        }
    }

    /// A resource: its text, or the file that its bytes have become.
    pub(in crate::cli) fn resource(&self, resource: &Value) -> io::Result<String> {
        let text = |name: &str| resource[name].as_str();
        match (text("text"), text("blob")) {
            (Some(text), _) => Ok(self.text(text)),
            (None, Some(blob)) => self.packed(blob, text("mimeType").unwrap_or_default()),
            (None, None) => Ok(self.text(&pretty(&resource.to_string()))),
        }
    }

    /// Text as it is, on lines of its own.
    fn text(&self, text: &str) -> String {
        let mut text = self.page.foreign(text);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    fn packed(&self, base64: &str, media: &str) -> io::Result<String> {
        let what = match one_line(media) {
            media if media.is_empty() => "data".to_owned(),
            media => media,
        };
        let Some(bytes) = files::unpacked(base64) else {
            return Ok(format!("({what} that is not base64)\n"));
        };
        let path = self.files.save(media, &bytes)?;
        let size = files::size(bytes.len() as u64);
        Ok(format!("{} {}\n", path.display(), self.page.faint(&format!("({what}, {size})"))))
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
        let contents = Contents { page: &page, files: Files::new(Some(folder.path()), "t") };
        let shown = |block: Value| contents.block(&block).unwrap();
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
