//! Locks what is shared: nobody who panics while they hold it leaves it half done.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What `mutex` holds. Never held for longer than a note takes.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
