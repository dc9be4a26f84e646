//! What the lists of each kind say, and what stands in a service's first message.

use super::*;
use libc::*;
use vfun_jail::constants::REQUESTS_MAX;
use vfun_jail::devices::Requests;
use vfun_jail::seccomp::Answer::{Allow, Errno, Kill, Tell};
use vfun_jail::seccomp::answer as to;

/// A call's arguments of which one is not 0.
fn arg(n: usize, value: i32) -> [u64; 6] {
    let mut all = [0; 6];
    all[n] = value as u64;
    all
}

fn drivers() -> [Driver; 10] {
    let map = vfun_kernelmap::Map {
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
    };
    let sha256 = "0".repeat(64);
    [
        Driver::Native { library: "/x".into() },
        Driver::Wasm { module: "/x".into(), memory_bytes: 1 << 20 },
        Driver::Submitted { sha256, memory_bytes: 1 << 20, code: None },
        Driver::Submit,
        Driver::OpenCl { kernel: "/x".into(), signature: String::new(), map: Box::new(map) },
        Driver::Verbs,
        Driver::Floor,
        Driver::Mirror,
        Driver::Bond,
        Driver::Ports,
    ]
}

#[test]
fn every_kind_has_a_program_and_a_first_list() {
    for driver in drivers() {
        let kind = of(&driver);
        assert!(kind.program.name.starts_with("vfun-service"), "{driver:?}");
        assert!(!filters(&driver, false, false, &[]).loading.is_empty(), "{driver:?}");
        let declared = DECLARED.iter().any(|k| k.word == kind.word);
        let built_in = matches!(driver, Driver::Bond | Driver::Ports);
        assert_eq!(declared, !built_in, "{driver:?}");
        assert_eq!(reads(&driver).contains(&"/x".into()), file(&driver).is_some(), "{driver:?}");
    }
    assert!(named("magic").is_err_and(|e| {
        e.ends_with(
            "is not one of \"native\", \"wasm\", \"opencl\", \"verbs\", \"floor\", \"mirror\"",
        )
    }));
}

#[test]
fn every_kind_serves_some_channels_two_serve_queues_and_one_packets() {
    for driver in drivers() {
        let channels = of(&driver).channels;
        assert!(!channels.is_empty(), "{driver:?}");
        let queues = channels.contains(&ChannelKind::Queues);
        assert_eq!(queues, matches!(driver, Driver::Mirror | Driver::Verbs), "{driver:?}");
        let packets = channels.contains(&ChannelKind::Packets);
        assert_eq!(packets, driver == Driver::Ports, "{driver:?}");
        assert!(
            !queues || channels.contains(&ChannelKind::Calls),
            "calls say what queues there are"
        );
    }
}

#[test]
fn bond_and_ports_are_for_administrators_of_a_vm_and_their_lists_are_that_of_floor() {
    for driver in drivers() {
        let (kind, bond) = (of(&driver), driver == Driver::Bond);
        let network = bond || driver == Driver::Ports;
        assert_eq!((kind.needs == Features::NET_ADMIN, kind.one_per_vm), (network, bond));
    }
    let [bond, ports, floor] = [Driver::Bond, Driver::Ports, Driver::Floor]
        .map(|d| lists(&d, false, false, &[])[0].clone());
    for (word, list) in [("bond", &bond), ("ports", &ports)] {
        assert!(named(word).is_err(), "no manifest declares {word}");
        for call in 0..512 {
            let calls = [to(list, call, [0; 6]), to(&floor, call, [0; 6])];
            let same = call == SYS_openat || calls[0] == calls[1];
            assert!(same, "{word}, {call}: {calls:?}");
        }
        assert_eq!(to(list, SYS_openat, [0; 6]), Errno(EACCES));
    }
    // A tap device is read, written and waited for; it is asked how it was opened, and told of offloads.
    for call in [SYS_read, SYS_write, SYS_epoll_ctl, SYS_epoll_pwait2] {
        assert_eq!(to(&ports, call, [0; 6]), Allow, "{call}");
    }
    let asks = |list, request| to(list, SYS_ioctl, [3, request, 0, 0, 0, 0]);
    assert_eq!(asks(&ports, 0x4004_54ca), Errno(ENOTTY), "TUNSETIFF");
    for request in [0x8004_54d2, 0x4004_54d0] {
        assert_eq!((asks(&ports, request), asks(&bond, request)), (Allow, Errno(ENOTTY)));
    }
    assert_eq!(to(&ports, SYS_socket, [0; 6]), Tell);
}

#[test]
fn the_lists_hold_what_they_say() {
    /// Newer than the C library's header.
    const PR_SET_MEMORY_MERGE: i32 = 67;
    let (native, loading) = ((native::KIND.serving)(), (native::KIND.loading)());
    let floor = (floor::KIND.loading)();
    for p in [&native, &loading, &floor] {
        for call in [SYS_ptrace, SYS_execve, SYS_mount, SYS_bpf, SYS_io_uring_setup, SYS_unshare] {
            assert_eq!(to(p, call, [0; 6]), Kill, "{call}");
        }
        for call in [SYS_socket, SYS_kill, SYS_ftruncate, SYS_memfd_create, SYS_setuid] {
            assert_eq!(to(p, call, [0; 6]), Tell, "{call}");
        }
        assert_eq!(to(p, SYS_clone3, [0; 6]), Errno(ENOSYS));
        let set = |flags: i32| [3, F_SETFL as u64, flags as u64, 0, 0, 0];
        assert_eq!(to(p, SYS_fcntl, set(O_NONBLOCK)), Allow);
        assert_eq!(to(p, SYS_fcntl, set(0)), Errno(EINVAL), "bells never wait");
        assert_eq!(to(p, SYS_clone, arg(0, 0x3d0f00)), Allow, "a thread");
        assert_eq!(to(p, SYS_clone, arg(0, SIGCHLD)), Tell, "a fork");
        assert_eq!(to(p, SYS_clone, arg(0, 0x3d0f00 | CLONE_NEWNET)), Tell);
        assert_eq!(to(p, SYS_futex, [0; 6]), Allow);
        for advice in [0, 1, 2, 3, 4, 8, 10, 11, 14, 15, 16, 17, 18, 19, 22, 23, 102, 103] {
            assert_eq!(to(p, SYS_madvise, arg(2, advice)), Allow, "{advice}");
        }
        assert_eq!(to(p, SYS_madvise, arg(2, MADV_MERGEABLE)), Errno(EPERM));
        for advice in [MADV_UNMERGEABLE, MADV_REMOVE, MADV_PAGEOUT, MADV_HWPOISON, 104] {
            assert_eq!(to(p, SYS_madvise, arg(2, advice)), Errno(EINVAL), "{advice}");
        }
        let merge_all = [PR_SET_MEMORY_MERGE as u64, 1, 0, 0, 0, 0];
        assert_eq!(to(p, SYS_prctl, merge_all), Errno(EINVAL));
        assert_eq!(to(p, SYS_rt_sigaction, arg(0, SIGUSR1)), Allow);
        assert_eq!(to(p, SYS_rt_sigaction, arg(0, SIGSYS)), Errno(EPERM));
        // The kernel takes the lower half alone for the signal.
        let odd = [1 << 32 | SIGSYS as u64, 0, 0, 0, 0, 0];
        assert_eq!(to(p, SYS_rt_sigaction, odd), Errno(EPERM));
    }
    assert_eq!(to(&native, SYS_openat, arg(2, O_RDONLY | O_CLOEXEC)), Allow);
    for flags in [O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE] {
        assert_eq!(to(&native, SYS_openat, arg(2, flags)), Errno(EACCES));
    }
    for call in [SYS_mmap, SYS_mprotect] {
        assert_eq!(to(&loading, call, arg(2, PROT_READ | PROT_EXEC)), Allow);
        assert_eq!(to(&native, call, arg(2, PROT_READ | PROT_EXEC)), Tell);
        assert_eq!(to(&native, call, arg(2, PROT_READ | PROT_WRITE)), Allow);
    }
    assert_eq!(to(&floor, SYS_openat, [0; 6]), Tell);
}

#[test]
fn a_module_gets_files_and_code_only_while_it_is_compiled() {
    let (compiling, wasm) = ((wasm::KIND.loading)(), (wasm::KIND.serving)());
    assert_eq!(to(&compiling, SYS_openat, arg(2, O_RDONLY | O_CLOEXEC)), Allow);
    assert_eq!(to(&compiling, SYS_openat, arg(2, O_RDWR)), Errno(EACCES));
    assert_eq!(to(&wasm, SYS_openat, arg(2, O_RDONLY | O_CLOEXEC)), Errno(EACCES));
    assert_eq!(to(&wasm, SYS_openat2, [0; 6]), Tell);
    for call in [SYS_mmap, SYS_mprotect] {
        assert_eq!(to(&compiling, call, arg(2, PROT_READ | PROT_EXEC)), Allow);
        assert_eq!(to(&wasm, call, arg(2, PROT_READ | PROT_EXEC)), Tell);
        assert_eq!(to(&wasm, call, arg(2, PROT_READ | PROT_WRITE)), Allow);
    }
    for p in [&compiling, &wasm] {
        assert_eq!(to(p, SYS_execve, [0; 6]), Kill);
        assert_eq!(to(p, SYS_socket, [0; 6]), Tell);
    }
}

#[test]
fn a_kernel_gets_files_programs_and_code_only_while_it_is_built() {
    let (building, serving) = ((opencl::KIND.loading)(), (opencl::KIND.serving)());
    assert_eq!(to(&building, SYS_openat, arg(2, O_RDWR | O_CREAT)), Allow);
    assert_eq!(to(&building, SYS_execve, [0; 6]), Allow, "the linker");
    assert_eq!(to(&building, SYS_clone, arg(0, CLONE_VM | CLONE_VFORK | SIGCHLD)), Allow);
    assert_eq!(to(&building, SYS_clone, arg(0, SIGCHLD)), Tell, "no other fork");
    assert_eq!(to(&building, SYS_mmap, arg(2, PROT_EXEC)), Allow);
    assert_eq!(to(&serving, SYS_openat, arg(2, O_RDONLY)), Errno(EACCES));
    assert_eq!(to(&serving, SYS_openat2, [0; 6]), Tell);
    assert_eq!(to(&serving, SYS_execve, [0; 6]), Kill);
    assert_eq!(to(&serving, SYS_clone, arg(0, CLONE_VM | CLONE_VFORK | SIGCHLD)), Tell);
    assert_eq!(to(&serving, SYS_mmap, arg(2, PROT_EXEC)), Tell);
    for p in [&building, &serving] {
        for call in [SYS_ptrace, SYS_mount, SYS_bpf, SYS_execveat] {
            assert_eq!(to(p, call, [0; 6]), Kill, "{call}");
        }
        assert_eq!(to(p, SYS_socket, [0; 6]), Tell);
    }
}

#[test]
fn submitted_modules_reach_no_file() {
    let (taking, submit) = ((wasm::SUBMITTED.loading)(), (wasm::SUBMIT.serving)());
    let exec = [0, 0, PROT_EXEC as u64, 0, 0, 0];
    for p in [&taking, &submit] {
        assert_eq!(to(p, SYS_mmap, exec), Allow, "code is made");
        assert_eq!(to(p, SYS_mprotect, exec), Allow);
        assert_eq!(to(p, SYS_openat, [0; 6]), Errno(EACCES), "what libraries ask");
        for call in [SYS_openat2, SYS_socket, SYS_memfd_create, SYS_getdents64] {
            assert_eq!(to(p, call, [0; 6]), Tell, "{call}");
        }
        assert_eq!(to(p, SYS_execve, [0; 6]), Kill);
    }
    // Once its code is taken, no more of it.
    assert_eq!(to(&(wasm::SUBMITTED.serving)(), SYS_mmap, exec), Tell);
}

#[test]
fn a_device_gets_its_requests_and_no_others() {
    let ioctls = vec![
        Requests { mask: u32::MAX, value: 0x8004_5200 },
        Requests { mask: 0xff00, value: 0x6400 },
    ];
    let devices = [Device { path: "/dev/x".into(), ioctls }];
    let ioctl = |p: &[Rule], request: u64| to(p, SYS_ioctl, [3, request, 0, 0, 0, 0]);
    let open = |p: &[Rule], flags: i32| to(p, SYS_openat, arg(2, flags));
    let [native, _, _, _, opencl, ..] = drivers();
    for p in lists(&native, false, false, &devices) {
        for request in [0x8004_5200, 0x6400, 0xc010_6409, 0x1_0000_64ff] {
            assert_eq!(ioctl(&p, request), Allow, "{request:x}");
        }
        for request in [0x4004_5201, 0x8004_5201, 0x5200, 0x5401, 0x65_00] {
            assert_eq!(ioctl(&p, request), Errno(ENOTTY), "{request:x}");
        }
        assert_eq!(open(&p, O_RDWR | O_CLOEXEC), Allow);
        for flags in [O_RDWR | O_CREAT, O_WRONLY | O_TRUNC, O_TMPFILE | O_RDWR] {
            assert_eq!(open(&p, flags), Errno(EACCES));
        }
    }
    for p in lists(&native, false, false, &[]) {
        assert_eq!(ioctl(&p, 0x8004_5200), Errno(ENOTTY));
        assert_eq!(open(&p, O_RDWR), Errno(EACCES));
    }
    // A kernel's service opens them while the kernel is built, and asks them for ever.
    let [building, serving] = lists(&opencl, false, false, &devices);
    assert_eq!((open(&building, O_RDWR), open(&serving, O_RDWR)), (Allow, Errno(EACCES)));
    assert_eq!(ioctl(&serving, 0x6400), Allow);
}

#[test]
fn code_is_made_while_serving_only_where_kind_and_manifest_say_so() {
    let [native, wasm, _, _, opencl, ..] = drivers();
    assert!(filters(&native, true, false, &[]).serving.is_empty());
    for driver in [wasm, opencl] {
        assert!(!filters(&driver, true, false, &[]).serving.is_empty(), "{driver:?}");
    }
}

#[test]
fn a_list_fits_a_packet() {
    for driver in drivers() {
        let requests = (0..REQUESTS_MAX as u32).map(|i| Requests { mask: u32::MAX, value: i });
        let device = Device { path: "/dev/x".into(), ioctls: requests.collect() };
        let bytes = serde_json::to_vec(&filters(&driver, false, false, &[device])).unwrap().len();
        assert!(bytes < vfun_supervise::PACKET_BYTES / 2, "{bytes}");
    }
}

#[test]
fn only_a_driver_with_folders_of_its_own_makes_files() {
    let native = Driver::Native { library: "/x".into() };
    let create = [0, 0, (O_CREAT | O_RDWR) as u64, 0, 0, 0];
    for p in lists(&native, false, true, &[]) {
        assert_eq!(to(&p, SYS_openat, create), Allow);
        assert_eq!(to(&p, SYS_fcntl, arg(1, F_SETLKW)), Allow);
        assert_eq!(to(&p, SYS_unlinkat, [0; 6]), Allow);
        for call in [SYS_linkat, SYS_symlinkat, SYS_mknodat, SYS_fchownat] {
            assert_eq!(to(&p, call, [0; 6]), Tell, "{call}");
        }
    }
    for p in lists(&native, false, false, &[]) {
        assert_eq!(to(&p, SYS_openat, create), Errno(EACCES));
        assert_eq!(to(&p, SYS_unlinkat, [0; 6]), Tell);
    }
    for driver in drivers().into_iter().filter(|d| *d != native) {
        assert_eq!(lists(&driver, false, true, &[]), lists(&driver, false, false, &[]));
    }
}
