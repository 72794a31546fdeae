//! TLS: its version, and the certificates with their owners, issuers and ends. Pure.

use std::time::{Duration, SystemTime};

use super::address::Way;
use super::finding::{Finding, ms};
use mcp_span::limits;
use mcp_span::net::Certificate;

const DAY: u64 = 24 * 60 * 60;

/// What there is to say; `is_checked`: certificates are looked at by the bridge, too.
pub(super) fn tls(way: &Way<'_>, is_checked: bool, now: SystemTime) -> Finding {
    let refused = &way.connection.refused;
    match (&way.connection.secured, way.fault) {
        _ if way.url.scheme() != "https" => Finding::skipped("tls", "the URL is plain http"),
        (Some((version, certificates, took)), _) => {
            secure(&format!("{version} ({})", ms(*took)), certificates, is_checked, now).took(*took)
        }
        (None, Some(error)) if way.connection.reached.is_some() => {
            let mut finding = Finding::of_error("tls", error).meaning(meaning(refused, now));
            if !refused.is_empty() {
                // They say more than the words of the layer below.
                finding.details = chain(refused, now);
            }
            finding
        }
        (None, _) => Finding::skipped("tls", "no connection"),
    }
}

fn secure(
    summary: &str,
    certificates: &[Certificate],
    is_checked: bool,
    now: SystemTime,
) -> Finding {
    let soonest = certificates.iter().map(|certificate| certificate.valid_until).min();
    let left = soonest.map(|end| days(end, now));
    let finding = match left {
        _ if !is_checked => {
            Finding::warning("tls", format!("{summary}; certificate not verified"))
                .meaning("With --insecure, anyone between here and the server can read and change everything")
                .next_step("Drop --insecure; give the server's certificate authority with --ca-cert")
        }
        Some(left) if left < 0 => {
            Finding::failed("tls", format!("{summary}; certificate expired"))
                .meaning("Other programs refuse the server")
                .next_step("The server needs a new certificate")
        }
        Some(left) if left < i64::try_from(limits::CERTIFICATE_DAYS).unwrap_or(i64::MAX) => {
            Finding::warning("tls", format!("{summary}; certificate {}", ending(left)))
                .meaning("Once it has expired, clients refuse the server")
                .next_step("Renew it, or ask the server's operator to")
        }
        Some(left) => Finding::ok("tls", format!("{summary}; valid for {left} days")),
        None => Finding::ok("tls", summary),
    };
    finding.details(chain(certificates, now))
}

/// Whole days until `end`; less than none if it is over.
fn days(end: SystemTime, now: SystemTime) -> i64 {
    let whole = |time: Duration| i64::try_from(time.as_secs() / DAY).unwrap_or(i64::MAX);
    match end.duration_since(now) {
        Ok(left) => whole(left),
        Err(over) => -1 - whole(over.duration()),
    }
}

fn ending(left: i64) -> String {
    match left {
        0 => "expires today".to_owned(),
        1 => "expires tomorrow".to_owned(),
        left if left > 1 => format!("expires in {left} days"),
        -1 => "has expired today".to_owned(),
        over => format!("expired {} days ago", -1 - over),
    }
}

/// One line for each, the server's own first.
fn chain(certificates: &[Certificate], now: SystemTime) -> Vec<String> {
    certificates.iter().map(|certificate| line(certificate, now)).collect()
}

fn line(certificate: &Certificate, now: SystemTime) -> String {
    let Certificate { subject, names, issuer, is_self_issued, .. } = certificate;
    let owner =
        subject.as_deref().map_or_else(|| "no name".to_owned(), |name| format!("\"{name}\""));
    let hosts = match &names[..] {
        [] => String::new(),
        names => {
            let more = names.len().saturating_sub(limits::CERTIFICATE_NAMES);
            let shown: Vec<&str> =
                names.iter().take(limits::CERTIFICATE_NAMES).map(String::as_str).collect();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(" for {}{more}", shown.join(", "))
        }
    };
    let issuer = match issuer {
        _ if *is_self_issued => "self-signed".to_owned(),
        Some(issuer) => format!("issued by \"{issuer}\""),
        None => "without an issuer".to_owned(),
    };
    let date = |time: SystemTime| httpdate::fmt_http_date(time)[5..16].to_owned();
    let ending = ending(days(certificate.valid_until, now));
    format!("{owner}{hosts}, {issuer}, {ending} ({})", date(certificate.valid_until))
}

/// What it means that the handshake failed, by what was shown in it.
fn meaning(refused: &[Certificate], now: SystemTime) -> &'static str {
    match refused.first() {
        None => "There is no secure connection, so nothing was sent",
        Some(own) if own.valid_until < now => {
            "The certificate has expired; unless this machine's date is wrong, it was not renewed"
        }
        Some(own) if own.is_self_issued && refused.len() == 1 => {
            "No authority vouches for the certificate: anyone could have made it"
        }
        Some(_) => "The peer cannot prove to be the server of this URL, so nothing was sent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_in_both_directions() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 * DAY);
        let at = |offset: i64| {
            let time = Duration::from_secs(offset.unsigned_abs());
            days(if offset < 0 { now - time } else { now + time }, now)
        };
        let day = i64::try_from(DAY).unwrap();
        assert_eq!((at(0), at(day - 1), at(day), at(14 * day)), (0, 0, 1, 14));
        assert_eq!((at(-1), at(-day), at(-day * 3)), (-1, -2, -4));
        assert_eq!(ending(at(-1)), "has expired today");
        assert_eq!(ending(at(-day * 3)), "expired 3 days ago");
        assert_eq!(ending(at(day)), "expires tomorrow");
    }
}
