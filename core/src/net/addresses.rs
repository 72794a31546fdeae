//! Which of the addresses that a name stands for may be connected to.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// All of them, unless somebody has a say in it.
///
/// They are looked at where they are connected to, so that no second answer of a name server can
/// lead elsewhere. Names that a proxy resolves, and addresses that stand in the URL itself, are the
/// business of whoever has the URL.
#[derive(Clone, Default)]
pub struct Addresses(Option<Test>);

type Test = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

impl Addresses {
    /// Those that pass the test. It is asked for each connection, and may change its mind.
    pub fn only(test: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(test)))
    }

    pub(super) fn allow(&self, ip: IpAddr) -> bool {
        self.0.as_ref().is_none_or(|test| test(ip))
    }
}

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Addresses(some)" } else { "Addresses(all)" })
    }
}
