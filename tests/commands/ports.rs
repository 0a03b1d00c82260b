//! Commands that are given the sidecar's other port.

use crate::common::{Done, Sidecar, program, text};

/// What a command says, which fails.
fn said(home: &std::path::Path, arguments: &[&str]) -> String {
    let mut program = program();
    program.env("XDG_DATA_HOME", home.parent().unwrap()).env_remove("CONCEPTWATCH_DATA_DIR");
    let done = Done::of(program.args(arguments));
    assert_ne!(done.status, Some(0));
    done.err
}

#[test]
fn a_command_with_the_other_port_names_the_one_it_needs() {
    let data = tempfile::tempdir().unwrap();
    let home = data.path().join("conceptwatch");
    let sidecar = Sidecar::start(&["--data-home", text(&home)]);
    let (grpc, http) = (sidecar.grpc.to_string(), sidecar.http.to_string());
    let watch = said(&home, &["watch", "--address", &http]);
    assert_eq!(watch, format!("conceptwatch watch: {http} is the HTTP port; watch needs the gRPC port ({grpc})\n"));
    let list = said(&home, &["diagnose", "run", "--address", &grpc]);
    assert!(list.contains(&format!("{grpc} does not answer in HTTP; give the HTTP port")), "{list}");
}

#[test]
fn an_address_where_nothing_listens_is_no_port_of_a_sidecar() {
    let data = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let watch = said(&data.path().join("conceptwatch"), &["watch", "--address", &free]);
    assert!(watch.contains(&format!("{free} cannot be reached")), "{watch}");
}
