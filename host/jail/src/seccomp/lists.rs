//! What lists are made of. Each call has its reason: who makes it, and when.
//! docs/jail.md says how to find out what a driver needs; which kind of service has
//! which of these is in its row (`vfun-kinds`).

use super::{Answer, Rule, When, number};
use crate::Device;
use libc::*;
use std::borrow::Cow;

/// This answer to a call whose arguments fit.
pub const fn rule(call: c_long, when: &'static [When], answer: Answer) -> Rule {
    Rule { call: number(call), when: Cow::Borrowed(when), answer }
}
/// The call is made, whatever its arguments.
pub const fn allow(call: c_long) -> Rule {
    rule(call, &[], Answer::Allow)
}
/// The call fails with this error.
pub const fn refuse(call: c_long, error: c_int) -> Rule {
    rule(call, &[], Answer::Errno(error))
}
const fn kill(call: c_long) -> Rule {
    rule(call, &[], Answer::Kill)
}

/// `F_SETFL` with `O_NONBLOCK`.
const STAYS_NONBLOCKING: When = When::masked(2, O_NONBLOCK as u32, O_NONBLOCK as u32);
/// Flags of `open` that write, make or empty a file.
const WRITING: u32 = (O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & !O_DIRECTORY)) as u32;
/// `clone` as a C library makes a thread: `CLONE_VM | FS | FILES | SIGHAND |
/// THREAD | SYSVSEM | SETTLS | PARENT_SETTID | CHILD_CLEARTID`.
const THREAD: u32 = 0x003d_0f00;
/// `CLONE_DETACHED`, which some C libraries add; it means nothing any more.
const DETACHED: u32 = 0x0040_0000;

/// What allocators say of their memory and this program of a window's: how it
/// is used (0 to 4 and 8), what of it a fork or a dump gets (10, 11, 16 to 19),
/// large pages (14, 15), touch it all (22, 23), guard pages (102, 103). All of
/// it is about the process's own memory and changes nothing for anybody else.
const ADVICE: &[Rule] = &[
    // Merged with equal pages of other processes, where the kernel does that
    // (ksmd): how long a write takes then tells what others have in memory.
    rule(SYS_madvise, &[When::is(2, MADV_MERGEABLE as u32)], Answer::Errno(EPERM)),
    rule(SYS_madvise, &[When::masked(2, !3, MADV_NORMAL as u32)], Answer::Allow),
    rule(SYS_madvise, &[When::is(2, MADV_DONTNEED as u32)], Answer::Allow),
    rule(SYS_madvise, &[When::is(2, MADV_FREE as u32)], Answer::Allow),
    rule(SYS_madvise, &[When::masked(2, !1, MADV_DONTFORK as u32)], Answer::Allow),
    rule(SYS_madvise, &[When::masked(2, !1, MADV_HUGEPAGE as u32)], Answer::Allow),
    rule(SYS_madvise, &[When::masked(2, !3, MADV_DONTDUMP as u32)], Answer::Allow),
    rule(SYS_madvise, &[When::masked(2, !1, MADV_POPULATE_READ as u32)], Answer::Allow),
    rule(SYS_madvise, &[When::masked(2, !1, MADV_GUARD_INSTALL)], Answer::Allow),
    // Any other is one that this kernel does not know: libraries go on without.
    refuse(SYS_madvise, EINVAL),
];
/// The first of two kinds of advice about guard pages, newer than the C library's header.
const MADV_GUARD_INSTALL: u32 = 102;

/// What every service does, whatever its driver.
const SERVICE: &[Rule] = &[
    // Memory: the allocator's, stacks of threads.
    allow(SYS_brk),
    allow(SYS_munmap),
    allow(SYS_mremap),
    // Threads: one a channel.
    rule(SYS_clone, &[When::masked(0, !DETACHED, THREAD)], Answer::Allow),
    // Its flags lie in memory where no list can look: the C library takes `clone` then.
    refuse(SYS_clone3, ENOSYS),
    allow(SYS_set_robust_list),
    allow(SYS_rseq),
    allow(SYS_exit),
    allow(SYS_exit_group),
    // Names of threads.
    rule(SYS_prctl, &[When::is(0, PR_SET_NAME as u32)], Answer::Allow),
    // Names of the allocator's memory, in newer C libraries; they go on without.
    // Nor can a whole process be merged with others (PR_SET_MEMORY_MERGE).
    refuse(SYS_prctl, EINVAL),
    // Mutexes, channels between threads, joins.
    allow(SYS_futex),
    // A thread that spins lets others run.
    allow(SYS_sched_yield),
    // How many processors there are; where a thread's stack is.
    allow(SYS_sched_getaffinity),
    allow(SYS_gettid),
    allow(SYS_getpid),
    // A stack of its own for the handler of stack overflows, in each thread.
    allow(SYS_sigaltstack),
    // Signals' handlers, but for the one that tells of forbidden calls: whoever
    // put another in its place could try one call after the other.
    rule(SYS_rt_sigaction, &[When::is(0, SIGSYS as u32)], Answer::Errno(EPERM)),
    allow(SYS_rt_sigaction),
    allow(SYS_rt_sigprocmask),
    allow(SYS_rt_sigreturn),
    // `abort`: a thread signals itself, with that signal and no other.
    rule(SYS_tgkill, &[When::is(2, SIGABRT as u32)], Answer::Allow),
    // Clocks, where the kernel's page for them is of no use.
    allow(SYS_clock_gettime),
    allow(SYS_clock_getres),
    allow(SYS_gettimeofday),
    // Waiting: sleeps, deadlines, bells, the manager's socket.
    allow(SYS_clock_nanosleep),
    allow(SYS_nanosleep),
    allow(SYS_restart_syscall),
    allow(SYS_epoll_create1),
    allow(SYS_epoll_ctl),
    allow(SYS_epoll_pwait),
    allow(SYS_epoll_pwait2),
    // The alarm of the watch, and a bell to stop each channel by.
    allow(SYS_eventfd2),
    allow(SYS_ppoll),
    // Bells are rung by writing; the log.
    allow(SYS_write),
    allow(SYS_writev),
    allow(SYS_read),
    // The manager's messages, with windows and bells.
    allow(SYS_recvmsg),
    allow(SYS_sendmsg),
    // The socket is made non-blocking; copies of descriptors. Never blocking
    // again: bells are the same open files as the manager's, which must not wait.
    rule(SYS_fcntl, &[When::is(1, F_GETFD as u32)], Answer::Allow),
    rule(SYS_fcntl, &[When::is(1, F_SETFD as u32)], Answer::Allow),
    rule(SYS_fcntl, &[When::is(1, F_GETFL as u32)], Answer::Allow),
    rule(SYS_fcntl, &[When::is(1, F_DUPFD_CLOEXEC as u32)], Answer::Allow),
    rule(SYS_fcntl, &[When::is(1, F_SETFL as u32), STAYS_NONBLOCKING], Answer::Allow),
    refuse(SYS_fcntl, EINVAL),
    allow(SYS_close),
    // A window's length is checked before it is mapped.
    allow(SYS_fstat),
    allow(SYS_newfstatat),
    allow(SYS_statx),
    // Whether the file that a buffer lies in has huge pages.
    allow(SYS_fstatfs),
    // Keys of hash tables.
    allow(SYS_getrandom),
    // Where the main thread's stack ends: asked, never set.
    rule(SYS_prlimit64, &[When::is(2, 0), When::short(2)], Answer::Allow),
    // C's standard output asks whether it is a terminal; nothing here is a device.
    refuse(SYS_ioctl, ENOTTY),
    // A panic with a trace of calls asks where it is, and whom it runs as.
    allow(SYS_getcwd),
    allow(SYS_readlinkat),
];

/// The same by older names, which newer kinds of machines do not have.
#[cfg(target_arch = "x86_64")]
const SERVICE_OLD: &[Rule] = &[
    allow(SYS_epoll_wait),
    allow(SYS_poll),
    allow(SYS_time),
    allow(SYS_readlink),
    // The C library's thread-local storage of libraries loaded later.
    allow(SYS_arch_prctl),
];
#[cfg(not(target_arch = "x86_64"))]
const SERVICE_OLD: &[Rule] = &[];

/// What native drivers do besides, and compilers: they read files and ask where they are.
pub const DRIVER: &[Rule] = &[
    // Libraries it links, and files that its manifest lets it read.
    rule(SYS_openat, &[When::masked(2, WRITING, 0)], Answer::Allow),
    refuse(SYS_openat, EACCES),
    refuse(SYS_openat2, ENOSYS),
    allow(SYS_pread64),
    allow(SYS_preadv),
    allow(SYS_readv),
    allow(SYS_lseek),
    allow(SYS_getdents64),
    allow(SYS_faccessat),
    allow(SYS_faccessat2),
    allow(SYS_statfs),
    allow(SYS_fadvise64),
    // Who and where it is: languages' libraries ask when they start.
    allow(SYS_getuid),
    allow(SYS_geteuid),
    allow(SYS_getgid),
    allow(SYS_getegid),
    allow(SYS_getppid),
    allow(SYS_uname),
    allow(SYS_sysinfo),
    allow(SYS_getrusage),
    allow(SYS_times),
    allow(SYS_getcpu),
    allow(SYS_set_tid_address),
    allow(SYS_rt_sigtimedwait),
    allow(SYS_mincore),
    allow(SYS_membarrier),
    // Libraries of many threads place them and go on where they may not.
    refuse(SYS_sched_setaffinity, EPERM),
    refuse(SYS_sched_setscheduler, EPERM),
    refuse(SYS_sched_getscheduler, EPERM),
    refuse(SYS_sched_getparam, EPERM),
    refuse(SYS_setpriority, EPERM),
    refuse(SYS_mlock, EPERM),
    refuse(SYS_mlock2, EPERM),
    refuse(SYS_mbind, EPERM),
    refuse(SYS_set_mempolicy, EPERM),
    refuse(SYS_get_mempolicy, EPERM),
];

/// The same by older names.
#[cfg(target_arch = "x86_64")]
pub const DRIVER_OLD: &[Rule] = &[
    rule(SYS_open, &[When::masked(1, WRITING, 0)], Answer::Allow),
    refuse(SYS_open, EACCES),
    allow(SYS_stat),
    allow(SYS_lstat),
    allow(SYS_access),
    allow(SYS_getrlimit),
];
/// The same by older names: none.
#[cfg(not(target_arch = "x86_64"))]
pub const DRIVER_OLD: &[Rule] = &[];

/// Memory that is written to but never run: all that a driver needs once it is loaded.
pub const DATA: &[Rule] = &[
    rule(SYS_mmap, &[When::masked(2, PROT_EXEC as u32, 0)], Answer::Allow),
    rule(SYS_mprotect, &[When::masked(2, PROT_EXEC as u32, 0)], Answer::Allow),
];

/// Code too: the driver's and its libraries', while they are loaded.
pub const CODE: &[Rule] = &[allow(SYS_mmap), allow(SYS_mprotect)];

/// The second list, which is installed on top once the driver is there.
pub const SECOND: &[Rule] =
    &[rule(SYS_seccomp, &[When::is(0, SECCOMP_SET_MODE_FILTER)], Answer::Allow)];

/// Nothing that a driver could mean well makes these.
const ATTACK: &[Rule] = &[
    // Another program.
    kill(SYS_execve),
    kill(SYS_execveat),
    // Other processes' memory and descriptors.
    kill(SYS_ptrace),
    kill(SYS_process_vm_readv),
    kill(SYS_process_vm_writev),
    kill(SYS_kcmp),
    kill(SYS_pidfd_getfd),
    kill(SYS_process_madvise),
    // Other views of the system.
    kill(SYS_mount),
    kill(SYS_umount2),
    kill(SYS_pivot_root),
    kill(SYS_chroot),
    kill(SYS_move_mount),
    kill(SYS_open_tree),
    kill(SYS_fsopen),
    kill(SYS_fsmount),
    kill(SYS_fsconfig),
    kill(SYS_fspick),
    kill(SYS_mount_setattr),
    kill(SYS_unshare),
    kill(SYS_setns),
    kill(SYS_open_by_handle_at),
    // The kernel's large and often broken interfaces.
    kill(SYS_bpf),
    kill(SYS_perf_event_open),
    kill(SYS_userfaultfd),
    kill(SYS_io_uring_setup),
    kill(SYS_io_uring_enter),
    kill(SYS_io_uring_register),
    kill(SYS_keyctl),
    kill(SYS_add_key),
    kill(SYS_request_key),
    // The machine itself.
    kill(SYS_init_module),
    kill(SYS_finit_module),
    kill(SYS_delete_module),
    kill(SYS_kexec_load),
    kill(SYS_reboot),
    kill(SYS_swapon),
    kill(SYS_swapoff),
    kill(SYS_acct),
    kill(SYS_settimeofday),
    kill(SYS_clock_settime),
    kill(SYS_capset),
    kill(SYS_personality),
];

/// The same, of this kind of machine alone.
#[cfg(target_arch = "x86_64")]
const ATTACK_OLD: &[Rule] = &[kill(SYS_iopl), kill(SYS_ioperm), kill(SYS_modify_ldt)];
#[cfg(not(target_arch = "x86_64"))]
const ATTACK_OLD: &[Rule] = &[];

/// Files are read, and nothing is written.
pub const READ_FILES: &[Rule] =
    &[rule(SYS_openat, &[When::masked(2, WRITING, 0)], Answer::Allow), refuse(SYS_openat, EACCES)];

/// No file is opened. The allocator, giving back much that a thread took, asks the
/// system's file on memory how it is to, and goes on without.
pub const NO_FILE: &[Rule] = &[refuse(SYS_openat, EACCES)];

/// A service's list: these rules, and what every service does. The first rule that
/// fits a call decides.
pub fn service(first: &[&[Rule]]) -> Vec<Rule> {
    [&first.concat()[..], ADVICE, SERVICE, SERVICE_OLD, ATTACK, ATTACK_OLD].concat()
}

/// Flags of `open` that make or empty a file: no device is opened so.
const MAKING: u32 = WRITING & !(O_ACCMODE as u32);

/// Devices are opened for writing. Which ones there are is said by `mount` and
/// `landlock`: nothing else that is there can be written to. Where a host gives
/// neither, no service with devices starts ([`Standing::lacks_for_writing`]).
///
/// [`Standing::lacks_for_writing`]: crate::Standing::lacks_for_writing
const DEVICE_FILES: &[Rule] = &[
    rule(SYS_openat, &[When::masked(2, MAKING, 0)], Answer::Allow),
    #[cfg(target_arch = "x86_64")]
    rule(SYS_open, &[When::masked(1, MAKING, 0)], Answer::Allow),
];

/// What a driver of devices does besides: these requests, and while it serves, if the
/// kind's own rules for files are not enough, opening them.
pub fn devices(devices: &[Device], opens: bool) -> Vec<Rule> {
    let opens = if opens && !devices.is_empty() { DEVICE_FILES } else { &[] };
    let request = |r: &crate::devices::Requests| Rule {
        call: number(SYS_ioctl),
        when: Cow::Owned(vec![When::masked(1, r.mask, r.value)]),
        answer: Answer::Allow,
    };
    let requests = devices.iter().flat_map(|d| &d.ioctls).map(request);
    opens.iter().cloned().chain(requests).collect()
}

/// What a driver does besides that writes in folders of its own. Which they are is said by
/// `mount` and `landlock`, as for devices.
pub const WRITES: &[Rule] = &[
    allow(SYS_openat),
    allow(SYS_pwrite64),
    allow(SYS_ftruncate),
    // What it wrote is on the disk when it says so.
    allow(SYS_fsync),
    allow(SYS_fdatasync),
    // Folders; a file is whole under its last name, and removed.
    allow(SYS_mkdirat),
    allow(SYS_unlinkat),
    allow(SYS_renameat),
    allow(SYS_renameat2),
    // Nobody else may read what it makes.
    allow(SYS_umask),
    // Libraries tell the system's log what failed. It cannot be reached, and they go on.
    rule(SYS_socket, &[When::is(0, AF_UNIX as u32)], Answer::Errno(EACCES)),
    // Several threads or programs write in one folder, one after the other.
    allow(SYS_flock),
    rule(SYS_fcntl, &[When::is(1, F_GETLK as u32)], Answer::Allow),
    rule(SYS_fcntl, &[When::is(1, F_SETLK as u32)], Answer::Allow),
    rule(SYS_fcntl, &[When::is(1, F_SETLKW as u32)], Answer::Allow),
];

/// The same by older names.
#[cfg(target_arch = "x86_64")]
pub const WRITES_OLD: &[Rule] =
    &[allow(SYS_open), allow(SYS_mkdir), allow(SYS_rmdir), allow(SYS_unlink), allow(SYS_rename)];
/// The same by older names: none.
#[cfg(not(target_arch = "x86_64"))]
pub const WRITES_OLD: &[Rule] = &[];
