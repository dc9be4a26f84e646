//! What is checked in is what the generator makes of the descriptions, byte for byte.

use std::path::Path;

#[test]
fn generating_again_changes_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let apis = root.join("tools/apigen/apis");
    let mut seen = 0;
    for api in std::fs::read_dir(&apis).expect("descriptions") {
        let folder = api.expect("an entry").path();
        let name = folder.file_name().expect("a name").display().to_string();
        let made = vfun_apigen::generate(&folder).unwrap_or_else(|why| panic!("{name}: {why}"));
        for file in made {
            let kept = std::fs::read_to_string(root.join(&file.path)).unwrap_or_default();
            assert!(
                kept == file.text,
                "{} is not what the description of {name} makes: run `cargo run -p vfun-apigen -- generate {name}`",
                file.path.display()
            );
            seen += 1;
        }
    }
    assert!(seen >= 3, "only {seen} files were compared");
}
