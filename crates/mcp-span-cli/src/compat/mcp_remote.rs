//! What mcp-remote makes of its command line by itself: the name of its files, and the address that a
//! browser comes back to.

use std::collections::BTreeMap;
use std::ffi::OsString;

use url::Url;

use super::super::target::is_url;
use super::flags::Meaning;
use super::words::{Item, value};
use mcp_span::ServerOptions;
use mcp_span::limits::CALLBACK_PORTS;

/// All that it tells logins apart by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remote {
    /// As it was typed.
    pub(crate) url: String,
    pub(crate) resource: Option<String>,
    pub(crate) params: BTreeMap<String, String>,
    /// As they were typed, with the names of variables.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) client_metadata_url: Option<String>,
    pub(crate) token_endpoint: Option<String>,
    /// The authorization server knows the address already.
    pub(crate) is_registered: bool,
}

impl Remote {
    /// Reads it out of a command line; `None` if there is no URL in it.
    pub(super) fn from_items(items: &[Item]) -> Option<Self> {
        let mut found = Self::default();
        let mut sends_resource = true;
        for item in items {
            match item {
                Item::Word(word) if found.url.is_empty() => {
                    found.url = word.to_str().filter(|word| is_url(word))?.to_owned();
                }
                Item::Ours(name, words) if name == "header" => {
                    found.headers.extend(header(&value(words)));
                }
                Item::Ours(name, words) if name == "header-file" => {
                    // One that cannot be read ends the program a little later.
                    let mut options = ServerOptions::default();
                    options.header_file = Some(value(words).as_ref().into());
                    let lines = options.header_lines().unwrap_or_default();
                    found.headers.extend(lines.iter().filter_map(|(_, line)| header(line)));
                }
                Item::Ours(name, _) if name == "oauth-no-resource" => sends_resource = false,
                Item::Theirs(name, meaning, values) => found.note(name, *meaning, values),
                _ => {}
            }
        }
        found.resource = found.resource.filter(|resource| sends_resource && !resource.is_empty());
        (!found.url.is_empty()).then_some(found)
    }

    fn note(&mut self, name: &str, meaning: Meaning, values: &[OsString]) {
        let text = values.first().map(|text| text.to_string_lossy()).unwrap_or_default();
        let trimmed = || Some(text.trim().to_owned());
        match name {
            "--resource" if self.resource.is_none() => self.resource = trimmed(),
            "--authorize-param" => {
                let pair = text.split_once('=').map(|(name, value)| (name.trim(), value));
                self.params.extend(pair.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            "--client-metadata-url" if self.client_metadata_url.is_none() => {
                self.client_metadata_url = trimmed();
            }
            "--token-endpoint" if self.token_endpoint.is_none() => {
                self.token_endpoint = Url::parse(text.trim()).ok().map(Into::into);
            }
            _ => self.is_registered |= meaning == Meaning::Client,
        }
    }

    /// What its files are named by.
    pub(crate) fn name(&self) -> String {
        let mut parts = vec![self.url.clone()];
        parts.extend(self.resource.clone());
        parts.extend(object(&self.params));
        parts.extend(object(&self.headers));
        parts.extend(self.client_metadata_url.clone());
        parts.extend(self.token_endpoint.clone());
        format!("{:x}", md5::compute(parts.join("|")))
    }

    /// The ports that it tries one after the other; one alone where the address is registered.
    pub(crate) fn ports(&self) -> String {
        let name = self.name();
        let number = name.get(..4).and_then(|start| u32::from_str_radix(start, 16).ok());
        let first = 3335 + number.unwrap_or_default() % 45816;
        match self.is_registered || self.client_metadata_url.is_some() {
            true => first.to_string(),
            false => format!("{first}-{}", first + CALLBACK_PORTS as u32 - 1),
        }
    }
}

/// The name of this machine in its address.
pub(crate) const HOST: &str = if cfg!(windows) { "127.0.0.1" } else { "localhost" };

/// The path of its address.
pub(crate) const PATH: &str = "/oauth/callback";

/// A header as mcp-remote reads it.
pub(crate) fn header(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_name = !name.is_empty() && name.chars().all(is_plain);
    is_name.then(|| (name.to_owned(), value.trim_start().to_owned()))
}

/// Pairs as JSON, sorted by their names; `None` if there are none.
fn object(pairs: &BTreeMap<String, String>) -> Option<String> {
    (!pairs.is_empty()).then(|| serde_json::to_string(pairs).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(url: &str) -> Remote {
        Remote { url: url.to_owned(), ..Remote::default() }
    }

    #[test]
    fn the_port_is_the_one_that_mcp_remote_derives() {
        // Computed with mcp-remote 0.15.1.
        assert_eq!(remote("https://remote.mcp.server/sse").ports(), "12704-12711");
        let tenant = Remote {
            resource: Some("https://tenant1.atlassian.net/".into()),
            ..remote("https://mcp.atlassian.com/v1/sse")
        };
        assert_eq!(tenant.ports(), "12116-12123");
        let header = header("Authorization:${AUTH_HEADER}").unwrap();
        let headers = [header].into_iter().collect();
        let with_header = Remote { headers, ..remote("https://remote.mcp.server/sse") };
        assert_eq!(with_header.ports(), "21858-21865");
        let registered = Remote { is_registered: true, ..remote("https://example.remote/server") };
        assert_eq!(registered.ports(), "37531");
    }

    #[test]
    fn headers_are_read_as_mcp_remote_reads_them() {
        assert_eq!(header("X-A:  b: c "), Some(("X-A".into(), "b: c ".into())));
        assert_eq!(header("X A: b"), None);
        assert_eq!(header("nothing"), None);
    }
}
