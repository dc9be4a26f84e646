//! A host: its tree of devices, and the programs that change it.

use super::write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

pub struct Host {
    dir: PathBuf,
}

/// Makes and removes taps. It is killed with its parent where a test asks for that.
const IP: &str = r#"
net=@DIR@/sys/class/net
echo "$*" >> @DIR@/ip-calls
case "$*" in
    "-batch -") while read -r line; do "$0" $line || exit; done ;;
    "link set dev "*" alias "*) echo "$6" > "$net/$4/ifalias" ;;
    "tuntap add dev "*) mkdir -p "$net/$4/statistics"; echo 0x1002 > "$net/$4/tun_flags"
        echo 0 > "$net/$4/statistics/rx_packets"; echo 0 > "$net/$4/statistics/tx_packets" ;;
    "link del dev "*) rm -r "$net/$4" ;;
    "link set dev "*) [ ! -e @DIR@/ip-fails ] || { cat @DIR@/ip-fails >&2; exit 2; } ;;
    "-j addr show dev "*) cat "@DIR@/addresses-$5" 2>/dev/null || echo '[]' ;;
    "-s -j link show dev "*) cat @DIR@/vf-counts 2>/dev/null || echo '[]' ;;
esac
"#;

impl Host {
    /// With a bridge `br0` and the taps `pv0`, `pv1` ...
    pub fn new(dir: &Path, taps: usize) -> Self {
        let host = Host { dir: dir.to_owned() };
        let net = host.sys().join("class/net");
        write(&net.join("br0/bridge/vlan_filtering"), "0\n");
        for n in 0..taps {
            let tap = net.join(format!("pv{n}"));
            write(&tap.join("tun_flags"), "0x1002\n");
            write(&tap.join("statistics/rx_packets"), "0\n");
            write(&tap.join("statistics/tx_packets"), "0\n");
            symlink("../br0", tap.join("master")).unwrap();
        }
        host.program("ip", IP);
        host.program("tc", "echo '[]'");
        host.program("bridge", "echo '[]'");
        host.program("nft", "true");
        host
    }

    pub fn sys(&self) -> PathBuf {
        self.dir.join("sys")
    }

    /// PATH for the program.
    pub fn path(&self) -> String {
        format!("{}:/usr/bin:/bin", self.dir.join("bin").display())
    }

    /// Puts a script in the place of a program.
    pub fn program(&self, name: &str, script: &str) {
        let path = self.dir.join("bin").join(name);
        let dir = self.dir.to_str().unwrap();
        // Never half written: the program may be started at any time.
        let part = path.with_extension("part");
        write(&part, &format!("#!/bin/sh\n{}\n", script.replace("@DIR@", dir)));
        std::fs::set_permissions(&part, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(&part, &path).unwrap();
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}
