//! Completion candidates: which words may stand at the cursor of a shell. Pure.

use clap::builder::StyledStr;
use clap::{Arg, Command, ValueHint};

/// A word, and its description.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) word: String,
    pub(super) about: String,
}

/// What a shell is to offer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offer {
    Words(Vec<Candidate>),
    /// Names of files, which the shell knows itself.
    Files,
}

/// What may stand in place of `current`, after the words `before` (without the program's name).
/// `command` is built; `servers` are the names in the configuration file, `tools` gives the names of
/// a server's tools.
pub(super) fn offer(
    command: &Command,
    before: &[String],
    current: &str,
    servers: &[String],
    tools: impl Fn(&str) -> Vec<String>,
) -> Offer {
    let Some(place) = Place::after(before, command) else { return Offer::Files };
    if let Some(flag) = place.wants_value {
        return values(flag, "", current);
    }
    if let Some((name, value)) = current.split_once('=').filter(|_| current.starts_with("--")) {
        let flag = place.scope.get_arguments().find(|arg| is_long(arg, name));
        let nothing = Offer::Words(Vec::new());
        return flag.map_or(nothing, |flag| values(flag, &format!("{name}="), value));
    }
    if current.starts_with('-') {
        return beginning_with(flags(place.scope), current);
    }
    let mut words = if place.is_first() { subcommands(place.scope) } else { Vec::new() };
    match place.positional() {
        Some(arg) if is_server(arg) => {
            let servers = servers.iter().filter(|name| is_word(name));
            words.extend(servers.map(|name| candidate(name, "a server of the configuration file")));
        }
        Some(arg) if place.is_tool(arg) => {
            let tools = place.target.map(tools).unwrap_or_default();
            words.extend(tools.iter().map(|name| candidate(name, "a tool of the server")));
        }
        Some(arg) if words.is_empty() => return values(arg, "", current),
        _ => {}
    }
    beginning_with(words, current)
}

/// Where the cursor is.
struct Place<'a> {
    root: &'a Command,
    /// The command that is typed, or the program itself.
    scope: &'a Command,
    /// A flag that is incomplete without the next word.
    wants_value: Option<&'a Arg>,
    /// How many words without a flag the scope has got.
    positionals: usize,
    /// The first of them.
    target: Option<&'a str>,
}

impl<'a> Place<'a> {
    /// `None` after `--`, where the words are those of another program.
    fn after(words: &'a [String], root: &'a Command) -> Option<Self> {
        let mut place = Self { root, scope: root, wants_value: None, positionals: 0, target: None };
        for word in words {
            place.pass(word)?;
        }
        Some(place)
    }

    fn pass(&mut self, word: &'a str) -> Option<()> {
        if self.wants_value.take().is_some() {
            return Some(());
        }
        if word == "--" {
            return None;
        }
        if word.starts_with('-') && word.len() > 1 {
            let is_it = |arg: &&Arg| is_long(arg, word) || is_short(arg, word);
            self.wants_value = self.scope.get_arguments().find(is_it).filter(|arg| wants(arg));
            return Some(());
        }
        match self.root.find_subcommand(word).filter(|_| self.is_first()) {
            Some(command) => self.scope = command,
            None => {
                self.positionals += 1;
                self.target.get_or_insert(word);
            }
        }
        Some(())
    }

    /// Whether a command may stand here.
    fn is_first(&self) -> bool {
        std::ptr::eq(self.scope, self.root) && self.positionals == 0
    }

    /// Whether the name of a tool stands where `arg` does.
    fn is_tool(&self, arg: &Arg) -> bool {
        let has_tools = matches!(self.scope.get_name(), "tools" | "call");
        has_tools && arg.get_id() == "words" && self.positionals == 1
    }

    /// What the next word without a flag is.
    fn positional(&self) -> Option<&'a Arg> {
        let all = self.scope.get_positionals().filter(|arg| !arg.is_last_set());
        let mut all: Vec<&Arg> = all.collect();
        all.sort_by_key(|arg| arg.get_index());
        let last = all.last().copied();
        let takes_more = |arg: &&Arg| arg.get_num_args().is_some_and(|n| n.max_values() > 1);
        all.get(self.positionals).copied().or_else(|| last.filter(takes_more))
    }
}

fn is_long(arg: &Arg, word: &str) -> bool {
    let Some(name) = word.strip_prefix("--") else { return false };
    arg.get_long() == Some(name) || arg.get_all_aliases().unwrap_or_default().contains(&name)
}

fn is_short(arg: &Arg, word: &str) -> bool {
    let mut letters = word.chars().skip(1);
    letters.next().is_some_and(|letter| arg.get_short() == Some(letter)) && letters.next().is_none()
}

/// Whether a flag is incomplete without a word after it.
fn wants(arg: &Arg) -> bool {
    let least = arg.get_num_args().map_or(1, |number| number.min_values());
    arg.get_action().takes_values() && least > 0
}

/// Whether the name of a server, or its URL, stands there.
fn is_server(arg: &Arg) -> bool {
    matches!(arg.get_id().as_str(), "url" | "more")
}

fn values(arg: &Arg, prefix: &str, current: &str) -> Offer {
    let all = arg.get_possible_values();
    if all.is_empty() && !matches!(arg.get_value_hint(), ValueHint::Unknown | ValueHint::Other) {
        return Offer::Files;
    }
    let shown = all.iter().filter(|value| !value.is_hide_set());
    let word = |name| format!("{prefix}{name}");
    let all = shown.map(|value| described(&word(value.get_name()), value.get_help()));
    beginning_with(all.collect(), &word(current))
}

fn flags(scope: &Command) -> Vec<Candidate> {
    let shown = scope.get_arguments().filter(|arg| !arg.is_hide_set());
    let flag = |arg: &Arg| Some(described(&format!("--{}", arg.get_long()?), arg.get_help()));
    shown.filter_map(flag).collect()
}

fn subcommands(root: &Command) -> Vec<Candidate> {
    let shown = root.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| described(command.get_name(), command.get_about())).collect()
}

fn described(word: &str, about: Option<&StyledStr>) -> Candidate {
    candidate(word, &about.map(ToString::to_string).unwrap_or_default())
}

fn candidate(word: &str, about: &str) -> Candidate {
    let about = about.lines().next().unwrap_or_default().replace('\t', " ");
    Candidate { word: word.to_owned(), about }
}

/// Whether a shell can be given it on a line.
fn is_word(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-') && !name.contains(char::is_control)
}

fn beginning_with(mut all: Vec<Candidate>, start: &str) -> Offer {
    all.retain(|candidate| candidate.word.starts_with(start));
    Offer::Words(all)
}

/// Joins what bash has cut at `=` and `:`: the words before the cursor, and the part of the word at
/// the cursor that bash will replace.
pub(super) fn as_typed(words: &[String]) -> (Vec<String>, String) {
    let (current, before) = words.split_last().map_or(("", &[][..]), |(c, b)| (c.as_str(), b));
    let mut typed: Vec<String> = Vec::new();
    let mut is_cut = false;
    for word in before {
        match typed.last_mut() {
            // A flag and its value are two words to us, whichever way they are written.
            Some(last) if word == "=" && last.starts_with("--") => {}
            Some(last) if word == ":" || is_cut => last.push_str(word),
            _ => typed.push(word.clone()),
        }
        is_cut = word == ":";
    }
    (typed, if current == "=" { String::new() } else { current.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::super::args;
    use super::*;

    fn offered(line: &str) -> Offer {
        let mut command = args::whole();
        command.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (before, current) = as_typed(&words);
        offer(
            &command,
            &before,
            &current,
            &["docs".into(), "no tion".into(), "a\nb".into()],
            |server| vec![format!("{server}_read"), "echo".to_owned()],
        )
    }

    fn words(line: &str) -> Vec<String> {
        match offered(line) {
            Offer::Words(all) => all.into_iter().map(|candidate| candidate.word).collect(),
            Offer::Files => vec!["(files)".to_owned()],
        }
    }

    #[test]
    fn commands_come_first_then_servers_and_no_flag_before_a_dash() {
        let all = words("");
        assert_eq!(all[0], "connect");
        assert_eq!(all[all.len() - 2..], ["docs", "no tion"], "a name over two lines is none");
        assert!(all.iter().all(|word| !word.starts_with('-')) && all.len() < 30, "{all:?}");
        assert_eq!(words("d"), ["demo", "docs"]);
        let flags = words("-");
        assert!(flags.len() > 30 && flags.iter().all(|word| word.starts_with("--")), "{flags:?}");
    }

    #[test]
    fn servers_stand_where_a_server_does() {
        for line in ["tools ", "call ", "status ", "check ", "check docs ", "connect ", "-v "] {
            assert!(words(line).contains(&"docs".to_owned()), "{line}");
        }
        for line in ["tools docs ", "call docs ", "docs ", "trace d", "man "] {
            assert!(!words(line).contains(&"docs".to_owned()), "{line}");
        }
        assert!(words("install ").contains(&"claude-code".to_owned()), "{:?}", words("install "));
        assert_eq!(words("install claude-code d"), ["docs"]);
    }

    #[test]
    fn tools_stand_behind_their_server() {
        assert_eq!(words("call docs "), ["docs_read", "echo"]);
        assert_eq!(words("tools --json docs e"), ["echo"]);
        assert_eq!(words("call https : //h/mcp http"), ["https://h/mcp_read"]);
        for line in ["call docs echo ", "resources docs ", "read docs ", "call -- npx "] {
            assert!(!words(line).contains(&"echo".to_owned()), "{line}");
        }
    }

    #[test]
    fn flags_and_their_values_are_those_of_the_command() {
        assert_eq!(words("call --no-ch"), ["--no-check"]);
        assert_eq!(words("completions z"), ["zsh"]);
        assert_eq!(words("--transport s"), ["sse"]);
        assert_eq!(words("docs --transport ss"), ["sse"]);
        assert_eq!(words("--transport=ss"), ["--transport=sse"]);
        assert_eq!(words("--transport = ss"), ["sse"], "as bash cuts it");
        assert_eq!(words("--no-such-flag=x"), Vec::<String>::new());
        assert_eq!(words("--header-file "), ["(files)"]);
        assert_eq!(words("trace "), ["(files)"]);
        assert_eq!(words("-- npx "), ["(files)"]);
        assert_eq!(words("--header x"), Vec::<String>::new());
    }

    #[test]
    fn a_url_is_one_word_however_a_shell_cuts_it() {
        assert_eq!(words("install claude-code https : //h/mcp --scope u"), ["user"]);
        assert!(!words("call https : //h/mcp ").contains(&"docs".to_owned()));
    }
}
