//! The only address that Claude Code is ever given as its model's.
//!
//! Invariant: a [`ModelEndpoint`] is plain HTTP at a literal loopback address, without credentials or a path (I3).

use std::net::{IpAddr, SocketAddr};

/// A verified endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelEndpoint(String);

/// The address is not one that Claude Code may be sent to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the model's address is not plain HTTP at a literal loopback address; nothing is started")]
pub(crate) struct NotLoopback;

impl ModelEndpoint {
    /// Verifies an address as Claude Code would be given it.
    ///
    /// # Errors
    /// Where it is anything but `http://`, a literal loopback address and a port.
    pub(crate) fn verify(url: &str) -> Result<Self, NotLoopback> {
        let authority = url.strip_prefix("http://").ok_or(NotLoopback)?;
        let address: SocketAddr = authority.parse().map_err(|_| NotLoopback)?;
        let loopback = match address.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            // `::ffff:127.0.0.1` is a loopback address by another name; it does not count.
            IpAddr::V6(ip) => ip.is_loopback(),
        };
        // One address has one text: nothing is left for another parser to read differently.
        if loopback && address.port() != 0 && address.to_string() == authority {
            Ok(Self(url.to_owned()))
        } else {
            Err(NotLoopback)
        }
    }

    /// The address as text.
    pub(crate) fn url(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_literal_loopback_address_is_taken() {
        for url in ["http://127.0.0.1:7380", "http://127.0.0.2:1", "http://[::1]:65535"] {
            assert_eq!(ModelEndpoint::verify(url).unwrap().url(), url);
        }
        for url in [
            "",
            "127.0.0.1:7380",
            "https://127.0.0.1:7380",
            "HTTP://127.0.0.1:7380",
            "http://127.0.0.1",
            "http://127.0.0.1:0",
            "http://127.0.0.1:7380/",
            "http://127.0.0.1:7380/v1",
            "http://127.0.0.1:07380",
            "http://127.1:7380",
            "http://0x7f000001:7380",
            "http://localhost:7380",
            "http://127.0.0.1.nip.io:7380",
            "http://user:pass@127.0.0.1:7380",
            "http://127.0.0.1:7380@example.com:80",
            "http://[::ffff:127.0.0.1]:7380",
            "http://[::ffff:7f00:1]:7380",
            "http://0.0.0.0:7380",
            "http://10.0.0.1:7380",
            " http://127.0.0.1:7380",
        ] {
            assert_eq!(ModelEndpoint::verify(url), Err(NotLoopback), "{url}");
        }
    }
}
