//! `vfun-apigen generate`.

use crate::repository;
use clap::Args;
use std::error::Error;

/// Write the code of both halves and the table for the docs from an API's description.
#[derive(Args)]
#[command(
    after_help = "Say what each function and parameter is for in tools/apigen/apis/API/api.toml;
docs/remoting.md has the words. Without a description yet, begin with `vfun-apigen new`."
)]
pub struct GenerateArguments {
    /// A folder in tools/apigen/apis, for example gdma
    api: String,
}

pub fn run(arguments: &GenerateArguments) -> Result<(), Box<dyn Error>> {
    let (root, api) = (repository::root(), &arguments.api);
    let folder = repository::description(api);
    if !root.join(&folder).is_dir() {
        return Err(format!(
            "no API '{api}' is described: {} is missing; there are: {}. `vfun-apigen new` begins one",
            folder.display(),
            repository::described(&root)
        )
        .into());
    }
    let made = vfun_apigen::generate(&root.join(folder))?;
    for file in &made {
        let path = root.join(&file.path);
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        vfun_apigen::numbers_stay(&kept, &file.text).map_err(|why| format!("{api}: {why}"))?;
    }
    for file in made {
        repository::write(&root.join(&file.path), &file.text)?;
        println!("{}", file.path.display());
    }
    Ok(())
}
