//! Suggests a name for one that was mistyped.

/// How alike two names must be for one to be suggested in place of the other.
const LIKENESS: f64 = 0.75;

/// The name that is most like `typed`, if any is.
pub(crate) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&name.to_lowercase(), &typed);
    known
        .map(|name| (name, likeness(name)))
        .filter(|(_, likeness)| *likeness > LIKENESS)
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(name, _)| name)
}

/// The same as a question, for a hint.
pub(crate) fn did_you_mean<'a>(
    typed: &str,
    known: impl Iterator<Item = &'a str>,
) -> Option<String> {
    nearest(typed, known).map(|name| format!("did you mean '{name}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_like_it_is_suggested() {
        let known = || ["get_weather", "get_time"].into_iter();
        assert_eq!(nearest("getweather", known()), Some("get_weather"));
        assert_eq!(nearest("GET_TIEM", known()), Some("get_time"));
        assert_eq!(nearest("xyz", known()), None);
    }
}
