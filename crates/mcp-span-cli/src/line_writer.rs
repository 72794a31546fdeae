//! Writes lines on a thread of its own, behind a queue of bounded size: neither a slow disk nor a
//! stderr that nobody reads may stop the bridge.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use tracing::warn;

/// What a target is to do.
pub(super) enum Output<L> {
    Line(L),
    /// So many lines found no room in the queue.
    Lost(u64),
    Flush,
}

/// Where lines go in the end. An error ends the thread, and all later lines are dropped.
type Target<L> = Box<dyn FnMut(Output<L>) -> io::Result<()> + Send>;

/// Hands lines over to its thread, which is started by the first of them.
pub(super) struct LineWriter<L> {
    /// What is written, in a word.
    name: &'static str,
    /// Bytes that may wait to be written; lines on top of them are dropped, and counted.
    limit: usize,
    /// Until the thread takes it.
    target: Mutex<Option<Target<L>>>,
    /// Bounded by `waiting`, so that a flush always has room.
    queue: OnceLock<Sender<Item<L>>>,
    waiting: AtomicUsize,
    lost: AtomicU64,
}

struct Item<L> {
    /// Lines before it that found no room.
    lost: u64,
    /// With its size.
    line: Option<(L, usize)>,
    /// Whoever holds the other end waits until everything before it was written.
    flush: Option<SyncSender<()>>,
}

impl<L: Send> LineWriter<L> {
    pub(super) fn new(
        name: &'static str,
        limit: usize,
        target: impl FnMut(Output<L>) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let target = Mutex::new(Some(Box::new(target) as Target<L>));
        let (waiting, lost) = Default::default();
        Self { name, limit, target, queue: OnceLock::new(), waiting, lost }
    }

    /// Has a line of `size` bytes written.
    pub(super) fn send(&'static self, line: L, size: usize) {
        if self.waiting.fetch_add(size, Relaxed) + size > self.limit {
            self.waiting.fetch_sub(size, Relaxed);
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        self.push(self.queue.get_or_init(|| self.start()), Some((line, size)), None);
    }

    /// Waits until all is written, for no longer than `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        if let Some(queue) = self.queue.get() {
            let (done, written) = mpsc::sync_channel(1);
            self.push(queue, None, Some(done));
            let _ = written.recv_timeout(limit);
        }
    }

    fn push(
        &self,
        queue: &Sender<Item<L>>,
        line: Option<(L, usize)>,
        flush: Option<SyncSender<()>>,
    ) {
        // Without the thread, lines are dropped: nobody can be told about it.
        let _ = queue.send(Item { lost: self.lost.swap(0, Relaxed), line, flush });
    }

    fn start(&'static self) -> Sender<Item<L>> {
        let (sender, receiver) = mpsc::channel();
        if let Some(mut target) = self.target.lock().ok().and_then(|mut target| target.take()) {
            let write = move || {
                if let Err(error) = self.write_all(&receiver, &mut target) {
                    let name = self.name;
                    warn!("the {name} ends here, since it cannot be written: {error}");
                }
            };
            let _ = std::thread::Builder::new().name(self.name.to_owned()).spawn(write);
        }
        sender
    }

    fn write_all(&self, queue: &Receiver<Item<L>>, write: &mut Target<L>) -> io::Result<()> {
        loop {
            let mut item = queue.try_recv().ok();
            if item.is_none() {
                write(Output::Flush)?;
                item = queue.recv().ok();
            }
            let Some(Item { lost, line, flush }) = item else { return Ok(()) };
            if lost > 0 {
                write(Output::Lost(lost))?;
            }
            if let Some((line, size)) = line {
                self.waiting.fetch_sub(size, Relaxed);
                write(Output::Line(line))?;
            }
            if let Some(done) = flush {
                write(Output::Flush)?;
                let _ = done.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_and_told_and_an_error_ends_it() {
        let ((word, words), (written, seen)) = (mpsc::channel(), mpsc::channel());
        let (words, seen): (Receiver<()>, Receiver<String>) = (words, seen);
        let writer = LineWriter::new("test", 20, move |output: Output<u32>| {
            let text = match output {
                Output::Line(line) => {
                    // A line is written when there is a word for it.
                    words.recv().map_err(io::Error::other)?;
                    line.to_string()
                }
                Output::Lost(lost) => format!("lost {lost}"),
                Output::Flush => return Ok(()),
            };
            written.send(text).map_err(io::Error::other)
        });
        let writer: &'static LineWriter<u32> = Box::leak(Box::new(writer));
        writer.send(0, 10);
        word.send(()).unwrap();
        assert_eq!(seen.recv().unwrap(), "0", "it is out of the queue");
        writer.send(1, 21);
        for line in 2..7 {
            writer.send(line, 10);
        }
        for _ in 0..8 {
            word.send(()).unwrap();
        }
        writer.flush(Duration::from_secs(20));
        let all: Vec<String> = seen.try_iter().collect();
        assert_eq!(all[..2], ["lost 1", "2"], "{all:?}");
        assert!(all.last().unwrap().starts_with("lost "), "{all:?}");
        drop(seen);
        writer.send(7, 10);
        writer.flush(Duration::from_secs(20));
    }
}
