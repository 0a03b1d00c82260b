//! Shows on a terminal what a command is doing, once it has taken a while.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::terminal::tell_part;
use leakage::field_error::printable;
use leakage::lock::lock;

/// Shorter work is over before anyone wonders.
const QUIET: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(250);

/// Says on standard error, if that is a terminal, what was last said to it and for how long it has run. Its line is
/// wiped at the end.
pub struct Progress {
    now: Arc<Mutex<String>>,
    shown: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    pub fn start() -> Self {
        let now = Arc::new(Mutex::new(String::new()));
        let shown = std::io::stderr().is_terminal().then(|| {
            let (stop, stopped) = channel();
            let says = now.clone();
            let thread = std::thread::spawn(move || {
                let began = Instant::now();
                let mut pause = QUIET;
                while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    let what = lock(&says).clone();
                    tell_part(&format!("\r\x1b[K{:.0} s  {}", began.elapsed().as_secs_f64(), printable(&what)));
                    pause = PAUSE;
                }
                if pause == PAUSE {
                    tell_part("\r\x1b[K");
                }
            });
            (stop, thread)
        });
        Self { now, shown }
    }

    pub fn say(&self, what: &str) {
        what.clone_into(&mut lock(&self.now));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.shown.take() {
            drop(stop);
            // It prints, and cannot panic in a way that matters here.
            let _ = thread.join();
        }
    }
}
