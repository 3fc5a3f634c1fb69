//! Who is at the other end: a hello of fixed layout, then a proof that both know the session's link key.
//!
//! Each side sends 64 bytes (numbers big-endian), then 32 bytes of proof:
//!
//! | bytes | content |
//! |---|---|
//! | 0–7 | `GATEWAY\0` |
//! | 8–9 | major version; both must be equal |
//! | 10–11 | minor version; what came after the peer's is not sent to it |
//! | 12 | role: 1 supervisor, 2 worker |
//! | 13–15 | zero |
//! | 16–31 | session id |
//! | 32–63 | nonce |
//!
//! The proof is HMAC-SHA256 with the link key over `gateway link`, the sender's role, and both hellos, the supervisor's first.
//! Invariant: nothing else is sent before the peer's proof was checked; a proof can't be sent back to its maker.

use std::io;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{id::SessionId, limits::HANDSHAKE, secret::Secret};

/// The protocol's major version: peers with another one don't talk.
pub const MAJOR: u16 = 1;
/// The protocol's minor version: counts the additions.
pub const MINOR: u16 = 0;

const MAGIC: &[u8; 8] = b"GATEWAY\0";
const LENGTH: usize = 64;

/// Which end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// The supervisor.
    Supervisor = 1,
    /// The worker.
    Worker = 2,
}

/// The first bytes of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Major and minor version.
    pub version: (u16, u16),
    /// Who sends it.
    pub role: Role,
    /// The session both talk about.
    pub session_id: SessionId,
    /// Random bytes that make this connection's proofs its own.
    pub nonce: [u8; 32],
}

/// Why the peer is not the one it should be.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// The stream failed or ended.
    #[error("the connection failed during the handshake: {0}")]
    Io(#[from] io::Error),
    /// The peer took too long.
    #[error("the peer did not finish its handshake in time")]
    Slow,
    /// The bytes are not a hello.
    #[error("the peer does not speak this protocol")]
    Malformed,
    /// The peer's major version is another.
    #[error("the peer speaks version {0}.{1}, this release {MAJOR}.{MINOR}; restart the older one")]
    Version(u16, u16),
    /// The peer is for another session or on the same side.
    #[error("the peer is not the other end of this session's link")]
    NotOurs,
    /// The proof is wrong.
    #[error("the peer does not know this session's link key")]
    Unproven,
}

impl Hello {
    /// The 64 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&self.version.0.to_be_bytes());
        bytes[10..12].copy_from_slice(&self.version.1.to_be_bytes());
        bytes[12] = self.role as u8;
        bytes[16..32].copy_from_slice(self.session_id.as_bytes());
        bytes[32..].copy_from_slice(&self.nonce);
        bytes
    }

    /// The hello in these bytes.
    ///
    /// # Errors
    /// Where they are not a hello.
    pub fn decode(bytes: &[u8; LENGTH]) -> Result<Self, HelloError> {
        let role = match bytes[12] {
            1 => Role::Supervisor,
            2 => Role::Worker,
            _ => return Err(HelloError::Malformed),
        };
        if &bytes[..8] != MAGIC || bytes[13..16] != [0; 3] {
            return Err(HelloError::Malformed);
        }
        let (mut session, mut nonce) = ([0; 16], [0; 32]);
        session.copy_from_slice(&bytes[16..32]);
        nonce.copy_from_slice(&bytes[32..]);
        Ok(Self {
            version: (u16::from_be_bytes([bytes[8], bytes[9]]), u16::from_be_bytes([bytes[10], bytes[11]])),
            role,
            session_id: SessionId::from_bytes(session),
            nonce,
        })
    }
}

/// The keyed digest over a label and some parts, with which secrets are derived and proofs are made.
#[must_use]
pub fn keyed(key: &Secret<[u8; 32]>, parts: &[&[u8]]) -> [u8; 32] {
    mac(key, parts).finalize().into_bytes().into()
}

fn mac(key: &Secret<[u8; 32]>, parts: &[&[u8]]) -> Hmac<Sha256> {
    // HMAC fills a key that is shorter than the hash's block with zeros.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key.expose());
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
    for part in parts {
        mac.update(part);
    }
    mac
}

/// Shakes hands on a fresh stream and returns the peer's minor version: what a smaller one lacks must not be sent to it.
///
/// # Errors
/// Where the peer is not the other end of this session's link, or takes longer than `limits::HANDSHAKE`.
pub async fn exchange<S>(
    stream: &mut S,
    role: Role,
    session_id: SessionId,
    key: &Secret<[u8; 32]>,
) -> Result<u16, HelloError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    tokio::time::timeout(HANDSHAKE, shake(stream, role, session_id, key))
        .await
        .map_err(|_| HelloError::Slow)?
}

async fn shake<S>(
    stream: &mut S,
    role: Role,
    session_id: SessionId,
    key: &Secret<[u8; 32]>,
) -> Result<u16, HelloError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let nonce = *Secret::<[u8; 32]>::random().map_err(|e| io::Error::other(e.to_string()))?.expose();
    let mine = Hello { version: (MAJOR, MINOR), role, session_id, nonce }.encode();
    stream.write_all(&mine).await?;
    stream.flush().await?;
    let mut theirs = [0; LENGTH];
    stream.read_exact(&mut theirs).await?;
    let peer = Hello::decode(&theirs)?;
    if peer.version.0 != MAJOR {
        return Err(HelloError::Version(peer.version.0, peer.version.1));
    }
    if peer.role == role || peer.session_id != session_id {
        return Err(HelloError::NotOurs);
    }
    let (first, second) = match role {
        Role::Supervisor => (&mine, &theirs),
        Role::Worker => (&theirs, &mine),
    };
    stream.write_all(&keyed(key, &[b"gateway link", &[role as u8], first, second])).await?;
    stream.flush().await?;
    let mut proof = [0; 32];
    stream.read_exact(&mut proof).await?;
    mac(key, &[b"gateway link", &[peer.role as u8], first, second])
        .verify_slice(&proof)
        .map_err(|_| HelloError::Unproven)?;
    Ok(peer.version.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn meet(
        a: (Role, SessionId, [u8; 32]),
        b: (Role, SessionId, [u8; 32]),
    ) -> (Result<u16, HelloError>, Result<u16, HelloError>) {
        let (mut left, mut right) = tokio::io::duplex(4096);
        let (key_a, key_b) = (Secret::new(a.2), Secret::new(b.2));
        let one = async {
            let result = exchange(&mut left, a.0, a.1, &key_a).await;
            drop(left);
            result
        };
        let other = async {
            let result = exchange(&mut right, b.0, b.1, &key_b).await;
            drop(right);
            result
        };
        tokio::join!(one, other)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn only_the_two_ends_of_one_link_meet() {
        let (session, key) = (SessionId::mint(), [1; 32]);
        let worker = (Role::Worker, session, key);
        assert!(matches!(meet((Role::Supervisor, session, key), worker).await, (Ok(MINOR), Ok(MINOR))));
        for wrong in [
            (Role::Worker, session, key),
            (Role::Supervisor, SessionId::mint(), key),
            (Role::Supervisor, session, [2; 32]),
        ] {
            let (a, b) = meet(wrong, worker).await;
            assert!(a.is_err() && b.is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_layout_is_fixed() {
        let hello = Hello {
            version: (1, 2),
            role: Role::Worker,
            session_id: SessionId::from_bytes([3; 16]),
            nonce: [4; 32],
        };
        let bytes = hello.encode();
        assert_eq!(&bytes[..16], b"GATEWAY\0\x00\x01\x00\x02\x02\x00\x00\x00");
        assert_eq!(&bytes[16..], [[3; 16].as_slice(), [4; 32].as_slice()].concat());
        assert_eq!(Hello::decode(&bytes).unwrap(), hello);
        let mut other = bytes;
        other[14] = 1;
        assert!(matches!(Hello::decode(&other), Err(HelloError::Malformed)));
    }
}
