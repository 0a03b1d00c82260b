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
use crate::server::clock::unix_time;
use crate::server::options::Options;
use crate::server::peers::{Caller, Endpoint, Tls, is_same, presented};
use leakage::field_error::in_short;

/// The path whose run can be changed.
const RUN: &str = "/api/v1/run";

pub struct Access {
    /// `None` for a Unix socket.
    bound: Option<IpAddr>,
    names: HashSet<String>,
    /// `None` if no token is required.
    token: Option<String>,
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
    /// `token`, requests need to [present](presented) it.
    pub fn new(bound: &Endpoint, names: &[String], token: Option<&str>, tls: Option<&Tls>) -> Self {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).chain(["localhost".to_owned()]).collect();
        let sessions = token.map(Sessions::new);
        let name = sessions.as_ref().map(Sessions::name).unwrap_or_default();
        Self {
            bound: bound.tcp().map(|address| address.ip()),
            names,
            token: token.map(str::to_owned),
            certificates: tls.is_some_and(Tls::knows_clients),
            cookie: format!("{}conceptwatch-{name}", if tls.is_some() { "__Host-" } else { "" }),
            secure: tls.is_some(),
            sessions,
        }
    }

    /// The access rules of a server with these options, at this address.
    pub fn of(options: &Options, bound: &Endpoint) -> Self {
        Self::new(bound, &options.host_names, options.token.as_deref(), options.tls.as_ref())
    }

    /// Returns whether the caller may make any request, and not only this one. Errors when it may not make this one.
    pub(super) fn check<B>(&self, request: &Request<B>, caller: Option<&Caller>) -> Result<bool, Refusal> {
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
        if caller.is_some_and(Caller::has_certificate) {
            return Ok(true);
        }
        if matches!(request.uri().path(), "/live" | "/ready" | "/login" | "/logout") {
            return Ok(self.token.is_none() && !self.certificates);
        }
        match &self.token {
            Some(_) if self.has_session(request.headers()) => Ok(true),
            Some(token) => {
                let given = single(request.headers(), AUTHORIZATION)?.and_then(|given| presented(given.as_bytes()));
                let is_right = is_same(token.as_bytes(), &given.unwrap_or_default());
                let refusal =
                    || Refusal::new(StatusCode::UNAUTHORIZED, "Authorization", "expected Bearer and the token");
                is_right.then_some(true).ok_or_else(refusal)
            }
            // Without a token, a Unix socket serves its own user alone.
            None if self.certificates && !caller.is_some_and(|caller| caller.peer().is_own()) => Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "certificate",
                "got none, expected one of a known authority",
            )),
            None => Ok(true),
        }
    }

    /// Whether a request comes from a page of this port in a browser that has logged in. Pages of other ports of the same
    /// host count as the same site, so their requests arrive with the cookie; browsers tell them apart in `Sec-Fetch-Site`.
    pub(super) fn has_session(&self, headers: &HeaderMap) -> bool {
        let from = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        let own = matches!(from, None | Some(b"same-origin" | b"none"));
        own && self.session_of(headers).is_some_and(|(sessions, text)| sessions.is_open(text, unix_time() as u64))
    }

    /// Returns the header that sets the cookie of a new session; `None` if this is not the token.
    pub(super) fn begin_session(&self, given: &str) -> Option<String> {
        let token = self.token.as_ref()?;
        let is_right = is_same(token.as_bytes(), given.as_bytes());
        let sessions = self.sessions.as_ref().filter(|_| is_right)?;
        Some(self.cookie(&sessions.begin(unix_time() as u64), LASTS.as_secs()))
    }

    /// Returns the header that deletes the cookie, which ends the session.
    pub(super) fn end_session(&self) -> String {
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

    /// Whether a token is set.
    pub(super) fn wants_token(&self) -> bool {
        self.token.is_some()
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

#[cfg(test)]
mod tests {
    use super::*;

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
