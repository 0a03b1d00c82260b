//! Peers: Unix sockets, TLS, client certificates, tokens, and floods.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
#[cfg(target_os = "linux")]
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::certificates::Authority;
use crate::common::{Done, PATIENCE, Sidecar, conceptwatch, program, text};
use conceptwatch::server::client::{Client, ClientError};
use conceptwatch::server::peers::{Dialer, Protocol, Trust, raise_file_limit};
use conceptwatch::server::proto::ListRunsRequest;
use tonic::Request;

fn trusting(authority: &Authority) -> Trust {
    Trust { ca_file: Some(authority.file.clone()), identity: None }
}

/// The runs that a sidecar lists over gRPC.
async fn runs(address: &str, trust: &Trust) -> Result<usize, ClientError> {
    let dialer = Dialer::new(address.parse().unwrap(), trust, Protocol::Http2).unwrap();
    Ok(Client::connect(&dialer, None).await?.runs().await?.len())
}

/// What a command that asks over HTTP ends with.
fn diagnose(address: &str, arguments: &[&str]) -> Done {
    conceptwatch(&[&["diagnose", "absent", "--address", address], arguments].concat())
}

/// Whether the sidecar answered the command: there is no such run.
fn answered(done: &Done) -> bool {
    done.status == Some(2) && done.err.contains("'absent' is unknown")
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ports_can_be_unix_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let (grpc, http) = (directory.path().join("run/grpc.sock"), directory.path().join("run/http.sock"));
    let addresses = [&grpc, &http].map(|path| format!("unix://{}", text(path)));
    let arguments = ["--grpc-address", &addresses[0], "--http-address", &addresses[1]];
    let sidecar = Sidecar::start(&arguments);
    assert_eq!(sidecar.addresses, addresses);
    assert_eq!(runs(&addresses[0], &Trust::default()).await.unwrap(), 0);
    assert!(answered(&diagnose(&addresses[1], &[])));
    let second = conceptwatch(&[&["serve"], &arguments[..]].concat());
    assert!(second.status == Some(1) && second.err.contains("in use"), "{second:?}");
    sidecar.stop().await;
    assert!(!grpc.exists() && !http.exists());
    // What a killed sidecar leaves is replaced.
    Sidecar::start(&arguments).kill();
    assert!(grpc.exists());
    let _again = Sidecar::start(&arguments);
    assert_eq!(runs(&addresses[0], &Trust::default()).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ports_speak_tls_and_clients_need_the_authority() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (own, foreign) = (Authority::new(at, "own"), Authority::new(at, "foreign"));
    let [cert, key] = own.issue(at, "server", 2099);
    let sidecar = Sidecar::start(&["--tls-cert", text(&cert), "--tls-key", text(&key)]);
    let (grpc, http) = (format!("https://{}", sidecar.grpc), format!("https://{}", sidecar.http));
    assert_eq!(runs(&grpc, &trusting(&own)).await.unwrap(), 0);
    let refused = runs(&grpc, &trusting(&foreign)).await.unwrap_err().to_string();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
    assert!(runs(&sidecar.grpc.to_string(), &Trust::default()).await.is_err());
    assert!(answered(&diagnose(&http, &["--ca-file", text(&own.file)])));
    let refused = diagnose(&http, &["--ca-file", text(&foreign.file)]);
    assert!(refused.status == Some(1) && refused.err.contains("UnknownIssuer"), "{refused:?}");
    assert!(!answered(&diagnose(&sidecar.http.to_string(), &[])));
    // Handshakes that are not completed take no place from those that are.
    let _silent = [crowd(sidecar.grpc, b"\x16", 300), crowd(sidecar.http, b"", 200)];
    assert_eq!(runs(&grpc, &trusting(&own)).await.unwrap(), 0);
    assert!(answered(&diagnose(&http, &["--ca-file", text(&own.file)])));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_lets_in_where_there_is_no_token() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (own, clients) = (Authority::new(at, "own"), Authority::new(at, "clients"));
    let [cert, key] = own.issue(at, "server", 2099);
    let [client_cert, client_key] = clients.issue(at, "client", 2099);
    let [foreign_cert, foreign_key] = own.issue(at, "foreign", 2099);
    let tls = ["--tls-cert", text(&cert), "--tls-key", text(&key), "--client-ca", text(&clients.file)];
    // Reachable from other machines: without the authority of clients it would refuse to start.
    let open = [&tls[..], &["--grpc-address", "0.0.0.0:0"]].concat();
    let sidecar = Sidecar::start(&open);
    let port = sidecar.grpc.port();
    let (grpc, http) = (format!("https://127.0.0.1:{port}"), format!("https://{}", sidecar.http));
    let as_client =
        |cert: &PathBuf, key: &PathBuf| Trust { identity: Some((cert.clone(), key.clone())), ..trusting(&own) };
    assert_eq!(runs(&grpc, &as_client(&client_cert, &client_key)).await.unwrap(), 0);
    assert!(runs(&grpc, &trusting(&own)).await.is_err());
    assert!(runs(&grpc, &as_client(&foreign_cert, &foreign_key)).await.is_err());

    let trusted = ["--ca-file", text(&own.file)];
    let proved = [&trusted[..], &["--cert-file", text(&client_cert), "--key-file", text(&client_key)]].concat();
    assert!(answered(&diagnose(&http, &proved)));
    let refused = diagnose(&http, &trusted);
    assert!(refused.err.contains("certificate: got none"), "{refused:?}");
    drop(sidecar);

    // With a token, either is enough.
    let token = at.join("token");
    crate::common::write_secret(&token, "a-token-of-the-tests");
    let with_token = [&tls[..], &["--token-file", text(&token)]].concat();
    let sidecar = Sidecar::start(&with_token);
    let (grpc, http) = (format!("https://{}", sidecar.grpc), format!("https://{}", sidecar.http));
    assert_eq!(runs(&grpc, &as_client(&client_cert, &client_key)).await.unwrap(), 0);
    assert!(runs(&grpc, &trusting(&own)).await.unwrap_err().to_string().contains("authorization"));
    assert!(answered(&diagnose(&http, &[&trusted[..], &["--token-file", text(&token)]].concat())));
    assert!(answered(&diagnose(&http, &proved)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_changes_is_read_again_without_dropping_connections() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let (old, new) = (Authority::new(at, "old"), Authority::new(at, "new"));
    let [cert, key] = old.issue(at, "server", 2098);
    let sidecar = Sidecar::start(&["--tls-cert", text(&cert), "--tls-key", text(&key)]);
    let grpc = format!("https://{}", sidecar.grpc);
    let dialer = Dialer::new(grpc.parse().unwrap(), &trusting(&old), Protocol::Http2).unwrap();
    let mut early = Client::connect(&dialer, None).await.unwrap();
    assert_eq!(early.runs().await.unwrap().len(), 0);
    // A file that is no certificate changes nothing.
    let before = std::fs::read(&cert).unwrap();
    std::fs::write(&cert, "no certificate").unwrap();
    let logged = |part: &str| sidecar.logged().contains(part);
    crate::common::until("the fault is logged", || logged("the certificate stays as it was")).await;
    assert_eq!(runs(&grpc, &trusting(&old)).await.unwrap(), 0);
    std::fs::write(&cert, before).unwrap();
    new.issue(at, "server", 2099);
    // Neither length nor content changes when others can no longer read it.
    for (mode, fault) in [(0o644, true), (0o600, false)] {
        std::fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        crate::common::until("the fault is logged", || !fault || logged("others can read")).await;
    }
    let deadline = Instant::now() + PATIENCE;
    while runs(&grpc, &trusting(&new)).await.is_err() {
        assert!(Instant::now() < deadline, "the new certificate is not served");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(runs(&grpc, &trusting(&old)).await.is_err());
    assert_eq!(early.runs().await.unwrap().len(), 0);
}

/// What a process of another user gets from a Unix socket; `None`, and a word about it, where this one is not root's.
#[cfg(target_os = "linux")]
fn asked_by_another_user(socket: &Path) -> Option<String> {
    const NOBODY: libc::uid_t = 65_534;
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("NOT TESTED: that a socket refuses other users, because only root can become one");
        return None;
    }
    let socket = socket.to_owned();
    let ask = move || {
        // SAFETY: it takes three numbers. The call itself, unlike that of the C library, changes this thread alone, which
        // ends with this closure.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) }, 0);
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Either fails where the connection has been closed already.
        let _ = stream.write_all(b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    Some(std::thread::spawn(ask).join().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn a_socket_refuses_another_user_unless_there_is_a_token() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let token = directory.path().join("token");
    crate::common::write_secret(&token, "a token of 28 characters, ok".replace(' ', "_").as_str());
    for (number, more) in [&[][..], &["--token-file", text(&token)]].into_iter().enumerate() {
        let socket = directory.path().join(format!("http-{number}.sock"));
        let address = format!("unix://{}", text(&socket));
        let arguments = [&["--http-address", &address], more].concat();
        let _sidecar = Sidecar::start(&arguments);
        // As a mistake would: what decides is who the peer is.
        std::fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
        let Some(answer) = asked_by_another_user(&socket) else { return };
        if more.is_empty() {
            assert_eq!(answer, "", "the connection is closed");
            let mut own = UnixStream::connect(&socket).unwrap();
            own.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
            let mut metrics = String::new();
            own.read_to_string(&mut metrics).unwrap();
            let labels = "port=\"http\",reason=\"other_user\"";
            let (_, body) = metrics.split_once("\r\n\r\n").unwrap();
            assert_eq!(crate::common::metric(body, "conceptwatch_connections_closed_total", labels), 1.0);
        } else {
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
}

#[test]
fn the_port_file_is_this_users_and_follows_no_link() {
    let directory = tempfile::tempdir().unwrap();
    let (ports, victim) = (directory.path().join("ports"), directory.path().join("victim"));
    std::fs::write(&victim, "precious").unwrap();
    std::fs::set_permissions(&victim, Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::symlink(&victim, &ports).unwrap();
    let _sidecar = Sidecar::start(&["--port-file", text(&ports)]);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(std::fs::symlink_metadata(&ports).unwrap().mode() & 0o7777, 0o600);
    let names = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 2, "nothing unfinished stays");
}

/// A name, the certificate, key and authority, and what is said of them.
type Refused<'a> = (&'a str, [Option<&'a Path>; 3], &'a [&'a str]);

#[test]
fn files_of_tls_that_cannot_be_used_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let own = Authority::new(at, "own");
    let [cert, key] = own.issue(at, "server", 2099);
    let [_, other_key] = own.issue(at, "other", 2099);
    let [expired_cert, expired_key] = own.issue(at, "expired", 2020);
    let open_key = at.join("open.key");
    std::fs::copy(&key, &open_key).unwrap();
    std::fs::set_permissions(&open_key, Permissions::from_mode(0o644)).unwrap();
    let empty = at.join("empty");
    crate::common::write_secret(&empty, "");
    let none = at.join("none");
    let cases: [Refused<'_>; 9] = [
        ("no certificate", [None, Some(&key), None], &["tls_cert: is missing"]),
        ("no key", [Some(&cert), None, None], &["tls_key: is missing"]),
        ("an authority alone", [None, None, Some(&own.file)], &["tls_cert: is missing"]),
        ("a certificate that does not exist", [Some(&none), Some(&key), None], &["tls_cert", "none cannot be read"]),
        ("an empty certificate", [Some(&empty), Some(&key), None], &["tls_cert", "empty holds no"]),
        ("a key of another certificate", [Some(&cert), Some(&other_key), None], &["tls_key", "is not the key of"]),
        ("an expired certificate", [Some(&expired_cert), Some(&expired_key), None], &["tls_cert", "has expired"]),
        ("a key that others can read", [Some(&cert), Some(&open_key), None], &["tls_key: others can read", "0644"]),
        ("an empty authority", [Some(&cert), Some(&key), Some(&empty)], &["client_ca", "empty holds no"]),
    ];
    for (name, files, says) in cases {
        let mut command = program();
        command.args(["serve", "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"]);
        for (flag, file) in ["--tls-cert", "--tls-key", "--client-ca"].into_iter().zip(files) {
            file.map(|file| command.args([flag, text(file)]));
        }
        let said = Done::of(&mut command).refused(2);
        assert!(says.iter().all(|part| said.contains(part)), "{name}: {said}");
    }
}

/// Opens this many connections that say no more than `first`, and keeps them.
fn crowd(address: std::net::SocketAddr, first: &[u8], count: usize) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        // Fails where the sidecar has closed it already.
        let _ = stream.write_all(first);
        stream
    };
    (0..count).map(connect).collect()
}

/// The status of a page, on a connection of its own.
fn status(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_silent_sockets_are_not_felt() {
    raise_file_limit();
    for files in [None, Some(256)] {
        let mut command = program();
        if let Some(files) = files {
            let limit = libc::rlimit { rlim_cur: files, rlim_max: files };
            // SAFETY: between fork and exec, setrlimit is allowed; it reads the one structure it is given.
            unsafe {
                command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                });
            }
        }
        let sidecar = Sidecar::start_as(command, &["--connections", "256"]);
        let mut early = sidecar.client().await;
        early.start_run(crate::common::run("early")).await.unwrap();
        let mut held = Vec::new();
        for round in 0..10 {
            held.extend(crowd(sidecar.grpc, if round % 2 == 0 { b"" } else { b"P" }, 100));
            held.extend(crowd(sidecar.http, if round % 2 == 0 { b"G" } else { b"" }, 100));
            for path in ["/live", "/ready", "/metrics", "/api/v1/runs"] {
                assert_eq!(status(sidecar.http, path), "200", "{path} in round {round}");
            }
            let mut late = sidecar.client().await;
            late.start_run(crate::common::run(&format!("late-{round}"))).await.unwrap();
        }
        early.list_runs(ListRunsRequest::default()).await.unwrap();
        let closed = |reason| sidecar.metric("conceptwatch_connections_closed_total", reason);
        assert!(closed("made_room") + closed("silent") >= 500.0);
        // A few may be closing still.
        assert!(sidecar.metric("conceptwatch_connections", "grpc") <= 256.0 + 8.0);
        assert!(sidecar.metric("conceptwatch_connections", "http") <= 128.0 + 8.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_do_not_fill_the_log_and_name_their_peer() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    let mut stream = crate::common::Stream::open(&mut client).await;
    for sequence in 0..2000 {
        let answer = stream.ask(crate::common::chunk("unknown", sequence, 0..1)).await;
        assert_ne!(answer.message, "");
    }
    let log = sidecar.logged();
    let refused: Vec<_> = log.lines().filter(|line| line.contains("a batch was refused")).collect();
    assert!((1..200).contains(&refused.len()) && log.len() < 100_000, "{} lines", refused.len());
    assert!(refused[0].contains("peer=127.0.0.1"), "{}", refused[0]);
    assert_eq!(sidecar.metric("conceptwatch_batches_refused_total", ""), 2000.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_are_counted_and_logged_without_them() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    crate::common::write_secret(&token, "a-token-of-the-tests");
    let sidecar = Sidecar::start(&["--token-file", text(&token)]);
    let mut client = sidecar.client().await;
    for number in 0..3 {
        let mut request = Request::new(ListRunsRequest::default());
        let wrong = format!("Bearer a-wrong-token-of-{number}");
        request.metadata_mut().insert("authorization", wrong.parse().unwrap());
        assert_eq!(client.list_runs(request).await.unwrap_err().code(), tonic::Code::Unauthenticated);
    }
    let log = sidecar.logged();
    assert!(log.contains("a request with a wrong token was refused") && log.contains("peer=127.0.0.1"), "{log}");
    assert!(!log.contains("a-wrong-token") && !log.contains("a-token-of"), "{log}");
    let compare = ["compare", "a", "b", "--address", &sidecar.addresses[1], "--token-file", text(&token)];
    let compared = conceptwatch(&compare);
    assert!(compared.err.contains("unknown"), "{compared:?}");
}
