#!/usr/bin/env python3
"""A wire with a delay, for kernels without netem: two tun devices, and this
process, which reads what one sends and writes it to the other later.

    delayed_wire.py NAME NAME

Makes the devices in its own network, prints `up`, and reads from its standard
input, a line each, the seconds that a packet is on its way (at first none). Ends,
and the devices with it, when its input does.
"""

import collections
import fcntl
import os
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
LARGEST_PACKET = 65536


def open_device(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def main():
    first, second = devices = [open_device(name) for name in sys.argv[1:]]
    other = {first: second, second: first}
    waiting = collections.deque()  # (when it arrives, where, the packet), the earliest first
    delay = 0.0
    print("up", flush=True)
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([0, *devices], [], [], pause)
        for device in devices:
            while device in ready:
                try:
                    packet = os.read(device, LARGEST_PACKET)
                except OSError:  # nothing more, or the device is down
                    break
                waiting.append((time.monotonic() + delay, other[device], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, device, packet = waiting.popleft()
            try:
                os.write(device, packet)
            except OSError:  # a wire loses what nobody takes
                pass
        if 0 in ready:
            line = sys.stdin.readline()
            if not line:
                return
            delay = float(line)


if __name__ == "__main__":
    main()
