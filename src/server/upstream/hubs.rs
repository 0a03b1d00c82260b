//! The addresses of hubs, and connections to them.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::timeout;

use crate::history::HistoryError;
use crate::server::grpc::hub::client::{Failure, HubCalls, Unanswered};
use crate::server::peers::{Dialer, Protocol, Remote, Trust, read_token};
use leakage::field_error::FieldError;

/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(5);

/// The hubs of a database, any of which takes what is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamOptions {
    /// Tried in turn; at least one.
    pub addresses: Vec<Remote>,
    /// File with the hub's token. Read again for each connection.
    pub token_file: Option<PathBuf>,
    /// Other users may read that file.
    pub shared_secrets: bool,
    /// Authorities of an https hub's certificate; `None` trusts those of the system.
    pub ca_file: Option<PathBuf>,
}

impl UpstreamOptions {
    /// Errors when a file cannot be used; the fault names the option.
    pub fn check(&self) -> Result<(), FieldError> {
        self.token()?;
        self.dialers().map(drop)
    }

    /// An address that is neither encrypted nor on this machine.
    pub fn unencrypted(&self) -> Option<&Remote> {
        self.addresses.iter().find(|address| match address {
            Remote::Tcp { host, tls: false, .. } => {
                host != "localhost" && !host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Remote::Tcp { .. } | Remote::Unix(_) => false,
        })
    }

    fn token(&self) -> Result<Option<String>, FieldError> {
        let read = |path| read_token("upstream_token_file", path, self.shared_secrets);
        self.token_file.as_deref().map(read).transpose()
    }

    /// One for each address.
    fn dialers(&self) -> Result<Vec<Dialer>, FieldError> {
        let trust = Trust { ca_file: self.ca_file.clone(), identity: None };
        let dialers = self.addresses.iter().map(|address| Dialer::new(address.clone(), &trust, Protocol::Http2));
        let named = |fault: FieldError| FieldError { field: format!("upstream_{}", fault.field), ..fault };
        dialers.collect::<Result<_, _>>().map_err(named)
    }
}

/// The dialers of the hubs, with their options.
pub struct Hubs {
    options: UpstreamOptions,
    dialers: Vec<Dialer>,
}

impl Hubs {
    /// Errors when a file of the options is invalid; the fault names the option.
    pub fn new(options: UpstreamOptions) -> Result<Self, FieldError> {
        Ok(Self { dialers: options.dialers()?, options })
    }

    pub fn count(&self) -> usize {
        self.dialers.len()
    }

    pub fn address(&self, hub: usize) -> String {
        self.options.addresses.get(hub).map(ToString::to_string).unwrap_or_default()
    }

    pub async fn connect(&self, hub: usize) -> Result<HubCalls, Unanswered> {
        let token =
            self.options.token().map_err(|fault| Unanswered { failure: Failure::Refused, why: fault.to_string() })?;
        let connecting = timeout(CONNECTING, HubCalls::connect(&self.dialers[hub], token.as_deref()));
        connecting.await.unwrap_or_else(|_| Err(Unanswered::late(CONNECTING)))
    }
}

/// The result of a call that blocks; the error in words.
pub async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, HistoryError> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(panic.to_string()),
    }
}

/// A random number in [0, 1).
pub fn jitter() -> f64 {
    (RandomState::new().hash_one(0_u8) >> 11) as f64 / (1_u64 << 53) as f64
}
