//! One entry: what its keys say, put together to a server, or what is wrong with it.

use std::path::PathBuf;

use url::Url;

use super::document::{Member, Node, Value};
use super::expand::{Expanded, Lookup};
use super::keys;
use super::{ConfigEntry, ConfigError, FilePlace, scalar};
use crate::options::{Given, Origin, ServerOptions, find};
use crate::secret::{Secret, is_secret_name};
use crate::transport::http::Transport;

/// Reads what stands under a server's name.
pub(super) fn read(member: &Member, lookup: Lookup<'_>) -> Result<ConfigEntry, ConfigError> {
    let mut reader = Reader { member, lookup, is_off: false, secrets: Vec::new(), env: Vec::new() };
    reader.is_off = !reader.enabled()?;
    reader.entry()
}

/// The name stands twice.
pub(super) fn twice(member: &Member, first: usize) -> ConfigError {
    ConfigError {
        place: member.place.clone(),
        server: Some(member.key.clone()),
        key: Some(member.key.clone()),
        message: format!("the name '{}' is in use already, on line {first}", member.key),
        is_off: false,
    }
}

pub(super) struct Reader<'a> {
    member: &'a Member,
    pub(super) lookup: Lookup<'a>,
    is_off: bool,
    pub(super) secrets: Vec<Secret>,
    /// The entry's own variables, which its other texts may name.
    env: Vec<(String, Secret)>,
}

/// What `type` or `transport` says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Child,
    Remote(Transport),
}

impl<'a> Reader<'a> {
    fn entry(mut self) -> Result<ConfigEntry, ConfigError> {
        if self.member.key.is_empty() {
            return Err(self.fault(&self.member.place, None, "the server has no name"));
        }
        let mut ignored = self.check_keys()?;
        self.env = self.env()?;
        let kind = self.kind()?;
        let mut options = match (self.command()?, self.url()?) {
            (Some(_), Some(url)) => {
                let message = format!("both \"command\" and \"{}\" are set", url.key);
                return Err(self.fault(&url.place, Some(&url.key), &message));
            }
            (Some(command), None) => self.child(command, kind)?,
            (None, Some(url)) => self.remote(url, kind)?,
            (None, None) => return Err(self.nowhere(kind)),
        };
        ignored.extend(self.meaningless(options.command.is_some()));
        self.set_options(&mut options)?;
        options.secrets = self.secrets;
        Ok(ConfigEntry {
            name: self.member.key.clone(),
            place: self.member.place.clone(),
            enabled: !self.is_off,
            options,
            ignored,
        })
    }

    /// Where an option of this entry is set.
    pub(super) fn origin(&self, member: &Member) -> Origin {
        Origin::Server(self.member.key.clone(), member.place.clone())
    }

    pub(super) fn members(&self) -> Result<&'a [Member], ConfigError> {
        self.member.value.members().ok_or_else(|| {
            let place = &self.member.value.place;
            self.fault(place, None, "it must be an object with \"command\" or \"url\"")
        })
    }

    /// The member of that name, unless it is null.
    pub(super) fn get(&self, key: &str) -> Option<&'a Member> {
        let members = self.member.value.members().unwrap_or_default();
        members.iter().find(|m| m.key == key && !matches!(m.value.value, Value::Null))
    }

    /// The keys that are none of ours. Slips are found, since what they say would be missing.
    fn check_keys(&self) -> Result<Vec<String>, ConfigError> {
        let mut known: Vec<String> = Vec::new();
        let mut ignored = Vec::new();
        for member in self.members()? {
            let key = &*member.key;
            let name = keys::flag_name(key);
            if known.contains(&name) {
                return Err(self.wrong(member, "it stands there twice"));
            }
            if !keys::OWN.contains(&key) && keys::option(key).is_none() {
                if let Some(meant) = keys::meant(key) {
                    let message = format!("unknown key \"{key}\", did you mean \"{meant}\"?");
                    return Err(self.fault(&member.place, Some(key), &message));
                }
                ignored.push(key.to_owned());
            }
            known.push(name);
        }
        Ok(ignored)
    }

    fn enabled(&self) -> Result<bool, ConfigError> {
        let mut is_on = true;
        for (key, on) in [("enabled", true), ("isActive", true), ("disabled", false)] {
            if let Some(member) = self.get(key) {
                let flag = scalar::switch(&member.value, self.lookup);
                is_on &= flag.map_err(|why| self.wrong(member, &why))? == on;
            }
        }
        Ok(is_on)
    }

    fn kind(&self) -> Result<Option<Kind>, ConfigError> {
        // Ours says more than theirs.
        let Some(member) = self.get("transport").or_else(|| self.get("type")) else {
            return Ok(None);
        };
        let text = scalar::text(&member.value, self.lookup);
        let text = text.map_err(|why| self.wrong(member, &why))?.text;
        match &*text.to_ascii_lowercase() {
            "stdio" => Ok(Some(Kind::Child)),
            "auto" | "http-first" | "sse-first" => Ok(Some(Kind::Remote(Transport::Auto))),
            "http" | "http-only" | "streamable-http" | "streamable_http" | "streamablehttp" => {
                Ok(Some(Kind::Remote(Transport::Http)))
            }
            "sse" | "sse-only" => Ok(Some(Kind::Remote(Transport::Sse))),
            "ws" | "websocket" => Err(self.wrong(member, "WebSocket is not spoken here")),
            _ => Err(self.wrong(member, "it must be stdio, http, sse or auto")),
        }
    }

    /// The program. An empty text is what a form leaves behind.
    fn command(&self) -> Result<Option<Command<'a>>, ConfigError> {
        let Some(member) = self.get("command") else { return Ok(None) };
        let beside = Command { path: &member.value, args: self.get("args") };
        match &member.value.value {
            Value::Text(text) if text.is_empty() => Ok(None),
            Value::Text(_) => Ok(Some(beside)),
            // Zed's older form has it all in one object.
            Value::Object(members) => {
                let find = |key: &str| members.iter().find(|member| member.key == key);
                let path = find("path").map(|path| &path.value).ok_or_else(|| {
                    self.fault(&member.value.place, Some("command.path"), "it is missing")
                })?;
                Ok(Some(Command { path, args: find("args") }))
            }
            _ => Err(self.wrong(member, "it must be a text: arguments stand in \"args\"")),
        }
    }

    fn url(&self) -> Result<Option<&'a Member>, ConfigError> {
        let is_empty = |m: &Member| matches!(&m.value.value, Value::Text(text) if text.is_empty());
        let mut set = ["url", "serverUrl", "httpUrl"]
            .into_iter()
            .filter_map(|key| self.get(key))
            .filter(|member| !is_empty(member));
        let first = set.next();
        if let (Some(first), Some(second)) = (first, set.next()) {
            let message = format!("both \"{}\" and \"{}\" are set", first.key, second.key);
            return Err(self.fault(&second.place, Some(&second.key), &message));
        }
        Ok(first)
    }

    fn child(
        &mut self,
        command: Command<'_>,
        kind: Option<Kind>,
    ) -> Result<ServerOptions, ConfigError> {
        if let Some(Kind::Remote(transport)) = kind {
            return Err(self.without_url(transport));
        }
        let mut words = vec![self.text(command.path, "command")?.into()];
        if let Some(member) = command.args {
            let list = match &member.value.value {
                Value::List(list) => &list[..],
                Value::Null => &[],
                _ => return Err(self.wrong(member, "it must be a list of texts")),
            };
            for (n, node) in list.iter().enumerate() {
                words.push(self.text(node, &format!("args[{n}]"))?.into());
            }
        }
        let cwd = self.get("cwd").map(|member| self.text(&member.value, "cwd")).transpose()?;
        Ok(ServerOptions {
            command: Some(words),
            env: Some(std::mem::take(&mut self.env)),
            cwd: cwd.filter(|cwd| !cwd.is_empty()).map(PathBuf::from),
            ..ServerOptions::default()
        })
    }

    fn remote(
        &mut self,
        member: &Member,
        kind: Option<Kind>,
    ) -> Result<ServerOptions, ConfigError> {
        let transport = match kind {
            Some(Kind::Child) => return Err(self.nowhere(kind)),
            Some(Kind::Remote(transport)) => transport,
            None => Transport::Auto,
        };
        let text = self.text(&member.value, &member.key)?;
        let url = Url::parse(&text).ok().filter(Url::has_host);
        let url = url.ok_or_else(|| self.wrong(member, "this is not a URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            let message = format!("only http and https are spoken, not '{}'", url.scheme());
            return Err(self.wrong(member, &message));
        }
        let mut options = ServerOptions {
            headers: self.headers()?,
            transport: Some(transport).filter(|transport| *transport != Transport::Auto),
            ..ServerOptions::default()
        };
        options.note("header", self.get("headers").or_else(|| self.get("header")), self);
        options.note("transport", self.get("transport").or_else(|| self.get("type")), self);
        let origin = self.origin(member);
        let set = find("url").map(|option| options.set(option, Given::Text(url.as_str()), origin));
        set.transpose().map_err(|why| self.wrong(member, &why))?;
        Ok(options)
    }

    fn nowhere(&self, kind: Option<Kind>) -> ConfigError {
        let source = self.get("source").map(|member| &member.value.value);
        let message = match kind {
            Some(Kind::Remote(transport)) => return self.without_url(transport),
            None if matches!(source, Some(Value::Text(text)) if text == "extension") => {
                "it comes with an extension of the editor, which alone knows its command"
            }
            None => "stdio server requires \"command\" field, and a remote one \"url\"",
            Some(Kind::Child) => "stdio server requires \"command\" field",
        };
        self.fault(&self.member.place, Some("command"), message)
    }

    fn without_url(&self, transport: Transport) -> ConfigError {
        let name = if transport == Transport::Sse { "sse" } else { "http" };
        let message = format!("{name} server requires \"url\" field");
        self.fault(&self.member.place, Some("url"), &message)
    }

    /// Keys of ours that have no meaning for a server of this sort.
    fn meaningless(&self, is_child: bool) -> impl Iterator<Item = String> {
        let keys: &[&str] = if is_child { &["headers", "header"] } else { &["args", "cwd"] };
        keys.iter().filter(|key| self.get(key).is_some()).map(|key| (*key).to_owned())
    }

    /// A text with its variables replaced; those with telling names are kept as secrets.
    pub(super) fn text(&mut self, node: &Node, key: &str) -> Result<String, ConfigError> {
        let expanded = self.expanded(node, key)?;
        let secret = expanded.values.into_iter().filter(|(n, _)| is_secret_name(&n.to_lowercase()));
        self.secrets.extend(secret.map(|(_, value)| Secret::new(value)));
        Ok(expanded.text)
    }

    pub(super) fn expanded(&self, node: &Node, key: &str) -> Result<Expanded, ConfigError> {
        let lookup = |name: &str| {
            let own = self.env.iter().find(|(known, _)| known == name);
            own.map(|(_, value)| value.reveal().to_owned()).or_else(|| (self.lookup)(name))
        };
        scalar::text(node, &lookup).map_err(|why| self.fault(&node.place, Some(key), &why))
    }

    pub(super) fn wrong(&self, member: &Member, message: &str) -> ConfigError {
        self.fault(&member.value.place, Some(&member.key), message)
    }

    pub(super) fn fault(&self, place: &FilePlace, key: Option<&str>, message: &str) -> ConfigError {
        ConfigError {
            place: place.clone(),
            server: Some(self.member.key.clone()),
            key: key.map(str::to_owned),
            message: message.to_owned(),
            is_off: self.is_off,
        }
    }
}

/// Where the words of a command stand.
struct Command<'a> {
    path: &'a Node,
    args: Option<&'a Member>,
}
