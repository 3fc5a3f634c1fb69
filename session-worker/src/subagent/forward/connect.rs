//! The connection to a sub-session's model: whose certificates are believed, how long it may take, and why there is none.
//!
//! Invariant: nothing is sent to an endpoint whose certificate is not good for its name.
//! Invariant: it goes to the configured address itself: no proxy, and no redirect, is ever followed.

use std::{
    error::Error,
    future::Future,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use rustls::{
    CertificateError, ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::{net::TcpStream, time::timeout};
use tower_service::Service;

/// How long a name, a connection and its handshake may take together.
const CONNECT: Duration = Duration::from_secs(15);

/// What asks the model.
pub(super) type Asking = Client<Patient, Full<Bytes>>;

/// A client that judges the endpoint by the certificates in `authorities`, or else by the system's.
///
/// # Errors
/// Where there are none; a public sentence without a path.
pub(super) fn client(authorities: Option<&Path>) -> Result<Asking, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS can't be set up: {error}"))?;
    let config = match authorities {
        Some(file) => config.with_root_certificates(roots(file)?),
        None => config.with_native_roots().map_err(|error| {
            format!(
                "the system's certificates can't be read ({}); CLAUDE_TOOLS_DEEPSEEK_CA_FILE names others",
                error.kind()
            )
        })?,
    };
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config.with_no_client_auth())
        .https_or_http()
        .enable_http1()
        .build();
    Ok(Client::builder(TokioExecutor::new()).build(Patient(connector)))
}

/// The owner's own authorities.
fn roots(file: &Path) -> Result<RootCertStore, String> {
    let refused = |why: &str| format!("the file of CLAUDE_TOOLS_DEEPSEEK_CA_FILE (or SSL_CERT_FILE) {why}");
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|_| refused("can't be read as certificates in PEM form"))?;
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(found);
    if good == 0 { Err(refused("holds no certificate of an authority")) } else { Ok(roots) }
}

/// A connector that does not wait for ever.
#[derive(Clone)]
pub(super) struct Patient(HttpsConnector<HttpConnector>);

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;
type AnyError = Box<dyn Error + Send + Sync>;

impl Service<Uri> for Patient {
    type Response = Stream;
    type Error = AnyError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, AnyError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), AnyError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = timeout(CONNECT, self.0.call(uri));
        Box::pin(async move {
            connecting.await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
        })
    }
}

/// Why there was no answer, as a public sentence: of fixed words, whatever the other end sent.
pub(super) fn why(error: &(dyn Error + 'static)) -> String {
    let mut cause = Some(error);
    let mut kind = None;
    while let Some(error) = cause {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return distrusted(tls).to_owned();
        }
        cause = match error.downcast_ref::<io::Error>() {
            Some(io) => {
                kind = Some(io.kind());
                // Its source would pass over what it wraps.
                io.get_ref().map(|inner| inner as &(dyn Error + 'static))
            }
            None => error.source(),
        };
    }
    match kind {
        Some(io::ErrorKind::TimedOut) => {
            format!(
                "the model's endpoint can't be reached: connecting took longer than {} s",
                CONNECT.as_secs()
            )
        }
        Some(kind) => format!("the model's endpoint can't be reached: {kind}"),
        None => "the model's endpoint closed the connection before it answered".to_owned(),
    }
}

/// What is wrong with the other end's TLS.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "two open lists of another crate: what is new in them is no worse"
)]
fn distrusted(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the model's endpoint is not trusted: its certificate is expired; nothing was sent to it"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the model's endpoint is not trusted: its certificate is not valid yet; nothing was sent to it"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the model's endpoint is not trusted: its certificate is for another host; nothing was sent to it"
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "the model's endpoint is not trusted: nobody who is trusted vouches for its certificate \
                 (CLAUDE_TOOLS_DEEPSEEK_CA_FILE names a private authority); nothing was sent to it"
            }
            _ => "the model's endpoint is not trusted: its certificate is not good; nothing was sent to it",
        },
        rustls::Error::InvalidMessage(_) => "the model's endpoint does not speak TLS; nothing was sent to it",
        _ => "the TLS handshake with the model's endpoint failed; nothing was sent to it",
    }
}
