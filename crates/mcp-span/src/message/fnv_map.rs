//! Hash maps of what is in flight, which change with every call.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};

use fnv::FnvHasher;

/// An empty map with more room than this gives it back.
const ROOMY: usize = 1024;

/// A map whose keys are short.
pub(crate) type FnvMap<K, V> = HashMap<K, V, SeededFnv>;

/// Hashes short keys quickly, seeded for each map against hash flooding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeededFnv(u64);

impl Default for SeededFnv {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for SeededFnv {
    type Hasher = FnvHasher;

    fn build_hasher(&self) -> FnvHasher {
        FnvHasher::with_key(self.0)
    }
}

/// Takes an entry out. What was needed for thousands of them is not kept for none.
pub(crate) fn take<K: Eq + Hash, V>(map: &mut FnvMap<K, V>, key: &K) -> Option<V> {
    let taken = map.remove(key)?;
    if map.is_empty() && map.capacity() > ROOMY {
        map.shrink_to_fit();
    }
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_thousands_is_not_kept_for_none() {
        let mut map = FnvMap::default();
        for key in 0..10_000 {
            map.insert(key, ());
        }
        for key in 0..10_000 {
            assert_eq!(take(&mut map, &key), Some(()));
            assert_eq!(take(&mut map, &key), None);
        }
        assert_eq!(map.capacity(), 0);
    }

    #[test]
    fn no_two_maps_have_the_same_seed() {
        assert_ne!(SeededFnv::default().hash_one(1), SeededFnv::default().hash_one(1));
    }
}
