//! `vfun-apigen generate API`.
fn main() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let api = std::env::args().nth(2).expect("generate API");
    match vfun_apigen::generate(&root.join("tools/apigen/apis").join(api)) {
        Ok(made) => {
            for m in made {
                let p = root.join(&m.path);
                std::fs::create_dir_all(p.parent().unwrap()).unwrap();
                std::fs::write(&p, m.text).unwrap();
                println!("{}", m.path.display());
            }
        }
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(1)
        }
    }
}
