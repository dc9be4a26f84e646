//! A list as the kernel's classic BPF: for each rule, compare the number, then
//! the conditions, then return. The kernel itself remembers which calls are
//! allowed whatever their arguments, and does not run the program for these.

use super::{Answer, Rule};

const ARCH: u32 = if cfg!(target_arch = "aarch64") { 0xc000_00b7 } else { 0xc000_003e };
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

const KILL_PROCESS: u32 = 0x8000_0000;
const TRAP: u32 = 0x0003_0000;
const ERRNO: u32 = 0x0005_0000;
const ALLOW: u32 = 0x7fff_0000;

/// A program, each instruction a word: code, jump if true, jump if false, value
/// from the highest bits to the lowest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Vec<u64>);

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> u64 {
    u64::from(code) << 48 | u64::from(jt) << 40 | u64::from(jf) << 32 | u64::from(k)
}

fn returned(answer: Answer) -> u32 {
    match answer {
        Answer::Allow => ALLOW,
        Answer::Errno(e) => ERRNO | (e as u32 & 0xffff),
        Answer::Tell => TRAP,
        Answer::Kill => KILL_PROCESS,
    }
}

impl Program {
    /// Calls that no rule fits are told of and end the service.
    pub fn new(rules: &[Rule]) -> Self {
        let mut p = vec![
            instruction(LOAD, 0, 0, ARCH_AT),
            instruction(EQUAL, 1, 0, ARCH),
            // Numbers of another kind of machine mean other calls.
            instruction(RETURN, 0, 0, KILL_PROCESS),
            instruction(LOAD, 0, 0, NUMBER_AT),
        ];
        for rule in rules {
            let mut body = vec![];
            let conditions = rule.when.len() as u8;
            for (i, w) in rule.when.iter().enumerate() {
                let at = ARGUMENTS_AT + u32::from(w.argument) * 8 + if w.upper { 4 } else { 0 };
                body.push(instruction(LOAD, 0, 0, at));
                body.push(instruction(AND, 0, 0, w.mask));
                // Past the conditions left and the return.
                let left = (conditions - 1 - i as u8) * 3 + 1;
                body.push(instruction(EQUAL, 0, left, w.value));
            }
            body.push(instruction(RETURN, 0, 0, returned(rule.answer)));
            if conditions > 0 {
                body.push(instruction(LOAD, 0, 0, NUMBER_AT));
            }
            p.push(instruction(EQUAL, 0, body.len() as u8, rule.call));
            p.extend(body);
        }
        p.push(instruction(RETURN, 0, 0, returned(Answer::Tell)));
        Program(p)
    }

    /// Its instructions.
    pub fn words(self) -> Vec<u64> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::{When, lists};
    use super::*;
    use std::borrow::Cow;

    /// What the kernel would do with a call.
    fn run(p: &Program, arch: u32, call: u32, args: [u64; 6]) -> u32 {
        let (mut a, mut at) = (0u32, 0usize);
        for _ in 0..10_000 {
            let i = p.0[at];
            let (code, jt, jf, k) = ((i >> 48) as u16, (i >> 40) as u8, (i >> 32) as u8, i as u32);
            at += 1;
            match code {
                LOAD => {
                    a = match k {
                        NUMBER_AT => call,
                        ARCH_AT => arch,
                        k => {
                            let arg = args[((k - ARGUMENTS_AT) / 8) as usize];
                            if k % 8 == 4 { (arg >> 32) as u32 } else { arg as u32 }
                        }
                    }
                }
                AND => a &= k,
                EQUAL => at += usize::from(if a == k { jt } else { jf }),
                RETURN => return k,
                other => panic!("{other:x}"),
            }
        }
        panic!("it does not end")
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        const RULES: &[Rule] = &[
            Rule { call: 1, when: Cow::Borrowed(&[]), answer: Answer::Allow },
            Rule {
                call: 2,
                when: Cow::Borrowed(&[When::masked(1, 0b11, 0b01), When::is(0, 7), When::short(0)]),
                answer: Answer::Allow,
            },
            Rule { call: 2, when: Cow::Borrowed(&[]), answer: Answer::Errno(13) },
            Rule { call: 3, when: Cow::Borrowed(&[]), answer: Answer::Kill },
        ];
        let p = Program::new(RULES);
        let to = |call, a0, a1| run(&p, ARCH, call, [a0, a1, 0, 0, 0, 0]);
        assert_eq!(to(1, 0, 0), ALLOW);
        assert_eq!(to(2, 7, 0b101), ALLOW);
        assert_eq!(to(2, 7, 0b110), ERRNO | 13);
        assert_eq!(to(2, 8, 0b101), ERRNO | 13);
        assert_eq!(to(2, 7 | 1 << 32, 0b101), ERRNO | 13, "the upper half counts");
        assert_eq!(to(3, 0, 0), KILL_PROCESS);
        assert_eq!(to(4, 0, 0), TRAP);
        assert_eq!(run(&p, ARCH ^ 1, 1, [0; 6]), KILL_PROCESS);
    }

    #[test]
    fn the_lists_hold_what_they_say() {
        use libc::*;
        /// Newer than the C library's header.
        const PR_SET_MEMORY_MERGE: i32 = 67;
        let native = Program::new(&lists::native());
        let loading = Program::new(&lists::loading());
        let floor = Program::new(&lists::floor());
        let to = |p: &Program, call: c_long, args| run(p, ARCH, call as u32, args);
        let arg = |n: usize, v: i32| {
            let mut a = [0; 6];
            a[n] = v as u64;
            a
        };
        for p in [&native, &loading, &floor] {
            for call in
                [SYS_ptrace, SYS_execve, SYS_mount, SYS_bpf, SYS_io_uring_setup, SYS_unshare]
            {
                assert_eq!(to(p, call, [0; 6]), KILL_PROCESS, "{call}");
            }
            for call in [SYS_socket, SYS_kill, SYS_ftruncate, SYS_memfd_create, SYS_setuid] {
                assert_eq!(to(p, call, [0; 6]), TRAP, "{call}");
            }
            assert_eq!(to(p, SYS_clone3, [0; 6]), ERRNO | ENOSYS as u32);
            let set = |flags: i32| [3, F_SETFL as u64, flags as u64, 0, 0, 0];
            assert_eq!(to(p, SYS_fcntl, set(O_NONBLOCK)), ALLOW);
            assert_eq!(to(p, SYS_fcntl, set(0)), ERRNO | EINVAL as u32, "bells never wait");
            assert_eq!(to(p, SYS_clone, arg(0, 0x3d0f00)), ALLOW, "a thread");
            assert_eq!(to(p, SYS_clone, arg(0, SIGCHLD)), TRAP, "a fork");
            assert_eq!(to(p, SYS_clone, arg(0, 0x3d0f00 | CLONE_NEWNET)), TRAP);
            assert_eq!(to(p, SYS_futex, [0; 6]), ALLOW);
            for advice in [0, 1, 2, 3, 4, 8, 10, 11, 14, 15, 16, 17, 18, 19, 22, 23, 102, 103] {
                assert_eq!(to(p, SYS_madvise, arg(2, advice)), ALLOW, "{advice}");
            }
            assert_eq!(to(p, SYS_madvise, arg(2, MADV_MERGEABLE)), ERRNO | EPERM as u32);
            for advice in [MADV_UNMERGEABLE, MADV_REMOVE, MADV_PAGEOUT, MADV_HWPOISON, 104] {
                assert_eq!(to(p, SYS_madvise, arg(2, advice)), ERRNO | EINVAL as u32, "{advice}");
            }
            let merge_all = [PR_SET_MEMORY_MERGE as u64, 1, 0, 0, 0, 0];
            assert_eq!(to(p, SYS_prctl, merge_all), ERRNO | EINVAL as u32);
            assert_eq!(to(p, SYS_rt_sigaction, arg(0, SIGUSR1)), ALLOW);
            assert_eq!(to(p, SYS_rt_sigaction, arg(0, SIGSYS)), ERRNO | EPERM as u32);
            // The kernel takes the lower half alone for the signal.
            let odd = [1 << 32 | SIGSYS as u64, 0, 0, 0, 0, 0];
            assert_eq!(to(p, SYS_rt_sigaction, odd), ERRNO | EPERM as u32);
        }
        assert_eq!(to(&native, SYS_openat, arg(2, O_RDONLY | O_CLOEXEC)), ALLOW);
        for flags in [O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE] {
            assert_eq!(to(&native, SYS_openat, arg(2, flags)), ERRNO | EACCES as u32);
        }
        for call in [SYS_mmap, SYS_mprotect] {
            assert_eq!(to(&loading, call, arg(2, PROT_READ | PROT_EXEC)), ALLOW);
            assert_eq!(to(&native, call, arg(2, PROT_READ | PROT_EXEC)), TRAP);
            assert_eq!(to(&native, call, arg(2, PROT_READ | PROT_WRITE)), ALLOW);
        }
        assert_eq!(to(&floor, SYS_openat, [0; 6]), TRAP);
    }

    #[test]
    fn a_module_gets_files_and_code_only_while_it_is_compiled() {
        use libc::*;
        let (compiling, wasm) = (Program::new(&lists::compiling()), Program::new(&lists::wasm()));
        let to = |p: &Program, call: c_long, args| run(p, ARCH, call as u32, args);
        let arg = |i: usize, v: i32| {
            let mut args = [0u64; 6];
            args[i] = v as u64;
            args
        };
        assert_eq!(to(&compiling, SYS_openat, arg(2, O_RDONLY | O_CLOEXEC)), ALLOW);
        assert_eq!(to(&compiling, SYS_openat, arg(2, O_RDWR)), ERRNO | EACCES as u32);
        assert_eq!(to(&wasm, SYS_openat, arg(2, O_RDONLY | O_CLOEXEC)), ERRNO | EACCES as u32);
        assert_eq!(to(&wasm, SYS_openat2, [0; 6]), TRAP);
        for call in [SYS_mmap, SYS_mprotect] {
            assert_eq!(to(&compiling, call, arg(2, PROT_READ | PROT_EXEC)), ALLOW);
            assert_eq!(to(&wasm, call, arg(2, PROT_READ | PROT_EXEC)), TRAP);
            assert_eq!(to(&wasm, call, arg(2, PROT_READ | PROT_WRITE)), ALLOW);
        }
        for p in [&compiling, &wasm] {
            assert_eq!(to(p, SYS_execve, [0; 6]), KILL_PROCESS);
            assert_eq!(to(p, SYS_socket, [0; 6]), TRAP);
        }
    }

    #[test]
    fn a_kernel_gets_files_programs_and_code_only_while_it_is_built() {
        use libc::*;
        let (building, serving) =
            (Program::new(&lists::building()), Program::new(&lists::opencl()));
        let to = |p: &Program, call: c_long, args| run(p, ARCH, call as u32, args);
        let arg = |i: usize, v: i32| {
            let mut args = [0u64; 6];
            args[i] = v as u64;
            args
        };
        assert_eq!(to(&building, SYS_openat, arg(2, O_RDWR | O_CREAT)), ALLOW);
        assert_eq!(to(&building, SYS_execve, [0; 6]), ALLOW, "the linker");
        assert_eq!(to(&building, SYS_clone, arg(0, CLONE_VM | CLONE_VFORK | SIGCHLD)), ALLOW);
        assert_eq!(to(&building, SYS_clone, arg(0, SIGCHLD)), TRAP, "no other fork");
        assert_eq!(to(&building, SYS_mmap, arg(2, PROT_EXEC)), ALLOW);
        assert_eq!(to(&serving, SYS_openat, arg(2, O_RDONLY)), ERRNO | EACCES as u32);
        assert_eq!(to(&serving, SYS_openat2, [0; 6]), TRAP);
        assert_eq!(to(&serving, SYS_execve, [0; 6]), KILL_PROCESS);
        assert_eq!(to(&serving, SYS_clone, arg(0, CLONE_VM | CLONE_VFORK | SIGCHLD)), TRAP);
        assert_eq!(to(&serving, SYS_mmap, arg(2, PROT_EXEC)), TRAP);
        for p in [&building, &serving] {
            for call in [SYS_ptrace, SYS_mount, SYS_bpf, SYS_execveat] {
                assert_eq!(to(p, call, [0; 6]), KILL_PROCESS, "{call}");
            }
            assert_eq!(to(p, SYS_socket, [0; 6]), TRAP);
        }
    }

    #[test]
    fn submitted_modules_reach_no_file() {
        use libc::*;
        let (taking, submit) = (Program::new(&lists::taking()), Program::new(&lists::submit()));
        let to = |p: &Program, call: c_long, args| run(p, ARCH, call as u32, args);
        let exec = [0, 0, PROT_EXEC as u64, 0, 0, 0];
        for p in [&taking, &submit] {
            assert_eq!(to(p, SYS_mmap, exec), ALLOW, "code is made");
            assert_eq!(to(p, SYS_mprotect, exec), ALLOW);
            assert_eq!(to(p, SYS_openat, [0; 6]), ERRNO | EACCES as u32, "what libraries ask");
            for call in [SYS_openat2, SYS_socket, SYS_memfd_create, SYS_getdents64] {
                assert_eq!(to(p, call, [0; 6]), TRAP, "{call}");
            }
            assert_eq!(to(p, SYS_execve, [0; 6]), KILL_PROCESS);
        }
        // Once its code is taken, no more of it.
        assert_eq!(to(&Program::new(&lists::wasm()), SYS_mmap, exec), TRAP);
    }

    #[test]
    fn a_device_gets_its_requests_and_no_others() {
        use crate::devices::{Device, Requests};
        use libc::*;
        let ioctls = vec![
            Requests { mask: u32::MAX, value: 0x8004_5200 },
            Requests { mask: 0xff00, value: 0x6400 },
        ];
        let devices = [Device { path: "/dev/x".into(), ioctls }];
        let driver = vfun_supervise::Driver::Native { library: "/x".into() };
        let of = |devices: &[Device]| {
            let filters = super::super::filters(&driver, false, devices);
            [Program(filters.loading), Program(filters.serving)]
        };
        let to = |p: &Program, call: c_long, args| run(p, ARCH, call as u32, args);
        let ioctl = |p: &Program, request: u64| to(p, SYS_ioctl, [3, request, 0, 0, 0, 0]);
        let open = |p: &Program, flags: i32| to(p, SYS_openat, [0, 0, flags as u64, 0, 0, 0]);
        for p in &of(&devices) {
            for request in [0x8004_5200, 0x6400, 0xc010_6409, 0x1_0000_64ff] {
                assert_eq!(ioctl(p, request), ALLOW, "{request:x}");
            }
            for request in [0x4004_5201, 0x8004_5201, 0x5200, 0x5401, 0x65_00] {
                assert_eq!(ioctl(p, request), ERRNO | ENOTTY as u32, "{request:x}");
            }
            assert_eq!(open(p, O_RDWR | O_CLOEXEC), ALLOW);
            for flags in [O_RDWR | O_CREAT, O_WRONLY | O_TRUNC, O_TMPFILE | O_RDWR] {
                assert_eq!(open(p, flags), ERRNO | EACCES as u32);
            }
        }
        for p in &of(&[]) {
            assert_eq!(ioctl(p, 0x8004_5200), ERRNO | ENOTTY as u32);
            assert_eq!(open(p, O_RDWR), ERRNO | EACCES as u32);
        }
    }

    #[test]
    fn a_list_fits_a_packet() {
        use crate::constants::REQUESTS_MAX;
        use crate::devices::{Device, Requests};
        use vfun_supervise::Driver;
        let map = Box::new(vfun_supervise::Map {
            kernel: "k".into(),
            binary: false,
            options: String::new(),
            device: Default::default(),
            global: vec![],
            local: vec![],
            args: vec![],
            require: vec![],
            trial: Default::default(),
            copy: false,
        });
        let opencl = Driver::OpenCl { kernel: "/x".into(), signature: String::new(), map };
        for driver in [Driver::Native { library: "/x".into() }, opencl] {
            let requests = (0..REQUESTS_MAX as u32).map(|i| Requests { mask: u32::MAX, value: i });
            let device = Device { path: "/dev/x".into(), ioctls: requests.collect() };
            let filters = super::super::filters(&driver, false, &[device]);
            let bytes = serde_json::to_vec(&filters).unwrap().len();
            assert!(bytes < vfun_supervise::PACKET_BYTES / 2, "{bytes}");
        }
    }
}
