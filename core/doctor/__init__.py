"""What the doctor and the timer check and repair."""
