//! `conceptwatch demo` beside a sidecar that uses its default ports.

mod common;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use common::conceptwatch;

/// Holds a port until dropped. If another process holds the port permanently, it counts as taken; if only briefly, as
/// another test may, this waits for it.
fn occupy(port: u16) -> Option<TcpListener> {
    let deadline = Instant::now() + Duration::from_secs(3);
    loop {
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => return Some(listener),
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
            Err(_) => return None,
        }
    }
}

#[test]
fn uses_and_names_free_ports_where_its_default_ports_are_taken() {
    let held = [7800, 7801].map(occupy);
    let done = conceptwatch(&["demo", "--epochs", "2"]);
    drop(held);
    let text = done.ok();
    let uses = |port: u16| {
        let line = text.lines().find(|line| line.starts_with(&format!("Port {port} is taken")));
        let line = line.unwrap_or_else(|| panic!("port {port} is not mentioned: {text}"));
        line.trim_end_matches('.').rsplit(' ').next().unwrap().parse::<u16>().unwrap()
    };
    let page = uses(7801);
    assert!(![7800, 7801].contains(&page) && ![7800, 7801, page].contains(&uses(7800)));
    assert!(text.contains(&format!("live at http://127.0.0.1:{page}/")), "{text}");
    assert!(text.contains("2/2"), "it trains: {text}");
}

#[test]
fn a_given_address_is_used_or_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let arguments = ["demo", "--epochs", "1", "--grpc-address", "127.0.0.1:0", "--http-address", &address];
    let error = conceptwatch(&arguments).refused(1);
    assert!(error.contains(&format!("{address} cannot be opened")) && error.contains("--http-address"), "{error}");
}
