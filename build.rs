//! Compiles the protocol and packs the page's chart library; without the `server` feature there is nothing to do.

fn main() {
    #[cfg(feature = "server")]
    server::build();
}

#[cfg(feature = "server")]
mod server {
    use std::io::Write as _;
    use std::path::PathBuf;

    pub fn build() {
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        std::fs::write(out.join("descriptors.bin"), protocol()).expect("OUT_DIR is writable");
        std::fs::write(out.join("page_files.rs"), page_files()).expect("OUT_DIR is writable");
        let packed = gzip(chart_library().as_bytes());
        std::fs::write(out.join("plotly.min.js.gz"), packed).expect("OUT_DIR is writable");
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

    /// plotly.js as the `plotly` crate carries it: the first of the scripts it embeds.
    fn chart_library() -> String {
        let scripts = build_plotly::Plot::offline_js_sources();
        let (open, close) = ("<script type=\"text/javascript\">", "</script>\n");
        let first = scripts.strip_prefix(open).and_then(|rest| rest.split(close).next());
        let script = first.filter(|s| s.starts_with("/**\n* plotly.js v"));
        script.expect("the plotly crate embeds plotly.js first").to_owned()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = build_flate2::write::GzEncoder::new(Vec::new(), build_flate2::Compression::best());
        encoder.write_all(bytes).expect("writing to memory does not fail");
        encoder.finish().expect("writing to memory does not fail")
    }
}
