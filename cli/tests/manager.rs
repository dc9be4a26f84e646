//! The command against a real manager. Needs vfund, vfun-service and the
//! functions beside this test, as `cargo build --workspace` puts them.

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use vfun_tests_local::{Issuer, Stand};

/// A manager; none if it is not built.
fn stand(extra: &[&str]) -> Option<Stand> {
    let beside = Path::new(env!("CARGO_BIN_EXE_vfun"));
    let there = |name: &str| beside.with_file_name(name).is_file();
    if ![
        "vfund",
        "vfun-service",
        "vfun-gateway",
        "vfun-top",
        "libvfun_fn_echo.so",
        "libvfun_fn_factorial.so",
        "libvfun_fn_sum.so",
        "libvfun_fn_sum_f64.so",
        "libvfun_testdriver.so",
    ]
    .iter()
    .all(|n| there(n))
    {
        eprintln!("passed over: build the workspace first");
        return None;
    }
    Some(Stand::with(extra))
}

fn vfun(stand: &Stand, args: &[&str]) -> Output {
    run(stand, args, b"")
}

fn run(stand: &Stand, args: &[&str], stdin: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vfun"));
    if !args.contains(&"--root") {
        command.arg("--root").arg(stand.root());
    }
    let mut child = command
        .args(args)
        .env_remove("VFUN_ROOT")
        .env_remove("VFUN_ENDPOINT")
        .env_remove("VFUN_CREDENTIAL")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

/// stdout of a command that must succeed.
fn ok(stand: &Stand, args: &[&str]) -> String {
    let out = vfun(stand, args);
    assert!(out.status.success(), "vfun {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn json(stand: &Stand, args: &[&str]) -> Value {
    serde_json::from_str(&ok(stand, &[args, &["--json"]].concat())).unwrap()
}

/// Exit code and stderr of a command that must fail.
fn fails(stand: &Stand, args: &[&str]) -> (i32, String) {
    let out = vfun(stand, args);
    (out.status.code().unwrap(), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn functions_are_called_and_their_results_read() {
    let Some(s) = stand(&[]) else { return };
    assert_eq!(ok(&s, &["call", "factorial", "20"]), "2432902008176640000\n");
    assert_eq!(ok(&s, &["call", "echo", "hello", "world", "-q"]), "hello world\n");
    assert_eq!(vfun(&s, &["call", "echo", "--hex", "00ff", "--out", "-"]).stdout, [0, 0xff]);
    let mut floats = vec![];
    [1.5f32, 2.0, -0.25].iter().for_each(|f| floats.extend_from_slice(&f.to_le_bytes()));
    let out = run(&s, &["call", "sum", "--type", "f32", "-"], &floats);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "3.25\n");
    assert!(String::from_utf8_lossy(&out.stderr).starts_with("host ("), "the path in use is named");
    let large = vec![b'x'; 3 << 20];
    let out = run(&s, &["call", "echo", "--file", "-", "--out", "-"], &large);
    assert!(out.stdout == large, "{}", String::from_utf8_lossy(&out.stderr));
    let timed = json(&s, &["call", "echo", "hi", "--repeat", "500"]);
    assert_eq!(
        (timed["transport"].as_str(), timed["value"].as_str(), timed["calls"].as_u64()),
        (Some("host"), Some("hi"), Some(500))
    );
    assert!(
        timed["ns"]["p50"].as_u64().unwrap() > 0
            && timed["ns"]["p50"].as_u64() <= timed["ns"]["p99"].as_u64()
    );
    assert_eq!(
        json(&s, &["list"])["functions"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|f| f["name"] == "echo")
            .count(),
        1
    );
    assert!(ok(&s, &["list"]).starts_with("NAME "));
}

/// What a shell is offered for the last of these words.
pub fn offered(vfun: &Path, line: &[&str]) -> Vec<String> {
    let out = Command::new(vfun)
        .arg("--")
        .args(line)
        .env("VFUN_COMPLETE", "bash")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_INDEX", (line.len() - 1).to_string())
        .env_remove("VFUN_ROOT")
        .env_remove("VFUN_ENDPOINT")
        .output()
        .unwrap();
    assert!(out.status.success(), "{line:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(String::from).collect()
}

#[test]
fn a_shell_is_offered_the_names_that_there_are() {
    let Some(s) = stand(&[]) else { return };
    ok(&s, &["client", "add", "web", "--transport", "ivshmem-plain", "--window", "4MiB"]);
    let root = s.root().to_str().unwrap();
    let vfun = Path::new(env!("CARGO_BIN_EXE_vfun"));
    let names = |words: &[&str]| offered(vfun, &[&["vfun", "--root", root], words].concat());
    assert_eq!(names(&["call", "fact"]), ["factorial"]);
    assert_eq!(names(&["call", "--client", "host", "sum_"]), ["sum_f64"]);
    assert_eq!(names(&["function", "show", "ech"]), ["echo"]);
    assert_eq!(names(&["client", "show", "w"]), ["web"]);
    assert_eq!(names(&["audit", "--client", "w"]), ["web"]);
    assert_eq!(names(&["client", "remove", "no-such"]), [""; 0]);
    // Where nothing listens there are no names, and no words about it.
    assert_eq!(offered(vfun, &["vfun", "--root", "/nonexistent", "client", "show", "w"]), [""; 0]);
    assert_eq!(offered(vfun, &["vfun", "leases", "expl"]), ["explain"]);
}

#[test]
fn faults_have_exit_codes_and_sentences() {
    let Some(s) = stand(&[]) else { return };
    let (code, text) = fails(&s, &["call", "nothing"]);
    assert!(code == 3 && text.contains("no function 'nothing'"), "{code} {text}");
    let (code, text) = fails(&s, &["call", "factorial", "--hex", "01"]);
    assert!(code == 4 && text.contains("the function returned an error"), "{code} {text}");
    assert_eq!(fails(&s, &["call", "factorial"]).0, 2);
    let (code, text) = fails(&s, &["call", "factorial", "-1"]);
    assert!(code == 2 && text.contains("'-1' is not a number from 0 to"), "{text}");
    let (code, text) = fails(&s, &["call", "echo", "x", "--repeat", "often"]);
    assert!(code == 2 && text.contains("'--repeat <N>': write a number, such as 10"), "{text}");
    assert_eq!(fails(&s, &["call", "factorial", "20", "--client", "nobody"]).0, 3);
    assert_eq!(fails(&s, &["revoke", "9.9"]).0, 3);
    assert_eq!(fails(&s, &["client", "show", "nobody"]).0, 3);
    ok(&s, &["client", "add", "vm1"]);
    for args in [
        &["ps", "--client", "nobody"][..],
        &["ps", "--client", "vm1/nobody"],
        &["ps", "--client", "host/nobody", "--watch", "--json"],
        &["audit", "--client", "nobody", "--refused", "--since", "1s"],
        &["token", "list", "nobody"],
    ] {
        let (code, text) = fails(&s, args);
        assert!(code == 3 && text.contains("'nobody'"), "{args:?}: {code} {text}");
    }
    for args in [["token", "revoke", "x"], ["token", "rotate", "-"]] {
        let (code, text) = fails(&s, &args);
        assert!(code == 2 && text.contains("`vfun token list` shows all"), "{args:?}: {text}");
    }
    assert_eq!(fails(&s, &["--endpoint", "nonsense", "list"]).0, 2);
    assert_eq!(fails(&s, &["--endpoint", "tcp:127.0.0.1:1", "list"]).0, 5);
    let (code, text) = fails(&s, &["--root", "/nowhere", "status"]);
    assert!(code == 5 && text.contains("Start it with `vfund --root DIR`"), "{text}");
    let (code, text) = fails(&s, &["--root", "/nowhere", "status", "--json"]);
    let error: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, error["error"]["exit"].as_u64()), (5, Some(5)));
}

#[test]
fn clients_come_and_go() {
    let Some(s) = stand(&[]) else { return };
    let file = s.root().join("virtfun-vm1");
    let text = ok(
        &s,
        &[
            "client",
            "add",
            "vm1",
            "--window",
            "4MiB",
            "--functions",
            "echo,sum",
            "--max-grants",
            "3",
            "--transport",
            "ivshmem-plain",
        ],
    );
    assert!(text.contains(&format!("mem-path={},size=4M", file.display())), "{text}");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 4 << 20);
    assert_eq!(text, ok(&s, &["client", "show", "vm1"]));
    let row = json(&s, &["client", "show", "vm1"]);
    assert_eq!(
        (row["window_bytes"].as_u64(), row["qemu"][0].as_str()),
        (Some(4 << 20), Some("-object"))
    );
    assert!(ok(&s, &["client", "list"]).contains("echo,sum"));
    let (code, text) = fails(&s, &["client", "add", "vm1", "--window", "8MiB"]);
    assert!(code == 3 && text.contains("another window"), "{text}");
    assert_eq!(fails(&s, &["client", "add", "vm2", "--window", "5MiB"]).0, 2);

    let manifest = s.root().join("c.toml");
    std::fs::write(&manifest, "name = \"app\"\nkind = \"host\"\nfunctions = [\"echo\"]\n").unwrap();
    ok(&s, &["client", "add", "-f", manifest.to_str().unwrap()]);
    assert_eq!(ok(&s, &["call", "echo", "x", "--client", "app"]), "x\n");
    assert_eq!(fails(&s, &["call", "factorial", "3", "--client", "app"]).0, 3);
    ok(&s, &["client", "add", "secret", "--kind", "host", "--credential", "open sesame"]);
    assert_eq!(fails(&s, &["call", "echo", "x", "--client", "secret"]).0, 3);
    std::fs::write(s.root().join("key"), "open sesame\n").unwrap();
    let key = s.root().join("key");
    assert_eq!(
        ok(
            &s,
            &[
                "call",
                "echo",
                "x",
                "--client",
                "secret",
                "--credential-file",
                key.to_str().unwrap()
            ]
        ),
        "x\n"
    );

    ok(&s, &["client", "remove", "vm1"]);
    assert!(!file.exists());
    assert_eq!(fails(&s, &["client", "remove", "vm1"]).0, 3);
}

#[test]
fn vms_of_a_client_are_added_named_and_shown() {
    let Some(s) = stand(&[]) else { return };
    let plain = ["--window", "1MiB", "--transport", "ivshmem-plain"];
    let client = |words: &'static [&str]| [&["client"][..], words].concat();
    ok(&s, &[&client(&["add", "web"])[..], &plain].concat());
    let b = json(&s, &client(&["add", "web", "--vm", "b"]));
    assert_eq!((b["vm"].as_str(), b["vms"].as_array().map(Vec::len)), (Some("b"), Some(2)));
    assert_eq!(b["window_file"], s.root().join("virtfun-web@b").display().to_string());
    assert!(
        b["qemu"][3].as_str().unwrap().ends_with("id=virtfun-web.b-device,memdev=virtfun-web.b")
    );
    let shown = ok(&s, &client(&["show", "web"]));
    assert!(shown.contains("\nweb ") && shown.contains("\nweb/b ") && !shown.contains("mem-path"));
    let shown = ok(&s, &client(&["show", "web/b"]));
    assert!(shown.contains("web/b, one of 2") && shown.contains("--client web/b"), "{shown}");
    assert_eq!(shown, ok(&s, &client(&["add", "web", "--vm", "b"])));
    let (code, text) = fails(&s, &client(&["show", "web/c"]));
    assert!(code == 3 && text.contains("no VM 'c'") && text.contains("has web, web/b"), "{text}");
    let (code, text) = fails(&s, &client(&["show", "host/c"]));
    assert!(code == 3 && text.contains("of kind host"), "{text}");
    assert_eq!(fails(&s, &client(&["show", "web/b/c"])).0, 2);
    assert_eq!(fails(&s, &["attach", "--qmp", "/nowhere", "--client", "web/c"]).0, 3);
    assert_eq!(fails(&s, &["ps", "--client", "web/ b"]).0, 2);
    // What is the client's is not changed in passing, and its VMs stay when it is.
    let (code, text) = fails(&s, &client(&["add", "web", "--vm", "c", "--functions", "echo"]));
    assert!(code == 2 && text.contains("--functions"), "{text}");
    ok(&s, &[&client(&["add", "web", "--functions", "echo"])[..], &plain].concat());
    let list = ok(&s, &client(&["list"]));
    let of_web: Vec<_> = list.lines().filter(|l| l.contains(" web")).collect();
    assert!(of_web.len() == 2 && of_web.iter().all(|l| l.contains("echo")), "{list}");
    let (code, text) = fails(&s, &client(&["add", "h", "--kind", "host", "--vm", "x"]));
    assert!(code == 3 && text.contains("has no VMs"), "{text}");
    // A client whose only VM has another name.
    ok(&s, &[&client(&["add", "tenant", "--vm", "a"])[..], &plain].concat());
    assert!(ok(&s, &client(&["show", "tenant"])).contains("virtfun-tenant@a"));
    ok(&s, &client(&["add", "tenant", "--vm", "b"]));
    let (code, text) = fails(&s, &["attach", "--qmp", "/nowhere", "--client", "tenant"]);
    assert!(code == 3 && text.contains("tenant/a, tenant/b"), "{text}");
    let doctor = |s: &Stand| String::from_utf8(vfun(s, &["doctor"]).stdout).unwrap();
    assert!(!doctor(&s).contains("window web"));
    std::fs::remove_file(s.root().join("virtfun-web@b")).unwrap();
    assert!(doctor(&s).contains("window web/b"));
    let told = ok(&s, &client(&["rm", "web", "--vm", "b"]));
    assert!(told.contains("VM web/b is gone"), "{told}");
    let (code, text) = fails(&s, &client(&["rm", "web", "--vm", "web"]));
    assert!(code == 3 && text.contains("only VM"), "{text}");
    assert!(ok(&s, &["audit"]).contains("client remove web --vm b"));
}

#[test]
fn a_doorbell_window_is_wired_and_attaching_says_what_is_wrong() {
    let Some(s) = stand(&[]) else { return };
    let row = json(&s, &["client", "add", "vm1", "--window", "1MiB"]);
    let socket = s.root().join("ivshmem/vm1.sock");
    assert_eq!(row["qemu"][1], format!("socket,id=virtfun-vm1,path={}", socket.display()));
    let xml = row["libvirt"].as_str().unwrap();
    assert!(xml.contains(&format!("<server path='{}'/>", socket.display())), "{xml}");
    assert!(ok(&s, &["client", "list"]).contains("ivshmem-doorbell"));
    let (code, text) = fails(&s, &["attach", "--qmp", "/nowhere", "--client", "vm1"]);
    assert!(code == 5 && text.contains("-qmp unix:"), "{text}");
    assert_eq!(fails(&s, &["attach", "dom", "--client", "nobody"]).0, 3);
    assert_eq!(fails(&s, &["attach", "host"]).0, 2, "no VM's client");
    assert_eq!(fails(&s, &["attach"]).0, 2);
    assert_eq!(fails(&s, &["attach", "--qmp", "/x"]).0, 2, "whose window?");
    // A further window, before its VM has the first one: QEMU is not even asked.
    ok(&s, &["window", "add", "bulk", "--vm", "vm1", "--size", "1MiB"]);
    let bulk = ["attach", "--qmp", "/nowhere", "--window", "bulk"];
    let (code, text) = fails(&s, &bulk);
    assert!(code == 1 && text.contains("no control window of VM vm1 names it"), "{text}");
    assert!(text.contains("vfun client show vm1"), "{text}");
    assert_eq!(fails(&s, &[bulk.as_slice(), &["--no-wait"]].concat()).0, 5, "QEMU is asked");
    // Without virsh on the PATH.
    let out = Command::new(env!("CARGO_BIN_EXE_vfun"))
        .arg("--root")
        .arg(s.root())
        .args(["attach", "dom", "--client", "vm1"])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(1) && text.contains("libvirt-clients"), "{text}");
}

#[test]
fn a_link_is_declared_and_shown_with_both_of_its_vms() {
    let Some(s) = stand(&[]) else { return };
    for client in ["web", "db"] {
        let plain = ["--window", "1MiB", "--transport", "ivshmem-plain"];
        ok(&s, &[["client", "add", client].as_slice(), &plain].concat());
    }
    let link = ["window", "add", "pair", "--vm", "web", "--vm", "db", "--size", "1MiB"];
    let row = json(&s, &link);
    assert_eq!((&row["role"], &row["peers"][1]["vm"]), (&"link".into(), &"web".into()), "{row}");
    // The other way round it is the same.
    json(&s, &["window", "add", "pair", "--vm", "db", "--vm", "web", "--size", "1MiB"]);
    let ready = "db: ready to be attached; web: ready to be attached";
    s.until("it to be named", |s| ok(s, &["window", "list"]).contains(ready));
    let row = json(&s, &["window", "show", "pair"]);
    for (peer, vm) in row["peers"].as_array().unwrap().iter().zip(["db", "web"]) {
        let said = ["vm", "index", "named", "here"].map(|key| peer[key].clone());
        let right: [Value; 4] = [vm.into(), 1.into(), true.into(), false.into()];
        assert_eq!(said, right, "{row}");
    }
    let twice = ["window", "add", "own", "--vm", "web", "--vm", "web"];
    let (code, text) = fails(&s, &twice);
    assert!(code == 3 && text.contains("VM web is there twice"), "{text}");
    ok(&s, &["window", "remove", "pair"]);
    assert_eq!(fails(&s, &["window", "show", "pair"]).0, 3);
}

#[test]
fn functions_come_and_go() {
    let Some(s) = stand(&[]) else { return };
    ok(&s, &["function", "remove", "misbehave"]);
    assert_eq!(fails(&s, &["call", "misbehave"]).0, 3);
    let library = vfun_tests_local::programs().join("libvfun_testdriver.so");
    let file = s.root().join("mine.toml");
    std::fs::write(
        &file,
        format!("name = \"misbehave\"\nversion = \"1.0\"\nlibrary = \"{}\"\n", library.display()),
    )
    .unwrap();
    assert!(
        ok(&s, &["function", "add", file.to_str().unwrap()]).contains("misbehave 1.0 is offered")
    );
    assert!(ok(&s, &["function", "list"]).contains("misbehave"));
    // Words are for functions that ship.
    assert_eq!(fails(&s, &["call", "misbehave", "word"]).0, 2);
    let shown = ok(&s, &["call", "misbehave", "--hex", "0041", "--of-version", "1.0"]);
    assert_eq!(shown, format!("{:08x}  {:<47}  A\n", 0, "41"));
    assert_eq!(fails(&s, &["call", "misbehave", "--of-version", "3.0"]).0, 3);
    ok(&s, &["function", "remove", "misbehave"]);
    assert_eq!(fails(&s, &["function", "remove", "misbehave"]).0, 3);
    std::fs::write(&file, "# VirtFun\n\nA program in a VM calls its host.\n").unwrap();
    for command in [&["function", "add"][..], &["client", "add", "-f"], &["window", "add", "-f"]] {
        let (code, text) = fails(&s, &[command, &[file.to_str().unwrap()]].concat());
        let says = text.contains("mine.toml is no manifest of a ") && text.contains("line 3: ");
        assert!(code == 1 && says && text.contains("\n         name = "), "{text}");
    }
    std::fs::write(&file, "name = \"mine\"\nversion = \"x\"\n").unwrap();
    let (code, text) = fails(&s, &["function", "add", file.to_str().unwrap()]);
    assert!(code == 3 && text.contains("mine.toml:2"), "{text}");
}

#[test]
fn grants_are_seen_and_taken_away() {
    let Some(s) = stand(&[]) else { return };
    let session = s.connect("watched");
    let echo = session.function("echo").unwrap();
    (0..10).for_each(|_| drop(echo.call(b"abc").unwrap()));
    let ps = json(&s, &["ps"]);
    assert_eq!(
        (ps[0]["app"].as_str(), ps[0]["counters"]["calls"].as_u64()),
        (Some("watched"), Some(10))
    );
    let grant = ps[0]["grant"].as_str().unwrap();
    ok(&s, &["client", "add", "x"]);
    assert!(
        ok(&s, &["ps", "--client", "host"]).contains("watched")
            && !ok(&s, &["ps", "--client", "x"]).contains("watched")
    );
    let two = ok(&s, &["ps", "--watch", "0.1", "--count", "2"]);
    assert_eq!(two.matches("CALLS/S").count(), 2, "{two}");
    let top = json(&s, &["top", "--interval", "0.1"]);
    assert_eq!(top["grants"][0]["app"], "watched");
    assert!(top["total"]["calls_per_s"].is_number() && top["interval_s"].as_f64() >= Some(0.1));
    let lines = ok(&s, &["top", "--json", "--count", "2", "--interval", "0.1"]);
    let samples: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(samples.len(), 2);
    let text = ok(&s, &["top", "--once", "--interval", "0.1"]);
    assert!(text.contains("CALLS/S") && text.contains("watched"), "{text}");
    assert!(
        !ok(&s, &["top", "--once", "--interval", "0.1", "--filter", "zzz"]).contains("watched")
    );
    assert_eq!(fails(&s, &["top"]).0, 2, "no terminal");
    assert!(ok(&s, &["stats", grant]).contains("10, of these 0 with an error"));
    assert_eq!(json(&s, &["stats"])[0]["counters"]["bytes_in"], 30);
    let status = ok(&s, &["status"]);
    assert!(status.lines().any(|l| l.split_whitespace().eq(["grants", "1"])), "{status}");
    assert!(ok(&s, &["revoke", grant]).contains("taken away"));
    // Its service lets go of it after the call under way.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while echo.call(b"abc").is_ok() {
        assert!(std::time::Instant::now() < until, "a grant that was taken away goes on");
    }
    let history = json(&s, &["history", "-n", "50"]);
    assert!(
        history.as_array().unwrap().iter().any(|r| r["app"] == "watched" && r["state"] == "active"),
        "{history}"
    );
}

#[test]
fn the_doctor_finds_what_is_wrong() {
    let Some(s) = stand(&[]) else { return };
    let report = json(&s, &["doctor", "--side", "host"]);
    let state = |report: &Value, name: &str| {
        let all = report["checks"].as_array().unwrap();
        all.iter()
            .find(|c| c["name"] == name)
            .map(|c| c["state"].as_str().unwrap().to_owned())
            .unwrap_or_default()
    };
    assert_eq!(
        (state(&report, "manager"), state(&report, "path"), state(&report, "function echo")),
        ("ok".into(), "ok".into(), "ok".into())
    );
    let out = vfun(&s, &["--root", "/nowhere", "doctor", "--json", "--side", "host"]);
    assert_eq!(out.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(state(&report, "manager"), "missing");
    let out = vfun(&s, &["--root", "/nowhere", "doctor", "--side", "guest"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.code() == Some(1) && text.contains("-> "), "{text}");
}

#[test]
fn the_doctor_tells_of_the_managers_services_not_of_itself() {
    let Some(s) = stand(&["--without-layer", "landlock"]) else { return };
    let sandbox = |args: &[&str]| {
        let text = ok(&s, &[&["doctor", "--side", "host"], args].concat());
        text.lines().filter(|l| l.contains(" sandbox")).collect::<Vec<_>>().join("\n")
    };
    // Before any service has run, what the manager expects.
    let said = sandbox(&["--no-start"]);
    assert!(said.contains("no service has run yet") && said.contains("landlock"), "{said}");
    let said = sandbox(&[]);
    assert!(said.contains("the manager's services have"), "{said}");
    assert!(said.contains("left out by --without-layer") && !said.contains("all 14"), "{said}");
}

#[test]
fn a_bound_that_nothing_keeps_is_said_to_be_none() {
    let Some(s) = stand(&["--without-layer", "cgroup-cpu"]) else { return };
    let file = s.root().join("p.toml");
    std::fs::write(&file, "[client.host]\ncpu = \"20%\"\n").unwrap();
    let file = file.to_str().unwrap();
    let warning =
        "not enforced on this host: [client.host] cpu: services lack the layer 'cgroup-cpu'";
    for order in ["check", "set"] {
        let said = ok(&s, &["policy", order, file]);
        assert!(said.contains(warning), "policy {order}: {said}");
    }
    let said = ok(&s, &["policy", "show"]);
    assert!(said.contains("20% (not enforced)") && said.contains(warning), "{said}");
    let _held = s.connect("app").function("echo").unwrap();
    let said = ok(&s, &["service", "list"]);
    assert!(said.contains("20% (not enforced)"), "{said}");
    // One that is enforced, or no bound at all, is nothing to warn of.
    std::fs::write(file, "[client.host]\nchannels = 9\ncpu = \"none\"\n").unwrap();
    let said = ok(&s, &["policy", "set", file]);
    assert!(!said.contains("not enforced"), "{said}");
}

#[test]
fn calls_go_over_tcp_when_asked() {
    // A free port; another process may take it first, which fails loudly.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(s) = stand(&["--tcp", &format!("127.0.0.1:{port}")]) else { return };
    let endpoint = format!("tcp:127.0.0.1:{port}");
    ok(&s, &["client", "add", "far", "--kind", "host", "--tcp", "--credential", "key"]);
    let args = [
        "--endpoint",
        &endpoint,
        "call",
        "factorial",
        "10",
        "--client",
        "far",
        "--credential",
        "key",
        "--json",
    ];
    s.until("the gateway's start", |s| vfun(s, &args).status.success());
    let made = json(&s, &args[..args.len() - 1]);
    assert_eq!(
        (made["transport"].as_str(), made["value"].as_u64()),
        (Some("tcp"), Some(3_628_800))
    );
    assert_eq!(
        fails(
            &s,
            &[
                "--endpoint",
                &endpoint,
                "call",
                "echo",
                "x",
                "--client",
                "far",
                "--credential",
                "no"
            ]
        )
        .0,
        3
    );
}

#[test]
fn calls_go_by_tls_and_wrong_files_stop_the_start() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dir = tempfile::tempdir().unwrap();
    let path = |p: &Path| p.to_str().unwrap().to_owned();
    let issuer = Issuer::new(dir.path(), "issuer");
    let (shown, app) = (
        issuer.issue(dir.path(), "gateway", &["127.0.0.1"]),
        issuer.issue(dir.path(), "app", &["app"]),
    );
    let (tcp, cert, key, ca) =
        (format!("127.0.0.1:{port}"), path(&shown.cert), path(&shown.key), path(&issuer.file));
    let tls = |key: &str| -> Vec<String> {
        let all = ["--tcp", &tcp, "--tcp-tls-cert", &cert, "--tcp-tls-key", key];
        [&all[..], &["--tcp-tls-client-ca", &ca]].concat().iter().map(|a| (*a).into()).collect()
    };
    let arguments = tls(&key);
    let Some(s) = stand(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) else { return };
    ok(&s, &["client", "add", "far", "--kind", "host", "--tcp", "--credential", "key"]);
    let call = |with: &[(&str, &str)]| {
        Command::new(env!("CARGO_BIN_EXE_vfun"))
            .args(["--endpoint", &format!("tls:{tcp}"), "call", "factorial", "10"])
            .args(["--client", "far", "--credential", "key"])
            .env_remove("VFUN_ENDPOINT")
            .envs(with.iter().copied())
            .output()
            .unwrap()
    };
    let (own_cert, own_key) = (path(&app.cert), path(&app.key));
    let right = [("VFUN_TLS_CA", &*ca), ("VFUN_TLS_CERT", &own_cert), ("VFUN_TLS_KEY", &own_key)];
    s.until("the gateway's start", |_| call(&right).status.success());
    let made = call(&right);
    assert!(String::from_utf8_lossy(&made.stdout).contains("3628800"), "{made:?}");
    for (with, word) in
        [(&right[..1], "VFUN_TLS_CERT"), (&right[1..], "VFUN_TLS_CA"), (&[], "VFUN_TLS_CA")]
    {
        let out = call(with);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(5) && text.contains(word), "{text}");
    }
    let plain = format!("tcp:{tcp}");
    let (code, text) = fails(&s, &["--endpoint", &plain, "list", "--client", "far"]);
    assert!(code == 3 && text.contains("tls:HOST:PORT"), "{text}");

    // A key of another certificate: the manager does not start with it.
    let vfund = Path::new(env!("CARGO_BIN_EXE_vfun")).with_file_name("vfund");
    let out = Command::new(vfund)
        .args(["--root", &path(&dir.path().join("root"))])
        .args(tls(&own_key))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && text.contains("belong together"), "{text}");
}

#[test]
fn a_manager_drains_and_ends() {
    let Some(s) = stand(&[]) else { return };
    ok(&s, &["drain"]);
    assert!(ok(&s, &["status"]).contains("draining"));
    let (code, text) = fails(&s, &["call", "echo", "x"]);
    assert!(code == 3 && text.contains("draining"), "{text}");
    ok(&s, &["stop"]);
    s.until("its end", |s| vfun(s, &["status"]).status.code() == Some(5));
}

#[test]
fn words_mean_the_same_in_every_command() {
    let Some(s) = stand(&[]) else { return };
    for noun in ["function", "client", "token", "service", "leases"] {
        assert_eq!(ok(&s, &[noun, "list"]), ok(&s, &[noun, "ls"]), "{noun}");
    }
    assert_eq!(json(&s, &["list"])["functions"], json(&s, &["ls"])["functions"]);
    ok(&s, &["client", "add", "gone", "--kind", "host"]);
    ok(&s, &["client", "rm", "gone"]);
    ok(&s, &["function", "rm", "echo"]);
    ok(&s, &["token", "add", "host"]);
    let id = json(&s, &["tokens", "list"])[0]["id"].to_string();
    ok(&s, &["token", "remove", &id]);

    // @FILE is a file everywhere, and an array that was forgotten is no empty one.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("abc");
    std::fs::write(&file, "abc").unwrap();
    let (plain, at) = (file.display().to_string(), format!("@{}", file.display()));
    let digest = ok(&s, &["call", "sha256", &plain]);
    assert!(digest.starts_with("ba7816bf8f01cfea"), "{digest}");
    assert_eq!(ok(&s, &["call", "sha256", &at]), digest);
    let (code, text) = fails(&s, &["call", "zstd", "3"]);
    assert!(code == 2 && text.contains("the argument 'data' is missing: zstd("), "{text}");
    ok(&s, &["call", "zstd", "3", &at, "--out", dir.path().join("zst").to_str().unwrap()]);

    // A struct is its members, and stands behind the function that takes it.
    assert_eq!(ok(&s, &["call", "nearest", "1,1", "10", "5,5;1,2"]), "distance = 1.0\nindex = 1\n");
    let (code, text) = fails(&s, &["call", "nearest", "1", "10", "5,5"]);
    let usage = "argument 'to': y: a number (f64) is missing: nearest(to: Point, within: f64";
    assert!(code == 2 && text.contains(usage), "{text}");
    assert!(ok(&s, &["list"]).contains("(to: Point, within: f64, among: [Point]) -> Hit; struct"));
}

#[test]
fn refusals_have_a_code_for_programs() {
    let Some(s) = stand(&[]) else { return };
    let code = |args: &[&str]| {
        let (_, text) = fails(&s, &[args, &["--json"]].concat());
        let error: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        error["error"]["code"].as_str().unwrap().to_owned()
    };
    assert_eq!(code(&["call", "nothing"]), "unknown_function");
    assert_eq!(code(&["call", "echo", "x", "--of-version", "9.0"]), "wrong_version");
    assert_eq!(code(&["client", "show", "nobody"]), "refused");
    assert_eq!(code(&["call", "factorial"]), "usage");
    assert_eq!(code(&["--root", "/nowhere", "status"]), "unreachable");
}

#[test]
fn the_doctor_leaves_no_trace_in_the_audit_log() {
    let Some(s) = stand(&[]) else { return };
    let refusals = || {
        let all = json(&s, &["audit", "--refused"]);
        all.as_array().unwrap().len()
    };
    let report = json(&s, &["doctor", "--side", "host"]);
    let checks = report["checks"].as_array().unwrap();
    for function in ["function floor", "function echo"] {
        let check = checks.iter().find(|c| c["name"] == function).expect(function);
        assert_eq!(check["state"], "ok", "{check}");
    }
    assert_eq!(refusals(), 0);
}
