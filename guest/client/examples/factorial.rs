//! Calls the vFunction factorial: `cargo run -p vfun --example factorial -- [N [ENDPOINT]]`

use vfun::ConnectOptions;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let n: u64 = args.next().map_or(Ok(20), |n| n.parse())?;
    let endpoint = args.next().unwrap_or_else(|| "auto".into()).parse()?;

    let session = ConnectOptions::new("factorial-rs").endpoint(endpoint).connect()?;
    eprintln!("{}", session.describe());
    let factorial = session.function("factorial")?;

    let mut arguments = [0; 16];
    arguments[..8].copy_from_slice(&n.to_le_bytes());
    arguments[8..].copy_from_slice(&1u64.to_le_bytes()); // repetitions
    let mut result = [0; 8];
    let len = factorial.call_into(&arguments, &mut result)?;
    if len != result.len() {
        return Err(format!("the result has {len} bytes where 8 were due").into());
    }
    println!("{n}! = {}", u64::from_le_bytes(result));

    factorial.release()?;
    session.close()?;
    Ok(())
}
