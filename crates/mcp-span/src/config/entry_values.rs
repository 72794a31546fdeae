//! The variables, headers and settings of an entry, each checked and with its variables replaced.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};

use super::document::{Member, Node, Value};
use super::entry::Reader;
use super::expand::Expanded;
use super::keys::{self, Sort};
use super::{Fault, scalar};
use crate::secret::{Secret, is_secret_name};
use crate::wire::header;

impl Reader<'_> {
    /// Variables for the child, or for the other texts of the entry.
    pub(super) fn env(&mut self) -> Result<Vec<(String, Secret)>, Fault> {
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

    pub(super) fn headers(&mut self) -> Result<HeaderMap, Fault> {
        let mut headers = HeaderMap::new();
        let Some(member) = self.get("headers").or_else(|| self.get("header")) else {
            return Ok(headers);
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
            let checked = header::parse_value(&name, &value.text).map_err(wrong)?;
            if !value.values.is_empty() || is_secret_name(name.as_str()) {
                self.secrets.push(Secret::new(&*value.text));
            }
            self.secrets.extend(value.values.into_iter().map(|(_, value)| Secret::new(value)));
            headers.append(name, checked);
        }
        Ok(headers)
    }

    /// `Name: value`, as with the flag.
    fn header_line(&self, node: &Node) -> Result<(HeaderName, Expanded), Fault> {
        let mut line = self.expanded(node, "headers")?;
        let (name, value) = header::parse_line(&line.text)
            .map_err(|why| self.fault(&node.place, Some("headers"), &why))?;
        line.text = value;
        Ok((name, line))
    }

    pub(super) fn settings(&mut self) -> Result<BTreeMap<&'static str, Vec<Secret>>, Fault> {
        let mut settings = BTreeMap::new();
        for member in self.members()? {
            let Some((flag, sort)) = keys::setting(&member.key) else { continue };
            if matches!(member.value.value, Value::Null) {
                continue;
            }
            settings.insert(flag, self.setting(member, sort)?);
        }
        Ok(settings)
    }

    fn setting(&mut self, member: &Member, sort: Sort) -> Result<Vec<Secret>, Fault> {
        match (sort, &member.value.value) {
            (Sort::Switch, _) => {
                let flag = scalar::switch(&member.value, self.lookup);
                let flag = flag.map_err(|why| self.wrong(member, &why))?;
                Ok(vec![Secret::new(flag.to_string())])
            }
            (_, Value::Text(_) | Value::Number(_)) => {
                Ok(vec![Secret::new(self.text(&member.value, &member.key)?)])
            }
            (Sort::Many, Value::List(_) | Value::Object(_)) => {
                let each = scalar::each(&member.value).unwrap_or_default();
                let texts = each.into_iter().map(|(name, node)| {
                    let text = self.text(node, &member.key)?;
                    Ok(Secret::new(match name {
                        Some(name) => format!("{}={text}", name.key),
                        None => text,
                    }))
                });
                texts.collect()
            }
            (Sort::One, _) => Err(self.wrong(member, "it must be a text or a number")),
            (Sort::Many, _) => Err(self.wrong(member, "it must be a list of texts")),
        }
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
