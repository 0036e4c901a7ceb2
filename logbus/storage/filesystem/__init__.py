"""Log directories on a real disk: files, I/O threads, the page cache, free space."""
