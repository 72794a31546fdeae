//! Whether what looks at foreign bytes takes time in proportion to them, on the worst of inputs: the
//! instructions for eight times as much are counted, and must not be much more than eight times as
//! many.

use bytes::Bytes;
use mcp_span::lenient::lenient;
use mcp_span::message::{Members, Message, Outliner, get, parse_each};
use mcp_span::secret::{Scrubber, Secret};
use mcp_span::untrusted::Untrusted;
use mcp_span::wire::page;
use mcp_span::wire::sse::Decoder;

use super::{Fault, count};

/// Bytes of the smaller input: enough for a square to show.
const SIZE: usize = 8 * 1024;

/// How many times as much the larger one is.
const TIMES: usize = 8;

/// How many times the instructions may be; a square would be 64.
const MOST: u64 = 10;

/// What is done with a text of a given size.
type Work = fn(&str);

/// What is looked at, and what it is made of again and again.
const CASES: [(&str, &str, &str, &str, Work); 31] = [
    ("scrub-backslashes", "", "\\", "", scrub),
    ("scrub-escapes", "", "\\\\u005c", "", scrub),
    ("scrub-percents", "", "%25", "", scrub),
    ("scrub-percent", "%", "25", "", scrub),
    ("scrub-near", "", "a", "", scrub),
    ("scrub-nearer", "", "aaaaaaab", "", scrub),
    ("scrub-secrets", "", "token-number-7-of-many ", "", scrub),
    ("scrub-beginnings", "", "dG9rZW4tbnVtYmVyLT", "", scrub),
    ("filter-escapes", "", "\u{1b}[", "", filter),
    ("filter-joiners", "", "\u{200d}é", "", filter),
    ("page-tags", "<html>", "<", "", read_page),
    ("page-titles", "<html>", "<title", "", read_page),
    ("page-comments", "<html>", "<!-- -->x", "", read_page),
    ("members", "{", r#""a":1,"#, r#""a":1}"#, members),
    ("members-odd", "{", r#""\ud800":[],"#, r#""a":1}"#, members),
    ("members-open", "", r#"{"a":"#, "", members),
    ("members-quotes", "{", r#""":"","#, r#""":0}"#, members),
    ("get", "{", r#""a":{"c":[]},"#, r#""b":1}"#, read),
    ("get-escapes", "{", r#""\u0063":1,"#, r#""b":1}"#, read),
    ("get-open", r#"{"b":"#, r#"{"b":["#, "", read),
    ("lenient-deep", "", "[", "", mend),
    ("lenient-quotes", "", "\"", "", mend),
    ("lenient-backslashes", "[\"", "\\", "", mend),
    ("lenient-halves", "[\"", "\\ud800", "\"]", mend),
    ("lenient-digits", "", "-1", "", mend),
    ("heads", "[", r#"{"jsonrpc":"2.0","method":"a"},"#, "1]", heads),
    ("heads-numbers", "[", "1,", "1]", heads),
    ("heads-strings", "[", r#""\"]","#, "1]", heads),
    ("heads-open", "", "[", "", heads),
    ("outline", "{", r#""id":"\\","#, "}", outline),
    ("events", "", "data: x\r\nid: 7\nfoo\n", "\n", events),
];

/// Counts all of them; `false` if one takes more than its share.
pub(crate) fn check() -> Result<bool, Fault> {
    let mut is_well = true;
    for (name, ..) in CASES {
        let runs = [0, SIZE, SIZE * TIMES];
        let runs = runs.map(|size: usize| ["linear".into(), (*name).to_owned(), size.to_string()]);
        let [nothing, few, many] = count::of_runs(&runs)?;
        // Without what the program costs by itself.
        let few = few.saturating_sub(nothing).max(1);
        let many = many.saturating_sub(nothing);
        let is_linear = many <= few * MOST;
        is_well &= is_linear;
        let verdict = if is_linear { "" } else { "NOT LINEAR" };
        println!(
            "{name:20} {few:>10} for {SIZE} bytes {many:>12} for {TIMES} times that  {verdict}"
        );
    }
    Ok(is_well)
}

/// What is counted.
pub(crate) fn run(name: &str, size: &str) -> Result<(), Fault> {
    let (_, start, part, end, work) =
        *CASES.iter().find(|(known, ..)| *known == name).ok_or("there is no such case")?;
    let parts = size.parse::<usize>()? / part.len();
    work(&format!("{start}{}{end}", part.repeat(parts)));
    Ok(())
}

/// With many secrets, of which some are nearly in the text everywhere.
fn scrub(text: &str) {
    let scrubber = Scrubber::default();
    scrubber.add(&Secret::new(format!("{}b", "a".repeat(500))));
    for n in 0..64 {
        scrubber.add(&Secret::new(format!("token-number-{n}-of-many")));
    }
    std::hint::black_box(scrubber.clean(text));
}

fn filter(text: &str) {
    let text = Untrusted(text);
    std::hint::black_box((text.line(), text.block(), text.json(), text.excerpt(500)));
}

fn read_page(text: &str) {
    std::hint::black_box(page::readable(text));
}

fn members(text: &str) {
    std::hint::black_box(Members::of(text).map(|members| members.to_json()));
}

fn read(text: &str) {
    std::hint::black_box(get(text, &["b", "b"]).is_some());
}

fn mend(text: &str) {
    std::hint::black_box(lenient(text));
}

fn heads(text: &str) {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    std::hint::black_box((Message::parse(bytes.clone()).is_ok(), parse_each(bytes).count()));
}

fn outline(text: &str) {
    let mut outliner = Outliner::default();
    outliner.feed(text.as_bytes());
    std::hint::black_box(outliner.finish());
}

fn events(text: &str) {
    let mut decoder = Decoder::new(usize::MAX / 2);
    decoder.push(Bytes::copy_from_slice(text.as_bytes()));
    while let Ok(Some(event)) = decoder.next_event() {
        std::hint::black_box(event);
    }
}
