//! The structs of `vfun_driver.h` as they lie in a module's memory: little
//! endian, pointers of 32 bits. The tests compile the header for wasm32 and
//! compare.

use crate::LoadError;
use vfun_sdk::{Config, abi};

/// Bytes of `struct vfun_call`.
pub const CALL_BYTES: usize = 64;
/// Where `out_len` is in it.
pub const CALL_OUT_LEN: usize = 40;
/// Bytes of `struct vfun_driver_info`.
pub const INFO_BYTES: usize = 96;
/// Bytes of `struct vfun_driver_config`. Its last member, the service that answers
/// calls later, is null: a module has no thread that could.
pub const CONFIG_BYTES: usize = 72;
/// Bytes of `struct vfun_driver_setting`.
pub const SETTING_BYTES: usize = 8;

/// What a module says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    pub name: String,
    /// The function's version, major and minor.
    pub version: (u16, u16),
    /// Longest arguments that the module takes, bytes.
    pub max_args: u32,
    /// Longest results that the module gives, bytes.
    pub max_result: u32,
    /// Version of the driver interface that it was built for.
    pub abi: u32,
}

fn u32_at(bytes: &[u8], off: usize) -> u32 {
    u32::from_le_bytes(bytes[off..off + 4].try_into().expect("four bytes"))
}

fn u16_at(bytes: &[u8], off: usize) -> u16 {
    u16::from_le_bytes([bytes[off], bytes[off + 1]])
}

/// Reads `vfun_driver_info`.
pub fn info(bytes: &[u8; INFO_BYTES]) -> Result<Info, LoadError> {
    let found = u32_at(bytes, 0);
    if !abi::ABIS.contains(&found) {
        return Err(LoadError::WrongAbi { found });
    }
    let bad = |what| LoadError::BadInfo { what };
    if u32_at(bytes, 4) != 0 || bytes[84..].iter().any(|b| *b != 0) {
        return Err(bad("a flag or reserved field that must be 0 is not"));
    }
    let name = &bytes[8..8 + abi::NAME_BYTES + 1];
    let end = name.iter().position(|&b| b == 0).ok_or(bad("the name has no end"))?;
    let name = std::str::from_utf8(&name[..end]).map_err(|_| bad("the name is not UTF-8"))?;
    if name.is_empty() {
        return Err(bad("the name is empty"));
    }
    Ok(Info {
        name: name.to_owned(),
        version: (u16_at(bytes, 72), u16_at(bytes, 74)),
        max_args: u32_at(bytes, 76),
        max_result: u32_at(bytes, 80),
        abi: found,
    })
}

/// Where what a call needs lies in a module's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// `struct vfun_call`.
    pub call: u32,
    /// The sentence, [`abi::SENTENCE_BYTES`].
    pub sentence: u32,
    /// Where `vfun_driver_init` puts the state.
    pub state: u32,
    pub args: u32,
    /// Most bytes of them.
    pub args_room: u32,
    /// Results; `init`'s configuration overlaps both, which are not used then.
    pub out: u32,
    /// Most bytes of them.
    pub out_room: u32,
}

const SENTENCE: u32 = CALL_BYTES as u32;
const STATE: u32 = SENTENCE + abi::SENTENCE_BYTES as u32;
const ARGS: u32 = STATE + 64;

impl Area {
    /// One at address `base` for arguments and results of at most so many bytes.
    pub fn at(base: u32, args_room: u32, out_room: u32) -> Self {
        let args = base + ARGS;
        Area {
            call: base,
            sentence: base + SENTENCE,
            state: base + STATE,
            args,
            args_room,
            out: args + args_room.next_multiple_of(64),
            out_room,
        }
    }

    /// Bytes that it takes, with room for a configuration of `config` bytes.
    pub fn bytes(args_room: u32, out_room: u32, config: usize) -> u64 {
        let calls = u64::from(args_room).next_multiple_of(64) + u64::from(out_room);
        u64::from(ARGS) + calls.max(config as u64)
    }

    /// `struct vfun_call` for one call.
    #[inline]
    pub fn call(&self, command: u32, args_len: u32, out_capacity: u32) -> [u8; CALL_BYTES] {
        let mut c = [0; CALL_BYTES];
        let mut put = |off: usize, v: u32| c[off..off + 4].copy_from_slice(&v.to_le_bytes());
        put(0, command);
        // No flags: the arguments are a copy of the module's own.
        put(8, self.args);
        put(16, args_len);
        put(24, self.out);
        put(32, out_capacity);
        put(48, self.sentence);
        put(56, abi::SENTENCE_BYTES as u32);
        c
    }
}

/// Bytes of a configuration with its strings.
pub fn config_bytes(config: &Config) -> usize {
    let strings = config.client.len() + config.app.len() + config.function.len() + 3;
    let settings = config.settings.iter().map(|(k, v)| SETTING_BYTES + k.len() + v.len() + 2);
    CONFIG_BYTES + strings + settings.sum::<usize>()
}

/// `struct vfun_driver_config` with all that it points to, as it lies at
/// `area.args`, for a module of this version of the interface.
pub fn config(config: &Config, area: &Area, abi: u32) -> Vec<u8> {
    let (base, settings) = (area.args, config.settings.len());
    let mut bytes = vec![0; CONFIG_BYTES + settings * SETTING_BYTES];
    let text = |bytes: &mut Vec<u8>, text: &str| {
        let at = base + bytes.len() as u32;
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
        at
    };
    let put =
        |bytes: &mut Vec<u8>, off: usize, v: &[u8]| bytes[off..off + v.len()].copy_from_slice(v);
    for (i, (k, v)) in config.settings.iter().enumerate() {
        let at = CONFIG_BYTES + i * SETTING_BYTES;
        let key = text(&mut bytes, k);
        put(&mut bytes, at, &key.to_le_bytes());
        let value = text(&mut bytes, v);
        put(&mut bytes, at + 4, &value.to_le_bytes());
    }
    let (client, app) = (text(&mut bytes, &config.client), text(&mut bytes, &config.app));
    let function = text(&mut bytes, &config.function);
    put(&mut bytes, 0, &abi.to_le_bytes());
    put(&mut bytes, 4, &u32::from(config.depth).to_le_bytes());
    put(&mut bytes, 8, &config.channel.to_le_bytes());
    put(&mut bytes, 16, &client.to_le_bytes());
    put(&mut bytes, 20, &app.to_le_bytes());
    put(&mut bytes, 24, &function.to_le_bytes());
    put(&mut bytes, 28, &config.version.0.to_le_bytes());
    put(&mut bytes, 30, &config.version.1.to_le_bytes());
    put(&mut bytes, 32, &config.cell_bytes.to_le_bytes());
    put(&mut bytes, 36, &(base + CONFIG_BYTES as u32).to_le_bytes());
    put(&mut bytes, 40, &(settings as u64).to_le_bytes());
    put(&mut bytes, 48, &area.sentence.to_le_bytes());
    put(&mut bytes, 56, &(abi::SENTENCE_BYTES as u64).to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_fits_where_it_is_said_to() {
        let mut c = Config { client: "vm1".into(), app: "a".into(), ..Config::default() };
        let area = Area::at(1 << 16, 48, 48);
        assert_eq!(config(&c, &area, 1).len(), config_bytes(&c));
        c.settings.insert("key".into(), "value".into());
        c.settings.insert("other".into(), String::new());
        let bytes = config(&c, &area, 2);
        assert_eq!(bytes.len(), config_bytes(&c));
        let text = |at: u32| {
            let from = (at - area.args) as usize;
            let end = from + bytes[from..].iter().position(|b| *b == 0).unwrap();
            std::str::from_utf8(&bytes[from..end]).unwrap()
        };
        assert_eq!(u32_at(&bytes, 0), 2);
        assert_eq!(text(u32_at(&bytes, 16)), "vm1");
        assert_eq!(text(u32_at(&bytes, CONFIG_BYTES)), "key");
        assert_eq!(text(u32_at(&bytes, CONFIG_BYTES + 4)), "value");
        assert_eq!(text(u32_at(&bytes, CONFIG_BYTES + 8)), "other");
    }

    /// The header itself, compiled for wasm32, says where everything is.
    #[test]
    fn the_header_has_this_layout_for_wasm32() {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let call = [
            ("command", 0),
            ("flags", 4),
            ("args", 8),
            ("args_len", 16),
            ("out", 24),
            ("out_capacity", 32),
            ("out_len", CALL_OUT_LEN),
            ("sentence", 48),
            ("sentence_capacity", 56),
        ];
        let info = [
            ("abi", 0),
            ("flags", 4),
            ("name", 8),
            ("version_major", 72),
            ("version_minor", 74),
            ("max_args", 76),
            ("max_result", 80),
            ("reserved", 84),
        ];
        let config = [
            ("abi", 0),
            ("depth", 4),
            ("channel", 8),
            ("client", 16),
            ("app", 20),
            ("function", 24),
            ("version_major", 28),
            ("version_minor", 30),
            ("cell_bytes", 32),
            ("settings", 36),
            ("settings_count", 40),
            ("sentence", 48),
            ("sentence_capacity", 56),
            ("service", 64),
        ];
        let setting = [("key", 0), ("value", 4)];
        let mut c = "#include \"vfun_driver.h\"\n".to_owned();
        for (name, bytes, members) in [
            ("vfun_call", CALL_BYTES, &call[..]),
            ("vfun_driver_info", INFO_BYTES, &info),
            ("vfun_driver_config", CONFIG_BYTES, &config),
            ("vfun_driver_setting", SETTING_BYTES, &setting),
        ] {
            c += &format!("_Static_assert(sizeof(struct {name}) == {bytes}, \"{name}\");\n");
            for (member, at) in members {
                c += &format!(
                    "_Static_assert(__builtin_offsetof(struct {name}, {member}) == {at}, \"{member}\");\n"
                );
            }
        }
        let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk/include");
        let mut clang = Command::new("clang")
            .args(["--target=wasm32", "-ffreestanding", "-fsyntax-only", "-I", include])
            .args(["-x", "c", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("clang is there: packaging/setup.sh installs it");
        clang.stdin.take().expect("a pipe").write_all(c.as_bytes()).expect("clang reads");
        assert!(clang.wait().expect("clang ends").success(), "{c}");
    }

    #[test]
    fn areas_do_not_overlap() {
        for (args, out) in [(48, 48), (0, 8), (100, 4096), (1 << 20, 1)] {
            let a = Area::at(4096, args, out);
            assert!(a.call + CALL_BYTES as u32 <= a.sentence);
            assert!(a.sentence + abi::SENTENCE_BYTES as u32 <= a.state);
            assert!(a.state + 4 <= a.args && a.args.is_multiple_of(64));
            assert!(a.args + args <= a.out && a.out.is_multiple_of(64));
            assert!(u64::from(a.out + out) <= 4096 + Area::bytes(args, out, 0));
        }
    }

    #[test]
    fn wrong_info_is_refused_by_name() {
        let mut good = [0; INFO_BYTES];
        good[0] = 1;
        good[8..11].copy_from_slice(b"abc");
        good[72] = 3;
        good[74] = 1;
        good[76] = 16;
        good[80] = 8;
        let i = info(&good).unwrap();
        assert_eq!((i.name.as_str(), i.version, i.max_args, i.max_result), ("abc", (3, 1), 16, 8));
        let with = |at: usize, v: u8| {
            let mut b = good;
            b[at] = v;
            info(&b).unwrap_err().to_string()
        };
        let newer = with(0, vfun_sdk::abi::ABI as u8 + 1);
        assert!(newer.contains("driver interface"), "{newer}");
        assert!(with(4, 1).contains("must be 0"));
        assert!(with(95, 1).contains("must be 0"));
        assert!(with(8, 0).contains("empty"));
        assert!(with(8, 0xff).contains("UTF-8"));
        let mut long = good;
        long[8..72].fill(b'x');
        assert!(info(&long).unwrap_err().to_string().contains("no end"));
    }
}
