//! Writes lines on a thread of its own, behind a queue of bounded size: neither a slow disk nor a
//! stderr that nobody reads may stop the bridge.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use tracing::warn;

/// Where lines go in the end. An error ends the thread, and all later lines are dropped.
pub(super) trait LineTarget<L>: Send {
    fn write(&mut self, line: L) -> io::Result<()>;

    /// So many lines found no room in the queue.
    fn write_lost(&mut self, lost: u64) -> io::Result<()>;

    fn flush(&mut self) -> io::Result<()>;
}

/// Hands lines over to its thread, which is started by the first of them.
pub(super) struct LineWriter<L> {
    /// What is written, in a word.
    name: &'static str,
    /// Bytes that may wait to be written; lines on top of them are dropped, and counted.
    limit: usize,
    /// Until the thread takes it.
    target: Mutex<Option<Box<dyn LineTarget<L>>>>,
    /// Bounded by `waiting`, so that a flush always has room.
    queue: OnceLock<Sender<Item<L>>>,
    waiting: AtomicUsize,
    lost: AtomicU64,
}

struct Item<L> {
    /// Lines before it that found no room.
    lost: u64,
    content: Content<L>,
}

enum Content<L> {
    Line {
        line: L,
        size: usize,
    },
    /// Whoever sent it waits until everything before it was written.
    Flush(SyncSender<()>),
}

impl<L: Send> LineWriter<L> {
    pub(super) fn new(
        name: &'static str,
        limit: usize,
        target: impl LineTarget<L> + 'static,
    ) -> Self {
        Self {
            name,
            limit,
            target: Mutex::new(Some(Box::new(target))),
            queue: OnceLock::new(),
            waiting: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Has a line of `size` bytes written.
    pub(super) fn send(&'static self, line: L, size: usize) {
        if self.waiting.fetch_add(size, Relaxed) + size > self.limit {
            self.waiting.fetch_sub(size, Relaxed);
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        self.push(self.queue.get_or_init(|| self.start()), Content::Line { line, size });
    }

    /// Waits until all is written, for no longer than `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        if let Some(queue) = self.queue.get() {
            let (done, written) = mpsc::sync_channel(1);
            self.push(queue, Content::Flush(done));
            let _ = written.recv_timeout(limit);
        }
    }

    fn push(&self, queue: &Sender<Item<L>>, content: Content<L>) {
        // Without the thread, lines are dropped: nobody can be told about it.
        let _ = queue.send(Item { lost: self.lost.swap(0, Relaxed), content });
    }

    fn start(&'static self) -> Sender<Item<L>> {
        let (sender, receiver) = mpsc::channel();
        if let Some(mut target) = self.target.lock().ok().and_then(|mut target| target.take()) {
            let write = move || {
                if let Err(error) = self.write_all(&receiver, &mut *target) {
                    let name = self.name;
                    warn!("the {name} ends here, since it cannot be written: {error}");
                }
            };
            let _ = std::thread::Builder::new().name(self.name.to_owned()).spawn(write);
        }
        sender
    }

    fn write_all(
        &self,
        queue: &Receiver<Item<L>>,
        target: &mut dyn LineTarget<L>,
    ) -> io::Result<()> {
        loop {
            let item = match queue.try_recv() {
                Ok(item) => item,
                Err(_) => {
                    target.flush()?;
                    let Ok(item) = queue.recv() else { return Ok(()) };
                    item
                }
            };
            if item.lost > 0 {
                target.write_lost(item.lost)?;
            }
            match item.content {
                Content::Line { line, size } => {
                    self.waiting.fetch_sub(size, Relaxed);
                    target.write(line)?;
                }
                Content::Flush(done) => {
                    target.flush()?;
                    let _ = done.send(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a line when there is a word for it.
    struct Slow {
        words: Receiver<()>,
        written: Sender<String>,
    }

    impl LineTarget<u32> for Slow {
        fn write(&mut self, line: u32) -> io::Result<()> {
            self.words.recv().map_err(io::Error::other)?;
            self.written.send(line.to_string()).map_err(io::Error::other)
        }

        fn write_lost(&mut self, lost: u64) -> io::Result<()> {
            self.written.send(format!("lost {lost}")).map_err(io::Error::other)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told_and_an_error_ends_it() {
        let ((word, words), (written, seen)) = (mpsc::channel(), mpsc::channel());
        let writer = LineWriter::new("test", 20, Slow { words, written });
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
