//! The packages in a guest of Debian's own: its kernel, its udev, its DKMS, its
//! package manager. What a user does is done here by the same commands; only
//! the init system is a small one of the tests, which starts udev as Debian's
//! does (a whole boot by systemd takes minutes in an emulated machine).

use vfun_admin::Transport;
use vfun_testguest::{Guest, GuestConfig, RunOutput, Window};
use vfun_tests_conform::declare;
use vfun_tests_local::Stand;
use vfun_tests_vm::debian::debian_config;
use vfun_tests_vm::module::{doorbell_client, healthy};
use vfun_tests_vm::users::as_user;
use vfun_tests_vm::{LONG, boot};

struct Place {
    stand: Stand,
    guest: Guest,
}

impl Place {
    fn new() -> Place {
        let stand = Stand::start();
        let window = doorbell_client(&stand, "vm1", "");
        let pmem = declare(&stand, "vm2", Transport::Pmem);
        let size = Transport::Pmem.row().origin + pmem.window_bytes;
        let pmem = Window { path: pmem.window_file.expect("a file"), size };
        let pmems = vec![pmem];
        let guest = boot(&GuestConfig { pmems, ..debian_config("debian", vec![window]) });
        println!("Debian is up after {:?}", guest.boot_time());
        Place { stand, guest }
    }

    fn root(&self, script: &str) -> String {
        self.guest.run_ok(script, LONG).unwrap_or_else(|e| self.fail(&e))
    }

    fn run(&self, script: &str) -> RunOutput {
        self.guest.run(script, LONG).unwrap_or_else(|e| self.fail(&e))
    }

    fn fail(&self, e: &dyn std::fmt::Display) -> ! {
        let log = self.guest.run("dmesg | tail -n 30", LONG).map(|o| o.text()).unwrap_or_default();
        panic!(
            "{e}\n--- kernel\n{log}\n--- console\n{}\n--- vfund\n{}",
            self.guest.console(),
            self.stand.log()
        )
    }
}

#[test]
fn the_packages_install_work_and_go_in_debians_own_system() {
    let p = Place::new();

    // This is Debian's own shell with its own tools, not busybox's.
    assert_eq!(
        p.root("readlink -f /proc/$$/exe; readlink -f $(command -v modprobe)"),
        "/usr/bin/dash\n/usr/bin/kmod"
    );

    // DKMS built it for the kernel that runs, and the device's alias loaded it.
    let kernel = p.root("uname -r");
    let built = p.root("dkms status");
    assert!(built.contains(&kernel) && built.ends_with(": installed"), "{built}");
    let loaded = p.root("modinfo -F filename vfun; ls /sys/bus/pci/drivers/vfun");
    assert!(loaded.contains(&format!("/lib/modules/{kernel}/updates/dkms/vfun.ko")), "{loaded}");
    assert!(loaded.contains(&Guest::doorbell_bdf(0)), "{loaded}");

    // The package's group, and udev's rule with it.
    assert_eq!(p.root("stat -c '%G %a' /dev/vfun0"), "vfun 660");

    // As the documents say it: who is to call joins the group.
    p.root("useradd --create-home app && usermod --append --groups vfun app");
    p.root("useradd --create-home stranger");
    assert_eq!(p.root(&as_user("app", "vfun call factorial 20")), "2432902008176640000");
    let doctor = p.run(&as_user("app", "vfun doctor"));
    let said = doctor.text();
    assert_eq!(doctor.status, 0, "{said}");
    assert!(said.contains("mode 660, group vfun"), "{said}");
    let out = p.run(&as_user("stranger", "vfun call factorial 20 2>&1"));
    let said = out.text();
    assert!(out.status == 5 && said.contains("usermod -aG vfun"), "{}: {said}", out.status);

    // Udev loaded what a window in persistent memory needs, too.
    let path = p.root("VFUN_ENDPOINT=pmem vfun call factorial 20 2>&1");
    assert!(path.contains("2432902008176640000"), "{path}");
    let said = p.root("VFUN_ENDPOINT=pmem vfun call null '' 2>&1");
    assert!(said.contains("pmem (/dev/dax0.0): client vm2"), "{said}");

    // Removed while it is there: the device is free again, nothing is left.
    p.root("DEBIAN_FRONTEND=noninteractive apt-get -qq -y remove virtfun-cli virtfun-guest-dkms libvfun0");
    let left = p.root(
        "ls -d /dev/vfun* /sys/module/vfun /usr/src/virtfun-* /var/lib/dkms/virtfun \
         /usr/bin/vfun /usr/lib/*/libvfun.so* /usr/lib/udev/rules.d/60-vfun.rules 2>/dev/null; \
         find /lib/modules -name 'vfun.ko*'; grep -h vfun /lib/modules/*/modules.alias; \
         dkms status",
    );
    assert_eq!(left, "");
    p.stand.until("the sessions given back", |s| s.totals().1 == 0);
    healthy(&p.guest);
}
