//! A driver that tries what a sandbox is there to forbid, as one would that
//! was taken over by its arguments: it makes the system calls that it is sent,
//! and uses more than it may. It speaks the C interface directly, to have the
//! addresses that the safe one keeps from drivers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_void};
use std::sync::Mutex;
use vfun_sdk::abi::{self, Call, DriverConfig, DriverInfo};

/// What the first argument byte asks for. The answer is a number, i64: below
/// zero an error's.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A system call: its number u64, six arguments u64, then bytes to which
    /// [`BYTES`] points.
    Syscall = 0,
    /// Make the arguments in the window writable: their page in `dataout`.
    OpenArguments = 1,
    /// Write to the arguments in the window.
    WriteArguments = 2,
    /// Use so many bytes of memory, u64, all at once.
    Memory = 3,
    /// Start so many threads at once, u64; how many there were.
    Threads = 4,
    /// Compute for so many milliseconds of the clock, u64, with so many
    /// threads, u64; the processor time it got, ms.
    Spin = 5,
    /// Write so many bytes to standard error, u64; how many got there.
    Log = 6,
    /// The number of descriptors that are regular files or memory, but for the log.
    Files = 7,
    /// Read eight bytes of the process u64 at the address u64.
    Process = 8,
    /// Start so many threads, u64, that compute until the process ends; how
    /// many there were.
    Burn = 9,
    /// Open the node of a GPU whose path follows the request, and make the request,
    /// u64, of it, which is meant to be DRM_IOCTL_VERSION: the name of the kernel's
    /// driver, instead of a number.
    Gpu = 10,
}

/// As an argument of a system call: the address of the bytes that follow.
pub const BYTES: u64 = u64::MAX - 1;

fn error() -> i64 {
    -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

fn number(args: &[u8], index: usize) -> u64 {
    let at = 8 + index * 8;
    let mut word = [0; 8];
    if let Some(bytes) = args.get(at..at + 8) {
        word.copy_from_slice(bytes);
    }
    u64::from_le_bytes(word)
}

fn syscall(args: &[u8]) -> i64 {
    let bytes = args.get(8 + 7 * 8..).unwrap_or(&[]);
    let word = |i: usize| match number(args, i) {
        BYTES => bytes.as_ptr() as u64,
        n => n,
    };
    let call = number(args, 0) as c_long;
    // SAFETY: none: this is what an attacker does. A test sends it calls of
    // which it knows the outcome; a copy of this process ends at once.
    unsafe {
        let me = libc::getpid();
        let result = libc::syscall(call, word(1), word(2), word(3), word(4), word(5), word(6));
        let made = matches!(call, libc::SYS_clone | libc::SYS_fork | libc::SYS_vfork);
        if made && (result == 0 || libc::getpid() != me) {
            libc::_exit(0);
        }
        if result < 0 { error() } else { result }
    }
}

fn open_arguments(call: &Call) -> i64 {
    let page = (call.args as usize & !4095) as *mut c_void;
    // SAFETY: the page is mapped; making it writable is what is tried.
    match unsafe { libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE) } {
        0 => 0,
        _ => error(),
    }
}

fn memory(bytes: u64) -> i64 {
    let mut all = vec![];
    for _ in 0..bytes >> 20 {
        let mut block = Vec::new();
        if block.try_reserve_exact(1 << 20).is_err() {
            return -i64::from(libc::ENOMEM);
        }
        block.resize(1 << 20, 1u8);
        all.push(block);
    }
    std::hint::black_box(&all).len() as i64
}

fn threads(many: u64) -> i64 {
    let gate = Mutex::new(());
    let held = gate.lock();
    let mut made = 0;
    std::thread::scope(|scope| {
        for _ in 0..many {
            let wait = || drop(gate.lock());
            if std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, wait).is_err() {
                break;
            }
            made += 1;
        }
        drop(held);
    });
    made
}

fn processor_ms() -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is this function's own.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut t) };
    t.tv_sec * 1000 + t.tv_nsec / 1_000_000
}

fn spin(ms: u64, threads: u64) -> i64 {
    let before = processor_ms();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, 8) {
            scope.spawn(|| {
                let until = std::time::Instant::now() + std::time::Duration::from_millis(ms);
                while std::time::Instant::now() < until {
                    std::hint::spin_loop();
                }
            });
        }
    });
    processor_ms() - before
}

fn burn(many: u64) -> i64 {
    let start = || {
        let forever = || loop {
            std::hint::spin_loop();
        };
        std::thread::Builder::new().stack_size(64 << 10).spawn(forever).is_ok()
    };
    (0..many).take_while(|_| start()).count() as i64
}

fn log(bytes: u64) -> i64 {
    let block = [b'x'; 64 << 10];
    let mut written = 0;
    while written < bytes {
        // SAFETY: the block is this function's own and has so many bytes.
        let n = unsafe { libc::write(2, block.as_ptr().cast(), block.len()) };
        if n <= 0 {
            break;
        }
        written += n as u64;
    }
    written as i64
}

fn files() -> i64 {
    let is_file = |fd: c_int| {
        // SAFETY: an all-zero stat is a valid one, and the call fills it or fails.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            libc::fstat(fd, &raw mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFREG
        }
    };
    (3..1024).filter(|fd| is_file(*fd)).count() as i64
}

fn process(pid: u64, address: u64) -> i64 {
    let mut word = [0u8; 8];
    let local = libc::iovec { iov_base: word.as_mut_ptr().cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: 8 };
    // SAFETY: the bytes read go to this function's own word.
    let n =
        unsafe { libc::process_vm_readv(pid as i32, &raw const local, 1, &raw const remote, 1, 0) };
    if n < 0 { error() } else { n as i64 }
}

/// What DRM_IOCTL_VERSION fills in.
#[repr(C)]
struct DrmVersion {
    version: [c_int; 3],
    name_len: usize,
    name: *mut u8,
    date_len: usize,
    date: *mut u8,
    desc_len: usize,
    desc: *mut u8,
}

fn gpu(args: &[u8]) -> Result<Vec<u8>, i64> {
    use std::ptr::null_mut;
    let path = [args.get(16..).unwrap_or(&[]), b"\0"].concat();
    let mut name = vec![0u8; 64];
    let mut of = DrmVersion {
        version: [0; 3],
        name_len: name.len(),
        name: name.as_mut_ptr(),
        date_len: 0,
        date: null_mut(),
        desc_len: 0,
        desc: null_mut(),
    };
    // SAFETY: the path ends with a zero. The struct is the request's own, and the
    // kernel writes to the name at most as many bytes as it has; another request is
    // what a test sends, and none of GPUs has a longer struct that is filled in.
    unsafe {
        let fd = libc::open(path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC);
        if fd < 0 {
            return Err(error());
        }
        let result = libc::ioctl(fd, number(args, 0) as _, &raw mut of);
        let failed = (result < 0).then(error);
        libc::close(fd);
        if let Some(e) = failed {
            return Err(e);
        }
    }
    name.truncate(of.name_len);
    Ok(name)
}

/// What this driver is.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static vfun_driver_info: DriverInfo = DriverInfo::new("attack", (1, 0), 64 << 10, 4096);

/// # Safety
/// See `vfun_driver.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_driver_init(
    _: *const DriverConfig,
    state: *mut *mut c_void,
) -> c_int {
    // SAFETY: the service passes a place for the state.
    unsafe { *state = std::ptr::dangling_mut::<u8>().cast() };
    abi::OK
}

/// # Safety
/// See `vfun_driver.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_driver_function(_: *mut c_void, call: *mut Call) -> c_int {
    // SAFETY: the service keeps what the header promises of a call. The
    // arguments are copied at once.
    let (call, args) = unsafe {
        let call = &mut *call;
        let args = std::slice::from_raw_parts(call.args.cast::<u8>(), call.args_len as usize);
        (call, args.to_vec())
    };
    let answer = match args.first() {
        Some(0) => syscall(&args),
        Some(1) => open_arguments(call),
        Some(2) => {
            // SAFETY: none: the write is what is tried. It must end the service.
            unsafe { call.args.cast_mut().cast::<u8>().write_volatile(7) };
            0
        }
        Some(3) => memory(number(&args, 0)),
        Some(4) => threads(number(&args, 0)),
        Some(5) => spin(number(&args, 0), number(&args, 1)),
        Some(6) => log(number(&args, 0)),
        Some(7) => files(),
        Some(8) => process(number(&args, 0), number(&args, 1)),
        Some(9) => burn(number(&args, 0)),
        Some(10) => match gpu(&args) {
            Ok(name) => return answer_with(call, &name),
            Err(e) => e,
        },
        _ => return abi::BAD_ARGS,
    };
    answer_with(call, &answer.to_le_bytes())
}

fn answer_with(call: &mut Call, bytes: &[u8]) -> c_int {
    if (call.out_capacity as usize) < bytes.len() {
        return abi::RESULT_TOO_LARGE;
    }
    // SAFETY: the results' place has room for them, as was just checked.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), call.out.cast(), bytes.len()) };
    call.out_len = bytes.len() as u64;
    abi::OK
}

/// # Safety
/// See `vfun_driver.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfun_driver_exit(_: *mut c_void) {}
