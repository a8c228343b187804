"""Changes the last float of a safetensors file by 1.

    spoil_gradients.py FILE
"""

import pathlib
import struct
import sys

path = pathlib.Path(sys.argv[1])
data = bytearray(path.read_bytes())
(value,) = struct.unpack("<f", data[-4:])
data[-4:] = struct.pack("<f", value + 1)
path.write_bytes(data)
