//! A layer of SQLite's below its pager that records what is written, and syncs that record themselves. Both fail on demand.
//!
//! They become the defaults of the process. Files of directories that nobody watches pass through them unchanged.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::size_of;
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

/// The file that SQLite holds; the one below it follows in memory.
#[repr(C)]
struct Layer {
    base: ffi::sqlite3_file,
    watched: *mut (Arc<Watch>, String),
}

unsafe fn below(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: SQLite allocates szOsFile bytes, and `register` asks for both files.
    unsafe { file.cast::<u8>().add(size_of::<Layer>()).cast() }
}

/// The watch and name of a file; `None` for one that passes through.
unsafe fn watched<'a>(file: *mut ffi::sqlite3_file) -> Option<&'a (Arc<Watch>, String)> {
    // SAFETY: every file with these methods was opened by `open`, which sets the pointer to a box or to null.
    unsafe { (*file.cast::<Layer>()).watched.as_ref() }
}

macro_rules! down {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: the file below was opened, so it has its methods.
        unsafe {
            let file = below($file);
            ((*(*file).pMethods).$method.unwrap())(file $(, $argument)*)
        }
    }};
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let result = down!(file, xClose);
    // SAFETY: closed once; the box was made by `open`.
    unsafe {
        let layer = file.cast::<Layer>();
        if !(*layer).watched.is_null() {
            drop(Box::from_raw((*layer).watched));
            (*layer).watched = std::ptr::null_mut();
        }
    }
    result
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, to: *mut c_void, length: c_int, at: i64) -> c_int {
    // SAFETY: a file of this layer.
    if unsafe { watched(file) }.is_some_and(|(watch, _)| watch.fails(&[Failing::All])) {
        return ffi::SQLITE_IOERR_READ;
    }
    down!(file, xRead, to, length, at)
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, length: c_int, at: i64) -> c_int {
    // SAFETY: a file of this layer.
    if let Some((watch, name)) = unsafe { watched(file) } {
        if watch.fails(&[Failing::Full, Failing::Writes, Failing::All]) {
            // Half of it arrives.
            let _ = down!(file, xWrite, from, length / 2, at);
            return if watch.is_full() { ffi::SQLITE_FULL } else { ffi::SQLITE_IOERR_WRITE };
        }
        // SAFETY: SQLite gives `length` readable bytes.
        let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length as usize) }.to_vec();
        watch.push(Event::Write { name: name.clone(), at: at as usize, bytes });
    }
    down!(file, xWrite, from, length, at)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
    // SAFETY: a file of this layer.
    if let Some((watch, name)) = unsafe { watched(file) } {
        if watch.fails(&[Failing::Writes, Failing::All]) {
            return ffi::SQLITE_IOERR_TRUNCATE;
        }
        watch.push(Event::Truncate { name: name.clone(), length: length as usize });
    }
    down!(file, xTruncate, length)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    down!(file, xSync, flags)
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

unsafe extern "C" fn size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    down!(file, xFileSize, size)
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    down!(file, xLock, level)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    down!(file, xUnlock, level)
}

unsafe extern "C" fn reserved(file: *mut ffi::sqlite3_file, result: *mut c_int) -> c_int {
    down!(file, xCheckReservedLock, result)
}

unsafe extern "C" fn control(file: *mut ffi::sqlite3_file, operation: c_int, argument: *mut c_void) -> c_int {
    down!(file, xFileControl, operation, argument)
}

unsafe extern "C" fn sector(file: *mut ffi::sqlite3_file) -> c_int {
    down!(file, xSectorSize)
}

unsafe extern "C" fn characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    down!(file, xDeviceCharacteristics)
}

unsafe extern "C" fn map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    mapped: *mut *mut c_void,
) -> c_int {
    down!(file, xShmMap, region, bytes, extend, mapped)
}

unsafe extern "C" fn lock_shared(file: *mut ffi::sqlite3_file, first: c_int, count: c_int, flags: c_int) -> c_int {
    down!(file, xShmLock, first, count, flags)
}

unsafe extern "C" fn barrier(file: *mut ffi::sqlite3_file) {
    down!(file, xShmBarrier)
}

unsafe extern "C" fn unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    down!(file, xShmUnmap, delete)
}

/// Version 2: with the memory that connections share, which never fails.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(map),
    xShmLock: Some(lock_shared),
    xShmBarrier: Some(barrier),
    xShmUnmap: Some(unmap),
    xFetch: None,
    xUnfetch: None,
};

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

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    opened: *mut c_int,
) -> c_int {
    let watched = match name.is_null() {
        true => None,
        // SAFETY: SQLite's names end with NUL.
        false => watch_of(Path::new(unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default())),
    };
    let layer = file.cast::<Layer>();
    // SAFETY: the memory is SQLite's, of szOsFile bytes. Without methods it does not close the file.
    unsafe {
        (*layer).base.pMethods = std::ptr::null();
        (*layer).watched = std::ptr::null_mut();
    }
    if watched.as_ref().is_some_and(|(watch, _)| watch.fails(&[Failing::All])) {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: the arguments are SQLite's, for the layer below.
    let result = unsafe { ((*system()).xOpen.unwrap())(system(), name, below(file), flags, opened) };
    if result == ffi::SQLITE_OK {
        // SAFETY: as above; the file is open, so it may be closed.
        unsafe {
            (*layer).watched = watched.map_or(std::ptr::null_mut(), |watched| Box::into_raw(Box::new(watched)));
            (*layer).base.pMethods = &METHODS;
        }
    }
    result
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite's names end with NUL.
    if let Some((watch, name)) = watch_of(Path::new(unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default())) {
        if watch.fails(&[Failing::Writes, Failing::All]) {
            return ffi::SQLITE_IOERR_DELETE;
        }
        watch.push(Event::Delete { name });
    }
    // SAFETY: the arguments are SQLite's, for the layer below.
    unsafe { ((*system()).xDelete.unwrap())(system(), name, sync) }
}

fn register() {
    // SAFETY: a copy of the system's layer, whose other functions do not look at which copy they are called with. It
    // lives as long as the process.
    unsafe {
        let mut layer = *system();
        layer.szOsFile += size_of::<Layer>() as c_int;
        layer.pNext = std::ptr::null_mut();
        layer.zName = c"watched".as_ptr();
        layer.xOpen = Some(open);
        layer.xDelete = Some(delete);
        assert_eq!(ffi::sqlite3_vfs_register(Box::into_raw(Box::new(layer)), 1), ffi::SQLITE_OK);
    }
}
