//! What a real guest gets from its host: windows, files, modules, the network,
//! and a window that is plugged in while it runs.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use crate::common::{SHORT, boot, eventually};
use serde_json::json;
use vfun_testguest::{Guest, GuestConfig, Window};

#[test]
fn windows_files_and_network() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let window = |name: &str, size: u64| {
        let path = dir.path().join(name);
        fs::File::create(&path).unwrap().set_len(size).unwrap();
        Window { path, size }
    };
    let windows = vec![window("one", 1 << 20), window("t,wo", 64 << 20)];
    let files = [dir.path().join("one"), dir.path().join("t,wo")]
        .map(|p| fs::File::options().read(true).write(true).open(p).unwrap());
    fs::create_dir(dir.path().join("tree")).unwrap();
    fs::write(dir.path().join("tree/x"), "in a tree").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let guest = boot(&GuestConfig {
        windows,
        net: true,
        hotplug_ports: 2,
        modules: vec!["bonding".into()],
        // A dynamic program, twice, and a folder.
        files: vec![
            (std::env::current_exe().unwrap(), "/opt/test/me".into()),
            ("/usr/bin/env".into(), "/usr/bin/env".into()),
            (dir.path().join("tree"), "/data".into()),
        ],
        ..GuestConfig::new("windows")
    });

    for (i, file) in files.iter().enumerate() {
        both_sides_see(&guest, i, file);
    }
    // Dynamic programs run, modules and trees are there.
    assert_eq!(guest.run_ok("/usr/bin/env -i A=1 /usr/bin/env", SHORT).unwrap(), "A=1");
    assert!(
        guest
            .run_ok("/opt/test/me --list", SHORT)
            .unwrap()
            .contains("windows_files_and_network: test")
    );
    assert_eq!(
        guest.run_ok("cat /data/x; grep -c ^bonding /proc/modules", SHORT).unwrap(),
        "in a tree1"
    );

    // The host's loopback is 10.0.2.2.
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = [0; 5];
        stream.read_exact(&mut line).unwrap();
        stream.write_all(b"answer\n").unwrap();
        line
    });
    let heard = guest.run_ok(&format!("echo hello | nc -w 10 10.0.2.2 {port}"), SHORT).unwrap();
    assert_eq!((heard.as_str(), &server.join().unwrap()), ("answer", b"hello"));

    hot_plug(&guest, &dir.path().join("later"));
    guest.kill();
}

/// What one side writes into a window the other one reads.
fn both_sides_see(guest: &Guest, i: usize, file: &fs::File) {
    let path = format!("/sys/bus/pci/devices/{}/resource2", Guest::window_bdf(i));
    let size: u64 = guest.run_ok(&format!("stat -c %s {path}"), SHORT).unwrap().parse().unwrap();
    assert_eq!(size, file.metadata().unwrap().len());
    file.write_all_at(b"from the host", 4096).unwrap();
    let address = guest
        .run_ok(
            &format!("set -- $(sed -n 3p {}); echo $1", path.replace("resource2", "resource")),
            SHORT,
        )
        .unwrap();
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
    // sysfs lets a BAR be mapped, not read; busybox maps /dev/mem.
    guest.run_ok(&format!("echo 1 >{}", path.replace("resource2", "enable")), SHORT).unwrap();
    let seen = guest
        .run_ok(&format!("for i in 0 8; do devmem $(({address} + 4096 + i)) 64; done"), SHORT)
        .unwrap();
    let words: Vec<u64> = seen
        .lines()
        .map(|l| u64::from_str_radix(l.trim_start_matches("0x"), 16).unwrap())
        .collect();
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert_eq!(&bytes[..13], b"from the host");
    let value = 0x1234_0000 + i as u32;
    guest.run_ok(&format!("devmem {} 32 {value:#x}", address + 8192), SHORT).unwrap();
    let mut word = [0; 4];
    file.read_exact_at(&mut word, 8192).unwrap();
    assert_eq!(u32::from_le_bytes(word), value);
}

/// A window of the largest size that is plugged in later, and out again.
fn hot_plug(guest: &Guest, path: &Path) {
    let size = 256u64 << 20;
    fs::File::create(path).unwrap().set_len(size).unwrap();
    let object = json!({"qom-type": "memory-backend-file", "id": "later", "size": size, "mem-path": path, "share": true});
    guest.qmp("object-add", object).unwrap();
    let device = json!({"driver": "ivshmem-plain", "id": "plugged", "memdev": "later", "bus": Guest::hotplug_bus(1)});
    guest.qmp("device_add", device).unwrap();
    let find = "for d in /sys/bus/pci/devices/*; do read -r v <$d/vendor; read -r c <$d/device; \
                [ $v$c = 0x1af40x1110 ] && stat -c %s $d/resource2; done; true";
    eventually("the new window is there", || {
        guest.run_ok(find, SHORT).unwrap().lines().any(|l| l == size.to_string())
    });
    guest.qmp("device_del", json!({"id": "plugged"})).unwrap();
    guest.wait_event("DEVICE_DELETED", |d| d["device"] == "plugged", SHORT).unwrap();
    guest.qmp("object-del", json!({"id": "later"})).unwrap();
}
