"""The process: ports, certificates, the data folder, timers, start and stop."""
