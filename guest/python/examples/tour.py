# %% [markdown]
# A tour of `virtfun`, cell by cell: open it in an editor that knows `# %%`, or
# run it whole. It needs a host: a VM with its window, or vfund on this machine.

# %% Connect: the best path there is, unless VFUN_ENDPOINT or an argument names one
import asyncio
import inspect
import time

import numpy as np

import virtfun

host = virtfun.connect(app="tour")
print(host.describe())
print([f["name"] for f in host.list()])

# %% Functions are attributes, with the signatures that their manifests declare
print(inspect.signature(host.factorial))
print(host.factorial(20))
print(host.fibonacci(n=93))
print(host.sha256(b"hello").hex())

# %% An ordinary array is copied once, to where the host reads it
x = np.linspace(0.0, 1.0, 1_000_000)
print(host.sum_f64(x))

# %% An array from `empty` lies there already: nothing is copied
y = host.sum_f64.empty(x.shape)
y[:] = x
for array in (x, y):
    start = time.perf_counter()
    host.sum_f64(array)
    print(f"{(time.perf_counter() - start) * 1e3:.2f} ms")

# %% Results are read where they lie, and give their cell back when collected
z = host.echo(y)
print(type(z), z.readonly, np.frombuffer(z)[:3])
del z

# %% Asynchronously


async def several() -> list[int]:
    return list(await asyncio.gather(*(host.factorial.acall(n) for n in range(5, 10))))


print(asyncio.run(several()))

# %% A refusal is an exception of its own class
try:
    host.function("no-such")
except virtfun.UnknownFunction as e:
    print(type(e).__name__, e.code, e)

# %% The end
del y
host.close()
