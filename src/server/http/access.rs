//! Access control: methods, the `Host` and `Origin` headers, and the token.
//!
//! A page of another site can make its own host name resolve to this machine (DNS rebinding) and then read the answers of
//! a loopback port. Its requests carry that name in `Host`, so only known names are served.

use std::collections::HashSet;
use std::net::IpAddr;

use axum::http::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use axum::http::{Method, Request, StatusCode};

use super::refusal::Refusal;
use super::session::{LASTS, Sessions};
use crate::fault::in_short;
use crate::server::clock::unix_time;
use crate::server::peers::{Endpoint, Tls, Visit, same_secret, with_scheme};

/// The path whose run can be changed.
const RUN: &str = "/api/v1/run";

/// The user name of clients that have a name and a password; the token is the password.
pub const USER: &str = "conceptwatch";

pub struct Access {
    /// `None` for a Unix socket.
    bound: Option<IpAddr>,
    names: HashSet<String>,
    /// Accepted values of `Authorization`; `None` if no token is required.
    credentials: Option<[String; 2]>,
    /// Whether clients can prove themselves by a certificate, which then counts as much as the token.
    certificates: bool,
    /// The cookie's name. Browsers send a cookie to every port of a host, so it is named by the token: hubs behind one
    /// address, whose ports may differ, have one cookie, and servers with other tokens have others.
    cookie: String,
    /// Whether the port speaks TLS, without which a cookie is not sent where it is marked as secure.
    secure: bool,
    /// `None` if no token is required.
    sessions: Option<Sessions>,
}

impl Access {
    /// `names` are host names accepted in addition to `localhost`, loopback addresses and the bound address. With a
    /// `token`, requests need `Authorization: Bearer <token>`, or Basic with the user [`USER`] and the token as password.
    pub fn new(bound: &Endpoint, names: &[String], token: Option<&str>, tls: Option<&Tls>) -> Self {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).chain(["localhost".to_owned()]).collect();
        let credentials = token.map(|token| {
            [format!("Bearer {token}"), format!("Basic {}", base64(format!("{USER}:{token}").as_bytes()))]
        });
        let sessions = token.map(Sessions::new);
        let name = sessions.as_ref().map(Sessions::name).unwrap_or_default();
        Self {
            bound: bound.tcp().map(|address| address.ip()),
            names,
            credentials,
            certificates: tls.is_some_and(Tls::knows_clients),
            cookie: format!("{}conceptwatch-{name}", if tls.is_some() { "__Host-" } else { "" }),
            secure: tls.is_some(),
            sessions,
        }
    }

    pub(super) fn check<B>(&self, request: &Request<B>, visit: Option<&Visit>) -> Result<(), Refusal> {
        let authority = single(request.headers(), HOST)?.ok_or_else(|| foreign("Host", "nothing", "a known name"))?;
        if !self.knows(authority) || request.uri().authority().is_some_and(|uri| !self.knows(uri.as_str())) {
            return Err(foreign("Host", authority, "localhost, the bound address or a configured name"));
        }
        if let Some(origin) = single(request.headers(), ORIGIN)? {
            let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if !own.is_some_and(|own| own.eq_ignore_ascii_case(authority)) {
                return Err(foreign("Origin", origin, "this server's own"));
            }
        }
        let posted = request.method() == Method::POST && matches!(request.uri().path(), "/login" | "/logout");
        let changes = request.uri().path() == RUN && [Method::PATCH, Method::DELETE].contains(request.method());
        if !posted && !changes && request.method() != Method::GET && request.method() != Method::HEAD {
            let message = format!("got {}, expected GET or HEAD", request.method());
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method", message));
        }
        // A browser names the origin of every form and change; whatever else posts a token has better ways.
        if (posted || changes) && !request.headers().contains_key(ORIGIN) {
            return Err(foreign("Origin", "nothing", "this server's own"));
        }
        let open = matches!(request.uri().path(), "/live" | "/ready" | "/login" | "/logout");
        if open || visit.is_some_and(Visit::has_certificate) {
            return Ok(());
        }
        match &self.credentials {
            Some(_) if self.has_session(request.headers()) => Ok(()),
            Some(accepted) => check_token(accepted, single(request.headers(), AUTHORIZATION)?),
            // Without a token, a Unix socket serves its own user alone.
            None if self.certificates && !visit.is_some_and(|visit| visit.peer().is_own()) => Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "certificate",
                "got none, expected one of a known authority",
            )),
            None => Ok(()),
        }
    }

    /// Whether a request comes from a page of this port in a browser that has logged in. Pages of other ports of the same
    /// host count as the same site, so their requests arrive with the cookie; browsers tell them apart in `Sec-Fetch-Site`.
    pub(super) fn has_session(&self, headers: &HeaderMap) -> bool {
        let from = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        let own = matches!(from, None | Some(b"same-origin" | b"none"));
        own && self.session_of(headers).is_some_and(|(sessions, text)| sessions.is_open(text, seconds()))
    }

    /// The header that sets the cookie of a new session; `None` if there is no token, or the system has no random numbers.
    pub(super) fn begin_session(&self) -> Option<String> {
        let session = self.sessions.as_ref()?.begin(seconds())?;
        Some(self.cookie(&session, LASTS.as_secs()))
    }

    /// Ends the session that a request names. Returns the header that deletes the cookie.
    pub(super) fn end_session(&self, headers: &HeaderMap) -> String {
        if let Some((sessions, text)) = self.session_of(headers) {
            sessions.end(text, seconds());
        }
        self.cookie("", 0)
    }

    /// The session that a request names, as its cookie has it.
    fn session_of<'a>(&self, headers: &'a HeaderMap) -> Option<(&Sessions, &'a str)> {
        let lists = headers.get_all(COOKIE).iter().filter_map(|list| list.to_str().ok());
        let mut cookies = lists.flat_map(|list| list.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        let (_, text) = cookies.find(|(name, _)| *name == self.cookie)?;
        Some((self.sessions.as_ref()?, text))
    }

    /// The header that sets the cookie, which is valid for this number of seconds.
    fn cookie(&self, session: &str, seconds: u64) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{}={session}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", self.cookie)
    }

    pub(super) fn is_token(&self, given: &str) -> bool {
        let bearer = format!("Bearer {given}");
        self.credentials.as_ref().is_some_and(|[expected, _]| same_secret(expected.as_bytes(), bearer.as_bytes()))
    }

    /// Whether a token is set.
    pub(super) fn wants_token(&self) -> bool {
        self.credentials.is_some()
    }

    /// Whether the host is known: a configured name, a loopback address or the bound address. If the port is bound to all
    /// addresses, any address is known: rebinding requires a name.
    fn knows(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else { return false };
        match host.parse::<IpAddr>() {
            Ok(address) => {
                let own = |bound: IpAddr| address == bound || bound.is_unspecified();
                address.is_loopback() || self.bound.is_some_and(own)
            }
            Err(_) => self.names.contains(&host.to_ascii_lowercase()),
        }
    }
}

/// Seconds since 1970-01-01 UTC.
fn seconds() -> u64 {
    unix_time() as u64
}

fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(&name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Refusal::new(StatusCode::FORBIDDEN, name.as_str(), "got more than one, expected one"));
    }
    let text = first.map(|value| value.to_str()).transpose();
    text.map_err(|_| Refusal::new(StatusCode::FORBIDDEN, name.as_str(), "is not ASCII text"))
}

fn foreign(header: &str, got: &str, expected: &str) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, header, format!("got {}, expected {expected}", in_short(got)))
}

/// The host of `host`, `host:port` or `[v6]:port`.
fn host_of(authority: &str) -> Option<&str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (port && !host.is_empty()).then_some(host)
}

fn check_token(accepted: &[String; 2], got: Option<&str>) -> Result<(), Refusal> {
    let got = with_scheme(got.unwrap_or_default().as_bytes());
    // Both are always compared, so that the time does not depend on which one matches.
    let matches = accepted.each_ref().map(|expected| same_secret(expected.as_bytes(), &got));
    match matches[0] | matches[1] {
        true => Ok(()),
        false => Err(Refusal::new(StatusCode::UNAUTHORIZED, "Authorization", "expected Bearer and the token")),
    }
}

/// Base64 by RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let groups = bytes.chunks(3).flat_map(|group| {
        let bits = (0..3).fold(0_u32, |bits, i| bits << 8 | u32::from(group.get(i).copied().unwrap_or(0)));
        let digit = move |i: usize| char::from(DIGITS[(bits >> (18 - 6 * i) & 63) as usize]);
        (0..4).map(move |i| if i <= group.len() { digit(i) } else { '=' })
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_vectors_of_rfc_4648() {
        let vectors = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in vectors {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn only_known_hosts_are_served() {
        let loopback = Access::new(&"127.0.0.1:7801".parse().unwrap(), &["Box.example".to_owned()], None, None);
        let all = Access::new(&"0.0.0.0:7801".parse().unwrap(), &[], None, None);
        let known = ["localhost", "LOCALHOST:7801", "127.0.0.1:7801", "127.8.9.1", "[::1]:7801", "box.EXAMPLE:80"];
        for host in known {
            assert!(loopback.knows(host), "{host}");
        }
        let unknown = [
            "",
            ":7801",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]",
            "localhost:",
            "localhost:port",
            "user@localhost",
            "[::1",
            "[::1]x",
            "::1",
            "localhost:7801:7801",
        ];
        for host in unknown {
            assert!(!loopback.knows(host), "{host}");
        }
        assert!(all.knows("10.0.0.1:7801") && !all.knows("evil.example"));
    }
}
