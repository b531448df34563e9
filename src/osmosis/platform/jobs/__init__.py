"""Work that is not a run: leased, executed in a child process, survives a restart."""
