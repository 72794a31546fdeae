//! The redirect address of a login, and the port of this machine that it leads to.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tracing::debug;

use super::words::login_error;
use crate::error::Error;
use crate::limits;

/// The redirect address around its port.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct CallbackPlace {
    /// A name of this machine.
    pub host: String,
    /// With the slash that it begins with.
    pub path: String,
}

impl Default for CallbackPlace {
    fn default() -> Self {
        Self { host: "127.0.0.1".to_owned(), path: "/callback".to_owned() }
    }
}

/// The ports that a redirect address may have: the first of them that is free.
pub type CallbackPorts = RangeInclusive<u16>;

/// The port of the redirect address, held: the provider may be told of it.
#[derive(Debug)]
pub(super) struct CallbackPort {
    pub(super) listeners: Vec<TcpListener>,
    pub(super) port: u16,
    pub(super) place: CallbackPlace,
}

impl CallbackPort {
    /// Binds any free port, or the first free one of those that were asked for.
    pub(super) async fn bind(
        ports: Option<&CallbackPorts>,
        place: &CallbackPlace,
    ) -> Result<Self, Error> {
        let tried: Vec<u16> = match ports {
            Some(ports) => ports.clone().collect(),
            None => vec![0; limits::CALLBACK_PORTS],
        };
        let mut failed = None;
        for port in tried {
            match Self::bind_one(port, place).await {
                Ok(bound) => return Ok(bound),
                Err(error) => failed = Some(error),
            }
        }
        let message = match ports.map(|ports| (ports.start(), ports.end())) {
            Some((first, last)) if first == last => {
                format!("Port {first} of this machine, for the login, cannot be had")
            }
            Some((first, last)) => {
                format!("No port of this machine from {first} to {last}, for the login, can be had")
            }
            None => "No port of this machine can be had for the login".to_owned(),
        };
        let hint = "End the program that holds it, or leave --oauth-callback-port out";
        let error = login_error(message).hint(hint);
        Err(failed.into_iter().fold(error, Error::because))
    }

    async fn bind_one(port: u16, place: &CallbackPlace) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        let mut listeners = vec![listener];
        if place.host == "localhost" {
            // Browsers may take the name for ::1. Where that does not exist, they take the other;
            // where another program has it, that would get the code.
            match TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await {
                Ok(listener) => listeners.push(listener),
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => return Err(error),
                Err(error) => debug!("the login is not listened for at ::1: {error}"),
            }
        }
        Ok(Self { listeners, port, place: place.clone() })
    }

    /// Where the provider sends the browser back to.
    pub(super) fn redirect_uri(&self) -> String {
        format!("http://{}:{}{}", self.place.host, self.port, self.place.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_login_under_the_name_localhost_listens_on_both_families() {
        let place =
            CallbackPlace { host: "localhost".to_owned(), path: "/oauth/callback".to_owned() };
        let port = CallbackPort::bind(None, &place).await.unwrap();
        assert_eq!(port.redirect_uri(), format!("http://localhost:{}/oauth/callback", port.port));
        let has_v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok();
        assert_eq!(port.listeners.len(), if has_v6 { 2 } else { 1 });
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_named() {
        let first = CallbackPort::bind(None, &CallbackPlace::default()).await.unwrap();
        let error = CallbackPort::bind(Some(&(first.port..=first.port)), &CallbackPlace::default())
            .await
            .unwrap_err();
        assert!(error.message.contains(&first.port.to_string()), "{error}");
    }

    #[tokio::test]
    async fn of_several_ports_the_first_that_is_free_is_taken() {
        let place = CallbackPlace { host: "localhost".to_owned(), ..CallbackPlace::default() };
        let taken = CallbackPort::bind(None, &CallbackPlace::default()).await.unwrap();
        let Some(last) = taken.port.checked_add(7) else { return };
        let ports = taken.port..=last;
        let bound = CallbackPort::bind(Some(&ports), &place).await.unwrap();
        assert!(bound.port > taken.port && ports.contains(&bound.port));
    }

    #[tokio::test]
    async fn a_port_that_another_program_has_at_the_other_family_is_taken() {
        let place = CallbackPlace { host: "localhost".to_owned(), ..CallbackPlace::default() };
        let Ok(other) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await else { return };
        let port = other.local_addr().unwrap().port();
        let bound = CallbackPort::bind(Some(&(port..=port)), &place).await;
        assert!(bound.is_err(), "a browser would bring the code there");
    }
}
