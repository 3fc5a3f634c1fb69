//! The faces that a model's endpoint may show behind TLS: a good one, and those that nobody may send a key to.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{Arc, Mutex},
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

/// The host that good certificates are for.
pub const HOST: &str = "localhost";

/// What a connection finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// A certificate of the known authority, for this host.
    Good,
    /// One of an authority that nobody knows.
    Stranger,
    /// One of an authority that bears the known one's name.
    Impostor,
    /// One whose time is over.
    Expired,
    /// One for another host.
    OtherHost,
    /// No TLS, but an answer in the clear.
    Plain,
    /// A connection on which nothing is ever said.
    Silent,
    /// A connection that is closed after the first words of the handshake.
    Closes,
}

/// An authority, and a server's side for each face.
pub struct Tls {
    authority: String,
    good: Arc<ServerConfig>,
    stranger: Arc<ServerConfig>,
    impostor: Arc<ServerConfig>,
    expired: Arc<ServerConfig>,
    other_host: Arc<ServerConfig>,
}

impl Default for Tls {
    fn default() -> Self {
        let [(authority, known), (_, unknown), (_, alike)] = ["known", "unknown", "known"].map(authority);
        Self {
            good: server(&known, HOST, 4000),
            stranger: server(&unknown, HOST, 4000),
            impostor: server(&alike, HOST, 4000),
            expired: server(&known, HOST, 2001),
            other_host: server(&known, "another.example", 4000),
            authority,
        }
    }
}

impl Tls {
    /// The known authority's certificate, in PEM form.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The server's side of a handshake; none for the faces that make none.
    ///
    /// # Panics
    /// Where TLS can't be set up.
    #[must_use]
    pub fn accept(&self, face: Face, stream: Heard) -> Option<StreamOwned<ServerConnection, Heard>> {
        let config = match face {
            Face::Good => &self.good,
            Face::Stranger => &self.stranger,
            Face::Impostor => &self.impostor,
            Face::Expired => &self.expired,
            Face::OtherHost => &self.other_host,
            Face::Plain | Face::Silent | Face::Closes => return None,
        };
        let connection = ServerConnection::new(Arc::clone(config)).expect("a server's side");
        Some(StreamOwned::new(connection, stream))
    }
}

fn authority(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    (certificate.pem(), Issuer::new(params, key))
}

fn server(issuer: &Issuer<'static, KeyPair>, host: &str, until: i32) -> Arc<ServerConfig> {
    let mut params = CertificateParams::new(vec![host.to_owned()]).expect("parameters");
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, issuer).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key);
    Arc::new(config.expect("a server's configuration"))
}

/// A connection that keeps every byte that came in on it, as it was on the wire.
#[derive(Debug)]
pub struct Heard {
    stream: TcpStream,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Heard {
    /// Keeps what comes in on `stream` in `bytes`.
    #[must_use]
    pub const fn new(stream: TcpStream, bytes: Arc<Mutex<Vec<u8>>>) -> Self {
        Self { stream, bytes }
    }
}

impl Read for Heard {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.stream.read(buffer)?;
        self.bytes.lock().expect("a lock").extend_from_slice(&buffer[..got]);
        Ok(got)
    }
}

impl Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
