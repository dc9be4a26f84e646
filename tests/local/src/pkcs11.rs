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

/// A manager that offers PKCS#11 over SoftHSM, and the program.
pub struct Tokens {
    pub stand: Stand,
    program: PathBuf,
    native: PathBuf,
    conf: PathBuf,
    _dir: tempfile::TempDir,
}

impl Tokens {
    /// With more lines of settings for the function.
    ///
    /// # Panics
    /// If the program does not compile, or the function is refused.
    pub fn offer(settings: &str) -> Tokens {
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
        let module = std::fs::canonicalize(SOFTHSM).expect("looked");
        let manifest = format!(
            "{head}makes_code = true\nreads = [\"{0}\"]\nwrites = [\"{{writes}}/tokens/{{client}}\"]\n\
             [environment]\nSOFTHSM2_CONF = \"{0}\"\n[settings]\nmodule = \"{1}\"\n{settings}",
            conf.display(),
            module.display()
        );
        stand.ask(&Ask::AddFunction { manifest, file: "function.toml".into() });
        let program = dir.path().join("program");
        let compiled = Command::new("cc")
            .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-D_DEFAULT_SOURCE"])
            .args(["-I/usr/include/p11-kit-1", "-o"])
            .arg(&program)
            .arg(repo().join("tests/local/tests/apis/pkcs11.c"))
            .args(["-ldl", "-lpthread"])
            .status();
        assert!(compiled.expect("cc runs").success(), "pkcs11.c does not compile");
        Tokens { stand, program, native, conf, _dir: dir }
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

    /// The log of the client's service.
    pub fn log(&self) -> String {
        let path = self.stand.root().join("service/host/pkcs11.log");
        std::fs::read_to_string(path).unwrap_or_default()
    }
}
