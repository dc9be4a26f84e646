//! Four jobs that are worth a trip to the host. `functions.rs` is made by
//! `vfun bindgen zstd sha256 resize matmul_f32 --lang rust`; this example does
//! without, to show what the stubs do: arguments lie one after the other,
//! little-endian, as docs/signatures.md has it.

use vfun::{ConnectOptions, FunctionRequest, Session};

/// Arguments: numbers, then an array.
fn arguments(numbers: &[u32], array: &[u8]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).chain(array.iter().copied()).collect()
}

fn call(session: &Session, name: &str, args: &[u8]) -> vfun::Result<Vec<u8>> {
    let request = FunctionRequest::new(name).cell_bytes(1 << 20).depth(1);
    session.negotiate(&request)?.activate()?.call(args)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = ConnectOptions::new("offload");
    if let Some(endpoint) = std::env::args().nth(1) {
        options = options.endpoint(endpoint.parse()?);
    }
    let session = options.connect()?;

    let text = b"windows and functions ".repeat(10_000);
    let packed = call(&session, "zstd", &arguments(&[3], &text))?;
    println!("zstd {} of {}", packed.len() < 1000, text.len());

    let digest = call(&session, "sha256", b"abc")?;
    println!("sha256 {}", digest.iter().map(|b| format!("{b:02x}")).collect::<String>());

    let blue = [0u8, 0, 255, 255].repeat(64 * 48);
    let small = call(&session, "resize", &arguments(&[64, 48, 32, 24], &blue))?;
    println!("resize {} {:?}", small.len(), &small[..4]);

    let both: Vec<u8> = [1f32, 2., 3., 4.].iter().flat_map(|x| x.to_le_bytes()).collect();
    let product = call(&session, "matmul_f32", &arguments(&[2, 2, 1], &both))?;
    let product: Vec<f32> =
        product.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect();
    println!("matmul {product:?}");
    Ok(())
}
