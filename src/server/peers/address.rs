//! Addresses as people write them: where a port listens, and where a client connects.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use leakage::field_error::in_short;

/// Where a port listens: `HOST:PORT`, an IP address and a port, or `unix:///path` of a socket.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Endpoint {
    /// Whether other machines can reach it.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }

    /// The IP address; `None` for a socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = unix_path(text)? {
            return Ok(Self::Unix(path));
        }
        let wrong =
            |_| format!("got '{}', expected an IP address and a port, or unix:///path of a socket", in_short(text));
        text.parse().map(Self::Tcp).map_err(wrong)
    }
}

impl TryFrom<String> for Endpoint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix(path) => write!(formatter, "unix://{}", path.display()),
        }
    }
}

/// Returns the text of an address without its user name and password, which stand before the last `@` of the authority.
pub fn without_user(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}"),
        None => address.to_owned(),
    }
}

/// Where a client connects: `HOST:PORT`, the same after `http://` or `https://`, or `unix:///path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

impl Remote {
    /// Returns the host that a request names: `localhost` for a socket.
    pub fn authority(&self) -> String {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp { host, port, .. } => format!("{host}:{port}"),
            Self::Unix(_) => "localhost".to_owned(),
        }
    }

    /// `https` with TLS, else `http`.
    pub fn scheme(&self) -> &'static str {
        if matches!(self, Self::Tcp { tls: true, .. }) { "https" } else { "http" }
    }
}

impl From<&Endpoint> for Remote {
    fn from(endpoint: &Endpoint) -> Self {
        match endpoint {
            Endpoint::Tcp(address) => Self::Tcp { host: address.ip().to_string(), port: address.port(), tls: false },
            Endpoint::Unix(path) => Self::Unix(path.clone()),
        }
    }
}

impl From<SocketAddr> for Remote {
    fn from(address: SocketAddr) -> Self {
        (&Endpoint::Tcp(address)).into()
    }
}

impl FromStr for Remote {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = unix_path(text)? {
            return Ok(Self::Unix(path));
        }
        let wrong = || {
            let text = in_short(&without_user(text));
            format!("got '{text}', expected HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:///path")
        };
        let (tls, authority) = match text.split_once("://") {
            Some(("http", authority)) => (false, authority),
            Some(("https", authority)) => (true, authority),
            Some(_) => return Err(wrong()),
            None => (false, text),
        };
        let (host, port) = authority.trim_end_matches('/').rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let host = match host.strip_prefix('[').map(|inner| inner.strip_suffix(']')) {
            Some(Some(inner)) if inner.parse::<std::net::Ipv6Addr>().is_ok() => inner,
            Some(_) => return Err(wrong()),
            None => host,
        };
        let named = host.parse::<std::net::IpAddr>().is_ok()
            || (!host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)));
        if named { Ok(Self::Tcp { host: host.to_owned(), port, tls }) } else { Err(wrong()) }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { tls: true, .. } => write!(formatter, "https://{}", self.authority()),
            Self::Tcp { .. } => formatter.write_str(&self.authority()),
            Self::Unix(path) => write!(formatter, "unix://{}", path.display()),
        }
    }
}

/// The path of `unix:///path`; `None` if the text is no address of a socket. Absolute, because readers of the port file
/// have other working directories, and without spaces, because that file separates its two addresses by one.
fn unix_path(text: &str) -> Result<Option<PathBuf>, String> {
    let Some(path) = text.strip_prefix("unix:") else { return Ok(None) };
    let path = path.strip_prefix("//").unwrap_or(path);
    let plain = !path.chars().any(|character| character.is_whitespace() || character.is_control());
    if path.starts_with('/') && !path.ends_with('/') && plain && Path::new(path).file_name().is_some() {
        Ok(Some(path.into()))
    } else {
        Err(format!("got '{}', expected unix:///path, an absolute path without spaces", in_short(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_it_is_read() {
        for text in ["127.0.0.1:7800", "[::1]:0", "unix:///run/user/1000/conceptwatch.sock"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in ["127.0.0.1:7800", "[::1]:80", "box.example:7800", "https://box.example:443", "unix:///a/b"] {
            assert_eq!(text.parse::<Remote>().unwrap().to_string(), text);
        }
        assert_eq!("unix:/a/b".parse::<Endpoint>().unwrap(), Endpoint::Unix("/a/b".into()));
        assert_eq!("http://a:1/".parse::<Remote>().unwrap().to_string(), "a:1");
    }

    #[test]
    fn other_texts_are_no_addresses() {
        for text in
            ["", "localhost:1", "127.0.0.1", "unix://run/a", "unix:///", "unix:///a b", "unix:///a/", "tcp://a:1"]
        {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
        for text in
            ["", "a", "a:", ":1", "a:70000", "ftp://a:1", "https://a", "http://u@a:1", "[::1:1", "a/b:1", "[a]:1"]
        {
            assert!(text.parse::<Remote>().is_err(), "{text}");
        }
    }
}
