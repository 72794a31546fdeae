//! The servers that are being tried again: what fails on the way there is told by its exchange alone.

use std::sync::{Mutex, MutexGuard, PoisonError};

use url::{Position, Url};

/// Host and port of each, once for every try.
static PLACES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn places() -> MutexGuard<'static, Vec<String>> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A try that is under way.
#[derive(Debug)]
pub(super) struct Retried(String);

impl Retried {
    pub(super) fn begin(url: &Url) -> Self {
        let place = url[Position::BeforeHost..Position::AfterPort].to_owned();
        places().push(place.clone());
        Self(place)
    }
}

impl Drop for Retried {
    fn drop(&mut self) {
        let mut places = places();
        if let Some(at) = places.iter().position(|place| *place == self.0) {
            places.swap_remove(at);
        }
    }
}

/// Whether a connection to `place` is one for another try.
pub(super) fn is_retried(place: &str) -> bool {
    places().iter().any(|retried| retried == place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_retried_as_long_as_any_try_is_under_way() {
        let url = Url::parse("http://user@retried.test:8080/mcp").unwrap();
        let (first, second) = (Retried::begin(&url), Retried::begin(&url));
        drop(first);
        assert!(is_retried("retried.test:8080") && !is_retried("retried.test"));
        drop(second);
        assert!(!is_retried("retried.test:8080"));
    }
}
