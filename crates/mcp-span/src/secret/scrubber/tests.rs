//! What is found, what is not, and that others cannot change that.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

const TOKEN: &str = "ghp_x7Q/m+2Lk9vT-4sZpW8aYr3Nc6Bd";

fn knows(secrets: &[&str]) -> Scrubber {
    let scrubber = Scrubber::default();
    secrets.iter().for_each(|secret| scrubber.add(&Secret::new(*secret)));
    scrubber
}

#[test]
fn scrubbing_finds_the_token_without_its_scheme() {
    let scrubber = knows(&["Bearer abcdef123"]);
    assert_eq!(scrubber.clean("token abcdef123 is bad"), "token [secret] is bad");
    assert_eq!(scrubber.clean("got 'Bearer abcdef123'"), "got '[secret]'");
    scrubber.add(&Secret::new("session=cookie99; path"));
    scrubber.add(&Secret::new(r#"Token token="quoted99""#));
    assert_eq!(scrubber.clean("cookie99, quoted99, Bearer"), "[secret], [secret], Bearer");
}

#[test]
fn secrets_are_found_however_json_writes_them() {
    let scrubber = knows(&["ab+cd/ef", "one\\two3"]);
    for text in [
        "ab+cd/ef",
        r"ab+cd\/ef",
        r"ab\u002Bcd/ef",
        r"\u0061b+cd/ef",
        r"ab\\u002bcd\\\/ef",
        r"one\\two3",
        r"one\\\\two3",
    ] {
        let json = format!(r#"{{"a":"x {text} y"}}"#);
        assert_eq!(scrubber.clean(&json), r#"{"a":"x [secret] y"}"#, "{text}");
    }
    let other = r#"{"a":"ab\u002Ccd/ef \u00e4\n \\ \u00"}"#;
    assert_eq!(scrubber.clean(other), other);
}

#[test]
fn an_echo_in_another_form_is_found() {
    let scrubber = knows(&["Bearer ghp_x7Q/m+2Lk9vT-4sZpW8aYr3Nc6Bd"]);
    let percent: String = TOKEN.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let hexadecimal: String = TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect();
    for form in [
        TOKEN.to_uppercase(),
        TOKEN.to_lowercase(),
        TOKEN[..12].to_owned(),
        TOKEN[..20].to_owned(),
        TOKEN.replace('/', "%2F").replace('+', "%2b"),
        TOKEN.replace('/', "%252F"),
        percent,
        hexadecimal.to_uppercase(),
        hexadecimal,
        STANDARD.encode(TOKEN),
        URL_SAFE_NO_PAD.encode(TOKEN),
    ] {
        assert_eq!(scrubber.clean(&format!("got {form} here")), "got [secret] here", "{form}");
    }
    for before in ["", "u", "us", "use"] {
        let text = STANDARD.encode(format!("{before}:{TOKEN}:{before}"));
        let clean = scrubber.clean(&format!("<{text}>"));
        assert!(clean.contains("[secret]") && clean.len() < 20, "{clean}");
        let cut = &text[..24];
        assert!(scrubber.clean(&format!("<{cut}>")).contains("[secret]"), "{cut}");
    }
}

#[test]
fn an_echo_that_is_broken_over_lines_is_found_as_a_whole() {
    let token: String = (0..60).map(|n| format!("{n:x}Q{n}z")).collect();
    let scrubber = knows(&[&format!("Bearer {token}")]);
    let wrapped = |text: &str, width: usize, end: &str| {
        let lines: Vec<&str> =
            text.as_bytes().chunks(width).map(|line| str::from_utf8(line).unwrap()).collect();
        lines.join(end)
    };
    for end in ["\n", "\r\n", r"\n", r"\r\n", "\u{ad}", "\u{200b}", "%0A"] {
        for width in [5, 12, 40, 76] {
            for form in [token.clone(), STANDARD.encode(&token)] {
                let text = format!("no: {} .", wrapped(&form, width, end));
                assert_eq!(scrubber.clean(&text), "no: [secret] .", "{end:?} {width}");
            }
        }
    }
    assert_eq!(scrubber.clean("two\nlines"), "two\nlines");
}

#[test]
fn a_sign_before_a_secret_does_not_hide_it() {
    let scrubber = knows(&["abcdef123456", "u00411234567"]);
    assert_eq!(scrubber.clean("100%abcdef123456"), "100%[secret]");
    assert_eq!(scrubber.clean(r"x\nabcdef123456"), r"x\n[secret]");
    assert_eq!(scrubber.clean(r"x\\u00411234567"), r"x\\[secret]");
}

#[test]
fn what_basic_credentials_are_made_of_is_secret_too() {
    let scrubber = knows(&[&format!("Basic {}", STANDARD.encode("somebody:pass-word-7"))]);
    assert_eq!(scrubber.clean("no pass-word-7 of somebody"), "no [secret] of [secret]");
}

#[test]
fn harmless_text_stays() {
    let scrubber =
        knows(&["a", "application/json", "https://example.com/v1/mcp", TOKEN, "hunter2"]);
    for text in ["a cat", "an application/xml", "https://example.com/other", "ghp_x7Q/", "hunter"] {
        assert_eq!(scrubber.clean(text), text);
    }
}

#[test]
fn a_server_cannot_push_out_what_is_ours() {
    let scrubber = knows(&["given-by-the-user-1"]);
    scrubber.add_granted(["Bearer first-token-of-two", "second-header-value"]);
    for n in 0..2000 {
        scrubber.add_passing(&Secret::new(format!("cookie={n:06}-of-many")));
    }
    scrubber.add_passing(&Secret::new("x".repeat(100_000)));
    let text = "given-by-the-user-1 first-token-of-two second-header-value";
    assert_eq!(scrubber.clean(text), "[secret] [secret] [secret]");
    for n in 0..Scrubber::GRANTS {
        scrubber.add_granted([&*format!("Bearer renewed-token-{n}")]);
    }
    assert_eq!(scrubber.clean("first-token-of-two"), "first-token-of-two", "long gone");
    assert_eq!(scrubber.clean("renewed-token-0 renewed-token-3"), "[secret] [secret]");
}

#[test]
fn what_a_server_gives_is_remembered_while_it_is_in_use() {
    let scrubber = Scrubber::default();
    scrubber.add_passing(&Secret::new("session-of-today"));
    for n in 0..Scrubber::PASSING {
        scrubber.add_passing(&Secret::new(format!("{n:06}")));
        scrubber.add_passing(&Secret::new("session-of-today"));
    }
    assert_eq!(scrubber.clean("session-of-today"), "[secret]");
    assert_eq!(scrubber.clean("000000 000002"), "000000 [secret]");
}

#[test]
fn an_excerpt_never_ends_in_half_a_secret() {
    let scrubber = knows(&[TOKEN]);
    let escaped: String = TOKEN.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    for form in [TOKEN.to_owned(), TOKEN.to_uppercase(), escaped, STANDARD.encode(TOKEN)] {
        for start in 0..form.len() {
            // The cut goes through the secret at every place of it.
            let text = format!("{}{form}, and on", "\u{7f}".repeat(80 - start.min(80)));
            let shown = scrubber.excerpt(&text, 10);
            // Half an escape tells nothing.
            let shown = shown.trim_end_matches(['\\', 'u', '0', ',', ' ']);
            assert!(matches!(shown, "" | "[secret]"), "{shown}");
        }
    }
    assert_eq!(scrubber.excerpt(&"x".repeat(600), 500), "x".repeat(500));
    assert_eq!(scrubber.excerpt(&format!("a {TOKEN} b"), 500), "a [secret] b");
}

#[test]
fn secrets_that_overlap_are_hidden_together() {
    let scrubber = knows(&["abcdefgh", "efghijkl", "cdefghij"]);
    assert_eq!(scrubber.clean("xabcdefghijkly"), "x[secret]y");
    assert_eq!(scrubber.clean("abcdefghabcdefgh"), "[secret][secret]");
    assert_eq!(knows(&["äöüäöü"]).clean("x äöüäöü y"), "x [secret] y");
}

proptest! {
    #[test]
    fn no_text_is_too_much(text in any::<String>(), secret in any::<String>(), limit in 0..40_usize) {
        let scrubber = knows(&[&secret]);
        let _ = scrubber.clean(&text);
        let _ = scrubber.excerpt(&text, limit);
    }

    #[test]
    fn a_secret_is_found_wherever_it_stands(
        before in "[a-c\\\\%u0-2 é]{0,20}",
        secret in "[a-zA-Z0-9+/_-]{12,60}",
        behind in "[a-c\\\\%u0-2 é]{0,20}",
    ) {
        let scrubber = knows(&["aaabbbccc", &secret, "bc01u%20a"]);
        let clean = scrubber.clean(&format!("{before}{secret}{behind}"));
        prop_assert!(!clean.contains(&secret), "{}", clean);
    }
}
