"""DI-engine's message queue over torch.distributed.rpc: `--mq-type torchrpc:cpu`, `torchrpc:cuda`
or `torchrpc`.

Processes find each other as nng's do: each listens on an address and dials those that its topology
names, again and again until somebody answers (neighbours.py). What they tell each other there is
where their RPC agents listen, and as long as that connection stands the peer lives. So there is no
rendezvous to wait for, whoever comes later is welcome, and whoever goes is told of and forgotten:
torch's own init_rpc waits for a world of a fixed size and takes nobody back.
"""
