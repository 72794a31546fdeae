//! Reads out of a certificate what a person has to be told of it: who issued it, whose it is, and
//! when it is valid.
//!
//! Nobody is trusted because of what is read here. `trust` asks for the dates of one certificate, which
//! the user has named byte for byte: they can only take back the trust that it has from that. The crates
//! that read whole certificates weigh more than all of this file's callers; six fields need a walk over a
//! dozen lengths.

use std::net::IpAddr;
use std::time::SystemTime;

use crate::limits;
use crate::untrusted::Untrusted;

/// What a certificate says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Who signed it, in words; `None` if it does not say.
    pub issuer: Option<String>,
    /// Whose it is, in words; newer ones have only [`names`](Self::names).
    pub subject: Option<String>,
    /// The hosts that it is for.
    pub names: Vec<String>,
    /// It names itself as its issuer.
    pub is_self_issued: bool,
    /// From when on it is valid.
    pub valid_from: SystemTime,
    /// Until when.
    pub valid_until: SystemTime,
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version, which the oldest certificates leave out.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// A host and an address among the names of a certificate.
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

impl Certificate {
    /// Reads DER; `None` if it is not a certificate.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let certificate = Der(der).expect_tag(SEQUENCE)?;
        let mut fields = Der(Der(certificate).expect_tag(SEQUENCE)?);
        if fields.0.first() == Some(&VERSION) {
            fields.expect_tag(VERSION)?;
        }
        fields.expect_tag(INTEGER)?;
        fields.expect_tag(SEQUENCE)?;
        let issuer = fields.expect_tag(SEQUENCE)?;
        let mut validity = Der(fields.expect_tag(SEQUENCE)?);
        let subject = fields.expect_tag(SEQUENCE)?;
        Some(Self {
            issuer: name(issuer),
            subject: name(subject),
            names: hosts(fields).unwrap_or_default(),
            is_self_issued: issuer == subject,
            valid_from: time(validity.next()?)?,
            valid_until: time(validity.next()?)?,
        })
    }
}

/// The hosts among the extensions, which are behind the subject.
fn hosts(mut fields: Der<'_>) -> Option<Vec<String>> {
    let extensions = fields.find(|(tag, _)| *tag == EXTENSIONS)?.1;
    let mut extensions = Der(Der(extensions).expect_tag(SEQUENCE)?);
    let names = extensions.find_map(|(_, extension)| {
        let mut parts = Der(extension);
        let id = parts.expect_tag(OBJECT_IDENTIFIER)?;
        let content = parts.find(|(tag, _)| *tag == OCTETS)?.1;
        (id == ALTERNATIVE_NAMES).then_some(content)
    })?;
    let names = Der(Der(names).expect_tag(SEQUENCE)?);
    let shown = names.filter_map(|(tag, content)| match tag {
        DNS_NAME => Some(words(tag, content)),
        IP_ADDRESS => address(content),
        _ => None,
    });
    Some(shown.take(limits::CERTIFICATE_HOSTS).collect())
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let ip = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
    ip.ok().map(|ip| ip.to_string())
}

/// What is left of a run of DER values.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next value, which must have this tag.
    fn expect_tag(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

/// Tags and contents, as long as they are sound.
impl<'a> Iterator for Der<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // No certificate has more than 16 MiB.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

/// A distinguished name in words: the common name, and the organization where that says more.
fn name(content: &[u8]) -> Option<String> {
    let part = |wanted: &[u8]| {
        let sets = Der(content).filter(|(tag, _)| *tag == SET);
        let mut pairs = sets.flat_map(|(_, set)| Der(set)).filter_map(|(_, pair)| {
            let mut pair = Der(pair);
            Some((pair.expect_tag(OBJECT_IDENTIFIER)?, pair.next()?))
        });
        pairs.find(|(id, _)| *id == wanted).map(|(_, (tag, text))| words(tag, text))
    };
    match (part(COMMON_NAME), part(ORGANIZATION)) {
        (Some(common), Some(company)) if !common.contains(&company) => {
            Some(format!("{common}, {company}"))
        }
        (common, company) => common.or(company),
    }
    .filter(|name| !name.is_empty())
}

/// A text of any of the types that names have, short and without anything that moves a cursor.
fn words(tag: u8, text: &[u8]) -> String {
    const BMP: u8 = 0x1e;
    const TELETEX: u8 = 0x14;
    let text = match tag {
        BMP => {
            let units = text.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair));
            char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
        TELETEX => text.iter().map(|byte| char::from(*byte)).collect(),
        _ => String::from_utf8_lossy(text).into_owned(),
    };
    Untrusted(&text).excerpt(limits::CERTIFICATE_NAME)
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`, which is all that certificates may have.
fn time((tag, text): (u8, &[u8])) -> Option<SystemTime> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let digits = text.strip_suffix(b"Z").filter(|text| text.iter().all(u8::is_ascii_digit))?;
    let digits = str::from_utf8(digits).ok()?;
    let century = match tag {
        UTC_TIME if digits < "50" => "20",
        UTC_TIME => "19",
        GENERALIZED_TIME => "",
        _ => return None,
    };
    let text = format!("{century}{digits}");
    // There were no certificates before 1970.
    let (year, month, day) = (text.get(..4)?.max("1970"), text.get(4..6)?, text.get(6..8)?);
    let (hour, minute, second) = (text.get(8..10)?, text.get(10..12)?, text.get(12..)?);
    let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
    // The dates of HTTP have a day of the week, and are refused with a wrong one. A day that does not
    // exist has no right one.
    WEEKDAYS.iter().find_map(|weekday| {
        let date = format!("{weekday}, {day} {month} {year} {hour}:{minute}:{second} GMT");
        httpdate::parse_http_date(&date).ok()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, DnValue)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        params.not_before = rcgen::date_time_ymd(2020, 2, 29);
        params.not_after = rcgen::date_time_ymd(2051, 12, 31);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn issuer(names: &[(DnType, &str)]) -> Option<String> {
        let names: Vec<_> =
            names.iter().map(|(kind, text)| (kind.clone(), DnValue::from(*text))).collect();
        Certificate::read(&certificate(&names)).unwrap().issuer
    }

    #[test]
    fn issuers_are_named_in_words() {
        let (common, company) = (DnType::CommonName, DnType::OrganizationName);
        let named = |names: &[(DnType, &str)]| issuer(names).unwrap();
        assert_eq!(named(&[(common.clone(), "Root R1")]), "Root R1");
        assert_eq!(
            named(&[(company.clone(), "Ex"), (common.clone(), "R1"), (DnType::CountryName, "DE")]),
            "R1, Ex"
        );
        assert_eq!(named(&[(company.clone(), "Ex"), (common.clone(), "Ex Root")]), "Ex Root");
        assert_eq!(named(&[(company, "Größe")]), "Größe");
        assert_eq!(named(&[(common.clone(), "a\r\n\u{202e}b\u{1b}[2J")]), "a  b[2J");
        assert_eq!(named(&[(common, &"x".repeat(500))]).len(), limits::CERTIFICATE_NAME);
        assert_eq!(issuer(&[]), None);
    }

    #[test]
    fn owners_and_hosts_are_named() {
        let mut names = vec!["a.example".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        names.extend((0..200).map(|n| format!("h{n}.example")));
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "Owner");
        let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
        let read = Certificate::read(&der).unwrap();
        assert_eq!(read.subject.unwrap(), "Owner");
        assert_eq!(read.names[..4], ["a.example", "127.0.0.1", "::1", "h0.example"]);
        assert_eq!(read.names.len(), limits::CERTIFICATE_HOSTS);
        let bare = CertificateParams::new(Vec::new()).unwrap();
        let der = bare.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
        assert_eq!(Certificate::read(&der).unwrap().names, [""; 0]);
    }

    #[test]
    fn old_types_of_text_are_read_as_well() {
        for value in [
            DnValue::BmpString("Größe".try_into().unwrap()),
            DnValue::PrintableString("Size".try_into().unwrap()),
            DnValue::TeletexString("Size".try_into().unwrap()),
        ] {
            let der = certificate(&[(DnType::CommonName, value)]);
            let issuer = Certificate::read(&der).unwrap().issuer.unwrap();
            assert!(["Größe", "Size"].contains(&&*issuer), "{issuer}");
        }
    }

    #[test]
    fn times_are_read_in_both_forms() {
        let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let read = Certificate::read(&certificate(&[])).unwrap();
        assert!(read.is_self_issued);
        assert_eq!(seconds(read.valid_from).as_secs(), 1_582_934_400);
        assert_eq!(
            seconds(read.valid_until).as_secs(),
            2_587_593_600,
            "the long form, from 2050 on"
        );
        let seconds =
            |tag, text: &str| time((tag, text.as_bytes())).map(|time| seconds(time).as_secs());
        assert_eq!(seconds(UTC_TIME, "700101000001Z"), Some(1));
        assert_eq!(seconds(UTC_TIME, "991231235959Z"), Some(946_684_799));
        assert_eq!(seconds(GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        assert_eq!(seconds(UTC_TIME, "500101000000Z"), Some(0), "before there were certificates");
        assert_eq!(seconds(UTC_TIME, "000229000000Z"), Some(951_782_400), "a leap year");
        for text in ["", "Z", "7001010000Z", "701301000000Z", "700100000000Z", "70010100000-Z"] {
            assert_eq!(seconds(UTC_TIME, text), None, "{text}");
        }
        // No such day, hour, minute or second: a later end would be read out of them.
        for text in ["010229000000Z", "990431000000Z", "991232000000Z"] {
            assert_eq!(seconds(UTC_TIME, text), None, "{text}");
        }
        for text in ["991231240000Z", "991231236000Z", "991231235960Z"] {
            assert_eq!(seconds(UTC_TIME, text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>) {
            let _ = Certificate::read(&bytes);
            let _ = name(&bytes);
        }

        #[test]
        fn damaged_certificates_do_no_harm(at in 0..200_usize, byte: u8, end in 0..400_usize) {
            let mut der = certificate(&[(DnType::CommonName, DnValue::from("R"))]);
            der[at] = byte;
            der.truncate(end);
            let _ = Certificate::read(&der);
        }
    }
}
