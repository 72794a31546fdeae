//! Fuzz targets for the files of users: configurations, and JSON that is read leniently.

use crate::config::{self, ConfigError};
use crate::options::Context;
use serde_json::Value;
use serde_json::value::RawValue;

/// Stands where a variable is named, and in no fault.
const SECRET: &str = "s3cr3t-value";

/// JSON of others is read leniently: as strict JSON where it is that, and never without a value.
pub fn lenient(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let value = crate::lenient::lenient(text);
    if let Ok(strict) = serde_json::from_str::<Value>(text) {
        assert_eq!(value, strict);
    }
    // What is well-formed has a value, though it may be cut.
    let is_json = serde_json::from_str::<&RawValue>(text).is_ok();
    let is_text = text.trim_ascii_start().starts_with('"');
    assert!(!is_json || is_text || !value.is_string(), "{text}");
    if text.starts_with('"') {
        assert!(text.is_char_boundary(crate::lenient::string_length(text)));
    }
}

/// A configuration is read; faults stand in the text, and name no secret.
pub fn configuration(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let lookup = |name: &str| (name == "TOKEN").then(|| SECRET.to_owned());
    let config = match config::read("f.json", text, &lookup) {
        Ok(config) => config,
        Err(fault) => return check(&fault, text),
    };
    config.errors().for_each(|fault| check(fault, text));
    let mut names: Vec<_> = config.servers().map(|entry| &entry.name).collect();
    for entry in config.servers() {
        assert!(!entry.name.is_empty());
        if !text.contains(SECRET) {
            assert!(!format!("{entry:?}").contains(SECRET), "{entry:?}");
        }
        if let Err(error) = entry.options.resolve(&Context::default()) {
            let shown = error.to_string();
            assert!(text.contains(SECRET) || !shown.contains(SECRET), "{shown}");
        }
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name stands for two servers");
}

fn check(fault: &ConfigError, text: &str) {
    let shown = fault.to_string();
    let lines = text.matches('\n').count() + 1;
    assert!((1..=lines).contains(&fault.place.line), "{shown}");
    assert!(fault.place.column >= 1, "{shown}");
    assert!(text.contains(SECRET) || !shown.contains(SECRET), "{shown}");
}
