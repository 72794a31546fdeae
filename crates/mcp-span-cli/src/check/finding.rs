//! What a check finds, as data: printing comes later.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::exchange::Exchange;
use mcp_span::error::Error;

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// It could not be looked at, or there is nothing to look at.
    Skipped,
    Ok,
    /// It works, but will not always, or not everywhere.
    Warning,
    Failed,
}

/// One thing that was looked at. Its members are those of `--json`, and stay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Finding {
    /// Its name, which stays.
    pub(super) check: &'static str,
    pub(super) status: Status,
    pub(super) summary: String,
    /// Further lines.
    pub(super) details: Vec<String>,
    pub(super) meaning: Option<String>,
    pub(super) next_step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exchange: Option<Value>,
    /// In milliseconds.
    #[serde(serialize_with = "milliseconds")]
    pub(super) times: Vec<Duration>,
}

fn milliseconds<S: Serializer>(times: &[Duration], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(times.iter().map(|time| (time.as_secs_f64() * 1e6).round() / 1e3))
}

impl Finding {
    fn new(check: &'static str, status: Status, summary: impl Into<String>) -> Self {
        Self {
            check,
            status,
            summary: summary.into(),
            details: Vec::new(),
            meaning: None,
            next_step: None,
            exchange: None,
            times: Vec::new(),
        }
    }

    pub(super) fn ok(check: &'static str, summary: impl Into<String>) -> Self {
        Self::new(check, Status::Ok, summary)
    }

    pub(super) fn skipped(check: &'static str, why: impl Into<String>) -> Self {
        Self::new(check, Status::Skipped, why)
    }

    pub(super) fn warning(check: &'static str, summary: impl Into<String>) -> Self {
        Self::new(check, Status::Warning, summary)
    }

    pub(super) fn failed(check: &'static str, summary: impl Into<String>) -> Self {
        Self::new(check, Status::Failed, summary)
    }

    /// A failure in the words of the library.
    pub(super) fn of_error(check: &'static str, error: &Error) -> Self {
        let mut finding = Self::failed(check, &*error.message);
        let news = error.reason.iter().filter(|reason| !error.message.contains(&***reason));
        // The system's number for it tells a person nothing.
        let bare = news.map(|reason| reason.split(" (os error").next().unwrap_or_default());
        finding.details.extend(bare.map(str::to_owned));
        finding.next_step.clone_from(&error.hint);
        finding
    }

    pub(super) fn meaning(mut self, meaning: impl Into<String>) -> Self {
        self.meaning = Some(meaning.into());
        self
    }

    pub(super) fn next_step(mut self, next: impl Into<String>) -> Self {
        self.next_step = Some(next.into());
        self
    }

    pub(super) fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }

    pub(super) fn details(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(lines);
        self
    }

    pub(super) fn exchange(mut self, exchange: &Exchange) -> Self {
        self.exchange = Some(exchange.shown.clone());
        self
    }

    pub(super) fn took(mut self, time: Duration) -> Self {
        self.times.push(time);
        self
    }

    /// The same with every text changed.
    fn with_texts(mut self, change: impl Fn(&str) -> String) -> Self {
        self.summary = change(&self.summary);
        self.details = self.details.iter().map(|line| change(line)).collect();
        self.meaning = self.meaning.as_deref().map(&change);
        self.next_step = self.next_step.as_deref().map(&change);
        if let Some(exchange) = &mut self.exchange {
            change_texts(exchange, &change);
        }
        self
    }
}

/// Changes every text in `value` but the names of members.
fn change_texts(value: &mut Value, change: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(values) => values.iter_mut().for_each(|value| change_texts(value, change)),
        Value::Object(members) => {
            members.values_mut().for_each(|value| change_texts(value, change));
        }
        _ => {}
    }
}

/// All that was found out about one target.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// As it may be shown.
    pub(super) target: String,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    /// The worst of it.
    pub(super) fn status(&self) -> Status {
        self.findings.iter().map(|finding| finding.status).max().unwrap_or(Status::Skipped)
    }

    pub(super) fn count(&self, status: Status) -> usize {
        self.findings.iter().filter(|finding| finding.status == status).count()
    }

    /// For a program.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "target": self.target,
            "status": self.status(),
            "version": env!("CARGO_PKG_VERSION"),
            "platform": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            "findings": self.findings,
        })
    }

    /// The same as it may be pasted anywhere: `clean` takes out secrets, and the home folder, whose
    /// name is mostly a person's, is written as everybody's.
    pub(super) fn for_others(self, clean: impl Fn(&str) -> String, home: Option<&str>) -> Self {
        let home = home.map(|home| home.trim_end_matches('/')).filter(|home| home.len() > 1);
        let change = |text: &str| {
            let text = clean(text);
            home.map_or_else(|| text.clone(), |home| text.replace(home, "~"))
        };
        let findings = self.findings.into_iter().map(|finding| finding.with_texts(change));
        Self { target: change(&self.target), findings: findings.collect() }
    }
}

/// A time as people read it.
pub(super) fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// `1 tool`, `2 tools`
pub(super) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_is_the_status() {
        let with = |findings: Vec<Finding>| Report { target: "t".into(), findings }.status();
        assert_eq!(with(vec![Finding::ok("a", ""), Finding::skipped("b", "")]), Status::Ok);
        assert_eq!(with(vec![Finding::warning("a", ""), Finding::ok("b", "")]), Status::Warning);
        assert_eq!(with(vec![Finding::failed("a", ""), Finding::warning("b", "")]), Status::Failed);
    }

    #[test]
    fn the_names_of_members_stay() {
        let ok = Finding::ok("a", "s").took(Duration::from_micros(1500));
        let mut failed = Finding::failed("b", "f");
        failed.exchange = Some(json!({ "error": "e" }));
        let value = Report { target: "t".into(), findings: vec![ok, failed] }.to_json();
        assert_eq!(value["status"], "failed");
        assert_eq!(
            value["findings"][0],
            json!({
                "check": "a", "status": "ok", "summary": "s", "details": [], "meaning": null,
                "next_step": null, "times": [1.5],
            })
        );
        assert_eq!(value["findings"][1]["exchange"]["error"], "e");
    }

    #[test]
    fn what_is_for_others_holds_neither_secrets_nor_homes() {
        let exchange =
            json!({ "request": { "headers": { "x": "hunter2" } }, "error": ["hunter2"] });
        let mut finding = Finding::failed("a", "hunter2 /home/ann/x")
            .meaning("hunter2")
            .next_step("hunter2")
            .detail("hunter2 in /home/ann");
        finding.exchange = Some(exchange);
        let report = Report { target: "/home/ann/hunter2".into(), findings: vec![finding] };
        let clean = |text: &str| text.replace("hunter2", "[secret]");
        let shown = format!("{:?}", report.for_others(clean, Some("/home/ann/")));
        assert!(!shown.contains("hunter2") && !shown.contains("ann"), "{shown}");
        assert!(shown.contains("~/x"), "{shown}");
    }

    #[test]
    fn times_and_counts_are_short() {
        assert_eq!(ms(Duration::from_micros(1234)), "1.2 ms");
        assert_eq!(ms(Duration::from_micros(123_456)), "123 ms");
        assert_eq!((counted(1, "tool"), counted(0, "page")), ("1 tool".into(), "0 pages".into()));
    }
}
