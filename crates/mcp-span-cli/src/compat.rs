//! Translates the command lines of mcp-remote and other bridges into ours, before they are parsed.
//!
//! Only what would be an error here is touched: a name that is ours has our meaning.

use std::collections::HashSet;
use std::ffi::OsString;

use clap::Command;

use super::compat_client;
use super::compat_flags::{Meaning, Program, SILENCE};
use super::compat_name::{self, Named};
use super::compat_remote::{self, Remote};
use super::compat_renamed::Renamed;
use super::compat_words::{Flags, Item};
use super::report::Usage;
use super::secrets::Secrets;
use mcp_span::options::{CREDENTIAL_SOURCES, is_callback_host, seconds, some_seconds};

/// A command line of ours, with what was left out of it.
#[derive(Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(super) struct Translated {
    pub(super) args: Vec<OsString>,
    /// Names only: their values may be secrets.
    pub(super) ignored: Vec<String>,
    /// What must not stand on a command line.
    pub(super) secrets: Secrets,
    /// Under which names our flags were typed.
    pub(super) renamed: Renamed,
}

/// Translates what was typed, the name of our program first, with variables from `lookup`.
pub(super) fn translate(
    mut args: Vec<OsString>,
    command: &Command,
    lookup: impl Fn(&str) -> Option<String>,
    is_name: impl Fn(&str) -> bool,
) -> Result<Translated, Usage> {
    Flags::of(command).command_first(args.get_mut(1..).unwrap_or_default());
    let named = args.get(1).and_then(|word| word.to_str());
    let subcommand = named.and_then(|name| command.find_subcommand(name));
    // What takes other words beside the URL was never a command line of another bridge.
    let has_url = |command: &Command| {
        let has = |id| command.get_arguments().any(|arg| arg.get_id() == id);
        has("url") && !has("words")
    };
    if named == Some("help") || subcommand.is_some_and(|command| !has_url(command)) {
        return Ok(Translated { args, ..Translated::default() });
    }
    let own = 1 + usize::from(subcommand.is_some());
    let flags = Flags::of(subcommand.unwrap_or(command));
    let named = compat_name::find(&flags, args.get(own..).unwrap_or_default(), is_name)?;
    if let Some(Named { words, .. }) = &named {
        args.drain(own + words.start..own + words.end);
    }
    let program = named.map(|named| named.program);
    let mut args = args.into_iter();
    let mut line = Line {
        words_before_url: flags.words_before_url(),
        takes_more_servers: flags.takes_more_servers(),
        known: flags.names(),
        ..Line::default()
    };
    line.done.args.extend(args.by_ref().take(own));
    let items = flags.items(args.collect())?;
    line.take_stock(&items)?;
    if program.is_some_and(|program| program.is_mcp_remote) {
        line.remote = Remote::of(&items, line.words_before_url);
    }
    for item in items {
        line.add(item, &lookup)?;
    }
    let is_set = |name: &str| lookup(name).is_some_and(|value| !value.is_empty());
    Ok(line.finish(program, is_set))
}

/// A line in the making.
#[derive(Default)]
struct Line {
    done: Translated,
    /// What goes behind all flags.
    tail: Vec<OsString>,
    /// The flags of ours that were typed.
    typed: HashSet<String>,
    /// The flags of ours that came of others.
    made: HashSet<String>,
    /// How many words are still to come before the URL.
    words_before_url: usize,
    takes_more_servers: bool,
    has_url: bool,
    has_interval: bool,
    has_authorization: bool,
    /// What mcp-remote makes of the line, where that is whose line it is.
    remote: Option<Remote>,
    /// The names of the timeouts of answers, with their seconds.
    silences: Vec<(String, String)>,
    /// The flags that the command takes: what becomes of others means nothing to it.
    known: HashSet<String>,
}

impl Line {
    /// Ours wins over theirs wherever it stands, so it has to be known beforehand.
    fn take_stock(&mut self, items: &[Item]) -> Result<(), Usage> {
        let mut headers = 0;
        let mut bearers = 0;
        for item in items {
            match item {
                Item::Ours(name, words) => {
                    headers += usize::from(name == "header" && is_authorization(words));
                    self.typed.insert(name.clone());
                }
                Item::Theirs(_, Meaning::Header, words) => {
                    headers += usize::from(is_authorization(words.get(..1).unwrap_or_default()));
                }
                Item::Theirs(_, Meaning::Bearer, _) => bearers += 1,
                Item::Theirs(_, Meaning::Seconds("keep-alive"), _) => self.has_interval = true,
                _ => {}
            }
        }
        self.has_authorization = headers + bearers > 0;
        if bearers > 0 && headers + bearers > 1 {
            return Err(Usage::new(
                "there is a bearer token and another 'Authorization' as well: leave one of them out",
            ));
        }
        Ok(())
    }

    fn add(&mut self, item: Item, lookup: impl Fn(&str) -> Option<String>) -> Result<(), Usage> {
        match item {
            Item::Ours(_, words) => self.done.args.extend(words),
            Item::Theirs(name, meaning @ (Meaning::Client | Meaning::ClientMetadata), values) => {
                self.add_client(&name, meaning, &values, lookup)?;
            }
            Item::Theirs(name, meaning, values) => self.add_theirs(&name, meaning, values)?,
            Item::Word(word) if self.words_before_url > 0 => {
                self.words_before_url -= 1;
                self.done.args.push(word);
            }
            Item::Word(word) if self.has_url && is_port(&word) => {
                self.make("port", "oauth-callback-port", word);
            }
            Item::Word(word) => {
                let is_too_much = self.has_url && !self.takes_more_servers;
                if let Some(usage) = compat_name::misplaced(&word).filter(|_| is_too_much) {
                    return Err(usage);
                }
                self.has_url = true;
                self.done.args.push(word);
            }
            Item::Unknown(words) if words.first().is_some_and(|word| word == "--") => {
                self.tail = words;
            }
            Item::Unknown(words) => self.done.args.extend(words),
        }
        Ok(())
    }

    fn add_theirs(
        &mut self,
        name: &str,
        meaning: Meaning,
        values: Vec<OsString>,
    ) -> Result<(), Usage> {
        let mut values = values.into_iter();
        let first = values.next().unwrap_or_default();
        match meaning {
            Meaning::Host if !first.to_str().is_some_and(is_callback_host) => self.ignore(name),
            Meaning::Host => self.rename(name, "oauth-callback-host", first),
            Meaning::Each(ours) => {
                self.made.remove(ours);
                self.rename(name, ours, first);
            }
            Meaning::Nothing
            | Meaning::NothingWithValue
            | Meaning::Client
            | Meaning::ClientMetadata => self.ignore(name),
            // `--ping-interval` says the same with a number.
            Meaning::Fixed("keep-alive", _) if self.has_interval => {}
            Meaning::Fixed(ours, value) => self.make(name, ours, value.into()),
            Meaning::Renamed(ours) => self.rename(name, ours, first),
            Meaning::Seconds(ours) => {
                checked(name, &first, some_seconds)?;
                self.rename(name, ours, first);
            }
            Meaning::Silence => {
                let text = checked(name, &first, seconds)?;
                self.silences.push((name.to_owned(), text));
            }
            Meaning::Url(transport) => {
                if !self.typed.contains("transport") {
                    self.make(name, "transport", transport.into());
                }
                self.has_url = true;
                self.done.args.push(first);
            }
            Meaning::Bearer if first.is_empty() => {
                return Err(Usage::new(format!("{name}: the token is empty")));
            }
            Meaning::Bearer => self.header("Authorization".into(), "Bearer ", &first),
            Meaning::Header => self.header(first, "", &values.next().unwrap_or_default()),
        }
        Ok(())
    }

    fn add_client(
        &mut self,
        name: &str,
        meaning: Meaning,
        values: &[OsString],
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<(), Usage> {
        let text = values.first().map(|text| text.to_string_lossy()).unwrap_or_default();
        let (mut flags, secrets) = match meaning {
            Meaning::Client => compat_client::information(name, &text, lookup)?,
            _ => compat_client::metadata(name, &text)?,
        };
        if self.remote.is_some() {
            // It comes back to its own address, whatever addresses the client has.
            flags.retain(|(ours, _)| !ours.starts_with("oauth-callback-"));
        }
        for (ours, value) in flags {
            self.make(name, ours, value.into());
        }
        // A client of ours has a secret of its own, or none.
        if !self.typed.contains("oauth-client-id") {
            self.done.secrets.extend(secrets);
        }
        Ok(())
    }

    fn header(&mut self, name: OsString, scheme: &str, value: &OsString) {
        let mut word = OsString::from("--header=");
        word.push(name);
        word.push(": ");
        word.push(scheme);
        word.push(value);
        self.done.args.push(word);
    }

    /// A flag of ours; where it was typed as well, that one stays. Of theirs, the first counts.
    fn make(&mut self, name: &str, ours: &str, value: OsString) {
        if self.typed.contains(ours) || !self.known.contains(ours) {
            return self.ignore(name);
        }
        if self.made.insert(ours.to_owned()) {
            let mut word = OsString::from(format!("--{ours}="));
            word.push(value);
            self.done.args.push(word);
        }
    }

    /// The same for a flag whose value is the one that was typed.
    fn rename(&mut self, name: &str, ours: &'static str, value: OsString) {
        if !self.typed.contains(ours) {
            self.done.renamed.add(name, ours);
        }
        self.make(name, ours, value);
    }

    fn ignore(&mut self, name: &str) {
        if !self.done.ignored.iter().any(|known| known == name) {
            self.done.ignored.push(name.to_owned());
        }
    }

    fn finish(mut self, program: Option<Program>, is_set: impl Fn(&str) -> bool) -> Translated {
        for (name, longest) in self.longest_silence() {
            self.make(&name, "timeout", longest.into());
        }
        let is_supplied = self.has_authorization
            || CREDENTIAL_SOURCES.iter().any(|source| self.typed.contains(*source));
        let token = program.and_then(|program| program.token).filter(|name| is_set(name));
        if let Some(variable) = token.filter(|_| !is_supplied) {
            self.make(variable, "bearer-env", variable.into());
        }
        if let Some(remote) = self.remote.take() {
            self.add_its_own(&remote);
        }
        self.done.args.append(&mut self.tail);
        self.done
    }

    /// What mcp-remote does without being told.
    fn add_its_own(&mut self, remote: &Remote) {
        for (ours, value) in [
            ("oauth-callback-host", compat_remote::HOST.to_owned()),
            ("oauth-callback-path", compat_remote::PATH.to_owned()),
            ("oauth-callback-port", remote.ports()),
        ] {
            if !self.typed.contains(ours) {
                self.make(ours, ours, value.into());
            }
        }
        for (ours, is_meant) in
            [("oauth-offered-scopes", true), ("profile-by-headers", !remote.headers.is_empty())]
        {
            if is_meant && !self.typed.contains(ours) && self.known.contains(ours) {
                self.done.args.push(format!("--{ours}").into());
            }
        }
    }

    /// The larger of the two, for each name that was typed. What worked there must not be cut here.
    fn longest_silence(&mut self) -> Vec<(String, String)> {
        let silences = std::mem::take(&mut self.silences);
        let of = |name: &str| silences.iter().find(|(known, _)| known == name);
        let both = ["--headers-timeout", "--body-timeout"]
            .map(|name| of(name).map_or(SILENCE, |(_, text)| text));
        let length = |text: &str| match seconds(text) {
            Ok(limit) if limit.is_zero() => std::time::Duration::MAX,
            limit => limit.unwrap_or_default(),
        };
        let longest = both.into_iter().max_by_key(|text| length(text)).unwrap_or(SILENCE);
        silences.iter().map(|(name, _)| (name.clone(), longest.to_owned())).collect()
    }
}

/// An OAuth callback port, which mcp-remote has behind the URL.
fn is_port(word: &OsString) -> bool {
    word.to_str().is_some_and(|text| text.parse::<u16>().is_ok())
}

/// Whether the words of a header's flag hold that header, in any of the forms.
fn is_authorization(words: &[OsString]) -> bool {
    words.iter().any(|word| {
        let text = word.to_string_lossy();
        let text =
            ["--header=", "-H"].iter().find_map(|flag| text.strip_prefix(flag)).unwrap_or(&text);
        let name = text.split(':').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case("authorization")
    })
}

/// The value, if it is what our flag takes: what is wrong is said under the name that was typed.
fn checked<T>(
    name: &str,
    value: &OsString,
    check: fn(&str) -> Result<T, String>,
) -> Result<String, Usage> {
    let text = value.to_string_lossy().into_owned();
    match check(&text) {
        Ok(_) => Ok(text),
        Err(why) => Err(Usage::new(format!("{name}: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::commands::Cli;

    /// What becomes of a line that is written with blanks, and what is ignored.
    fn of(line: &str) -> (String, String) {
        let translated = with(line, &[]).unwrap();
        let args = translated.args.iter().map(|word| word.to_str().unwrap());
        (args.skip(1).collect::<Vec<_>>().join(" "), translated.ignored.join(" "))
    }

    fn with(line: &str, set: &[&str]) -> Result<Translated, Usage> {
        let words = ["mcp-span"].into_iter().chain(line.split(' ').filter(|word| !word.is_empty()));
        let lookup = |name: &str| set.contains(&name).then(|| "x".to_owned());
        let is_name = |name: &str| name == "mcp-proxy@mine";
        translate(words.map(OsString::from).collect(), &Cli::command(), lookup, is_name)
    }

    fn becomes(line: &str, ours: &str) {
        assert_eq!(of(line), (ours.to_owned(), String::new()), "{line}");
    }

    #[test]
    fn flags_with_a_counterpart_are_put_into_our_words() {
        becomes("U --silent", "U --log-level=off");
        becomes("U --headers X-A 1 --sse V", "U --header=X-A: 1 --transport=sse V");
        becomes("--streamableHttp U", "--transport=http U");
        becomes(
            "--streamableHttp=U --oauth2Bearer T",
            "--transport=http U --header=Authorization: Bearer T",
        );
        becomes("--sse U --transport auto --logLevel none", "U --transport auto --log-level=none");
        becomes("-H X-A 1 U", "--header=X-A: 1 U");
        becomes("U --timeout-connect 3 --timeout-read 4", "U --connect-timeout=3 --timeout=4");
        becomes("U --bearer-token T -- --silent", "U --header=Authorization: Bearer T -- --silent");
    }

    #[test]
    fn a_program_that_is_also_the_name_of_a_server_is_left_alone_without_a_url() {
        // C36
        becomes("mcp-proxy@mine", "mcp-proxy@mine");
        becomes("connect mcp-proxy@mine --serial", "connect mcp-proxy@mine --serial");
        becomes("mcp-proxy@mine http://h/", "http://h/");
    }

    #[test]
    fn a_command_is_one_behind_flags_as_well() {
        // C36
        becomes("--config c.json check", "check --config c.json");
        becomes("--no-config config", "config --no-config");
        becomes("--config=c -v tools ok", "tools --config=c -v ok");
        becomes("-v tools -- cmd", "tools -v -- cmd");
        becomes("-v help", "help -v");
        becomes("--silent check", "check --log-level=off");
        becomes("-H X-A 1 status U", "status --header=X-A: 1 U");
        for ours in ["--config check", "--header check U", "-v -- check", "-v U check", "-y check"]
        {
            becomes(ours, ours);
        }
        becomes("--sse U check", "--transport=sse U check");
    }

    #[test]
    fn a_bare_keep_alive_is_thirty_seconds_and_an_interval_beats_it() {
        becomes("U --keep-alive", "U --keep-alive=30");
        becomes("--keep-alive http://h/", "--keep-alive=30 http://h/");
        becomes("U --keep-alive --debug", "U --keep-alive=30 --debug");
        becomes("U --keep-alive --ping-interval 60", "U --keep-alive=60");
        becomes("U --ping-interval 60 --keep-alive", "U --keep-alive=60");
        for ours in
            ["U --keep-alive 5", "U --keep-alive=5", "U --keep-alive -1", "U --keep-alive soon"]
        {
            becomes(ours, ours);
        }
        let both = of("U --keep-alive 5 --ping-interval 60");
        assert_eq!(both, ("U --keep-alive 5".into(), "--ping-interval".into()));
    }

    #[test]
    fn the_longer_of_two_timeouts_counts_and_none_is_the_longest() {
        becomes("U --headers-timeout 600", "U --timeout=600");
        becomes("U --headers-timeout 10", "U --timeout=300");
        becomes("U --headers-timeout 10 --body-timeout 20", "U --timeout=20");
        becomes("U --body-timeout 0 --headers-timeout 20", "U --timeout=0");
        let ours = of("U --body-timeout 0 --timeout 7");
        assert_eq!(ours, ("U --timeout 7".into(), "--body-timeout".into()));
    }

    #[test]
    fn names_of_programs_and_what_ran_them_are_left_out() {
        for line in [
            "mcp-remote U",
            "-y mcp-remote@latest U",
            "npx -y supergateway U",
            "/c npx mcp-remote U",
        ] {
            becomes(line, "U");
        }
        becomes("connect mcp-remote U", "connect U");
        becomes("login --import npx -y mcp-remote U", "login --import U");
        becomes("status --profile p --json mcp-remote U", "status --profile p --json U");
        becomes("config -y mcp-remote U --silent", "config U --log-level=off");
        becomes("npx -y supergateway http://h/", "http://h/");
        for ours in ["-y U", "npx U", "demo mcp-remote", "help mcp-remote", "config"] {
            becomes(ours, ours);
        }
    }

    #[test]
    fn the_name_of_a_program_is_known_behind_flags_and_before_the_url() {
        becomes("--log-level info mcp-remote U", "--log-level info U");
        becomes("-v npx -y mcp-remote@latest U -H A:b", "-v U -H A:b");
        becomes("--silent supergateway --sse U", "--log-level=off --transport=sse U");
        becomes("login --import mcp-remote U", "login --import U");
        becomes("-v login mcp-remote U --paste", "login -v U --paste");
        becomes("install claude-code mcp-remote U", "install claude-code U");
        becomes("install --force claude-code npx mcp-remote U", "install --force claude-code U");
        becomes("npx -p mcp-remote@latest mcp-remote U", "U");
        becomes("--package=mcp-remote mcp-remote U", "U");
        becomes("check a mcp-remote 99999", "check a mcp-remote 99999");
        // The value of a flag, and the name of a server, are no such name.
        for ours in ["--mcp-hub mcp-remote U", "-v mcp-proxy@mine", "-v -- mcp-remote U", "-p U"] {
            becomes(ours, ours);
        }
        becomes("-v mcp-proxy@mine http://h/", "-v http://h/");
        let own = "--oauth-callback-host=localhost --oauth-callback-path=/oauth/callback \
                   --oauth-callback-port=19392-19399 --oauth-offered-scopes";
        becomes("-v mcp-remote http://h/", &format!("-v http://h/ {own}"));
        becomes(
            "install claude-code mcp-remote http://h/",
            &format!("install claude-code http://h/ {own}"),
        );
    }

    #[test]
    fn a_port_is_a_second_word_and_a_number() {
        assert_eq!(of("U 9696"), ("U --oauth-callback-port=9696".into(), String::new()));
        assert_eq!(
            of("U --header A:b 9696 --host h.example"),
            ("U --header A:b --oauth-callback-port=9696".into(), "--host".into())
        );
        becomes("install claude-code U 9696", "install claude-code U --oauth-callback-port=9696");
        for ours in ["9696", "U V", "--timeout 5 U", "install 9696 U", "install claude-code 9696"] {
            becomes(ours, ours);
        }
    }

    #[test]
    fn under_the_name_of_mcp_remote_its_address_and_its_separation_are_ours() {
        let address = "--oauth-callback-host=localhost --oauth-callback-path=/oauth/callback";
        let scopes = "--oauth-offered-scopes";
        let ports = "--oauth-callback-port=19392-19399";
        becomes("mcp-remote http://h/", &format!("http://h/ {address} {ports} {scopes}"));
        becomes(
            "npx mcp-remote http://h/ 9696 -- x",
            &format!("http://h/ --oauth-callback-port=9696 {address} {scopes} -- x"),
        );
        becomes(
            "mcp-remote http://h/ 9696 --host 127.0.0.1 --callback-path /c",
            &format!(
                "http://h/ --oauth-callback-port=9696 --oauth-callback-host=127.0.0.1 \
                 --oauth-callback-path=/c {scopes}"
            ),
        );
        becomes(
            "mcp-remote http://h/ --oauth-callback-port 1 --header X-A:b",
            &format!(
                "http://h/ --oauth-callback-port 1 --header X-A:b {address} {scopes} --profile-by-headers"
            ),
        );
        let client = r#"{"client_id":"c","redirect_uris":["http://localhost:4000/x"]}"#;
        let (line, _) = of(&format!("mcp-remote http://h/ --static-oauth-client-info {client}"));
        assert!(
            line.ends_with(&format!(
                "--oauth-client-id=c {address} --oauth-callback-port=19392 {scopes}"
            )),
            "{line}"
        );
    }

    #[test]
    fn variables_of_others_count_only_where_their_program_is_named() {
        let set = ["API_ACCESS_TOKEN", "MCP_BEARER_TOKEN"];
        let last = |line: &str| with(line, &set).unwrap().args.pop().unwrap();
        assert_eq!(last("mcp-proxy U"), "--bearer-env=API_ACCESS_TOKEN");
        assert_eq!(last("uvx mcp-stdio U"), "--bearer-env=MCP_BEARER_TOKEN");
        for line in
            ["U", "mcp-remote U", "mcp-proxy --bearer-file f U", "mcp-proxy -H authorization x U"]
        {
            assert_eq!(last(line), "U", "{line}");
        }
        assert_eq!(with("mcp-proxy U", &[]).unwrap().args.len(), 2);
    }

    #[test]
    fn what_is_wrong_is_said_under_the_name_that_was_typed_and_without_its_value() {
        for (line, part) in [
            ("U --ping-interval s3cret", "--ping-interval: it must be a number"),
            ("U --ping-interval 0", "--ping-interval: it must be more than 0"),
            ("U --body-timeout -1", "--body-timeout: it must be"),
            ("U --resource", "--resource needs a value"),
            ("U --resource --silent", "--resource needs a value"),
            ("U 99999", "a port is 1 to 65535"),
            ("-v mcp-remote U 99999", "a port is 1 to 65535"),
            ("U mcp-remote@latest", "'mcp-remote' stands behind the URL"),
            ("npx -p mcp-remote@latest mcp-remote-client U", "'mcp-span tools URL'"),
            ("-v mcp-remote-client U", "'mcp-span call URL TOOL'"),
            ("U --headers s3cret", "--headers needs a name and a value"),
            ("U --silent=s3cret", "--silent is a switch"),
            ("U --oauth2Bearer=", "--oauth2Bearer: the token is empty"),
            ("U --oauth2Bearer s3cret --header authorization:s3cret", "leave one"),
            ("U --oauth2Bearer s3cret --bearer-token s3cret", "leave one"),
        ] {
            let text = with(line, &[]).unwrap_err().0;
            assert!(text.contains(part) && !text.contains("s3cret"), "{line}: {text}");
        }
    }
}
