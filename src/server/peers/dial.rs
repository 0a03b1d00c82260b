//! Connections from a command to a sidecar: TCP, TLS and Unix sockets.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{TlsConnector, TlsStream};
use tokio_util::either::Either;

use super::address::Remote;
use super::listener::Socket;
use super::tls::Protocol;
use crate::certificates::{certificates, client, unreadable};
use leakage::field_error::FieldError;

/// A connection, with TLS or without.
pub type Stream = Either<Socket, Box<TlsStream<Socket>>>;

/// The PEM files of a client: the authorities that it trusts, and its own identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Authorities of the server's certificate; `None` trusts those of the system.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Opens connections to one place.
#[derive(Clone)]
pub struct Dialer {
    remote: Remote,
    tls: Option<Arc<ClientConfig>>,
}

impl Dialer {
    /// Errors when the place is `https` and a file of `trust` is invalid; the fault names it.
    pub fn new(remote: Remote, trust: &Trust, protocol: Protocol) -> Result<Self, FieldError> {
        let secured = matches!(remote, Remote::Tcp { tls: true, .. });
        let tls = if secured { Some(Arc::new(client_config(trust, protocol)?)) } else { None };
        Ok(Self { remote, tls })
    }

    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    pub async fn connect(&self) -> io::Result<Stream> {
        let (host, port) = match &self.remote {
            Remote::Unix(path) => return Ok(Either::Left(Either::Right(UnixStream::connect(path).await?))),
            Remote::Tcp { host, port, .. } => (host, *port),
        };
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        let _ = stream.set_nodelay(true);
        let socket = Either::Left(stream);
        let Some(config) = &self.tls else { return Ok(Either::Left(socket)) };
        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        let secured = TlsConnector::from(Arc::clone(config)).connect(name, socket).await?;
        Ok(Either::Right(Box::new(secured.into())))
    }
}

impl From<Remote> for Dialer {
    /// Without TLS, whatever the scheme.
    fn from(remote: Remote) -> Self {
        Self { remote, tls: None }
    }
}

fn client_config(trust: &Trust, protocol: Protocol) -> Result<ClientConfig, FieldError> {
    let builder = client("ca_file", trust.ca_file.as_deref())?;
    let mut config = match &trust.identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let unusable = |error: rustls::Error| {
                FieldError::new("cert_file", format!("{} cannot be used: {error}", cert.display()))
            };
            let chain = certificates("cert_file", cert)?;
            let private = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| unreadable("key_file", key, &error, "a private key"))?;
            builder.with_client_auth_cert(chain, private).map_err(unusable)?
        }
    };
    config.alpn_protocols = vec![protocol.name().to_vec()];
    Ok(config)
}
