//! A list as the kernel's classic BPF: for each rule, compare the number, then
//! the conditions, then return. The kernel itself remembers which calls are
//! allowed whatever their arguments, and does not run the program for these.

use super::{Answer, Rule};

const ARCH: u32 = if cfg!(target_arch = "aarch64") { 0xc000_00b7 } else { 0xc000_003e };
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

const KILL_PROCESS: u32 = 0x8000_0000;
const TRAP: u32 = 0x0003_0000;
const ERRNO: u32 = 0x0005_0000;
const ALLOW: u32 = 0x7fff_0000;

/// A program, each instruction a word: code, jump if true, jump if false, value
/// from the highest bits to the lowest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Vec<u64>);

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> u64 {
    u64::from(code) << 48 | u64::from(jt) << 40 | u64::from(jf) << 32 | u64::from(k)
}

fn returned(answer: Answer) -> u32 {
    match answer {
        Answer::Allow => ALLOW,
        Answer::Errno(e) => ERRNO | (e as u32 & 0xffff),
        Answer::Tell => TRAP,
        Answer::Kill => KILL_PROCESS,
    }
}

impl Program {
    /// Calls that no rule fits are told of and end the service.
    pub fn new(rules: &[Rule]) -> Self {
        let mut p = vec![
            instruction(LOAD, 0, 0, ARCH_AT),
            instruction(EQUAL, 1, 0, ARCH),
            // Numbers of another kind of machine mean other calls.
            instruction(RETURN, 0, 0, KILL_PROCESS),
            instruction(LOAD, 0, 0, NUMBER_AT),
        ];
        for rule in rules {
            let mut body = vec![];
            let conditions = rule.when.len() as u8;
            for (i, w) in rule.when.iter().enumerate() {
                let at = ARGUMENTS_AT + u32::from(w.argument) * 8 + if w.upper { 4 } else { 0 };
                body.push(instruction(LOAD, 0, 0, at));
                body.push(instruction(AND, 0, 0, w.mask));
                // Past the conditions left and the return.
                let left = (conditions - 1 - i as u8) * 3 + 1;
                body.push(instruction(EQUAL, 0, left, w.value));
            }
            body.push(instruction(RETURN, 0, 0, returned(rule.answer)));
            if conditions > 0 {
                body.push(instruction(LOAD, 0, 0, NUMBER_AT));
            }
            p.push(instruction(EQUAL, 0, body.len() as u8, rule.call));
            p.extend(body);
        }
        p.push(instruction(RETURN, 0, 0, returned(Answer::Tell)));
        Program(p)
    }

    /// The instructions, each packed into a word.
    pub fn words(self) -> Vec<u64> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::lists::*;
    use super::super::{When, answer};
    use super::*;
    use std::borrow::Cow;

    /// What the kernel would do with a call.
    fn run(p: &Program, arch: u32, call: u32, args: [u64; 6]) -> u32 {
        let (mut a, mut at) = (0u32, 0usize);
        for _ in 0..10_000 {
            let i = p.0[at];
            let (code, jt, jf, k) = ((i >> 48) as u16, (i >> 40) as u8, (i >> 32) as u8, i as u32);
            at += 1;
            match code {
                LOAD => {
                    a = match k {
                        NUMBER_AT => call,
                        ARCH_AT => arch,
                        k => {
                            let arg = args[((k - ARGUMENTS_AT) / 8) as usize];
                            if k % 8 == 4 { (arg >> 32) as u32 } else { arg as u32 }
                        }
                    }
                }
                AND => a &= k,
                EQUAL => at += usize::from(if a == k { jt } else { jf }),
                RETURN => return k,
                other => panic!("{other:x}"),
            }
        }
        panic!("it does not end")
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        const RULES: &[Rule] = &[
            Rule { call: 1, when: Cow::Borrowed(&[]), answer: Answer::Allow },
            Rule {
                call: 2,
                when: Cow::Borrowed(&[When::masked(1, 0b11, 0b01), When::is(0, 7), When::short(0)]),
                answer: Answer::Allow,
            },
            Rule { call: 2, when: Cow::Borrowed(&[]), answer: Answer::Errno(13) },
            Rule { call: 3, when: Cow::Borrowed(&[]), answer: Answer::Kill },
        ];
        let p = Program::new(RULES);
        let to = |call, a0, a1| run(&p, ARCH, call, [a0, a1, 0, 0, 0, 0]);
        assert_eq!(to(1, 0, 0), ALLOW);
        assert_eq!(to(2, 7, 0b101), ALLOW);
        assert_eq!(to(2, 7, 0b110), ERRNO | 13);
        assert_eq!(to(2, 8, 0b101), ERRNO | 13);
        assert_eq!(to(2, 7 | 1 << 32, 0b101), ERRNO | 13, "the upper half counts");
        assert_eq!(to(3, 0, 0), KILL_PROCESS);
        assert_eq!(to(4, 0, 0), TRAP);
        assert_eq!(run(&p, ARCH ^ 1, 1, [0; 6]), KILL_PROCESS);
    }

    #[test]
    fn a_program_says_what_its_list_says() {
        use libc::*;
        let returned_of = |rules: &[Rule], call, args| returned(answer(rules, call, args));
        let values = [0, 1, 2, 6, 14, SIGSYS, O_RDWR | O_CREAT, 0x3d0f00, 0x4111, -1];
        let calls = [SYS_openat, SYS_mmap, SYS_clone, SYS_madvise, SYS_prctl, SYS_fcntl];
        let others = [SYS_rt_sigaction, SYS_ioctl, SYS_prlimit64, SYS_execve, SYS_socket, 4000];
        for rules in [
            service(&[DATA]),
            service(&[CODE, SECOND, DRIVER, DRIVER_OLD]),
            service(&[DATA, NO_FILE]),
            service(&[CODE, READ_FILES]),
        ] {
            let p = Program::new(&rules);
            for call in calls.into_iter().chain(others) {
                for (n, value) in (0..3).flat_map(|n| values.map(|v| (n, v))) {
                    let mut args = [0; 6];
                    args[n] = value as u64;
                    let said = returned_of(&rules, call, args);
                    assert_eq!(run(&p, ARCH, call as u32, args), said, "{call} {args:?}");
                }
            }
        }
    }
}
