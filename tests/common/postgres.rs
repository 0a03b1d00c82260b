//! PostgreSQL from the system's package, in a directory of its own: one server for each test program, one database for
//! each test.
#![allow(dead_code, reason = "shared by tests, each of which uses a part")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Ends with its standard input, so that it ends also where the test is killed.
const SCRIPT: &str = r#"
directory=$(mktemp -d)
trap 'pg_ctl -s -D "$directory/data" -m immediate stop; rm -rf "$directory"' EXIT
initdb --no-sync --auth=trust --username=postgres --encoding=UTF8 --locale=C -D "$directory/data" >/dev/null
# What is not synced survives the end of a process, and no test cuts the power.
pg_ctl -s -w -D "$directory/data" -l "$directory/log" \
    -o "-k $directory -p $PORT -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200" start >/dev/null
echo "$directory"
cat >/dev/null
"#;

/// A running server, stopped on drop.
pub struct Server {
    keeper: Child,
    pub directory: PathBuf,
    pub port: u16,
    bin: PathBuf,
    databases: AtomicU32,
}

impl Server {
    /// `None`, and a word about it, where the programs are not installed, unless CONCEPTWATCH_REQUIRE names postgresql.
    pub fn start() -> Option<Self> {
        let Some(bin) = bin() else {
            let required = std::env::var("CONCEPTWATCH_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|one| one.trim() == "postgresql"), "PostgreSQL is not installed");
            eprintln!("NOT TESTED: the history in PostgreSQL, because PostgreSQL is not installed");
            return None;
        };
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = unprivileged("sh");
        command.args(["-eu", "-c", SCRIPT]).env("PORT", port.to_string()).env("PATH", path(&bin)).current_dir("/");
        let mut keeper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(keeper.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let directory = PathBuf::from(said.trim_end());
        assert!(directory.is_absolute(), "PostgreSQL has not started");
        Some(Self { keeper, directory, port, bin, databases: AtomicU32::new(0) })
    }

    /// The server of this test program.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Server>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// The address of a new database.
    pub fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.admin("postgres").batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        self.address("postgres", &name)
    }

    /// By its Unix socket.
    pub fn address(&self, user: &str, database: &str) -> String {
        let socket = self.directory.to_str().unwrap().replace('/', "%2F");
        format!("postgres://{user}@{socket}:{}/{database}", self.port)
    }

    /// A connection of the server's owner.
    pub fn admin(&self, database: &str) -> postgres::Client {
        postgres::Client::connect(&self.address("postgres", database), postgres::NoTls).unwrap()
    }

    /// Ends all processes of the server at once, as a crash does, and starts it again.
    pub fn crash(&self) {
        self.stop();
        self.start_again();
    }

    /// Ends all processes of the server at once.
    pub fn stop(&self) {
        self.control(&["-m", "immediate", "stop"]);
    }

    pub fn start_again(&self) {
        self.control(&["-w", "-l", "/dev/null", "start"]);
    }

    /// Kills the server with SIGKILL, and starts it again.
    pub fn kill(&self) {
        let identity = std::fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap();
        let process: libc::pid_t = identity.lines().next().unwrap().parse().unwrap();
        // SAFETY: kill has no conditions on memory, and the process is this server.
        assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
        // Its processes end when they notice.
        while !self.controls(&["-w", "-l", "/dev/null", "start"]) {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// Copies all that the server holds, while it is stopped.
    pub fn back_up(&self) {
        self.copy("data", "backup");
    }

    /// Puts the copy in its place, while it is stopped.
    pub fn restore(&self) {
        std::fs::remove_dir_all(self.directory.join("data")).unwrap();
        self.copy("backup", "data");
    }

    fn copy(&self, from: &str, to: &str) {
        let [from, to] = [from, to].map(|name| self.directory.join(name));
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    }

    /// Reads the configuration again, which later connections have.
    fn reload(&self) {
        let read = || -> std::time::SystemTime {
            self.admin("postgres").query_one("SELECT pg_conf_load_time()", &[]).unwrap().get(0)
        };
        let before = read();
        self.control(&["reload"]);
        while read() <= before {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Lets clients encrypt with this certificate and key.
    pub fn encrypt(&self, certificate: &Path, key: &Path) {
        let data = self.directory.join("data");
        let owner = std::fs::metadata(&data).unwrap();
        for (from, name) in [(certificate, "server.crt"), (key, "server.key")] {
            let file = data.join(name);
            std::fs::copy(from, &file).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::os::unix::fs::chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        self.admin("postgres").batch_execute("ALTER SYSTEM SET ssl = on").unwrap();
        self.reload();
    }

    /// From now on this user needs a password.
    pub fn ask_for_passwords(&self, user: &str) {
        let rules = self.directory.join("data/pg_hba.conf");
        let others = std::fs::read_to_string(&rules).unwrap();
        std::fs::write(&rules, format!("host all {user} 127.0.0.1/32 scram-sha-256\n{others}")).unwrap();
        self.reload();
    }

    fn control(&self, arguments: &[&str]) {
        assert!(self.controls(arguments), "{arguments:?}");
    }

    fn controls(&self, arguments: &[&str]) -> bool {
        let mut command = unprivileged(self.bin.join("pg_ctl").to_str().unwrap());
        command.arg("-s").arg("-D").arg(self.directory.join("data")).args(arguments).env("PATH", path(&self.bin));
        let options = format!("-k {} -p {} -c listen_addresses=127.0.0.1", self.directory.display(), self.port);
        if arguments.contains(&"start") {
            command.args(["-o", &options]);
        }
        command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// The address of a new database on the server of this test program; `None` where PostgreSQL is not installed.
pub fn database() -> Option<String> {
    Server::shared().map(Server::database)
}

/// PostgreSQL does not run as root.
fn unprivileged(program: &str) -> Command {
    // SAFETY: geteuid has no conditions and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", program]);
    command
}

fn path(bin: &Path) -> String {
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default())
}

/// Where `initdb` is: in Debian's package, or where programs are looked for.
fn bin() -> Option<PathBuf> {
    let packaged = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut packaged: Vec<PathBuf> = packaged.map(|version| version.path().join("bin")).collect();
    packaged.sort();
    let searched = std::env::var_os("PATH").unwrap_or_default();
    let all = packaged.into_iter().rev().chain(std::env::split_paths(&searched));
    all.into_iter().find(|directory| directory.join("initdb").is_file() && directory.join("pg_ctl").is_file())
}
