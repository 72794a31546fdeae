//! The media types that decide how an HTTP answer is read.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

use super::header;

/// What a `Content-Type` means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`
    Json,
    /// `text/event-stream`
    EventStream,
    /// Anything else, or nothing.
    Other,
}

/// The media type of an answer: parameters dropped, case ignored.
#[must_use]
pub fn of(headers: &HeaderMap) -> Media {
    let named = header::find(headers, &CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    // As nearly everybody writes them.
    match named {
        b"application/json" => return Media::Json,
        b"text/event-stream" => return Media::EventStream,
        _ => {}
    }
    let essence = named.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        Media::Json
    } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
        Media::EventStream
    } else {
        Media::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(value: &'static str) -> Media {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
        of(&headers)
    }

    #[test]
    fn the_type_counts_and_nothing_else() {
        // S4-16
        assert_eq!(media("application/json"), Media::Json);
        assert_eq!(media("Application/JSON; charset=utf-8"), Media::Json);
        assert_eq!(media("text/event-stream;charset=utf-8"), Media::EventStream);
        assert_eq!(media("text/event-streamX"), Media::Other);
        assert_eq!(media("text/html"), Media::Other);
        assert_eq!(of(&HeaderMap::new()), Media::Other);
    }
}
