//! What an HTML page says, in a few plain words. Pure.
//!
//! No parser of HTML: an error page of a proxy has a title or a heading, and whatever else it is, a
//! person is better served by its first words than by its tags.

use std::borrow::Cow;

/// What pages and pieces of pages begin with, behind the first `<`.
const BEGINNINGS: [&str; 15] = [
    "!doctype", "html", "head", "body", "title", "h1", "h2", "center", "!--", "?xml", "p>", "p ",
    "div", "pre", "meta",
];

/// Whether `text` is a page: it begins as one.
#[must_use]
pub fn is_page(text: &str) -> bool {
    let is_nothing = |c: char| c.is_whitespace() || c == '\u{feff}';
    let tag = text.trim_start_matches(is_nothing).strip_prefix('<');
    tag.is_some_and(|tag| BEGINNINGS.iter().any(|word| begins(tag.as_bytes(), word)))
}

/// Whether `text` begins with `word`, in any case.
fn begins(text: &[u8], word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
}

/// `text` as people read it: of a page its words, all of them, since a cut might leave half a secret;
/// anything else as it is.
#[must_use]
pub fn readable(text: &str) -> Cow<'_, str> {
    if is_page(text) { words(text).into() } else { text.into() }
}

/// The words of a page: its title first, then its text unless that says the same.
fn words(page: &str) -> String {
    let title = title(page).unwrap_or_default();
    let mut words = title.clone();
    let mut rest = page.trim_start_matches('\u{feff}');
    while !rest.is_empty() {
        let (text, tag) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
        rest = behind(tag);
        let part = plain(text);
        if part.is_empty() || part == title {
            continue;
        }
        if !words.is_empty() {
            words.push_str(if words.ends_with(['.', ':', '!', '?']) { " " } else { ": " });
        }
        words.push_str(&part);
    }
    words
}

/// What stands in the title of a page; `None` for nothing.
#[must_use]
pub fn title(page: &str) -> Option<String> {
    let tag = find(page, "<title")?;
    let begin = tag + page.get(tag..)?.find('>')? + 1;
    let end = begin + find(page.get(begin..)?, "</title")?;
    let title = plain(page.get(begin..end)?);
    (!title.is_empty()).then_some(title)
}

/// What follows a tag, a comment, or an element that is not shown.
fn behind(tag: &str) -> &str {
    let after = |end: &str| find(tag, end).map_or("", |at| &tag[at + end.len()..]);
    if tag.starts_with("<!--") {
        return after("-->");
    }
    for (name, end) in [("<title", "</title"), ("<script", "</script"), ("<style", "</style")] {
        if begins(tag.as_bytes(), name) {
            let rest = after(end);
            return rest.split_once('>').map_or("", |(_, rest)| rest);
        }
    }
    tag.split_once('>').map_or("", |(_, rest)| rest)
}

/// Where `word` stands, in any case.
fn find(text: &str, word: &str) -> Option<usize> {
    let (first, bytes) = (word.as_bytes().first()?, text.as_bytes());
    memchr::memchr_iter(*first, bytes).find(|at| begins(&bytes[*at..], word))
}

/// Words with one blank between them, and the usual characters in place of their names.
fn plain(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if !text.contains('&') {
        return text;
    }
    // The last one last, or `&amp;lt;` would become a sign.
    let names = [
        ("&nbsp;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    names.iter().fold(text, |text, (name, sign)| text.replace(name, sign))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_is_told_by_its_title_and_its_first_words() {
        let nginx = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.22</center>\r\n</body></html>";
        assert!(is_page(nginx));
        assert_eq!(readable(nginx), "502 Bad Gateway: nginx/1.22");
        let page = "<!DOCTYPE html><HTML><style>p {}</style><!-- <p>no --><Title>\n Log in\n</TITLE><script>if (a<b) {}</script><p>It&#39;s &amp;lt; closed.<p>Try later";
        assert_eq!(readable(page), "Log in: It's &lt; closed. Try later");
        assert_eq!(title(page).unwrap(), "Log in");
        assert_eq!(readable("\u{feff}<?xml version=\"1.0\"?><p>a</p>"), "a");
        assert_eq!((&*readable("a <b> c"), &*readable("<html></html>")), ("a <b> c", ""));
        assert!(!is_page("plain <b>") && !is_page("{}") && !is_page(""));
    }

    proptest! {
        #[test]
        fn no_page_is_too_odd(page in "[<>!a-cé&;/ -]{0,60}|(<title|</title|<!--|-->|<script|>|x){0,20}") {
            let _ = (words(&page), title(&page), is_page(&page));
        }
    }
}
