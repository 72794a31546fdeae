//! Tables of what is in flight, which change with every call.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

use fnv::FnvHasher;

/// An empty table with more room than this gives it back.
const ROOMY: usize = 1024;

/// A table whose keys are short.
pub(crate) type Table<K, V> = HashMap<K, V, Quick>;

/// Hashes short keys quickly. Each table begins elsewhere, so that nobody can think of keys that get
/// in each other's way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quick(u64);

impl Default for Quick {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Quick {
    type Hasher = FnvHasher;

    fn build_hasher(&self) -> FnvHasher {
        FnvHasher::with_key(self.0)
    }
}

/// Takes an entry out. What was needed for thousands of them is not kept for none.
pub(crate) fn take<K: Eq + Hash, V>(table: &mut Table<K, V>, key: &K) -> Option<V> {
    let taken = table.remove(key)?;
    if table.is_empty() && table.capacity() > ROOMY {
        table.shrink_to_fit();
    }
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_thousands_is_not_kept_for_none() {
        let mut table = Table::default();
        for key in 0..10_000 {
            table.insert(key, ());
        }
        for key in 0..10_000 {
            assert_eq!(take(&mut table, &key), Some(()));
            assert_eq!(take(&mut table, &key), None);
        }
        assert_eq!(table.capacity(), 0);
    }

    #[test]
    fn no_two_tables_begin_in_the_same_place() {
        assert_ne!(Quick::default().hash_one(1), Quick::default().hash_one(1));
    }
}
