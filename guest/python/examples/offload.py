"""Four jobs that are worth a trip to the host: python offload.py [ENDPOINT]"""

import sys

import virtfun

with virtfun.connect(sys.argv[1] if len(sys.argv) > 1 else None, app="offload") as host:
    text = b"windows and functions " * 10_000
    print("zstd", str(len(host.zstd(3, text)) < 1000).lower(), "of", len(text))

    print("sha256", bytes(host.sha256(b"abc")).hex())

    small = host.resize(64, 48, 32, 24, bytes([0, 0, 255, 255]) * (64 * 48))
    print("resize", len(small), list(small[:4]))

    if "matmul_f32" in {f["name"] for f in host.list()}:
        import array

        print("matmul", [float(x) for x in host.matmul_f32(2, 2, 1, array.array("f", [1, 2, 3, 4]))])
