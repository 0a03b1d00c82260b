//! The address of the database, and connections to it.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::{Config, NoTls};

use super::link::{Link, POOLED};
use super::pgpass;
use super::tls::Tls;
use crate::history::error::HistoryError;

/// How long a host may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// A host that acknowledges nothing for this long is gone.
const SILENCE: Duration = Duration::from_secs(20);
/// No statement of ours takes that long, so one that does is stuck. The last setting tells whether the session has them.
const OPTIONS: &str = "-c statement_timeout=60s -c lock_timeout=30s -c idle_in_transaction_session_timeout=60s \
                       -c conceptwatch.session=on";

/// The address of the database.
pub(super) struct Address {
    config: Config,
    /// With TLS: the file of certificates to trust, if not the system's.
    roots: Option<Option<String>>,
    /// The address for people, without options.
    pub shown: String,
}

impl Address {
    pub fn parse(url: &str) -> Result<Self, HistoryError> {
        let wrong = |message: String| HistoryError::invalid("store", message);
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            // The text may be a password in a wrong place, so it is not repeated.
            return Err(wrong(
                "got an address of another kind, expected postgres://USER@HOST:PORT/DATABASE".to_owned(),
            ));
        }
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots, mut kept) = (None, None, form_urlencoded::Serializer::new(String::new()));
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" => roots = Some(value.into_owned()),
                _ => {
                    kept.append_pair(&key, &value);
                }
            }
        }
        // The parser knows percent signs, but no plus signs.
        let query = kept.finish().replace('+', "%20");
        let text = if query.is_empty() { place.to_owned() } else { format!("{place}?{query}") };
        let mut config: Config = text.parse().map_err(|error: postgres::Error| {
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            wrong(format!("got an address that cannot be read ({why}), expected postgres://USER@HOST:PORT/DATABASE"))
        })?;
        if config.get_password().is_some() {
            let message = "got a password in the address, expected it in the file that PGPASSFILE names, in ~/.pgpass or in \
                           PGPASSWORD";
            return Err(wrong(message.to_owned()));
        }
        let away = config.get_hosts().iter().any(|host| !is_here(host));
        let encrypted = match mode.as_deref() {
            None => away,
            Some("verify-full") => true,
            Some("disable") => false,
            Some(other) => {
                return Err(wrong(format!("got sslmode '{other}', expected 'verify-full' or 'disable'")));
            }
        };
        config
            .ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable })
            .connect_timeout(PATIENCE)
            .tcp_user_timeout(SILENCE)
            .keepalives_idle(SILENCE)
            .application_name("conceptwatch");
        let options = config.get_options().map_or_else(|| OPTIONS.to_owned(), |given| format!("{OPTIONS} {given}"));
        config.options(&options);
        let shown = shown(&config);
        Ok(Self { config, roots: encrypted.then_some(roots), shown })
    }
}

/// Whether what is sent to a host stays on this machine.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
        Host::Unix(_) => true,
    }
}

fn shown(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().map_or_else(String::new, |port| format!(":{port}"));
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{host}{port}/{database}")
}

/// Makes connections.
pub(super) struct Connector {
    config: Config,
    tls: Option<Tls>,
}

impl Connector {
    pub fn new(address: &Address) -> Result<Self, HistoryError> {
        let tls = address.roots.as_ref().map(|roots| Tls::new(roots.as_deref())).transpose()?;
        Ok(Self { config: address.config.clone(), tls })
    }

    /// Errors say what the server said.
    pub fn link(&self) -> Result<Link, HistoryError> {
        let mut config = self.config.clone();
        // Read each time, so that a new password needs no restart.
        if let Some(password) = password(&config) {
            config.password(password);
        }
        let client = match &self.tls {
            Some(tls) => config.connect(tls.clone()),
            None => config.connect(NoTls),
        };
        client.map(Link::new).map_err(|error| match HistoryError::from(error) {
            HistoryError::Unreachable { why } if why.contains("unsupported startup parameter") => {
                HistoryError::invalid("store", POOLED)
            }
            // Before there is a connection, this is what either side expects of the other: a password, or TLS.
            HistoryError::Storage(cause) => HistoryError::Denied { why: cause.to_string() },
            error => error,
        })
    }
}

fn password(config: &Config) -> Option<String> {
    if let Some(given) = std::env::var("PGPASSWORD").ok().filter(|given| !given.is_empty()) {
        return Some(given);
    }
    let user = config.get_user().map_or_else(|| std::env::var("USER").unwrap_or_default(), str::to_owned);
    let host = match config.get_hosts().first()? {
        Host::Tcp(name) => name.clone(),
        // As PostgreSQL's programs do for the usual place of the socket.
        Host::Unix(path) if path == Path::new("/var/run/postgresql") || path == Path::new("/tmp") => {
            "localhost".to_owned()
        }
        Host::Unix(path) => path.to_string_lossy().into_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let database = config.get_dbname().unwrap_or(&user);
    pgpass::password(&pgpass::file()?, [&host, &port, database, &user])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        Address::parse(url).err().unwrap().to_string()
    }

    #[test]
    fn other_hosts_get_tls_unless_it_is_disabled() {
        let encrypted = |url: &str| Address::parse(url).unwrap().roots.is_some();
        assert!(encrypted("postgres://hub@db.example/curves"));
        assert!(encrypted("postgres://hub@127.0.0.1,db.example/curves"), "one of two is away");
        assert!(encrypted("postgres://hub@localhost/curves?sslmode=verify-full"));
        assert!(!encrypted("postgres://hub@db.example/curves?sslmode=disable"));
        for here in ["localhost", "127.0.0.1", "[::1]", "%2Frun%2Fpostgresql"] {
            assert!(!encrypted(&format!("postgresql://hub@{here}:5433/curves")), "{here}");
        }
        let roots = Address::parse("postgres://hub@db.example/curves?sslrootcert=/etc/a%20b.pem").unwrap().roots;
        assert_eq!(roots, Some(Some("/etc/a b.pem".to_owned())));
    }

    #[test]
    fn an_address_is_shown_without_its_options() {
        let address =
            Address::parse("postgres://hub@db.example:5433/curves?sslmode=disable&connect_timeout=3").unwrap();
        assert_eq!(address.shown, "postgres://db.example:5433/curves");
    }

    #[test]
    fn what_is_no_address_is_named_without_repeating_it() {
        assert!(refused("postgres://hub:secret@localhost/curves").contains("got a password in the address"));
        assert!(refused("mysql://secret").contains("expected postgres://"));
        assert!(refused("postgres://hub@localhost:x/curves").contains("cannot be read"));
        assert!(refused("postgres://hub@localhost/c?sslmode=require").contains("got sslmode 'require'"));
        for url in ["postgres://hub:secret@localhost/curves", "mysql://secret", "postgres://secret@h:x/curves"] {
            assert!(!refused(url).contains("secret"), "{url}");
        }
    }
}
