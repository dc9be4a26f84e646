//! `make install` and `make uninstall`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use vfun_tests_local::{placed, programs, repo};

/// `packaging/install.sh`, on a PATH where `ldconfig` only leaves a note.
struct Install {
    dir: tempfile::TempDir,
}

impl Install {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("tools");
        std::fs::create_dir(&bin).unwrap();
        let ldconfig = bin.join("ldconfig");
        placed::script(&ldconfig, &format!("#!/bin/sh\n: >{}/linker\n", dir.path().display()));
        Install { dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, prefix: &Path, destdir: &str, words: &[&str]) -> Output {
        let path = std::env::var("PATH").unwrap();
        Command::new(repo().join("packaging/install.sh"))
            .args(words)
            .env("PATH", format!("{}:{path}", self.at("tools").display()))
            .env("PREFIX", prefix)
            .env("DESTDIR", destdir)
            .env("VFUN_BUILT", programs())
            .output()
            .unwrap()
    }

    fn told_linker(&self) -> bool {
        self.at("linker").exists()
    }
}

fn good(out: &Output) -> String {
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    said
}

/// All files and links below a folder, relative.
fn files(below: &Path) -> BTreeSet<String> {
    let list = Command::new("find")
        .arg(below)
        .args(["!", "-type", "d", "-printf", "%P\n"])
        .output()
        .unwrap();
    String::from_utf8(list.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Manual pages, without their section's number.
const PAGES: [&str; 8] = [
    "man1/vfun",
    "man1/vfun-call",
    "man1/vfun-top",
    "man8/vfund",
    "man8/vfun-gateway",
    "man8/vfun-nics",
    "man8/vfun-links",
    "man8/vfun-links-proxy",
];

#[test]
fn an_install_in_a_folder_of_ones_own_stays_in_it_and_is_removed_whole() {
    let install = Install::new();
    let prefix = install.at("home/virtfun");
    let unit = Path::new("/usr/lib/systemd/system/vfund.service");
    let before = std::fs::metadata(unit).and_then(|m| m.modified()).ok();
    let said = good(&install.run(&prefix, "", &[]));
    assert!(said.contains("LD_LIBRARY_PATH"), "{said}");
    assert_eq!(std::fs::metadata(unit).and_then(|m| m.modified()).ok(), before);
    assert!(!install.told_linker());
    let there = files(&prefix);
    let headers =
        ["gdma.h", "vfun.h", "vfun_driver.h", "vfun_function.h", "vfun_queue.h", "vfun_wire.h"];
    let headers = headers.map(|h| format!("include/{h}"));
    let programs = ["bin/vfun", "bin/vfund", "lib/libvfun.so"].map(str::to_owned);
    let pages = PAGES.map(|p| format!("share/man/{p}.{}", &p[3..4]));
    for file in headers.iter().chain(&programs).chain(&pages) {
        assert!(there.contains(file), "{file} is not among {there:?}");
    }
    assert!(!there.iter().any(|f| f.ends_with(".service")), "{there:?}");
    has_apis(&there);

    // Each option of the manager is in its page, and the example of its file holds.
    let page = std::fs::read_to_string(prefix.join("share/man/man8/vfund.8")).unwrap();
    for option in ["\\-\\-config <FILE>", "\\-\\-window\\-dir <DIR>", "\\-\\-check"] {
        assert!(page.contains(option), "{option} is not in {page}");
    }
    let example = prefix.join("share/virtfun/vfund.toml");
    let root = install.at("root");
    let mut check = Command::new(prefix.join("bin/vfund"));
    check.arg("--check").arg("--root").arg(root).arg("--config").arg(example);
    let said = good(&check.output().unwrap());
    assert!(said.contains("share/virtfun/functions: ") && said.contains("would start"), "{said}");

    // What is installed works without the folder where it was built.
    let version = |program: &str| {
        let out = Command::new(prefix.join("bin").join(program)).arg("--version").output();
        good(&out.unwrap())
    };
    assert!(version("vfun").starts_with("vfun "));
    assert!(version("vfund").starts_with("vfund "), "{}", version("vfund"));
    let program = install.at("program");
    let cc = format!(
        "cc -o {} {} $(pkg-config --cflags --libs vfun)",
        program.display(),
        repo().join("guest/client/examples/factorial.c").display()
    );
    let pkgconfig = prefix.join("lib/pkgconfig");
    good(
        &Command::new("sh").args(["-ec", &cc]).env("PKG_CONFIG_PATH", pkgconfig).output().unwrap(),
    );
    let needs = Command::new("readelf").arg("-d").arg(&program).output().unwrap();
    let needs = good(&needs);
    let name = needs.lines().find(|l| l.contains("[libvfun.so")).expect("it needs the library");
    let name = name.split(['[', ']']).nth(1).unwrap();
    assert_eq!(name, "libvfun.so.0", "the library's name has the number of its ABI");
    assert!(there.contains(&format!("lib/{name}")), "{there:?}");

    new_projects_build(&prefix, &install.at("projects"));

    // Something that is somebody else's stays, and so does its folder.
    std::fs::write(prefix.join("bin/other"), "").unwrap();
    good(&install.run(&prefix, "", &["--remove"]));
    assert_eq!(files(&prefix), BTreeSet::from(["bin/other".to_owned()]));
    assert!(!prefix.join("share").exists());
    let again = install.run(&prefix, "", &["--remove"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("nothing is installed under"));
}

/// The libraries of APIs, each in a folder of its own; what serves them is offered to nobody yet.
fn has_apis(there: &BTreeSet<String>) {
    let wanted = [
        "lib/virtfun/apis/gdma/libgdma.so",
        "lib/virtfun/apis/gdma/libgdma.so.0",
        "lib/virtfun/libvfun_gdmaback.so",
        "lib/virtfun/native/gdma/libgdma.so",
        "lib/virtfun/native/gdma/libgdma.so.0",
        "share/doc/virtfun/examples/gdma/bounce.c",
        "share/virtfun/functions-gdma-simulated/gdma.toml",
    ];
    let all: Vec<&str> = there.iter().map(String::as_str).collect();
    for file in [
        "lib/pkcs11/virtfun-pkcs11.so",
        "lib/virtfun/libvfun_pkcs11back.so",
        "share/p11-kit/modules/virtfun.module",
        "share/virtfun/functions-pkcs11/pkcs11.toml",
        "share/virtfun/functions-pkcs11/softhsm2.conf",
    ] {
        assert!(there.contains(file), "{file} is not among {there:?}");
    }
    let of_gdma = |f: &&str| f.contains("gdma") && !f.starts_with("include/");
    assert_eq!(all.into_iter().filter(of_gdma).collect::<Vec<_>>(), wanted);
}

/// With the headers that are installed, and no source tree.
fn new_projects_build(prefix: &Path, projects: &Path) {
    let run = |line: &str| {
        let mut sh = Command::new("sh");
        sh.args(["-ec", line]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        sh.env("LD_LIBRARY_PATH", prefix.join("lib"));
        sh.output().unwrap()
    };
    let (vfun, at) = (prefix.join("bin/vfun"), projects.display());
    for lang in ["c", "wasm"] {
        good(&run(&format!("{} new mine --lang {lang} --dir {at}/{lang}", vfun.display())));
        good(&run(&format!("make -C {at}/{lang} test && make -C {at}/{lang}")));
        let makefile = std::fs::read_to_string(projects.join(lang).join("Makefile")).unwrap();
        assert!(makefile.contains("PKG_CONFIG ?= pkg-config\n"), "{makefile}");
    }
    let rust = run(&format!("{} new mine --lang rust --dir {at}/rust", vfun.display()));
    let words = String::from_utf8_lossy(&rust.stderr).into_owned();
    assert!(rust.status.code() == Some(1) && words.contains("--source"), "{words}");
}

/// Those that a file of systemd's gives, as `setpriv` calls them.
fn capabilities(file: &str) -> Vec<String> {
    let of = |key: &str| -> Vec<String> {
        let list = file.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('=')).expect(key);
        let names = list.split(' ').map(|name| name.strip_prefix("CAP_").expect(name));
        names.map(str::to_lowercase).collect()
    };
    let all = of("CapabilityBoundingSet");
    assert_eq!(all, of("AmbientCapabilities"));
    all
}

/// With the unit's capabilities the manager says that it cannot lend network VFs; with
/// those of the file for it besides, it says nothing.
fn lends_vfs_with_more_only(destdir: &Path, unit: &[String], more: &[String]) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("passed over: only root can take capabilities away from itself");
        return;
    }
    let says = |all: &[String]| {
        let set = format!("--bounding-set=-all,+{}", all.join(",+"));
        let mut vfund = Command::new("setpriv");
        vfund.arg("--no-new-privs").arg(set).arg(destdir.join("usr/bin/vfund"));
        vfund.args(["--check", "--nics", "--root"]).arg(destdir.join("../root"));
        String::from_utf8(vfund.output().unwrap().stdout).unwrap()
    };
    let lacks = says(unit);
    assert!(lacks.contains("net_admin") && lacks.contains("dac_override"), "{lacks}");
    let lends = says(&[unit, more].concat());
    assert!(lends.contains("vfund would") && !lends.contains("--nics"), "{lends}");
}

#[test]
fn a_package_gets_the_unit_and_touches_no_linker() {
    let install = Install::new();
    let destdir = install.at("package");
    good(&install.run(Path::new("/usr"), destdir.to_str().unwrap(), &[]));
    let unit = std::fs::read_to_string(destdir.join("usr/lib/systemd/system/vfund.service"));
    let unit = unit.unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/vfund "));
    let more = std::fs::read_to_string(destdir.join("usr/share/virtfun/vfund-nics.conf")).unwrap();
    assert!(more.contains("/usr/share/virtfun/vfund-nics.conf /etc/systemd/"), "{more}");
    lends_vfs_with_more_only(&destdir, &capabilities(&unit), &capabilities(&more));
    assert!(!install.told_linker());
    let all = files(&destdir);
    assert!(all.iter().all(|f| f.starts_with("usr/")), "{all:?}");
    good(&install.run(Path::new("/usr"), destdir.to_str().unwrap(), &["--remove"]));
    assert_eq!(files(&destdir), BTreeSet::new());
}
