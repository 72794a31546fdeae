//! Opens a browser for a login: a program with an argument, never a shell.

use std::process::Stdio;
use std::sync::Arc;

use url::Url;

use mcp_span::auth::oauth::Open;
use mcp_span::environment::Environment;

/// How the system opens addresses.
const SYSTEM: &str = if cfg!(target_os = "macos") {
    "open"
} else if cfg!(windows) {
    "rundll32 url.dll,FileProtocolHandler"
} else {
    "xdg-open"
};

/// Opens addresses with `$BROWSER`, or as the system does it.
pub(crate) fn opener(environment: Environment, browser: Option<String>) -> Open {
    let browser = browser.filter(|text| !text.trim().is_empty());
    let browser = browser.unwrap_or_else(|| SYSTEM.to_owned());
    Arc::new(move |address| open(address, &browser, &environment))
}

/// On a thread of its own: some openers stay for as long as the browser does.
fn open(address: &Url, browser: &str, environment: &Environment) {
    let Some((program, arguments)) = command(address, browser) else { return };
    let mut opening = environment.command(program);
    opening.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Where there can be no thread, the person has to do it. Somebody must see the opener end, or it
    // stays as a zombie.
    let _ = std::thread::Builder::new()
        .name("browser".to_owned())
        .spawn(move || opening.spawn().map(|mut child| child.wait()));
}

fn command(address: &Url, browser: &str) -> Option<(String, Vec<String>)> {
    let address = argument(address);
    let mut words = shlex::split(browser)?.into_iter();
    let program = words.next()?;
    let mut arguments: Vec<String> = words.map(|word| word.replace("%s", &address)).collect();
    if !browser.contains("%s") {
        arguments.push(address);
    }
    Some((program, arguments))
}

/// An address as programs get it that open pages: some are scripts, or a `$BROWSER` with a shell in
/// it, so nothing in it may mean anything to a shell. Ampersands and percent signs are part of many
/// an address; the others are as good when they are coded.
fn argument(page: &Url) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@&%+,=".contains(&byte);
    let coded = |byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    page.as_str().bytes().map(coded).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn no_shell_finds_anything_to_do_in_an_address() {
        let hostile =
            "https://as/a(b);c|d/$HOME/`id`?x=$(touch pwned)&y=\"'<>\\\\^{}!*\n\t ü&z=a%20b#f";
        let page = Url::parse(hostile).unwrap();
        let coded = argument(&page);
        let active = "'\"`$();|<>\\^{}! *\n\t\r";
        assert!(coded.is_ascii() && !coded.contains(|c| active.contains(c)), "{coded}");
        let text = |url: &Url| -> Vec<String> {
            url.query_pairs().map(|(name, value)| format!("{name}={value}")).collect()
        };
        let again = Url::parse(&coded).unwrap();
        assert_eq!(text(&again), text(&page), "it is the same address");
        assert_eq!((again.host(), again.fragment()), (page.host(), page.fragment()));
        let plain = "http://[::1]:4000/open/a-b_c.d~e?f=1&g=a%2Fb+c,d";
        assert_eq!(argument(&Url::parse(plain).unwrap()), plain);
    }

    #[cfg(unix)]
    #[test]
    fn a_browser_with_a_shell_in_it_runs_nothing_of_an_address() {
        let folder = tempfile::tempdir().unwrap();
        let hostile = [
            "http://127.0.0.1:1/open/;touch${IFS}pwned",
            "http://127.0.0.1:1/$(touch${IFS}pwned)",
            "http://127.0.0.1:1/`touch${IFS}pwned`",
            "http://127.0.0.1:1/|touch${IFS}pwned",
            "http://127.0.0.1:1/'$(touch${IFS}pwned)'",
            "http://127.0.0.1:1/\";touch${IFS}pwned;\"",
            "http://127.0.0.1:1/?x=$(touch${IFS}pwned)",
            "http://127.0.0.1:1/>pwned",
        ];
        let shells = [
            "sh -c 'echo %s'",
            "sh -c \"echo '%s'\"",
            "sh -c 'echo \"%s\"'",
            "sh -c 'eval echo $0'",
        ];
        for browser in shells {
            for page in hostile {
                let page = Url::parse(page).unwrap();
                let (program, arguments) = command(&page, browser).unwrap();
                let ran = Command::new(program).args(arguments).current_dir(folder.path()).output();
                let said = String::from_utf8(ran.unwrap().stdout).unwrap();
                assert_eq!(said.trim_end(), argument(&page), "{browser}");
                assert_eq!(
                    std::fs::read_dir(folder.path()).unwrap().count(),
                    0,
                    "{browser} {page}"
                );
            }
        }
    }

    #[test]
    fn a_browser_is_a_program_with_arguments_and_no_shell() {
        // CVE-2025-6514; peers c 1
        let page = Url::parse("https://as/a?x=$(id)&y=`id`;z='\"").unwrap();
        let (program, arguments) = command(&page, "my 'odd browser' --new").unwrap();
        assert_eq!(program, "my");
        let page = argument(&page);
        assert_eq!(arguments, ["odd browser", "--new", &*page]);
        let page = Url::parse(&page).unwrap();
        let (_, arguments) = command(&page, "b --url=%s -x").unwrap();
        assert_eq!(arguments, [format!("--url={page}"), "-x".to_owned()]);
        assert!(command(&page, "'open").is_none());
    }
}
