//! The generated message code is that of the protocol. `make protocol` writes it, without the server: that may use already
//! what is new in the protocol. It is a program of its own, because the generator misses its own output beside other tests.

/// Package, its file, and the code.
const PROTOCOLS: [(&str, &str, &str); 2] = [
    ("conceptwatch.v1", "conceptwatch/v1/conceptwatch.proto", "src/server/grpc/generated.rs"),
    ("conceptwatch.hub.v1", "conceptwatch/hub/v1/hub.proto", "src/server/grpc/hub/generated.rs"),
];

fn generated(package: &str, file: &str) -> String {
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let descriptors = protox::compile([file], [proto]).unwrap();
    let out = tempfile::tempdir().unwrap();
    let mut code = tonic_prost_build::configure()
        .out_dir(out.path())
        .codec_path("crate::server::grpc::codec::Codec")
        .bytes(".conceptwatch.v1.Tensor.data")
        .bytes(".conceptwatch.hub.v1");
    if package != "conceptwatch.v1" {
        code = code.extern_path(".conceptwatch.v1", "crate::server::grpc::proto");
    }
    code.compile_fds(descriptors).unwrap();
    std::fs::read_to_string(out.path().join(format!("{package}.rs"))).unwrap()
}

#[test]
fn the_message_code_is_that_of_the_protocol() {
    for (package, file, code) in PROTOCOLS {
        let expected = generated(package, file);
        let path = format!("{}/{code}", env!("CARGO_MANIFEST_DIR"));
        let is_current = || std::fs::read_to_string(&path).is_ok_and(|found| found == expected);
        // A file that is written again, even the same, has the crate built again.
        if std::env::var_os("UPDATE_DOCS").is_some() && !is_current() {
            std::fs::write(&path, &expected).unwrap();
        }
        assert!(is_current(), "{code} is not that of proto/: run `make protocol`");
    }
}
