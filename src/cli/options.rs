//! The options of `conceptwatch serve`: flags, environment variables and a TOML file.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use crate::schedule::{Budget, Ticks};
use crate::server::peers::{Endpoint, Remote, Tls, TlsFiles, read_token};
use crate::server::{
    HubOptions, IngestLimits, NotifyOptions, Options, OtlpOptions, SamplingOptions, Streams, Target, UpstreamOptions,
    WebhookFormat, WorkerOptions, projects,
};
use information::{Kind, Settings};
use leakage::alert::{Fields, RuleFault, Rules, default_rules};
use leakage::batch::NonFinite;
use leakage::field_error::{FieldError, in_short};
use leakage::name::check_name;
use leakage::sample::{Sampling, WindowKind};

use super::named::named;

/// Run the sidecar: receive batches, score them and show the curves
///
/// Training jobs send to the gRPC port; people and Prometheus read from the HTTP port. Every option can also be given
/// as an environment variable (CONCEPTWATCH_ and its name in capitals) or as a key of the TOML file of --config, with
/// underscores. The command line overrides the environment, and both override the file.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServeOptions {
    /// TOML file with any of these options, and [[alerts]].
    #[arg(long, env = "CONCEPTWATCH_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// Address for training jobs (gRPC): IP:PORT, where port 0 takes a free one, or unix:///path of a socket
    /// [default: 127.0.0.1:7800]
    #[arg(long, env = "CONCEPTWATCH_GRPC_ADDRESS", value_name = "ADDRESS")]
    pub grpc_address: Option<Endpoint>,
    /// Address of the page, /metrics and the API, in the same forms [default: 127.0.0.1:7801]
    #[arg(long, env = "CONCEPTWATCH_HTTP_ADDRESS", value_name = "ADDRESS")]
    pub http_address: Option<Endpoint>,
    /// Further host names of the page, besides its address and localhost.
    #[arg(long, env = "CONCEPTWATCH_HOST_NAMES", value_delimiter = ',', value_name = "NAME,NAME")]
    host_names: Option<Vec<String>>,
    /// File with the bearer token that both ports require. On any address that other machines can reach, this or
    /// --client-ca is mandatory.
    #[arg(long, env = "CONCEPTWATCH_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// PEM file with the certificate of both ports, and those between it and its authority: they then speak TLS. Read
    /// again when it changes, as are the next two.
    #[arg(long, env = "CONCEPTWATCH_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the certificate's private key.
    #[arg(long, env = "CONCEPTWATCH_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// PEM file with the authorities of client certificates. Clients then need one, or the token where there is one.
    #[arg(long, env = "CONCEPTWATCH_CLIENT_CA", value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Accept token and key files that others can read, as those mounted into a container.
    #[arg(long, env = "CONCEPTWATCH_SHARED_SECRETS", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    shared_secrets: Option<bool>,
    /// Directory of the curves, created if absent; without it curves are in memory and end with the process.
    #[arg(long, env = "CONCEPTWATCH_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Run as a hub: show the runs that sidecars push here, from this PostgreSQL database, as
    /// postgres://USER@HOST:PORT/DATABASE. The password comes from PGPASSFILE, ~/.pgpass or PGPASSWORD.
    #[arg(long, env = "CONCEPTWATCH_STORE", value_name = "URL", conflicts_with = "data_dir")]
    pub store: Option<String>,
    /// For a hub: TOML file with a table [projects] of names and token files. Jobs can change a run with the
    /// token of its project alone. That of --token-file is for the page and the project
    /// "default"; it or --client-ca is required then, unless the page is at a Unix socket.
    #[arg(long, env = "CONCEPTWATCH_PROJECTS", value_name = "FILE")]
    projects: Option<PathBuf>,
    /// For a hub: days after which a run of which nothing was heard is removed [default: never]
    #[arg(long, env = "CONCEPTWATCH_HISTORY_DAYS", value_name = "DAYS")]
    history_days: Option<u32>,
    /// Without a data directory: keep the curves in the first directory below this one that no other sidecar uses, or in
    /// memory where that cannot be written. Jobs that start a sidecar set it.
    #[arg(long, env = "CONCEPTWATCH_DATA_HOME", value_name = "DIR")]
    #[serde(skip)]
    data_home: Option<PathBuf>,
    /// MiB for curves, in memory or on disk; the oldest matrices are deleted first [default: 64, on disk 1024]
    #[arg(long, env = "CONCEPTWATCH_HISTORY_MIB", value_name = "MIB")]
    history_mib: Option<u32>,
    /// Rows in a sample, N [default: 4096]
    #[arg(long, env = "CONCEPTWATCH_SAMPLE_ROWS", value_name = "ROWS")]
    sample_rows: Option<u32>,
    /// Seed of sampling and of the estimators' noise [default: 0]
    #[arg(long, env = "CONCEPTWATCH_SEED", value_name = "SEED")]
    seed: Option<u64>,
    /// Window of each split: pass, recent or all [default: train=recent, every other pass]
    #[arg(long, env = "CONCEPTWATCH_WINDOWS", value_delimiter = ',', value_parser = split_window, value_name = "SPLIT=WINDOW,…")]
    #[serde(skip)]
    window: Option<Vec<(String, WindowKind)>>,
    /// [`Self::window`] as it stands in the file.
    #[arg(skip)]
    windows: Option<BTreeMap<String, WindowKind>>,
    /// Steps after which the weight of a row halves, in recent windows [default: 500]
    #[arg(long, env = "CONCEPTWATCH_HALF_LIFE_STEPS", value_name = "STEPS")]
    half_life_steps: Option<f64>,
    /// Seconds from the first rank's end of a pass until it closes without the others [default: 120]
    #[arg(long, env = "CONCEPTWATCH_PASS_DEADLINE", value_name = "SECONDS")]
    pass_deadline: Option<f64>,
    /// Seconds without a batch after which a pass that no rank has ended closes [default: 1800]
    #[arg(long, env = "CONCEPTWATCH_IDLE_DEADLINE", value_name = "SECONDS")]
    idle_deadline: Option<f64>,
    /// Open passes per split; memory is the bound that matters [default: 1024]
    #[arg(long, env = "CONCEPTWATCH_OPEN_PASSES", value_name = "PASSES")]
    open_passes: Option<u16>,
    /// Seconds between two scorings of a rolling window [default: 15]
    #[arg(long, env = "CONCEPTWATCH_INTERVAL", value_name = "SECONDS")]
    interval: Option<f64>,
    /// Share of a rolling window's rows that must have changed to score it again [default: 0.1]
    #[arg(long, env = "CONCEPTWATCH_LEAST_CHANGED", value_name = "SHARE")]
    least_changed: Option<f64>,
    /// tie_aware, or published for parity with papers [default: tie_aware]
    #[arg(long, env = "CONCEPTWATCH_ESTIMATOR", value_parser = Kind::ALL.map(Kind::name), value_name = "NAME")]
    estimator: Option<String>,
    /// Neighbours of the estimators [default: 3]
    #[arg(long, env = "CONCEPTWATCH_NEIGHBOURS", value_name = "K")]
    neighbours: Option<u16>,
    /// Threads of the first points of passes, and as many each of fast and of slow scores; no score depends on it [default: 1]
    #[arg(long, env = "CONCEPTWATCH_THREADS", value_name = "THREADS")]
    threads: Option<u16>,
    /// CPU-seconds per second that scoring may take on average [default: 0.5]
    #[arg(long, env = "CONCEPTWATCH_CPU_SHARE", value_name = "SHARE")]
    pub cpu_share: Option<f64>,
    /// The CPU share while other work keeps every core busy [default: 0.03]
    #[arg(long, env = "CONCEPTWATCH_BUSY_CPU_SHARE", value_name = "SHARE")]
    pub busy_cpu_share: Option<f64>,
    /// Niceness of the scoring threads, 0 to 19, of first points at most 12. 19 on Linux: they use only idle cores
    /// [default: 19]
    #[arg(long, env = "CONCEPTWATCH_NICENESS", value_name = "NICENESS")]
    pub niceness: Option<u8>,
    /// MiB of batches in flight [default: 256]
    #[arg(long, env = "CONCEPTWATCH_INGEST_MIB", value_name = "MIB")]
    ingest_mib: Option<u32>,
    /// MiB for all samples together [default: 512]
    #[arg(long, env = "CONCEPTWATCH_SAMPLE_MIB", value_name = "MIB")]
    sample_mib: Option<u32>,
    /// MiB that scoring may take, half of it for slow scores; scores that need more are undefined [default: 2048]
    #[arg(long, env = "CONCEPTWATCH_SCORING_MEMORY_MIB", value_name = "MIB")]
    scoring_memory_mib: Option<u32>,
    /// Simultaneous gRPC connections [default: 1280]
    #[arg(long, env = "CONCEPTWATCH_CONNECTIONS", value_name = "CONNECTIONS")]
    connections: Option<u16>,
    /// On rows with a NaN or an infinity: reject the batch, or drop_row [default: reject]
    #[arg(long, env = "CONCEPTWATCH_NON_FINITE", value_parser = named::<NonFinite>, value_name = "POLICY")]
    non_finite: Option<NonFinite>,
    /// Seconds that the series of a finished run stay in /metrics, and that a sidecar which a job has started goes on after
    /// the last job, to score what waits [default: 900]
    #[arg(long, env = "CONCEPTWATCH_LINGER", value_name = "SECONDS")]
    linger: Option<f64>,
    /// Seconds without a message after which an unfinished run is removed from memory; it can be resumed [default: 3600]
    #[arg(long, env = "CONCEPTWATCH_FORGET_AFTER", value_name = "SECONDS")]
    forget_after: Option<f64>,
    /// Log lines as JSON objects.
    #[arg(long, env = "CONCEPTWATCH_LOG_JSON", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub(super) log_json: Option<bool>,
    /// Log level: error, warn, info, debug or trace, also per module, such as warn,conceptwatch=debug [default: info]
    #[arg(long, env = "CONCEPTWATCH_LOG", value_name = "LEVEL")]
    pub(super) log: Option<String>,
    /// File to write "GRPC_ADDRESS HTTP_ADDRESS" to once both ports are open, for use with port 0.
    #[arg(long, env = "CONCEPTWATCH_PORT_FILE", value_name = "FILE")]
    pub(super) port_file: Option<PathBuf>,
    /// Stop when standard input closes, as when the starting process ends.
    #[arg(long, env = "CONCEPTWATCH_EXIT_WITH_STDIN", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub(super) exit_with_stdin: Option<bool>,
    /// Stop once standard input has closed and no job has a run here, as a sidecar that one job starts for all.
    #[arg(long, env = "CONCEPTWATCH_EXIT_UNUSED", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    #[serde(skip)]
    pub(super) exit_unused: Option<bool>,
    /// Address to post each alert to, as JSON, when it starts and when it ends, such as http://host/path
    #[arg(long, env = "CONCEPTWATCH_WEBHOOK", value_name = "URL")]
    webhook: Option<String>,
    /// Form of these messages: json, slack, discord or teams [default: json]
    #[arg(long, env = "CONCEPTWATCH_WEBHOOK_FORMAT", value_parser = named::<WebhookFormat>, value_name = "FORMAT")]
    webhook_format: Option<WebhookFormat>,
    /// Address of an Alertmanager, such as http://127.0.0.1:9093
    #[arg(long, env = "CONCEPTWATCH_ALERTMANAGER", value_name = "URL")]
    alertmanager: Option<String>,
    /// Seconds between two notifications of a firing alert to Alertmanager [default: 60]
    #[arg(long, env = "CONCEPTWATCH_ALERTMANAGER_RESEND", value_name = "SECONDS")]
    alertmanager_resend: Option<f64>,
    /// Address of an OTLP collector to which all metrics are pushed by gRPC, such as http://127.0.0.1:4317 or
    /// https://HOST:PORT.
    #[arg(long, env = "CONCEPTWATCH_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Seconds between two pushes, at least 1 [default: 15]
    #[arg(long, env = "CONCEPTWATCH_OTLP_INTERVAL", value_name = "SECONDS")]
    otlp_interval: Option<f64>,
    /// Addresses of hubs to which every run declared from now on is sent: HOST:PORT, http://HOST:PORT, https://HOST:PORT or
    /// unix:///path; any hub of one database, tried in turn. Unsent changes wait in the history.
    #[arg(long, env = "CONCEPTWATCH_UPSTREAM", value_delimiter = ',', value_name = "ADDRESS,ADDRESS")]
    upstream: Option<Vec<String>>,
    /// File with the token of the hubs, read again for each connection.
    #[arg(long, env = "CONCEPTWATCH_UPSTREAM_TOKEN_FILE", value_name = "FILE")]
    upstream_token_file: Option<PathBuf>,
    /// PEM file with the authorities of https hubs' certificates [default: those of the system]
    #[arg(long, env = "CONCEPTWATCH_UPSTREAM_CA", value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
    /// Alert rules, in the file only. Without the key the default rules apply; `alerts = []` is none.
    #[arg(skip)]
    alerts: Option<Vec<Fields>>,
}

/// Addresses of the gRPC and the HTTP port, unless others are chosen.
pub const DEFAULT_ADDRESSES: [SocketAddr; 2] = [
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7800)),
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7801)),
];

/// Where the page is unless a command is told: a sidecar that this environment starts has it there.
pub fn usual_page() -> Remote {
    let stated = std::env::var("CONCEPTWATCH_HTTP_ADDRESS").ok().and_then(|stated| stated.parse::<Endpoint>().ok());
    Remote::from(&stated.unwrap_or(Endpoint::Tcp(DEFAULT_ADDRESSES[1])))
}

fn split_window(text: &str) -> Result<(String, WindowKind), String> {
    let (split, window) = text.rsplit_once('=').ok_or("expected SPLIT=WINDOW, such as val=pass")?;
    Ok((split.to_owned(), named(window)?))
}

impl ServeOptions {
    /// The options of a file, and nothing else.
    pub fn of_file(config: Option<PathBuf>) -> Result<Self, FieldError> {
        Self { config, ..Self::default() }.with_file()
    }

    /// Adds the file's options where the command line and the environment have none.
    pub fn with_file(self) -> Result<Self, FieldError> {
        let Some(path) = &self.config else { return Ok(self) };
        let field = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| FieldError::new(field.as_str(), format!("cannot be read: {error}")))?;
        let file: Self = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            FieldError::new(format!("{field} line {line}"), error.message().to_owned())
        })?;
        let rules = file.alerts.clone().unwrap_or_default();
        Rules::read(rules).map_err(|fault| FieldError {
            field: format!("{field} line {}: {}", line_of(&text, &fault), FieldError::from(fault.clone()).field),
            message: fault.message,
        })?;
        macro_rules! either {
            ($($key:ident),*) => { Self { $($key: self.$key.or(file.$key)),* } };
        }
        // In braces, where it stays in lines.
        Ok(either! {
            config, grpc_address, http_address, host_names, token_file, tls_cert, tls_key, client_ca, shared_secrets,
            data_dir, store, projects, history_days, data_home, history_mib, sample_rows, seed, window, windows,
            half_life_steps, pass_deadline, idle_deadline, open_passes, interval, least_changed, estimator,
            neighbours, threads, cpu_share, busy_cpu_share, niceness, ingest_mib, sample_mib, scoring_memory_mib,
            connections, non_finite, linger, forget_after, log_json, log, port_file, exit_with_stdin, exit_unused,
            webhook, webhook_format, alertmanager, alertmanager_resend, otlp_endpoint, otlp_interval, upstream,
            upstream_token_file, upstream_ca, alerts
        })
    }

    fn notify(&self) -> Result<NotifyOptions, FieldError> {
        let target = |field: &str, address: &Option<String>| {
            address.as_deref().map(|address| Target::parse(field, address)).transpose()
        };
        Ok(NotifyOptions {
            webhook: target("webhook", &self.webhook)?,
            webhook_format: self.webhook_format.unwrap_or_default(),
            alertmanager: target("alertmanager", &self.alertmanager)?,
            resend: seconds("alertmanager_resend", self.alertmanager_resend, 60.0)?.max(Duration::from_secs(1)),
            ..NotifyOptions::default()
        })
    }

    fn token(&self) -> Result<Option<String>, FieldError> {
        let read = |path| read_token("token_file", path, self.shares_secrets());
        self.token_file.as_deref().map(read).transpose()
    }

    /// `None` without a collector.
    fn otlp(&self) -> Result<Option<OtlpOptions>, FieldError> {
        let Some(endpoint) = &self.otlp_endpoint else {
            let alone = [("otlp_interval", self.otlp_interval.is_some())];
            return refuse_any(&alone, "got one without otlp_endpoint, expected both").map(|()| None);
        };
        let endpoint = endpoint.parse().map_err(|message| FieldError::new("otlp_endpoint", message))?;
        let interval = within("otlp_interval", self.otlp_interval.unwrap_or(15.0), 1.0, 86_400.0)?;
        let options = OtlpOptions { endpoint, interval: Duration::from_secs_f64(interval) };
        options.check()?;
        Ok(Some(options))
    }

    /// `None` without a hub.
    fn upstream(&self) -> Result<Option<UpstreamOptions>, FieldError> {
        let Some(addresses) = self.upstream.as_ref().filter(|addresses| !addresses.is_empty()) else {
            let (token_file, ca) = (self.upstream_token_file.is_some(), self.upstream_ca.is_some());
            let alone = [("upstream_token_file", token_file), ("upstream_ca", ca)];
            return refuse_any(&alone, "got one without upstream, expected the hub's address beside it").map(|()| None);
        };
        let (token_file, ca_file) = (self.upstream_token_file.clone(), self.upstream_ca.clone());
        upstream(addresses, token_file, ca_file, self.shares_secrets()).map(Some)
    }

    /// Threads that score, in both pools; not checked.
    pub fn scoring_threads(&self) -> usize {
        2 * usize::from(self.threads.unwrap_or(1))
    }

    /// Addresses of the gRPC and the HTTP port.
    pub fn addresses(&self) -> (Endpoint, Endpoint) {
        let or_default =
            |chosen: &Option<Endpoint>, port: usize| chosen.clone().unwrap_or(Endpoint::Tcp(DEFAULT_ADDRESSES[port]));
        (or_default(&self.grpc_address, 0), or_default(&self.http_address, 1))
    }

    fn shares_secrets(&self) -> bool {
        self.shared_secrets.unwrap_or(false)
    }

    /// The files of TLS; `None` without a certificate.
    fn tls(&self) -> Result<Option<Tls>, FieldError> {
        match (&self.tls_cert, &self.tls_key, &self.client_ca) {
            (None, None, None) => Ok(None),
            (Some(cert), Some(key), client_ca) => {
                let (cert, key, client_ca) = (cert.clone(), key.clone(), client_ca.clone());
                Tls::load(TlsFiles { cert, key, client_ca, shared: self.shares_secrets() }).map(Some)
            }
            (None, ..) => Err(FieldError::new("tls_cert", "is missing, expected it beside tls_key and client_ca")),
            (_, None, _) => Err(FieldError::new("tls_key", "is missing, expected it beside tls_cert")),
        }
    }

    /// Returns the further options of a hub; `None` for a sidecar.
    pub fn hub(&self) -> Result<Option<HubOptions>, FieldError> {
        let Some(store) = self.store.clone() else {
            let of_hubs = [("projects", self.projects.is_some()), ("history_days", self.history_days.is_some())];
            return refuse_any(&of_hubs, "is an option of a hub, expected store as well").map(|()| None);
        };
        let of_sidecars = [
            ("alerts", self.alerts.is_some()),
            ("webhook", self.webhook.is_some()),
            ("alertmanager", self.alertmanager.is_some()),
        ];
        refuse_any(&of_sidecars, "is an option of sidecars, which judge and notify: a hub does neither")?;
        let of_store = |given| [("store", given)];
        refuse_any(&of_store(self.data_dir.is_some()), "cannot be combined with data_dir, expected one of them")?;
        let with_upstream =
            "cannot be combined with upstream, expected one of them: a hub does not push to another hub";
        refuse_any(&of_store(self.upstream.is_some()), with_upstream)?;
        let of_file = self.projects.as_deref().map(projects).transpose()?.unwrap_or_default();
        let read =
            |(name, path): (String, PathBuf)| Ok((name, read_token("token_file", &path, self.shares_secrets())?));
        let projects = of_file.into_iter().map(read).collect::<Result<Vec<_>, FieldError>>()?;
        let of_others = self.token()?;
        let mut seen: Vec<&str> = of_others.as_deref().into_iter().collect();
        for (name, token) in &projects {
            if seen.contains(&token.as_str()) {
                return Err(FieldError::new(
                    "projects",
                    format!("'{name}' has the token of another, expected one of its own"),
                ));
            }
            seen.push(token);
        }
        // A Unix socket serves its own user alone.
        let is_open = matches!(self.addresses().1, Endpoint::Tcp(_)) && of_others.is_none() && self.client_ca.is_none();
        if !projects.is_empty() && is_open {
            let message = "got it without a token for the page, where anybody could then change the runs of every project: \
                           expected --token-file or --client-ca as well, or a Unix socket as --http-address";
            return Err(FieldError::new("projects", message));
        }
        let days = self.history_days.map(|days| within("history_days", days, 1, 36_500)).transpose()?;
        let age = days.map(|days| Duration::from_secs(u64::from(days) * 86_400));
        Ok(Some(HubOptions { store, projects, age }))
    }

    /// The server's options, checked.
    pub fn server(&self) -> Result<Options, FieldError> {
        let mut windows = self.windows.clone().unwrap_or_default();
        windows.extend(self.window.clone().unwrap_or_default());
        for split in windows.keys() {
            check_name("windows", split)?;
        }
        let seed = self.seed.unwrap_or(0);
        let sample_rows = within("sample_rows", self.sample_rows.unwrap_or(4096), 8, 1 << 20)?;
        let sampling = SamplingOptions {
            sampling: Sampling { rows: sample_rows as usize, seed },
            windows,
            half_life_steps: self.half_life_steps.unwrap_or(500.0),
            pass_deadline: seconds("pass_deadline", self.pass_deadline, 120.0)?,
            idle_deadline: seconds("idle_deadline", self.idle_deadline, 1800.0)?,
            open_passes: usize::from(within("open_passes", self.open_passes.unwrap_or(1024), 1, 65_535)?),
            memory: mebibytes("sample_mib", self.sample_mib, 512)?,
            linger: seconds("linger", self.linger, 900.0)?,
            forget_after: seconds("forget_after", self.forget_after, 3600.0)?,
        };
        let kind = self.estimator.as_deref().map_or(Ok(Kind::TieAware), |name| {
            name.parse().map_err(|why| FieldError::new("estimator", format!("got '{}', {why}", in_short(name))))
        })?;
        let neighbours = usize::from(within("neighbours", self.neighbours.unwrap_or(3), 1, 1000)?);
        let history = if self.data_dir.is_some() || self.data_home.is_some() { 1024 } else { 64 };
        Ok(Options {
            sampling,
            worker: WorkerOptions {
                settings: Settings { kind, neighbours, seed, ..Settings::default() },
                threads: usize::from(within("threads", self.threads.unwrap_or(1), 1, 256)?),
                niceness: i32::from(within("niceness", self.niceness.unwrap_or(19), 0, 19)?),
                memory: mebibytes("scoring_memory_mib", self.scoring_memory_mib, 2048)?,
            },
            ticks: Ticks {
                interval: seconds("interval", self.interval, 15.0)?,
                least_changed: within("least_changed", self.least_changed.unwrap_or(0.1), 0.0, 1.0)?,
            },
            cpu: Budget {
                cpu_share: within("cpu_share", self.cpu_share.unwrap_or(0.5), 0.001, 256.0)?,
                busy_cpu_share: within("busy_cpu_share", self.busy_cpu_share.unwrap_or(0.03), 0.001, 256.0)?,
                ..Budget::default()
            },
            ingest: IngestLimits {
                chunk_bytes: 4 << 20,
                batch_bytes: 64 << 20,
                non_finite: self.non_finite.unwrap_or_default(),
            },
            ingest_bytes: mebibytes("ingest_mib", self.ingest_mib, 256)?,
            connections: usize::from(within("connections", self.connections.unwrap_or(1280), 1, 10_000)?),
            http_connections: 128,
            data_dir: self.data_dir.clone(),
            data_home: self.data_home.clone(),
            history_bytes: mebibytes("history_mib", self.history_mib, history)? as u64,
            alerts: self.alerts.clone().map_or_else(|| Ok(default_rules()), Rules::read)?,
            notify: self.notify()?,
            otlp: self.otlp()?,
            upstream: self.upstream()?,
            token: self.token()?,
            tls: self.tls()?,
            host_names: self.host_names.clone().unwrap_or_default(),
            ends_unused: self.exit_unused.unwrap_or(false),
            streams: Streams::default(),
        })
    }
}

/// The hubs at these addresses. Faults name the options of [`ServeOptions`].
pub(super) fn upstream(
    addresses: &[String],
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    shared_secrets: bool,
) -> Result<UpstreamOptions, FieldError> {
    let remote = |text: &String| text.parse::<Remote>().map_err(|message| FieldError::new("upstream", message));
    let addresses = addresses.iter().map(remote).collect::<Result<_, _>>()?;
    let options = UpstreamOptions { addresses, token_file, shared_secrets, ca_file };
    options.check()?;
    Ok(options)
}

/// Errors where one of these options is given; the fault names it.
fn refuse_any(options: &[(&str, bool)], why: &str) -> Result<(), FieldError> {
    let given = options.iter().find(|(_, given)| *given);
    given.map_or(Ok(()), |(field, _)| Err(FieldError::new(*field, why)))
}

/// The line of a rule's key in a file that parses; of the rule where the key is missing.
fn line_of(text: &str, fault: &RuleFault) -> usize {
    let place = || {
        let file = toml::de::DeTable::parse(text).ok()?;
        let rule = file.get_ref().get("alerts")?.get_ref().as_array()?.get(fault.at)?;
        let key = rule.get_ref().as_table()?.iter().find(|(key, _)| *key.get_ref() == fault.key);
        Some(key.map_or(rule.span().start, |(key, _)| key.span().start))
    };
    place().map_or(1, |at: usize| text[..at].matches('\n').count() + 1)
}

fn within<T: PartialOrd + std::fmt::Display>(field: &str, value: T, least: T, most: T) -> Result<T, FieldError> {
    if value >= least && value <= most {
        Ok(value)
    } else {
        Err(FieldError::new(field, format!("got {value}, expected {least} to {most}")))
    }
}

/// At most a year; more is taken for a mistake.
fn seconds(field: &str, value: Option<f64>, default: f64) -> Result<Duration, FieldError> {
    within(field, value.unwrap_or(default), 0.0, 31_536_000.0).map(Duration::from_secs_f64)
}

fn mebibytes(field: &str, value: Option<u32>, default: u32) -> Result<usize, FieldError> {
    within(field, value.unwrap_or(default), 8, 1 << 20).map(|mebibytes| (mebibytes as usize) << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_file_states_the_defaults() {
        let text = include_str!("../../deploy/conceptwatch.toml");
        let file: ServeOptions = toml::from_str(text).unwrap();
        let defaults = ServeOptions::default();
        assert_eq!(format!("{:?}", file.server().unwrap()), format!("{:?}", defaults.server().unwrap()));
        assert_eq!(file.addresses(), defaults.addresses());
    }

    #[test]
    fn every_key_of_the_file_stands_in_the_example() {
        let text = include_str!("../../deploy/conceptwatch.toml");
        // The error for an unknown key lists the known ones; some are for the command line only.
        let message = toml::from_str::<ServeOptions>("nonsense = 1").unwrap_err().message().to_owned();
        let known = message.split('`').skip(3).step_by(2).filter(|key| !["port_file", "exit_with_stdin"].contains(key));
        let mut count = 0;
        for key in known {
            let stands = |line: &str| {
                line.trim_start_matches("# ").starts_with(&format!("{key} =")) || line.contains(&format!("[[{key}]]"))
            };
            assert!(text.lines().any(stands), "{key}");
            count += 1;
        }
        assert!(count > 20, "{message}");
    }
}
