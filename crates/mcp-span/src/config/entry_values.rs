//! The variables, headers and settings of an entry, each checked and with its variables replaced.

use http::HeaderName;

use super::document::{Member, Node, Value};
use super::entry::Reader;
use super::expand::Expanded;
use super::{ConfigError, keys, scalar};
use crate::options::{Given, Header, OptionInfo, Origin, ServerOptions};
use crate::secret::{Secret, is_secret_name};
use crate::wire::header;

impl Reader<'_> {
    /// Variables for the child, or for the other texts of the entry.
    pub(super) fn env(&mut self) -> Result<Vec<(String, Secret)>, ConfigError> {
        let inner = self.get("command").and_then(|member| member.value.members());
        let inner = inner.and_then(|members| members.iter().find(|member| member.key == "env"));
        let Some(member) = self.get("env").or(inner) else { return Ok(Vec::new()) };
        let is_object = matches!(member.value.value, Value::Object(_) | Value::Null);
        if !is_object {
            return Err(self.wrong(member, "it must be an object of texts"));
        }
        let mut env = Vec::new();
        for (name, node) in scalar::each(&member.value).unwrap_or_default() {
            let name = name.map_or("", |member| &*member.key);
            let key = format!("env.{name}");
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(self.fault(&node.place, Some(&key), "no variable can have this name"));
            }
            let expanded = self.expanded(node, &key)?;
            // What is passed on under any name may be a secret, whatever the place it is from calls it.
            let passed = expanded.values.into_iter().filter(|(n, _)| !PUBLIC.contains(&n.as_str()));
            self.secrets.extend(passed.map(|(_, value)| Secret::new(value)));
            let value = Secret::new(expanded.text);
            if is_secret_name(&name.to_lowercase()) {
                self.secrets.push(value.clone());
            }
            env.push((name.to_owned(), value));
        }
        Ok(env)
    }

    pub(super) fn headers(&mut self) -> Result<Option<Vec<Header>>, ConfigError> {
        let mut headers = Vec::new();
        let Some(member) = self.get("headers").or_else(|| self.get("header")) else {
            return Ok(None);
        };
        let each = scalar::each(&member.value)
            .ok_or_else(|| self.wrong(member, "it must be an object of texts"))?;
        for (name, node) in each {
            let (name, value) = match name {
                Some(member) => {
                    let key = format!("headers.{}", member.key);
                    let name = HeaderName::from_bytes(member.key.as_bytes()).map_err(|_| {
                        self.fault(&member.place, Some(&key), "this is not a header's name")
                    })?;
                    (name, self.expanded(node, &key)?)
                }
                None => self.header_line(node)?,
            };
            let key = format!("headers.{name}");
            let wrong = |why: String| self.fault(&node.place, Some(&key), &why);
            if header::is_framing(&name) {
                return Err(wrong(format!("header '{name}' is HTTP's own and cannot be set")));
            }
            header::parse_value(&name, &value.text).map_err(wrong)?;
            if !value.values.is_empty() || is_secret_name(name.as_str()) {
                self.secrets.push(Secret::new(&*value.text));
            }
            self.secrets.extend(value.values.into_iter().map(|(_, value)| Secret::new(value)));
            headers.push(Header::new(name.as_str(), &value.text));
        }
        Ok(Some(headers))
    }

    /// `Name: value`, as with the flag.
    fn header_line(&self, node: &Node) -> Result<(HeaderName, Expanded), ConfigError> {
        let mut line = self.expanded(node, "headers")?;
        let (name, value) = header::parse_line(&line.text)
            .map_err(|why| self.fault(&node.place, Some("headers"), &why))?;
        line.text = value;
        Ok((name, line))
    }

    /// Sets all that the entry says beside what the server is.
    pub(super) fn set_options(&mut self, options: &mut ServerOptions) -> Result<(), ConfigError> {
        for member in self.members()? {
            let option = match keys::option(&member.key) {
                Some(option) => option,
                None if member.key == "timeout" => {
                    self.set_timeout(options, member)?;
                    continue;
                }
                None => continue,
            };
            let origin = self.origin(member);
            let text = |node: &Node| self.text(node, &member.key);
            let set = member.value.set(options, option, origin, text)?;
            set.map_err(|why| self.wrong(member, &why))?;
        }
        Ok(())
    }

    fn set_timeout(&self, options: &mut ServerOptions, member: &Member) -> Result<(), ConfigError> {
        if !matches!(member.value.value, Value::Null) {
            let timeout = scalar::time(&member.value, self.lookup);
            options.timeout = Some(timeout.map_err(|why| self.wrong(member, &why))?);
            options.note("timeout", Some(member), self);
        }
        Ok(())
    }
}

impl ServerOptions {
    /// Notes that an option was set by this member of an entry.
    pub(super) fn note(&mut self, name: &'static str, member: Option<&Member>, entry: &Reader<'_>) {
        self.origins.extend(member.map(|member| (name, entry.origin(member))));
    }
}

impl Node {
    /// Sets an option to this value, whose texts `text` reads. Inside: why it cannot have the value.
    ///
    /// # Errors
    ///
    /// Those of `text`.
    pub fn set<E>(
        &self,
        options: &mut ServerOptions,
        option: &'static OptionInfo,
        origin: Origin,
        mut text: impl FnMut(&Self) -> Result<String, E>,
    ) -> Result<Result<(), String>, E> {
        let between = if option.name == "header" { ": " } else { "=" };
        let texts: Vec<String> = match &self.value {
            Value::Null => return Ok(Ok(())),
            Value::Bool(is_on) => return Ok(options.set(option, Given::Switch(*is_on), origin)),
            Value::Text(_) | Value::Number(_) => {
                return Ok(options.set(option, Given::Text(&text(self)?), origin));
            }
            Value::List(nodes) => nodes.iter().map(&mut text).collect::<Result<_, E>>()?,
            Value::Object(members) => members
                .iter()
                .filter(|member| !matches!(member.value.value, Value::Null))
                .map(|Member { key, value, .. }| Ok(format!("{key}{between}{}", text(value)?)))
                .collect::<Result<_, E>>()?,
        };
        Ok(options.set(option, Given::List(&texts), origin))
    }
}

/// Variables that are no secret, and whose values stand in many a line of a log.
const PUBLIC: [&str; 14] = [
    "APPDATA",
    "HOME",
    "HOSTNAME",
    "LANG",
    "LOCALAPPDATA",
    "LOGNAME",
    "PATH",
    "PWD",
    "SHELL",
    "TEMP",
    "TERM",
    "TMPDIR",
    "USER",
    "USERPROFILE",
];
