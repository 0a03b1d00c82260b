//! Compiles the protocol and lists the page's files; without the `server` feature there is nothing to do.

fn main() {
    #[cfg(feature = "server")]
    server::build();
}

#[cfg(feature = "server")]
mod server {
    use std::path::PathBuf;

    pub fn build() {
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        std::fs::write(out.join("descriptors.bin"), protocol()).expect("OUT_DIR is writable");
        std::fs::write(out.join("page_files.rs"), page_files()).expect("OUT_DIR is writable");
    }

    /// protox is a protobuf compiler in Rust, so no machine needs `protoc`. Returns the descriptors, for tests.
    fn protocol() -> Vec<u8> {
        let file = "proto/conceptwatch/v1/conceptwatch.proto";
        println!("cargo:rerun-if-changed={file}");
        println!("cargo:rerun-if-changed=build.rs");
        let mut compiler = build_protox::Compiler::new(["proto"]).expect("proto/ is part of the package");
        compiler.open_file(file).unwrap_or_else(|e| panic!("{e:?}"));
        build_tonic_prost::configure()
            .bytes(".conceptwatch.v1.Tensor.data")
            .compile_fds(compiler.file_descriptor_set())
            .expect("the descriptors come from the compiler just above");
        compiler.encode_file_descriptor_set()
    }

    /// A Rust list of the files in web/, so that a new one needs no other change.
    fn page_files() -> String {
        println!("cargo:rerun-if-changed=web");
        let web = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("web");
        let entries = std::fs::read_dir(&web).expect("web/ is part of the package");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("web/ can be listed").path()).collect();
        files.sort();
        let rows = files.iter().filter_map(|path| {
            let served = ["html", "js", "css", "svg", "png"].contains(&path.extension()?.to_str()?);
            let name = path.file_name()?.to_str()?;
            served.then(|| format!("    ({name:?}, include_bytes!({:?})),\n", path.to_str().expect("a UTF-8 path")))
        });
        format!("&[\n{}]\n", rows.collect::<String>())
    }
}
