//! The memory budget for messages that wait for the server, or for its response.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Message;
use crate::limits;

/// The bytes that messages take, and how many they may take in all. Clones share the count.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBudget {
    used: Arc<AtomicUsize>,
    limit: usize,
}

/// The share of one message, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryPermit {
    used: Arc<AtomicUsize>,
    weight: usize,
}

impl MemoryBudget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: Arc::default(), limit }
    }

    /// Counts a message. Never refused: what was read is kept, and nothing more is read.
    pub(crate) fn acquire(&self, message: &Message) -> MemoryPermit {
        let weight = message.bytes().len().max(limits::LEAST_WEIGHT);
        self.used.fetch_add(weight, Ordering::Relaxed);
        MemoryPermit { used: Arc::clone(&self.used), weight }
    }

    /// Whether more messages may be read.
    pub(crate) fn has_room(&self) -> bool {
        self.used() < self.limit
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        self.used.fetch_sub(self.weight, Ordering::Relaxed);
    }
}
