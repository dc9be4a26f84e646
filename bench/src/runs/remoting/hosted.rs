//! What PKCS#11 is measured with: SoftHSM, and p11-kit's server where it is installed.

use super::super::progress;
use crate::Result;
use crate::error::Doing;
use crate::lab::Manager;
use crate::remoting::Modules;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vfun_admin::Ask;

const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";
const P11_KIT: &str = "/usr/bin/p11-kit";
const OVER_A_SOCKET: &str = "/usr/lib/x86_64-linux-gnu/pkcs11/p11-kit-client.so";
/// Who serves the API, and SoftHSM's settings.
const MANIFEST: &str =
    include_str!("../../../../services/pkcs11back/functions/pkcs11/function.toml");
const CONF: &str = include_str!("../../../../services/pkcs11back/functions/pkcs11/softhsm2.conf");
/// Where an install has these settings.
const INSTALLED: &str = "@PREFIX@/share/virtfun/functions-pkcs11";

/// The modules, and variables that tell them where their tokens are.
pub struct Hosted {
    pub modules: Modules,
    pub variables: Vec<(&'static str, PathBuf)>,
    /// p11-kit's server, which ends with this.
    _server: Option<Server>,
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Offers PKCS#11 by this manager. None if something is missing, which is said.
pub fn host(manager: &Manager, remoted: PathBuf) -> Result<Option<Hosted>> {
    for (path, words) in [
        (Path::new(SOFTHSM), "softhsm2 is not installed"),
        (&remoted, "the module for programs in VMs is not built"),
    ] {
        if !path.exists() {
            let path = path.display();
            progress(format_args!("remoting: pkcs11 is left out: {words} ({path})"));
            return Ok(None);
        }
    }
    let root = manager.root();
    let doing = || format!("no place for tokens below {}", root.display());
    std::fs::write(root.join("softhsm2.conf"), CONF).doing(doing)?;
    let manifest = MANIFEST.replace(INSTALLED, &root.display().to_string());
    manager.ask(&Ask::AddFunction { manifest, file: "function.toml".into() })?;
    let conf = |name: &str| -> Result<PathBuf> {
        let (tokens, file) = (root.join(name), root.join(format!("{name}.conf")));
        std::fs::create_dir(&tokens).doing(doing)?;
        let text = CONF.replace("tokendir = .", &format!("tokendir = {}", tokens.display()));
        std::fs::write(&file, text).doing(doing)?;
        Ok(file)
    };
    let mut variables = vec![("SOFTHSM2_CONF", conf("native")?)];
    let socket = root.join("p11-kit.sock");
    let server = match Path::new(P11_KIT).exists() && Path::new(OVER_A_SOCKET).exists() {
        true => serve(&socket, &conf("socket")?),
        false => None,
    };
    if server.is_some() {
        let address = format!("unix:path={}", socket.display());
        variables.push(("P11_KIT_SERVER_ADDRESS", address.into()));
    }
    let modules = Modules {
        native: SOFTHSM.into(),
        remoted,
        socket: server.is_some().then(|| OVER_A_SOCKET.into()),
    };
    Ok(Some(Hosted { modules, variables, _server: server }))
}

/// Starts p11-kit's server; none if it does not come up.
fn serve(socket: &Path, conf: &Path) -> Option<Server> {
    let child = Command::new(P11_KIT)
        .args(["server", "--foreground", "--provider", SOFTHSM, "--name"])
        .arg(socket)
        .arg("pkcs11:")
        .env("SOFTHSM2_CONF", conf)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let server = Server(child.ok()?);
    let until = Instant::now() + Duration::from_secs(10);
    while !socket.exists() {
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(server)
}
