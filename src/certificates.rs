//! Certificates in PEM files, of the ports and of those that commands and histories connect to.

use std::path::Path;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{Error, PemObject};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

use leakage::field_error::FieldError;

/// The cryptography of all connections.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Begins the settings of a client that trusts the authorities of a PEM file, or those of the system.
pub fn client(field: &str, file: Option<&Path>) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, FieldError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| FieldError::new(field, error.to_string()))?;
    match file {
        Some(path) => Ok(builder.with_root_certificates(authorities(field, path)?)),
        None => builder.with_native_roots().map_err(|error| {
            FieldError::new(field, format!("got none, and the system has no certificates of authorities: {error}"))
        }),
    }
}

/// The certificates of a PEM file, at least one.
pub fn certificates(field: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, FieldError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| unreadable(field, path, &error, "certificates"))?;
    if certificates.is_empty() {
        return Err(FieldError::new(field, format!("{} holds no certificate in PEM", path.display())));
    }
    Ok(certificates)
}

/// The authorities of a PEM file.
pub fn authorities(field: &str, path: &Path) -> Result<RootCertStore, FieldError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(field, path)? {
        roots
            .add(certificate)
            .map_err(|error| FieldError::new(field, format!("{} cannot be used: {error}", path.display())))?;
    }
    Ok(roots)
}

/// The fault of a PEM file that should hold `expected`.
pub fn unreadable(field: &str, path: &Path, error: &Error, expected: &str) -> FieldError {
    let path = path.display();
    let message = match error {
        Error::Io(error) => format!("{path} cannot be read: {error}"),
        Error::NoItemsFound => format!("{path} holds no PEM, expected {expected}"),
        other => format!("{path} cannot be read as PEM: {other}"),
    };
    FieldError::new(field, message)
}
