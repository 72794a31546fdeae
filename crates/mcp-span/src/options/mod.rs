//! What can be said about one server: one struct, whatever the place it is read from.
//!
//! [`ServerOptions`] is what flags, variables, configuration files, the command lines of other
//! bridges and programs that use this library have in common. Options from several places are put
//! together by [`ServerOptions::merge`], the strongest place first; [`ServerOptions::resolve`] turns
//! the result into a server to connect to.
//!
//! ```
//! use mcp_span::ServerOptions;
//!
//! let mut options: ServerOptions = serde_json::from_str(r#"{"timeout": 10, "serial": true}"#)?;
//! options.merge(serde_json::from_str(r#"{"timeout": 5, "keep-alive": 60}"#)?);
//! assert_eq!(options.timeout.unwrap().as_secs(), 10);
//! assert_eq!(options.keep_alive.unwrap().as_secs(), 60);
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::ffi::OsString;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod certificates;
mod context;
mod credentials;
mod headers;
mod login;
mod merge;
mod origin;
mod proxy;
mod resolve;
mod table;
mod url;
mod value;

pub use context::{Context, Variables};
pub use credentials::CREDENTIAL_SOURCES;
pub use headers::Header;
pub use login::{is_callback_host, is_callback_path};
pub use origin::{OptionError, Origin};
pub use proxy::{shown_proxy, usual_proxy_variables};
pub use table::{Group, OPTIONS, OptionInfo, ServerOptions};
pub use url::check_url;
pub use value::{Given, Value, ValueKind, seconds, some_seconds};

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What went wrong for good.
    Error,
    /// What somebody should know.
    Warn,
    /// What happens.
    Info,
    /// In detail.
    Debug,
    /// All there is.
    Trace,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// An object a line.
    Json,
}

/// The option with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static OptionInfo> {
    OPTIONS.iter().find(|option| option.name == name)
}

impl ServerOptions {
    /// The server at a URL.
    pub fn from_url(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..Self::default() }
    }

    /// A server that is a program, started with these arguments.
    pub fn from_command<A: Into<OsString>>(
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let args = args.into_iter().map(Into::into);
        let command = Some(std::iter::once(program.into()).chain(args).collect());
        Self { command, ..Self::default() }
    }

    /// Sets an option from texts.
    ///
    /// # Errors
    ///
    /// Why it cannot have this value, in a sentence without the value.
    #[doc(hidden)]
    pub fn set(
        &mut self,
        option: &'static OptionInfo,
        given: Given<'_>,
        origin: Origin,
    ) -> Result<(), String> {
        (option.set)(self, given)?;
        self.origins.insert(option.name, origin);
        Ok(())
    }

    /// What would be typed for an option; `None` if nothing is said about it.
    #[doc(hidden)]
    #[must_use]
    pub fn texts(&self, option: &OptionInfo) -> Option<Vec<String>> {
        (option.texts)(self)
    }
}

/// The names of what is set: values may be secrets.
impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = OPTIONS.iter().filter(|option| (option.texts)(self).is_some());
        f.debug_set().entries(set.map(|option| option.name)).finish()
    }
}

/// As a configuration file has them, headers and commands with their secrets included. What a program
/// gives as a [`Secret`](crate::Secret) is left out.
impl Serialize for ServerOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for option in OPTIONS {
            match ((option.texts)(self), option.kind) {
                (None, _) => {}
                (Some(texts), ValueKind::Switch) => {
                    map.serialize_entry(option.name, &(texts == ["true"]))?;
                }
                (Some(texts), kind) if kind.is_many() => {
                    map.serialize_entry(option.name, &texts)?;
                }
                (Some(texts), _) => map.serialize_entry(option.name, &texts.concat())?,
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ServerOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Options;

        impl<'de> Visitor<'de> for Options {
            type Value = ServerOptions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with options of a server")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ServerOptions, A::Error> {
                let mut options = ServerOptions::default();
                while let Some(key) = map.next_key::<String>()? {
                    let wrong = |why: &str| A::Error::custom(format!("{key}: {why}"));
                    let name = crate::config::flag_name(&key);
                    let option = find(&name).ok_or_else(|| wrong("unknown option"))?;
                    let json: serde_json::Value = map.next_value()?;
                    options.read_json(option, &json).map_err(|why| wrong(&why))?;
                }
                Ok(options)
            }
        }

        deserializer.deserialize_map(Options)
    }
}

impl ServerOptions {
    fn read_json(
        &mut self,
        option: &'static OptionInfo,
        json: &serde_json::Value,
    ) -> Result<(), String> {
        let text = |json: &serde_json::Value| match json {
            serde_json::Value::String(text) => Ok(text.clone()),
            serde_json::Value::Number(number) => Ok(number.to_string()),
            _ => Err("it must be a text or a number".to_owned()),
        };
        match json {
            serde_json::Value::Null => Ok(()),
            serde_json::Value::Bool(is_on) => (option.set)(self, Given::Switch(*is_on)),
            serde_json::Value::Array(values) => {
                let texts: Vec<String> = values.iter().map(text).collect::<Result<_, _>>()?;
                (option.set)(self, Given::List(&texts))
            }
            json => (option.set)(self, Given::Text(&text(json)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<ServerOptions, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn every_option_is_read_and_written_in_json() {
        for option in OPTIONS {
            let value = match (option.kind, option.choices.first()) {
                (ValueKind::Switch, _) => serde_json::json!(true),
                (_, Some((names, _))) => serde_json::json!(names[0]),
                (ValueKind::Many | ValueKind::Paths, _) => serde_json::json!(["X-A: 1"]),
                _ if option.value_name == "URL" => serde_json::json!("https://h/"),
                _ if option.name == "trace-limit" => serde_json::json!("7M"),
                _ => serde_json::json!("7"),
            };
            let json = serde_json::json!({ option.name: value });
            let options: ServerOptions = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&options).unwrap(), json);
        }
    }

    #[test]
    fn keys_are_read_in_any_spelling_and_wrong_ones_are_named() {
        let options = read(r#"{"connectTimeout": 2.5, "max_parallel": "3", "serial": null}"#);
        let options = options.unwrap();
        assert_eq!((options.connect_timeout().as_millis(), options.max_parallel()), (2500, 3));
        assert_eq!(options.serial, None);
        for (json, why) in [
            (r#"{"timout": 1}"#, "timout: unknown option"),
            (r#"{"connectTimeout": 0}"#, "connectTimeout: it must be more than 0 seconds"),
            (r#"{"serial": "x"}"#, "serial: it must be true or false"),
            (r#"{"timeout": [1]}"#, "timeout: it must be a text or a number"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn neither_values_nor_secrets_are_shown() {
        let options = read(r#"{"proxy": "http://me:s3cret@h", "header": "X-Key: s3cret"}"#);
        let shown = format!("{:?}", options.unwrap());
        assert!(shown.contains("proxy") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn names_are_unique_and_short_help_is_one_line() {
        for (n, option) in OPTIONS.iter().enumerate() {
            let is_other =
                |other: &OptionInfo| other.name == option.name || other.alias == Some(option.name);
            assert!(!OPTIONS[..n].iter().any(is_other), "{}", option.name);
            assert!(option.help.get(1).is_none_or(|line| line.is_empty()), "{}", option.name);
        }
    }
}
