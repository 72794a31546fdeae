//! `mcp-span read`: a resource of a server's, on stdout or in a file.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::value::RawValue;

use super::Failure;
use super::call::content::{Contents, entries, text};
use super::call::files::{self, Files};
use super::report::{self, Usage};
use super::visit::{self, Guest, Outcome, Trouble, pretty};
use super::visit_args::Read;
use mcp_span::message::Members;

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
    if let Some(folder) = out.as_deref().filter(|_| !to_stdout) {
        files::prepare(folder)?;
    }
    visit::run(&typed.visit, move |guest| read(guest, uri, out, to_stdout))
}

async fn read(guest: Guest, uri: String, out: Option<PathBuf>, to_stdout: bool) -> Outcome {
    guest.status.set(&format!("reading {uri}"));
    let result = guest.client.read_resource(&uri).raw().await?;
    if guest.is_json {
        return guest.print_json(result.get());
    }
    let Some(all) = entries(result.get(), "contents") else {
        guest.status.clear();
        report::warning("the server's answer has no contents; this is what it sent");
        guest.print_with(|out| pretty(result.get(), out).and_then(|()| writeln!(out)))?;
        return Ok(ExitCode::FAILURE);
    };
    if all.is_empty() {
        guest.status.clear();
        report::warning("the server has found nothing there: the list of contents is empty");
    }
    if to_stdout {
        guest.status.clear();
        report::print_bytes(&bytes(&all)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let contents = Contents::new(&guest.page, Files::new(out.as_deref(), stem(&uri)));
    guest.print_with(|out| {
        for resource in &all {
            let members = Members::of(resource.get()).unwrap_or_default();
            match text(&members, "text") {
                // As it is: what is piped on must not gain a line.
                Some(whole) if !guest.page.is_terminal => out.write_all(whole.as_bytes())?,
                _ => contents.resource(resource.get(), out)?,
            }
        }
        Ok(())
    })?;
    Ok(contents.end())
}

/// Everything, byte for byte.
fn bytes(all: &[Box<RawValue>]) -> Result<Vec<u8>, Trouble> {
    let mut whole = Vec::new();
    for resource in all {
        let resource = Members::of(resource.get()).unwrap_or_default();
        let blob = text(&resource, "blob");
        match (text(&resource, "text"), blob.as_deref().map(files::unpacked)) {
            (Some(text), _) => whole.extend_from_slice(text.as_bytes()),
            (None, Some(Some(bytes))) => whole.extend(bytes),
            (None, Some(None)) => {
                let why = std::io::Error::other("the resource is not base64");
                return Err(Trouble::Unexpected(why));
            }
            (None, None) => {}
        }
    }
    Ok(whole)
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
