//! Translates the command lines of mcp-remote and other bridges into ours, before they are parsed.
//!
//! Only what would be an error here is touched: a name that is ours has our meaning.

use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Duration;

use clap::{Arg, Command};

mod client_info;
mod flags;
pub(crate) mod mcp_remote;
pub(crate) mod oauth2_proxy;
mod program;
mod renamed;
mod words;

use super::args::whole;
use super::report::Usage;
use super::secrets::Secrets;
use client_info::Given;
use flags::{ANSWER_TIMEOUT, Meaning, Program};
use mcp_remote::Remote;
use mcp_span::options::{CREDENTIAL_SOURCES, is_callback_host, seconds, some_seconds};
use renamed::Renamed;
use words::{Item, Items, value};

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
    command_first(command, args.get_mut(1..).unwrap_or_default());
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
    let command = subcommand.unwrap_or(command);
    let typed = args.split_off(args.len().min(1 + usize::from(subcommand.is_some())));
    let mut items: Vec<Item> = Items::new(command, typed).collect::<Result<_, _>>()?;
    let words = items.iter_mut().filter(|item| matches!(item, Item::Word(_)));
    for item in words.take(words_before_url(command)) {
        if let Item::Word(word) = item {
            *item = Item::Ours(String::new(), vec![std::mem::take(word)]);
        }
    }
    let named = program::find(&items, is_name)?;
    let program = named.map(|(program, range)| {
        items.drain(range);
        program
    });
    let mut translator = Translator {
        translated: Translated { args, ..Translated::default() },
        takes_more_servers: command.get_positionals().any(|arg| arg.get_id() == "more"),
        known: command.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect(),
        ..Translator::default()
    };
    translator.scan(&items)?;
    if program.is_some_and(|program| program.is_mcp_remote) {
        translator.remote = Remote::from_items(&items);
    }
    for item in items {
        translator.add(item, &lookup)?;
    }
    let is_set = |name: &str| lookup(name).is_some_and(|value| !value.is_empty());
    Ok(translator.finish(program, is_set))
}

/// Puts the name of a command in front of the flags that were typed before it: they are its own, and
/// the name is not the name of a server (C36). `words` begin behind our program's name.
fn command_first(command: &Command, words: &mut [OsString]) {
    let mut items = Items::new(command, words.to_vec());
    // What is wrong will be said where the line is parsed.
    while let Some(Ok(item)) = items.next() {
        match item {
            Item::Theirs(_, Meaning::Url(_), _) | Item::Unknown(_) | Item::Rest(_) => return,
            Item::Ours(..) | Item::Theirs(..) => {}
            Item::Word(_) => {
                let name = item.text();
                if name == "help" || command.find_subcommand(name).is_some() {
                    let behind = words.len() - items.left();
                    words[..behind].rotate_right(1);
                }
                return;
            }
        }
    }
}

/// How many words stand before the URL: `install` has the name of a client there.
fn words_before_url(command: &Command) -> usize {
    let is_url = |arg: &Arg| arg.get_id() == "url";
    // An index is given by hand where the order of the definitions does not count.
    let by_hand = command.get_positionals().find(|arg| is_url(arg)).and_then(Arg::get_index);
    let defined = || command.get_positionals().take_while(|arg| !is_url(arg)).count();
    by_hand.map_or_else(defined, |index| index - 1)
}

/// The URL or the name of the server on a command line; a flag's value is neither.
pub(super) fn server_of(args: &[String]) -> Option<String> {
    let command = whole();
    let items = Items::new(&command, args.iter().map(OsString::from).collect());
    let items: Vec<Item> = items.collect::<Result<_, _>>().ok()?;
    let words = items.into_iter().filter_map(|item| match item {
        Item::Word(word) => Some(word),
        Item::Theirs(_, Meaning::Url(_), values) => values.into_iter().next(),
        // Others have nothing but the URL behind `--`.
        Item::Rest(words) => <[_; 1]>::try_from(words).ok().map(|[word]| word),
        _ => None,
    });
    let mut words = words.filter_map(|word| word.into_string().ok()).peekable();
    words.next_if(|word| word == "connect");
    words.next()
}

/// A command line in the making.
#[derive(Default)]
struct Translator {
    translated: Translated,
    /// What goes behind all flags.
    tail: Vec<OsString>,
    /// The flags of ours that were typed.
    typed: HashSet<String>,
    /// The flags of ours that came of others.
    made: HashSet<String>,
    takes_more_servers: bool,
    /// The flags that the command takes: what becomes of others means nothing to it.
    known: HashSet<String>,
    has_url: bool,
    has_interval: bool,
    has_authorization: bool,
    /// What mcp-remote makes of the line, where that is whose line it is.
    remote: Option<Remote>,
    /// Timeouts of answers, by the name that was typed.
    answer_timeouts: Vec<(String, String)>,
}

impl Translator {
    /// Ours wins over theirs wherever it stands, so it has to be known beforehand.
    fn scan(&mut self, items: &[Item]) -> Result<(), Usage> {
        let mut headers = 0;
        let mut bearers = 0;
        for item in items {
            match item {
                Item::Ours(name, words) => {
                    headers += usize::from(name == "header" && is_authorization(&value(words)));
                    self.typed.insert(name.clone());
                }
                Item::Theirs(_, Meaning::Header, words) => {
                    headers += usize::from(is_authorization(&words[0].to_string_lossy()));
                }
                Item::Theirs(_, Meaning::Bearer, _) => bearers += 1,
                Item::Theirs(_, Meaning::Seconds("keep-alive"), _) => self.has_interval = true,
                _ => {}
            }
        }
        self.has_authorization = headers + bearers > 0;
        if bearers > 0 && headers + bearers > 1 {
            return Err(Usage::new(
                "there is a bearer token and another 'Authorization' header: leave one of them out",
            ));
        }
        Ok(())
    }

    fn add(&mut self, item: Item, lookup: impl Fn(&str) -> Option<String>) -> Result<(), Usage> {
        match item {
            Item::Ours(_, words) => self.translated.args.extend(words),
            Item::Theirs(name, meaning, values) => {
                self.add_theirs(&name, meaning, values, lookup)?;
            }
            // An OAuth callback port, which mcp-remote has behind the URL.
            Item::Word(word) if self.has_url && word.to_str().is_some_and(is_port) => {
                self.set_flag("port", "oauth-callback-port", word);
            }
            Item::Word(word) => {
                let misplaced = program::misplaced(word.to_str().unwrap_or_default());
                let is_too_much = self.has_url && !self.takes_more_servers;
                if let Some(usage) = misplaced.filter(|_| is_too_much) {
                    return Err(usage);
                }
                self.has_url = true;
                self.translated.args.push(word);
            }
            Item::Unknown(word) => self.translated.args.push(word),
            Item::Rest(words) => self.tail = ["--".into()].into_iter().chain(words).collect(),
        }
        Ok(())
    }

    fn add_theirs(
        &mut self,
        name: &str,
        meaning: Meaning,
        values: Vec<OsString>,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<(), Usage> {
        let mut values = values.into_iter();
        let first = values.next().unwrap_or_default();
        let text = || first.to_string_lossy();
        match meaning {
            Meaning::Ignored => self.ignore(name),
            // `--ping-interval` says the same with a number.
            Meaning::Fixed("keep-alive", _) if self.has_interval => {}
            Meaning::Fixed(ours, value) => self.set_flag(name, ours, value.into()),
            Meaning::Renamed(ours) => self.rename_flag(name, ours, first),
            Meaning::Repeated(ours) => {
                self.made.remove(ours);
                self.rename_flag(name, ours, first);
            }
            Meaning::CallbackHost if is_callback_host(&text()) => {
                self.rename_flag(name, "oauth-callback-host", first);
            }
            Meaning::CallbackHost => self.ignore(name),
            Meaning::Seconds(ours) => {
                some_seconds(&text()).map_err(|why| Usage::new(format!("{name}: {why}")))?;
                self.rename_flag(name, ours, first);
            }
            Meaning::AnswerTimeout => {
                seconds(&text()).map_err(|why| Usage::new(format!("{name}: {why}")))?;
                self.answer_timeouts.push((name.to_owned(), text().into_owned()));
            }
            Meaning::Url(transport) => {
                if !self.typed.contains("transport") {
                    self.set_flag(name, "transport", transport.into());
                }
                self.has_url = true;
                self.translated.args.push(first);
            }
            Meaning::Bearer if first.is_empty() => {
                return Err(Usage::new(format!("{name}: the token is empty")));
            }
            Meaning::Bearer => self.header("Authorization".into(), "Bearer ", &first),
            Meaning::Header => self.header(first, "", &values.next().unwrap_or_default()),
            Meaning::Client => {
                let client = client_info::information(name, &text(), lookup)?;
                self.add_client(name, client);
            }
            Meaning::ClientMetadata => self.add_client(name, client_info::metadata(name, &text())?),
        }
        Ok(())
    }

    fn add_client(&mut self, name: &str, (flags, secrets): Given) {
        for (ours, value) in flags {
            // mcp-remote comes back to its own address, whatever addresses the client has.
            if self.remote.is_none() || !ours.starts_with("oauth-callback-") {
                self.set_flag(name, ours, value.into());
            }
        }
        // A client of ours has a secret of its own, or none.
        if !self.typed.contains("oauth-client-id") {
            self.translated.secrets.extend(secrets);
        }
    }

    fn header(&mut self, name: OsString, scheme: &str, value: &OsString) {
        let mut word = OsString::from("--header=");
        word.push(name);
        word.push(": ");
        word.push(scheme);
        word.push(value);
        self.translated.args.push(word);
    }

    /// A flag of ours; where it was typed as well, that one stays. Of theirs, the first counts.
    fn set_flag(&mut self, name: &str, ours: &str, value: OsString) {
        if self.typed.contains(ours) || !self.known.contains(ours) {
            return self.ignore(name);
        }
        if self.made.insert(ours.to_owned()) {
            let mut word = OsString::from(format!("--{ours}="));
            word.push(value);
            self.translated.args.push(word);
        }
    }

    /// The same for a flag whose value is the one that was typed.
    fn rename_flag(&mut self, name: &str, ours: &'static str, value: OsString) {
        if !self.typed.contains(ours) {
            self.translated.renamed.add(name, ours);
        }
        self.set_flag(name, ours, value);
    }

    fn ignore(&mut self, name: &str) {
        if !self.translated.ignored.iter().any(|known| known == name) {
            self.translated.ignored.push(name.to_owned());
        }
    }

    fn finish(mut self, program: Option<Program>, is_set: impl Fn(&str) -> bool) -> Translated {
        let timeouts = std::mem::take(&mut self.answer_timeouts);
        let longest = longest_timeout(&timeouts);
        for (name, _) in &timeouts {
            self.set_flag(name, "timeout", longest.into());
        }
        let is_supplied = self.has_authorization
            || CREDENTIAL_SOURCES.iter().any(|source| self.typed.contains(*source));
        let token = program.and_then(|program| program.token).filter(|name| is_set(name));
        if let Some(variable) = token.filter(|_| !is_supplied) {
            self.set_flag(variable, "bearer-env", variable.into());
        }
        // What mcp-remote does without being told.
        if let Some(remote) = self.remote.take() {
            for (ours, value) in [
                ("oauth-callback-host", mcp_remote::HOST.to_owned()),
                ("oauth-callback-path", mcp_remote::PATH.to_owned()),
                ("oauth-callback-port", remote.ports()),
            ] {
                if !self.typed.contains(ours) {
                    self.set_flag(ours, ours, value.into());
                }
            }
            self.switch_on("oauth-offered-scopes");
            if !remote.headers.is_empty() {
                self.switch_on("profile-by-headers");
            }
        }
        self.translated.args.append(&mut self.tail);
        self.translated
    }

    fn switch_on(&mut self, ours: &str) {
        if !self.typed.contains(ours) && self.known.contains(ours) {
            self.translated.args.push(format!("--{ours}").into());
        }
    }
}

/// The larger of mcp-remote's two timeouts of answers: what worked there must not be cut here.
fn longest_timeout(typed: &[(String, String)]) -> &str {
    let both = ["--headers-timeout", "--body-timeout"].map(|name| {
        let found = typed.iter().find(|(known, _)| known == name);
        found.map_or(ANSWER_TIMEOUT, |(_, text)| text)
    });
    let length = |text: &&str| match seconds(text) {
        Ok(limit) if limit.is_zero() => Duration::MAX,
        limit => limit.unwrap_or_default(),
    };
    both.into_iter().max_by_key(length).unwrap_or(ANSWER_TIMEOUT)
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

fn is_authorization(header: &str) -> bool {
    header.split(':').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("authorization"))
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
