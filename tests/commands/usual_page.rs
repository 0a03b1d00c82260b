//! Commands that look for runs by themselves, where the usual port or that of a sidecar that has gone is another program's.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::{Done, open_history, program, stored, text};
use conceptwatch::history::{ADDRESS_FILE, Identity, RunOutcome, Store};

/// A port that answers every request with what is set.
fn stranger(answer: &Arc<Mutex<String>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, answer) = (listener.local_addr().unwrap().port(), Arc::clone(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.lock().unwrap().as_bytes());
        }
    });
    port
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// A command where the page usually is at this port.
fn conceptwatch(home: &Path, usual: u16, arguments: &[&str]) -> Done {
    let usual = format!("127.0.0.1:{usual}");
    let mut command = program();
    Done::of(command.env("XDG_DATA_HOME", home).env("CONCEPTWATCH_HTTP_ADDRESS", usual).args(arguments))
}

#[test]
fn another_program_at_a_port_hides_no_run() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let directory = home.join("conceptwatch/host");
    let history = open_history(&directory);
    history.record_run(&stored::run("cub", 1), &Identity::default(), 1e9).unwrap();
    history.finish_run("cub", 1e9 + 60.0, &RunOutcome::Finished).unwrap();
    drop(history);
    let page = answer("200 OK", "<html>");
    let refusal = answer("401 Unauthorized", r#"{"error":{"field":"Authorization","message":"expected Bearer"}}"#);

    // What was killed has left its address.
    let said = Arc::new(Mutex::new(page.clone()));
    let port = stranger(&said);
    std::fs::write(directory.join(ADDRESS_FILE), format!("127.0.0.1:1 127.0.0.1:{port}")).unwrap();
    assert!(conceptwatch(home, 1, &["ls"]).ok().contains("cub"));
    std::fs::remove_file(directory.join(ADDRESS_FILE)).unwrap();

    for (answer, why) in [(page, "is no sidecar"), (refusal, "Authorization: expected Bearer")] {
        *said.lock().unwrap() = answer;
        let to = home.join("exported");
        for arguments in [&["note", "cub", "x"][..], &["note", "cub"], &["export", "--to", text(&to)], &["ls"]] {
            let done = conceptwatch(home, port, arguments);
            let told = done.err.clone();
            done.ok();
            // A command about a run that was found elsewhere need not speak of it.
            assert!(
                arguments[0] == "note" || told.contains(&format!("127.0.0.1:{port}")) && told.contains(why),
                "{told}"
            );
        }
        assert!(conceptwatch(home, port, &["ls"]).out.contains("cub"));
        std::fs::remove_dir_all(to).unwrap();
    }
}
