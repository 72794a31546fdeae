//! `mcp-span read`: reads a resource, to stdout or to files.

use std::io::{IsTerminal, stdout};
use std::path::Path;
use std::process::ExitCode;

use super::args::Read;
use super::content::{Contents, bytes, entries, text};
use super::files::{self, Files};
use super::session::{self, Context, Outcome};
use crate::report::{CommandError, Usage};
use mcp_span::message::Members;

/// Reads it.
pub(crate) fn run(typed: &Read) -> Result<ExitCode, CommandError> {
    let (uri, out) = (typed.target.words("read")?[0].clone(), typed.out.as_deref());
    let is_dash = out == Some(Path::new("-"));
    if is_dash && stdout().is_terminal() {
        let why = "--out - is not for a terminal";
        return Err(Usage::new(why).hint("send it to a file or a program with > or |").into());
    }
    // A pipe gets the bytes, as from curl.
    let to_stdout = is_dash || (out.is_none() && !stdout().is_terminal());
    let files = match out.filter(|_| !is_dash) {
        Some(path) => Files::at(path, stem(&uri))?,
        None => Files::nowhere(files::ADVICE),
    };
    session::run(&typed.target, move |context| read(context, uri, files, to_stdout))
}

async fn read(context: Context, uri: String, files: Files, to_stdout: bool) -> Outcome {
    context.status.set(&format!("reading {uri}"));
    let result = context.client.read_resource(&uri).raw().await?;
    if context.is_json {
        return context.print_json(result.get());
    }
    let Some(all) = entries(result.get(), "contents") else {
        return context.print_odd(result.get(), "contents");
    };
    if all.is_empty() {
        context.warn("the resource is empty: the server has sent no contents");
    }
    if to_stdout {
        return context
            .print_with(|out| all.iter().try_for_each(|one| out.write_all(&bytes(one)?)));
    }
    let is_one_file = files.is_one();
    let mut contents = Contents::new(&context.page, files);
    context.print_with(|out| {
        for resource in &all {
            let members = Members::of(resource.get()).unwrap_or_default();
            match text(&members, "text") {
                _ if is_one_file => {
                    let media = text(&members, "mimeType").unwrap_or_default();
                    contents.save(&bytes(resource)?, &media, out)?;
                }
                // As it is: what is piped on must not gain a line.
                Some(whole) if !context.page.is_terminal => out.write_all(whole.as_bytes())?,
                _ => contents.resource(resource.get(), out)?,
            }
        }
        Ok(())
    })?;
    Ok(contents.end())
}

/// The last part of the URI, up to its first dot.
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
