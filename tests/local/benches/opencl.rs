//! What a launch costs by our path, over the same kernel launched directly by
//! a host program: `cargo bench -p vfun-tests-local --bench opencl`.
//!
//! Both have their arguments where the kernel reads them and their results
//! where it writes them, and set nothing up in the measured part: the host
//! program enqueues and finishes, the app posts the call and waits. Rounds
//! of all alternate. Between the two stands the driver itself, called in the
//! bench's own process: what it adds is the mapping and setting arguments; the
//! rest is the way to another process and back. Shown are medians of the
//! rounds' p50 and p99, and of the rounds' ratios.
#![allow(unsafe_code)] // the host program speaks OpenCL's C interface

use cl3::{command_queue, context, device, kernel, memory, platform, program};
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};
use vfun::FunctionRequest;
use vfun_opencl::{Channel, Loaded};
use vfun_sdk::abi;
use vfun_sdk::loader::{ArgsAt, OutAt};
use vfun_sdk::service::Serve;
use vfun_tests_local::{Stand, repo};

const ROUNDS: usize = 31;
/// Time of one round of one path.
const ROUND: Duration = Duration::from_millis(80);

/// What is launched.
struct Case {
    name: &'static str,
    shape: &'static str,
    numbers: Vec<u32>,
    /// Elements of each input, and of the output.
    inputs: [usize; 2],
    output: usize,
    global: [usize; 2],
    local: [usize; 2],
}

fn matmul(side: usize) -> Case {
    Case {
        name: "matmul_f32",
        shape: match side {
            64 => "64 x 64 x 64",
            128 => "128 x 128 x 128",
            256 => "256 x 256 x 256",
            _ => "512 x 512 x 512",
        },
        numbers: vec![side as u32; 3],
        inputs: [side * side; 2],
        output: side * side,
        global: [side, side],
        local: [16, 16],
    }
}

fn conv2d() -> Case {
    let (side, filter) = (512usize, 5usize);
    let out = side - filter + 1;
    Case {
        name: "conv2d",
        shape: "512 x 512, 5 x 5",
        numbers: vec![side as u32, side as u32, filter as u32, filter as u32],
        inputs: [side * side, filter * filter],
        output: out * out,
        global: [out.next_multiple_of(16), out],
        local: [16, 1],
    }
}

#[repr(align(4096))]
#[derive(Clone)]
struct Page([f32; 1024]);

fn aligned(n: usize) -> Vec<Page> {
    vec![Page([0.0; 1024]); n.div_ceil(1024)]
}

/// The host program.
struct Direct {
    queue: *mut c_void,
    kernel: *mut c_void,
    memory: Vec<Vec<Page>>,
    global: [usize; 2],
    local: [usize; 2],
}

impl Direct {
    fn new(c: &Case) -> Self {
        let platform = platform::get_platform_ids().expect("a platform")[0];
        let device = device::get_device_ids(platform, device::CL_DEVICE_TYPE_ALL).unwrap()[0];
        let context = context::create_context(&[device], null(), None, null_mut()).unwrap();
        let file = repo().join("services/opencl/kernels").join(format!("{}.cl", c.name));
        let source = std::fs::read_to_string(file).expect("it ships");
        let program = program::create_program_with_source(context, &[&source]).unwrap();
        program::build_program(program, &[device], c"", None, null_mut()).unwrap();
        let name = CString::new(c.name).unwrap();
        let kernel = kernel::create_kernel(program, &name).unwrap();
        // SAFETY: all objects were just made; the memory lives as long as this.
        unsafe {
            let queue = command_queue::create_command_queue(context, device, 0).unwrap();
            for (i, n) in c.numbers.iter().enumerate() {
                kernel::set_kernel_arg(kernel, i as u32, 4, (&raw const *n).cast()).unwrap();
            }
            let sizes = [c.inputs[0], c.inputs[1], c.output];
            let mut all = vec![];
            for (i, n) in sizes.into_iter().enumerate() {
                let mut pages = aligned(n);
                fill(&mut pages, i);
                let rights =
                    if i < 2 { memory::CL_MEM_READ_ONLY } else { memory::CL_MEM_WRITE_ONLY };
                let flags = rights | memory::CL_MEM_USE_HOST_PTR;
                let at = pages.as_mut_ptr().cast();
                let mem = memory::create_buffer(context, flags, n * 4, at).unwrap();
                let index = (c.numbers.len() + i) as u32;
                kernel::set_kernel_arg(kernel, index, 8, (&raw const mem).cast()).unwrap();
                all.push(pages);
            }
            Direct { queue, kernel, memory: all, global: c.global, local: c.local }
        }
    }

    fn run(&self) {
        let cl = cl3::load_library().as_ref().expect("it is loaded");
        let (g, l) = (self.global.as_ptr(), self.local.as_ptr());
        let done = cl.clEnqueueNDRangeKernel(
            self.queue,
            self.kernel,
            2,
            null(),
            g,
            l,
            0,
            null(),
            null_mut(),
        );
        assert_eq!(done, Some(0));
        command_queue::finish(self.queue).unwrap();
    }

    fn results(&self, n: usize) -> Vec<f32> {
        self.memory[2].iter().flat_map(|p| p.0).take(n).collect()
    }
}

fn number(i: usize, which: usize) -> f32 {
    ((i * (7 + which)) % 19) as f32 - 9.0
}

fn fill(pages: &mut [Page], which: usize) {
    for (i, x) in pages.iter_mut().flat_map(|p| &mut p.0).enumerate() {
        *x = if which < 2 { number(i, which) } else { 0.0 };
    }
}

/// Sorted times of calls, ns, for one round.
fn round(mut call: impl FnMut()) -> Vec<u64> {
    let (began, mut times) = (Instant::now(), vec![]);
    while began.elapsed() < ROUND || times.len() < 5 {
        let from = Instant::now();
        call();
        times.push(from.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    times
}

fn median(mut all: Vec<u64>) -> f64 {
    all.sort_unstable();
    all[all.len() / 2] as f64 / 1e3
}

fn measure(s: &Stand, c: &Case) {
    let direct = Direct::new(c);
    let args_bytes = c.numbers.len() * 4 + (c.inputs[0] + c.inputs[1]) * 4;
    let cell = args_bytes.max(c.output * 4).next_multiple_of(4096) as u32;
    let session = s.connect("bench");
    let request = FunctionRequest::new(c.name).cell_bytes(cell).depth(2);
    let f = session.negotiate(&request).and_then(|g| g.activate()).unwrap();
    let mut kept = f.keep_cell().unwrap();
    let room = kept.bytes_mut();
    let mut at = 0;
    let mut put = |b: [u8; 4]| {
        room[at..at + 4].copy_from_slice(&b);
        at += 4;
    };
    c.numbers.iter().for_each(|n| put(n.to_le_bytes()));
    for (which, n) in c.inputs.iter().enumerate() {
        (0..*n).for_each(|i| put(number(i, which).to_le_bytes()));
    }
    // The same answers, and both warm.
    direct.run();
    kept.post(args_bytes).unwrap();
    let mut found = vec![0; c.output * 4];
    let read = kept.finish(|r| (r.len(), r.read(0, &mut found))).unwrap();
    assert!(read.0 == found.len() && read.1.is_ok());
    let expect: Vec<u8> = direct.results(c.output).iter().flat_map(|x| x.to_le_bytes()).collect();
    assert!(found == expect, "{}: both compute the same, bit for bit", c.name);

    let mut driver = driver(c.name);
    let (mut args, mut results) = (aligned(args_bytes / 4), aligned(c.output));
    let args = private(&mut args);
    args[..args_bytes].copy_from_slice(&kept.bytes_mut()[..args_bytes]);
    let results = private(&mut results);

    let mut all = [vec![], vec![], vec![]];
    for _ in 0..ROUNDS {
        all[0].push(round(|| direct.run()));
        all[1].push(round(|| {
            let (from, to) = (ArgsAt::private(&args[..args_bytes]), OutAt::private(results));
            driver.run(abi::COMMAND_SET, from, to).unwrap();
        }));
        all[2].push(round(|| {
            kept.post(args_bytes).unwrap();
            kept.finish(|_| ()).unwrap();
        }));
    }
    print!("{:12} {:18}", c.name, c.shape);
    for path in &all {
        let of = |p: usize| median(path.iter().map(|t| t[t.len() * p / 100]).collect());
        print!(" {:>9.1} {:>9.1}", of(50), of(99));
    }
    // Each round against the one beside it: a busy machine's moods hit both.
    for path in &all[1..] {
        let ratio = |(a, b): (&Vec<u64>, &Vec<u64>)| {
            b[b.len() / 2] as f64 / a[a.len() / 2] as f64 * 100.0 - 100.0
        };
        let mut ratios: Vec<f64> = all[0].iter().zip(path).map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        print!(" {:>+7.1} %", ratios[ROUNDS / 2]);
    }
    println!();
}

/// The driver, in this process.
fn driver(name: &str) -> Channel {
    let folder = repo().join("services/opencl/kernels");
    let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).expect("it ships");
    let t: toml::Table = text.parse().unwrap();
    let map = t["opencl"].clone().try_into().unwrap();
    let signature = t["signature"].as_str().unwrap().parse().unwrap();
    let loaded = Loaded::open(&folder.join(format!("{name}.cl")), &map, &signature).unwrap();
    loaded.channel().unwrap()
}

fn private(pages: &mut [Page]) -> &mut [u8] {
    let bytes = size_of_val(pages);
    // SAFETY: floats have no padding, and every byte of them is one.
    unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), bytes) }
}

fn main() {
    // As services have it: both run the same code, compiled the same way.
    vfun_opencl::prepare_process();
    let folder = repo().join("services/opencl/kernels");
    let s = Stand::with(&["--functions", folder.to_str().expect("utf-8")]);
    println!("medians of {ROUNDS} rounds in turns; microseconds");
    println!(
        "{:12} {:18} {:>19} {:>19} {:>19} {:>19}",
        "kernel",
        "size",
        "direct p50, p99",
        "driver p50, p99",
        "call p50, p99",
        "driver, call over"
    );
    for c in [matmul(64), matmul(128), matmul(256), matmul(512), conv2d()] {
        measure(&s, &c);
    }
    vfun_opencl::forget_files();
}
