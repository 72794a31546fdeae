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
pub struct Addresses {
    test: Option<Test>,
    /// Of the two families, IPv4 alone.
    ipv4: bool,
}

type Test = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

impl Addresses {
    /// Those that pass the test. It is asked for each connection, and may change its mind.
    pub fn only(test: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self { test: Some(Arc::new(test)), ipv4: false }
    }

    /// The same, and of IPv4 alone if that is wanted.
    pub(super) fn of_ipv4(self, is_wanted: bool) -> Self {
        Self { ipv4: is_wanted, ..self }
    }

    /// Whether an address is of a family that is used.
    pub(super) fn has_family(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() || !self.ipv4
    }

    pub(super) fn allow(&self, ip: IpAddr) -> bool {
        self.test.as_ref().is_none_or(|test| test(ip))
    }
}

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.test.is_some() { "Addresses(some)" } else { "Addresses(all)" })
    }
}
