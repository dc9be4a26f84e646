//! A program that knows of nothing but PKCS#11, the module of SoftHSM 2, and the one that asks the
//! host for it.

use crate::{Stand, programs, repo};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use vfun_admin::Ask;

/// Debian's package softhsm2; a link, whose folder services do not see.
pub const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";

/// Whether the module and its header are on this machine (Debian's softhsm2 and libp11-kit-dev).
pub fn can_be_tried() -> bool {
    let there = [SOFTHSM, "/usr/include/p11-kit-1/p11-kit/pkcs11.h"];
    let missing: Vec<_> = there.into_iter().filter(|path| !Path::new(path).exists()).collect();
    if !missing.is_empty() {
        eprintln!("not tried: there is no {}", missing.join(" and no "));
    }
    missing.is_empty()
}

/// The module that does the work.
enum Module {
    SoftHsm,
    Source(&'static str),
}

impl Module {
    fn path(self, dir: &Path) -> PathBuf {
        match self {
            Module::SoftHsm => std::fs::canonicalize(SOFTHSM).expect("looked"),
            Module::Source(source) => {
                let path = dir.join("module.so");
                compile(source, &path, &["-shared", "-fPIC"]);
                path
            }
        }
    }
}

fn compile(source: &str, to: &Path, with: &[&str]) {
    let compiled = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-D_DEFAULT_SOURCE"])
        .args(["-I/usr/include/p11-kit-1", "-o"])
        .arg(to)
        .args(with)
        .arg(repo().join(source))
        .args(["-ldl", "-lpthread"])
        .status();
    assert!(compiled.expect("cc runs").success(), "{source} does not compile");
}

/// A manager that offers PKCS#11 over a module, SoftHSM or another, and the program.
pub struct Tokens {
    pub stand: Stand,
    program: PathBuf,
    native: PathBuf,
    conf: PathBuf,
    dir: tempfile::TempDir,
}

impl Tokens {
    /// With more lines of settings for the function.
    ///
    /// # Panics
    /// If the program does not compile, or the function is refused.
    pub fn offer(settings: &str) -> Tokens {
        Tokens::of(Module::SoftHsm, settings)
    }

    /// Over a module that is compiled of this file, which has events of slots.
    ///
    /// # Panics
    /// As [`Tokens::offer`].
    pub fn with_events() -> Tokens {
        Tokens::of(Module::Source("tests/local/tests/apis/plugged.c"), "")
    }

    fn of(module: Module, settings: &str) -> Tokens {
        let dir = tempfile::Builder::new().prefix("vfun-p11-").tempdir_in("/dev/shm").unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let native = dir.path().join("native");
        std::fs::create_dir(&native).expect("a new folder");
        // A service, and a program here, begin in the folder of its tokens.
        let conf = dir.path().join("softhsm2.conf");
        let text = "directories.tokendir = .\nobjectstore.backend = file\nlog.level = ERROR\n";
        std::fs::write(&conf, text).expect("written");
        let writes = dir.path().join("writes");
        let stand = Stand::with(&["--writes", writes.to_str().expect("text")]);
        let path = repo().join("services/pkcs11back/functions/pkcs11/function.toml");
        let shipped = std::fs::read_to_string(path).expect("it ships");
        let (head, _) = shipped.split_once("[settings]").expect("settings");
        let keys = ["writes", "reads", "makes_code", "[environment]", "SOFTHSM2_CONF"];
        let own = |line: &&str| !keys.iter().any(|key| line.starts_with(key));
        let head: String = head.lines().filter(own).flat_map(|line| [line, "\n"]).collect();
        let module = module.path(dir.path());
        let reads = [&conf, &module].map(|path| format!("{:?}", path.display().to_string()));
        let manifest = format!(
            "{head}makes_code = true\nreads = [{2}]\nwrites = [\"{{writes}}/tokens/{{client}}\"]\n\
             [environment]\nSOFTHSM2_CONF = \"{0}\"\n[settings]\nmodule = \"{1}\"\n{settings}",
            conf.display(),
            module.display(),
            reads.join(", ")
        );
        stand.ask(&Ask::AddFunction { manifest, file: "function.toml".into() });
        let program = dir.path().join("program");
        compile("tests/local/tests/apis/pkcs11.c", &program, &[]);
        Tokens { stand, program, native, conf, dir }
    }

    /// The program with SoftHSM itself.
    pub fn native(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(SOFTHSM).env("SOFTHSM2_CONF", &self.conf).current_dir(&self.native);
        command
    }

    /// The program with the module that asks the host.
    pub fn remoted(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(programs().join("libvfun_pkcs11.so"));
        command.env("VFUN_ENDPOINT", crate::gdma::endpoint(&self.stand));
        command
    }

    /// The folder of the client's tokens, where its service writes.
    pub fn folder(&self) -> PathBuf {
        self.dir.path().join("writes/tokens/host")
    }

    /// The log of the client's service.
    pub fn log(&self) -> String {
        let path = self.stand.root().join("service/host/pkcs11.log");
        std::fs::read_to_string(path).unwrap_or_default()
    }
}
