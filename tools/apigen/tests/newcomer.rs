//! What a person meets who adds an API: docs/remoting.md shows these steps with the same example.
//! Nothing is compiled here.

use std::path::{Path, PathBuf};
use tempfile::TempDir;
use vfun_apigen::import::{HeaderImport, WantedFunctions, header};
use vfun_apigen::{Facts, Made, NewApi, generate, skeleton};

const FUNCTIONS: [&str; 7] = [
    "thermo_version",
    "thermo_open",
    "thermo_read",
    "thermo_read_many",
    "thermo_set_name",
    "thermo_get_name",
    "thermo_close",
];

fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("example").join(file)
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn facts_of(header_file: &Path) -> Facts {
    let wanted = WantedFunctions::Prefixes(vec!["thermo_".into()]);
    header(&HeaderImport { header: header_file.into(), wanted, ..HeaderImport::default() })
        .expect("a good header")
}

fn new_api(facts: &Facts) -> Vec<Made> {
    let new = NewApi {
        name: "thermo".into(),
        header: "thermo.h".into(),
        prefixes: vec!["thermo_".into()],
        link: "thermo".into(),
        soname: "libthermo.so.1".into(),
    };
    skeleton(&new, facts)
}

/// The text of the file of this path.
fn file<'a>(files: &'a [Made], path: &str) -> &'a str {
    let found = files.iter().find(|file| file.path == Path::new(path));
    &found.unwrap_or_else(|| panic!("{path} is not made")).text
}

/// A folder with a description: these facts, this api.toml, and numbers as a new API has them.
fn described(facts: &Facts, api: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let files = new_api(facts);
    let numbers = file(&files, "tools/apigen/apis/thermo/numbers.toml");
    for (name, text) in
        [("facts.toml", &facts.to_string()[..]), ("api.toml", api), ("numbers.toml", numbers)]
    {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

fn refusal(folder: &TempDir) -> String {
    match generate(folder.path()) {
        Ok(_) => panic!("it is not refused"),
        Err(why) => why.to_string(),
    }
}

/// What is said of the example when `old` is `new` in its description.
fn wrong(old: &str, new: &str) -> String {
    let api = read(example("api.toml"));
    assert!(api.contains(old), "{old}");
    refusal(&described(&facts_of(&example("thermo.h")), &api.replace(old, new)))
}

#[test]
fn a_new_api_asks_for_all_that_its_header_does_not_say() {
    let facts = facts_of(&example("thermo.h"));
    let files = new_api(&facts);
    for made in &files {
        assert!(!made.text.contains('@'), "{}: {}", made.path.display(), made.text);
    }
    let api = file(&files, "tools/apigen/apis/thermo/api.toml");
    assert!(api.contains("type = \"i32\"\nok = \"THERMO_OK\"\n"), "{api}");
    let said = refusal(&described(&facts, api));
    for asked in [
        "status.argument: name a constant of the header",
        "object.sensor.end: name the function that frees one",
        "function.thermo_version.version: say what a *mut u32 is for: out,",
        "function.thermo_open.sensor: say what a *mut *mut opaque thermo_sensor is for: new, found",
        "function.thermo_read.celsius: say what a *mut f64 is for: out, in-numbers COUNT,",
        "function.thermo_read_many.values: say what",
        "function.thermo_read_many.count: say what",
        "function.thermo_set_name.name: say what a *const i8 is for: in-text, in-bytes LENGTH,",
        "function.thermo_get_name.name: say what",
        "function.thermo_close.frees: name the parameter whose object",
    ] {
        assert!(said.contains(&format!("\n{asked}")), "{asked}: {said}");
    }
    // A number goes to the host without a word, and so does an object.
    assert!(!said.contains("thermo_open.index") && !said.contains("thermo_read.sensor"), "{said}");
}

#[test]
fn the_example_of_the_docs_makes_both_halves() {
    let (facts, api) = (facts_of(&example("thermo.h")), read(example("api.toml")));
    let page = read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/remoting.md"));
    assert!(
        page.contains(&format!("```toml\n{api}```\n")),
        "docs/remoting.md shows another api.toml"
    );
    let made = generate(described(&facts, &api).path()).unwrap_or_else(|why| panic!("{why}"));
    let guest = file(&made, "guest/thermo/src/generated.rs");
    let host = file(&made, "services/thermoback/src/generated.rs");
    for name in FUNCTIONS {
        assert!(guest.contains(&format!("pub unsafe extern \"C\" fn {name}(")), "{name}: {guest}");
        assert!(host.contains(&format!("    Some({name}),\n")), "{name}: {host}");
    }
    assert!(host.contains("Room::<f64>::asked"), "{host}");
    let table = file(&made, "docs/api-thermo.md");
    assert!(table.contains("| `thermo_version` | forwarded once, then known |  |\n"), "{table}");
    assert!(
        table.contains(
            "\n7 functions: 7 forwarded, 0 answered in the guest, 0 refused, none missing;"
        ),
        "{table}"
    );
}

/// Whether each constant in capitals that a half uses is one that it has.
#[test]
fn nothing_is_used_that_is_not_there() {
    let facts = facts_of(&example("thermo.h"));
    let with = read(example("api.toml"));
    let without = with.replace("partial = [\"THERMO_ERR_ROOM\"]", "");
    assert_ne!(with, without);
    for api in [with, without] {
        for made in generate(described(&facts, &api).path()).unwrap_or_else(|why| panic!("{why}")) {
            for name in ["ROOM", "PARTIAL"].iter().filter(|name| made.text.contains(**name)) {
                let known = made.text.contains(&format!("const {name}: "));
                assert!(known, "{}: {name}", made.path.display());
            }
        }
    }
}

#[test]
fn a_description_that_is_wrong_is_told_where() {
    for (old, new, why) in [
        (
            "[function.thermo_read]\n",
            "[function.thermo_raed]\n",
            "function.thermo_raed: the header has no such function: correct the name",
        ),
        (
            "[function.thermo_read]\n",
            "[function.thermo_raed]\n",
            "function.thermo_read: not described: add [function.thermo_read]",
        ),
        (
            "sensor = \"new\"",
            "sensor = \"nwe\"",
            "function.thermo_open.sensor: 'nwe' does not go with the type *mut *mut opaque thermo_sensor; say new, found",
        ),
        (
            "version = \"out\"",
            "vresion = \"out\"",
            "function.thermo_version: it has no parameter vresion; it has version",
        ),
        (
            "in-bytes length",
            "in-bytes lenght",
            "function.thermo_set_name.name: in-bytes: no parameter 'lenght'",
        ),
        (
            "in-bytes length",
            "in-bytes sensor",
            "thermo_set_name.name: in-bytes: 'sensor' is a *mut opaque thermo_sensor; a count is",
        ),
        (
            "frees = \"sensor\"",
            "frees = \"sensr\"",
            "function.thermo_close.frees: it has no parameter sensr; it has sensor",
        ),
        (
            "frees = \"sensor\"\n",
            "",
            "object.sensor.end: thermo_close frees it, so say frees = \"sensor\"",
        ),
        (
            "celsius = \"out\" }",
            "celsius = \"out\" }\nfrees = \"celsius\"",
            "function.thermo_read.frees: celsius is no object",
        ),
        (
            "end = \"thermo_close\"",
            "end = \"thermo_clse\"",
            "object.sensor.end: the header, or api.toml, has no function thermo_clse",
        ),
        (
            "end = \"thermo_close\"",
            "end = \"thermo_open\"",
            "object.sensor.end: thermo_open takes more than the object",
        ),
        (
            "pointer = \"thermo_sensor\"",
            "pointer = \"thermo_senser\"",
            "object.sensor.pointer: no function has a pointer to thermo_senser; the header's structs without members are: thermo_sensor",
        ),
        (
            "type = \"i32\"",
            "type = \"int\"",
            "function.thermo_open: it returns i32, and status.type is int",
        ),
        (
            "\"THERMO_ERR_LIMIT\"",
            "\"THERMO_ERR_LMIT\"",
            "status.limit: the header has no constant THERMO_ERR_LMIT",
        ),
        ("cell_bytes = 4096", "cell_bytes = 100", "cell_bytes: 100; a multiple of 64 from 1024"),
        ("depth = 64", "depth = 3", "depth: 3; a power of two, at most 1024"),
        ("how = \"cached\"", "how = \"chached\"", "unknown variant `chached`"),
        ("frees = ", "fees = ", "unknown field `fees`"),
    ] {
        let said = wrong(old, new);
        assert!(said.contains(why), "{new}: {said}");
    }
}

/// A header of which some lines are others, in a folder of its own.
fn header_with(old: &str, new: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let text = read(example("thermo.h"));
    assert!(text.contains(old), "{old}");
    let path = folder.path().join("thermo.h");
    std::fs::write(&path, text.replace(old, new)).expect("written");
    (folder, path)
}

#[test]
fn a_header_that_changed_is_noticed() {
    let (_folder, path) = header_with(
        "int thermo_read(thermo_sensor *sensor, double *celsius);",
        "int thermo_read_now(thermo_sensor *sensor, float *celsius);\nvoid thermo_reset(thermo_sensor *sensor);",
    );
    let facts = facts_of(&path);
    let folder = described(&facts, &read(example("api.toml")));
    // The numbers are those of the API as it was.
    let before = new_api(&facts_of(&example("thermo.h")));
    let numbers = file(&before, "tools/apigen/apis/thermo/numbers.toml");
    std::fs::write(folder.path().join("numbers.toml"), numbers).expect("written");
    let said = refusal(&folder);
    for why in [
        "function.thermo_read: the header has no such function",
        "function.thermo_read_now: not described",
        "function.thermo_reset: not described",
    ] {
        assert!(said.contains(why), "{why}: {said}");
    }
    let api =
        read(example("api.toml")).replace("function.thermo_read]", "function.thermo_read_now]");
    std::fs::write(folder.path().join("api.toml"), api + "[function.thermo_reset]\n")
        .expect("written");
    let said = refusal(&folder);
    assert!(said.contains("function.thermo_reset: it has no number: add one at the end of numbers.toml; 23 is the next"), "{said}");
    std::fs::remove_file(folder.path().join("numbers.toml")).expect("it is there");
    assert!(refusal(&folder).contains("numbers.toml"), "the file is named");
}

#[test]
fn what_no_word_describes_is_told_with_its_function() {
    let wanted = || WantedFunctions::Prefixes(vec!["thermo_".into()]);
    for (declared, why) in [
        (
            "int thermo_say(const char *format, ...);",
            "thermo_say: it takes a variable number of arguments",
        ),
        (
            "union thermo_value { int i; float f; };\nint thermo_get(union thermo_value *value);",
            "thermo_get: parameter 'value'",
        ),
    ] {
        let (_folder, path) =
            header_with("int thermo_close(", &format!("{declared}\nint thermo_close("));
        let import = HeaderImport { header: path, wanted: wanted(), ..HeaderImport::default() };
        let said = header(&import).expect_err("not described").to_string();
        assert!(said.contains(why) && said.contains("--skip"), "{said}");
    }
    for (declared, why) in [
        (
            "int thermo_watch(void (*done)(int));",
            "function.thermo_watch.done: only code by hand takes the type fn(i32) -> void",
        ),
        (
            "thermo_sensor *thermo_best(void);",
            "function.thermo_best: it returns *mut opaque thermo_sensor, and status.type is i32",
        ),
        (
            "struct thermo_raw { int a; };\nint thermo_take(struct thermo_raw *raw);",
            "function.thermo_take.raw: say what a *mut struct thermo_raw is for: in, out,",
        ),
        (
            "int thermo_all(thermo_sensor **all, int count);",
            "function.thermo_all.all: say what a *mut *mut opaque thermo_sensor is for",
        ),
    ] {
        let (_folder, path) =
            header_with("int thermo_close(", &format!("{declared}\nint thermo_close("));
        let name = why.split(['.', ':']).nth(1).expect("a function");
        let api = read(example("api.toml")) + &format!("[function.{name}]\n");
        let said = refusal(&described(&facts_of(&path), &api));
        assert!(said.contains(why), "{declared}: {said}");
    }
}

/// Names of C's that are words of Rust, or names of what is generated; numbers and texts that go in;
/// functions that return nothing.
#[test]
fn names_and_types_that_c_programs_have_are_no_trouble() {
    let declared = "struct thermo_color { unsigned char r, g, type; };\n\
        int thermo_paint(thermo_sensor *link, struct thermo_color *in, const char *match, const char *match_name);\n\
        int thermo_tune(thermo_sensor *self, const double *ref, uint32_t w, _Bool *answer);\n\
        int thermo_sample(thermo_sensor *sensor, int16_t *values, uint32_t room);\n\
        void thermo_reset(thermo_sensor *state);\n";
    let (_folder, path) = header_with("int thermo_close(", &format!("{declared}int thermo_close("));
    let api = read(example("api.toml"))
        + "[function.thermo_paint]\nparameters = { in = \"in\", match = \"in-text\", match_name = \"in-text\" }\n\
           [function.thermo_tune]\nparameters = { ref = \"in-numbers w\", answer = \"out\" }\n\
           [function.thermo_sample]\nparameters = { values = \"out-exact room\" }\n\
           [function.thermo_reset]\n";
    let made =
        generate(described(&facts_of(&path), &api).path()).unwrap_or_else(|why| panic!("{why}"));
    let guest = file(&made, "guest/thermo/src/generated.rs");
    let host = file(&made, "services/thermoback/src/generated.rs");
    for line in [
        "link_: *mut thermo_sensor,\n    in_: *mut thermo_color,\n    match_: *const i8,\n    match_name_: *const i8,",
        "pub struct thermo_color {\n    pub r_: u8,\n    pub g: u8,\n    pub type_: u8,\n}",
        "out::numbers(ref_, w_ as u64)",
        "out::text(match_.cast())",
        "out::places(values, u64::from(room))",
        "pub unsafe extern \"C\" fn thermo_reset(state_: *mut thermo_sensor) {",
    ] {
        assert!(guest.contains(line), "{line}: {guest}");
    }
    for line in [
        "let mut answer_ = false;",
        "let mut ref_ = room::numbers(&mut args)?;",
        "Room::<i16>::exactly(room as u64, ROOM / 8)?",
        "pub thermo_reset: unsafe extern \"C\" fn(*mut thermo_sensor),",
    ] {
        assert!(host.contains(line), "{line}: {host}");
    }
}
