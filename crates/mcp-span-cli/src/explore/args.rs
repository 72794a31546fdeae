//! The arguments of the commands that explore a server: which server, and the words behind it.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Args, Command};
use url::Url;

use crate::args::{Connect, LOCAL_HUB};
use crate::report::Usage;

/// Which server, and what to do there.
#[derive(Args)]
pub(crate) struct Target {
    /// Print JSON for a program, as the server wrote it; errors are JSON on stderr
    #[arg(long)]
    pub(crate) json: bool,

    /// Tell the server the working directory, if it asks for roots
    #[arg(long)]
    pub(crate) roots: bool,

    /// What to do there
    pub(crate) words: Vec<String>,

    #[command(flatten)]
    pub(crate) connect: Connect,
}

#[derive(Args)]
pub(crate) struct Call {
    /// Send the arguments as they are, whatever the tool's schema says
    #[arg(long)]
    pub(crate) no_check: bool,

    /// Save images, sounds and other files in this file or folder
    #[arg(long, value_name = "FILE|DIR/")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Args)]
pub(crate) struct Read {
    /// Save the resource in this file, or what is not text in this folder; '-' is stdout
    #[arg(long, value_name = "FILE|DIR/")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Args)]
pub(crate) struct Raw {
    /// Send a notification, which has no answer
    #[arg(long)]
    pub(crate) notify: bool,

    #[command(flatten)]
    pub(crate) target: Target,
}

impl Target {
    /// The target is the first word, unless it stands elsewhere: behind `--`, with --mcp-hub, or in
    /// a variable while the first word is no server.
    pub(crate) fn find_server(
        &mut self,
        matches: &ArgMatches,
        has_variable: bool,
        is_server: impl Fn(&str) -> bool,
    ) {
        let options = &mut self.connect.options;
        if options.command.is_some() || options.mcp_hub.is_some() {
            self.words.splice(0..0, options.url.take());
            self.give_back_word(matches);
        } else if has_variable {
            self.words.splice(0..0, options.url.take_if(|word| !is_server(word)));
        }
        if self.connect.options.command.is_some() {
            self.connect.options.mcp_hub = None;
        }
    }

    /// The words behind the server, if the command takes so many.
    pub(super) fn words(&self, command: &str) -> Result<&[String], Usage> {
        let known = WORDS.into_iter().find(|(name, ..)| *name == command);
        let Some((_, names, count, _)) = known.filter(|known| !known.2.contains(&self.words.len()))
        else {
            return Ok(&self.words);
        };
        let wrong = if self.words.len() < *count.start() { "few" } else { "many" };
        let usage = format!("usage: mcp-span {command} <URL> {names}");
        Err(Usage::new(format!("too {wrong} arguments for '{command}'")).hint(usage.trim_end()))
    }

    /// `--mcp-hub` may stand without a URL before a word, which it has then taken for one.
    fn give_back_word(&mut self, matches: &ArgMatches) {
        let Some(hub) = &mut self.connect.options.mcp_hub else { return };
        if names_hub(hub) {
            return;
        }
        let word = std::mem::replace(hub, LOCAL_HUB.to_owned());
        let places = |id: &str| matches.indices_of(id).into_iter().flatten();
        let place = matches.index_of("mcp-hub").unwrap_or_default();
        let before = places("url").chain(places("words")).filter(|index| *index < place).count();
        self.words.insert(before.min(self.words.len()), word);
    }
}

/// Whether `value` says where a hub is. A host with a port does, without a scheme, too: what is
/// wrong with it is said elsewhere.
fn names_hub(value: &str) -> bool {
    let has_scheme = Url::parse(value).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    let has_port = value.split_once(':').is_some_and(|(host, rest)| {
        let port = rest.split('/').next().unwrap_or_default();
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        is_number && !host.is_empty() && !host.contains('=')
    });
    value == LOCAL_HUB || has_scheme || has_port
}

/// The words behind the server of each command, how many there may be, and what they mean.
const WORDS: [(&str, &str, RangeInclusive<usize>, &str); 7] = [
    ("tools", "[NAME]", 0..=1, "The tool to show in full, with its schema"),
    ("resources", "", 0..=0, ""),
    ("prompts", "[NAME]", 0..=1, "The prompt to show in full"),
    (
        "call",
        "TOOL [ARGUMENTS…]",
        1..=usize::MAX,
        "The tool, and its arguments: one JSON object, @FILE or - (stdin) with one, or pairs: \
         key=value (converted to the type that the schema names), key=@FILE (a text file), \
         key:=JSON, outer.inner=value; a list's key may be repeated",
    ),
    ("read", "URI", 1..=1, "The resource"),
    (
        "prompt",
        "NAME [key=value…]",
        1..=usize::MAX,
        "The prompt, and what is filled in; key=@FILE takes a text file",
    ),
    (
        "raw",
        "METHOD [PARAMS]",
        1..=2,
        "The method, and its parameters as JSON, @FILE or - (stdin); sent as they are",
    ),
];

/// How long a person waits for a server that cannot be reached: much shorter than a client does.
pub(crate) const CONNECT_WAIT: Duration = Duration::from_secs(1);

const EXIT_CODES: &str = "Exit codes:\n  \
    0    done\n  \
    1    the tool reported an error, or the server answered with one\n  \
    2    wrong usage or configuration: no such tool, arguments that do not fit\n  \
    3    the server cannot be reached, or did not answer\n  \
    4    a login or other credentials are needed\n  \
    130  Ctrl-C; the server was told to stop";

/// The commands that explore a server, with what is different between them.
pub(crate) fn described(mut command: Command) -> Command {
    for (name, words, _, help) in WORDS {
        let indent = " ".repeat("Usage: ".len());
        let behind = if words.is_empty() { String::new() } else { format!(" {words}") };
        let usage = format!(
            "mcp-span {name} [OPTIONS] <URL>{behind}\n{indent}mcp-span {name} [OPTIONS]{behind} \
             -- COMMAND [ARGS]…"
        );
        command = command.mut_subcommand(name, |command| {
            command
                .override_usage(usage)
                .after_help(EXIT_CODES)
                // The program, which is behind `--`, must have the last number and the last place.
                // All at once: one by one they would change their places.
                .mut_args(|arg| match arg.get_id().as_str() {
                    "url" => arg.index(1),
                    "words" => arg.index(2).value_name(words).help(help).hide(words.is_empty()),
                    "program" => arg.index(3),
                    _ => arg,
                })
        });
    }
    command
}

/// The same command with the defaults that are other ones.
pub(crate) fn documented(mut command: Command) -> Command {
    for (name, ..) in WORDS {
        command = command.mut_subcommand(name, |command| {
            let text = CONNECT_WAIT.as_secs_f64().to_string();
            command.mut_arg("connect-wait", |arg| arg.default_value(text))
        });
    }
    command
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::args;
    use crate::config_file::ConfigFile;
    use crate::secrets::Secrets;
    use crate::target::is_url;

    /// The URL, the hub, the words and the program of a command line.
    fn target(line: &str, url: Option<&str>) -> (Option<String>, Option<String>, String, String) {
        let typed: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let parsed = args::parse(typed.clone(), args::command(&typed));
        let args::Parsed { mut cli, matches, .. } = parsed.unwrap_or_else(|_| panic!("{line}"));
        let matches = matches.subcommand().unwrap().1;
        let typed = cli.target_mut().unwrap();
        typed.find_server(matches, url.is_some(), is_url);
        let options = &typed.connect.options;
        let program: Vec<_> =
            options.command.iter().flatten().map(|word| word.to_string_lossy()).collect();
        let url = options.url.clone().or(url.map(str::to_owned));
        let url = url.filter(|_| program.is_empty());
        (url, options.mcp_hub.clone(), typed.words.join(" "), program.join(" "))
    }

    #[test]
    fn the_server_is_the_first_word_unless_it_stands_elsewhere() {
        let some = |text: &str| Some(text.to_owned());
        let is = |line: &str, url, hub, words: &str, program: &str| {
            let expected = (url, hub, words.to_owned(), program.to_owned());
            assert_eq!(target(line, None), expected, "{line}");
        };
        is("mcp-span tools https://a/b", some("https://a/b"), None, "", "");
        is("mcp-span call https://a/b t x=1 y=2", some("https://a/b"), None, "t x=1 y=2", "");
        is("mcp-span call t x=1 --json -- npx -y s -- t", None, None, "t x=1", "npx -y s -- t");
        is("mcp-span raw -- p", None, None, "", "p");
        is("mcp-span call --mcp-hub=local t x=1", None, some("local"), "t x=1", "");
        let hub = some("http://h:1/mcp");
        is("mcp-span call --mcp-hub http://h:1/mcp t x=1", None, hub, "t x=1", "");
        is("mcp-span tools --mcp-hub localhost:1", None, some("localhost:1"), "", "");
        // The flag without a URL, wherever it stands.
        is("mcp-span call --mcp-hub t x=1 y=2", None, some("local"), "t x=1 y=2", "");
        is("mcp-span call t --mcp-hub x=1 y=2", None, some("local"), "t x=1 y=2", "");
        is("mcp-span call t x=1 --mcp-hub y=2", None, some("local"), "t x=1 y=2", "");
        is("mcp-span call t x=1 --mcp-hub", None, some("local"), "t x=1", "");
        is("mcp-span call --mcp-hub t x=h:1", None, some("local"), "t x=h:1", "");
        is("mcp-span tools --mcp-hub t", None, some("local"), "t", "");
        is("mcp-span read --mcp-hub note://1", None, some("local"), "note://1", "");
        let elsewhere = target("mcp-span tools -- p -x", Some("https://a/b"));
        assert_eq!(elsewhere, (None, None, String::new(), "p -x".to_owned()));
        let elsewhere = target("mcp-span tools", Some("https://a/b"));
        assert_eq!(elsewhere.0, some("https://a/b"));
        let elsewhere = target("mcp-span call t x=1", Some("https://a/b"));
        assert_eq!(elsewhere, (some("https://a/b"), None, "t x=1".to_owned(), String::new()));
        let typed = target("mcp-span call https://c/d t", Some("https://a/b"));
        assert_eq!(typed, (some("https://c/d"), None, "t".to_owned(), String::new()));
    }

    #[test]
    fn a_person_waits_for_a_second_unless_told_otherwise() {
        let wait = |line: &str| {
            let typed: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let parsed = args::parse(typed.clone(), args::command(&typed));
            let mut parsed = parsed.unwrap_or_else(|_| panic!("{line}"));
            let line = crate::behind(&mut parsed, ConfigFile::default(), Secrets::default());
            line.unwrap().connect().unwrap().options.connect_wait().as_secs()
        };
        assert_eq!(wait("mcp-span tools https://a/b"), 1);
        assert_eq!(wait("mcp-span raw https://a/b x --connect-wait 7"), 7);
        assert_eq!(wait("mcp-span connect https://a/b"), 25);
    }
}
