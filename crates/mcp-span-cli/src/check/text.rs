//! A report for a person: one line for each finding, and more where more has to be said. Pure.

use anstyle::{AnsiColor, Style};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::finding::{Finding, Report, Status, counted};
use crate::output::wrap;
use crate::report::plain;
use mcp_span::limits;

const DIM: Style = Style::new().dimmed();

/// Where further lines begin if there is no room for them behind the names.
const NARROW_INDENT: usize = 4;

/// How a report is laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Of the terminal, in columns.
    pub(super) width: usize,
    /// Also the details of what passed.
    pub(super) is_verbose: bool,
}

/// What stands above all: enough to know what was running where.
pub(super) fn heading() -> String {
    let platform = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    format!("mcp-span {}, {platform}\n", env!("CARGO_PKG_VERSION"))
}

/// Everything about one target, with codes for colours.
pub(super) fn text(report: &Report, layout: Layout) -> String {
    let bold = Style::new().bold();
    let names = report.findings.iter().map(|finding| finding.check.len());
    let name_width = names.max().unwrap_or_default();
    let mut page =
        Page { layout, name_width, text: format!("\n{bold}{}{bold:#}\n", plain(&report.target)) };
    let is_same_gap = |one: &Finding, next: &Finding| {
        one.status == Status::Skipped && next.status == one.status && next.summary == one.summary
    };
    // What was skipped for the same reason is told once.
    for findings in report.findings.chunk_by(is_same_gap) {
        match findings {
            [finding] => page.add(finding),
            gap => page.add_gap(gap),
        }
    }
    page.text + &verdict(report)
}

/// A report in the making.
struct Page {
    layout: Layout,
    name_width: usize,
    text: String,
}

impl Page {
    fn add(&mut self, finding: &Finding) {
        let (mark, style) = mark(finding.status);
        let (width, name_width) = (self.layout.width, self.name_width);
        let column = 2 + 2 + name_width + 2;
        let is_narrow = width < column + limits::LAST_COLUMN;
        let indent = if is_narrow { NARROW_INDENT } else { column };
        let summary = plain(&finding.summary);
        let head = format!("  {style}{mark}{style:#} {:<name_width$}  ", finding.check);
        if column + summary.width() > width && is_narrow {
            self.push(0, head.trim_end());
            self.wrapped(indent, &summary);
        } else {
            self.hanging(&head, column, &summary);
        }
        self.add_more(finding, indent);
    }

    fn add_gap(&mut self, gap: &[Finding]) {
        let Some(first) = gap.first() else { return };
        let (mark, style) = mark(first.status);
        let checks: Vec<&str> = gap.iter().map(|finding| finding.check).collect();
        let text = format!("{}: {}", checks.join(", "), plain(&first.summary));
        self.hanging(&format!("  {style}{mark}{style:#} "), NARROW_INDENT, &text);
    }

    /// Why it is so, and what to do about it.
    fn add_more(&mut self, finding: &Finding, indent: usize) {
        if finding.status > Status::Ok || self.layout.is_verbose {
            // Not broken: they are copied.
            for line in finding.details.iter().flat_map(|detail| detail.lines()) {
                self.push(indent, &format!("{DIM}{}{DIM:#}", plain(line)));
            }
        }
        if let Some(meaning) = &finding.meaning {
            self.wrapped(indent, meaning);
        }
        if let Some(next_step) = &finding.next_step {
            self.wrapped(indent, &format!("hint: {next_step}"));
        }
        if finding.status > Status::Ok
            && let Some(exchange) = &finding.exchange
        {
            let lines = exchange_lines(exchange);
            lines.iter().for_each(|line| self.push(indent, &format!("{DIM}{line}{DIM:#}")));
        }
    }

    /// `text` behind a head, and its further lines below its beginning at `column`.
    fn hanging(&mut self, head: &str, column: usize, text: &str) {
        let mut lines = wrap(text, self.layout.width.saturating_sub(column)).into_iter();
        self.push(0, &format!("{head}{}", lines.next().unwrap_or_default()));
        lines.for_each(|line| self.push(column, &line));
    }

    fn wrapped(&mut self, indent: usize, text: &str) {
        let lines = wrap(&plain(text), self.layout.width.saturating_sub(indent));
        lines.iter().for_each(|line| self.push(indent, line));
    }

    fn push(&mut self, indent: usize, line: &str) {
        self.text += &format!("{:indent$}{line}\n", "");
    }
}

fn mark(status: Status) -> (char, Style) {
    let coloured = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    match status {
        Status::Ok => ('✓', coloured(AnsiColor::Green)),
        Status::Warning => ('!', coloured(AnsiColor::Yellow)),
        Status::Failed => ('✗', coloured(AnsiColor::Red).bold()),
        Status::Skipped => ('-', DIM),
    }
}

/// The exchange as it crossed the wire, but for what is hidden.
fn exchange_lines(exchange: &Value) -> Vec<String> {
    let (request, response) = (&exchange["request"], &exchange["response"]);
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let content = |sign: char, part: &Value| {
        let headers = part["headers"].as_object().into_iter().flatten();
        let headers = headers.map(|(name, value)| format!("{name}: {}", text(value)));
        let body = text(&part["body"]);
        let body = body.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned);
        headers.chain(body).map(|line| format!("{sign} {line}")).collect::<Vec<_>>()
    };
    let mut lines = vec![format!("> {} {}", text(&request["method"]), text(&request["url"]))];
    lines.extend(content('>', request));
    if response.is_object() {
        lines.push(format!("< {} {}", text(&response["version"]), response["status"]));
        lines.extend(content('<', response));
    }
    lines.extend(exchange["error"].as_str().map(|error| format!("< nothing: {}", plain(error))));
    lines
}

fn verdict(report: &Report) -> String {
    let (failed, warnings) = (report.count(Status::Failed), report.count(Status::Warning));
    let words = match (failed, warnings) {
        (0, 0) => "no problems found".to_owned(),
        (0, warnings) => format!("works, with {}", counted(warnings, "warning")),
        (failed, 0) => format!("{failed} failed"),
        (failed, warnings) => format!("{failed} failed, and {}", counted(warnings, "warning")),
    };
    let (_, style) = mark(report.status());
    format!("  {style}{words}{style:#}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(findings: Vec<Finding>, width: usize, is_verbose: bool) -> String {
        let report = Report { target: "t".into(), findings };
        let text = text(&report, Layout { width, is_verbose });
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn findings_are_aligned_and_gaps_are_told_once() {
        let findings = vec![
            Finding::ok("connection", "open").detail("a detail"),
            Finding::skipped("a", "why"),
            Finding::skipped("b", "why"),
            Finding::skipped("c", "another"),
        ];
        let expected = "\nt\n  \
            ✓ connection  open\n  \
            - a, b: why\n  \
            - c           another\n  \
            no problems found\n";
        assert_eq!(shown(findings.clone(), 80, false), expected);
        let verbose = shown(findings, 80, true);
        assert_eq!(verbose, expected.replace("open\n", "open\n                a detail\n"));
    }

    #[test]
    fn where_there_is_little_room_the_rest_goes_below() {
        let long = Finding::failed("connection", "word ".repeat(10)).meaning("m ".repeat(20));
        let expected = "\nt\n  \
            ✓ a           b\n  \
            ✗ connection\n    \
            word word word word word word word\n    \
            word word word\n    \
            m m m m m m m m m m m m m m m m m m\n    \
            m m\n  \
            1 failed\n";
        assert_eq!(shown(vec![Finding::ok("a", "b"), long], 40, false), expected);
    }

    #[test]
    fn a_failure_comes_with_all_that_helps() {
        let headers = json!({ "accept": "x\u{1b}[2J" });
        let exchange = json!({
            "request": { "method": "GET", "url": "http://h/", "headers": headers, "body": "" },
            "response": { "version": "HTTP/1.1", "status": 404, "body": "no\n\nway" },
        });
        let mut finding =
            Finding::failed("x", "word ".repeat(30)).meaning("m").next_step("n").detail("d");
        finding.exchange = Some(exchange);
        let text = shown(vec![finding], 80, false);
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        let tail: Vec<&str> = text.lines().skip(5).map(str::trim).collect();
        let expected = [
            "d",
            "m",
            "hint: n",
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
