//! A report for a program: one object, whose names stay. Pure.

use serde_json::{Map, Value, json};

use super::finding::{Exchange, Finding, Report};

/// Everything about one target.
pub(super) fn json(report: &Report) -> Value {
    json!({
        "target": report.target,
        "status": report.status().as_str(),
        "version": env!("CARGO_PKG_VERSION"),
        "platform": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn finding(finding: &Finding) -> Value {
    let times = finding.times.iter().map(|time| (time.as_secs_f64() * 1e6).round() / 1e3);
    let mut members = Map::new();
    members.insert("check".to_owned(), finding.check.into());
    members.insert("status".to_owned(), finding.status.as_str().into());
    members.insert("summary".to_owned(), finding.summary.as_str().into());
    members.insert("details".to_owned(), finding.details.clone().into());
    members.insert("meaning".to_owned(), finding.meaning.clone().into());
    members.insert("next_step".to_owned(), finding.next_step.clone().into());
    members.insert("times".to_owned(), times.collect::<Vec<f64>>().into());
    if let Some(told) = &finding.exchange {
        members.insert("exchange".to_owned(), exchange(told));
    }
    members.into()
}

fn exchange(exchange: &Exchange) -> Value {
    let answer = exchange.answer.as_ref().map(|answer| {
        json!({
            "status": answer.status,
            "version": answer.version,
            "headers": answer.headers,
            "body": answer.body,
        })
    });
    json!({
        "request": {
            "method": exchange.method,
            "url": exchange.url,
            "headers": exchange.headers,
            "body": exchange.body,
        },
        "response": answer,
        "error": exchange.error,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_names_of_members_stay() {
        let ok = Finding::ok("a", "s").took(Duration::from_micros(1500));
        let failed = Finding::failed("b", "f").exchange(&Exchange::default());
        let report = Report { target: "t".into(), findings: vec![ok, failed] };
        let value = json(&report);
        assert_eq!(value["status"], "failed");
        assert_eq!(
            value["findings"][0],
            json!({
                "check": "a", "status": "ok", "summary": "s", "details": [], "meaning": null,
                "next_step": null, "times": [1.5],
            })
        );
        let told = &value["findings"][1]["exchange"];
        assert!(told["request"]["headers"].is_object() && told["response"].is_null(), "{told}");
    }
}
