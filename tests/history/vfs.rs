//! A layer of SQLite's below its pager that records what is written, and syncs that record themselves. Both fail on demand.
//!
//! They become the defaults of the process. Files of directories that nobody watches pass through them unchanged.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, Once};
use std::time::{Duration, Instant};

use rusqlite::ffi;

/// How long a sync is held at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// What happened to a file, by its name in the directory.
#[derive(Clone, Debug)]
pub enum Event {
    Write {
        name: String,
        at: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        name: String,
        length: usize,
    },
    Sync {
        name: String,
    },
    Delete {
        name: String,
    },
    /// What the test notes between them.
    Mark(u64),
}

/// An operation that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// Writes, as on a full disk.
    Full,
    /// Writes and truncations.
    Writes,
    Syncs,
    /// All of them, reads as well.
    All,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    recording: bool,
    /// Operations until those of a kind fail.
    failing: Option<(u64, Failing)>,
    operations: u64,
    failed: u64,
    /// Syncs do not end.
    holding: bool,
}

/// A watched directory.
#[derive(Default)]
pub struct Watch(Mutex<State>);

type Watched = Mutex<HashMap<PathBuf, Arc<Watch>>>;
static WATCHED: LazyLock<Watched> = LazyLock::new(Watched::default);

impl Watch {
    /// Watches a directory from now on.
    pub fn over(directory: &Path) -> Arc<Self> {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(register);
        let watch = Arc::new(Self::default());
        let directory = directory.canonicalize().unwrap();
        WATCHED.lock().unwrap().insert(directory, Arc::clone(&watch));
        watch
    }

    pub fn record(&self) {
        self.0.lock().unwrap().recording = true;
    }

    pub fn mark(&self, number: u64) {
        self.0.lock().unwrap().events.push(Event::Mark(number));
    }

    pub fn events(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap().events)
    }

    /// Lets operations of a kind fail after `after` more operations, until [`heal`](Self::heal).
    pub fn fail(&self, after: u64, failing: Failing) {
        let mut state = self.0.lock().unwrap();
        state.failing = Some((state.operations + after, failing));
    }

    pub fn heal(&self) {
        self.0.lock().unwrap().failing = None;
    }

    /// Lets no sync end until [`release`](Self::release).
    pub fn hold(&self) {
        self.0.lock().unwrap().holding = true;
    }

    pub fn release(&self) {
        self.0.lock().unwrap().holding = false;
    }

    /// Operations so far, and how many of them failed.
    pub fn operations(&self) -> (u64, u64) {
        let state = self.0.lock().unwrap();
        (state.operations, state.failed)
    }

    /// Counts an operation, and says whether it fails.
    fn fails(&self, kinds: &[Failing]) -> bool {
        let mut state = self.0.lock().unwrap();
        state.operations += 1;
        let fails = state.failing.is_some_and(|(from, kind)| state.operations > from && kinds.contains(&kind));
        state.failed += u64::from(fails);
        fails
    }

    fn is_full(&self) -> bool {
        matches!(self.0.lock().unwrap().failing, Some((_, Failing::Full)))
    }

    fn push(&self, event: Event) {
        let mut state = self.0.lock().unwrap();
        if state.recording {
            state.events.push(event);
        }
    }
}

/// An open file of a watched directory.
#[derive(Clone)]
struct Opened {
    watch: Arc<Watch>,
    name: String,
    /// The methods of the system's own layer.
    below: &'static ffi::sqlite3_io_methods,
    /// A copy of them with those of this layer, which SQLite calls.
    methods: Arc<ffi::sqlite3_io_methods>,
}

/// By the address of the file.
static OPENED: LazyLock<Mutex<HashMap<usize, Opened>>> = LazyLock::new(Mutex::default);

fn opened(file: *mut ffi::sqlite3_file) -> Opened {
    OPENED.lock().unwrap()[&file.addr()].clone()
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let Opened { below, methods, .. } = OPENED.lock().unwrap().remove(&file.addr()).unwrap();
    // SAFETY: the arguments are SQLite's, for the method of an open file.
    let result = unsafe { below.xClose.unwrap()(file) };
    drop(methods);
    result
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, to: *mut c_void, length: c_int, at: i64) -> c_int {
    let Opened { watch, below, .. } = opened(file);
    if watch.fails(&[Failing::All]) {
        return ffi::SQLITE_IOERR_READ;
    }
    // SAFETY: as in `close`.
    unsafe { below.xRead.unwrap()(file, to, length, at) }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, length: c_int, at: i64) -> c_int {
    let Opened { watch, name, below, .. } = opened(file);
    let written = below.xWrite.unwrap();
    if watch.fails(&[Failing::Full, Failing::Writes, Failing::All]) {
        // Half of it arrives.
        // SAFETY: as in `close`.
        let _ = unsafe { written(file, from, length / 2, at) };
        return if watch.is_full() { ffi::SQLITE_FULL } else { ffi::SQLITE_IOERR_WRITE };
    }
    // SAFETY: SQLite gives `length` readable bytes.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length as usize) }.to_vec();
    watch.push(Event::Write { name, at: at as usize, bytes });
    // SAFETY: as in `close`.
    unsafe { written(file, from, length, at) }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
    let Opened { watch, name, below, .. } = opened(file);
    if watch.fails(&[Failing::Writes, Failing::All]) {
        return ffi::SQLITE_IOERR_TRUNCATE;
    }
    watch.push(Event::Truncate { name, length: length as usize });
    // SAFETY: as in `close`.
    unsafe { below.xTruncate.unwrap()(file, length) }
}

/// Takes the place of the C library's, for SQLite and for the program's own syncs.
#[unsafe(no_mangle)]
extern "C" fn fsync(descriptor: c_int) -> c_int {
    synced(libc::SYS_fsync, descriptor)
}

/// As [`fsync`].
#[unsafe(no_mangle)]
extern "C" fn fdatasync(descriptor: c_int) -> c_int {
    synced(libc::SYS_fdatasync, descriptor)
}

fn synced(call: libc::c_long, descriptor: c_int) -> c_int {
    let path = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap_or_default();
    if let Some((watch, name)) = watch_of(&path) {
        if watch.fails(&[Failing::Syncs, Failing::All]) {
            // SAFETY: the address of this thread's own error number.
            unsafe { *libc::__errno_location() = libc::EIO };
            return -1;
        }
        let began = Instant::now();
        while watch.0.lock().unwrap().holding {
            if began.elapsed() > PATIENCE {
                eprintln!("somebody waits for a sync");
                std::process::abort();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Before it is done: what is written meanwhile may not be on the disk.
        watch.push(Event::Sync { name });
    }
    // SAFETY: the call takes a descriptor alone.
    unsafe { libc::syscall(call, descriptor) as c_int }
}

/// The system's own layer.
fn system() -> *mut ffi::sqlite3_vfs {
    static SYSTEM: LazyLock<usize> = LazyLock::new(|| {
        // SAFETY: finds a layer by its name, which ends with NUL; it is never unregistered.
        unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()) as usize }
    });
    *SYSTEM as *mut ffi::sqlite3_vfs
}

fn watch_of(path: &Path) -> Option<(Arc<Watch>, String)> {
    let watch = Arc::clone(WATCHED.lock().unwrap().get(path.parent()?)?);
    Some((watch, path.file_name()?.to_str()?.to_owned()))
}

unsafe fn watch_of_name(name: *const c_char) -> Option<(Arc<Watch>, String)> {
    if name.is_null() {
        return None;
    }
    // SAFETY: SQLite's names end with NUL.
    watch_of(Path::new(unsafe { CStr::from_ptr(name) }.to_str().ok()?))
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    path: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    result: *mut c_int,
) -> c_int {
    // SAFETY: a name of SQLite's.
    let watched = unsafe { watch_of_name(path) };
    if watched.as_ref().is_some_and(|(watch, _)| watch.fails(&[Failing::All])) {
        // SAFETY: the memory is SQLite's. Without methods it does not close the file.
        unsafe { (*file).pMethods = std::ptr::null() };
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: the arguments are SQLite's, for the layer below.
    let code = unsafe { (*system()).xOpen.unwrap()(system(), path, file, flags, result) };
    if let (ffi::SQLITE_OK, Some((watch, name))) = (code, watched) {
        // SAFETY: the file is open, so it has methods, which are constants of SQLite's. Copies live until it is closed.
        unsafe {
            let below = &*(*file).pMethods;
            // Version 2 reads no mapped memory.
            let methods = ffi::sqlite3_io_methods {
                iVersion: 2,
                xClose: Some(close),
                xRead: Some(read),
                xWrite: Some(write),
                xTruncate: Some(truncate),
                ..*below
            };
            let methods = Arc::new(methods);
            (*file).pMethods = Arc::as_ptr(&methods);
            OPENED.lock().unwrap().insert(file.addr(), Opened { watch, name, below, methods });
        }
    }
    code
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: a name of SQLite's.
    if let Some((watch, name)) = unsafe { watch_of_name(name) } {
        if watch.fails(&[Failing::Writes, Failing::All]) {
            return ffi::SQLITE_IOERR_DELETE;
        }
        watch.push(Event::Delete { name });
    }
    // SAFETY: the arguments are SQLite's, for the layer below.
    unsafe { (*system()).xDelete.unwrap()(system(), name, sync) }
}

fn register() {
    // SAFETY: a copy of the system's layer, whose other functions do not look at which copy they are called with. It
    // lives as long as the process.
    unsafe {
        let mut layer = *system();
        layer.pNext = std::ptr::null_mut();
        layer.zName = c"watched".as_ptr();
        layer.xOpen = Some(open);
        layer.xDelete = Some(delete);
        assert_eq!(ffi::sqlite3_vfs_register(Box::into_raw(Box::new(layer)), 1), ffi::SQLITE_OK);
    }
}
