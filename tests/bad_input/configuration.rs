//! `conceptwatch serve` with invalid options, files and paths: it reports the fault and does not start.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Instant;

use super::Faults;
use crate::common::{Done, PATIENCE, Sidecar, program, text, write_secret};

struct Case {
    name: String,
    status: i32,
    /// Texts on standard error, in its last line unless the flag parser writes it.
    says: Vec<&'static str>,
    arguments: Vec<String>,
    /// The configuration file, when there is one.
    file: Option<String>,
}

fn flags(name: &str, arguments: &str, says: &[&'static str]) -> Case {
    let arguments = arguments.split_whitespace().map(str::to_owned).collect();
    Case { name: format!("serve: {name}"), status: 2, says: says.to_vec(), arguments, file: None }
}

fn file(name: &str, file: &str, says: &[&'static str]) -> Case {
    Case { file: Some(file.to_owned()), ..flags(&format!("configuration: {name}"), "", says) }
}

/// A rule on a score with these further keys, from line 4 on.
fn rule(name: &str, keys: &str, says: &[&'static str]) -> Case {
    let text = format!("[[alerts]]\nname = \"a\"\nscore = \"ctl\"\n{keys}\n");
    file(&format!("a rule {name}"), &text, says)
}

/// A hub, whose database is not asked.
fn hub(name: &str, arguments: &str, says: &[&'static str]) -> Case {
    flags(&format!("a hub {name}"), &format!("--store postgres://u@localhost/d {arguments}"), says)
}

/// The environment of a case, with a separate directory.
const PLACES: [&str; 4] = ["a-file", "short-token", "wide-token", "two-line-token"];

fn cases() -> Vec<Case> {
    let failing = |case: Case| Case { status: 1, ..case };
    vec![
        failing(flags("a data directory that is a file", "--data-dir DIR/a-file", &["data directory", "a-file"])),
        failing(flags("a data directory below a file", "--data-dir DIR/a-file/d", &["data directory", "a-file"])),
        failing(flags("a data directory nobody can make", "--data-dir /proc/data", &["data directory", "/proc/data"])),
        failing(flags("a taken gRPC port", "--grpc-address TAKEN", &["grpc_address", "TAKEN", "in use"])),
        failing(flags("a taken HTTP port", "--http-address TAKEN", &["http_address", "TAKEN", "in use"])),
        failing(flags("a port file in no directory", "--port-file DIR/no/ports", &["port_file", "no/ports"])),
        failing(flags(
            "an address of no interface",
            "--grpc-address 203.0.113.9:0 --token-file DIR/token",
            &["grpc_address"],
        )),
        flags("no token file", "--token-file DIR/none", &["token_file", "cannot be read"]),
        flags(
            "a token that others can read",
            "--token-file DIR/open-token",
            &["token_file: others can read", "open-token", "0644", "0600"],
        ),
        flags("a short token", "--token-file DIR/short-token", &["token_file", "16 or more printable"]),
        flags("a token with an accent", "--token-file DIR/wide-token", &["token_file", "16 or more printable"]),
        flags("a token of two lines", "--token-file DIR/two-line-token", &["token_file", "16 or more printable"]),
        flags("a token file that is a directory", "--token-file DIR", &["token_file", "cannot be read"]),
        flags("all interfaces without a token", "--grpc-address 0.0.0.0:0", &["token_file", "requires"]),
        flags("a page for all without a token", "--http-address [::]:0", &["token_file", "requires"]),
        flags("an address without a port", "--grpc-address 127.0.0.1", &["--grpc-address"]),
        flags("a port beyond 65535", "--http-address 127.0.0.1:70000", &["--http-address"]),
        flags("no sample rows", "--sample-rows 7", &["sample_rows: got 7, expected 8 to 1048576"]),
        flags("too many sample rows", "--sample-rows 4294967295", &["sample_rows: got 4294967295"]),
        flags("a negative number of rows", "--sample-rows=-1", &["--sample-rows"]),
        flags("no half-life", "--half-life-steps 0", &["half_life_steps: got 0 steps"]),
        flags("a NaN half-life", "--half-life-steps NaN", &["half_life_steps: got NaN"]),
        flags("an endless deadline", "--pass-deadline inf", &["pass_deadline: got inf"]),
        flags("a NaN interval", "--interval NaN", &["interval: got NaN"]),
        flags("a negative interval", "--interval=-1", &["interval: got -1"]),
        flags("no open passes", "--open-passes 0", &["open_passes: got 0"]),
        flags("no CPU", "--cpu-share 0", &["cpu_share: got 0"]),
        flags("no CPU beside others", "--busy-cpu-share 0", &["busy_cpu_share: got 0"]),
        flags("a NaN share", "--cpu-share NaN", &["cpu_share: got NaN"]),
        flags("no threads", "--threads 0", &["threads: got 0"]),
        flags("niceness 20", "--niceness 20", &["niceness: got 20, expected 0 to 19"]),
        flags("no neighbours", "--neighbours 0", &["neighbours: got 0"]),
        flags("an unknown estimator", "--estimator exact", &["--estimator"]),
        flags("an unknown window", "--window val=sliding", &["--window", "got 'sliding'"]),
        flags("a window without a split", "--window pass", &["--window", "expected SPLIT=WINDOW"]),
        flags("a window of a split that is no name", "--window va\u{202e}l=pass", &["windows", "expected text"]),
        flags("no ingest memory", "--ingest-mib 0", &["ingest_mib: got 0, expected 8"]),
        flags("no sample memory", "--sample-mib 7", &["sample_mib: got 7, expected 8"]),
        flags("no connections", "--connections 0", &["connections: got 0"]),
        flags("an unknown policy", "--non-finite impute", &["--non-finite", "expected reject or drop_row"]),
        flags("an unknown level", "--log =loud=", &["log: got '=loud='"]),
        flags("an unknown flag", "--colour", &["--colour"]),
        flags("no configuration file", "--config DIR/none.toml", &["none.toml", "cannot be read"]),
        file("broken", "sample_rows = 64\nthreads = = 2\n", &["serve.toml line 2"]),
        file("a string cut off", "seed = 1\n\n\nestimator = \"publ\n", &["serve.toml line 4"]),
        file("an unknown key", "seed = 1\ncolour = true\n", &["serve.toml line 2", "colour"]),
        file("a flag's spelling of a key", "sample-rows = 64\n", &["serve.toml line 1", "sample-rows"]),
        file("a string for a number", "\nthreads = \"two\"\n", &["serve.toml line 2", "two"]),
        file("a key twice", "seed = 1\nseed = 2\n", &["serve.toml line 2"]),
        file("a number too large", "threads = 70000\n", &["serve.toml line 1", "70000"]),
        file("an unknown window", "[windows]\nval = \"sliding\"\n", &["serve.toml line 2", "sliding"]),
        file("an unknown estimator", "estimator = \"exact\"\n", &["estimator: got 'exact'"]),
        file(
            "a rule without a name",
            "[[alerts]]\nname = \"\"\nscore = \"ctl\"\nabove = 1.0\n",
            &["alerts[0] name", "expected 1 to 200"],
        ),
        file(
            "two rules of one name",
            "[[alerts]]\nname = \"a\"\nscore = \"ctl\"\nabove = 1.0\n[[alerts]]\nname = \"a\"\nscore = \"icl\"\nabove = 1.0\n",
            &["serve.toml line 6: alerts 'a' name", "is the name of two rules"],
        ),
        rule("without a limit", "", &["serve.toml line 1: alerts 'a' above"]),
        rule("of two kinds", "above = 0.1\nrise = 0.1", &["line 5: alerts 'a' rise", "contradicts `above`"]),
        rule("of a negative patience", "above = 0.1\npatience = -1", &["serve.toml line 5", "-1"]),
        rule("with a NaN threshold", "above = nan", &["alerts 'a' above", "finite"]),
        rule("on a split that is no name", "above = 0.1\nsplit = \"\"", &["alerts 'a' split", "expected 1 to 200"]),
        rule("with an unknown key", "over = 0.1", &["serve.toml line 4", "over"]),
        flags(
            "a collector of another scheme",
            "--otlp-endpoint ftp://me:s3cret@host:4317",
            &["otlp_endpoint: got 'ftp://…@host:4317', expected HOST:PORT"],
        ),
        flags(
            "a collector with a password",
            "--otlp-endpoint http://me:s3cret@host:4317",
            &["otlp_endpoint: got 'http://…@host:4317', expected HOST:PORT"],
        ),
        flags("a collector without a port", "--otlp-endpoint http://host", &["otlp_endpoint: got 'http://host'"]),
        flags("an interval without a collector", "--otlp-interval 5", &["otlp_interval", "without otlp_endpoint"]),
        flags(
            "pushes without a pause",
            "--otlp-endpoint host:1 --otlp-interval 0",
            &["otlp_interval: got 0, expected 1 to 86400"],
        ),
        flags(
            "a hub of another scheme",
            "--upstream ftp://hub:1",
            &["upstream: got 'ftp://hub:1', expected HOST:PORT"],
        ),
        flags("a hub without a port", "--upstream hub", &["upstream: got 'hub', expected HOST:PORT"]),
        flags(
            "a token for no hub",
            "--upstream-token-file DIR/token",
            &["upstream_token_file: got one without upstream"],
        ),
        flags(
            "a token for a hub that others can read",
            "--upstream hub:1 --upstream-token-file DIR/open-token",
            &["upstream_token_file: others can read"],
        ),
        flags("no authority of a hub", "--upstream https://hub:1 --upstream-ca /nowhere", &["upstream_ca"]),
        hub("with a webhook", "--webhook http://x/y", &["webhook: is an option of sidecars"]),
        hub("without a project", "--projects DIR/empty.toml", &["got no project"]),
        hub("without a token for its page", "--projects DIR/vision.toml", &["got it without a token for the page"]),
        flags(
            "days of a history without a hub",
            "--history-days 7",
            &["history_days: is an option of a hub, expected store as well"],
        ),
        flags(
            "projects without a hub",
            "--projects DIR/vision.toml",
            &["projects: is an option of a hub, expected store as well"],
        ),
        flags("a store with a password", "--store postgres://u:s3cret@localhost/d", &["store: got a password"]),
        file("a webhook that cannot be posted to", "webhook = \"ftp://x/\"\n", &["webhook: got 'ftp://x/'", "https"]),
    ]
}

/// Runs to the end, which must be soon.
fn ends(case: &str, arguments: &[String], ports: &Path) -> Output {
    let mut command = program();
    command.arg("serve").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let usual = [("--grpc-address", "127.0.0.1:0"), ("--http-address", "127.0.0.1:0"), ("--port-file", text(ports))];
    for (option, value) in usual {
        if !arguments.iter().any(|argument| argument == option) {
            command.args([option, value]);
        }
    }
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{case}: it serves");
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn does_not_start_with_an_invalid_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (name, content) in PLACES.into_iter().zip(["x", "short", "ééééééééééééééééé", "0123456789\n0123456789\n"])
    {
        write_secret(&path(name), content);
    }
    for name in ["token", "vision"] {
        write_secret(&path(name), "0123456789abcdef\n");
    }
    std::fs::write(path("empty.toml"), "[projects]\n").unwrap();
    std::fs::write(path("vision.toml"), "[projects]\nvision = \"vision\"\n").unwrap();
    std::fs::write(path("open-token"), "0123456789abcdef\n").unwrap();
    std::fs::set_permissions(path("open-token"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (config, ports) = (path("serve.toml"), path("ports"));
    let mut faults = Faults::default();
    for case in cases() {
        let fill = |word: &str| word.replace("DIR", text(directory.path())).replace("TAKEN", &taken);
        let mut arguments: Vec<String> = case.arguments.iter().map(|argument| fill(argument)).collect();
        if let Some(file) = case.file {
            std::fs::write(&config, file).unwrap();
            arguments.extend(["--config".to_owned(), text(&config).to_owned()]);
        }
        let output = ends(&case.name, &arguments, &ports);
        let error = String::from_utf8_lossy(&output.stderr);
        faults.check(&case.name, output.status.code() == Some(case.status), format!("{}: {error}", output.status));
        for says in &case.says {
            let says = fill(says);
            faults.check(&case.name, error.contains(&says), format!("'{says}' is missing from: {error}"));
        }
        faults.check(&case.name, !error.contains("panicked"), format!("panicked: {error}"));
        faults.check(&case.name, !error.contains("s3cret"), format!("repeats a secret: {error}"));
        // A program that waits for the port file must not get ports that close at once.
        faults.check(&case.name, !ports.exists(), "it wrote the port file");
        let _ = std::fs::remove_file(&ports);
    }
    faults.report();
}

#[test]
fn a_wrong_environment_variable_is_named() {
    let ends = |arguments: &[&str]| {
        Done::of(program().arg("serve").args(arguments).env("CONCEPTWATCH_THREADS", "many")).refused(2)
    };
    let error = ends(&[]);
    let says = "error: CONCEPTWATCH_THREADS: invalid value 'many'";
    assert!(error.starts_with(says) && error.lines().count() == 1, "{error}");
    // That of the command line stands above it.
    let error = ends(&["--threads", "few"]);
    assert!(error.starts_with("error: invalid value 'few' for '--threads"), "{error}");
}

#[test]
fn two_sidecars_do_not_share_a_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut first = Sidecar::start(&["--data-dir", text(&data)]);
    let arguments = ["--data-dir".to_owned(), text(&data).to_owned()];
    let output = ends("a data directory in use", &arguments, &directory.path().join("ports"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("in use by another process"), "{error}");
    assert!(first.is_alive());
    assert_eq!(first.get("/ready"), "ready\n");
}
