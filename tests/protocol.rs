//! The generated message code is that of the protocol. `make protocol` writes it, without the server: that may use already
//! what is new in the protocol.

const CODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/server/grpc/generated.rs");

fn generated() -> String {
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let descriptors = protox::compile(["conceptwatch/v1/conceptwatch.proto"], [proto]).unwrap();
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .out_dir(out.path())
        .bytes(".conceptwatch.v1.Tensor.data")
        .compile_fds(descriptors)
        .unwrap();
    std::fs::read_to_string(out.path().join("conceptwatch.v1.rs")).unwrap()
}

#[test]
fn the_message_code_is_that_of_the_protocol() {
    let expected = generated();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(CODE, &expected).unwrap();
    }
    let found = std::fs::read_to_string(CODE).unwrap_or_default();
    assert!(found == expected, "src/server/grpc/generated.rs is not that of proto/: run `make protocol`");
}
