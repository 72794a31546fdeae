//! Puts the pieces of a message together; large ones in memory that comes in large pages.
//!
//! The system hands out memory page by page, and for a message of 64 MB that is a third of the time
//! it takes to get here: 16,000 pages of 4 KB, or 31 of 2 MB.

use std::ops::Deref;

use bytes::{Bytes, BytesMut};
use memmap2::MmapMut;

/// What is smaller is gathered in usual memory: below this the large pages gain little, and the
/// last of them stands for up to 2 MB that nobody needs.
const LARGE: usize = 512 * 1024;

/// Bytes that grow at their end.
#[derive(Debug)]
pub struct BodyBuffer {
    store: BufferStorage,
    /// How many there will be; 0 if that is not known.
    expected: usize,
    /// How many there will be at most.
    most: usize,
}

#[derive(Debug)]
enum BufferStorage {
    Small(BytesMut),
    Large(HugePages),
}

impl BodyBuffer {
    /// For as many bytes as come, `most` at most.
    #[must_use]
    pub fn up_to(most: usize) -> Self {
        Self { store: BufferStorage::Small(BytesMut::new()), expected: 0, most }
    }

    /// For `expected` bytes.
    #[must_use]
    pub fn of(expected: usize) -> Self {
        Self { expected, ..Self::up_to(expected) }
    }

    /// Adds a piece.
    pub fn push(&mut self, piece: &[u8]) {
        let len = self.len() + piece.len();
        if let BufferStorage::Large(room) = &mut self.store {
            if room.push(piece) {
                return;
            }
            // More than was promised.
            self.store = BufferStorage::Small(BytesMut::from(room.as_ref()));
        }
        let BufferStorage::Small(small) = &mut self.store else { return };
        if self.expected.max(len) >= LARGE
            && let Some(mut room) = HugePages::with_room(self.most.max(len))
            && room.push(small)
            && room.push(piece)
        {
            self.store = BufferStorage::Large(room);
            return;
        }
        small.reserve(self.expected.min(LARGE).max(len) - small.len());
        small.extend_from_slice(piece);
    }

    /// All of it; nothing is left.
    #[must_use]
    pub fn take(&mut self) -> Bytes {
        match std::mem::replace(&mut self.store, BufferStorage::Small(BytesMut::new())) {
            BufferStorage::Small(small) => small.freeze(),
            BufferStorage::Large(room) => Bytes::from_owner(room),
        }
    }
}

impl Deref for BodyBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.store {
            BufferStorage::Small(small) => small,
            BufferStorage::Large(room) => room.as_ref(),
        }
    }
}

/// A part of the address space, which takes memory as far as it is filled.
#[derive(Debug)]
struct HugePages {
    place: MmapMut,
    filled: usize,
}

impl HugePages {
    /// Room for `bytes`, unless the system has none.
    fn with_room(bytes: usize) -> Option<Self> {
        if !cfg!(target_os = "linux") {
            // Other systems have no large pages for the asking.
            return None;
        }
        let place = MmapMut::map_anon(bytes).ok()?;
        // A wish: without large pages it is slower, and nothing else.
        #[cfg(target_os = "linux")]
        let _ = place.advise(memmap2::Advice::HugePage);
        Some(Self { place, filled: 0 })
    }

    /// `false`: there is no room for it.
    fn push(&mut self, piece: &[u8]) -> bool {
        let end = self.filled + piece.len();
        let Some(room) = self.place.get_mut(self.filled..end) else { return false };
        room.copy_from_slice(piece);
        self.filled = end;
        true
    }
}

impl AsRef<[u8]> for HugePages {
    fn as_ref(&self) -> &[u8] {
        &self.place[..self.filled]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(mut buffer: BodyBuffer, pieces: usize) -> (Bytes, Vec<u8>) {
        let mut expected = Vec::new();
        for index in 0..pieces {
            let piece = vec![u8::try_from(index % 251).unwrap(); 300_000];
            buffer.push(&piece);
            expected.extend_from_slice(&piece);
            assert_eq!(buffer.len(), expected.len());
        }
        let taken = buffer.take();
        assert!(buffer.is_empty());
        (taken, expected)
    }

    #[test]
    fn pieces_stay_in_order_whatever_they_amount_to() {
        for pieces in [0, 1, 13, 14, 15, 40] {
            for buffer in [BodyBuffer::up_to(100_000_000), BodyBuffer::of(pieces * 300_000)] {
                let (taken, expected) = filled(buffer, pieces);
                assert!(taken == expected, "{pieces} pieces");
            }
        }
    }

    #[test]
    fn more_than_was_promised_is_kept_all_the_same() {
        for promised in [0, 1, 5_000_000] {
            for buffer in [BodyBuffer::of(promised), BodyBuffer::up_to(promised)] {
                let (taken, expected) = filled(buffer, 30);
                assert!(taken == expected, "{promised} promised");
            }
        }
    }

    #[test]
    fn where_the_system_has_no_room_usual_memory_does() {
        let (taken, expected) = filled(BodyBuffer::up_to(usize::MAX), 30);
        assert!(taken == expected);
    }

    #[test]
    fn what_was_forgotten_does_not_come_back() {
        let mut buffer = BodyBuffer::up_to(10_000_000);
        for _ in 0..20 {
            buffer.push(&[1; 300_000]);
        }
        drop(buffer.take());
        buffer.push(b"new");
        assert_eq!(&buffer[..], b"new");
        assert_eq!(buffer.take(), "new");
    }
}
