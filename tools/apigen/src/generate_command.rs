//! `vfun-apigen generate`.

use clap::Args;
use std::error::Error;
use std::path::Path;

/// Write the code of both halves and the table for the docs from an API's description.
#[derive(Args)]
pub struct GenerateArguments {
    /// A folder in tools/apigen/apis, for example gdma
    api: String,
}

pub fn run(arguments: &GenerateArguments) -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for made in vfun_apigen::generate(&root.join("tools/apigen/apis").join(&arguments.api))? {
        let path = root.join(&made.path);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        written
            .and_then(|()| std::fs::write(&path, made.text))
            .map_err(|why| format!("{} cannot be written: {why}", path.display()))?;
        println!("{}", made.path.display());
    }
    Ok(())
}
