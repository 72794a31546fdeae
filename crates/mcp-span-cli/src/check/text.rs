//! A report for a person: one line for each finding, and more where more has to be said. Pure.

use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value};

use super::finding::{Exchange, Finding, Report, Status, counted};
use crate::output::wrap;
use crate::report::plain;
use mcp_span::limits;

/// The width of the longest status, and of the longest name.
const MARK: usize = 7;
const NAME: usize = 15;

/// What stands above all: enough to know what was running where.
pub(super) fn heading() -> String {
    let platform = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    format!("mcp-span {}, {platform}\n", env!("CARGO_PKG_VERSION"))
}

/// Everything about one target, with codes for colours.
pub(super) fn text(report: &Report, width: usize) -> String {
    let bold = Style::new().bold();
    let mut text = format!("\n{bold}{}{bold:#}\n", plain(&report.target));
    let mut findings = report.findings.iter().peekable();
    while let Some(finding) = findings.next() {
        let mut same = Vec::new();
        while let Some(next) = findings.next_if(|next| is_same_gap(finding, next)) {
            same.push(next.check);
        }
        if same.is_empty() {
            add(finding, width, &mut text);
        } else {
            add_gap(finding, &same, width, &mut text);
        }
    }
    text + &verdict(report)
}

/// What was skipped for the same reason is told once.
fn is_same_gap(one: &Finding, next: &Finding) -> bool {
    one.status == Status::Skipped && next.status == one.status && next.summary == one.summary
}

fn add_gap(first: &Finding, others: &[&str], width: usize, text: &mut String) {
    let all = [&[first.check], others].concat();
    let summary = format!("{} ({})", first.summary, all.join(", "));
    add(&Finding::skipped("", summary), width, text);
}

fn add(finding: &Finding, width: usize, text: &mut String) {
    let style = style(finding.status);
    let (mark, name) = (finding.status.as_str(), finding.check);
    let indent = 2 + MARK + 2 + NAME + 2;
    // On a narrow terminal, lines are as short as they can be read.
    let width = width.saturating_sub(indent).max(limits::LAST_COLUMN);
    let lines = wrap(&plain(&finding.summary), width);
    let mut lines = lines.iter();
    let first = lines.next().map_or("", String::as_str);
    *text += &format!("  {style}{mark:<MARK$}{style:#}  {name:<NAME$}  {first}\n");
    let mut push = |line: &str| *text += &format!("{:indent$}{line}\n", "");
    lines.for_each(|line| push(line));
    let dim = Style::new().dimmed();
    // Not broken: they are copied.
    for line in finding.details.iter().flat_map(|detail| detail.lines()) {
        push(&format!("{dim}{}{dim:#}", plain(line)));
    }
    let paragraphs = [("", &finding.meaning), ("next: ", &finding.next_step)];
    for (prefix, words) in paragraphs {
        let Some(words) = words else { continue };
        let words = format!("{prefix}{words}");
        wrap(&plain(&words), width).iter().for_each(|line| push(line));
    }
    if finding.status >= Status::Warning
        && let Some(exchange) = &finding.exchange
    {
        told(exchange).iter().for_each(|line| push(&format!("{dim}{line}{dim:#}")));
    }
}

fn style(status: Status) -> Style {
    let style = Style::new();
    match status {
        Status::Ok => style.fg_color(Some(AnsiColor::Green.into())),
        Status::Warning => style.fg_color(Some(AnsiColor::Yellow.into())),
        Status::Failed => style.fg_color(Some(AnsiColor::Red.into())).bold(),
        Status::Skipped => style.dimmed(),
    }
}

/// The exchange as it crossed the wire, but for what is hidden.
fn told(exchange: &Exchange) -> Vec<String> {
    let mut lines = vec![format!("> {} {}", exchange.method, exchange.url)];
    let headers = |sign: char, headers: &Map<String, Value>, lines: &mut Vec<String>| {
        for (name, value) in headers {
            lines.push(format!("{sign} {name}: {}", plain(value.as_str().unwrap_or_default())));
        }
    };
    let body = |sign: char, body: &str, lines: &mut Vec<String>| {
        for line in body.lines().filter(|line| !line.trim().is_empty()) {
            lines.push(format!("{sign} {}", plain(line)));
        }
    };
    headers('>', &exchange.headers, &mut lines);
    body('>', &exchange.body, &mut lines);
    if let Some(answer) = &exchange.answer {
        lines.push(format!("< {} {}", answer.version, answer.status));
        headers('<', &answer.headers, &mut lines);
        body('<', &answer.body, &mut lines);
    }
    lines.extend(exchange.error.iter().map(|error| format!("< nothing: {}", plain(error))));
    lines
}

fn verdict(report: &Report) -> String {
    let (failed, warnings) = (report.count(Status::Failed), report.count(Status::Warning));
    let words = match (failed, warnings) {
        (0, 0) => "all is well".to_owned(),
        (0, warnings) => format!("it works, with {}", counted(warnings, "warning")),
        (failed, 0) => format!("{failed} failed"),
        (failed, warnings) => format!("{failed} failed, and {}", counted(warnings, "warning")),
    };
    let style = style(report.status());
    format!("  {style}{words}{style:#}\n")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Answer;
    use super::*;

    fn shown(findings: Vec<Finding>) -> String {
        let text = text(&Report { target: "t".into(), findings }, 80);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn findings_are_aligned_and_gaps_are_told_once() {
        let text = shown(vec![
            Finding::ok("url", "https"),
            Finding::skipped("a", "why"),
            Finding::skipped("b", "why"),
            Finding::skipped("c", "another"),
        ]);
        let expected = "\nt\n  \
            ok       url              https\n  \
            skipped                   why (a, b)\n  \
            skipped  c                another\n  \
            all is well\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_failure_comes_with_all_that_helps() {
        let answer = Answer {
            status: 404,
            version: "HTTP/1.1".into(),
            body: "no\n\nway".into(),
            ..Answer::default()
        };
        let headers = Map::from_iter([("accept".to_owned(), Value::from("x\u{1b}[2J"))]);
        let exchange = Exchange {
            method: "GET".into(),
            url: "http://h/".into(),
            headers,
            answer: Some(answer),
            ..Exchange::default()
        };
        let finding =
            Finding::failed("x", "word ".repeat(30)).meaning("m").next_step("n").detail("d");
        let text = shown(vec![finding.exchange(&exchange)]);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let tail: Vec<&str> = text.lines().skip(5).map(str::trim).collect();
        let expected = [
            "d",
            "m",
            "next: n",
            "> GET http://h/",
            "> accept: x[2J",
            "< HTTP/1.1 404",
            "< no",
            "< way",
            "1 failed",
        ];
        assert_eq!(tail, expected, "{text}");
    }
}
