//! Replaces `${NAME}` in what was typed by the environment's value.

use crate::cli::report::Usage;

/// `text` with each `${NAME}` replaced by what `lookup` gives, and the values that were put in.
pub(super) fn expand(
    text: &str,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<(String, Vec<String>), Usage> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    let mut values = Vec::new();
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        let name = &rest[start + 2..start + length];
        expanded.push_str(&rest[..start]);
        let value = lookup(name).ok_or_else(|| {
            Usage::new(format!("the environment variable '{name}' in ${{{name}}} is not set"))
        })?;
        expanded.push_str(&value);
        values.push(value);
        rest = &rest[start + length + 1..];
    }
    expanded.push_str(rest);
    Ok((expanded, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_a(text: &str) -> Result<(String, Vec<String>), Usage> {
        expand(text, |name| (name == "A").then(|| "1".to_owned()))
    }

    #[test]
    fn names_are_replaced_and_the_rest_stays() {
        let ones = vec!["1".to_owned(), "1".to_owned()];
        assert_eq!(with_a("Bearer ${A}-${A}$"), Ok(("Bearer 1-1$".into(), ones)));
        assert_eq!(with_a("no $A here, ${ open"), Ok(("no $A here, ${ open".into(), vec![])));
    }

    #[test]
    fn an_undefined_name_is_named() {
        let error = with_a("x ${NOPE}").unwrap_err();
        assert!(error.0.contains("'NOPE'"), "{error:?}");
    }
}
