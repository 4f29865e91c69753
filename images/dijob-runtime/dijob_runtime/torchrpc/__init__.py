"""A message queue for DI-engine over torch.distributed.rpc: `--mq-type torchrpc:cpu`,
`torchrpc:cuda` or `torchrpc`.

Processes find each other as they do with nng. Each process listens on an address. It connects, with
retries, to the addresses of the peers that the topology selects (neighbours.py). Two connected
processes exchange the addresses of their RPC agents. A peer counts as alive as long as the
connection exists. So there is no rendezvous: peers may join at any time, and a peer that leaves is
logged and forgotten. torch's own init_rpc is not used, because it waits for a world of a fixed
size, and because a process that has left such a world cannot rejoin it.
"""
