//! `vfun call`.

mod arguments;
mod results;
mod timing;

use crate::connect::{Host, Who};
use crate::fail::{self, Failure, Result};
use crate::out::{self, Output};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vfun::signature::Signature;
use vfun::{Function, FunctionRequest, FunctionVersion, Preference, Session, WaitMode, WaitPolicy};

const AFTER: &str = "\
Functions that ship take their arguments as words:
  vfun call factorial N [--repetitions R]
  vfun call fibonacci N [--repetitions R]
  vfun call echo TEXT
  vfun call sum --type u8|u64|f32|f64 @FILE       (elements as they lie in memory, little-endian)
  vfun call sha256 @FILE
A function with a signature (`vfun list` shows them) takes a word for each argument:
numbers and truth values as they are, arrays and structs as 1,2,3, an array of structs as 1,2;3,4.
@FILE is a file's bytes as they lie in memory, @- standard input; '' is an empty array.
Any function takes raw bytes:
  vfun call my-function --hex '01 02 03'
  vfun call my-function --file arguments.bin --out results.bin
Time a call:
  vfun call echo hello --repeat 100000";

/// Call a function.
///
/// The path in use (shared memory or network) is named on stderr, results go to stdout.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// The function's name, as `vfun list` shows it.
    pub function: String,
    /// Arguments of a function that ships; see below.
    #[arg(allow_negative_numbers = true)]
    pub words: Vec<String>,
    /// Arguments in hexadecimal; spaces are ignored.
    #[arg(long, value_name = "DIGITS", conflicts_with = "words")]
    pub hex: Option<String>,
    /// Arguments from a file; - for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["words", "hex"])]
    pub file: Option<PathBuf>,
    /// factorial, fibonacci: how often to compute it in one call.
    #[arg(long, value_name = "R")]
    pub repetitions: Option<u64>,
    /// sum: type of the elements.
    #[arg(long = "type", value_name = "TYPE", value_parser = ["u8", "u64", "f32", "f64"])]
    pub element: Option<String>,
    /// Write the results' bytes to a file; - for standard output.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Make N calls, one after the other, and show how long they took.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub repeat: u64,
    /// Where it should run.
    #[arg(long, value_name = "WHERE", default_value = "any", value_parser = ["any", "hardware", "software"])]
    pub on: String,
    /// Version needed: the same major, at least this minor [default: any].
    #[arg(long, value_name = "MAJOR.MINOR")]
    pub of_version: Option<FunctionVersion>,
    /// How long a call may take, ms [default: the function's].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    pub deadline: Option<u32>,
    /// Room for arguments and for results, bytes [default: the arguments' length, at least 4096].
    #[arg(long, value_name = "BYTES")]
    pub cell_bytes: Option<u32>,
    /// How to wait for results, and how the service waits for calls. hybrid: spin
    /// while that is likely to pay, then sleep. spin: never sleep (a host may refuse
    /// this for its service). sleep: sleep after one look.
    #[arg(long, value_name = "MODE", default_value = "hybrid", value_parser = ["hybrid", "spin", "sleep"])]
    pub wait: String,
    /// Do not name the path in use.
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    who: Who,
}

/// What calls came to.
struct Made {
    results: Vec<u8>,
    times: Vec<Duration>,
    all: Duration,
}

pub fn run(host: &Host, output: Output, args: &Args) -> Result<()> {
    let session = host.options(&args.who)?.wait(policy(args)).connect()?;
    // A host that tells no signatures has functions without.
    let signature = match session.describe_function(&args.function) {
        Ok(d) => d.signature,
        // A host that tells no signatures; any other refusal is the call's too.
        Err(vfun::Error::Refused(n)) if n.code != vfun::NackCode::Unsupported => {
            return Err(vfun::Error::Refused(n).into());
        }
        Err(_) => None,
    };
    let bytes = arguments::encode(args, signature.as_ref())?;
    if !args.quiet && !output.is_json() {
        out::note(session.describe());
    }
    let function = session.negotiate(&request(args, bytes.len())?)?.activate()?;
    let made =
        call(&function, &bytes, args).map_err(|e| with_meaning(e, &session, &args.function))?;
    let (location, service) = (function.info().location.text(), function.info().wait);
    if let Some(path) = &args.out {
        write(path, &made.results)?;
    }
    if output.is_json() {
        out::json(&object(
            args,
            &session,
            (location, service),
            bytes.len(),
            &made,
            signature.as_ref(),
        ))?;
    } else if args.out.is_none() {
        results::print(args.element.as_deref(), signature.as_ref(), &made.results)?;
    }
    if args.repeat > 1 && !output.is_json() {
        out::note(timing::text(&made.times, args.repeat, made.all));
        out::note(format!("waiting: {} here, {service} in the service", args.wait));
    }
    drop(function);
    // The host would find out by itself; a failed goodbye is no failed call.
    let _ = session.close();
    Ok(())
}

fn policy(args: &Args) -> WaitPolicy {
    match args.wait.as_str() {
        "spin" => WaitPolicy::spin(),
        "sleep" => WaitPolicy::sleep(),
        _ => WaitPolicy::hybrid(),
    }
}

fn request(args: &Args, bytes: usize) -> Result<FunctionRequest> {
    let preference = match args.on.as_str() {
        "hardware" => Preference::Hardware,
        "software" => Preference::Software,
        _ => Preference::Any,
    };
    // One call at a time is under way: two cells are enough.
    let mut request = FunctionRequest::new(&args.function).preference(preference).depth(2);
    if let Some(version) = args.of_version {
        request = request.version(version);
    }
    if let Some(ms) = args.deadline {
        request = request.deadline(Duration::from_millis(ms.into()));
    }
    let room = match args.cell_bytes {
        Some(room) => room,
        None => u32::try_from(bytes.max(vfun_wire::limits::CELL_BYTES_DEFAULT as usize)).map_err(
            |_| Failure::usage(format!("{bytes} bytes of arguments are beyond every limit")),
        )?,
    };
    Ok(request.cell_bytes(room))
}

fn call(function: &Function, bytes: &[u8], args: &Args) -> vfun::Result<Made> {
    let mut room = vec![0; function.info().max_args()];
    let mut times = Vec::with_capacity(args.repeat.min(timing::KEPT) as usize);
    let progress = args.repeat > 1 && !args.quiet && std::io::stderr().is_terminal();
    let start = Instant::now();
    let (mut len, mut said) = (0, start);
    for n in 0..args.repeat {
        let before = Instant::now();
        len = function.call_into(bytes, &mut room)?;
        let after = Instant::now();
        if (times.len() as u64) < timing::KEPT {
            times.push(after - before);
        }
        if progress && after - said > Duration::from_millis(200) {
            eprint!("\r{} of {} calls ", out::count(n), out::count(args.repeat));
            said = after;
        }
    }
    if progress && said != start {
        eprint!("\r\x1b[K");
    }
    let all = start.elapsed();
    room.truncate(len);
    Ok(Made { results: room, times, all })
}

/// An error with a code of the function's own: what its manifest says of that code.
fn with_meaning(e: vfun::Error, session: &Session, function: &str) -> Failure {
    let vfun::Error::Driver { code, .. } = e else { return e.into() };
    let failure = Failure::from(e);
    // A host that knows no meanings refuses the question: the call's error is the news.
    let codes = session.function_codes(function).unwrap_or_default();
    match codes.into_iter().find(|(c, _)| *c == code) {
        Some((_, means)) => failure.advise(format!("code {code} of {function} means: {means}")),
        None => failure,
    }
}

fn write(path: &std::path::Path, results: &[u8]) -> Result<()> {
    match path.to_str() {
        Some("-") => out::raw(results),
        _ => std::fs::write(path, results).map_err(|e| fail::file(path, "written", &e)),
    }
}

fn object(
    args: &Args,
    session: &Session,
    (location, service): (&str, WaitMode),
    arguments: usize,
    made: &Made,
    signature: Option<&Signature>,
) -> serde_json::Value {
    let mut value = serde_json::json!({
        "function": args.function,
        "path": session.describe(),
        "transport": session.info().transport.as_str(),
        "location": location,
        "wait": { "caller": args.wait, "service": service.text() },
        "argument_bytes": arguments,
        "result_bytes": made.results.len(),
        "calls": args.repeat,
        "ns": timing::object(&made.times, made.all),
    });
    if args.out.is_none() {
        value["hex"] = results::hex(&made.results).into();
        value["value"] = results::value(args.element.as_deref(), signature, &made.results);
    }
    value
}
