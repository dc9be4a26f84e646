//! Which kernel modules must be loaded, and in what order, by `modules.dep`.

use std::collections::HashMap;

use crate::Result;
use crate::error::GuestError;

/// The modules of one kernel.
pub(crate) struct Modules {
    /// By name: the file and those it depends on, in depmod's order.
    files: HashMap<String, (String, Vec<String>)>,
    built_in: Vec<String>,
}

/// `kernel/drivers/net/virtio-rng.ko` is the module `virtio_rng`.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

impl Modules {
    /// From the text of `modules.dep` and of `modules.builtin`.
    pub fn parse(dep: &str, builtin: &str) -> Self {
        let files = dep.lines().filter_map(|line| {
            let (file, deps) = line.split_once(':')?;
            Some((
                name_of(file),
                (file.to_owned(), deps.split_whitespace().map(str::to_owned).collect()),
            ))
        });
        Modules { files: files.collect(), built_in: builtin.lines().map(name_of).collect() }
    }

    /// The files to load, dependencies first, nothing twice.
    pub fn order(&self, names: &[&str]) -> Result<Vec<String>> {
        let mut order: Vec<String> = Vec::new();
        for name in names {
            let name = name.replace('-', "_");
            let Some((file, deps)) = self.files.get(&name) else {
                if self.built_in.contains(&name) {
                    continue;
                }
                return Err(GuestError::NoModule { name });
            };
            // depmod lists what is needed last first.
            for file in deps.iter().rev().chain([file]) {
                if !order.contains(file) {
                    order.push(file.clone());
                }
            }
        }
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Modules {
        Modules::parse(
            "kernel/a.ko:\nkernel/b-x.ko: kernel/a.ko\nkernel/c.ko: kernel/b-x.ko kernel/a.ko\n",
            "kernel/drivers/tty/8250.ko\n",
        )
    }

    #[test]
    fn dependencies_come_first_and_once() {
        assert_eq!(
            sample().order(&["c", "b_x", "8250"]).unwrap(),
            ["kernel/a.ko", "kernel/b-x.ko", "kernel/c.ko"]
        );
        assert_eq!(sample().order(&["b-x"]).unwrap(), ["kernel/a.ko", "kernel/b-x.ko"]);
    }

    #[test]
    fn an_unknown_module_is_named() {
        assert!(sample().order(&["nope"]).unwrap_err().to_string().contains("'nope'"));
    }
}
