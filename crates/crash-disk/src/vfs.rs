//! The VFS: the C functions that SQLite calls. They decide nothing: each converts its pointers and
//! calls the [`Handle`]. All unsafe code of the workspace is in this file.
//!
//! It is sound because SQLite keeps its side of the interface: a file that it passes was filled by
//! `open` and not yet passed to `close`, each buffer has the stated length, and each name ends with
//! a zero. A panic in here aborts the process, as Rust does at every C function border.

use crate::{
    Code, disk,
    handle::Handle,
    locks::{Level, SlotRequest, Slots},
};
use rusqlite::ffi::{
    self, SQLITE_OK, sqlite3_file, sqlite3_filename, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs,
};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr, slice,
    sync::Once,
};

/// The name by which SQLite knows the VFS of all disks.
pub const VFS_NAME: &str = "crash-disk";
const VFS_NAME_IN_C: &CStr = c"crash-disk";

/// What a database may write atomically, as far as SQLite knows. A real disk of today states the
/// same, and this disk tears writes at 512 bytes all the same.
const SECTOR_SIZE: c_int = 4096;

const PATH_LENGTH_MAX: c_int = 512;

/// Registers the VFS with SQLite, at the first call.
pub(crate) fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // Never freed: SQLite keeps the pointer as long as the process runs.
        let vfs = Box::into_raw(Box::new(vfs()));
        // SAFETY: `vfs` points to a complete table that is never moved or freed.
        let code = unsafe { ffi::sqlite3_vfs_register(vfs, 0) };
        assert_eq!(code, SQLITE_OK, "sqlite takes any vfs whose table is complete");
    });
}

fn vfs() -> sqlite3_vfs {
    sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<OpenFile>() as c_int,
        mxPathname: PATH_LENGTH_MAX,
        pNext: ptr::null_mut(),
        zName: VFS_NAME_IN_C.as_ptr(),
        pAppData: ptr::null_mut(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        // Extensions are not loaded from a disk in memory.
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

static IO_METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // With shared memory (2), without memory-mapped reads (3).
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// SQLite's data of an open file: its own part, and our pointer behind it.
#[repr(C)]
struct OpenFile {
    sqlite_part: sqlite3_file,
    handle: *mut Handle,
}

/// A connection may move to another thread between two calls, and its files with it.
const _: () = {
    const fn may_move<T: Send + Sync>() {}
    may_move::<Handle>();
};

/// The handle behind a file of SQLite.
///
/// # Safety
/// [`open`] filled `file`, and it is not closed before the last use of the reference.
unsafe fn handle<'a>(file: *mut sqlite3_file) -> &'a Handle {
    // SAFETY: by the contract above `file` is the beginning of an `OpenFile` with a live handle.
    unsafe { &*(*file.cast::<OpenFile>()).handle }
}

/// The text of a name.
///
/// # Safety
/// `name` is null or ends with a zero, and does not change while the text is used.
unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: not null, and the contract above.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

fn answer(result: Result<(), Code>) -> c_int {
    result.map_or_else(|Code(code)| code, |()| SQLITE_OK)
}

/// Converts an offset or a size from SQLite, which is never below zero.
fn size(number: impl TryInto<usize>) -> usize {
    number.try_into().ok().expect("sqlite counts from zero")
}

unsafe extern "C" fn open(
    _vfs: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a name that ends with a zero, or none.
    let path = unsafe { text(name) };
    let opened = match path {
        None if !name.is_null() => Err(Code(ffi::SQLITE_CANTOPEN)),
        path => Handle::open(path, flags),
    };
    let (methods, handle, code) = match opened {
        Ok(handle) => (&raw const IO_METHODS, Box::into_raw(Box::new(handle)), SQLITE_OK),
        // Without methods, SQLite knows that there is nothing to close.
        Err(Code(code)) => (ptr::null(), ptr::null_mut(), code),
    };
    let filled = OpenFile { sqlite_part: sqlite3_file { pMethods: methods }, handle };
    // SAFETY: SQLite provides `szOsFile` bytes, aligned for any pointer.
    unsafe { file.cast::<OpenFile>().write(filled) };
    if !out_flags.is_null() {
        // SAFETY: not null, so it points to the caller's number.
        unsafe { *out_flags = flags };
    }
    code
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: `open` made the handle from a box, and SQLite closes a file once and forgets it.
    drop(unsafe { Box::from_raw((*file.cast::<OpenFile>()).handle) });
    SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    into: *mut c_void,
    amount: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let into = into.cast::<u8>();
    // SAFETY: the buffer is SQLite's own, and `amount` bytes long.
    unsafe { into.write_bytes(0, size(amount)) };
    // SAFETY: the same buffer. C does not promise that it is initialised; the line above did that.
    let into = unsafe { slice::from_raw_parts_mut(into, size(amount)) };
    // SAFETY: an open file.
    answer(unsafe { handle(file) }.read(size(offset), into))
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    data: *const c_void,
    amount: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: the buffer is SQLite's own, and `amount` bytes long.
    let data = unsafe { slice::from_raw_parts(data.cast::<u8>(), size(amount)) };
    // SAFETY: an open file.
    answer(unsafe { handle(file) }.write(size(offset), data))
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, request: sqlite3_int64) -> c_int {
    // SAFETY: an open file.
    answer(unsafe { handle(file) }.truncate(size(request)))
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: an open file.
    answer(unsafe { handle(file) }.sync())
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, out: *mut sqlite3_int64) -> c_int {
    // SAFETY: an open file, and the caller's number.
    unsafe { *out = handle(file).size() as sqlite3_int64 };
    SQLITE_OK
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, request: c_int) -> c_int {
    // SAFETY: an open file.
    answer(unsafe { handle(file) }.lock(Level::of(request)))
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, request: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe { handle(file) }.unlock(Level::of(request));
    SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: an open file, and the caller's number.
    unsafe { *out = handle(file).is_reserved().into() };
    SQLITE_OK
}

unsafe extern "C" fn file_control(_: *mut sqlite3_file, _op: c_int, _arg: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut sqlite3_file) -> c_int {
    SECTOR_SIZE
}

/// The same as SQLite's own VFS claims on Linux, and no more: a torn write does not change the
/// bytes beside it.
unsafe extern "C" fn device_characteristics(_: *mut sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    region_size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: an open file.
    let region = unsafe { handle(file) }.region(size(region), size(region_size), extend != 0);
    // SAFETY: the caller's pointer. The region it then points to exists until `shm_unmap`.
    unsafe { *out = region.unwrap_or(ptr::null_mut()) };
    SQLITE_OK
}

unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    let request = if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        SlotRequest::Unlock
    } else if flags & ffi::SQLITE_SHM_SHARED != 0 {
        SlotRequest::Shared
    } else {
        SlotRequest::Exclusive
    };
    // SAFETY: an open file.
    answer(unsafe { handle(file) }.lock_slots(Slots::new(first, count), request))
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    // SAFETY: an open file.
    unsafe { handle(file) }.barrier();
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe { handle(file) }.leave_shm();
    SQLITE_OK
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite gives a name that ends with a zero.
    let file = unsafe { text(name) }.and_then(disk::find);
    let file = file.ok_or(Code(ffi::SQLITE_IOERR_DELETE_NOENT));
    answer(file.and_then(|(disk, file)| disk.live().delete(file, sync != 0)))
}

unsafe extern "C" fn access(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a name that ends with a zero.
    let bytes = unsafe { text(name) }.and_then(disk::find).and_then(|(disk, file)| {
        let live = disk.live();
        live.named(file).map(|file| live.file(file).bytes.len())
    });
    // When SQLite asks whether a file exists, an empty file counts as missing, as on Linux: an
    // empty journal has no content to roll back.
    let exists = bytes.is_some_and(|bytes| bytes > 0 || flags != ffi::SQLITE_ACCESS_EXISTS);
    // SAFETY: the caller's number.
    unsafe { *out = exists.into() };
    SQLITE_OK
}

/// Paths are absolute, or name no disk.
unsafe extern "C" fn full_pathname(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    size_max: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite gives a name that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    if name.len() > size(size_max) {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: `out` has `size_max` bytes, which is enough, and the two buffers do not overlap.
    unsafe { ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len()) };
    SQLITE_OK
}

/// SQLite's default VFS, for functions that have nothing to do with disks.
fn system() -> *mut sqlite3_vfs {
    // SAFETY: a null name means the default, which exists since SQLite was initialised.
    unsafe { ffi::sqlite3_vfs_find(ptr::null()) }
}

unsafe extern "C" fn randomness(_: *mut sqlite3_vfs, amount: c_int, out: *mut c_char) -> c_int {
    let vfs = system();
    // SAFETY: the default VFS is complete, and gets our arguments.
    unsafe { (*vfs).xRandomness.map_or(0, |randomness| randomness(vfs, amount, out)) }
}

unsafe extern "C" fn sleep(_: *mut sqlite3_vfs, microseconds: c_int) -> c_int {
    let vfs = system();
    // SAFETY: the default VFS is complete, and gets our arguments.
    unsafe { (*vfs).xSleep.map_or(0, |sleep| sleep(vfs, microseconds)) }
}

unsafe extern "C" fn current_time(_: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    let vfs = system();
    // SAFETY: the default VFS is complete, and gets our arguments.
    unsafe { (*vfs).xCurrentTime.map_or(ffi::SQLITE_ERROR, |time| time(vfs, out)) }
}

unsafe extern "C" fn current_time_int64(_: *mut sqlite3_vfs, out: *mut sqlite3_int64) -> c_int {
    let vfs = system();
    // SAFETY: the default VFS is complete (version 2 and later have this), and gets our arguments.
    unsafe { (*vfs).xCurrentTimeInt64.map_or(ffi::SQLITE_ERROR, |time| time(vfs, out)) }
}

unsafe extern "C" fn last_error(_: *mut sqlite3_vfs, _size_max: c_int, _out: *mut c_char) -> c_int {
    0
}
