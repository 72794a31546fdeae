//! Runs `mcp-span check`, and makes its text the same for every run: no ports, times and dates.

use std::process::Output;

use super::run;

/// What a check came to.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) code: Option<i32>,
    /// Without its heading.
    pub(crate) text: String,
    pub(crate) stderr: String,
}

/// Checks, with these arguments and variables, at a terminal that is 100 columns wide.
pub(crate) async fn check(args: &[&str], env: &[(&str, &str)]) -> Checked {
    let env = [&[("COLUMNS", "100")], env].concat();
    checked(&run(&[&["check"], args].concat(), &env, "").await)
}

/// What the program has printed.
pub(crate) fn checked(output: &Output) -> Checked {
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    let heading = format!("mcp-span {}, ", env!("CARGO_PKG_VERSION"));
    assert!(text.starts_with(&heading), "{output:?}");
    let (_, text) = text.split_once('\n').expect("a heading");
    Checked {
        code: output.status.code(),
        text: same(text),
        stderr: String::from_utf8(output.stderr.clone()).expect("UTF-8"),
    }
}

impl Checked {
    /// Compares the text, the indentation of the source left out, and the exit code.
    #[track_caller]
    pub(crate) fn is(&self, code: i32, expected: &str) {
        assert_eq!(trimmed(&self.text), trimmed(expected), "\n{}", self.text);
        assert_eq!((self.code, &*self.stderr), (Some(code), ""));
    }

    /// Compares one finding.
    #[track_caller]
    pub(crate) fn says(&self, check: &str, expected: &str) {
        let finding = self.finding(check);
        assert_eq!(finding, trimmed(expected), "\n\n{finding}\n");
    }

    /// The line of a finding, and those that belong to it.
    pub(crate) fn finding(&self, check: &str) -> String {
        let is_it = |line: &&str| line.split_whitespace().nth(1) == Some(check);
        let mut lines = self.text.lines().skip_while(|line| !is_it(line));
        let first = lines.next().unwrap_or_else(|| panic!("no {check} in {}", self.text));
        let more = lines.take_while(|line| line.starts_with("    ")).map(str::trim);
        std::iter::once(first.trim()).chain(more).collect::<Vec<_>>().join("\n")
    }
}

fn trimmed(text: &str) -> String {
    text.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

/// The text without what differs from run to run, and from machine to machine.
fn same(text: &str) -> String {
    let mut done = String::new();
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION").replace("/usr/bin/", "/bin/");
    let mut rest = &*text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        done.push_str(before);
        let end = from.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(from.len());
        let (number, behind) = from.split_at(end);
        let is_port = (4..=5).contains(&number.len())
            && number.bytes().all(|b| b.is_ascii_digit())
            && (before.ends_with(':') || before.ends_with("port "));
        if is_port {
            done.push_str("PORT");
        } else if behind.starts_with(" ms") || behind.starts_with(" days") {
            done.push('N');
        } else if let Some(behind) = date(from) {
            done.push_str("DATE");
            rest = behind;
            continue;
        } else {
            done.push_str(number);
        }
        rest = behind;
    }
    done + rest
}

/// What stands behind `06 Nov 1994`.
fn date(text: &str) -> Option<&str> {
    let (date, behind) = text.split_at_checked(11)?;
    let [day, month, year] = *date.split(' ').collect::<Vec<_>>() else { return None };
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let is_date = day.len() == 2 && is_number(day) && year.len() == 4 && is_number(year);
    (is_date && month.bytes().all(|b| b.is_ascii_alphabetic())).then_some(behind)
}
