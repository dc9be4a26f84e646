//! Descriptions that are made wrong, and what the generator says of them.

use std::path::Path;

/// What is wrong with gdma's description when `old` is `new` in it.
fn wrong(old: &str, new: &str) -> String {
    wrong_in("gdma", old, new)
}

fn wrong_in(api: &str, old: &str, new: &str) -> String {
    let apis = Path::new(env!("CARGO_MANIFEST_DIR")).join("apis").join(api);
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
    assert!(
        said.contains("'context' is a *mut opaque gdma_context; a count is an unsigned number"),
        "{said}"
    );
    let said = with("gdma_buffer_map", "address = \"in-bytes bytes\"");
    assert!(said.contains("'bytes' is a "), "it is a pointer: {said}");
    let said = with("gdma_buffer_alloc", "buffer = \"in-bytes bytes\"");
    assert!(said.contains("in-bytes: *mut opaque gdma_buffer is no byte"), "{said}");
}

#[test]
fn what_has_pointers_is_described_to_the_end() {
    let wrong = |old: &str, new: &str| wrong_in("pkcs11", old, new);
    for (old, new, why) in [
        ("pIv = \"ulIvLen\", ", "", "struct.CK_GCM_PARAMS.pIv: say what it is"),
        ("pIv = \"ulIvLen\"", "pIv = \"pAAD\"", "pIv are no bytes with the length pAAD"),
        ("CKM_AES_CBC = \"16\"", "CKM_AES_CBC = \"some\"", "'some' says neither how many bytes"),
        ("\"struct CK_GCM_PARAMS\"", "\"struct CK_INFO\"", "'struct CK_INFO' says neither"),
        ("CKM_AES_CTR = ", "CKM_AES_CTX = ", "the header has no constant CKM_AES_CTX"),
        (
            "pointer = \"pParameter\"",
            "pointer = \"mechanism\"",
            "tagged.CK_MECHANISM: it has not a tag",
        ),
        ("handle = \"CK_OBJECT_HANDLE\"\n", "", "object.object: say its pointer or its handle"),
        ("with = \"session\"", "with = \"token\"", "object.object: there is no object token"),
        ("begin = \"C_Initialize\"\n", "", "numbers that stand for objects need `begin`"),
        ("closed = ", "# ", "status.closed: what do functions say before"),
        ("{ mechanism = \"in\" }", "{}", "C_EncryptInit.mechanism: say what a"),
    ] {
        let said = wrong(old, new);
        assert!(said.contains(why), "{new}: {said}");
    }
}

#[test]
fn answers_of_one_function_can_be_told_apart() {
    let wrong = |old: &str, new: &str| wrong_in("pkcs11", old, new);
    let said = wrong("out-bytes digest_len", "out-bytes data_len");
    assert!(said.contains("out-bytes: 'data_len' is a u64"), "{said}");
    let said = wrong(
        "{ info = \"out\" }\n[function.C_GetTokenInfo]",
        "{ info = \"out-bytes slotID\" }\n[function.C_GetTokenInfo]",
    );
    assert!(said.contains("C_GetSlotInfo.info: out-bytes: 'slotID' is a "), "{said}");
    let said = wrong("[function.C_DigestKey]", "[function.C_DigestKey]\nsplit = true");
    assert!(said.contains("C_DigestKey: a call is split by its only bytes"), "{said}");
    let said = wrong("[function.C_DigestKey]", "[function.C_DigestKey]\nanswer = \"CKR_OK\"");
    assert!(said.contains("C_DigestKey: only a local one has an answer"), "{said}");
}
