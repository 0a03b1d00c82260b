//! TLS of the ports: a certificate that is read again when its files change, and certificates of clients.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, Error, RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::listener::Socket;
use super::private::check_private;
use crate::certificates::{authorities, certificates, provider, unreadable};
use crate::server::clock::unix_time;
use leakage::field_error::FieldError;

/// Interval at which the files are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Time before a certificate expires at which a warning is logged.
const SOON: u64 = 14 * 86_400;
/// Interval of that warning.
const REMINDER: Duration = Duration::from_secs(86_400);

/// The PEM files of the ports' identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those between it and its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificates of the authorities whose clients are let in.
    pub client_ca: Option<PathBuf>,
    /// Whether others may be able to read the key.
    pub shared: bool,
}

/// Whether a port requires a certificate of its clients, where `client_ca` is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Connections without one are refused.
    Required,
    /// A connection may come without one; what it may ask is decided request by request.
    Optional,
}

/// The protocol that a port speaks within TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http2,
    Http1,
}

impl Protocol {
    /// Its name in the handshake (ALPN).
    pub(super) fn name(self) -> &'static [u8] {
        match self {
            Self::Http2 => b"h2",
            Self::Http1 => b"http/1.1",
        }
    }
}

/// The identity of both ports. Connections that are open keep the certificate that they began with.
#[derive(Clone)]
pub struct Tls(Arc<Inner>);

struct Inner {
    files: TlsFiles,
    current: RwLock<Arc<Loaded>>,
}

/// The inode of a file and the time of its last change, also of its mode, which decides whether a key can be used.
type Stamp = (u64, i64, i64);

/// The contents of the files when they were last valid.
struct Loaded {
    certificate: Arc<CertifiedKey>,
    authorities: Option<Arc<RootCertStore>>,
    /// The stamp of each file when it was read.
    stamps: Vec<Option<Stamp>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.files.fmt(formatter)
    }
}

impl Tls {
    /// Reads the files. Errors when one cannot be read, is not PEM, is readable by others in the case of the key, when
    /// certificate and key do not belong together, or the certificate is not valid now; the fault names the option.
    pub fn load(files: TlsFiles) -> Result<Self, FieldError> {
        let loaded = Loaded::read(&files)?;
        Ok(Self(Arc::new(Inner { files, current: RwLock::new(Arc::new(loaded)) })))
    }

    /// Whether clients can prove themselves by a certificate.
    pub fn knows_clients(&self) -> bool {
        self.0.files.client_ca.is_some()
    }

    fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the handshake of a connection, with the certificate as it is now.
    pub(super) async fn accept(
        &self,
        socket: Socket,
        protocol: Protocol,
        clients: ClientCertificate,
    ) -> io::Result<TlsStream<Socket>> {
        let config = self.current().config(protocol, clients).map_err(io::Error::other)?;
        TlsAcceptor::from(Arc::new(config)).accept(socket).await
    }

    /// Reads the files again whenever they change. Files that are invalid leave the certificate as it is, with a line in
    /// the log.
    pub async fn keep_current(self, stop: CancellationToken) {
        let (mut looks, mut reminders) = (tokio::time::interval(LOOK), tokio::time::interval(REMINDER));
        let mut seen = self.current().stamps.clone();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = reminders.tick() => {
                    if validity(&self.current().certificate.cert, unix_time() as u64 + SOON).is_err() {
                        tracing::warn!("the certificate of tls_cert expires within {} days", SOON / 86_400);
                    }
                    continue;
                }
                _ = looks.tick() => {}
            }
            let stamps = stamps(&self.0.files);
            if stamps == seen {
                continue;
            }
            seen = stamps;
            match Loaded::read(&self.0.files) {
                Ok(loaded) => {
                    tracing::info!("the certificate was read again");
                    *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
                }
                Err(fault) => tracing::error!(%fault, "the certificate stays as it was"),
            }
        }
    }
}

impl Loaded {
    fn read(files: &TlsFiles) -> Result<Self, FieldError> {
        // Taken first: a file that changes while it is read is then read again.
        let stamps = stamps(files);
        let chain = certificates("tls_cert", &files.cert)?;
        check_private("tls_key", &files.key, files.shared)?;
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| unreadable("tls_key", &files.key, &error, "a private key"))?;
        let authorities = files.client_ca.as_deref().map(|path| authorities("client_ca", path)).transpose()?;
        let unusable = |why: String| FieldError::new("tls_cert", format!("{} {why}", files.cert.display()));
        let certificate = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                let (key, cert) = (files.key.display(), files.cert.display());
                FieldError::new("tls_key", format!("{key} is not the key of the certificate in {cert}"))
            }
            other => unusable(format!("cannot be used: {other}")),
        })?;
        validity(&certificate.cert, unix_time() as u64).map_err(unusable)?;
        let loaded = Self { certificate: Arc::new(certificate), authorities: authorities.map(Arc::new), stamps };
        // Making it for a connection then cannot fail.
        loaded
            .config(Protocol::Http2, ClientCertificate::Required)
            .map_err(|error| unusable(format!("cannot be used: {error}")))?;
        Ok(loaded)
    }

    fn config(&self, protocol: Protocol, clients: ClientCertificate) -> Result<ServerConfig, Error> {
        let provider = provider();
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let builder = match &self.authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(authorities), provider);
                let verifier = match clients {
                    ClientCertificate::Required => verifier,
                    ClientCertificate::Optional => verifier.allow_unauthenticated(),
                };
                builder.with_client_cert_verifier(verifier.build().map_err(|error| Error::General(error.to_string()))?)
            }
        };
        let certificate = SingleCertAndKey::from(Arc::clone(&self.certificate));
        let mut config = builder.with_cert_resolver(Arc::new(certificate));
        config.alpn_protocols = vec![protocol.name().to_vec()];
        Ok(config)
    }
}

/// Errors when the certificate is not valid at this time, in seconds since 1970, by the verifier that clients use.
fn validity(chain: &[CertificateDer<'static>], seconds: u64) -> Result<(), String> {
    let leaf = chain.first().ok_or("holds no certificate")?;
    let cannot = |error: &dyn std::fmt::Display| format!("cannot be used: {error}");
    let mut roots = RootCertStore::empty();
    roots.add(leaf.clone()).map_err(|error| cannot(&error))?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    let name = ServerName::try_from("localhost").map_err(|error| cannot(&error))?;
    let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    match verifier.map_err(|error| cannot(&error))?.verify_server_cert(leaf, &[], &name, &[], time) {
        Err(Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. })) => {
            Err("has expired".to_owned())
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. })) => {
            Err("is not valid yet".to_owned())
        }
        // Names and purposes are for clients to judge.
        _ => Ok(()),
    }
}

fn stamps(files: &TlsFiles) -> Vec<Option<Stamp>> {
    let stamp = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
    };
    [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()].into_iter().flatten().map(stamp).collect()
}
