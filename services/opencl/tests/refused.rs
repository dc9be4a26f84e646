//! What is not served, and who learns what of the reason.

use crate::common::*;
use vfun_opencl::LoadError;

const SOURCE: &str = "__kernel void k(uint n, __global const float *v, __local float *l, __global float *o) { o[0] = v[0] + n; }";
const MAP: &str = "kernel = \"k\"\nglobal = [\"n\"]\n\
    args = [{ value = \"n\" }, { input = \"v\" }, { local = \"f32\", count = \"4\" }, { output = \"\" }]\n";
const SIGNATURE: &str = "(n: u32, v: [f32]) -> f32";

fn refused(source: &str, map: &str) -> LoadError {
    match own(source, map, SIGNATURE) {
        Ok(_) => panic!("it is served"),
        Err(e) => e,
    }
}

#[test]
fn the_compilers_words_are_for_the_author_alone() {
    prepare();
    if !device("the_compilers_words_are_for_the_author_alone") {
        return;
    }
    assert!(own(SOURCE, MAP, SIGNATURE).is_ok());
    let secret = "a_name_of_the_authors";
    let e = refused(&format!("__kernel void k() {{ {secret} = 1; }}"), MAP);
    assert!(matches!(e, LoadError::Build { .. }), "{e:?}");
    assert!(e.details().unwrap().contains(secret), "{:?}", e.details());
    let told = e.to_string();
    assert!(told.contains("does not compile") && !told.contains(secret), "{told}");
}

#[test]
fn a_manifest_that_promises_what_is_not_there_is_refused_with_its_reason() {
    prepare();
    if !device("a_manifest_that_promises_what_is_not_there_is_refused_with_its_reason") {
        return;
    }
    let with = |from: &str, to: &str| {
        assert!(MAP.contains(from), "{from}");
        refused(SOURCE, &MAP.replacen(from, to, 1))
    };
    let check = |e: LoadError, told: &str, details: &str| {
        assert!(e.to_string().contains(told), "{e}");
        assert!(e.details().is_some_and(|d| d.contains(details)), "{:?}", e.details());
    };
    check(with("\"k\"", "\"other\""), "has no kernel 'other'", "it has: k");
    check(
        with(", { output = \"\" }]", ", { output = \"\" }, { value = \"n\" }]"),
        "are not the kernel's",
        "has 4 arguments, [opencl] args has 5",
    );
    check(
        with("{ value = \"n\" }, { input = \"v\" }", "{ input = \"v\" }, { value = \"n\" }"),
        "are not the kernel's",
        "args[0] is a Buffer, and the kernel's argument 0 (n) is a Value",
    );
    check(
        with("{ local = \"f32\", count = \"4\" }", "{ input = \"v\" }"),
        "are not the kernel's",
        "(l) is a Local",
    );
    for device in
        ["type = \"accelerator\"", "name = \"no such device\"", "platform = \"none\"", "index = 99"]
    {
        let e = refused(SOURCE, &format!("{MAP}device = {{ {device} }}"));
        check(e, "what the manifest asks for", "there are: '");
    }
    let chosen = own(SOURCE, &format!("{MAP}device = {{ type = \"cpu\", index = 0 }}"), SIGNATURE);
    let pocl = {
        let _alone = vfun_opencl::cl::alone();
        vfun_opencl::cl::devices().iter().any(|d| d.platform.contains("Portable Computing"))
    };
    assert_eq!(chosen.is_ok(), pocl, "PoCL's device is a processor of the host");
    // A scalar of another size than the kernel's.
    let e = own(SOURCE, MAP, "(n: u64, v: [f32]) -> f32").map(|_| ()).unwrap_err();
    check(e, "trial call failed", "setting the kernel's arguments");
    // The device's own limits.
    let e = refused(
        SOURCE,
        &MAP.replacen("global", "local = [\"100000\"]\ntrial = { n = 100000 }\nglobal", 1),
    );
    check(e, "trial call failed", "CL_INVALID_WORK");
}

#[test]
fn files_that_are_not_there_or_too_large_are_told_apart() {
    prepare();
    let (map, signature) = shipped("conv2d");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("missing.cl");
    let open = || vfun_opencl::Loaded::open(&path, &map, &signature).map(|_| ()).unwrap_err();
    let e = open();
    assert!(e.details().unwrap().contains("missing.cl"));
    assert!(
        !e.to_string().contains("missing.cl"),
        "paths of the host are no business of a guest's"
    );
    std::fs::File::create(&path).unwrap().set_len(65 << 20).unwrap();
    assert!(open().to_string().contains("at most 67108864"), "{}", open());
}
