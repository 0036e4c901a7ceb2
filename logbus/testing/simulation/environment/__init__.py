"""What simulated processes run on: virtual time, memory network, memory disks, metadata store."""
