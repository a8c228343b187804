"""Philox4x32-10 (Salmon et al., SC 2011), and how programs draw with it: see nn.uniform."""

import numpy as np

U = np.uint64
LOW = U(0xFFFFFFFF)

# Of the authors' library Random123 (kat_vectors): counter, key, result.
KNOWN_ANSWERS = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)  # fmt: skip


def philox(counter, key):
    """Four words; those of `counter` and `key` are arrays that broadcast."""
    c0, c1, c2, c3 = (np.asarray(word, U) for word in counter)
    k0, k1 = (np.asarray(word, U) for word in key)
    for _ in range(10):
        first, second = U(0xD2511F53) * c0, U(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (second >> U(32)) ^ c1 ^ k0, second & LOW, (first >> U(32)) ^ c3 ^ k1, first & LOW
        k0, k1 = (k0 + U(0x9E3779B9)) & LOW, (k1 + U(0xBB67AE85)) & LOW
    return np.broadcast_arrays(c0, c1, c2, c3)


def uniform(elements, samples, step, stream, seed=0, own=0):
    """Rows of `elements` numbers in [0, 1), one for each number of a sample. `seed` is
    the program's, `own` that of the operation."""
    key = (seed ^ own) & (2**64 - 1)
    blocks = -(-elements // 4)
    words = philox(
        (np.arange(blocks)[None], np.asarray(samples)[:, None], step, stream), (key & 0xFFFFFFFF, key >> 32)
    )
    drawn = np.concatenate(words, axis=1)[:, :elements]
    return ((drawn >> U(8)).astype(np.float64) * 2.0**-24).astype(np.float32)
