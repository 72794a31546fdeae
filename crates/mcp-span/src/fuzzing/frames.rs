//! Fuzz targets for what cuts a stream into frames: lines, and events of a stream.

use bytes::Bytes;

use crate::wire::lines::{Line, Lines};
use crate::wire::sse::{Decoder, SseEvent, TooLarge};

/// Blanks around a line that [`Lines`] waits for at least, before it takes the line for too long.
const BLANKS: usize = 64;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Lines are the same wherever the stream is cut, and no longer than the limit.
///
/// The first byte says how the stream is cut, the second is the limit.
pub fn lines(data: &[u8]) {
    let [cut, limit, stream @ ..] = data else { return };
    let first = stream.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if first.trim_ascii() == BYTE_ORDER_MARK {
        // With enough blanks around it, it may be a line or none.
        return;
    }
    let limit = usize::from(*limit);
    let expected = expected_lines(limit, stream);
    for pieces in [vec![stream], stream.chunks(1).collect(), in_two_sizes(*cut, stream)] {
        let found = cut_lines(limit, &pieces);
        assert_eq!(found.len(), expected.len(), "{found:?}, not {expected:?}");
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let mut text = found.text.trim_ascii();
            let rest = text.strip_prefix(BYTE_ORDER_MARK).map(<[u8]>::trim_ascii);
            if at == 0 && found.is_excess && rest == Some(expected.text.trim_ascii()) {
                // A mark before a line that is too long may stay.
                text = expected.text.trim_ascii();
            }
            assert_eq!(text, expected.text.trim_ascii());
            assert!(found.is_excess || found.text.len() <= limit, "{found:?}");
            let is_certain = expected.is_excess || expected.length <= limit + BLANKS;
            assert!(!is_certain || found.is_excess == expected.is_excess, "{found:?}");
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Cut {
    text: Vec<u8>,
    is_excess: bool,
    /// With all blanks.
    length: usize,
}

fn expected_lines(limit: usize, stream: &[u8]) -> Vec<Cut> {
    let lines = stream.split(|byte| *byte == b'\n').enumerate().map(|(at, raw)| {
        let mut text = raw.trim_ascii();
        if at == 0 {
            text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        }
        Cut { text: text.to_vec(), is_excess: text.len() > limit, length: raw.len() }
    });
    lines.filter(|line| !line.text.is_empty()).collect()
}

fn cut_lines(limit: usize, pieces: &[&[u8]]) -> Vec<Cut> {
    let (mut lines, mut found) = (Lines::new(limit), Vec::new());
    let mut excess: Option<Vec<u8>> = None;
    let mut take = |line: Line| {
        let (text, is_excess) = match line {
            Line::Whole(line) => (line.to_vec(), false),
            Line::Excess { piece, is_last } => {
                excess.get_or_insert_default().extend_from_slice(&piece);
                let Some(all) = excess.take_if(|_| is_last) else { return };
                (all, true)
            }
        };
        // Blanks without end are too long a line, of nothing.
        if !text.trim_ascii().is_empty() {
            found.push(Cut { length: text.len(), text, is_excess });
        }
    };
    for piece in pieces {
        lines.buffer().extend_from_slice(piece);
        while let Some(line) = lines.next_line() {
            take(line);
        }
    }
    while let Some(line) = lines.finish() {
        take(line);
    }
    assert!(excess.is_none(), "a line that is too long has no end");
    found
}

/// Events are the same wherever the stream is cut, and no larger than the limit.
///
/// The first byte says how the stream is cut, the second is the limit.
pub fn events(data: &[u8]) {
    let [cut, limit, stream @ ..] = data else { return };
    let limit = usize::from(*limit);
    let whole = decode(limit, &[stream]);
    for pieces in [stream.chunks(1).collect(), in_two_sizes(*cut, stream)] {
        assert_eq!(decode(limit, &pieces), whole);
    }
    for event in whole.iter().flatten() {
        // A line feed stands for the name of the line that follows.
        let length = event.data.as_ref().map_or(0, Bytes::len);
        assert!(length <= limit + "data: ".len(), "{length} bytes, {limit} allowed");
    }
}

/// The events of a stream.
fn decode(limit: usize, pieces: &[&[u8]]) -> Vec<Result<SseEvent, TooLarge>> {
    let (mut decoder, mut found) = (Decoder::new(limit), Vec::new());
    let mut is_skipping = false;
    for piece in pieces {
        decoder.push(Bytes::copy_from_slice(piece));
        loop {
            if is_skipping && !decoder.skip_event(|_| {}) {
                break;
            }
            is_skipping = false;
            match decoder.next_event() {
                Ok(Some(event)) => found.push(Ok(event)),
                Ok(None) => break,
                Err(error) => {
                    is_skipping = true;
                    found.push(Err(error));
                }
            }
        }
    }
    found
}

/// Pieces of two sizes by turns, from 1 to 16 bytes.
fn in_two_sizes(cut: u8, mut stream: &[u8]) -> Vec<&[u8]> {
    let sizes = [cut & 0xf, cut >> 4].map(|size| usize::from(size) + 1);
    let mut pieces = Vec::new();
    for size in sizes.into_iter().cycle() {
        let Some((piece, rest)) = stream.split_at_checked(size) else { break };
        pieces.push(piece);
        stream = rest;
    }
    pieces.push(stream);
    pieces
}
