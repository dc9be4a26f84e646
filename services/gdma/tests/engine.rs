use gdma::edge::PoolMemory;
use gdma::engine::{Descriptor, Engine, global};
use std::sync::Arc;
#[test]
fn quick() {
    let mut e = Engine::new(1, 0).unwrap();
    let pools: Vec<_> = (0..2).map(|_| Arc::new(PoolMemory::new(16 << 20).unwrap())).collect();
    for n in 0..2 {
        e.set_memory(n + 1, pools[n as usize].clone());
        e.open_window(n, global(n + 1, 0), 16 << 20).unwrap();
    }
    e.write(gdma::registers::IRQ_ENABLE, 1).unwrap();
    let mut data = vec![0u8; 8 << 20];
    for (i, b) in data.iter_mut().enumerate() {
        *b = (i * 7 + i / 256) as u8;
    }
    pools[0].write(0, &data).unwrap();
    for (from, to, len) in [
        (0u64, 0u64, 8u32 << 20),
        (0, 0, 1),
        (3, 5, 1),
        (3, 5, 200),
        (5, 3, 200),
        (5, 3, 8192),
        (63, 1, 4096),
        (1, 63, 4096),
        (0, 0, 1 << 20),
    ] {
        pools[1].write(0, &vec![0; 9 << 20]).unwrap();
        let t = std::time::Instant::now();
        e.start(&Descriptor {
            source: global(1, from),
            destination: global(2, to),
            bytes: len,
            tag: 7,
        })
        .unwrap();
        let mut n = 0;
        while e.run(512) == 512 {
            n += 512;
            if n > 1000000 {
                panic!("stuck")
            }
        }
        let done = e.take().unwrap();
        let el = t.elapsed();
        println!(
            "{from} {to} {len}: {done:?} {el:?} {:.1} MB/s",
            len as f64 / el.as_secs_f64() / 1e6
        );
        let mut got = vec![0u8; len as usize + 2];
        pools[1].read(to, &mut got).unwrap();
        assert!(got[..len as usize] == data[from as usize..][..len as usize]);
        assert_eq!(got[len as usize], 0);
    }
    assert_eq!(e.violations(), 0);
}
