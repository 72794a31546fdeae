//! Puts a text between two markers of a document and leaves everything else as it is.

/// Stands before the text.
pub(crate) const BEGIN: &str = "<!-- bench: begin -->";

/// Stands behind it.
pub(crate) const END: &str = "<!-- bench: end -->";

/// `document` with `section` between the markers, in place of what was there.
pub(crate) fn replaced(document: &str, section: &str) -> Result<String, String> {
    let (before, rest) = cut_once(document, BEGIN)?;
    let (_, after) = cut_once(rest, END)?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", section.trim_end()))
}

fn cut_once<'a>(text: &'a str, marker: &str) -> Result<(&'a str, &'a str), String> {
    let (before, after) = text.split_once(marker).ok_or_else(|| format!("there is no {marker}"))?;
    if after.contains(marker) {
        return Err(format!("there is more than one {marker}"));
    }
    Ok((before, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_markers_changes_and_a_second_time_changes_nothing() {
        let document = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nthe rest\n");
        let once = replaced(&document, "new\ntable\n").unwrap();
        assert_eq!(once, format!("# Title\n\n{BEGIN}\nnew\ntable\n{END}\n\nthe rest\n"));
        assert_eq!(replaced(&once, "new\ntable\n").unwrap(), once);
    }

    #[test]
    fn a_document_without_its_markers_is_refused() {
        for document in [
            "nothing".to_owned(),
            format!("{BEGIN} alone"),
            format!("{END} before {BEGIN}"),
            format!("{BEGIN}{BEGIN}{END}"),
            format!("{BEGIN}{END}{END}"),
        ] {
            assert!(replaced(&document, "new").is_err(), "{document}");
        }
    }
}
