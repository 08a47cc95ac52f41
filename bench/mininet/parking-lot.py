"""The benchmark's parking lot in Mininet: 90 pairs of hosts and 3 routers, up and down. Prints one line of JSON."""
import json
import time

from mininet.log import setLogLevel
from mininet.net import Mininet

setLogLevel('error')
started = time.monotonic()
net = Mininet(controller=None, build=False)
routers = [net.addHost(f'r{i}') for i in range(3)]
for a, b in zip(routers, routers[1:]):
    net.addLink(a, b)
for i in range(180):
    host = net.addHost(f'h{i}')
    # Sources at the first two routers, sinks at the last two, as in the parking lot.
    net.addLink(host, routers[(0, 1, 1, 2)[i % 4]])
net.build()
for router in routers:
    router.cmd('sysctl -qw net.ipv4.ip_forward=1')
up = time.monotonic()
net.stop()
print(json.dumps({'upS': up - started, 'downS': time.monotonic() - up}))
