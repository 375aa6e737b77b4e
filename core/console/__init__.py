"""What a person sees while Freshet works: log lines and a progress bar."""
