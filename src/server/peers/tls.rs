//! TLS of the ports: a certificate that is read again when its files change, and certificates of clients.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, Error, RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::private::check_private;
use crate::fault::Fault;
use crate::server::clock::unix_time;

/// Interval at which the files are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Time before a certificate expires at which a warning is logged.
const SOON: u64 = 14 * 86_400;

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

/// The attributes that change with a file: its identity, length, and times of change of the content and of the
/// permissions, which decide whether a key can be used.
type Stamp = (u64, u64, Option<SystemTime>, (i64, i64));

/// The contents of the files when they were last valid.
struct Loaded {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authorities: Option<Arc<RootCertStore>>,
    /// End of the certificate's validity, in seconds since 1970.
    expires: u64,
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
    pub fn load(files: TlsFiles) -> Result<Self, Fault> {
        let loaded = Loaded::read(&files)?;
        Ok(Self(Arc::new(Inner { files, current: RwLock::new(Arc::new(loaded)) })))
    }

    /// Whether clients can prove themselves by a certificate.
    pub fn knows_clients(&self) -> bool {
        self.0.files.client_ca.is_some()
    }

    /// End of the certificate's validity, in seconds since 1970.
    pub fn expires(&self) -> u64 {
        self.current().expires
    }

    fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the acceptor of the next connection, with the certificate as it is now. The caller keeps `made` from
    /// call to call.
    pub(super) fn acceptor(
        &self,
        protocol: Protocol,
        clients: ClientCertificate,
        made: &mut Made,
    ) -> io::Result<TlsAcceptor> {
        let current = self.current();
        if let Some((_, acceptor)) = made.0.as_ref().filter(|(of, _)| Arc::ptr_eq(of, &current)) {
            return Ok(acceptor.clone());
        }
        let config = current.config(protocol, clients).map_err(io::Error::other)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        made.0 = Some((current, acceptor.clone()));
        Ok(acceptor)
    }

    /// Reads the files again whenever they change. Files that are invalid leave the certificate as it is, with a line in
    /// the log.
    pub async fn keep_current(self, stop: CancellationToken) {
        let mut looks = tokio::time::interval(LOOK);
        let mut seen = self.current().stamps.clone();
        let mut warned = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = looks.tick() => {}
            }
            let left = self.expires().saturating_sub(unix_time() as u64);
            if left < SOON && !warned {
                tracing::warn!(hours = left / 3600, "the certificate of tls_cert expires soon");
            }
            warned = left < SOON;
            let stamps = stamps(&self.0.files);
            if stamps == seen {
                continue;
            }
            seen = stamps;
            match Loaded::read(&self.0.files) {
                Ok(loaded) => {
                    tracing::info!(expires = loaded.expires, "the certificate was read again");
                    *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
                }
                Err(fault) => tracing::error!(%fault, "the certificate stays as it was"),
            }
        }
    }
}

/// The acceptor of one port, made once for each certificate.
#[derive(Default)]
pub(super) struct Made(Option<(Arc<Loaded>, TlsAcceptor)>);

impl Loaded {
    fn read(files: &TlsFiles) -> Result<Self, Fault> {
        // Taken first: a file that changes while it is read is then read again.
        let stamps = stamps(files);
        let chain = certificates("tls_cert", &files.cert)?;
        check_private("tls_key", &files.key, files.shared)?;
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| unreadable("tls_key", &files.key, &error, "a private key"))?;
        let authorities = files.client_ca.as_deref().map(|path| authorities("client_ca", path)).transpose()?;
        let validity =
            Validity::of(&chain).map_err(|why| Fault::new("tls_cert", format!("{} {why}", files.cert.display())))?;
        let loaded = Self { chain, key, authorities: authorities.map(Arc::new), expires: validity.until, stamps };
        // Both forms are made once here, so that making them later cannot fail.
        for clients in [ClientCertificate::Required, ClientCertificate::Optional] {
            loaded.config(Protocol::Http2, clients).map_err(|error| {
                let (field, path) = (files.key.display(), files.cert.display());
                match error {
                    Error::InconsistentKeys(_) => {
                        Fault::new("tls_key", format!("{field} is not the key of the certificate in {path}"))
                    }
                    other => Fault::new("tls_cert", format!("{path} cannot be used: {other}")),
                }
            })?;
        }
        validity
            .check(unix_time() as u64)
            .map_err(|why| Fault::new("tls_cert", format!("{} {why}", files.cert.display())))?;
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
        let mut config = builder.with_single_cert(self.chain.clone(), self.key.clone_key())?;
        config.alpn_protocols = vec![protocol.name().to_vec()];
        Ok(config)
    }
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificates of a PEM file, at least one.
fn certificates(field: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| unreadable(field, path, &error, "certificates"))?;
    if certificates.is_empty() {
        return Err(Fault::new(field, format!("{} holds no certificate in PEM", path.display())));
    }
    Ok(certificates)
}

/// The authorities of a PEM file.
pub(super) fn authorities(field: &str, path: &Path) -> Result<RootCertStore, Fault> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(field, path)? {
        roots
            .add(certificate)
            .map_err(|error| Fault::new(field, format!("{} cannot be used: {error}", path.display())))?;
    }
    Ok(roots)
}

fn unreadable(field: &str, path: &Path, error: &rustls::pki_types::pem::Error, expected: &str) -> Fault {
    use rustls::pki_types::pem::Error;
    let path = path.display();
    let message = match error {
        Error::Io(error) => format!("{path} cannot be read: {error}"),
        Error::NoItemsFound => format!("{path} holds no PEM, expected {expected}"),
        other => format!("{path} cannot be read as PEM: {other}"),
    };
    Fault::new(field, message)
}

/// When a certificate is valid, in seconds since 1970.
struct Validity {
    from: u64,
    until: u64,
}

impl Validity {
    /// Read from the refusals of the verifier that clients use, so that no second reader of certificates is needed.
    fn of(chain: &[CertificateDer<'static>]) -> Result<Self, String> {
        let leaf = chain.first().ok_or("holds no certificate")?;
        let mut roots = RootCertStore::empty();
        roots.add(leaf.clone()).map_err(|error| format!("cannot be used: {error}"))?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier.build().map_err(|error| format!("cannot be used: {error}"))?;
        let name = ServerName::try_from("localhost").map_err(|error| error.to_string())?;
        let at = |seconds| {
            let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            verifier.verify_server_cert(leaf, &[], &name, &[], time).err()
        };
        // The years 1970 and 9999, between which every validity that X.509 can express lies.
        let from = match at(0) {
            Some(Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => {
                not_before.as_secs()
            }
            _ => 0,
        };
        let until = match at(253_402_300_799) {
            Some(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => not_after.as_secs(),
            _ => u64::MAX,
        };
        Ok(Self { from, until })
    }

    fn check(&self, now: u64) -> Result<(), String> {
        let days = |seconds: u64| format!("{:.1} days", seconds as f64 / 86_400.0);
        if now > self.until {
            return Err(format!("expired {} ago", days(now - self.until)));
        }
        if now < self.from {
            return Err(format!("is not valid before {} from now", days(self.from - now)));
        }
        Ok(())
    }
}

fn stamps(files: &TlsFiles) -> Vec<Option<Stamp>> {
    use std::os::unix::fs::MetadataExt;
    let stamp = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Some((metadata.ino(), metadata.len(), metadata.modified().ok(), changed))
    };
    [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()]
        .into_iter()
        .flatten()
        .map(|path| stamp(path))
        .collect()
}
