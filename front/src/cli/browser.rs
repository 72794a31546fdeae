//! Opens a browser for a login: a program with an argument, never a shell.

use std::process::{Command, Stdio};
use std::sync::Arc;

use url::Url;

use crate::auth::oauth::Open;

/// Opens addresses with `$BROWSER`, or as the system does it.
pub(super) fn opener(lookup: impl Fn(&str) -> Option<String>) -> Open {
    let browser = lookup("BROWSER").filter(|text| !text.trim().is_empty());
    Arc::new(move |address| open(address, browser.as_deref()))
}

/// On a thread of its own: some openers stay for as long as the browser does.
fn open(address: &Url, browser: Option<&str>) {
    let Some((program, arguments)) = command(address, browser) else { return };
    // Where there can be no thread, the person has to do it.
    let _ = std::thread::Builder::new().name("browser".to_owned()).spawn(move || {
        let started = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // Somebody must see it end, or it stays as a zombie.
        let _ = started.map(|mut child| child.wait());
    });
}

fn command(address: &Url, browser: Option<&str>) -> Option<(String, Vec<String>)> {
    let address = address.as_str().to_owned();
    if let Some(browser) = browser {
        let mut words = shlex::split(browser)?.into_iter();
        let program = words.next()?;
        let mut arguments: Vec<String> = words.map(|word| word.replace("%s", &address)).collect();
        if !browser.contains("%s") {
            arguments.push(address);
        }
        return Some((program, arguments));
    }
    if cfg!(target_os = "macos") {
        return Some(("open".to_owned(), vec![address]));
    }
    if cfg!(windows) {
        let handler = "url.dll,FileProtocolHandler".to_owned();
        return Some(("rundll32".to_owned(), vec![handler, address]));
    }
    Some(("xdg-open".to_owned(), vec![address]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_a_program_with_arguments_and_no_shell() {
        // CVE-2025-6514; peers c 1
        let page = Url::parse("https://as/a?x=$(id)&y=`id`;z='\"").unwrap();
        let (program, arguments) = command(&page, Some("my 'odd browser' --new")).unwrap();
        assert_eq!(program, "my");
        assert_eq!(arguments, ["odd browser", "--new", page.as_str()]);
        let (_, arguments) = command(&page, Some("b --url=%s -x")).unwrap();
        assert_eq!(arguments, [format!("--url={page}"), "-x".to_owned()]);
        assert!(command(&page, Some("'open")).is_none());
    }
}
