//! Descriptions of gdma that are made wrong, and what the generator says of them.

use std::path::Path;

/// What is wrong with gdma's description when `old` is `new` in it.
fn wrong(old: &str, new: &str) -> String {
    let apis = Path::new(env!("CARGO_MANIFEST_DIR")).join("apis/gdma");
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["facts.toml", "numbers.toml"] {
        std::fs::copy(apis.join(file), folder.path().join(file)).expect("copied");
    }
    let text = std::fs::read_to_string(apis.join("api.toml")).expect("a description");
    assert!(text.contains(old), "{old}");
    std::fs::write(folder.path().join("api.toml"), text.replace(old, new)).expect("written");
    match vfun_apigen::generate(folder.path()) {
        Ok(_) => panic!("{new}: not refused"),
        Err(why) => why.to_string(),
    }
}

#[test]
fn objects_do_not_nest_in_a_circle() {
    let said = wrong("number = 1, pointer", "number = 1, parent = \"buffer\", pointer");
    assert!(said.contains("object.context: its parents end in a circle"), "{said}");
    let said = wrong(
        "pointer = \"gdma_buffer\", parent = \"context\"",
        "pointer = \"gdma_buffer\", parent = \"buffer\"",
    );
    assert!(said.contains("object.buffer: its parents"), "{said}");
}

#[test]
fn what_frees_waits_for_its_answer() {
    for how in ["async", "async-now"] {
        let old = "[function.gdma_buffer_free]\n";
        let said = wrong(old, &format!("{old}how = \"{how}\"\n"));
        assert!(said.contains("function.gdma_buffer_free: what it frees"), "{said}");
    }
}

#[test]
fn bytes_have_a_count_of_bytes() {
    let with = |function: &str, word: &str| {
        let old = format!("[function.{function}]\n");
        wrong(&old, &format!("{old}parameters = {{ {word} }}\n"))
    };
    let said = with("gdma_pool_use", "base = \"in-bytes none\"");
    assert!(said.contains("gdma_pool_use.base: in-bytes: no parameter 'none'"), "{said}");
    let said = with("gdma_pool_use", "base = \"in-bytes context\"");
    assert!(said.contains("no parameter 'context' counts its bytes"), "{said}");
    let said = with("gdma_buffer_map", "address = \"in-bytes bytes\"");
    assert!(said.contains("no parameter 'bytes' counts"), "it is a pointer: {said}");
    let said = with("gdma_buffer_alloc", "buffer = \"in-bytes bytes\"");
    assert!(said.contains("in-bytes: *mut opaque gdma_buffer is no byte"), "{said}");
}
