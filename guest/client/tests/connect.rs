//! Finding a host, and saying why not.

use crate::fake::{Fake, Setup};
use std::os::unix::fs::PermissionsExt;
use vfun::*;

#[test]
fn options_beyond_their_limits_are_named() {
    let e = ConnectOptions::new("bad name").connect().unwrap_err();
    assert!(e.to_string().contains("app's name 'bad name'"), "{e}");
    let e = ConnectOptions::new("a").client("../x").connect().unwrap_err();
    assert!(e.to_string().contains("client's name '../x'"), "{e}");
    let e = ConnectOptions::new("a").credential([0; 65]).connect().unwrap_err();
    assert!(e.to_string().contains("credential of 65 bytes"), "{e}");
}

#[test]
fn names_and_credentials_arrive() {
    let fake = Fake::honest();
    let s = fake.options().client("other").credential(b"secret").connect().unwrap();
    let q = fake.host.questions.lock().unwrap()[0];
    assert_eq!(vfun_wire::names::decode(&q.client).unwrap(), "other");
    assert_eq!((&q.credential[..6], q.credential_len.get(), q.remote), (&b"secret"[..], 6, 0));
    let h = fake.host.hellos.lock().unwrap()[0];
    assert_eq!(vfun_wire::names::decode(&h.app).unwrap(), "test");
    assert_eq!((&h.credential[..6], h.pid.get()), (&b"secret"[..], std::process::id()));
    drop(s);
}

#[test]
fn no_manager_and_no_device() {
    let dir = tempfile::tempdir().unwrap();
    let at = |e: Endpoint| {
        let options = ConnectOptions::new("a").pci_devices(dir.path()).module_devices(dir.path());
        options.endpoint(e).connect().unwrap_err()
    };
    let e = at(Endpoint::Host(Some(dir.path().join("host.sock"))));
    assert!(matches!(&e, Error::HostSocket { .. }) && e.advice().contains("Start vfund"), "{e}");
    let e = at(Endpoint::Ivshmem(None));
    assert!(matches!(e, Error::NoDevice(None)), "{e}");
    let e = at(Endpoint::Ivshmem(Some("00:04.0".into())));
    assert!(e.to_string().contains("at 00:04.0"), "{e}");
    let e = at(Endpoint::Module(None));
    assert!(matches!(e, Error::NoModule(None)) && e.advice().contains("modprobe vfun"), "{e}");
    let e = at(Endpoint::Module(Some("/dev/vfun99".into())));
    assert!(e.to_string().contains("/dev/vfun99 is not in this machine"), "{e}");
    let e = at(Endpoint::Tcp("127.0.0.1:1".into()));
    assert!(matches!(e, Error::Gateway { .. }), "{e}");
}

#[test]
fn windows_in_pci_devices() {
    let fake = Fake::new(Setup { doorbell: false, ..Setup::default() });
    let connect =
        |at: Option<&str>| fake.options().endpoint(Endpoint::Ivshmem(at.map(Into::into))).connect();
    for at in [None, Some("0000:00:04.0"), Some("00:04.0")] {
        assert!(connect(at).unwrap().describe().starts_with("ivshmem (0000:00:04.0)"));
    }
    assert!(matches!(connect(Some("00:05.0")), Err(Error::NoDevice(Some(_)))));

    // Another ivshmem device that holds no window is passed over.
    let other = fake.pci().join("0000:00:05.0");
    std::fs::create_dir(&other).unwrap();
    for file in ["vendor", "device"] {
        std::fs::copy(fake.pci().join("0000:00:04.0").join(file), other.join(file)).unwrap();
    }
    std::fs::write(other.join("resource2"), vec![0; 1 << 20]).unwrap();
    connect(None).unwrap();
    let e = connect(Some("00:05.0")).unwrap_err();
    assert!(
        matches!(&e, Error::NotAWindow { .. }) && e.to_string().contains("no VirtFun window here"),
        "{e}"
    );

    // Two that do: one must be named.
    std::fs::remove_file(other.join("resource2")).unwrap();
    std::os::unix::fs::symlink(fake.pci().join("0000:00:04.0/resource2"), other.join("resource2"))
        .unwrap();
    let e = connect(None).unwrap_err();
    assert!(matches!(&e, Error::SeveralWindows(all) if all.len() == 2), "{e}");
    assert!(e.advice().contains("ivshmem:PCIADDRESS"));
    connect(Some("00:05.0")).unwrap();
}

#[test]
fn a_device_that_may_not_be_opened() {
    let fake = Fake::new(Setup { doorbell: false, ..Setup::default() });
    let bar = fake.pci().join("0000:00:04.0/resource2");
    std::fs::set_permissions(&bar, std::fs::Permissions::from_mode(0o400)).unwrap();
    match fake.options().connect() {
        Err(e) => {
            assert!(
                matches!(&e, Error::Device { .. }) && e.to_string().contains("resource2"),
                "{e}"
            );
            assert!(e.advice().contains("Run as root"), "{}", e.advice());
        }
        // Root may open anything.
        Ok(_) => assert!(std::fs::OpenOptions::new().write(true).open(&bar).is_ok()),
    }
    std::fs::remove_file(&bar).unwrap();
    std::fs::create_dir(&bar).unwrap();
    assert!(matches!(fake.options().connect(), Err(Error::Device { .. })));
}

#[test]
fn a_device_that_a_driver_holds_is_said_to_be() {
    let fake = Fake::new(Setup { pci: true, ..Setup::default() });
    let device = fake.pci().join("0000:00:04.0");
    drop(fake.connect());
    // What Linux says of a BAR that a driver holds, by a file that cannot be mapped.
    std::fs::remove_file(device.join("resource0")).unwrap();
    std::fs::create_dir(device.join("resource0")).unwrap();
    assert!(matches!(fake.options().connect(), Err(Error::Device { .. })));
    std::os::unix::fs::symlink("/sys/bus/pci/drivers/vfun", device.join("driver")).unwrap();
    let e = fake.options().connect().unwrap_err();
    assert!(matches!(&e, Error::DeviceHeld { driver, .. } if driver == "vfun"), "{e}");
    assert!(e.advice().contains("the endpoint 'module'"), "{}", e.advice());
}

#[test]
fn several_windows_are_told_apart_by_their_client() {
    let fake = Fake::new(Setup { doorbell: false, ..Setup::default() });
    let (one, other) = (fake.pci().join("0000:00:04.0"), fake.pci().join("0000:00:05.0"));
    std::fs::create_dir(&other).unwrap();
    for file in ["vendor", "device"] {
        std::fs::copy(one.join(file), other.join(file)).unwrap();
    }
    // The same window, but for its client's name.
    let mut copy = std::fs::read(one.join("resource2")).unwrap();
    let at = copy.windows(4).position(|w| w == b"vm1\0").unwrap();
    copy[at..at + 3].copy_from_slice(b"vm2");
    std::fs::write(other.join("resource2"), copy).unwrap();
    assert!(matches!(fake.options().connect(), Err(Error::SeveralWindows(all)) if all.len() == 2));
    let session = fake.options().client("vm1").connect().unwrap();
    assert!(session.describe().starts_with("ivshmem (0000:00:04.0)"));
    assert!(matches!(fake.options().client("vm3").connect(), Err(Error::NoDevice(None))));
}
