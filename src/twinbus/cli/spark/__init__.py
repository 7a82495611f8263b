"""What `twinbus spark` does with its flags: sessions, jobs, what is printed."""
