//! C: a header of inline functions on libvfun.

use super::{Bound, identifier, safe};
use std::fmt::Write;
use std::path::Path;
use vfun::signature::{Record, Scalar, Signature, Tail, Type};

/// Words of C and C++, and what the stubs call their own.
pub(super) const WORDS: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "args",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "catch",
    "cell",
    "char",
    "class",
    "const",
    "constexpr",
    "continue",
    "default",
    "delete",
    "do",
    "double",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "function",
    "goto",
    "if",
    "inline",
    "int",
    "len",
    "long",
    "mutable",
    "namespace",
    "new",
    "not",
    "operator",
    "options",
    "or",
    "pending",
    "private",
    "protected",
    "public",
    "register",
    "restrict",
    "result",
    "return",
    "room",
    "session",
    "short",
    "signed",
    "sizeof",
    "slot",
    "static",
    "status",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "to",
    "true",
    "try",
    "typedef",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "while",
]; // sorted

struct Stub<'a> {
    id: String,
    name: &'a str,
    s: &'a Signature,
}

fn scalar(s: Scalar) -> &'static str {
    match s {
        Scalar::Bool => "bool",
        Scalar::U8 => "uint8_t",
        Scalar::U16 => "uint16_t",
        Scalar::U32 => "uint32_t",
        Scalar::U64 => "uint64_t",
        Scalar::I8 => "int8_t",
        Scalar::I16 => "int16_t",
        Scalar::I32 => "int32_t",
        Scalar::I64 => "int64_t",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
    }
}

impl Stub<'_> {
    /// A type without its array lengths, and these.
    fn parts(&self, ty: &Type) -> (String, String) {
        match ty {
            Type::Scalar(s) => (scalar(*s).into(), String::new()),
            Type::Struct(i) => {
                (format!("struct {}_{}", self.id, self.s.structs[*i].name), String::new())
            }
            Type::Array(of, n) => {
                let (base, lengths) = self.parts(of);
                (base, format!("[{n}]{lengths}"))
            }
        }
    }

    fn declare(&self, ty: &Type, name: &str) -> String {
        let (base, lengths) = self.parts(ty);
        format!("{base} {name}{lengths}")
    }

    fn structs(&self, out: &mut String) {
        for s in &self.s.structs {
            let _ = writeln!(out, "struct {}_{} {{", self.id, s.name);
            for m in &s.members {
                let _ = writeln!(out, "\t{};", self.declare(&m.ty, &safe(&m.name, WORDS)));
            }
            let _ = writeln!(out, "}};");
            let full = format!("struct {}_{}", self.id, s.name);
            let _ = writeln!(out, "VFUN_BINDGEN_ASSERT(sizeof({full}) == {});\n", s.bytes);
        }
    }

    fn record(&self, out: &mut String, r: &Record, what: &str) {
        if r.fields.is_empty() {
            return;
        }
        let full = format!("struct {}_{what}", self.id);
        let _ = writeln!(out, "{full} {{");
        for f in &r.fields {
            let name = if f.name.is_empty() { "value".into() } else { safe(&f.name, WORDS) };
            let _ = writeln!(out, "\t{};", self.declare(&f.ty, &name));
        }
        let _ = writeln!(out, "}};");
        let _ = writeln!(out, "VFUN_BINDGEN_ASSERT(sizeof({full}) == {});\n", self.sizeof(r));
    }

    /// Bytes of the C struct of the fields, whose alignment is the fields' own.
    fn sizeof(&self, r: &Record) -> u64 {
        let align = r.fields.iter().map(|f| self.s.align_of(&f.ty)).max().unwrap_or(1);
        let end = r.fields.last().map_or(0, |f| f.offset + self.s.bytes_of(&f.ty));
        end.next_multiple_of(align)
    }

    /// Where results go: parameters, the place and room that a call is given,
    /// and what is done with the length after it.
    fn results(&self) -> (Vec<String>, String, String, String) {
        let r = &self.s.results;
        let fields = !r.fields.is_empty();
        match &r.tail {
            None if !fields => (
                vec![],
                "NULL".into(),
                "0".into(),
                "\tif (len != 0)\n\t\treturn VFUN_STATUS_HOST_NONSENSE;\n".into(),
            ),
            None => {
                let exact = format!(
                    "\tif (len != {})\n\t\treturn VFUN_STATUS_HOST_NONSENSE;\n",
                    r.fixed_bytes
                );
                let bare = self.s.bare_result.then(|| &r.fields[0].ty);
                let param = match bare {
                    Some(Type::Array(of, _)) if !matches!(**of, Type::Array(..)) => {
                        self.declare(&r.fields[0].ty, "result")
                    }
                    Some(Type::Array(..)) | None => format!("struct {}_results *result", self.id),
                    Some(ty) => self.declare(ty, "*result"),
                };
                (vec![param], "result".into(), r.fixed_bytes.to_string(), exact)
            }
            Some(t) if !fields => {
                let (base, lengths) = self.parts(&t.element);
                let to = if lengths.is_empty() {
                    format!("{base} *result")
                } else {
                    "void *result".into()
                };
                let after = format!(
                    "\t*result_count = len / {0};\n\tif (status == VFUN_STATUS_OK && len % {0} != 0)\n\t\treturn VFUN_STATUS_HOST_NONSENSE;\n",
                    t.element_bytes
                );
                (
                    vec![to, "size_t room".into(), "size_t *result_count".into()],
                    "result".into(),
                    format!("room * {}", t.element_bytes),
                    after,
                )
            }
            // Fields, then an array: as they lie, with the offset to find it by.
            Some(_) => (
                vec!["void *result".into(), "size_t room".into(), "size_t *result_len".into()],
                "result".into(),
                "room".into(),
                "\t*result_len = len;\n".into(),
            ),
        }
    }

    /// The parameters for arguments of a fixed size, and the lines that fill them in.
    fn fixed(&self) -> (Vec<String>, String) {
        let (mut params, mut fill) = (vec![], String::new());
        for f in &self.s.args.fields {
            let name = safe(&f.name, WORDS);
            match &f.ty {
                Type::Array(of, _) => {
                    let nested = matches!(**of, Type::Array(..));
                    params.push(if nested {
                        format!("const void *{name}")
                    } else {
                        format!("const {}", self.declare(&f.ty, &name))
                    });
                    let _ = writeln!(
                        fill,
                        "\tmemcpy(&args.{name}, {name}, {});",
                        self.s.bytes_of(&f.ty)
                    );
                }
                ty => {
                    params.push(self.declare(ty, &name));
                    let _ = writeln!(fill, "\targs.{name} = {name};");
                }
            }
        }
        (params, fill)
    }

    fn call(&self, out: &mut String) {
        let a = &self.s.args;
        let (fixed, fill) = self.fixed();
        let mut params = vec!["const struct vfun_function *function".to_owned()];
        params.extend(fixed);
        let tail = a.tail.as_ref().map(|t| (t, safe(&t.name, WORDS)));
        if let Some((t, name)) = &tail {
            let (base, lengths) = self.parts(&t.element);
            let base = if lengths.is_empty() { &*base } else { "void" };
            params.push(format!("const {base} *{name}"));
            params.push(format!("size_t {name}_count"));
        }
        let (more, to, room, after) = self.results();
        params.extend(more);
        let id = &self.id;
        let _ = writeln!(out, "// {}{}", self.name, self.s);
        if a.tail.is_some() && !a.fields.is_empty() {
            let _ = writeln!(out, "// VFUN_STATUS_FULL if every cell is in use.");
        }
        let _ = writeln!(
            out,
            "static inline enum vfun_status {id}_call(\n\t{})\n{{",
            params.join(",\n\t")
        );
        let _ = writeln!(out, "\tenum vfun_status status;\n\tsize_t len = 0;");
        if !a.fields.is_empty() {
            // memset: padding is sent too.
            let _ = writeln!(out, "\tstruct {id}_args args;\n\n\tmemset(&args, 0, sizeof(args));");
        }
        out.push_str(&fill);
        match &tail {
            None => {
                let (at, n) = match a.fields.is_empty() {
                    true => ("NULL", 0),
                    false => ("&args", a.fixed_bytes),
                };
                let _ =
                    writeln!(out, "\tstatus = vfun_call(function, {at}, {n}, {to}, {room}, &len);");
            }
            Some((t, name)) => self.call_with_array(out, t, name, &to, &room),
        }
        if self.s.results.tail.is_some() {
            let _ = writeln!(out, "{after}\treturn status;\n}}\n");
        } else {
            let _ = writeln!(
                out,
                "\tif (status != VFUN_STATUS_OK)\n\t\treturn status;\n{after}\treturn VFUN_STATUS_OK;\n}}\n"
            );
        }
    }

    /// The call itself where arguments end with an array: behind fixed ones it is
    /// written into the window, with no copy between.
    fn call_with_array(&self, out: &mut String, t: &Tail, name: &str, to: &str, room: &str) {
        let a = &self.s.args;
        let (most, off, each) = (a.most_elements(), t.offset, t.element_bytes);
        let _ = writeln!(
            out,
            "\tif ({name}_count > {most}u)\n\t\treturn VFUN_STATUS_ARGUMENTS_TOO_LONG;"
        );
        if a.fields.is_empty() {
            let _ = writeln!(
                out,
                "\tstatus = vfun_call(function, {name}, {name}_count * {each}, {to}, {room}, &len);"
            );
            return;
        }
        let head = self.sizeof(a).min(off);
        let _ = writeln!(
            out,
            "\tstruct vfun_slot *slot;\n\tstruct vfun_pending *pending;\n\tvoid *to;\n\tsize_t cell;\n"
        );
        let _ = writeln!(
            out,
            "\tstatus = vfun_borrow(function, &slot, &to, &cell);\n\tif (status != VFUN_STATUS_OK)\n\t\treturn status;"
        );
        let _ = writeln!(
            out,
            "\tif (cell < {off} || {name}_count > (cell - {off}) / {each}) {{\n\t\tvfun_give_back(slot);\n\t\treturn VFUN_STATUS_ARGUMENTS_TOO_LONG;\n\t}}"
        );
        let _ = writeln!(out, "\tmemset(to, 0, {off});\n\tmemcpy(to, &args, {head});");
        let _ = writeln!(
            out,
            "\tif ({name}_count > 0)\n\t\tmemcpy((char *)to + {off}, {name}, {name}_count * {each});"
        );
        let _ = writeln!(
            out,
            "\tstatus = vfun_submit_borrowed(slot, {off} + {name}_count * {each}, &pending);\n\tif (status != VFUN_STATUS_OK)\n\t\treturn status;"
        );
        let _ = writeln!(out, "\tstatus = vfun_wait(pending, {to}, {room}, &len);");
    }

    fn open(&self, out: &mut String) {
        let (id, upper) = (&self.id, self.id.to_ascii_uppercase());
        let _ = writeln!(
            out,
            "// Opens {}: refused if the host's has another signature. options may be null.",
            self.name
        );
        let _ = writeln!(
            out,
            "static inline enum vfun_status {id}_open(\n\tconst struct vfun_session *session,\n\tconst struct vfun_function_options *options,\n\tstruct vfun_function **function)\n{{\n\
             \tstruct vfun_function_options typed;\n\n\
             \tif (options) {{\n\t\ttyped = *options;\n\t}} else {{\n\t\tmemset(&typed, 0, sizeof(typed));\n\t\ttyped.size = sizeof(typed);\n\t}}\n\
             \ttyped.signature = {upper}_SIGNATURE;\n\treturn vfun_open(session, \"{}\", &typed, function);\n}}\n",
            self.name
        );
    }
}

/// The text of the header for these functions.
pub fn header(functions: &[Bound], file: Option<&Path>) -> String {
    let stem =
        file.and_then(|f| f.file_name()).map_or("functions.h".into(), |n| n.to_string_lossy());
    let guard = format!("VFUN_BINDGEN_{}", identifier(&stem).to_ascii_uppercase());
    let mut out = format!(
        "// Made by `vfun bindgen`; make it again after a function's signature has changed.\n\
         #ifndef {guard}\n#define {guard}\n\n\
         #include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n#include <vfun.h>\n\n\
         #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n#error \"these stubs are for little-endian machines\"\n#endif\n\n\
         #ifndef VFUN_BINDGEN_ASSERT\n#ifdef __cplusplus\n#define VFUN_BINDGEN_ASSERT(what) static_assert(what, #what)\n#else\n#define VFUN_BINDGEN_ASSERT(what) _Static_assert(what, #what)\n#endif\n#endif\n\n"
    );
    for f in functions {
        let stub = Stub { id: identifier(&f.name), name: &f.name, s: &f.signature };
        let upper = stub.id.to_ascii_uppercase();
        let _ = writeln!(
            out,
            "#define {upper}_SIGNATURE UINT64_C({:#018x})\n",
            f.signature.fingerprint()
        );
        stub.structs(&mut out);
        stub.record(&mut out, &f.signature.args, "args");
        stub.record(&mut out, &f.signature.results, "results");
        stub.open(&mut out);
        stub.call(&mut out);
    }
    out + &format!("#endif // {guard}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted() {
        assert!(WORDS.is_sorted());
    }
}
