//! `mcp-span read`: a resource of a server's, on stdout or in a file.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;

use super::Failure;
use super::call::content::Contents;
use super::call::files::{self, Files};
use super::report::Usage;
use super::visit::{self, Guest, Offer, Outcome, Trouble};
use super::visit_args::Read;

/// Reads it.
pub(super) fn run(typed: &Read) -> Result<ExitCode, Failure> {
    let [uri] = typed.visit.words.as_slice() else {
        return Err(Usage::new("which resource? mcp-span read <URL> URI").into());
    };
    let (uri, out) = (uri.clone(), typed.out.clone());
    let to_stdout = out.as_deref() == Some(Path::new("-"));
    if to_stdout && std::io::stdout().is_terminal() {
        let why = "--out - is not for a terminal: send it to a file or a program with > or |";
        return Err(Usage::new(why).into());
    }
    visit::run(&typed.visit, |_| Offer::default(), move |guest| read(guest, uri, out, to_stdout))
}

async fn read(guest: Guest, uri: String, out: Option<PathBuf>, to_stdout: bool) -> Outcome {
    guest.status.set(&format!("reading {uri}"));
    let result = guest.client.read(&uri).raw().await?;
    if guest.is_json {
        return guest.print_json(result.get());
    }
    let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
    let all = result["contents"].as_array().map_or(&[][..], Vec::as_slice);
    if to_stdout {
        guest.status.clear();
        return bytes(all);
    }
    let contents = Contents { page: &guest.page, files: Files::new(out.as_deref(), stem(&uri)) };
    let mut text = String::new();
    for resource in all {
        match resource["text"].as_str() {
            // As it is: what is piped on must not gain a line.
            Some(whole) if !guest.page.is_terminal => text += whole,
            _ => text += &contents.resource(resource)?,
        }
    }
    guest.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Everything to stdout, byte for byte.
fn bytes(all: &[Value]) -> Outcome {
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    for resource in all {
        match (resource["text"].as_str(), resource["blob"].as_str().map(files::unpacked)) {
            (Some(text), _) => stdout.write_all(text.as_bytes())?,
            (None, Some(Some(bytes))) => stdout.write_all(&bytes)?,
            (None, Some(None)) => {
                let why = std::io::Error::other("the resource is not base64");
                return Err(Trouble::Unexpected(why));
            }
            (None, None) => {}
        }
    }
    stdout.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The last part of the address, without what comes behind its point.
fn stem(uri: &str) -> &str {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    last.split('.').find(|part| !part.is_empty()).unwrap_or("resource")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_the_resource() {
        assert_eq!(stem("file:///a/logo.tar.gz?x=/y"), "logo");
        assert_eq!(stem("demo://resource/7/"), "7");
        assert_eq!(stem(""), "resource");
    }
}
