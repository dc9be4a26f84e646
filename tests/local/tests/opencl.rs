//! Functions of kind "opencl", from the manifest to the answer, in the program
//! that serves them and in its sandbox. Where the machine has no OpenCL device
//! they say so, loudly, and are not run: `packaging/setup.sh` installs one.

use std::path::Path;
use vfun::{Error, FunctionRequest, Location, NackCode, Preference};
use vfun_admin::{Ask, Reply, ServiceRow};
use vfun_jail::Layer;
use vfun_tests_local::{Stand, programs, repo};

/// Whether there is a driver for some device.
fn device(test: &str) -> bool {
    let loader = ["/usr/lib", "/usr/lib64", "/lib"]
        .iter()
        .flat_map(|d| [Path::new(d).to_owned(), Path::new(d).join("x86_64-linux-gnu")])
        .any(|d| d.join("libOpenCL.so.1").exists());
    let drivers = std::fs::read_dir("/etc/OpenCL/vendors").is_ok_and(|d| d.count() > 0);
    if !(loader && drivers) {
        eprintln!(
            "SKIPPED {test}: THIS MACHINE HAS NO OpenCL DRIVER (packaging/setup.sh installs PoCL)"
        );
    }
    loader && drivers
}

/// A manager that offers the kernels that ship and the one that misbehaves.
fn stand() -> Stand {
    let program = programs().join("vfun-service-opencl");
    assert!(program.is_file(), "{} is not built: `make build`", program.display());
    let folder = |f: &str| repo().join(f).to_str().expect("utf-8").to_owned();
    let (shipped, own) = (folder("services/opencl/kernels"), folder("tests/local/kernels"));
    Stand::with(&["--functions", &shipped, "--functions", &own])
}

/// Asks for a function whose cells have this much room. Compiling a kernel
/// takes a second of a processor, and a busy machine may need more time than an
/// app waits for an answer: then once more.
fn open(s: &Stand, app: &str, name: &str, cell_bytes: u32) -> Result<vfun::Function, Error> {
    let session = s.connect(app);
    let mut tries = 0;
    loop {
        tries += 1;
        let asked = session
            .negotiate(&FunctionRequest::new(name).cell_bytes(cell_bytes))
            .and_then(|g| g.activate());
        match asked {
            Err(Error::Refused(n)) if tries < 8 && n.code == NackCode::Starting => {}
            other => return other,
        }
    }
}

fn service(s: &Stand, function: &str) -> ServiceRow {
    match s.ask(&Ask::Services) {
        Reply::Services { services } => {
            services.into_iter().find(|s| s.function == function).expect("it runs")
        }
        other => panic!("{other:?}"),
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn bytes(numbers: &[u32], floats: &[f32]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|n| n.to_le_bytes());
    numbers.chain(floats.iter().flat_map(|f| f.to_le_bytes())).collect()
}

#[test]
fn kernels_compute_in_the_window_and_in_the_sandbox() {
    if !device("kernels_compute_in_the_window_and_in_the_sandbox") {
        return;
    }
    let s = stand();
    let f = open(&s, "products", "matmul_f32", 64 << 10).unwrap();
    // Whole numbers, whose sums single precision holds exactly.
    let (m, n, k) = (40usize, 33usize, 50usize);
    let data: Vec<f32> = (0..m * k + k * n).map(|i| ((i * 7) % 19) as f32 - 9.0).collect();
    let (a, b) = data.split_at(m * k);
    let mut expect = vec![0.0f32; m * n];
    for y in 0..m {
        for x in 0..n {
            expect[y * n + x] = (0..k).map(|i| a[y * k + i] * b[i * n + x]).sum();
        }
    }
    let args = bytes(&[m as u32, n as u32, k as u32], &data);
    for _ in 0..20 {
        assert_eq!(floats(&f.call(&args).unwrap()), expect);
    }
    // Small enough for the cell's line, both ways.
    let small = bytes(&[1, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(floats(&f.call(&small).unwrap()), [11.0]);
    match f.call(&bytes(&[9, 9, 9], &data)) {
        Err(Error::Driver { sentence, .. }) => {
            assert!(sentence.starts_with("not so: count(data)"), "{sentence}");
        }
        other => panic!("{other:?}"),
    }
    let c = open(&s, "images", "conv2d", 64 << 10).unwrap();
    let image: Vec<f32> = (0..30).map(|i| i as f32).collect();
    let args = bytes(&[5, 6, 2, 1], &[&image[..], &[1.0, -1.0]].concat());
    assert_eq!(floats(&c.call(&args).unwrap()), [-6.0; 24]);

    // What the operator sees of it.
    let row = service(&s, "matmul_f32");
    let note = row.note.clone().unwrap_or_default();
    assert!(note.starts_with("OpenCL device '"), "{note}");
    if note.contains("(cpu)") {
        assert!(note.ends_with("are used in place"), "{note}");
    }
    // Layers that this host gives to services of native drivers it gives to this one.
    open(&s, "plain", "echo", 64).unwrap();
    let plain = service(&s, "echo").sandbox.layers;
    assert_eq!(row.sandbox.layers, plain, "{:?}", row.sandbox.missing);
    assert!(row.sandbox.layers.contains(&Layer::Seccomp));
}

#[test]
fn kernels_that_crash_or_never_end_hurt_their_own_call_only() {
    if !device("kernels_that_crash_or_never_end_hurt_their_own_call_only") {
        return;
    }
    let s = stand();
    let f = open(&s, "misdeeds", "misbehave_cl", 4096).unwrap();
    let other = s.connect("other").function("echo").unwrap();
    let args = |how: u32| [how, 5, 6, 7].iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
    let more: Vec<u8> = [6u32, 7, 8].iter().flat_map(|n| n.to_le_bytes()).collect();
    assert_eq!(f.call(&args(0)).unwrap(), more);
    // PoCL keeps what it knows of 128 sizes of a launch, and forgets the rest.
    for n in (1..300).chain([7, 299, 1]) {
        let numbers: Vec<u8> =
            (0..=n).flat_map(|i| u32::to_le_bytes(i * u32::from(i > 0))).collect();
        let expect: Vec<u8> = (1..=n).flat_map(|i| (i + 1).to_le_bytes()).collect();
        assert_eq!(f.call(&numbers).unwrap(), expect, "{n}");
    }
    assert!(matches!(f.call(&args(1)), Err(Error::DriverCrashed)));
    assert_eq!(other.call(b"meanwhile").unwrap(), b"meanwhile");
    assert_eq!(f.call(&args(0)).unwrap(), more, "and it is back");
    assert!(matches!(f.call(&args(2)), Err(Error::Deadline)));
    assert_eq!(other.call(b"meanwhile").unwrap(), b"meanwhile");
    assert_eq!(f.call(&args(0)).unwrap(), more, "and it is back again");
}

/// What the compiler says shows the source, which is its author's: it is in
/// the service's log on the host, and the caller learns that there is one.
#[test]
fn a_compilers_words_reach_the_operator_and_no_tenant() {
    if !device("a_compilers_words_reach_the_operator_and_no_tenant") {
        return;
    }
    let s = stand();
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("wrong.cl");
    let secret = "a_name_of_the_authors";
    std::fs::write(&source, format!("__kernel void wrong() {{ {secret} = 1; }}")).unwrap();
    let manifest = format!(
        "name = \"wrong\"\nversion = \"1.0\"\nkind = \"opencl\"\nlibrary = \"{}\"\n\
         signature = \"(n: u32) -> u32\"\n[opencl]\nkernel = \"wrong\"\nglobal = [\"n\"]\n\
         args = [{{ output = \"\" }}]\n",
        source.display()
    );
    // The folder is the test's alone; the service's user is nobody.
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    s.ask(&Ask::AddFunction { manifest, file: "wrong.toml".into() });
    let told = open(&s, "author", "wrong", 64).map(|_| ()).unwrap_err().to_string();
    assert!(told.contains("the kernel does not compile"), "{told}");
    assert!(!told.contains(secret), "{told}");
    let log = s.root().join("service/host/wrong.log");
    s.until("the compiler's words in the log", |_| {
        std::fs::read_to_string(&log).is_ok_and(|l| l.contains(secret))
    });
    assert!(!s.log().contains(secret), "nor are they in the log of all");
    // Others go on.
    assert_eq!(s.connect("other").function("echo").unwrap().call(b"x").unwrap(), b"x");
}

/// Needs no GPU: its grants are counted before a service is asked for it.
#[test]
fn a_kernel_for_a_gpu_is_scarce_hardware() {
    let s = stand();
    let kernels = repo().join("services/opencl/kernels");
    let text = std::fs::read_to_string(kernels.join("matmul_f32.toml")).unwrap();
    let text = text.replace("\"matmul_f32.cl\"", &format!("{:?}", kernels.join("matmul_f32.cl")));
    let gpu = "\n[hardware]\nkind = \"opencl\"\nlocation = \"gpu\"\ninstances = 1\n";
    s.ask(&Ask::AddFunction { manifest: text + gpu, file: "gpu.toml".into() });
    match s.ask(&Ask::Functions) {
        Reply::Functions { functions } => {
            let f = functions.into_iter().find(|f| f.name == "matmul_f32").expect("it is offered");
            assert_eq!(f.locations, ["software", "gpu × 1"]);
        }
        other => panic!("{other:?}"),
    }
    let sessions = ["first", "second"].map(|app| s.connect(app));
    let wanted = |p| FunctionRequest::new("matmul_f32").cell_bytes(4096).preference(p);
    let held = sessions[0].negotiate(&wanted(Preference::Hardware)).unwrap();
    assert_eq!(held.info().location, Location::Gpu);
    match sessions[1].negotiate(&wanted(Preference::Hardware)) {
        Err(Error::Refused(n)) => {
            assert_eq!((n.code, n.software_instead), (NackCode::DeviceBusy, true), "{n}");
            assert!(n.to_string().contains("all 1 instances of 'matmul_f32' on gpu"), "{n}");
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    let software = sessions[1].negotiate(&wanted(Preference::Any)).unwrap();
    assert_eq!(software.info().location, Location::Software);
    assert_eq!(s.grants().into_iter().filter(|g| g.location == "gpu").count(), 1);
    if !device("a_kernel_for_a_gpu_is_scarce_hardware") {
        return;
    }
    // PoCL's processors are no GPU.
    if !Path::new("/dev/dri").exists() && !Path::new("/dev/nvidiactl").exists() {
        let told = held.activate().map(|_| ()).unwrap_err().to_string();
        assert!(told.contains("no OpenCL device of this host is what the manifest"), "{told}");
    }
}

/// Needs no device: what a manifest promises and its signature lacks is seen
/// before it is offered.
#[test]
fn manifests_that_promise_what_is_not_there_are_refused_with_line_and_place() {
    let s = Stand::start();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("k.cl"), "").unwrap();
    let library = dir.path().join("k.cl");
    let good = format!(
        "name = \"k\"\nversion = \"1.0\"\nkind = \"opencl\"\nlibrary = \"{}\"\n\
         signature = \"(n: u32, v: [f32]) -> f32\"\n[opencl]\nkernel = \"k\"\nglobal = [\"n\"]\n\
         args = [{{ input = \"v\" }}, {{ output = \"\" }}]\n",
        library.display()
    );
    for (from, to, expect) in [
        (
            "input = \"v\"",
            "input = \"w\"",
            "[opencl] args[0].input: the signature has no argument 'w'",
        ),
        ("global = [\"n\"]", "global = [\"m\"]", "[opencl] global[0]: 'm': the signature has no"),
        ("{ output = \"\" }", "{ value = \"n\" }", "no argument of the kernel is the output"),
        ("kernel = \"k\"\n", "", "missing field `kernel`"),
        ("[opencl]\n", "[opencl]\nspeed = 3\n", "unknown field `speed`"),
        ("[opencl]\n", "[opencl]\ndevice = { type = \"tpu\" }\n", "unknown variant `tpu`"),
        ("signature = \"(n: u32, v: [f32]) -> f32\"\n", "", "needs a `signature`"),
        ("kind = \"opencl\"", "kind = \"native\"", "`opencl` is for kind \"opencl\""),
        ("k.cl", "none.cl", "there is no driver library"),
    ] {
        assert!(good.contains(from), "{from}");
        let manifest = good.replacen(from, to, 1);
        let e = s.try_ask(&Ask::AddFunction { manifest, file: "k.toml".into() }).unwrap_err();
        assert!(e.to_string().contains(expect), "{to}: {e} should say {expect}");
    }
    let without = good.split("[opencl]").next().unwrap().to_owned();
    let e = s.try_ask(&Ask::AddFunction { manifest: without, file: "k.toml".into() }).unwrap_err();
    assert!(e.to_string().contains("needs a section [opencl]"), "{e}");
    s.ask(&Ask::AddFunction { manifest: good, file: "k.toml".into() });
}
