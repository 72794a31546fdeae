//! Decodes a `text/event-stream` body as it arrives: pure, bounded, and linear in its input.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::body_buffer::BodyBuffer;
use super::lines::without_mark;
use crate::limits;

/// One block of fields that a blank line has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `data` lines, joined by line feeds; `None` if there were none.
    pub data: Option<Bytes>,
    /// The `event` field; `None` means `message`.
    pub name: Option<Bytes>,
    /// The `id` field, if the block had one; empty if it is too long to be sent back.
    pub id: Option<Bytes>,
    /// The `retry` field, if the block had one.
    pub retry: Option<Duration>,
}

/// The unfinished event is over the limit. What follows can be read after
/// [`Decoder::skip_event`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The event's id, if it came before the data.
    pub id: Option<Bytes>,
}

/// The state between two chunks.
#[derive(Debug)]
pub struct Decoder {
    /// What of the current chunk is still to be read.
    chunk: Bytes,
    /// The beginning of a line whose end has not come.
    partial: BodyBuffer,
    event: SseEvent,
    /// The last line ended in CR: a LF that follows belongs to it.
    after_cr: bool,
    /// No line has ended yet: a byte order mark may come first.
    at_start: bool,
    limit: usize,
    /// An event that is too large is passing by.
    is_skipping: bool,
    /// While that is so: whether the current line has any bytes.
    line_begun: bool,
}

/// The field's name and blank are not part of the message, other fields neither.
const NAME: usize = "data: ".len();

impl Decoder {
    /// A decoder for events of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            chunk: Bytes::new(),
            partial: BodyBuffer::up_to(limit.saturating_add(NAME)),
            event: SseEvent::default(),
            after_cr: false,
            at_start: true,
            limit,
            is_skipping: false,
            line_begun: false,
        }
    }

    /// Hands over the next chunk. The one before must have been read to its end.
    pub fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "events of the last chunk are still to be taken");
        self.chunk = chunk;
    }

    /// The next event of what was pushed, `Ok(None)` when more is needed.
    ///
    /// # Errors
    ///
    /// When the unfinished event is over the limit.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, TooLarge> {
        while let Some(end) = self.find_end() {
            self.check(end)?;
            let is_whole = end < self.chunk.len();
            let mut line = self.take_piece(end);
            if !is_whole || !self.partial.is_empty() {
                self.partial.push(&line);
            }
            if !is_whole {
                break;
            }
            if !self.partial.is_empty() {
                line = self.partial.take();
            }
            if std::mem::take(&mut self.at_start) {
                line = without_mark(line);
            }
            if !line.is_empty() {
                self.field(&line);
            } else if let Some(event) = self.dispatch() {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Passes by an event that is too large: `look` sees its data, nobody keeps it. `false`: its end
    /// is not in what was pushed.
    pub fn skip_event(&mut self, mut look: impl FnMut(&[u8])) -> bool {
        if !std::mem::replace(&mut self.is_skipping, true) {
            self.line_begun = true;
            self.show_kept(&mut look);
        }
        while let Some(end) = self.find_end() {
            let is_whole = end < self.chunk.len();
            let piece = self.take_piece(end);
            look(&piece);
            self.line_begun |= !piece.is_empty();
            if is_whole && !std::mem::take(&mut self.line_begun) {
                self.is_skipping = false;
                return true;
            }
        }
        false
    }

    /// What was kept of an event that turned out to be too large.
    fn show_kept(&mut self, look: &mut impl FnMut(&[u8])) {
        self.at_start = false;
        if let Some(data) = std::mem::take(&mut self.event).data {
            look(&data);
        }
        let name = if self.line_starts_with(b"data:") { b"data:".len() } else { 0 };
        let before = name.min(self.partial.len());
        self.chunk.advance(name - before);
        look(&self.partial.take()[before..]);
    }

    /// The length of the next piece of a line: up to its end, or to that of the chunk. `None`: the
    /// chunk has been read.
    fn find_end(&mut self) -> Option<usize> {
        let first = *self.chunk.first()?;
        // It belongs to the CR before it.
        if std::mem::take(&mut self.after_cr) && first == b'\n' {
            self.chunk.advance(1);
        }
        let len = self.chunk.len();
        (len > 0).then(|| memchr::memchr2(b'\r', b'\n', &self.chunk).unwrap_or(len))
    }

    /// Takes the piece that ends at `end`, with the end of the line if it is there.
    fn take_piece(&mut self, end: usize) -> Bytes {
        let Some(ending) = self.chunk.get(end) else {
            return std::mem::take(&mut self.chunk);
        };
        self.after_cr = *ending == b'\r';
        // With its end: of a chunk that has been read nothing is held.
        let mut piece = self.chunk.split_to(end + 1);
        piece.truncate(end);
        piece
    }

    fn field(&mut self, line: &Bytes) {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => {
                let blank = usize::from(line.get(colon + 1) == Some(&b' '));
                (&line[..colon], line.slice(colon + 1 + blank..))
            }
            None => (&line[..], Bytes::new()),
        };
        match name {
            b"data" => self.add_data(value),
            b"event" => self.event.name = Some(value),
            // No id at all: the stream cannot be resumed, not even from an earlier one.
            b"id" if value.len() > limits::EVENT_ID => self.event.id = Some(Bytes::new()),
            b"id" if !value.contains(&0) => self.event.id = Some(value),
            b"retry" => self.event.retry = milliseconds(&value).or(self.event.retry),
            // Comments (an empty name) and fields that nobody defined.
            _ => {}
        }
    }

    /// Joins the lines of the data. The only one, which is usual, is not copied if it lies in one chunk.
    fn add_data(&mut self, line: Bytes) {
        self.event.data = Some(match self.event.data.take() {
            None => line,
            Some(before) => {
                let mut lines = BytesMut::from(before);
                lines.extend_from_slice(b"\n");
                lines.extend_from_slice(&line);
                lines.freeze()
            }
        });
    }

    /// A blank line: gives out what the block had, unless it had nothing of interest.
    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = std::mem::take(&mut self.event);
        let counts = event.data.is_some() || event.id.is_some() || event.retry.is_some();
        counts.then_some(event)
    }

    /// Whether the current line does, of which a part may have come before this chunk.
    fn line_starts_with(&self, name: &[u8]) -> bool {
        let (before, here) = name.split_at(name.len().min(self.partial.len()));
        self.partial.starts_with(before) && self.chunk.starts_with(here)
    }

    fn check(&self, more: usize) -> Result<(), TooLarge> {
        let line = self.partial.len() + more;
        let data = self.event.data.as_ref().filter(|_| self.line_starts_with(b"data"));
        if data.map_or(0, Bytes::len) + line > self.limit.saturating_add(NAME) {
            return Err(TooLarge { id: self.event.id.clone() });
        }
        Ok(())
    }
}

fn milliseconds(value: &[u8]) -> Option<Duration> {
    // A sign is no digit, but would be read.
    let text = str::from_utf8(value).ok().filter(|text| !text.starts_with('+'))?;
    text.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(chunks: &[&[u8]]) -> Vec<SseEvent> {
        let mut decoder = Decoder::new(1 << 20);
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = decoder.next_event().expect("within the limit") {
                events.push(event);
            }
        }
        events
    }

    fn data(chunks: &[&[u8]]) -> Vec<String> {
        decode(chunks)
            .into_iter()
            .filter_map(|e| e.data)
            .map(|d| String::from_utf8_lossy(&d).into_owned())
            .collect()
    }

    #[test]
    fn events_end_at_a_blank_line_whatever_the_line_ends() {
        // S0-10, S4-17, C17
        assert_eq!(data(&[b"event: message\ndata: {}\n\n"]), ["{}"]);
        assert_eq!(data(&[b"data: a\r\n\r\ndata: b\r\rdata: c\n\n"]), ["a", "b", "c"]);
        assert_eq!(data(&[b"data: a\r", b"\n\r", b"\ndata: b\n\n"]), ["a", "b"]);
    }

    #[test]
    fn an_id_that_is_too_long_is_none() {
        let id = |length: usize| {
            let text = format!("id: {}\ndata: x\n\n", "i".repeat(length));
            decode(&[text.as_bytes()]).remove(0).id.expect("a field")
        };
        assert_eq!(id(limits::EVENT_ID).len(), limits::EVENT_ID);
        // As if the server had said that there is none: an earlier one does not count any more.
        assert!(id(limits::EVENT_ID + 1).is_empty());
    }

    #[test]
    fn a_bare_cr_ends_an_event_at_once() {
        assert_eq!(data(&[b"data: a\r\r"]), ["a"]);
    }

    #[test]
    fn only_one_blank_after_the_colon_goes() {
        assert_eq!(data(&[b"data:a\n\ndata:  b\n\ndata\n\n"]), ["a", " b", ""]);
    }

    #[test]
    fn data_lines_are_joined() {
        // S4-18
        assert_eq!(data(&[b"data: {\ndata: \"a\":1\ndata: }\n\n"]), ["{\n\"a\":1\n}"]);
    }

    #[test]
    fn comments_and_unknown_fields_are_nothing() {
        assert_eq!(decode(&[b": ping\n\nfoo: bar\n\nfoo\n\n:\n\n"]), []);
    }

    #[test]
    fn a_priming_event_has_an_id_a_delay_and_empty_data() {
        let events = decode(&[b"id: x1\nretry: 500\ndata: \n\nid\n\n"]);
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].id.as_deref(), Some(&b"x1"[..]));
        assert_eq!(events[0].retry, Some(Duration::from_millis(500)));
        assert_eq!(events[0].data.as_deref(), Some(&b""[..]));
        assert_eq!(events[1].id.as_deref(), Some(&b""[..]), "an empty id resets the position");
    }

    #[test]
    fn odd_ids_and_delays_are_ignored() {
        assert_eq!(decode(&[b"id: a\0b\nretry: +5\nretry: 5x\nretry:\n\n"]), []);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_also_in_pieces() {
        assert_eq!(data(&[b"\xef\xbb\xbfdata: a\n\n"]), ["a"]);
        assert_eq!(data(&[b"\xef", b"\xbb", b"\xbfdata: a\n\n"]), ["a"]);
        assert_eq!(data(&[b"\xef", b"data: a\n\ndata: b\n\n"]), ["b"], "no mark: an odd field");
    }

    #[test]
    fn characters_and_fields_may_be_split_anywhere() {
        let text = "data: {\"t\":\"ä日🦀\"}\r\n\r\n".as_bytes();
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(data(&single), ["{\"t\":\"ä日🦀\"}"]);
    }

    #[test]
    fn the_limit_counts_the_unfinished_event_only() {
        // S4-20, C17
        let mut decoder = Decoder::new(8);
        decoder.push(Bytes::from_static(b"data: 12345678\n\ndata: 12345678\n\nid: 7\ndata: 123"));
        assert!(decoder.next_event().unwrap().is_some());
        assert!(decoder.next_event().unwrap().is_some());
        assert_eq!(decoder.next_event(), Ok(None));
        decoder.push(Bytes::from_static(b"456789"));
        assert_eq!(decoder.next_event(), Err(TooLarge { id: Some(Bytes::from_static(b"7")) }));
    }

    #[test]
    fn the_limit_holds_wherever_a_line_is_cut() {
        let mut decoder = Decoder::new(8);
        let is_too_large = (0..100).any(|_| {
            decoder.push(Bytes::from_static(b"da"));
            assert_eq!(decoder.next_event(), Ok(None));
            decoder.push(Bytes::from_static(b"ta: 1234\n"));
            decoder.next_event().is_err()
        });
        assert!(is_too_large, "an event grows without end");
    }

    #[test]
    fn a_line_in_one_chunk_is_not_copied() {
        let chunk = Bytes::from_static(b"data: payload\n\n");
        let mut decoder = Decoder::new(100);
        decoder.push(chunk.clone());
        let event = decoder.next_event().unwrap().unwrap();
        assert_eq!(event.data.unwrap().as_ptr(), chunk[6..].as_ptr());
    }

    /// What an independent decoder makes of the same bytes.
    fn oracle(text: &[u8]) -> Vec<(Option<String>, Option<String>)> {
        let body = http_body_util::Full::new(Bytes::copy_from_slice(text));
        let mut stream = sse_stream::SseStream::new(body);
        let mut out = Vec::new();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        loop {
            let next = futures_core_poll(&mut stream, &mut context);
            match next {
                Some(Ok(sse)) => out.push((sse.data, sse.id)),
                _ => return out,
            }
        }
    }

    fn futures_core_poll<S>(stream: &mut S, context: &mut std::task::Context<'_>) -> Option<S::Item>
    where
        S: futures_core::Stream + Unpin,
    {
        match std::pin::Pin::new(stream).poll_next(context) {
            std::task::Poll::Ready(item) => item,
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn what_is_too_large_can_be_passed_by() {
        let large = format!("{{\"id\":7,\"x\":\"{}\"}}", "y".repeat(100));
        for ending in ["\n", "\r\n", "\r"] {
            let stream = format!("event: message@data: {large}@id: 9@@data: next@@");
            let stream = stream.replace('@', ending);
            for size in 1..stream.len() {
                let mut decoder = Decoder::new(20);
                let (mut seen, mut skipping, mut events) = (Vec::new(), false, Vec::new());
                for piece in stream.as_bytes().chunks(size) {
                    decoder.push(Bytes::copy_from_slice(piece));
                    loop {
                        if skipping && !decoder.skip_event(|b| seen.extend_from_slice(b)) {
                            break;
                        }
                        skipping = false;
                        match decoder.next_event() {
                            Ok(Some(event)) => events.push(event),
                            Ok(None) => break,
                            Err(TooLarge { .. }) => skipping = true,
                        }
                    }
                }
                let seen = String::from_utf8(seen).unwrap();
                assert_eq!(seen.trim_start(), format!("{large}id: 9"), "pieces of {size}");
                assert_eq!(events.len(), 1, "pieces of {size}");
                assert_eq!(events[0].data.as_deref(), Some(&b"next"[..]));
            }
        }
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(
            text in "(data|id|event|retry|:|x)?:? ?[a1 ]{0,3}[\r\n]{0,3}(data: ?[ab]{0,4}[\r\n]{1,3}){0,6}",
            size in 1usize..9,
        ) {
            let whole = decode(&[text.as_bytes()]);
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(decode(&pieces), whole);
        }

        #[test]
        fn the_events_are_those_of_an_independent_decoder(
            text in "((data|id|event|foo):? ?[ab ]{0,4}(\r\n|\n|\r)|(\r\n|\n|\r)|: ?c(\r\n|\n)){0,12}\n\n",
        ) {
            let ours: Vec<(Option<String>, Option<String>)> = decode(&[text.as_bytes()])
                .into_iter()
                .map(|e| (e.data.as_ref().map(text_of), e.id.as_ref().map(text_of)))
                .filter(|(data, _)| data.is_some())
                .collect();
            let theirs: Vec<_> =
                oracle(text.as_bytes()).into_iter().filter(|(data, _)| data.is_some()).collect();
            prop_assert_eq!(ours, theirs);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), size in 1usize..50) {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            decode(&pieces);
        }
    }

    fn text_of(bytes: &Bytes) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }
}
