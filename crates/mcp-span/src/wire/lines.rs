//! Cuts a byte stream into lines, without copying them, with a limit on the length of a line.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tracing::debug;

use crate::limits;

/// When the buffer has less room than this, it gets more.
const ROOM: usize = 4 * 1024;

/// What came out of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its end and without white space around it; never empty.
    Whole(Bytes),
    /// A piece of a line that is over the limit, to be looked at and forgotten.
    Excess {
        /// The bytes, perhaps none.
        piece: Bytes,
        /// The line ends with it.
        is_last: bool,
    },
}

/// A growing buffer that gives out lines.
#[derive(Debug)]
pub struct Lines {
    buffer: BytesMut,
    /// Bytes at the start of `buffer` that hold no line end: they are not searched again.
    searched: usize,
    limit: usize,
    /// Pieces of a line that is over the limit have been given out.
    is_inside: bool,
    /// Nothing has been given out yet: a byte order mark may come first.
    at_start: bool,
}

impl Lines {
    /// A buffer for lines of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, limit, is_inside: false, at_start: true }
    }

    /// Where the next bytes of the stream are to be appended.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next line of `input`; `None` when it has ended, or cannot be read any more.
    pub(crate) async fn next_of(&mut self, input: &mut (impl AsyncRead + Unpin)) -> Option<Line> {
        loop {
            if let Some(line) = self.next_line() {
                return Some(line);
            }
            if self.buffer.capacity() - self.buffer.len() < ROOM {
                self.buffer.reserve(limits::READ_CHUNK);
            }
            let read = input.read_buf(&mut self.buffer).await;
            let read = read.inspect_err(|error| debug!(%error, "reading ended"));
            if read.unwrap_or_default() == 0 {
                return self.finish();
            }
        }
    }

    /// The next line, or `None` until more bytes have come.
    pub fn next_line(&mut self) -> Option<Line> {
        loop {
            let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                return self.overflow();
            };
            let raw = self.buffer.split_to(self.searched + at + 1).freeze();
            self.searched = 0;
            if let Some(line) = self.ended(&raw) {
                return Some(line);
            }
        }
    }

    /// What is left when the stream has ended: a last line may lack its line end.
    pub fn finish(&mut self) -> Option<Line> {
        if !self.is_inside && self.buffer.is_empty() {
            return None;
        }
        self.buffer.extend_from_slice(b"\n");
        self.next_line()
    }

    /// A line has ended: `raw` is all of it, or the rest of one that is over the limit.
    fn ended(&mut self, raw: &Bytes) -> Option<Line> {
        let is_rest = std::mem::take(&mut self.is_inside);
        // What the rest begins with stands in the middle of the line.
        let line = if is_rest { raw.trim_ascii_end() } else { raw.trim_ascii() };
        let mut line = raw.slice_ref(line);
        if std::mem::take(&mut self.at_start) && !is_rest {
            line = without_mark(line);
        }
        if is_rest || line.len() > self.limit {
            return Some(Line::Excess { piece: line, is_last: true });
        }
        (!line.is_empty()).then_some(Line::Whole(line))
    }

    fn overflow(&mut self) -> Option<Line> {
        // White space around a line does not count; a little of it is waited for.
        const BLANKS: usize = 64;
        let full = if self.is_inside { 0 } else { self.limit.saturating_add(BLANKS) };
        if self.buffer.len() <= full {
            return None;
        }
        self.is_inside = true;
        self.searched = 0;
        Some(Line::Excess { piece: self.buffer.split().freeze(), is_last: false })
    }
}

/// The beginning of a text without the byte order mark that some put before it.
pub(crate) fn without_mark(text: Bytes) -> Bytes {
    match text.strip_prefix("\u{feff}".as_bytes()) {
        Some(rest) => text.slice_ref(rest),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds `chunks` one after the other; over-long lines come out as `!` and their bytes.
    fn cut(limit: usize, chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::new(limit);
        let mut out = Vec::new();
        let mut excess: Option<Vec<u8>> = None;
        let mut take = |line: Line| match line {
            Line::Whole(line) => out.push(String::from_utf8_lossy(&line).into_owned()),
            Line::Excess { piece, is_last } => {
                excess.get_or_insert_default().extend_from_slice(&piece);
                if let Some(all) = excess.take_if(|_| is_last) {
                    out.push(format!("!{}", String::from_utf8_lossy(&all)));
                }
            }
        };
        for chunk in chunks {
            lines.buffer().extend_from_slice(chunk);
            while let Some(line) = lines.next_line() {
                take(line);
            }
        }
        while let Some(line) = lines.finish() {
            take(line);
        }
        out
    }

    #[test]
    fn lines_are_cut_at_newlines_and_trimmed() {
        // S0-01, C26: CR and white space around a line go, everything inside stays.
        assert_eq!(cut(99, &[b"{\"a\":1}\r\n  {\"b\": 2}\t\n"]), ["{\"a\":1}", "{\"b\": 2}"]);
    }

    #[test]
    fn blank_lines_are_ignored() {
        assert_eq!(cut(99, &[b"\n\r\n   \na\n\n"]), ["a"]);
    }

    #[test]
    fn a_byte_order_mark_at_the_beginning_is_no_part_of_the_line() {
        assert_eq!(cut(99, &["\u{feff}a\n\u{feff}b\n".as_bytes()]), ["a", "\u{feff}b"]);
    }

    #[test]
    fn a_line_may_come_in_pieces_and_end_with_the_stream() {
        assert_eq!(cut(99, &[b"on", b"e\ntw", b"o"]), ["one", "two"]);
    }

    #[test]
    fn an_over_long_line_is_given_out_in_pieces_and_the_next_one_lives() {
        let long = [b'x'; 100];
        let all = format!("!{}", "x".repeat(203));
        assert_eq!(cut(4, &[&long, b"xxx", &long, b"\nok\n"]), [&*all, "ok"]);
        assert_eq!(cut(4, &[b"abcdefgh\nok\nabcdefgh"]), ["!abcdefgh", "ok", "!abcdefgh"]);
        assert_eq!(cut(4, &[b"abcdefgh", b"\nok\n"]), ["!abcdefgh", "ok"]);
    }

    #[test]
    fn of_a_line_over_the_limit_no_byte_is_lost_where_it_was_cut() {
        // The id of a request may be read out of it.
        let long = [b'x'; 100];
        let all = |rest: &str| format!("!{}{rest}", "x".repeat(100));
        assert_eq!(cut(4, &[&long, b" y \n"]), [all(" y")]);
        assert_eq!(cut(4, &[&long, "\u{feff}y\n".as_bytes()]), [all("\u{feff}y")]);
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_whole() {
        assert_eq!(cut(4, &[b"abcd\n"]), ["abcd"]);
        assert_eq!(cut(4, &[b"abcd\r\n", b"abcd", b"\n"]), ["abcd", "abcd"]);
        assert_eq!(cut(4, &[b"  abcd", b"\r", b"\n"]), ["abcd"]);
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_lines(
            text in "[ab\r\n ]{0,60}",
            cuts in proptest::collection::vec(0usize..60, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|c| *c <= text.len()).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for at in cuts {
                chunks.push(&text.as_bytes()[from..at]);
                from = at;
            }
            chunks.push(&text.as_bytes()[from..]);
            let expected: Vec<String> = text
                .split('\n')
                .map(|l| l.trim_ascii().to_owned())
                .filter(|l| !l.is_empty())
                .collect();
            prop_assert_eq!(cut(1000, &chunks), expected);
        }
    }
}
