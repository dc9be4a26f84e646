//! Which manifests are taken, and what is said of the others.

use super::*;
use vfun_supervise::Driver;
use vfun_wire::message::Location;

fn f(text: &str) -> Result<Function, String> {
    function(Path::new("f.toml"), text, Path::new("/nowhere"), 1).map_err(|e| e.to_string())
}
fn c(text: &str) -> Result<Client, String> {
    client(Path::new("c.toml"), text, 1).map_err(|e| e.to_string())
}

#[test]
fn codes_of_a_functions_own_have_meanings() {
    let floor = "name = \"x\"\nversion = \"1.0\"\nkind = \"floor\"\n[codes]\n";
    let of = |codes: &str| f(&format!("{floor}{codes}")).map(|f| f.codes);
    let two = of("1 = \"no point is near enough\"\n-3 = \"not a point\"\n").unwrap();
    let expected = [(-3, "not a point"), (1, "no point is near enough")];
    assert!(two.iter().map(|(n, text)| (*n, text.as_str())).eq(expected));
    let many: String = (1..=CODES_MAX + 1).map(|n| format!("{n} = \"x\"\n")).collect();
    for (codes, expect) in [
        ("0 = \"well\"", "f.toml:5: codes: '0' is no code"),
        ("1 = \"x\"\n-1 = \"a bug\"", "f.toml:6: codes: '-1' is no code"),
        ("-2 = \"x\"", "'-2' is no code"),
        ("-4 = \"x\"", "'-4' is no code"),
        ("one = \"x\"", "'one' is no code"),
        ("99999999999 = \"x\"", "is no code"),
        ("01 = \"x\"", "'01' is no code"),
        ("1 = \"\"", "f.toml:5: codes: a meaning is one line"),
        ("1 = \"a\\nb\"", "a meaning is one line"),
        ("1 = 2", "f.toml:5: invalid type"),
        (many.as_str(), "at most 64 codes"),
    ] {
        let e = of(codes).unwrap_err();
        assert!(e.contains(expect), "{e} should say {expect}");
    }
}

#[test]
fn devices_are_below_dev_and_their_requests_are_numbers() {
    let with = |kind: &str, device: &str| {
        f(&format!("name = \"x\"\nversion = \"1.0\"\nkind = \"{kind}\"\n[[devices]]\n{device}\n"))
    };
    for (device, expect) in [
        ("path = \"/etc/passwd\"", "f.toml:5: devices: /etc/passwd is no path below /dev"),
        ("path = \"/dev/../etc/x\"", "is no path below /dev"),
        ("ioctls = []", "missing field `path`"),
        ("path = \"/dev/x\"\nioctls = [\"all\"]", "f.toml:6: 'all' is no request"),
        ("path = \"/dev/x\"", "kind \"floor\" opens no device"),
    ] {
        let e = with("floor", device).unwrap_err();
        assert!(e.contains(expect), "{e} should say {expect}");
    }
}

#[test]
fn wrong_functions_are_refused_with_file_line_and_reason() {
    let floor = "name = \"floor\"\nversion = \"1.0\"\nkind = \"floor\"\n";
    assert_eq!(f(floor).unwrap().software, Some(Driver::Floor));
    for (text, expect) in [
        ("name = \"x\"\nversion = \"1\"\n", "f.toml:2: '1' is not a version"),
        ("name = \"x/y\"\nversion = \"1.0\"\n", "f.toml:1: name 'x/y'"),
        ("name = \"x\"\nversion = \"1.0\"\ncolour = 3\n", "f.toml:3: unknown field"),
        (
            "name = \"x\"\nversion = \"1.0\"\n\nlibrary = \"l.so\"\n",
            "f.toml:4: there is no driver library /nowhere/l.so",
        ),
        ("name = \"x\"\nversion = \"1.0\"\n", "f.toml: a native function needs `library`"),
        ("name = \"x\"\nversion = \"1.0\"\nkind = \"magic\"\n", "f.toml:3: kind \"magic\""),
        ("name = 7\nversion = \"1.0\"\n", "f.toml:1: invalid type"),
        ("version = \"1.0\"\n", "missing field `name`"),
        ("name = \"x\"\nversion", "f.toml:2:"),
    ] {
        let e = f(text).unwrap_err();
        assert!(e.contains(expect), "{e} should say {expect}");
    }
    let e = f(&format!("{floor}deadline_ms = 0\n")).unwrap_err();
    assert!(e.starts_with("f.toml:4: a deadline is"), "{e}");
}

#[test]
fn a_module_is_looked_at_before_it_is_offered() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("m.wasm"), b"\0asm\x01\0\0\0and more").unwrap();
    std::fs::write(dir.path().join("text.wasm"), "(module)").unwrap();
    let f = |more: &str| {
        let text = format!("name = \"x\"\nversion = \"1.0\"\nkind = \"wasm\"\n{more}");
        function(Path::new("f.toml"), &text, dir.path(), 1).map_err(|e| e.to_string())
    };
    let wasm =
        |memory_bytes| Some(Driver::Wasm { module: dir.path().join("m.wasm"), memory_bytes });
    assert_eq!(
        f("library = \"m.wasm\"\n").unwrap().software,
        wasm(vfun_kinds::limits::WASM_MEMORY_DEFAULT)
    );
    let sized = f("library = \"m.wasm\"\nmemory = \"2 MiB\"\n").unwrap();
    assert_eq!(sized.software, wasm(2 << 20));
    for (more, expect) in [
        ("", "f.toml: a function of kind \"wasm\" needs `library`"),
        ("library = \"no.wasm\"\n", "f.toml:4: there is no driver library"),
        ("library = \"text.wasm\"\n", "is not a WebAssembly module"),
        ("library = \"m.wasm\"\nmemory = \"1 KiB\"\n", "f.toml:5: the memory of a module"),
        ("library = \"m.wasm\"\nmemory = \"9 GiB\"\n", "f.toml:5: the memory of a module"),
        ("library = \"m.wasm\"\nmemory = \"much\"\n", "f.toml:5: "),
    ] {
        let e = f(more).unwrap_err();
        assert!(e.contains(expect), "{e} should say {expect}");
    }
    let native = "name = \"x\"\nversion = \"1.0\"\nlibrary = \"m.wasm\"\nmemory = \"1 MiB\"\n";
    let e = function(Path::new("f.toml"), native, dir.path(), 1).unwrap_err().to_string();
    assert!(e.starts_with("f.toml:4: `memory` is for kind"), "{e}");
}

/// A function of kind "opencl" in a folder with a kernel, with more lines at its end.
fn kernel(device: &str, more: &str) -> Result<Function, String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("k.cl"), "").unwrap();
    std::fs::write(dir.path().join("k.bin"), "").unwrap();
    let text = format!(
        "name = \"k\"\nversion = \"1.0\"\nkind = \"opencl\"\nlibrary = \"k.cl\"\n\
         signature = \"(v: [f32]) -> f32\"\n[opencl]\nkernel = \"k\"\nglobal = [\"1\"]\n{device}\n\
         args = [{{ input = \"v\" }}, {{ output = \"\" }}]\n{more}"
    );
    function(Path::new("f.toml"), &text, dir.path(), 1).map_err(|e| e.to_string())
}

#[test]
fn a_kernel_on_a_gpu_or_an_fpga_is_hardware() {
    use vfun_kernelmap::{DeviceChoice, DeviceKind};
    let of = |driver: &Driver| match driver {
        Driver::OpenCl { kernel, map, .. } => {
            (kernel.file_name().unwrap().to_owned(), map.device.clone())
        }
        other => panic!("{other:?}"),
    };
    let alone = |kind| DeviceChoice { kind: Some(kind), ..DeviceChoice::default() };
    let software = kernel("device = { name = \"EPYC\" }", "").unwrap();
    let cpu = DeviceChoice { name: "EPYC".into(), ..alone(DeviceKind::Cpu) };
    assert_eq!(of(software.software.as_ref().unwrap()), ("k.cl".into(), cpu.clone()));
    assert!(software.hardware.is_none());

    // The same kernel and section, on another device.
    let gpu = "[hardware]\nkind = \"opencl\"\nlocation = \"gpu\"\ninstances = 4\nleased = true\n";
    let both = kernel("device = { name = \"EPYC\" }", gpu).unwrap();
    let hardware = both.hardware.unwrap();
    assert_eq!((hardware.location, hardware.instances, hardware.leased), (Location::Gpu, 4, true));
    assert_eq!(of(&hardware.driver), ("k.cl".into(), alone(DeviceKind::Gpu)));
    assert_eq!(of(both.software.as_ref().unwrap()), ("k.cl".into(), cpu));

    // A kernel and a section of its own.
    let fpga = "[hardware]\nkind = \"opencl\"\nlocation = \"fpga\"\ninstances = 1\nlibrary = \"k.bin\"\n\
                [hardware.opencl]\nkernel = \"k\"\nbinary = true\nglobal = [\"1\"]\n\
                args = [{ input = \"v\" }, { output = \"\" }]\n";
    let hardware = kernel("", fpga).unwrap().hardware.unwrap();
    assert_eq!(hardware.location, Location::Fpga);
    assert_eq!(of(&hardware.driver), ("k.bin".into(), alone(DeviceKind::Accelerator)));
}

#[test]
fn a_kernels_device_and_location_must_fit() {
    let opencl = "[hardware]\nkind = \"opencl\"\ninstances = 1\nlocation = ";
    let own = "\n[hardware.opencl]\nkernel = \"k\"\nglobal = [\"1\"]\n\
               args = [{ input = \"v\" }, { output = \"\" }]\ndevice = { type = \"cpu\" }\n";
    for (device, more, expect) in [
        (
            "device = { type = \"gpu\" }",
            String::new(),
            "f.toml:6: a device of type \"gpu\" is hardware: declare it in [hardware]",
        ),
        ("device = { type = \"accelerator\" }", String::new(), "f.toml:6: a device of type"),
        ("device = { type = \"any\" }", String::new(), "f.toml:9: unknown variant `any`"),
        ("", format!("{opencl}\"model-simulated\"\n"), "f.toml:6: OpenCL has no device of the"),
        ("", format!("{opencl}\"gpu\"{own}"), "f.toml:15: the location \"gpu\" has devices of"),
        ("", format!("{opencl}\"gpu\"\nmemory = \"1 MiB\"\n"), "f.toml:15: `memory` is for kind"),
        (
            "",
            "[hardware]\nlocation = \"gpu\"\ninstances = 1\n".into(),
            "f.toml: a native function needs `library`",
        ),
    ] {
        let e = kernel(device, &more).unwrap_err();
        assert!(e.starts_with(expect), "{e} should say {expect}");
    }
    let e = f("name = \"x\"\nversion = \"1.0\"\nkind = \"floor\"\nopencl = 3\n").unwrap_err();
    assert!(e.starts_with("f.toml:4: `opencl` is for kind \"opencl\""), "{e}");
}

#[test]
fn leased_hardware_that_cannot_be_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), "").unwrap();
    let f = |software: &str, more: &str| {
        let text = format!(
            "name = \"x\"\nversion = \"1.0\"\n{software}\nhardware = {{ location = \"gpu\", library = \"f\", {more} }}\n"
        );
        function(Path::new("f.toml"), &text, dir.path(), 1).map_err(|e| e.to_string())
    };
    let software = "library = \"f\"";
    let of = |more| f(software, more).unwrap().hardware.unwrap().device;
    assert_eq!(of("instances = 1, leased = true"), "x");
    assert_eq!(of("instances = 1, leased = true, device = \"board\""), "board");
    for (software, more, expect) in [
        ("", "instances = 1, leased = true", "f.toml:4: a function whose VFs are leased runs in"),
        (software, "instances = 2000, leased = true", "f.toml:4: at most 1024 VFs"),
        (
            software,
            "instances = 1, device = \"b\"",
            "f.toml:4: only functions whose VFs are leased",
        ),
        (software, "instances = 1, leased = true, device = \"a/b\"", "f.toml:4: "),
    ] {
        let e = f(software, more).unwrap_err();
        assert!(e.starts_with(expect), "{e} should say {expect}");
    }
}

#[test]
fn signatures_settle_sizes_or_are_refused() {
    let head = "name = \"x\"\nversion = \"1.0\"\nhardware = { location = \"gpu\", library = \"f\", instances = 1 }\n";
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), "").unwrap();
    let f = |more: &str| {
        function(Path::new("f.toml"), &format!("{head}{more}"), dir.path(), 1)
            .map_err(|e| e.to_string())
    };
    let x = f("signature = \"(n: u64, m: u8 = 1) -> u32\"\n").unwrap();
    assert_eq!((x.max_args, x.max_result), (16, 4));
    assert_eq!(x.lengths(), Some(vfun_supervise::Lengths { min: 16, max: 16, step: 1 }));
    let x = f("signature = \"(n: u8, d: [f64]) -> ()\"\nmax_args = 4096\n").unwrap();
    assert_eq!(x.lengths(), Some(vfun_supervise::Lengths { min: 8, max: 4096, step: 8 }));
    assert_eq!((f("").unwrap().lengths(), f("").unwrap().fingerprint()), (None, 0));
    for (more, expect) in [
        ("signature = \"(n: u63) -> ()\"\n", "f.toml:4: signature, character 5: 'u63' is no type"),
        (
            "signature = \"\"\"\nstruct p { x: f64 }\n(a: q) -> p\"\"\"\n",
            "f.toml:6: signature, character 25: 'q' is no type",
        ),
        (
            "max_args = 8\nsignature = \"(n: u64, m: u64) -> ()\"\n",
            "f.toml:4: max_args = 8, but by its signature they have exactly 16 bytes",
        ),
        (
            "signature = \"() -> [u8; 2..=9]\"\nmax_result = 10\n",
            "f.toml:5: max_result = 10, but by its signature they have 2 to 9 bytes",
        ),
    ] {
        let e = f(more).unwrap_err();
        assert!(e.starts_with(expect), "{e} should say {expect}");
    }
}

#[test]
fn wrong_clients_are_refused_with_file_line_and_reason() {
    let vm = c("name = \"vm1\"\n").unwrap();
    assert_eq!(
        (vm.window_bytes, vm.kind, vm.may_use("anything")),
        (WINDOW_BYTES_DEFAULT, ClientKind::Vm, true)
    );
    for (text, expect) in [
        (
            "name = \"vm1\"\nwindow = \"3 MiB\"\n",
            "c.toml:2: a window of 3145728 bytes is not possible",
        ),
        ("name = \"vm1\"\nwindow = \"4 KiB\"\n", "c.toml:2: a window of 4096 bytes"),
        ("name = \"vm1\"\nwindow = \"4 parsecs\"\n", "c.toml:2: 'parsecs' is not a unit"),
        ("name = \"vm1\"\nkind = \"pod\"\n", "c.toml:2: kind \"pod\""),
        (
            "name = \"vm1\"\ntransport = \"pigeon\"\n",
            "c.toml:2: transport \"pigeon\" is not one of \"ivshmem-doorbell\", \"ivshmem-plain\"",
        ),
        (
            "name = \"h\"\nkind = \"host\"\ntransport = \"ivshmem-plain\"\n",
            "c.toml:3: transport \"ivshmem-plain\" is not one of \"host\"",
        ),
        ("name = \"vm1\"\nmax_grants = 0\n", "c.toml:2: a client that may hold no grant"),
        ("name = \"vm1\"\ntcp = \"closed\"\n", "c.toml:2: tcp is true"),
        ("name = \"vm1\"\ncredential_sha256 = \"abc\"\n", "c.toml:2: credential_sha256 is 64"),
        ("name = \"vm1\"\nfunctions = [\"a\",\n \"b c\"]\n", "c.toml:3: name 'b c'"),
    ] {
        let e = c(text).unwrap_err();
        assert!(e.contains(expect), "{e} should say {expect}");
    }
}

#[test]
fn a_client_has_the_vms_that_its_manifest_names_or_one_of_its_own_name() {
    let vms = |text: &str| {
        let client = c(text).unwrap();
        let shown = |v: &Vm| format!("{} {} {}", v.name, v.transport, v.window_bytes >> 20);
        client.vms.iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(vms("name = \"web\"\n"), ["web ivshmem-doorbell 64"]);
    assert_eq!(vms("name = \"web\"\nkind = \"host\"\n"), [""; 0]);
    // What a VM leaves out is as the client says.
    let three = "name = \"web\"\nwindow = \"16 MiB\"\ntransport = \"ivshmem-plain\"\n\
                 [vm.b]\nwindow = \"1 MiB\"\n[vm.web]\n[vm.a]\ntransport = \"pmem\"\n";
    assert_eq!(vms(three), ["web ivshmem-plain 16", "a pmem 16", "b ivshmem-plain 1"]);
    // No VM has the client's name, and the client's own keys are of no VM by themselves.
    let one = "name = \"web\"\nwindow = \"1 MiB\"\ntransport = \"pmem\"\n\
               [vm.b]\nwindow = \"2 MiB\"\n";
    assert_eq!(vms(one), ["b pmem 2"]);
    let web = c(three).unwrap();
    assert_eq!(
        (web.vm("a").unwrap().name().file_name(), web.window_bytes),
        ("web@a".into(), 16 << 20)
    );
    assert!(web.vm("c").is_none());
}

#[test]
fn wrong_vms_are_refused_with_file_line_and_reason() {
    let many: String = (0..=VMS_PER_CLIENT).map(|n| format!("[vm.v{n}]\n")).collect();
    for (vms, expect) in [
        ("[vm.\"a b\"]\n", "c.toml:2: name 'a b'"),
        ("[vm.a]\nwindow = \"3 MiB\"\n", "c.toml:3: a window of 3145728 bytes is not possible"),
        ("[vm.a]\ntransport = \"host\"\n", "c.toml:3: transport \"host\" is not one of"),
        ("[vm.a]\ntransport = \"pmem\"\nwindow = \"1 MiB\"\n", "c.toml:4: a window of 1048576"),
        ("[vm.a]\nmax_grants = 3\n", "c.toml:3: unknown field `max_grants`"),
        ("[vm.a]\n[vm.a]\n", "c.toml:3:"),
        ("vm = 3\n", "c.toml:2: invalid type"),
        ("kind = \"host\"\n[vm.a]\n", "c.toml:3: a client of kind \"host\" has no VMs"),
        ("window = \"1 MiB\"\n[vm.a]\ntransport = \"pmem\"\n", "c.toml:4: a window of 1048576"),
        ("window = \"1 MiB\"\ntransport = \"pmem\"\n[vm.a]\n", "c.toml:4: a window of 1048576"),
        ("window = \"1 MiB\"\ntransport = \"pmem\"\n", "c.toml:2: a window of 1048576"),
        (many.as_str(), "a client has at most 256 VMs"),
    ] {
        let e = c(&format!("name = \"web\"\n{vms}")).unwrap_err();
        assert!(e.contains(expect), "{e} should say {expect}");
    }
}

#[test]
fn folders_to_write_in_are_one_for_each_client() {
    let with = |kind: &str, keys: &str| {
        f(&format!("name = \"x\"\nversion = \"1.0\"\nkind = \"{kind}\"\n{keys}\n"))
    };
    let five = format!("writes = [{}]", "\"{writes}/x/{client}\", ".repeat(5));
    for (keys, expect) in [
        ("writes = [\"tokens/{client}\"]", "f.toml:4: writes: tokens/{client} is no absolute path"),
        ("writes = [\"/x/../y/{client}\"]", "writes: /x/../y/{client} is no absolute path"),
        ("writes = [\"/x/y\"]", "writes: /x/y does not end with '/{client}'"),
        ("writes = [\"{writes}/x/{client}\"]", "a function of kind \"floor\" writes nothing"),
        (five.as_str(), "f.toml:4: a driver writes in at most 4 folders"),
        ("[environment]\nlower = \"x\"", "f.toml:5: environment: a variable is a name"),
        ("[environment]\nA = \"x\\ny\"", "f.toml:5: environment: the value of A is one line"),
    ] {
        let e = with("floor", keys).unwrap_err();
        assert!(e.contains(expect), "{e} should say {expect}");
    }
    let many: String = (0..=ENVIRONMENT_MAX).map(|n| format!("A{n} = \"x\"\n")).collect();
    let e = with("floor", &format!("[environment]\n{many}")).unwrap_err();
    assert!(e.contains("at most 16 variables"), "{e}");
    let library = std::env::current_exe().unwrap();
    let keys = format!(
        "library = {library:?}\nwrites = [\"{{writes}}/x/{{client}}\"]\n[environment]\nA_1 = \"{{client}}\""
    );
    let f = with("native", &keys).unwrap();
    assert_eq!(f.writes, ["{writes}/x/{client}"]);
    assert!(f.environment.iter().eq([(&"A_1".to_owned(), &"{client}".to_owned())]));
    let plain = Function { writes: vec![], environment: Default::default(), ..f.clone() };
    assert!(plain.terms() != f.terms() && !plain.terms().contains("writes"));
    let fixed = with("native", &format!("library = {library:?}\nfixed_deadline = true")).unwrap();
    let free = Function { fixed_deadline: false, ..fixed.clone() };
    assert!(fixed.fixed_deadline && !f.fixed_deadline);
    assert!(free.terms() != fixed.terms() && !free.terms().contains("fixed_deadline"));
}

#[test]
fn links_are_among_a_clients_own_ports_unless_it_names_others() {
    let own = c("name = \"web\"\n").unwrap().links;
    assert!(own.on && own.with.is_empty());
    assert!(!c("name = \"web\"\nlinks = false\n").unwrap().links.on);
    let with = c("name = \"web\"\nlinks_with = [\"db\", \"mail\"]\n").unwrap().links.with;
    assert_eq!(with, ["db", "mail"]);
    let many = vec!["\"x\""; crate::limits::LINKS_WITH_MAX + 1].join(", ");
    let many = format!("links_with = [{many}]\n");
    for (lines, expect) in [
        ("links = 3\n", "c.toml:2: invalid type"),
        ("links = false\nlinks_with = [\"db\"]\n", "c.toml:3: links_with says nothing"),
        ("links_with = [\"web\"]\n", "c.toml:2: links_with: ports of one client"),
        ("links_with = [\"a b\"]\n", "c.toml:2: name 'a b'"),
        ("kind = \"host\"\nlinks = true\n", "c.toml:3: a client of kind \"host\" has no ports"),
        (many.as_str(), "links_with names at most 64 clients"),
    ] {
        let e = c(&format!("name = \"web\"\n{lines}")).unwrap_err();
        assert!(e.contains(expect), "{e} should say {expect}");
    }
}
