//! The progress of a call, and what the server logs meanwhile.

use std::convert::Infallible;

use serde_json::Value;

use super::schema::plain;
use crate::output::Status;
use crate::report;
use mcp_span::client::{Client, Notifications, Progress};

/// One line: a bar where the end is known, else how much is done.
pub(super) fn line(progress: &Progress) -> String {
    const WIDTH: usize = 20;
    let message = progress.message.as_deref().unwrap_or_default();
    let text = match progress.total.filter(|total| *total > 0.0) {
        Some(total) => {
            let part = (progress.progress / total).clamp(0.0, 1.0);
            // In range by what stands above.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let (full, percent) =
                ((part * WIDTH as f64).round() as usize, (part * 100.0).round() as u32);
            let bar = "█".repeat(full) + &"░".repeat(WIDTH - full);
            format!("{bar} {percent:3}% {message}")
        }
        None => format!("{} {message}", progress.progress),
    };
    text.trim_end().to_owned()
}

/// Asks for the server's log, where it has one.
pub(super) async fn listen(client: &Client) -> Notifications {
    let logs = client.notifications();
    if client.has_capability("logging") {
        // Without it, the server sends what it thinks best.
        let _ = client.set_log_level("debug").await;
    }
    logs
}

/// Prints what the server logs, until the connection ends; then it waits for ever.
pub(super) async fn print_logs(logs: Option<Notifications>, status: &Status) -> Infallible {
    if let Some(mut logs) = logs {
        while let Some(heard) = logs.next().await {
            if heard.method == "notifications/message" {
                status.clear();
                report::note(&logged(&heard.params));
            }
        }
    }
    std::future::pending().await
}

fn logged(params: &Value) -> String {
    let level = params["level"].as_str().unwrap_or("log");
    let logger = params["logger"].as_str().map_or_else(String::new, |name| format!(" {name}"));
    format!("server {level}{logger}: {}", plain(&params["data"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_is_a_bar_where_the_end_is_known() {
        let progress = |progress, total, message: &str| {
            let message = Some(message.to_owned());
            line(&Progress { progress, total, message })
        };
        assert_eq!(progress(1.0, Some(4.0), "x"), "█████░░░░░░░░░░░░░░░  25% x");
        assert_eq!(progress(9.0, Some(4.0), ""), "████████████████████ 100%");
        assert_eq!(progress(7.0, None, "rows"), "7 rows");
        assert_eq!(progress(7.0, Some(0.0), ""), "7");
        assert_eq!(progress(f64::NAN, Some(1.0), ""), "░░░░░░░░░░░░░░░░░░░░   0%");
    }

    #[test]
    fn log_messages_are_told_in_one_line() {
        let text = logged(&json!({"level": "info", "logger": "db", "data": {"rows": 3}}));
        assert_eq!(text, r#"server info db: {"rows":3}"#);
        assert_eq!(logged(&json!({"data": "plain"})), "server log: plain");
    }
}
